// Checks every synthesized environment against every standard, and every standard against an environment that breaks it.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { environments } from '../environments.ts';
import { synthesize as fresh } from '../synthesize.ts';
import { root } from '../template.ts';
import { audit as synthesize, findings, listed, names, ofType, type Synthesized } from './synth.ts';
import * as standards from './standards.ts';

for (const name of names) {
  for (const [standard, check] of Object.entries(standards.all)) {
    test(`${name} keeps the standard of ${standard}`, () => {
      assert.deepEqual(check(synthesize(name)), []);
    });
  }

  test(`cdk-nag finds nothing unexplained in ${name}`, () => {
    assert.deepEqual(findings(synthesize(name)), []);
  });

  test(`CloudFormation takes the templates of ${name}`, () => {
    for (const [stack, { ids, bytes }] of Object.entries(synthesize(name).stacks)) {
      assert.ok(ids.length <= 500, `${stack} has ${ids.length} resources; 500 are allowed`);
      assert.ok(bytes <= 1_000_000, `${stack} has ${bytes} bytes; a million is allowed`);
    }
  });
}

test('all environments have the same resources, apart from who is told, what may be spent and what the local AWS lacks', () => {
  const shape = (s: Synthesized) => Object.entries(s.resources).map(([id, r]) => `${id} ${r.Type}`)
    .filter((r) => !/ AWS::(SNS::Subscription|Budgets::Budget|XRay::SamplingRule)$/.test(r)).sort();
  const prod = shape(synthesize('prod'));
  for (const name of names) assert.deepEqual(shape(synthesize(name)), prod, name);
});

test('every alarm has one runbook, every runbook belongs to alarms or to the budgets, and names exactly those in its title', () => {
  const titles = new Map<string, string[]>();
  for (const [, r] of ofType(fresh(listed('prod')).resources, 'AWS::CloudWatch::Alarm')) {
    const page = standards.pageOf(r.Properties.AlarmName);
    titles.set(page, [...(titles.get(page) ?? []), r.Properties.AlarmName]);
  }
  titles.set('budget.md', ['budget']);
  const pages = fs.readdirSync(path.join(root, 'docs', 'runbooks')).filter((f) => f.endsWith('.md') && f !== 'README.md');
  assert.deepEqual(pages.sort(), [...titles.keys()].sort());
  for (const [page, alarms] of titles) {
    const text = fs.readFileSync(path.join(root, 'docs', 'runbooks', page), 'utf8');
    assert.equal(text.split('\n', 1)[0], `# ${alarms.sort().join(', ')}`, page);
  }
});

test('what holds data is in the data stack, and nothing else is', () => {
  for (const name of names) {
    const { stacks, resources } = synthesize(name);
    const stateful = ['AWS::DynamoDB::Table', 'AWS::SQS::Queue', 'AWS::SQS::QueuePolicy'];
    assert.deepEqual(stacks.data.ids.filter((id) => !stateful.includes(resources[id]!.Type)), []);
    assert.deepEqual(stacks.service.ids.filter((id) => stateful.includes(resources[id]!.Type)), []);
  }
});

// ------------------------------------------------------------------------------------- a standard can be broken

/** The dev environment with one resource changed. */
function broken(id: string, change: (properties: any, resource: any) => void): Synthesized {
  const copy = structuredClone(synthesize('dev'));
  change(copy.resources[id]!.Properties, copy.resources[id]);
  return copy;
}

