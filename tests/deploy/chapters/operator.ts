// `ichidoctl schedules`, `keys`, `dead-letters`, `trace` and `console`: what an operator does by hand, on what is deployed.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { test } from 'node:test';
import { cloudwatch, scheduler, sqs } from '../../../infra/cli/aws.ts';
import { fileEvent, sign } from '../../../infra/accept/slack-event.ts';
import { DEPLOY_MS, EFFECT_MS, functions, post, run, signingSecret, until, world, ichidoctl } from '../world.ts';

const ctl = (...args: string[]) => run(ichidoctl, [...args, '--env', 'local']);
/** What was printed. The tool writes one line per change to standard error. */
const json = async (...args: string[]): Promise<any> => {
  const { text } = await ctl(...args, '--json');
  try { return JSON.parse(text); } catch { throw new Error(`${args.join(' ')}: ${text}`); }
};

test('a schedule is paused, slowed and resumed, everything else of it stays, and its alarms page nobody meanwhile', { timeout: DEPLOY_MS }, async () => {
  const Name = 'hatebu-feed-subscriber-schedule-local';
  const schedules = new scheduler.SchedulerClient({});
  const read = async () => {
    const { $metadata, LastModificationDate, ...schedule } = await schedules.send(new scheduler.GetScheduleCommand({ Name }));
    return schedule;
  };
  /** Whether the alarms on the schedule's function page somebody. */
  const paging = async () => {
    const { MetricAlarms } = await new cloudwatch.CloudWatchClient({}).send(new cloudwatch.DescribeAlarmsCommand({}));
    const watching = MetricAlarms!.filter((a) => a.Dimensions?.some((d) => d.Value === 'hatebu-subscriber-local'));
    assert.ok(watching.length > 0);
    return [...new Set(watching.map((a) => a.ActionsEnabled))];
  };
  const before = await read();
  const listed = await json('schedules', 'list');
  assert.deepEqual(listed.map((s: any) => s.name), ['feed-further-local', 'github-feed-subscriber-schedule-local', Name, 'mesh-api-key-schedule-local'], 'ours, and nobody else\'s');
  for (const [args, change] of [
    [['pause', 'hatebu-feed-subscriber-schedule'], { State: 'DISABLED' }],
    [['rate', 'hatebu-subscriber', '1 hour'], { State: 'DISABLED', ScheduleExpression: 'rate(1 hour)' }],
    [['resume', Name], { ScheduleExpression: 'rate(1 hour)' }],
    [['rate', Name, before.ScheduleExpression!], {}],
  ] as const) {
    const { code, text } = await ctl('schedules', ...args);
    assert.equal(code, 0, text);
    assert.deepEqual(await read(), { ...before, ...change }, args.join(' '));
    assert.deepEqual(await paging(), [!('State' in change)], args.join(' '));
  }
});

test('an event is traced from the request to its reply, and its keys are shown', { timeout: DEPLOY_MS }, async () => {
  const seconds = Math.floor(Date.now() / 1000);
  const body = fileEvent('Ev000OPERATOR', 'F000OPERATOR', seconds);
  const posted = world.slack.posts().length;
  assert.equal((await post('/slack/events', body, sign(signingSecret, body, seconds))).status, 200);
  await until(EFFECT_MS, async () => world.slack.posts().length > posted);
  const key = await until(EFFECT_MS, async () => {
    const { keys } = await json('keys', 'list', 'slack', '--prefix', 'FILE#', '--state', 'completed');
    return keys.map((k: any) => k.key as string).find((k: string) => k.endsWith('#F000OPERATOR'));
  });
  const event = await json('keys', 'show', 'slack', 'Ev000OPERATOR');
  assert.deepEqual([event.state, event.attempts, event.attributes.file_id], ['completed', 1, 'F000OPERATOR']);
  const story = await until(EFFECT_MS, async () => {
    const told = await json('trace', 'Ev000OPERATOR');
    return told.lines.some((line: any) => line.message === 'handled file F000OPERATOR of event Ev000OPERATOR: replied') && told;
  });
  assert.deepEqual([...new Set(story.lines.map((line: any) => line.function))].sort(), ['slack-events-local', 'slack-files-local']);
  assert.deepEqual(story.records.map((r: any) => r.key), ['Ev000OPERATOR', key]);
  assert.equal((await ctl('trace', 'Ev0000NOBODY')).code, 1);
});

