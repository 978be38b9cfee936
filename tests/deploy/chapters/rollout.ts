// `ichidoctl rollout` and `rollback`: the calls that move traffic, with the alias read back. All paths of the decision are explored
// in crates/ops; here Lambda's and CloudWatch's answers matter. The local AWS stores weights and does not follow them.
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import readline from 'node:readline';
import { test } from 'node:test';
import { cloudwatch, lambda } from '../../../infra/cli/aws.ts';
import { root } from '../../../infra/template.ts';
import { forgiveGetParameters } from '../roles.ts';
import { client, command, DEPLOY_MS, run, until, EFFECT_MS, world, ichidoctl } from '../world.ts';

const fn = 'slack-events-local';
const alarm = 'slack-events-errors-local';
/** The versions that the chapter before leaves behind: what was live, and what was deployed last. */
const OLD = '2';
const NEW = '4';
/** A bake that ends within the test; one tick lasts one second on the local AWS. */
const SHORT = ['--steps', '10,50,100', '--bake', '5'];
/** A bake that something else ends. */
const LONG = ['--steps', '10,50,100', '--bake', '600'];

interface Event { event: string; function: string; percent?: number; outcome?: string; why?: string }

/** A rollout whose events can be awaited. */
class Rollout {
  readonly events: Event[] = [];
  readonly child: ChildProcess;
  readonly code: Promise<number | null>;
  text = '';

