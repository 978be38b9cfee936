// A table that exists is taken over with what is in it (docs/taking-over.md). Nothing is deployed when this begins: `end` has destroyed everything.
// Without IMPORT=1 CloudFormation refuses to create it. The local AWS does not refuse, so that is not tested here.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cloudformation, dynamodb } from '../../../infra/cli/aws.ts';
import { command, DEPLOY_MS } from '../world.ts';

const TableName = 'slack-classify-bot-processed-events-local';
const STACK = 'ichido-data-local';
const kept = { LOCAL_REMOVAL: 'retain', STACK: 'data' };
const db = new dynamodb.DynamoDBClient({});
const item = { event_key: { S: 'Ev0000BEFORE' }, processed_at: { N: '1767225600' }, ttl: { N: '4102444800' } };

const found = async () => (await db.send(new dynamodb.GetItemCommand({ TableName, Key: { event_key: item.event_key } }))).Item;
const tables = async () => (await db.send(new dynamodb.ListTablesCommand({}))).TableNames ?? [];
const owned = async () => {
  const { StackResources } = await new cloudformation.CloudFormationClient({}).send(new cloudformation.DescribeStackResourcesCommand({ StackName: STACK }));
  return StackResources?.find((resource) => resource.LogicalResourceId === 'ProcessedEventsTable')?.PhysicalResourceId;
};

test('an environment whose tables are not kept does not import', { timeout: DEPLOY_MS }, async () => {
  const { code, text } = await command('deploy', { STACK: 'data', IMPORT: '1' });
  assert.notEqual(code, 0, text);
  assert.match(text, /IMPORT=1 .*removal: 'retain'/, text);
});

test('IMPORT=1 takes the table over with its items, and the next deployment needs no IMPORT=1', { timeout: DEPLOY_MS }, async () => {
  await db.send(new dynamodb.CreateTableCommand({
    TableName, BillingMode: 'PAY_PER_REQUEST', AttributeDefinitions: [{ AttributeName: 'event_key', AttributeType: 'S' }], KeySchema: [{ AttributeName: 'event_key', KeyType: 'HASH' }],
  }));
  await db.send(new dynamodb.PutItemCommand({ TableName, Item: item }));
  const imported = await command('deploy', { ...kept, IMPORT: '1' });
  assert.equal(imported.code, 0, imported.text);
  assert.deepEqual([await owned(), await found(), (await tables()).length], [TableName, item, 6], 'it is taken over, and the others are created');
  const again = await command('deploy', kept);
  assert.equal(again.code, 0, again.text);
  assert.deepEqual([await owned(), await found()], [TableName, item]);
});
