// The templates and the code agree. That each binary reads what it declares is shown by running it (tests/deploy/variables.test.ts).
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { common, declared } from '../functions.ts';
import { read, type Usage } from '../cost.ts';
import { functionsOf, infra, readTemplate, root, templateNames } from '../template.ts';
import { binaries, otherCrate, sourceOf, variablesNamedIn } from './source.ts';
import { LOCAL_ONLY, NOT_CONFIGURED } from './standards.ts';

const templates = templateNames().map((name) => ({ name, template: readTemplate(name) }));
const functions = templates.flatMap(({ name, template }) => functionsOf(template).map((f) => ({ ...f, template: name })));
const crateOf = (fn: string) => declared.find((d) => d.name === fn)?.crate;
/** The crates that have functions. */
const applications = [...new Set(declared.map((d) => d.crate))];
/** Binaries that are no Lambda functions. */
const TOOLS = new Set(['explore', 'ichidoctl', 'sessync']);

test('every function of the templates is declared', () => {
  for (const f of functions) assert.ok(crateOf(f.name), `infra/templates/${f.template}.yaml has ${f.name}; ichido-local --functions does not print it`);
});

test('every declared function is in a template', () => {
  for (const d of declared) assert.ok(functions.some((f) => f.name === d.name), `crates/${d.crate} declares ${d.name}; no template has it`);
});

test('every declared function has a binary, and every binary is a declared function', () => {
  const found = binaries().filter((b) => !TOOLS.has(b.name));
  assert.deepEqual(found, declared.map(({ name, crate }) => ({ name, crate })), 'crates/CRATE/src/bin/NAME.rs; a binary that is no function belongs into TOOLS');
});

test('scripts/function-names finds the functions that the templates have', () => {
  const run = (...args: string[]) => execFileSync(path.join(root, 'scripts', 'function-names'), args, { encoding: 'utf8' }).trim().split('\n');
  assert.deepEqual(run(), functions.map((f) => f.name).sort());
  assert.deepEqual(run('--packages'), [...applications].sort(), 'and their crates');
});

for (const { name, crate, variables } of declared) {
  const set = Object.keys(functions.find((f) => f.name === name)?.resource.Properties?.Environment?.Variables ?? {});

  test(`every variable that ${name} reads is set in its template`, () => {
    const missing = variables.filter((v) => !set.includes(v) && !LOCAL_ONLY.test(v) && !NOT_CONFIGURED.get(name)?.includes(v));
    assert.deepEqual(missing, [], `crates/${crate} declares them for ${name}; its template does not set them`);
  });

  test(`every variable that the template of ${name} sets is read`, () => {
    const other = otherCrate(name);
    const named = other === undefined ? [] : variablesNamedIn(other);
    const unread = set.filter((v) => !variables.includes(v) && !common.has(v) && !named.includes(v));
    assert.deepEqual(unread, [], `its template sets them; ${other ?? `crates/${crate}`} does not declare them for ${name}`);
  });
}

test('the example of an effect of one\'s own may be deployed: its variables are found', () => {
  const ours = declared.find((d) => d.name === 'slack-files')!.variables;
  const named = variablesNamedIn('examples/slack-classifier');
  assert.deepEqual(named.filter((v) => !ours.includes(v)), ['CLASSIFIER_URL', 'CLASSIFIER_URL'], 'declared, and read');
});

test('what is left out of a template on purpose is declared, and not set', () => {
  for (const [name, left] of NOT_CONFIGURED) {
    const set = Object.keys(functions.find((f) => f.name === name)!.resource.Properties!.Environment.Variables);
    const variables = declared.find((d) => d.name === name)!.variables;
    for (const v of left) assert.ok(variables.includes(v) && !set.includes(v), `NOT_CONFIGURED in infra/test/standards.ts is out of date: ${name}, ${v}`);
  }
});

