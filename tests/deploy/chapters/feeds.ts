// A feed of the list (LOCAL_FEEDS) is deployed as a schedule, and posts each entry once.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dynamodb, lambda, scheduler } from '../../../infra/cli/aws.ts';
import { client, DEPLOY_MS, EFFECT_MS, FURTHER_FEED, FURTHER_TITLE, invoke, until, world } from '../world.ts';

/** The local AWS looks at its schedules every 10 s; the first run of a changed one is a minute away. */
const FIRE_MS = EFFECT_MS * 3;
const Name = `feed-${FURTHER_FEED.name}-local`;

test('the schedule of a further feed has its definition as input', { timeout: DEPLOY_MS }, async () => {
  const { Target, State, ScheduleExpression } = await new scheduler.SchedulerClient({}).send(new scheduler.GetScheduleCommand({ Name }));
  assert.deepEqual([State, ScheduleExpression], ['ENABLED', 'rate(15 minutes)']);
  assert.match(Target!.Arn!, /:function:feeds-subscriber-local:live$/);
  assert.deepEqual(JSON.parse(Target!.Input!), { feed: FURTHER_FEED });
});

test('the schedule of a further feed fires, and each entry is posted once', { timeout: DEPLOY_MS }, async () => {
  // Deployed functions read no feed on loopback, and no template may allow it. So a version that may is made live by hand.
  const FunctionName = 'feeds-subscriber-local';
  const { Environment } = await client().send(new lambda.GetFunctionConfigurationCommand({ FunctionName }));
  await client().send(new lambda.UpdateFunctionConfigurationCommand({ FunctionName, Environment: { Variables: { ...Environment!.Variables, FEED_ALLOW_PRIVATE_ADDRESSES: 'on' } } }));
  const { Version } = await client().send(new lambda.PublishVersionCommand({ FunctionName }));
  await client().send(new lambda.UpdateAliasCommand({ FunctionName, Name: 'live', FunctionVersion: Version }));

  // An update replaces the whole schedule: read it first.
  const schedules = new scheduler.SchedulerClient({});
  const now = await schedules.send(new scheduler.GetScheduleCommand({ Name }));
  await schedules.send(new scheduler.UpdateScheduleCommand({ Name, FlexibleTimeWindow: now.FlexibleTimeWindow, Target: now.Target, State: now.State, ScheduleExpression: 'rate(1 minute)' }));
  const posted = () => world.destinations.statuses.filter((text) => text.includes(FURTHER_TITLE));
  await until(FIRE_MS, async () => posted().length > 0);

  // Nothing is posted again, though it is read again.
  const reads = world.further.reads();
  await invoke(FunctionName, JSON.parse(now.Target!.Input!));
  assert.ok(world.further.reads() > reads);
  assert.deepEqual(posted(), [`[further] ${FURTHER_TITLE}`]);
  const { Items } = await new dynamodb.DynamoDBClient({}).send(new dynamodb.ScanCommand({ TableName: 'feeds-state-local', ConsistentRead: true }));
  assert.ok(Items!.some((item) => JSON.stringify(item).includes(FURTHER_TITLE)), JSON.stringify(Items));
});