test('dead letters are listed, deleted when they were sent again, and dropped', { timeout: DEPLOY_MS }, async () => {
  const queues = new sqs.SQSClient({ useQueueUrlAsEndpoint: false });
  const QueueUrl = world.outputs.SlackFilesFailuresUrl;
  // A message as Lambda writes it; the local AWS ignores the invoke configuration of an alias.
  const giveUp = (requestId: string, file: string) => queues.send(new sqs.SendMessageCommand({ QueueUrl, MessageBody: JSON.stringify({
    version: '1.0', timestamp: new Date().toISOString(),
    requestContext: { requestId, functionArn: 'arn:aws:lambda:ap-northeast-1:000000000000:function:slack-files-local:live', condition: 'RetriesExhausted', approximateInvokeCount: 3 },
    requestPayload: { event_key: `Ev_${file}`, team: 'T0001', channel: 'C0001', ts: `${Math.floor(Date.now() / 1000)}.000200`, files: [{ id: file, name: 'report.pdf' }] },
    responseContext: { statusCode: 200, executedVersion: '1', functionError: 'Unhandled' }, responsePayload: { errorType: 'Slack', errorMessage: 'Slack did not answer' },
  }) }));
  const letters = async () => (await json('dead-letters', 'list', 'slack')).deadLetters as any[];
  const mine = async () => (await letters()).map((letter) => letter.id as string).filter((id) => id.startsWith('operator-')).sort();
  await giveUp('operator-1', 'F1GIVENUP');
  await giveUp('operator-2', 'F2GIVENUP');
  assert.deepEqual(await mine(), ['operator-1', 'operator-2']);
  const first = (await letters()).find((letter) => letter.id === 'operator-1');
  assert.deepEqual([first.attempts, first.reason, first.function], [3, 'Slack: Slack did not answer', 'slack-files-local']);

  const posted = world.slack.posts().length;
  assert.notEqual((await ctl('dead-letters', 'redrive', 'slack', 'operator-1')).code, 0, 'nobody was asked');
  const sent = await ctl('dead-letters', 'redrive', 'slack', 'operator-1', '--yes');
  assert.equal(sent.code, 0, sent.text);
  await until(EFFECT_MS, async () => world.slack.posts().length === posted + 1);
  assert.deepEqual(await mine(), ['operator-2']);
  const dropped = await ctl('dead-letters', 'drop', 'slack', 'operator-2', '--yes');
  assert.equal(dropped.code, 0, dropped.text);
  assert.deepEqual(await mine(), []);
});

test('the console shows what is deployed, and changes only what is as it was shown', { timeout: DEPLOY_MS }, async () => {
  const child = spawn(ichidoctl, ['console', '--env', 'local', '--allow-changes'], { stdio: ['ignore', 'pipe', 'ignore'], env: { ...world.env() } });
  try {
    const address = await new Promise<string>((resolve, reject) => {
      let said = '';
      child.stdout.on('data', (part) => { said += part; const found = / is at (http:\S+)/.exec(said); if (found) resolve(found[1]!); });
      child.once('exit', (code) => reject(new Error(`the console ended with ${code}: ${said}`)));
    });
    const ask = async (path: string): Promise<any> => {
      const response = await fetch(`${address}_console/${path}`);
      const text = await response.text();
      assert.equal(response.status, 200, `${path}: ${text}`);
      return JSON.parse(text);
    };
    const change = async (body: object) => (await fetch(`${address}_console/changes`, { method: 'POST', headers: { 'x-ichido-console': '1' }, body: JSON.stringify(body) })).status;

    const frame = await ask('frame');
    assert.deepEqual([frame.environment, frame.identity], ['local', 'arn:aws:iam::000000000000:root']);
    const life = await ask('keys/events/Ev000OPERATOR');
    assert.deepEqual([life.attempts.length, life.records[0].state], [1, 'completed'], JSON.stringify(life));
    assert.equal((await ask('keys?text=Ev000OPERATOR')).keys.length, 1);
    assert.equal((await ask('overview?minutes=15')).rates.arrived.length, 15);
    assert.ok((await ask('alarms')).length > 20);
    assert.equal((await ask('rollouts')).functions.length, functions.length);
    assert.deepEqual((await ask('dead-letters')).unread, []);

    const name = 'hatebu-feed-subscriber-schedule-local';
    const enabled = async () => (await ask('schedules')).find((schedule: any) => schedule.name === name).enabled;
    assert.equal(await change({ action: 'resume-schedule', name }), 409, 'it is not paused');
    for (const [action, after] of [['pause-schedule', false], ['resume-schedule', true]] as const) {
      assert.equal(await change({ action, name }), 200, action);
      assert.equal(await enabled(), after, action);
    }
    const { operations } = await json('operations', 'hatebu');
    assert.equal(operations.at(-1).by, frame.identity);
  } finally {
    child.kill();
  }
});
