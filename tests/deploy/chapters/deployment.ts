// Everything can be deployed, and answers.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import { test } from 'node:test';
import { dynamodb, ssm } from '../../../infra/cli/aws.ts';
import { described } from '../../../infra/cli/world.ts';
import { environments } from '../../../infra/environments.ts';
import { command, deploy, DEPLOY_MS, functions, liveVersion, typed, versions } from '../world.ts';

test('a deployment without its secrets and settings is refused, and all of them are named at once', { timeout: DEPLOY_MS }, async () => {
  const { code, text } = await command('deploy', { ENV: 'dev' });
  assert.notEqual(code, 0);
  const dev = described(environments.dev);
  for (const name of [...dev.secrets.map((s) => s.name), ...dev.needed.map((n) => n.parameter)]) assert.ok(text.includes(name), `${name} is not named in:\n${text}`);
});

test('everything is deployed by the real CDK', { timeout: DEPLOY_MS }, async () => {
  await deploy();
  for (const { deployed } of functions) {
    assert.deepEqual(await versions(deployed), ['1'], deployed);
    assert.equal(await liveVersion(deployed), '1', deployed);
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
  const { TableNames } = await db.send(new dynamodb.ListTablesCommand({}));
  assert.equal(TableNames?.length, 5);
  for (const TableName of TableNames ?? []) {
    const { TimeToLiveDescription: d } = await db.send(new dynamodb.DescribeTimeToLiveCommand({ TableName }));
    assert.deepEqual([d?.TimeToLiveStatus, d?.AttributeName], ['ENABLED', 'ttl'], TableName);
  }
});
