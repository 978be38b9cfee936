// docs/restoring.md, carried out: a table loses items, and the commands of the document bring them back. Nothing is posted twice, nothing is lost.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import * as aws from '../../../infra/cli/aws.ts';
import { root } from '../../../infra/template.ts';
import { tokenFor } from '../../../infra/accept/issuer.ts';
import { DEPLOY_MS, invoke, post, request, run, world, ichidoctl } from '../world.ts';

const { dynamodb } = aws;
const page = fs.readFileSync(path.join(root, 'docs', 'restoring.md'), 'utf8');
const db = new dynamodb.DynamoDBClient({});

/** The commands that a section of the document marks as `sh`. */
function commands(section: string): string[] {
  const text = page.split(/^##+ /m).find((part) => part.startsWith(`${section}\n`));
  assert.ok(text, `docs/restoring.md has no section ${section}`);
  const found = [...text.matchAll(/^```sh\n([^]*?)^```$/gm)].flatMap((block) => block[1]!.trim().split('\n'));
  assert.ok(found.length > 0, `${section}: nothing is marked as sh`);
  return found;
}

/** Does what a section of the document says. */
async function carryOut(section: string, values: Record<string, string>) {
  for (const command of commands(section)) {
    const words = command.replace(/\b[A-Z]{3,}\b/g, (word) => values[word] ?? word).split(/\s+/);
    if (words[0] === 'aws') {
      await call(words.slice(1));
      continue;
    }
    assert.equal(words[0], 'ichidoctl', command);
    const { code, text } = await run(ichidoctl, [...words.slice(1), '--yes']);
    // 1 says that somebody has to look at something: a dead letter, a role that an earlier chapter changed.
    assert.ok(code === 0 || code === 1, `${command}: ${text}`);
  }
}

/** A command of the AWS CLI, through the SDK: `aws dynamodb delete-table --table-name X`. */
async function call([service, operation, ...rest]: string[]) {
  const name = (text: string) => text.replace(/(^|-)(\w)/g, (_, __, letter: string) => letter.toUpperCase());
  if (operation === 'wait') {
    assert.deepEqual([service, rest[0], rest[1]], ['dynamodb', 'table-exists', '--table-name']);
    await dynamodb.waitUntilTableExists({ client: db, maxWaitTime: 60 }, { TableName: rest[2]! });
    return;
  }
  const sdk = aws[service as keyof typeof aws] as any;
  const input: Record<string, unknown> = {};
  for (let i = 0; i < rest.length; i += 2) {
    const value = rest[i + 1]!;
    input[name(rest[i]!.replace(/^--/, ''))] = /^\d+$/.test(value) ? Number(value) : /^\d{4}-\d\d-\d\dT/.test(value) ? new Date(value) : value;
  }
  const client = Object.keys(sdk).find((key) => key.endsWith('Client') && !key.startsWith('__'))!;
  await new sdk[client]({}).send(new sdk[`${name(operation!)}Command`](input));
}

async function items(TableName: string) {
  return (await db.send(new dynamodb.ScanCommand({ TableName, ConsistentRead: true }))).Items ?? [];
}

/** The items of a feed's table, without what operators did by hand: the schedule was paused. */
async function entries(TableName: string) {
  return (await items(TableName)).filter(({ entry_id }) => !entry_id!.S!.startsWith('#operation#'));
}

const now = () => `${new Date().toISOString().slice(0, 19)}Z`;

test('a feed that lost its table is restored as the document says: nothing is posted twice, nothing is lost', { timeout: DEPLOY_MS }, async () => {
  const TABLE = 'masutaka-feed-github-state-local';
  const values = { APPLICATION: 'github', TABLE, ENV: 'local', TIME: now() };
  const { statuses, messages } = world.destinations;
  const times = (list: string[], entry: string) => list.filter((text) => text.includes(entry)).length;
  const read = () => invoke('github-subscriber-local', {});
  world.feed.add('before the copy');
  await read();
  // The local AWS copies the present state whatever the time, so the copy is made before the damage.
  await carryOut('2. Make the copy', values);
  world.feed.add('after the copy');
  await read();
  for (const entry of ['before the copy', 'after the copy']) assert.deepEqual([times(statuses, entry), times(messages, entry)], [1, 1], entry);

  for (const { entry_id } of await items(TABLE)) await db.send(new dynamodb.DeleteItemCommand({ TableName: TABLE, Key: { entry_id: entry_id! } }));
  world.destinations.forget(); // Mastodon remembers a key for an hour only
  const early = await run(ichidoctl, ['restore', 'github', '--from', `${TABLE}-restored`, '--copy-of', TABLE, '--at', values.TIME, '--env', 'local', '--yes']);
  assert.equal(early.code, 2, early.text);
  assert.match(early.text, /still starts github-subscriber-local; stop it first/);

  await carryOut('A feed', values);
  await carryOut('3. Compare', values);
  assert.deepEqual(await entries(TABLE), []);
  await carryOut('4. Copy', values);
  assert.equal((await entries(TABLE)).length, (await entries(`${TABLE}-restored`)).length);
  world.feed.add('after the restore', new Date(Date.now() + 60_000));
  await carryOut('5. Start again', values);
  await assert.rejects(read, /DeadLetters/, 'somebody has to decide what Pushover has');
  for (const entry of ['before the copy', 'after the copy', 'after the restore']) assert.equal(times(statuses, entry), 1, `${entry}: ${statuses.join('\n')}`);
  assert.deepEqual(['before the copy', 'after the copy', 'after the restore'].map((entry) => times(messages, entry)), [1, 1, 1], messages.join('\n'));
  const { deadLetters } = JSON.parse((await run(ichidoctl, ['dead-letters', 'list', 'github', '--env', 'local', '--json'])).text);
  const doubted = (deadLetters as any[]).filter(({ reason }) => reason.includes('the table was restored, and Pushover cannot be asked'));
  const ids = doubted.map((letter) => letter.id as string);
  assert.equal(ids.length, 1, JSON.stringify(deadLetters));
  assert.equal((await run(ichidoctl, ['dead-letters', 'drop', 'github', ...ids, '--env', 'local', '--yes'])).code, 0);
  await read();
  await carryOut('6. Clean up', values);
});

test('a ledger that lost an account is restored as the document says, and agrees with itself', { timeout: DEPLOY_MS }, async () => {
  const TABLE = 'tokens-ledger-local';
  const values = { APPLICATION: 'tokens', TABLE, FUNCTION: 'tokens-api-local', ENV: 'local', TIME: now() };
  const carol = 'did:key:carol';
  const as = { authorization: `Bearer ${tokenFor(carol)}`, 'content-type': 'application/json' };
  assert.equal((await post('/tokens/accounts', '', as)).status, 201);
  await carryOut('2. Make the copy', values);
  const before = await items(TABLE);
  const lost = before.filter((item) => item.PK!.S === `ACCOUNT#${carol}`);
  assert.equal(lost.length, 1);
  await db.send(new dynamodb.DeleteItemCommand({ TableName: TABLE, Key: { PK: lost[0]!.PK!, SK: lost[0]!.SK! } }));
  const verify = () => run(ichidoctl, ['tokens', 'verify', '--env', 'local']);
  assert.equal((await verify()).code, 1, 'the damage is seen');

  await carryOut('slack or tokens', values);
  await carryOut('3. Compare', values);
  await carryOut('4. Copy', values);
  const verified = await verify();
  assert.equal(verified.code, 0, verified.text);
  const known = new Set(before.map(({ PK, SK }) => `${PK!.S} ${SK!.S}`));
  const [added, ...more] = (await items(TABLE)).filter(({ PK, SK }) => !known.delete(`${PK!.S} ${SK!.S}`));
  assert.deepEqual([[...known], more], [[], []], 'everything is there again');
  assert.match(`${added?.PK!.S} ${added?.operation?.S}`, /^OPERATION.* restore$/, 'and the trace of the restore');
  await carryOut('5. Start again', values);
  const { ReservedConcurrentExecutions } = await new aws.lambda.LambdaClient({}).send(new aws.lambda.GetFunctionConcurrencyCommand({ FunctionName: values.FUNCTION }));
  assert.equal(ReservedConcurrentExecutions, undefined, 'it runs again');
  assert.equal((await request(`/tokens/balance/${carol}`, as)).status, 200);
  await carryOut('6. Clean up', values);
});
