// What a month costs: the first estimates add up, the feeds stay within one dollar all-in, and observability within eight.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { alarmMetrics, cost, pricesOf, read, runs, estimates, sum, totals, type Usage } from '../cost.ts';
import { described } from '../cli/world.ts';
import { environments, type Name } from '../environments.ts';
import { synthesize as fresh } from '../synthesize.ts';
import { manyFeeds, slope } from '../many-feeds.ts';
import { BUILT_IN, type Feed } from '../feeds.ts';
import { readTemplate, templateNames } from '../template.ts';
import { ownMetrics } from './standards.ts';
import { listed, ofType, synthesize } from './synth.ts';

const applications = Object.fromEntries(templateNames().flatMap((n) => Object.keys(readTemplate(n).Resources).map((id) => [id, n])));
const usage = read<Usage>('usage.json');
const month = (free: boolean, name: Name = 'prod') => {
  const { resources, environment } = synthesize(name);
  return cost({ resources, applications, usage, prices: pricesOf(environment.region), free, suffix: environment.suffix });
};

test('each estimate adds up to the total that it states', () => {
  for (const t of estimates()) assert.equal(t.then.toFixed(t.digits), t.total.toFixed(t.digits), t.title);
});

test('the feeds cost at most one dollar per month all-in: with alarms, metrics, logs, traces and backups, without any free tier', () => {
  const { service, allIn } = totals(month(false)).find(({ application }) => application === 'feeds')!;
  assert.ok(service > 0.02 && allIn > service && allIn <= 1, `service ${service}, all-in ${allIn}`);
  const parts = new Set(month(false).filter((l) => l.application === 'feeds').map((l) => l.unit));
  for (const unit of ['alarm', 'logGb', 'logGbMonth', 'trace', 'dynamodbPitrGbMonth', 'schedulerInvocation', 'sqsRequest']) assert.ok(parts.has(unit), unit);
});

test('without a further feed the functions and the table that they share cost nothing', () => {
  const own = month(false).filter((l) => /^(FeedsSubscriberFunction|FeedsNotifierFunction|FeedsStateTable)$/.test(l.resource));
  assert.equal(sum(own), 0);
});

test('300 further feeds cost 300 times what one costs, and the alarm once', () => {
  const feeds: Feed[] = Array.from({ length: 300 }, (_, i) => ({ name: `f-${i}`, url: 'https://example.com/', period: '15 minutes', destinations: ['mastodon'] }));
  const { resources } = fresh({ ...environments.prod, feeds: [...BUILT_IN, ...feeds] });
  const synthesized = sum(cost({ resources, applications, usage, prices: pricesOf('ap-northeast-1'), free: false, suffix: '' })) - sum(month(false));
  const rows = manyFeeds(environments.prod, usage, [1, 100, 300]);
  const each = slope(rows);
  assert.ok(Math.abs(rows[2]!.dollars - synthesized) < 1e-6, `${rows[2]!.dollars} is what ${synthesized} is without synthesizing it`);
  for (const { feeds: n, dollars, calls } of rows) {
    assert.ok(Math.abs(dollars - 0.1 - n * each.dollars) < 1e-6, `${n} feeds: ${dollars}`);
    assert.equal(calls, n * each.calls);
  }
  // docs/benchmarks.md and docs/deployment.md have these figures.
  assert.deepEqual([each.calls, each.dollars.toFixed(3), rows[2]!.calls, rows[2]!.dollars.toFixed(2)], [6_180, '0.030', 1_854_000, '9.01']);
});

test('observability of everything costs at most eight dollars per month, without any free tier', () => {
  const observability = sum(month(false).filter((l) => l.part === 'observability'));
  assert.ok(observability > 4 && observability <= 8, `${observability}`);
});

test('alarms watch at most nine metrics of the feeds and 34 in all, also with further feeds; each metric of an expression counts', () => {
  const { resources } = fresh(listed('prod'));
  const alarms = ofType(resources, 'AWS::CloudWatch::Alarm');
  const count = (of: typeof alarms) => of.reduce((n, [, r]) => n + alarmMetrics(r.Properties), 0);
  assert.ok(count(alarms) <= 34, `${count(alarms)}`);
  assert.ok(count(alarms.filter(([id]) => applications[id] === 'feeds')) <= 9);
  const math = { Metrics: [{ Id: 'rate', Expression: 'a / b' }, { Id: 'a', MetricStat: {} }, { Id: 'b', MetricStat: {} }] };
  assert.equal(alarmMetrics(math), 2);
});

