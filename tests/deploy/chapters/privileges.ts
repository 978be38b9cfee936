// Each role may do what it needs, and nothing else: tried with the role's own credentials where IAM is enforced.
//
// What it needs is what its policy says; that the policy says no more than that is asserted from the templates (infra/test), and
// that it is enough is shown by the next chapter, in which the functions do their work under these roles.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dynamodb, lambda } from '../../../infra/cli/aws.ts';
import { listedSecrets } from '../../../infra/feeds.ts';
import { readTemplate, templateNames } from '../../../infra/template.ts';
import { attempt, credentialsOf, forbidden, forgiveGetParameters, isAllowed, roleNames, statementsOf, UNTRIED, type Credentials } from '../roles.ts';
import { client, DEPLOY_MS, environment, functions, world } from '../world.ts';

/** How many forbidden calls are tried with each role, at least. */
const FORBIDDEN_AT_LEAST = 10;

const roles = templateNames().flatMap((n) => Object.entries(readTemplate(n).Resources).filter(([, r]) => r.Type === 'AWS::IAM::Role').map(([id]) => id));
const tried = new Map<string, Credentials>();

for (const id of roles) {
  test(`${id} is allowed what it needs and denied what it does not need`, { timeout: DEPLOY_MS }, async () => {
    const role = (await roleNames()).find((name) => name.includes(`-${id}-`));
    assert.ok(role, `${id} is not deployed`);
    const credentials = await credentialsOf(role);
    tried.set(id, credentials);

    const statements = await statementsOf(role);
    const denied: string[] = [];
    for (const { Action, Resource } of statements) {
      for (const action of [Action].flat()) {
        if (UNTRIED.has(action)) continue;
        for (const resource of [Resource].flat()) if (!(await isAllowed(() => attempt(credentials, action, resource)))) denied.push(`${action} on ${resource}`);
      }
    }
    assert.deepEqual(denied, [], 'it needs them');

    const invoked = statements.flatMap((s) => [s.Resource].flat());
    const stranger = functions.find(({ deployed }) => !invoked.some((arn) => arn.includes(`:${deployed}:`)) && !role.toLowerCase().includes(deployed.replace(/-local$/, '').replaceAll('-', '')))!;
    const attempts = forbidden(credentials, {
      table: tableOf(statements), fn: stranger.deployed, topic: world.outputs.AlarmTopicArn!, queueUrl: world.outputs.SlackFilesFailuresUrl!,
    });
    assert.ok(attempts.length >= FORBIDDEN_AT_LEAST);
    const allowed: string[] = [];
    for (const [what, call] of attempts) if (await isAllowed(call)) allowed.push(what);
    assert.deepEqual(allowed, [], 'it does not need them');
  });
}

/** The role's own table, so that what is denied is denied there too; any, if it has none. */
function tableOf(statements: { Resource: string | string[] }[]): string {
  const own = statements.flatMap((s) => [s.Resource].flat()).map((arn) => /:table\/([^/]+)$/.exec(arn)?.[1]).find((name) => name !== undefined);
  return own ?? 'slack-classify-bot-processed-events-local';
}

test('each secret that a function names is one that its role may read, and it may read no other', { timeout: DEPLOY_MS }, async () => {
  for (const { name, deployed } of functions) {
    const { Configuration } = await client().send(new lambda.GetFunctionCommand({ FunctionName: deployed }));
    const variables = Object.entries(Configuration!.Environment?.Variables ?? {}).filter(([k]) => k.endsWith('_PARAMETER')).map(([, v]) => v);
    const named = [...variables, ...listedSecrets(environment, name)].sort();
    const role = Configuration!.Role!.split('/').pop()!;
    const statements = (await statementsOf(role)).filter((s) => [s.Action].flat().includes('ssm:GetParameters'));
    const readable = statements.flatMap((s) => [s.Resource].flat()).map((arn) => arn.replace(/^.*:parameter/, '')).sort();
    assert.deepEqual(readable, named, deployed);
  }
});

test('the trial of privileges can tell allowed from denied', { timeout: DEPLOY_MS }, async () => {
  const db = new dynamodb.DynamoDBClient({ credentials: tried.get('SlackEventsRole')!, maxAttempts: 1 });
  const TableName = 'slack-classify-bot-processed-events-local';
  const Key = { event_key: { S: 'x' } };
  assert.equal(await isAllowed(() => db.send(new dynamodb.GetItemCommand({ TableName, Key }))), true);
  assert.equal(await isAllowed(() => db.send(new dynamodb.DeleteItemCommand({ TableName, Key }))), false);
  await assert.rejects(isAllowed(() => Promise.reject(new Error('something else'))), /something else/, 'what is neither is an error');
  for (const { deployed } of functions) {
    const { Configuration } = await client().send(new lambda.GetFunctionCommand({ FunctionName: deployed }));
    await forgiveGetParameters(Configuration!.Role!);
  }
});