const breakages: [string, keyof typeof standards.all, string, (p: any, r: any) => void][] = [
  ['a table without TTL', 'tables', 'ProcessedEventsTable', (p) => delete p.TimeToLiveSpecification],
  ['a provisioned table', 'tables', 'ProcessedEventsTable', (p) => (p.BillingMode = 'PROVISIONED')],
  ['a table that does not survive replacement', 'removal', 'ProcessedEventsTable', (_, r) => (r.UpdateReplacePolicy = 'Retain')],
  ['a function without a timeout', 'functions', 'SlackEventsFunction', (p) => delete p.Timeout],
  ['a table that a failed first deployment leaves behind', 'removal', 'SlackEventsVersion', (_, r) => (r.DeletionPolicy = 'Retain')],
  ['a table that CloudFormation protects', 'tables', 'ProcessedEventsTable', (p) => (p.DeletionProtectionEnabled = true)],
  ['an alias that a deployment moves', 'versions', 'SlackEventsAlias', (p) => (p.FunctionVersion = { Ref: 'SlackEventsLive' })],
  ['an alias that got a description', 'versions', 'SlackEventsAlias', (p) => (p.Description = 'what everything calls')],
  ['a version that every change publishes again', 'versions', 'SlackEventsVersion', (p) => (p.Description = '0123456789abcdef')],
  ['a second version of a function', 'versions', 'SlackEventsLogGroup', (_, r) => (r.Type = 'AWS::Lambda::Version')],
  ['a log that is kept for ever', 'logs', 'SlackEventsLogGroup', (p) => delete p.RetentionInDays],
  ['a hand-over without an on-failure queue', 'destinations', 'SlackFilesInvokeConfig', (p) => delete p.DestinationConfig],
  ['a hand-over that is not configured at all', 'destinations', 'SlackFilesInvokeConfig', (p) => (p.FunctionName = { Ref: 'SlackEventsFunction' })],
  ['a schedule without a dead-letter queue', 'targets', 'GithubSchedule', (p) => delete p.Target.DeadLetterConfig],
  ['a schedule that may not write to its dead-letter queue', 'targets', 'GithubSchedulerRole', (p) => p.Policies[0].PolicyDocument.Statement.pop()],
  ['a schedule without a bound on retries', 'targets', 'HatebuSchedule', (p) => delete p.Target.RetryPolicy.MaximumEventAgeInSeconds],
  ['an alarm that rings because its schedule is off', 'alarms', 'GithubSchedule', (p) => (p.State = 'DISABLED')],
  ['a wildcard action', 'privileges', 'SlackFilesRole', (p) => (p.Policies[0].PolicyDocument.Statement[0].Action = 'dynamodb:*')],
  ['a wildcard resource', 'privileges', 'SlackFilesRole', (p) => (p.Policies[0].PolicyDocument.Statement[0].Resource = '*')],
  ['a wildcard within a resource', 'privileges', 'SlackFilesRole', (p) => (p.Policies[0].PolicyDocument.Statement[1].Resource = { 'Fn::Sub': 'arn:aws:ssm:::parameter/*' })],
  ['a route that passes live by', 'targets', 'SlackEventsIntegration', (p) => (p.IntegrationUri = { 'Fn::GetAtt': ['SlackEventsFunction', 'Arn'] })],
  ['a route nobody may call', 'targets', 'SlackEventsPermission', (p) => (p.SourceArn = 'arn:aws:execute-api:::x/*/GET/other')],
  ['a hand-over that passes live by', 'targets', 'SlackEventsFunction', (p) => (p.Environment.Variables.SLACK_FILES_FUNCTION = { Ref: 'SlackFilesFunction' })],
  ['a route without a limit of its own', 'throttling', 'HttpApiStage', (p) => delete p.RouteSettings['POST /tokens/transfer']],
  ['a limit for a route that is not there', 'throttling', 'SlackEventsRoute', (p) => (p.RouteKey = 'POST /slack/other')],
  ['a stage that is made before its routes', 'throttling', 'HttpApiStage', (_, r) => (r.DependsOn = [])],
  ['an API key that does not wait for the schema', 'schemas', 'MeshApiKey', (_, r) => delete r.DependsOn],
  ['a step that does not wait for the schema', 'schemas', 'WriteMessageStep', (_, r) => (r.DependsOn = ['CheckMessageIdStep'])],
  ['a function that cannot write its log', 'functions', 'SlackEventsFunction', (p) => (p.LoggingConfig.LogGroup = { Ref: 'SlackFilesLogGroup' })],
  ['a queue without TLS', 'encryption', 'SlackFilesFailuresPolicy', (p) => (p.PolicyDocument.Statement = [])],
  ['a topic that CloudWatch cannot publish to', 'encryption', 'AlarmTopic', (p) => (p.KmsMasterKeyId = 'alias/aws/sns')],
  ['an alarm that tells nobody', 'alarms', 'SlackFilesErrorsAlarm', (p) => delete p.AlarmActions],
  ['an alarm without a runbook', 'alarms', 'SlackFilesErrorsAlarm', (p) => (p.AlarmName = 'nobody-wrote-this-dev')],
  ['an alarm at the first error', 'alarms', 'SlackFilesErrorsAlarm', (p) => Object.assign(p, { Threshold: 1, DatapointsToAlarm: 1 })],
  ['an alarm on a metric that nobody sends', 'alarms', 'SlackFallbackAlarm', (p) => (p.MetricName = 'Fallbacks')],
  ['an alarm on a metric that no filter finds', 'alarms', 'MeshUnavailableAlarm', (p) => (p.MetricName = 'Unavailables')],
  ['a secret in a variable', 'secrets', 'SlackFilesFunction', (p) => (p.Environment.Variables.SLACK_BOT_TOKEN = 'value')],
  ['a switch for local runs', 'secrets', 'SlackFilesFunction', (p) => (p.Environment.Variables.ALLOW_PRIVATE_ADDRESSES = 'on')],
  ['a resource nobody can be billed for', 'tags', 'ProcessedEventsTable', (p) => delete p.Tags],
];