test('every metric that our functions send is in the model with the hours in which it is sent, and no other', () => {
  assert.deepEqual(Object.keys(usage.observability.metrics).sort(), [...ownMetrics()].sort());
  const names = ofType(synthesize('prod').resources, 'AWS::Lambda::Function').map(([, r]) => r.Properties.FunctionName);
  for (const [metric, { functions, hours }] of Object.entries(usage.observability.metrics)) {
    assert.ok(functions.length > 0 && functions.every((f) => names.includes(f)) && hours > 0, metric);
  }
});

test('every metric that a metric filter finds is in the model with the hours in which a line matches, and no other', () => {
  const filters = ofType(synthesize('prod').resources, 'AWS::Logs::MetricFilter');
  const found = filters.flatMap(([, r]) => r.Properties.MetricTransformations.map((t: any) => t.MetricName));
  assert.deepEqual(Object.keys(usage.observability.filtered).sort(), found.sort());
  const lines = month(false).filter((l) => l.unit === 'metric' && filters.some(([id]) => id === l.resource));
  assert.deepEqual(lines.map((l) => l.quantity * 720).sort(), [30, 4]);
});

test('traces of the API are counted by its sampling rule, and without one by the default of X-Ray', () => {
  const traces = (resources: any) => cost({ resources, applications, usage, prices: pricesOf('ap-northeast-1'), free: false, suffix: '' })
    .filter((l) => l.resource === 'MeshApi' && l.unit === 'trace').map((l) => l.quantity);
  const { MeshSamplingRule, ...without } = synthesize('prod').resources;
  assert.deepEqual(traces({ ...without, MeshSamplingRule }), [7_500], '0.5 % of 1.5 million operations');
  assert.deepEqual(traces(without), [72_000 + 71_400], 'one per second of 20 hours, and 5 % of the others');
  assert.deepEqual(traces({ ...without, MeshApi: { ...without.MeshApi, Properties: { ...without.MeshApi!.Properties, XrayEnabled: false } } }), []);
});

test('traces of a function are counted by the sampling of Lambda: one per second, and 5 % of the others', () => {
  const { resources } = synthesize('prod');
  const traces = (invocations: number, traced: number) => {
    const functions = { ...usage.functions, 'tokens-api': { ...usage.functions['tokens-api']!, invocations, traced } };
    return cost({ resources, applications, usage: { ...usage, functions }, prices: pricesOf('ap-northeast-1'), free: false, suffix: '' })
      .filter((l) => l.resource === 'TokensApiFunction' && l.unit === 'trace').map((l) => l.quantity);
  };
  const seconds = 30 * 24 * 3600;
  assert.deepEqual(traces(30_000, 1), [30_000], 'fewer than one per second are all recorded');
  assert.deepEqual(traces(30_000_000, 1), [seconds + (30_000_000 - seconds) * 0.05]);
  assert.deepEqual(traces(30_000_000, 0.5), [seconds + (15_000_000 - seconds) * 0.05], 'half of them are in traces of other functions');
  assert.deepEqual(traces(30_000_000, 0), []);
});

test('the access log of the HTTP API is counted', () => {
  const written = month(false).filter((l) => l.resource === 'HttpApiStage' && l.unit === 'logGb');
  assert.deepEqual(written.map((l) => [l.part, l.quantity.toFixed(3)]), [['observability', '0.018']]);
});

test('the log of the mesh is kept as long as its log group says, and not for ever', () => {
  const { MeshApiLogGroup, ...without } = synthesize('prod').resources;
  const kept = month(false).filter((l) => l.resource === 'MeshApi' && l.unit === 'logGbMonth');
  assert.deepEqual(kept.map((l) => [l.what, l.quantity.toFixed(3)]), [['log, GB kept for 90 days', '2.925']]);
  assert.equal(MeshApiLogGroup!.Properties.RetentionInDays, 90);
  assert.throws(() => cost({ resources: without, applications, usage, prices: pricesOf('ap-northeast-1'), free: false, suffix: '' }), /MeshApi is kept for ever/);
});

test('what an index repeats is paid for', () => {
  const mesh = month(false).filter((l) => l.resource === 'MeshTable');
  assert.ok(mesh.some((l) => l.what === 'writes to indexes' && l.dollars > 1));
});

