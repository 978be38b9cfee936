// What a month costs: the first estimates add up, and the feeds stay within one dollar.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cost, pricesOf, read, runs, estimates, sum, type Usage } from '../cost.ts';
import { described } from '../cli/world.ts';
import { environments, type Name } from '../environments.ts';
import { synthesize as fresh } from '../synthesize.ts';
import { readTemplate, templateNames } from '../template.ts';
import { ofType, synthesize } from './synth.ts';

const applications = Object.fromEntries(templateNames().flatMap((n) => Object.keys(readTemplate(n).Resources).map((id) => [id, n])));
const usage = read<Usage>('usage.json');
const month = (free: boolean, name: Name = 'prod') => {
  const { resources, environment } = synthesize(name);
  return cost({ resources, applications, usage, prices: pricesOf(environment.region), free, suffix: environment.suffix });
};

test('each estimate adds up to the total that it states', () => {
  for (const t of estimates()) assert.equal(t.then.toFixed(t.digits), t.total.toFixed(t.digits), t.title);
});

test('the feeds cost at most one dollar per month, without any free tier', { skip: !templateNames().includes('feeds') }, () => {
  const feeds = sum(month(false).filter((l) => l.application === 'feeds' && l.part === 'service'));
  assert.ok(feeds > 0.1 && feeds <= 1, `${feeds}`);
});

test('every function, table, schedule, queue and alarm has a line', () => {
  const { resources } = synthesize('prod');
  const billed = new Set(month(false).map((l) => l.resource));
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
  assert.equal(alarms.reduce((n, l) => n + l.free, 0), Math.min(10, alarms.length));
  assert.ok(sum(month(true)) < sum(month(false)));
});

test('observability is counted apart', () => {
  const parts = new Set(month(false).filter((l) => ['alarm', 'metric', 'dashboard', 'kmsKey', 'ssmParameter', 'secret'].includes(l.unit)).map((l) => l.part));
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
  assert.equal(secrets.length, described(environments.prod).secrets.length);
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
