// The deployed functions do their work.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cloudwatch, dynamodb, sns, sqs } from '../../../infra/cli/aws.ts';
import { isAllowed } from '../roles.ts';
import { fileEvent, sign } from '../../../infra/accept/slack-event.ts';
import { tokenFor } from '../../../infra/accept/issuer.ts';
import { command, DEPLOY_MS, EFFECT_MS, functions, invoke, post, request, signingSecret, until, world } from '../world.ts';

test('every deployed function answers through live', { timeout: DEPLOY_MS }, async () => {
  const { code, text } = await command('smoke');
  assert.equal(code, 0, text);
  for (const { deployed } of functions) assert.match(text, new RegExp(`ok +${deployed}:live`));
});

test('a signed Slack event gets one reply, and so does its duplicate', { timeout: DEPLOY_MS }, async () => {
  const seconds = Math.floor(Date.now() / 1000);
  const body = fileEvent('Ev0000DEPLOY', 'F0000DEPLOY', seconds);
  const headers = sign(signingSecret, body, seconds);
  assert.equal((await post('/slack/events', body, { ...headers, 'x-slack-signature': 'v0=00' })).status, 401, 'a wrong signature is refused');

  const first = await post('/slack/events', body, headers);
  assert.equal(first.status, 200, first.text);
  const second = await post('/slack/events', body, { ...headers, 'x-slack-retry-num': '1', 'x-slack-retry-reason': 'http_timeout' });
  assert.equal(second.status, 200, second.text);

  const { slack } = world;
  await until(EFFECT_MS, async () => slack.posts().length > 0);
  // The duplicate was answered from the record, so nothing is on its way any more once both records are there.
  const table = new dynamodb.DynamoDBClient({});
  const items = await until(EFFECT_MS, async () => {
    const answer = await table.send(new dynamodb.ScanCommand({ TableName: 'slack-classify-bot-processed-events-local', ConsistentRead: true }));
    return (answer.Items?.length ?? 0) >= 2 && answer.Items;
  });
  assert.ok(items.some((i) => i.event_key?.S === 'Ev0000DEPLOY'), `the record of the event: ${JSON.stringify(items)}`);
  assert.equal(slack.posts().length, 1, JSON.stringify(slack.posts()));
  assert.equal(slack.posts()[0]!.body.channel, 'C0001');
});

test('a transfer through the deployed API moves money once', { timeout: DEPLOY_MS }, async () => {
  const [alice, bob] = ['did:key:z6MkAlice', 'did:key:z6MkBob'];
  const as = (did: string) => ({ authorization: `Bearer ${tokenFor(did)}`, 'content-type': 'application/json' });
  assert.equal((await request(`/tokens/balance/${alice}`, {})).status, 401, 'nobody in particular is refused');
  for (const did of [alice, bob]) {
    const opened = await post('/tokens/accounts', '', as(did));
    assert.ok([200, 201].includes(opened.status), opened.text);
  }
  const body = JSON.stringify({ recipientDid: bob, amount: '100', message: 'lunch', idempotencyKey: 'deploy-1' });
  const first = await post('/tokens/transfer', body, as(alice));
  const second = await post('/tokens/transfer', body, as(alice));
  assert.ok(first.status < 300, first.text);
  assert.equal(second.text, first.text);
  assert.equal(second.headers['idempotency-replayed'], 'true');
  const balance = await request(`/tokens/balance/${bob}`, as(bob));
  assert.match(balance.text, /"1100(\.0+)?"/, balance.text);
  const history = await request(`/tokens/transactions/received/${bob}`, as(bob));
  assert.equal(JSON.parse(history.text).transactions.filter((t: any) => t.kind === 'transfer').length, 1, history.text);
});

for (const [fn, entry, text] of [
  ['github-notifier-local', { entryTitle: 'octocat starred masutaka/feeds', entryUrl: 'https://github.com/masutaka/feeds' }, '[GH] octocat starred masutaka/feeds https://github.com/masutaka/feeds'],
  ['hatebu-notifier-local', { entryTitle: 'Once', entryUrl: 'https://example.com/once', entryAuthor: 'masutaka', entryContent: 'worth reading' }, '[B!] id:masutaka worth reading > Once https://example.com/once'],
] as const) {
  test(`${fn} posts an entry once, however often it is asked`, { timeout: DEPLOY_MS }, async () => {
    for (const attempt of ['first', 'second']) {
      const { deliveries } = await invoke(fn, entry);
      assert.deepEqual(deliveries.filter((d: any) => d.result !== 'delivered'), [], attempt);
    }
    const { statuses, messages } = world.destinations;
    assert.equal(statuses.filter((s) => s === text).length, 1, JSON.stringify(statuses));
    assert.equal(messages.filter((m) => m === entry.entryTitle).length, fn.startsWith('github') ? 1 : 0, JSON.stringify(messages));
  });
}

