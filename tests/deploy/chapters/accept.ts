// `make accept` proves here what can be proven here, says what cannot, and leaves nothing behind.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cloudwatch, scheduler, sqs } from '../../../infra/cli/aws.ts';
import { steps } from '../../../infra/accept/steps/index.ts';
import { command, DEPLOY_MS, functions, liveVersion } from '../world.ts';

/** What no local AWS can show; docs/verification.md names it. */
const ONLY_ON_AWS = ['backups', 'cold-starts', 'weights'];

test('make accept proves every step that can be proven here, and nothing else', { timeout: DEPLOY_MS * 2 }, async () => {
  const before = await Promise.all(functions.map((f) => liveVersion(f.deployed)));
  const { code, text } = await command('accept');
  assert.equal(code, 0, text);
  const lines = text.split('\n');
  for (const { name } of steps) {
    const verdict = ONLY_ON_AWS.includes(name) ? 'not provable here' : 'proven';
    assert.ok(lines.some((l) => l.replace(/ {2,}/g, '  ').startsWith(`${verdict}  ${name} `)), `${name} is not told as "${verdict}":\n${text}`);
  }
  // The steps, and the clean-up.
  assert.match(text, new RegExp(`^${steps.length + 1 - ONLY_ON_AWS.length} proven, ${ONLY_ON_AWS.length} not provable here, 0 failed$`, 'm'));

  assert.deepEqual(await Promise.all(functions.map((f) => liveVersion(f.deployed))), before, 'live is where it was');
  const { Schedules } = await new scheduler.SchedulerClient({}).send(new scheduler.ListSchedulesCommand({ NamePrefix: 'accept-' }));
  assert.deepEqual(Schedules ?? [], []);
  const { QueueUrls } = await new sqs.SQSClient({}).send(new sqs.ListQueuesCommand({ QueueNamePrefix: 'accept-' }));
  assert.deepEqual(QueueUrls ?? [], []);
  const { MetricAlarms } = await new cloudwatch.CloudWatchClient({}).send(new cloudwatch.DescribeAlarmsCommand({ StateValue: 'ALARM' }));
  assert.deepEqual(MetricAlarms ?? [], []);
});

test('make accept refuses prod, an unknown step, and a deployment that differs from the directory', { timeout: DEPLOY_MS }, async () => {
  for (const [variables, said] of [
    [{ ENV: 'prod' }, /rings every alarm and deploys three times/],
    [{ STEPS: 'alarm' }, /there is no step alarm; the steps are functions, /],
    [{ NOTE: 'elsewhere' }, /local differs from this directory/],
  ] as [Record<string, string>, RegExp][]) {
    const { code, text } = await command('accept', variables);
    assert.notEqual(code, 0, text);
    assert.match(text, said);
  }
});