test('every function, table, schedule that is on, queue and alarm has a line', () => {
  const { resources } = fresh(listed('prod'));
  const lines = cost({ resources, applications, usage, prices: pricesOf('ap-northeast-1'), free: false, suffix: '' });
  const billed = new Set(lines.map((l) => l.resource));
  assert.deepEqual(new Set(lines.filter((l) => /^(FeedS|FurtherF)/.test(l.resource)).map((l) => l.application)), new Set(['feeds']));
  assert.ok(!billed.has('FeedSchedulecomic'), 'it is paused');
  delete resources.FeedSchedulecomic;
  for (const type of ['Lambda::Function', 'DynamoDB::Table', 'Scheduler::Schedule', 'SQS::Queue', 'CloudWatch::Alarm', 'CloudWatch::Dashboard', 'AppSync::GraphQLApi']) {
    for (const [id] of ofType(resources, `AWS::${type}`)) assert.ok(billed.has(id), id);
  }
});

test('every function and table has its own assumptions in infra/cost/usage.json', () => {
  const { resources } = synthesize('prod');
  for (const [id, r] of ofType(resources, 'AWS::Lambda::Function')) assert.ok(usage.functions[r.Properties.FunctionName], id);
  for (const [id] of ofType(resources, 'AWS::DynamoDB::Table')) assert.ok(usage.tables[id], id);
});

test('the free tier is used once, not once per resource', () => {
  const alarms = month(true).filter((l) => l.unit === 'alarm');
  assert.equal(alarms.reduce((n, l) => n + l.free, 0), Math.min(10, alarms.reduce((n, l) => n + l.quantity, 0)));
  assert.ok(sum(month(true)) < sum(month(false)));
});

test('observability is counted apart', () => {
  const parts = new Set(month(false).filter((l) => ['alarm', 'metric', 'dashboard', 'kmsKey', 'ssmParameter', 'secret', 'logGb', 'logGbMonth', 'logGbSearched', 'trace', 'snsPublish'].includes(l.unit)).map((l) => l.part));
  assert.deepEqual([...parts], ['observability']);
});

test('what is expected of a month is within the budget, so that it rings only when something is different', () => {
  for (const name of ['dev', 'staging', 'prod'] as const) {
    const total = sum(month(false, name));
    const budget = environments[name].budgets!.environment;
    assert.ok(total < budget * 0.8 && total > budget / 4, `${name}: ${total.toFixed(2)} of ${budget}; it rings at 80 %`);
  }
});

test('each secret is counted once, and one in Secrets Manager costs something', () => {
  const secrets = month(false).filter((l) => l.unit === 'ssmParameter');
  const { secrets: used, unused } = described(environments.prod);
  assert.equal(secrets.length, used.length + unused.length, 'also those that nothing uses yet: they cost nothing');
  assert.equal(sum(secrets), 0);
  const { resources } = fresh({ ...environments.prod, parameters: { ...environments.prod.parameters, SlackBotTokenParameter: '/aws/reference/secretsmanager/slack-bot' } });
  const lines = cost({ resources, applications, usage, prices: pricesOf('ap-northeast-1'), free: false, suffix: '' });
  assert.deepEqual(lines.filter((l) => l.unit === 'secret').map((l) => l.dollars), [0.4]);
});

test('where a price differs from the estimate, the reason is noted, and prices say when they were checked', () => {
  const rows = estimates().flatMap((t) => t.rows);
  assert.ok(rows.some((r) => r.price !== r.priceNow) && rows.some((r) => r.price === r.priceNow));
  for (const r of rows) assert.ok(r.price === r.priceNow || r.note, `${r.what}: its price differs; say why`);
  assert.match(read<any>('prices.json').checked.on, /^\d{4}-\d{2}-\d{2}$/);
});

test('there are prices for the region of every environment', () => {
  for (const { region } of Object.values(environments)) pricesOf(region);
  assert.throws(() => pricesOf('mars-north-1'), /no prices/);
});

test('a schedule is counted from its expression', () => {
  assert.equal(runs('rate(5 minutes)'), 8640);
  assert.equal(runs('rate(15 minutes)'), 2880);
  assert.equal(runs('rate(1 hour)'), 720);
  assert.throws(() => runs('cron(0 12 * * ? *)'), /only rate/);
});
