// Deployments publish versions and move no traffic.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { lambda } from '../../../infra/cli/aws.ts';
import { binaries, client, command, deploy, DEPLOY_MS, functions, liveVersion, versions } from '../world.ts';

test('a changed function gets a new version, and the traffic stays where it was', { timeout: DEPLOY_MS }, async () => {
  fs.appendFileSync(path.join(binaries, 'slack-events', 'bootstrap'), '\n'); // after the end of an ELF file: another file, the same program
  const text = await deploy();
  assert.match(text, /make rollout/, 'and says how it gets there');
  for (const { deployed, name } of functions) {
    assert.deepEqual(await versions(deployed), name === 'slack-events' ? ['1', '2'] : ['1'], deployed);
    assert.equal(await liveVersion(deployed), '1', deployed);
  }
});

test('a deployment without a change publishes nothing and keeps what a rollout made live', { timeout: DEPLOY_MS }, async () => {
  await client().send(new lambda.UpdateAliasCommand({ FunctionName: 'slack-events-local', Name: 'live', FunctionVersion: '2' }));
  const text = await deploy();
  assert.doesNotMatch(text, /make rollout/, 'nothing waits');
  for (const { deployed, name } of functions) {
    assert.deepEqual(await versions(deployed), name === 'slack-events' ? ['1', '2'] : ['1'], deployed);
    assert.equal(await liveVersion(deployed), name === 'slack-events' ? '2' : '1', deployed);
  }
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
