// Everything can be deployed, and answers.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import { test } from 'node:test';
import { cloudformation, dynamodb, ssm } from '../../../infra/cli/aws.ts';
import { described } from '../../../infra/cli/world.ts';
import { environments } from '../../../infra/environments.ts';
import { command, deploy, DEPLOY_MS, deployedVersion, functions, liveVersion, typed, versions } from '../world.ts';

const tables = async () => (await new dynamodb.DynamoDBClient({}).send(new dynamodb.ListTablesCommand({}))).TableNames ?? [];

/** Whether the stack of what holds data is protected against deletion. */
async function protection(): Promise<boolean> {
  const { Stacks } = await new cloudformation.CloudFormationClient({}).send(new cloudformation.DescribeStacksCommand({}));
  return Stacks?.find((s) => s.StackName === 'ichido-data-local')?.EnableTerminationProtection ?? false;
}

test('a deployment without its secrets and settings is refused, and all of them are named at once', { timeout: DEPLOY_MS }, async () => {
  const { code, text } = await command('deploy', { ENV: 'dev' });
  assert.notEqual(code, 0);
  const dev = described(environments.dev);
  for (const name of [...dev.secrets.map((s) => s.name), ...dev.needed.map((n) => n.parameter)]) assert.ok(text.includes(name), `${name} is not named in:\n${text}`);
});

test('a failed first deployment leaves nothing that stops the next one, though data is retained', { timeout: DEPLOY_MS }, async () => {
  const retain = { LOCAL_REMOVAL: 'retain', STACK: 'data' };
  const failed = await command('deploy', { ...retain, FAIL: 'data' });
  assert.notEqual(failed.code, 0, failed.text);
  assert.match(failed.text, /RehearsedFailure/, failed.text);
  assert.deepEqual([await tables(), await protection()], [[], false], 'nothing is left, and nothing is protected yet');

  const { code, text } = await command('deploy', retain);
  assert.equal(code, 0, text);
  assert.equal((await tables()).length, 6);
  assert.equal(await protection(), true, 'it is protected after its first success');

  const again = await command('deploy', { ...retain, FAIL: 'data' });
  assert.notEqual(again.code, 0, again.text);
  assert.deepEqual([(await tables()).length, await protection()], [6, true], 'what a former deployment created survives a failed one, protected throughout');
});

test('everything is deployed by the real CDK', { timeout: DEPLOY_MS }, async () => {
  await deploy(); // data is not retained now, so nothing is protected any more
  assert.equal(await protection(), false);
  for (const { deployed } of functions) {
    assert.deepEqual(await versions(deployed), ['1'], deployed);
    assert.deepEqual([await liveVersion(deployed), await deployedVersion(deployed)], ['1', '1'], deployed);
  }
});

test('a secret is set without being shown', { timeout: DEPLOY_MS }, async () => {
  const Name = '/ichido/local/slack/bot-token';
  const value = crypto.randomBytes(16).toString('hex');
  const { code, text } = await typed(`${value}\n`, 'secrets', { SECRET: Name });
  assert.equal(code, 0, text);
  assert.match(text, new RegExp(`set +${Name}`));
  assert.ok(!text.includes(value), 'it is not echoed');
  const { Parameter } = await new ssm.SSMClient({}).send(new ssm.GetParameterCommand({ Name, WithDecryption: true }));
  assert.deepEqual([Parameter?.Type, Parameter?.Value], ['SecureString', value]);
});

test('every table expires what its template says', { timeout: DEPLOY_MS }, async () => {
  const db = new dynamodb.DynamoDBClient({});
  assert.equal((await tables()).length, 6);
  for (const TableName of await tables()) {
    const { TimeToLiveDescription: d } = await db.send(new dynamodb.DescribeTimeToLiveCommand({ TableName }));
    assert.deepEqual([d?.TimeToLiveStatus, d?.AttributeName], ['ENABLED', 'ttl'], TableName);
  }
});
