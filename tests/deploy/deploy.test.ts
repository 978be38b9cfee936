// The whole of it, deployed with the real CDK to a local AWS whose IAM is enforced, and then used.
//
// The tests build on each other, in order: this file is one story. What the local AWS cannot prove is in docs/verification.md.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { cloudwatch, dynamodb, lambda, scheduler, sns, sqs } from '../../infra/cli/aws.ts';
import { described } from '../../infra/cli/world.ts';
import { environments } from '../../infra/environments.ts';
import { root } from '../../infra/template.ts';
import { startFeed, type Feed } from './feed.ts';
import { startLocalAws, until, type LocalAws } from './local-aws.ts';
import { credentialsOf, forbidden, forgiveGetParameters, isAllowed, type Credentials } from './privileges.ts';
import { fileEvent, sign, startSlack, type StandIn } from './slack.ts';
import { keySet, tokenFor } from './tokens.ts';

/** A deployment takes about 20 s on two idle cores; this is for busy ones. */
const DEPLOY_MS = 600_000;
/** For what happens asynchronously after a call has been answered. */
const EFFECT_MS = 60_000;

const work = path.join(root, 'target', 'deploy-test');
const binaries = path.join(work, 'binaries');
const { functions } = described(environments.local);
const entryId = 'tag:github.com,2008:PushEvent/1000000001';
const signingSecret = crypto.randomBytes(16).toString('hex');

let aws: LocalAws;
let slack: StandIn;
let feed: Feed;
let outputs: Record<string, string>;

before(async () => {
  fs.rmSync(binaries, { recursive: true, force: true });
  fs.cpSync(path.join(root, 'target', 'lambda-host'), binaries, { recursive: true });
  aws = await startLocalAws();
  slack = await startSlack();
  feed = await startFeed(entryId);
  Object.assign(process.env, {
    AWS_ENDPOINT_URL: aws.url, AWS_ENDPOINT_URL_S3: aws.url, AWS_REGION: 'ap-northeast-1', AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test',
    AWS_EC2_METADATA_DISABLED: 'true', AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true',
  });
});

after(async () => {
  slack?.close();
  feed?.close();
  await aws?.stop();
});

/** A command of infra/cli in an environment, as make runs it. */
function command(name: string, env: Record<string, string>, ...args: string[]): Promise<{ code: number; text: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(path.join(root, 'infra', 'node_modules', '.bin', 'tsx'), [path.join(root, 'infra', 'cli', `${name}.ts`), ...args], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: DEPLOY_MS,
      env: {
        ...process.env, BINARIES: binaries, ENV: 'local', CI: 'true',
        LOCAL_PARAMETERS: JSON.stringify({ SlackApiUrl: slack.url }), LOCAL_SlackSigningSecretParameter: signingSecret,
        LOCAL_GithubFeedUrlParameter: feed.url, LOCAL_JwtKeysParameter: keySet, ...env,
      },
    });
    let text = '';
    child.stdout.on('data', (d) => (text += d));
    child.stderr.on('data', (d) => (text += d));
    child.on('error', reject);
    child.on('exit', (code) => resolve({ code: code ?? 1, text }));
  });
}

async function deploy() {
  const { code, text } = await command('deploy', {});
  assert.equal(code, 0, text);
  outputs = Object.assign({}, ...Object.values<object>(JSON.parse(fs.readFileSync(path.join(root, 'target', 'outputs-local.json'), 'utf8'))));
  return text;
}

const client = () => new lambda.LambdaClient({});

async function versions(fn: string): Promise<string[]> {
  const answer = await client().send(new lambda.ListVersionsByFunctionCommand({ FunctionName: fn }));
  return (answer.Versions ?? []).map((v) => v.Version!).filter((v) => v !== '$LATEST');
}

async function liveVersion(fn: string): Promise<string | undefined> {
  return (await client().send(new lambda.GetAliasCommand({ FunctionName: fn, Name: 'live' }))).FunctionVersion;
}

/** A request to the deployed front door; without a body it is a GET. */
function request(route: string, headers: Record<string, string>, body?: string): Promise<{ status: number; text: string; headers: http.IncomingHttpHeaders }> {
  const door = new URL(outputs.HttpApiUrl!);
  return new Promise((resolve, reject) => {
    const call = http.request(new URL(route, aws.url), { method: body === undefined ? 'GET' : 'POST', headers: { ...headers, host: door.host } }, (answer) => {
      let text = '';
      answer.on('data', (d) => (text += d));
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text, headers: answer.headers }));
    });
    call.on('error', reject);
    call.end(body);
  });
}

const post = (route: string, body: string, headers: Record<string, string>) => request(route, headers, body);

// ------------------------------------------------------------------------------------------------------------ the story