test('mesh-resolver makes a group once, and ends it', { timeout: DEPLOY_MS }, async () => {
  const call = async (field: string, args: object) => {
    const { value, error } = await invoke('mesh-resolver-local', { field, arguments: args });
    assert.equal(error, undefined, JSON.stringify(error));
    return value;
  };
  const [domain, hostId] = ['deploy-test', 'host-1'];
  const group = await call('createGroup', { name: 'a group', hostId, domain });
  const again = await call('createGroup', { name: 'a group', hostId, domain });
  assert.equal(again.id, group.id);
  await call('leaveGroup', { groupId: group.id, domain, nodeId: hostId });
  await call('dissolveGroup', { groupId: group.id, domain, hostId });
  const { error } = await invoke('mesh-resolver-local', { field: 'leaveGroup', arguments: { groupId: 'never-was', domain, nodeId: hostId } });
  assert.ok(error?.type, 'a refusal has a type');
});

test('an alarm reaches whoever listens to the topic', { timeout: DEPLOY_MS }, async () => {
  const queues = new sqs.SQSClient({ useQueueUrlAsEndpoint: false });
  const { QueueUrl } = await queues.send(new sqs.CreateQueueCommand({ QueueName: 'listener' }));
  const { Attributes } = await queues.send(new sqs.GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['QueueArn'] }));
  const Policy = JSON.stringify({ Version: '2012-10-17', Statement: [{ Effect: 'Allow', Principal: { Service: 'sns.amazonaws.com' }, Action: 'sqs:SendMessage', Resource: Attributes!.QueueArn }] });
  await queues.send(new sqs.SetQueueAttributesCommand({ QueueUrl, Attributes: { Policy } }));
  await new sns.SNSClient({}).send(new sns.SubscribeCommand({ TopicArn: world.outputs.AlarmTopicArn, Protocol: 'sqs', Endpoint: Attributes!.QueueArn }));

  const metrics = new cloudwatch.CloudWatchClient({});
  const name = 'slack-files-dead-letters-local';
  const { MetricAlarms } = await metrics.send(new cloudwatch.DescribeAlarmsCommand({ AlarmNames: [name] }));
  const alarm = MetricAlarms![0]!;
  const put = (Value: number) => metrics.send(new cloudwatch.PutMetricDataCommand({
    Namespace: alarm.Namespace, MetricData: [{ MetricName: alarm.MetricName, Dimensions: alarm.Dimensions, Value, Unit: 'Count' }],
  }));
  await put(alarm.Threshold!);
  const message = await until(EFFECT_MS, async () => {
    const { Messages } = await queues.send(new sqs.ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 1, MaxNumberOfMessages: 10 }));
    return Messages?.find((m) => m.Body?.includes(name));
  });
  assert.match(message.Body!, /ALARM/);
  assert.match(message.Body!, /docs\/runbooks\/slack-files-dead-letters\.md/, 'whoever is told finds the runbook');
  // No alarm may ring for the chapters after this one. The local AWS ignores dimensions: all alarms of one metric get the same state.
  const { MetricAlarms: all } = await metrics.send(new cloudwatch.DescribeAlarmsCommand({ StateValue: 'ALARM' }));
  for (const { AlarmName } of all ?? []) await metrics.send(new cloudwatch.SetAlarmStateCommand({ AlarmName, StateValue: 'OK', StateReason: 'the test is over' }));
});

test('queues and topics refuse what does not come over TLS', { timeout: DEPLOY_MS }, async () => {
  const plain = { endpoint: world.aws.plain, maxAttempts: 1 };
  const send = (config: object) => new sqs.SQSClient({ ...config, useQueueUrlAsEndpoint: false }).send(new sqs.SendMessageCommand({ QueueUrl: world.outputs.SlackFilesFailuresUrl, MessageBody: 'x' }));
  assert.equal(await isAllowed(() => send(plain)), false);
  assert.equal(await isAllowed(() => send({ maxAttempts: 1 })), true);
  const publish = (config: object) => new sns.SNSClient(config).send(new sns.PublishCommand({ TopicArn: world.outputs.AlarmTopicArn, Message: 'x' }));
  assert.equal(await isAllowed(() => publish(plain)), false);
});
