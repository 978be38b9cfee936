// Deployments publish versions and move no traffic.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lambda } from '../../../infra/cli/aws.ts';
import { changeCode, client, command, deploy, DEPLOY_MS, deployedVersion, functions, liveVersion, run, versions, ichidoctl } from '../world.ts';


const fn = 'slack-events-local';

/** Every function has one version, and slack-events has these. */
async function published(...of: string[]) {
  for (const { deployed } of functions) assert.deepEqual(await versions(deployed), deployed === fn ? of : ['1'], deployed);
}

/** What is live, and what a rollout would make live. */
const standing = async () => [await liveVersion(fn), await deployedVersion(fn)];

test('a changed function gets a new version, and the traffic stays where it was', { timeout: DEPLOY_MS }, async () => {
  changeCode('slack-events');
  const text = await deploy();
  assert.match(text, /slack-events-local: version 2, live is 1/, 'and says that a rollout is to follow');
  await published('1', '2');
  assert.deepEqual(await standing(), ['1', '2']);
});

test('a deployment without a change publishes nothing and keeps what a rollout made live', { timeout: DEPLOY_MS }, async () => {
  await client().send(new lambda.UpdateAliasCommand({ FunctionName: fn, Name: 'live', FunctionVersion: '2' }));
  const text = await deploy();
  assert.doesNotMatch(text, /make rollout/, 'nothing waits');
  await published('1', '2');
  assert.deepEqual(await standing(), ['2', '2']);
});

test('a deployment that fails after it has changed functions leaves live where a rollout put it', { timeout: DEPLOY_MS }, async () => {
  const codeOf = async (Qualifier?: string) => (await client().send(new lambda.GetFunctionConfigurationCommand({ FunctionName: fn, Qualifier }))).CodeSha256;
  changeCode('slack-events');
  const { code, text } = await command('deploy', { FAIL: 'service' });
  assert.notEqual(code, 0, text);
  const changed = text.indexOf('SlackEventsFunction');
  assert.ok(changed >= 0 && changed < text.indexOf('RehearsedFailure '), `the function was changed before the deployment failed:\n${text}`);
  await published('1', '2');
  assert.deepEqual(await standing(), ['2', '2'], 'and a rollout has nothing new to move to');
  assert.equal(await codeOf(), await codeOf('2'), 'the function is what it was');
});

test('what somebody published by hand is not what a rollout moves to', { timeout: DEPLOY_MS }, async () => {
  await client().send(new lambda.UpdateFunctionConfigurationCommand({ FunctionName: fn, MemorySize: 300 }));
  const { Version } = await client().send(new lambda.PublishVersionCommand({ FunctionName: fn }));
  await client().send(new lambda.UpdateFunctionConfigurationCommand({ FunctionName: fn, MemorySize: 256 }));
  assert.equal(Version, '3');
  const { code, text } = await run(ichidoctl, ['rollout', '--env', 'local', '--plan', '--function', 'slack-events']);
  assert.equal(code, 0, text);
  assert.match(text, /slack-events-local {2}version 2, nothing to do/);
});

test('the retry of a failed deployment succeeds, and a rollout moves to what the retry published', { timeout: DEPLOY_MS }, async () => {
  const text = await deploy();
  assert.match(text, /slack-events-local: version 4, live is 2/);
  await published('1', '2', '3', '4');
  assert.deepEqual(await standing(), ['2', '4']);
  const plan = await run(ichidoctl, ['rollout', '--env', 'local', '--plan', '--function', 'slack-events']);
  assert.match(plan.text, /slack-events-local {2}version 2 -> 4/);
  const diff = await command('show', {}, 'diff');
  assert.match(diff.text, /live {2}slack-events-local: version 2 \(version 4 waits for a rollout\)/);
});

test('after a deployment there is nothing to deploy', { timeout: DEPLOY_MS }, async () => {
  const { code, text } = await command('show', {}, 'diff');
  assert.equal(code, 0, text);
  assert.match(text, /Number of stacks with differences: 0/);
});

test('a deployment during a rollout is refused', { timeout: DEPLOY_MS }, async () => {
  const shift = (weights: Record<string, number>) => client().send(new lambda.UpdateAliasCommand({
    FunctionName: 'slack-events-local', Name: 'live', FunctionVersion: '2', RoutingConfig: { AdditionalVersionWeights: weights },
  }));
  await shift({ 1: 0.1 });
  const { code, text } = await command('deploy');
  await shift({});
  assert.notEqual(code, 0);
  assert.match(text, /rollout is in progress \(slack-events-local\)/);
});