test('a deployment without its secrets and settings is refused, and all of them are named at once', { timeout: DEPLOY_MS }, async () => {
  const { code, text } = await command('deploy', { ENV: 'dev' });
  assert.notEqual(code, 0);
  const dev = described(environments.dev);
  for (const name of [...dev.secrets.map((s) => s.name), ...dev.needed]) assert.ok(text.includes(name), `${name} is not named in:\n${text}`);
});

test('everything is deployed by the real CDK', { timeout: DEPLOY_MS }, async () => {
  await deploy();
  for (const { deployed } of functions) {
    assert.deepEqual(await versions(deployed), ['1'], deployed);
    assert.equal(await liveVersion(deployed), '1', deployed);
  }
});

// ---------------------------------------------------------------------------------------------------- least privilege

const roles = new Map<string, Credentials>();

for (const { name, deployed } of functions) {
  test(`the role of ${name} is denied what it does not need`, { timeout: DEPLOY_MS }, async () => {
    const { Configuration } = await client().send(new lambda.GetFunctionCommand({ FunctionName: deployed }));
    const credentials = await credentialsOf(Configuration!.Role!, name);
    roles.set(name, credentials);
    const table = Object.entries(Configuration!.Environment?.Variables ?? {}).find(([k]) => k.endsWith('TABLE_NAME'))?.[1] ?? 'none';
    const attempts = forbidden(credentials, { table, fn: deployed, topic: outputs.AlarmTopicArn!, queueUrl: outputs.SlackFilesFailuresUrl! });
    assert.ok(attempts.length >= 10);
    const allowed: string[] = [];
    for (const [what, attempt] of attempts) if (await isAllowed(attempt)) allowed.push(what);
    assert.deepEqual(allowed, []);
    await forgiveGetParameters(Configuration!.Role!);
  });
}

test('the probe of privileges can tell allowed from denied', { timeout: DEPLOY_MS }, async () => {
  const config = { credentials: roles.get('slack-events')!, maxAttempts: 1 };
  const db = new dynamodb.DynamoDBClient(config);
  const TableName = 'slack-classify-bot-processed-events-local';
  assert.equal(await isAllowed(() => db.send(new dynamodb.GetItemCommand({ TableName, Key: { event_key: { S: 'x' } } }))), true);
  assert.equal(await isAllowed(() => db.send(new dynamodb.DeleteItemCommand({ TableName, Key: { event_key: { S: 'x' } } }))), false);
});

// ---------------------------------------------------------------------------------------------------- in use

test('every deployed function answers through live', { timeout: DEPLOY_MS }, async () => {
  const { code, text } = await command('smoke', {});
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

  await until(EFFECT_MS, async () => slack.posts().length > 0);
  // The duplicate was answered from the record, so nothing is on its way any more once both records are completed.
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

test('an alarm reaches whoever listens to the topic', { timeout: DEPLOY_MS }, async () => {
  const queues = new sqs.SQSClient({ useQueueUrlAsEndpoint: false });
  const { QueueUrl } = await queues.send(new sqs.CreateQueueCommand({ QueueName: 'listener' }));
  const { Attributes } = await queues.send(new sqs.GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['QueueArn'] }));
  const Policy = JSON.stringify({ Version: '2012-10-17', Statement: [{ Effect: 'Allow', Principal: { Service: 'sns.amazonaws.com' }, Action: 'sqs:SendMessage', Resource: Attributes!.QueueArn }] });
  await queues.send(new sqs.SetQueueAttributesCommand({ QueueUrl, Attributes: { Policy } }));
  await new sns.SNSClient({}).send(new sns.SubscribeCommand({ TopicArn: outputs.AlarmTopicArn, Protocol: 'sqs', Endpoint: Attributes!.QueueArn }));

  const metrics = new cloudwatch.CloudWatchClient({});
  const name = 'slack-files-dead-letters-local';
  const { MetricAlarms } = await metrics.send(new cloudwatch.DescribeAlarmsCommand({ AlarmNames: [name] }));
  const alarm = MetricAlarms![0]!;
  await metrics.send(new cloudwatch.PutMetricDataCommand({
    Namespace: alarm.Namespace, MetricData: [{ MetricName: alarm.MetricName, Dimensions: alarm.Dimensions, Value: alarm.Threshold, Unit: 'Count' }],
  }));
  const message = await until(EFFECT_MS, async () => {
    const { Messages } = await queues.send(new sqs.ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 1, MaxNumberOfMessages: 10 }));
    return Messages?.find((m) => m.Body?.includes(name));
  });
  assert.match(message.Body!, /ALARM/);
  assert.match(message.Body!, /docs\/runbooks\/slack-files-dead-letters\.md/, 'whoever is told finds the runbook');
});