for (const [what, standard, id, change] of breakages) {
  test(`${what} is noticed`, () => {
    assert.notDeepEqual(standards.all[standard]!(broken(id, change)), []);
  });
}

test('an environment whose schedule is off keeps the standard of alarms', () => {
  const paused = fresh({ ...environments.dev, parameters: { ...environments.dev.parameters, GithubScheduleState: 'DISABLED' } });
  assert.deepEqual(standards.all.alarms!(paused), []);
});

test('the alarms of a function that clients call too page although its schedule is off', () => {
  const off = broken('MeshApiKeySchedule', (p) => (p.State = 'DISABLED'));
  assert.deepEqual(standards.all.alarms!(off), []);
  off.resources.MeshResolverErrorsAlarm!.Properties.ActionsEnabled = false;
  assert.match(standards.all.alarms!(off).join(), /^MeshResolverErrorsAlarm: pages nobody while .* only if nothing else invokes the function/);
});

test('a finding of cdk-nag that nobody explained is noticed', () => {
  const report = { pluginReports: [{ violations: [{ ruleName: 'R1', description: 'bad', violatingConstructs: [{ constructPath: 'a/b' }] }] }] };
  assert.deepEqual(findings({ ...synthesize('dev'), report }), ['R1 a/b: bad']);
});

// ------------------------------------------------------------------------------------- environments

test('only alarms may be told to somebody, and only where an environment says so', () => {
  for (const name of names) {
    const subscriptions = ofType(synthesize(name).resources, 'AWS::SNS::Subscription');
    assert.equal(subscriptions.length, environments[name].alarms ? 1 : 0);
  }
});

test('every environment that costs something has a budget, and the feeds have their dollar', () => {
  for (const name of names) {
    const budgets = ofType(synthesize(name).resources, 'AWS::Budgets::Budget').map(([id, r]) => [id, r.Properties.Budget.BudgetLimit.Amount]);
    assert.deepEqual(budgets, name === 'local' ? [] : [['EnvironmentBudget', environments[name].budgets!.environment], ['FeedsBudget', 1]]);
  }
});

test('where requests of the mesh are traced and cost something, a rule for its API alone says how many', () => {
  for (const name of names) {
    const { resources, environment } = synthesize(name);
    const rules = ofType(resources, 'AWS::XRay::SamplingRule').map(([, r]) => r.Properties.SamplingRule);
    assert.equal(rules.length, name === 'local' ? 0 : 1, name);
    for (const rule of rules) {
      assert.deepEqual(rule.ResourceARN, { 'Fn::GetAtt': ['MeshApi', 'Arn'] });
      assert.ok(rule.RuleName === `mesh${environment.suffix}` && rule.RuleName.length <= 32 && rule.Priority < 10_000, rule.RuleName);
    }
  }
  const untraced = fresh({ ...environments.dev, tracing: 'PassThrough' });
  assert.deepEqual(ofType(untraced.resources, 'AWS::XRay::SamplingRule'), []);
});

test('a secret may live in Secrets Manager instead: the function that reads it is allowed to, and no other', () => {
  const environment = { ...environments.dev, parameters: { ...environments.dev.parameters, SlackBotTokenParameter: '/aws/reference/secretsmanager/slack-bot' } };
  const { resources } = fresh(environment);
  const allowed = standards.statements(resources).filter(({ statement }) => [statement.Action].flat().includes('secretsmanager:GetSecretValue'));
  assert.deepEqual(allowed.map(({ where }) => where), ['SlackFilesRole.SecretsManager']);
  assert.match(JSON.stringify(allowed[0]!.statement.Resource), /:secret:slack-bot-\?{6}"/);
});
