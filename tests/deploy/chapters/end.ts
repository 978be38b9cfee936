// Everything is removed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dynamodb, lambda } from '../../../infra/cli/aws.ts';
import { client, command, DEPLOY_MS } from '../world.ts';

test('a destroyed environment leaves nothing behind', { timeout: DEPLOY_MS }, async () => {
  const { code, text } = await command('destroy');
  assert.equal(code, 0, text);
  const { TableNames } = await new dynamodb.DynamoDBClient({}).send(new dynamodb.ListTablesCommand({}));
  assert.deepEqual(TableNames, []);
  const { Functions } = await client().send(new lambda.ListFunctionsCommand({}));
  assert.deepEqual(Functions, []);
});