test('a changed function gets a new version, and the traffic stays where it was', { timeout: DEPLOY_MS }, async () => {
  fs.appendFileSync(path.join(binaries, 'slack-events', 'bootstrap'), '\n'); // after the end of an ELF file: another file, the same program
  const text = await deploy();
  assert.match(text, /make rollout/, 'and says how it gets there');
  for (const { deployed, name } of functions) {
    assert.deepEqual(await versions(deployed), name === 'slack-events' ? ['1', '2'] : ['1'], deployed);
    assert.equal(await liveVersion(deployed), '1', deployed);
  }
});

test('a deployment without a change publishes nothing and keeps what a rollout made live', { timeout: DEPLOY_MS }, async () => {
  await client().send(new lambda.UpdateAliasCommand({ FunctionName: 'slack-events-local', Name: 'live', FunctionVersion: '2' }));
  const text = await deploy();
  assert.doesNotMatch(text, /make rollout/, 'nothing waits');
  for (const { deployed, name } of functions) {
    assert.deepEqual(await versions(deployed), name === 'slack-events' ? ['1', '2'] : ['1'], deployed);
    assert.equal(await liveVersion(deployed), name === 'slack-events' ? '2' : '1', deployed);
  }
});

test('after a deployment there is nothing to deploy', { timeout: DEPLOY_MS }, async () => {
  const { code, text } = await command('show', {}, 'diff');
  assert.equal(code, 0, text);
  assert.match(text, /Number of stacks with differences: 0/);
});

test('a deployment during a rollout is refused', { timeout: DEPLOY_MS }, async () => {
  const shift = (weights: Record<string, number>) => client().send(new lambda.UpdateAliasCommand({
    FunctionName: 'slack-events-local', Name: 'live', FunctionVersion: '2', RoutingConfig: { AdditionalVersionWeights: weights },
  }));
  await shift({ 1: 0.1 });
  const { code, text } = await command('deploy', {});
  await shift({});
  assert.notEqual(code, 0);
  assert.match(text, /rollout is under way \(slack-events-local\)/);
});

test('every schedule is there and goes through live', { timeout: DEPLOY_MS }, async () => {
  const client = new scheduler.SchedulerClient({});
  const { Schedules } = await client.send(new scheduler.ListSchedulesCommand({}));
  assert.deepEqual(Schedules?.map((s) => s.Name).sort(), ['github-feed-subscriber-schedule-local', 'hatebu-feed-subscriber-schedule-local']);
  for (const { Name } of Schedules ?? []) {
    const { Target, State } = await client.send(new scheduler.GetScheduleCommand({ Name }));
    assert.match(Target!.Arn!, /:function:[a-z-]+:live$/, Name);
    assert.equal(State, 'ENABLED', Name);
  }
});

test('a schedule fires, and what it read is in the table', { timeout: DEPLOY_MS }, async () => {
  // Deployed functions read no feed on loopback, and no template may allow it. So a version that may is made live by hand.
  const FunctionName = 'github-subscriber-local';
  const { Environment } = await client().send(new lambda.GetFunctionConfigurationCommand({ FunctionName }));
  await client().send(new lambda.UpdateFunctionConfigurationCommand({
    FunctionName, Environment: { Variables: { ...Environment!.Variables, FEED_ALLOW_PRIVATE_ADDRESSES: 'on' } },
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
  const item = await until(EFFECT_MS * 2, async () => {
    const { Items } = await db.send(new dynamodb.ScanCommand({ TableName: 'masutaka-feed-github-state-local', ConsistentRead: true }));
    return Items?.find((i) => i.entry_id?.S === entryId);
  });
  assert.ok(feed.reads() > 0);
  assert.match(item.entry_data?.M?.title?.S ?? JSON.stringify(item), /masutaka pushed to main/);
});

test('queues and topics refuse what does not come over TLS', { timeout: DEPLOY_MS }, async () => {
  const plain = { endpoint: aws.plain, maxAttempts: 1 };
  const send = (config: object) => new sqs.SQSClient({ ...config, useQueueUrlAsEndpoint: false }).send(new sqs.SendMessageCommand({ QueueUrl: outputs.SlackFilesFailuresUrl, MessageBody: 'x' }));
  assert.equal(await isAllowed(() => send(plain)), false);
  assert.equal(await isAllowed(() => send({ maxAttempts: 1 })), true);
  const publish = (config: object) => new sns.SNSClient(config).send(new sns.PublishCommand({ TopicArn: outputs.AlarmTopicArn, Message: 'x' }));
  assert.equal(await isAllowed(() => publish(plain)), false);
});

test('a destroyed environment leaves nothing behind', { timeout: DEPLOY_MS }, async () => {
  const { code, text } = await command('destroy', {});
  assert.equal(code, 0, text);
  const { TableNames } = await new dynamodb.DynamoDBClient({}).send(new dynamodb.ListTablesCommand({}));
  assert.deepEqual(TableNames, []);
  const { Functions } = await client().send(new lambda.ListFunctionsCommand({}));
  assert.deepEqual(Functions, []);
});