for (const { name, template } of templates) {
  const crates = [...new Set(functionsOf(template).map((f) => crateOf(f.name)).filter((c) => c !== undefined))];
  if (crates.length === 0) continue;
  // Resolvers are code too.
  const code = crates.map((c) => sourceOf(c)).join('\n') + resolvers(name);
  // Where the application does not say how its TTL attribute is called, the library's default holds.
  const defaults = sourceOf('ichido');

  for (const [id, { Properties: p }] of Object.entries(template.Resources).filter(([, r]) => r.Type === 'AWS::DynamoDB::Table')) {
    const quoted = (s: string, text = code) => new RegExp(`["'\`#.]${s}\\b`).test(text);

    test(`${name}: the keys, indexes and TTL attribute of ${id} are those that the code uses`, () => {
      const indexes = [...(p!.GlobalSecondaryIndexes ?? []), ...(p!.LocalSecondaryIndexes ?? [])];
      const keys = [p!, ...indexes].flatMap((x: any) => x.KeySchema.map((k: any) => k.AttributeName));
      for (const attribute of new Set<string>(keys)) assert.ok(quoted(attribute), `${id} has the key ${attribute}; the code never names it`);
      const ttl = p!.TimeToLiveSpecification.AttributeName;
      assert.ok(quoted(ttl) || quoted(ttl, defaults), `${id} expires by ${ttl}; the code never names it`);
      for (const { IndexName } of indexes) assert.ok(quoted(IndexName), `${id} has the index ${IndexName}; the code never names it`);
      assert.deepEqual([...new Set(keys)].sort(), p!.AttributeDefinitions.map((a: any) => a.AttributeName).sort(), 'AttributeDefinitions are the keys');
    });

    test(`${name}: the indexes that the code names exist in ${id}`, () => {
      const named = [...code.matchAll(/(?:index_name\(|index:\s*)["']([A-Za-z0-9_-]+)["']/g)].map((m) => m[1]!);
      const tables = Object.values(template.Resources).filter((r) => r.Type === 'AWS::DynamoDB::Table');
      const exist = tables.flatMap((t) => (t.Properties!.GlobalSecondaryIndexes ?? []).map((i: any) => i.IndexName));
      for (const index of named) assert.ok(exist.includes(index), `the code queries ${index}, which no table of ${name}.yaml has`);
    });
  }
}

// What a role allows and nobody calls is not least privilege. That what is called is allowed, is shown where IAM is enforced (tests/deploy).
const library = sourceOf('ichido') + sourceOf('function');
/** How an action looks in the code: the SDK's method, or a part of a transaction, which needs the same permission. */
const CALLS: Record<string, RegExp> = {
  'dynamodb:BatchGetItem': /\.batch_get_item\(/,
  'dynamodb:BatchWriteItem': /\.batch_write_item\(/,
  'dynamodb:ConditionCheckItem': /ConditionCheck::builder\(/,
  'dynamodb:DeleteItem': /\.delete_item\(|\bDelete::builder\(/,
  'dynamodb:DescribeTable': /\.describe_table\(|\.warm\(/,
  'dynamodb:GetItem': /\.get_item\(/,
  'dynamodb:PutItem': /\.put_item\(|\bPut::builder\(/,
  'dynamodb:Query': /\.query\(\)/,
  'dynamodb:UpdateItem': /\.update_item\(|\bUpdate::builder\(/,
  'lambda:InvokeFunction': /\.invoker\(\)/,
  'ssm:GetParameters': /"AmazonSSM\.GetParameters"/,
};
/** What Lambda itself does with a function's role. */
const BY_LAMBDA = new Set(['logs:CreateLogStream', 'logs:PutLogEvents', 'xray:PutTraceSegments', 'xray:PutTelemetryRecords', 'sqs:SendMessage']);

for (const f of functions) {
  test(`the role of ${f.name} allows only what its code calls`, () => {
    const code = sourceOf(crateOf(f.name)!) + library;
    const role = readTemplate(f.template).Resources[`${f.prefix}Role`]!;
    const actions = role.Properties!.Policies.flatMap((p: any) => p.PolicyDocument.Statement).flatMap((s: any) => s.Action) as string[];
    for (const action of new Set(actions)) {
      if (BY_LAMBDA.has(action)) continue;
      assert.ok(CALLS[action], `${action} is new here: say in CALLS how it looks in the code`);
      assert.match(code, CALLS[action]!, `${f.prefix}Role allows ${action}, which crates/${crateOf(f.name)} never calls`);
    }
  });
}

for (const crate of applications) {
  test(`what ${crate} calls, one of its roles allows`, () => {
    const code = sourceOf(crate);
    const own = functions.filter((f) => crateOf(f.name) === crate);
    const allowed = new Set(own.flatMap((f) => readTemplate(f.template).Resources[`${f.prefix}Role`]!.Properties!.Policies)
      .flatMap((p: any) => p.PolicyDocument.Statement).flatMap((s: any) => s.Action as string[]));
    for (const [action, call] of Object.entries(CALLS)) {
      assert.ok(allowed.has(action) || !call.test(code), `crates/${crate} calls ${action}; no role of its functions allows it`);
    }
  });
}

test('the role of the mesh\'s resolvers allows what they do, and nothing else', () => {
  const operations = new Set([...resolvers('mesh').matchAll(/operation: '(\w+)'/g)].map((m) => m[1]!));
  operations.delete('TransactWriteItems'); // its parts need the permissions
  const needed = [...operations].map((o) => (o === 'Invoke' ? 'lambda:InvokeFunction' : `dynamodb:${o === 'ConditionCheck' ? 'ConditionCheckItem' : o}`));
  const role = readTemplate('mesh').Resources.MeshSourceRole!;
  const allowed = role.Properties!.Policies.flatMap((p: any) => p.PolicyDocument.Statement).flatMap((s: any) => s.Action) as string[];
  assert.deepEqual([...new Set(allowed)].sort(), needed.sort());
});

test('a function that knows its period knows the one of its schedule', () => {
  for (const { template } of templates) {
    for (const [id, { Type, Properties: p }] of Object.entries(template.Resources)) {
      if (Type !== 'AWS::Scheduler::Schedule') continue;
      const fn = template.Resources[String(p!.Target.Arn.Ref).replace(/Alias$/, 'Function')]!;
      const minutes = fn.Properties!.Environment.Variables.PERIOD_MINUTES;
      if (minutes === undefined) continue; // that a function which reads it gets it, is shown above
      assert.equal(p!.ScheduleExpression, `rate(${minutes} minutes)`, id);
    }
  }
});

function resolvers(name: string): string {
  const dir = path.join(infra, 'appsync');
  if (name !== 'mesh' || !fs.existsSync(dir)) return '';
  return fs.readdirSync(dir, { recursive: true, encoding: 'utf8' })
    .filter((f) => f.endsWith('.js') && !f.includes('node_modules')).map((f) => fs.readFileSync(path.join(dir, f), 'utf8')).join('\n');
}

test('the dashboard shows every alarm and every function, and plots only what something of this stack sends', () => {
  const body = readTemplate('shared').Resources.Dashboard!.Properties!.DashboardBody['Fn::Sub'] as string;
  for (const f of functions) assert.ok(body.includes(`"${f.name}\${Suffix}"`), `infra/templates/shared.yaml: the dashboard says nothing of ${f.name}`);
  const widgets = (JSON.parse(body.replace('${FurtherFeedsAlarm}', '')) as { widgets: any[] }).widgets; // and it is JSON
  const rings = (widgets.find((w) => w.type === 'alarm')?.properties.alarms ?? []).map((arn: string) => arn.replace(/^.*:alarm:/, ''));
  assert.match(body, /"\$\{FurtherFeedsAlarm\}\s*\]/);
  rings.push('further-feeds-errors${Suffix}'); // infra/service.ts puts it there if there are further feeds
  const resources = templates.flatMap(({ template }) => Object.values(template.Resources));
  const alarms = resources.filter((r) => r.Type === 'AWS::CloudWatch::Alarm').map((r) => r.Properties!.AlarmName['Fn::Sub']);
  assert.deepEqual(rings.sort(), alarms.sort(), 'and every alarm, first of all');
  assert.ok(!body.includes('SEARCH('), 'no search over the whole account');

  // Whose metrics exist: what AWS's services send of a resource of these templates, and what our functions send.
  const names = new Set(functions.map((f) => `${f.name}\${Suffix}`));
  const queues = new Set(resources.filter((r) => r.Type === 'AWS::SQS::Queue').map((r) => r.Properties!.QueueName['Fn::Sub']));
  const usage = read<Usage>('usage.json');
  const senders: Record<string, (metric: string, dimension: string, value: string) => boolean> = {
    'AWS/Lambda': (metric, dimension, value) => ['Invocations', 'Errors', 'Duration', 'Throttles'].includes(metric) && dimension === 'FunctionName' && names.has(value),
    'AWS/SQS': (metric, dimension, value) => metric === 'ApproximateNumberOfMessagesVisible' && dimension === 'QueueName' && queues.has(value),
    'AWS/ApiGateway': (metric, dimension, value) => ['Count', '4xx', '5xx', 'Latency'].includes(metric) && dimension === 'ApiId' && value === '${HttpApi}',
    'AWS/AppSync': (metric, dimension, value) => ['4XXError', '5XXError', 'Latency', 'ActiveConnections', 'ActiveSubscriptions'].includes(metric) && dimension === 'GraphQLAPIId' && value === '${MeshApiId}',
    Ichido: (metric, dimension, value) => dimension === 'FunctionName' && (usage.observability.metrics[metric]?.functions ?? []).includes(value.replace('${Suffix}', '')),
  };
  for (const [namespace, metric, dimension, value] of widgets.flatMap((w) => w.properties.metrics ?? [])) {
    assert.ok(senders[namespace]?.(metric, dimension, value), `nothing of this stack sends ${namespace} ${metric} of ${dimension} ${value}`);
  }
  // Numbers of the log: of a function of ours, under a name that telemetry writes or that a log line has.
  const telemetry = fs.readFileSync(path.join(root, 'crates', 'telemetry', 'src', 'metric.rs'), 'utf8');
  const numbers = new Set([...telemetry.matchAll(/Metric::\w+\("(\w+)"\)/g)].map((m) => m[1]!));
  const logs = widgets.filter((w) => w.type === 'log').map((w) => String(w.properties.query));
  assert.ok(logs.length >= 5);
  for (const query of logs) {
    const groups = [...query.matchAll(/SOURCE '([^']+)'/g)].map((m) => m[1]!);
    assert.ok(groups.length > 0 && groups.every((g) => names.has(g.replace('/aws/lambda/', ''))), query);
    const fields = [...query.matchAll(/\b[A-Z][a-z]+[A-Z]?\w*\b/g)].map((m) => m[0]).filter((word) => !['FunctionName', 'Suffix'].includes(word));
    for (const field of fields) assert.ok(numbers.has(field), `nobody writes ${field}: ${query}`);
  }
});