  constructor(...args: string[]) {
    this.child = spawn(ichidoctl, ['rollout', '--env', 'local', '--json', ...args], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'], timeout: DEPLOY_MS, env: world.env() });
    readline.createInterface({ input: this.child.stdout! }).on('line', (line) => this.events.push(JSON.parse(line) as Event));
    this.child.stderr!.on('data', (d) => (this.text += d));
    this.code = new Promise((resolve) => this.child.on('close', resolve));
  }

  /** Waits until this much traffic has moved. */
  moved(percent: number): Promise<Event> {
    return until(EFFECT_MS, async () => this.events.find((e) => e.event === 'moved' && e.percent === percent), () => {
      if (this.child.exitCode !== null) throw new Error(`it ended: ${this.text} ${JSON.stringify(this.events)}`);
    });
  }

  ended(): Event | undefined {
    return this.events.find((e) => e.event === 'ended');
  }
}

const alias = () => client().send(new lambda.GetAliasCommand({ FunctionName: fn, Name: 'live' }));
const weights = async () => (await alias()).RoutingConfig?.AdditionalVersionWeights ?? {};
const ring = (StateValue: 'OK' | 'ALARM') => new cloudwatch.CloudWatchClient({}).send(new cloudwatch.SetAlarmStateCommand({ AlarmName: alarm, StateValue, StateReason: 'a test' }));

/** All traffic on the old version, as if the new one had just been deployed. */
async function fresh() {
  await client().send(new lambda.UpdateAliasCommand({ FunctionName: fn, Name: 'live', FunctionVersion: OLD, RoutingConfig: { AdditionalVersionWeights: {} }, Description: '' }));
}

test('a plan says what would happen, and nothing happens', { timeout: DEPLOY_MS }, async () => {
  const { Configuration } = await client().send(new lambda.GetFunctionCommand({ FunctionName: fn }));
  await forgiveGetParameters(Configuration!.Role!); // a version that cannot read its secrets is not healthy, and gets no traffic
  await fresh();
  const { code, text } = await run(ichidoctl, ['rollout', '--env', 'local', '--plan']);
  assert.equal(code, 0, text);
  assert.match(text, new RegExp(`slack-events-local {2}version ${OLD} -> ${NEW}`));
  assert.match(text, /slack-files-local {2}version 1, nothing to do/);
  assert.match(text, /slack-events-errors-local/, 'and what is watched');
  assert.equal((await alias()).FunctionVersion, OLD);
});

test('a rollout goes from one version to the next, step by step', { timeout: DEPLOY_MS }, async () => {
  const rollout = new Rollout(...SHORT);
  // Held still while the alias is read: the step that was told of is the one that is there.
  const readBack = async (percent: number) => {
    await rollout.moved(percent);
    rollout.child.kill('SIGSTOP');
    const there = await alias();
    rollout.child.kill('SIGCONT');
    return there;
  };
  for (const percent of [10, 50]) {
    const there = await readBack(percent);
    assert.equal(there.FunctionVersion, OLD);
    assert.deepEqual(there.RoutingConfig?.AdditionalVersionWeights, { [NEW]: percent / 100 });
    assert.match(there.Description!, new RegExp(`^rollout ${OLD} -> ${NEW} at ${percent} %`));
  }
  const last = await readBack(100);
  assert.deepEqual([last.FunctionVersion, last.RoutingConfig?.AdditionalVersionWeights ?? {}], [NEW, {}]);
  assert.match(last.Description!, new RegExp(`^rollout ${OLD} -> ${NEW} at 100 %`));

  assert.equal(await rollout.code, 0, rollout.text);
  assert.equal(rollout.ended()?.outcome, 'finished');
  assert.deepEqual(rollout.events.filter((e) => e.event === 'moved').map((e) => e.percent), [10, 50, 100]);
  assert.ok(rollout.events.findIndex((e) => e.event === 'healthy') < rollout.events.findIndex((e) => e.event === 'moved'), 'the new version was asked for its health first');
  assert.match((await alias()).Description!, new RegExp(`^live ${NEW}, before it ${OLD};`));
});

test('a rollback returns to the version before, once', { timeout: DEPLOY_MS }, async () => {
  const rollback = (...args: string[]) => run(ichidoctl, ['rollback', '--env', 'local', ...args]);
  const all = await rollback('--plan');
  assert.match(all.text, new RegExp(`slack-events-local {2}version ${NEW} -> ${OLD}`), 'without a name, what the last rollout moved');
  for (const said of [`BACK on version ${OLD} from ${NEW}`, `version ${OLD} already has all traffic`]) {
    const { code, text } = await rollback('--function', 'slack-events');
    assert.equal(code, 0, text);
    assert.match(text, new RegExp(said));
    assert.equal((await alias()).FunctionVersion, OLD);
  }
});

test('a rollout goes back by itself when an alarm rings', { timeout: DEPLOY_MS }, async () => {
  await fresh();
  const rollout = new Rollout(...LONG);
  await rollout.moved(10);
  await ring('ALARM');
  assert.equal(await rollout.code, 1, rollout.text);
  assert.deepEqual([(await alias()).FunctionVersion, await weights()], [OLD, {}]);
  assert.equal(rollout.ended()?.outcome, 'wentBack');
  assert.match(rollout.ended()!.why!, /slack-events-errors-local/, 'and says why');
  assert.match((await alias()).Description!, new RegExp(`^live ${OLD}, back from ${NEW}; .*slack-events-errors-local`));

  const again = new Rollout(...LONG);
  assert.equal(await again.code, 1);
  assert.equal(again.ended()?.outcome, 'notStarted', 'and does not begin while it rings');
  await ring('OK');
});

test('Ctrl-C goes back', { timeout: DEPLOY_MS }, async () => {
  const rollout = new Rollout(...LONG);
  await rollout.moved(10);
  rollout.child.kill('SIGINT');
  assert.equal(await rollout.code, 1, rollout.text);
  assert.deepEqual([(await alias()).FunctionVersion, await weights()], [OLD, {}]);
  assert.match(rollout.ended()!.why!, /Ctrl-C/);
});

test('while one rollout is under way, another and a deployment are refused', { timeout: DEPLOY_MS }, async () => {
  const first = new Rollout(...LONG);
  await first.moved(10);
  const second = new Rollout(...LONG);
  assert.notEqual(await second.code, 0);
  assert.match(second.ended()?.why ?? '', /another rollout/, JSON.stringify(second.events));
  const deployment = await command('deploy', {}, '--check');
  assert.notEqual(deployment.code, 0);
  assert.match(deployment.text, /rollout is in progress \(slack-events-local\)/);
  assert.deepEqual(await weights(), { [NEW]: 0.1 }, 'and the first one goes on');
  first.child.kill('SIGKILL');
  await first.code;
});

test('killed, the same command goes on', { timeout: DEPLOY_MS }, async () => {
  assert.deepEqual(await weights(), { [NEW]: 0.1 }, 'where the one before was killed');
  const rollout = new Rollout(...SHORT);
  assert.equal(await rollout.code, 0, rollout.text);
  assert.equal(rollout.ended()?.outcome, 'finished', JSON.stringify(rollout.events));
  assert.deepEqual(rollout.events.filter((e) => e.event === 'moved').map((e) => e.percent), [50, 100]);
  assert.deepEqual([(await alias()).FunctionVersion, await weights()], [NEW, {}]);
});

test('in its last bake too a deployment is refused, and an abort goes back', { timeout: DEPLOY_MS }, async () => {
  await fresh();
  const rollout = new Rollout('--steps', '100', '--bake', '600');
  await rollout.moved(100);
  rollout.child.kill('SIGKILL');
  await rollout.code;
  const deployment = await command('deploy', {}, '--check');
  assert.match(deployment.text, /rollout is in progress \(slack-events-local\)/);
  const { code, text } = await run(ichidoctl, ['rollout', '--env', 'local', '--abort']);
  assert.equal(code, 0, text);
  assert.match(text, new RegExp(`BACK on version ${OLD} from ${NEW}`));
  assert.deepEqual([(await alias()).FunctionVersion, await weights()], [OLD, {}]);
});

// This test is the last: CloudWatch's shortest period is one minute, so the errors of this test would count against the next rollout too.
test('a rollout goes back by itself when the new version fails more than now and then', { timeout: DEPLOY_MS }, async () => {
  await fresh();
  const metrics = new cloudwatch.CloudWatchClient({});
  const Dimensions = [{ Name: 'FunctionName', Value: fn }, { Name: 'Resource', Value: `${fn}:live` }, { Name: 'ExecutedVersion', Value: NEW }];
  const put = (MetricName: string, Value: number) => metrics.send(new cloudwatch.PutMetricDataCommand({ Namespace: 'AWS/Lambda', MetricData: [{ MetricName, Dimensions, Value, Unit: 'Count' }] }));
  // The local AWS ignores an alarm's dimensions and would ring it. This test is about the version's own errors.
  const rollout = new Rollout(...LONG, '--despite', 'slack-events-errors');
  await rollout.moved(10);
  await put('Invocations', 40);
  await put('Errors', 4);
  assert.equal(await rollout.code, 1, rollout.text);
  assert.match(rollout.ended()!.why!, /4 of \d+ invocations of the new version failed/);
  assert.deepEqual([(await alias()).FunctionVersion, await weights()], [OLD, {}]);
  // as it was found
  const { MetricAlarms } = await metrics.send(new cloudwatch.DescribeAlarmsCommand({ StateValue: 'ALARM' }));
  for (const { AlarmName } of MetricAlarms ?? []) await metrics.send(new cloudwatch.SetAlarmStateCommand({ AlarmName, StateValue: 'OK', StateReason: 'a test is over' }));
  await client().send(new lambda.UpdateAliasCommand({ FunctionName: fn, Name: 'live', FunctionVersion: NEW, Description: '' }));
});
