// Schedules fire, and what they start does its work.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dynamodb, lambda, scheduler } from '../../../infra/cli/aws.ts';
import { client, DEPLOY_MS, EFFECT_MS, entryId, until, world } from '../world.ts';

/** The local AWS looks at its schedules every 10 s; the first run of a changed one is a minute away. */
const FIRE_MS = EFFECT_MS * 3;

test('every schedule is there and goes through live', { timeout: DEPLOY_MS }, async () => {
  const schedules = new scheduler.SchedulerClient({});
  const { Schedules } = await schedules.send(new scheduler.ListSchedulesCommand({}));
  assert.deepEqual(Schedules?.map((s) => s.Name).sort(), ['feed-further-local', 'github-feed-subscriber-schedule-local', 'hatebu-feed-subscriber-schedule-local', 'mesh-api-key-schedule-local']);
  for (const { Name } of Schedules ?? []) {
    const { Target, State } = await schedules.send(new scheduler.GetScheduleCommand({ Name }));
    assert.match(Target!.Arn!, /:function:[a-z-]+:live$/, Name);
    assert.equal(State, 'ENABLED', Name);
  }
});

test('a schedule fires; what it read is in the table, and at each destination once', { timeout: DEPLOY_MS }, async () => {
  // Deployed functions read no feed on loopback, and no template may allow it. So a version that may is made live by hand.
  const FunctionName = 'github-subscriber-local';
  const { Environment } = await client().send(new lambda.GetFunctionConfigurationCommand({ FunctionName }));
  await client().send(new lambda.UpdateFunctionConfigurationCommand({
    FunctionName, Environment: { Variables: { ...Environment!.Variables, FEED_ALLOW_PRIVATE_ADDRESSES: 'on', FIRST_RUN: 'all' } },
  }));
  const { Version } = await client().send(new lambda.PublishVersionCommand({ FunctionName }));
  await client().send(new lambda.UpdateAliasCommand({ FunctionName, Name: 'live', FunctionVersion: Version }));

  // An update replaces the whole schedule: read it first.
  const schedules = new scheduler.SchedulerClient({});
  const now = await schedules.send(new scheduler.GetScheduleCommand({ Name: 'github-feed-subscriber-schedule-local' }));
  await schedules.send(new scheduler.UpdateScheduleCommand({
    Name: now.Name, FlexibleTimeWindow: now.FlexibleTimeWindow, Target: now.Target, State: now.State, ScheduleExpression: 'rate(1 minute)',
  }));
  const db = new dynamodb.DynamoDBClient({});
  const item = await until(FIRE_MS, async () => {
    const { Items } = await db.send(new dynamodb.ScanCommand({ TableName: 'masutaka-feed-github-state-local', ConsistentRead: true }));
    return Items?.find((i) => i.entry_id?.S === entryId);
  });
  assert.ok(world.feed.reads() > 0);
  assert.match(item.entry_data?.M?.title?.S ?? JSON.stringify(item), /masutaka pushed to main/);

  const of = (list: string[]) => list.filter((text) => text.includes('masutaka pushed to main'));
  const { statuses, messages } = world.destinations;
  await until(EFFECT_MS, async () => of(statuses).length > 0 && of(messages).length > 0);
  assert.deepEqual([of(statuses).length, of(messages).length], [1, 1], JSON.stringify({ statuses, messages }));
});
