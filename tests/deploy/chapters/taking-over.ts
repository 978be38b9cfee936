// docs/taking-over.md, rehearsed: a bot of the earlier form and the deployed functions share a table, and each leaves alone what the other one has handled.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dynamodb } from '../../../infra/cli/aws.ts';
import { fileEvent, sign } from '../../../infra/accept/slack-event.ts';
import { DEPLOY_MS, EFFECT_MS, ichidoctl, post, run, signingSecret, until, world } from '../world.ts';

const TableName = 'slack-classify-bot-processed-events-local';
const HOURS = 6;
const db = new dynamodb.DynamoDBClient({});
const now = () => Math.floor(Date.now() / 1000);

/** The handler of the earlier form: it marks the event, and handles it if nobody has. Returns whether it handled it. */
async function earlierBot(eventId: string | undefined, fileId: string, ts: string, form: { processedAt?: dynamodb.AttributeValue; ttl?: number } = {}): Promise<boolean> {
  const Item = {
    event_key: { S: eventId ?? `${fileId}_${ts}` }, processed_at: form.processedAt ?? { N: String(now()) }, ttl: { N: String(form.ttl ?? now() + HOURS * 3600) },
    file_id: { S: fileId }, channel_id: { S: 'C0001' }, user_id: { S: 'U0001' }, lambda_instance_id: { S: 'earlier' },
  };
  try {
    await db.send(new dynamodb.PutItemCommand({ TableName, Item, ConditionExpression: 'attribute_not_exists(event_key)' }));
    return true;
  } catch (error) {
    if (error instanceof dynamodb.ConditionalCheckFailedException) return false;
    throw error;
  }
}

/** One delivery to the deployed functions. */
async function ours(eventId: string | undefined, fileId: string, ts: string): Promise<void> {
  const body = JSON.stringify({ ...JSON.parse(fileEvent('', fileId, now(), 'C0001', ts)), event_id: eventId });
  const { status, text } = await post('/slack/events', body, sign(signingSecret, body, now()));
  assert.equal(status, 200, text);
}

const replies = (fileId: string) => world.slack.posts().filter((post) => post.body.metadata?.event_payload?.file === fileId).length;
/** Waits until the functions have replied to a file. What they were sent before it has been handed over too, or never will be. */
const replied = (fileId: string) => until(EFFECT_MS, async () => replies(fileId) > 0);
const item = async (key: string) => (await db.send(new dynamodb.GetItemCommand({ TableName, Key: { event_key: { S: key } }, ConsistentRead: true }))).Item;

test('what the earlier bot has handled is acknowledged and gets no second reply; what has expired is new', { timeout: DEPLOY_MS }, async () => {
  const ts = `${now()}.000300`;
  const live: [string | undefined, string, dynamodb.AttributeValue][] = [
    ['Ev0000TAKE1', 'F0000TAKE1', { N: '1767225600' }],
    ['Ev0000TAKE2', 'F0000TAKE2', { S: '2026-01-01T00:00:00.000Z' }],
    [undefined, 'F0000TAKE3', { N: '1767225600' }],
  ];
  for (const [eventId, fileId, processedAt] of live) {
    assert.equal(await earlierBot(eventId, fileId, ts, { processedAt }), true);
    const before = await item(eventId ?? `${fileId}_${ts}`);
    await ours(eventId, fileId, ts);
    assert.deepEqual(await item(eventId ?? `${fileId}_${ts}`), before, 'it is left as it was');
  }
  assert.equal(await earlierBot('Ev0000TAKE4', 'F0000TAKE4', ts, { ttl: now() - 60 }), true);
  await ours('Ev0000TAKE4', 'F0000TAKE4', ts);
  await replied('F0000TAKE4');
  for (const [, fileId] of live) assert.equal(replies(fileId), 0, fileId);
});

test('side by side, and after going back, one of them handles each event', { timeout: DEPLOY_MS }, async () => {
  const ts = `${now()}.000400`;
  let handledByIt = 0;
  const events = Array.from({ length: 6 }, (_, n) => ({ eventId: `Ev0000SIDE${n}`, fileId: `F0000SIDE${n}` }));
  for (const [n, { eventId, fileId }] of events.entries()) {
    for (const delivery of [0, 1, 2]) {
      if ((n + delivery) % 2 === 0) await ours(eventId, fileId, ts);
      else if (await earlierBot(eventId, fileId, ts)) handledByIt += 1;
    }
  }
  const odd = events.filter((_, n) => n % 2 === 1);
  assert.equal(handledByIt, odd.length, 'those that reached it first');
  for (const { fileId } of events.filter((_, n) => n % 2 === 0)) await replied(fileId);
  for (const { fileId } of odd) assert.equal(replies(fileId), 0, fileId);

  // Back: every repeat goes to the earlier bot, and none of them is new to it.
  for (const { eventId, fileId } of events) assert.equal(await earlierBot(eventId, fileId, ts), false, eventId);
  assert.equal(await earlierBot('Ev0000BACK', 'F0000BACK', ts), true, 'the next event is its own');
  for (const { fileId } of events) assert.ok(replies(fileId) <= 1, fileId);
});

test('the operator sees which items are the earlier bot\'s', { timeout: DEPLOY_MS }, async () => {
  const { code, text } = await run(ichidoctl, ['keys', 'show', 'slack', 'Ev0000BACK', '--env', 'local']);
  assert.equal(code, 0, text);
  assert.match(text, /done by the system before this one/);
});
