// The standards for every template: each is a function from a synthesized environment to a list of problems.
// Each problem says what to do about it.
import fs from 'node:fs';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { root } from '../template.ts';
import { ofType, refersTo, type Resource, type Synthesized } from './synth.ts';

type Standard = (s: Synthesized) => string[];

/** The only actions for which a statement may name no resources. */
const UNBOUNDED_ACTIONS = new Map([
  ['xray:PutTraceSegments', 'X-Ray has no resources to name'],
  ['xray:PutTelemetryRecords', 'X-Ray has no resources to name'],
]);

/** Statements that have a `*` in a resource or action on purpose: logical id and Sid. */
const UNBOUNDED_STATEMENTS = new Map([
  ['MeshApiLogRole.Logs', 'the log group bears the id of the API, and the API needs the role first'],
  ['AlarmKey.Account', 'in a key policy "*" is the key itself; without this statement nobody could change the key again'],
  ['AlarmKey.Publishers', 'in a key policy "*" is the key itself; the condition limits it to this account'],
]);

export const tables: Standard = ({ environment, resources }) =>
  ofType(resources, 'AWS::DynamoDB::Table').flatMap(([id, { Properties: p }]) => {
    const prod = environment.name === 'prod';
    return [
      ...unless(p.BillingMode === 'PAY_PER_REQUEST', `${id}: BillingMode is PAY_PER_REQUEST`),
      ...unless(p.TimeToLiveSpecification?.Enabled === true, `${id}: has a TimeToLiveSpecification`),
      ...unless(p.PointInTimeRecoverySpecification?.PointInTimeRecoveryEnabled === prod, `${id}: point-in-time recovery is on in prod and only there`),
      ...unless(p.DeletionProtectionEnabled === undefined, `${id}: deletion protection is set by make deploy after a success, or CloudFormation could not delete the table of a failed first deployment`),
    ];
  });

export const removal: Standard = ({ environment, resources }) => [
  ...Object.entries(resources).flatMap(([id, r]) =>
    unless(r.DeletionPolicy?.replace('RetainExceptOnCreate', 'Retain') === r.UpdateReplacePolicy, `${id}: survives replacement as it survives deletion (UpdateReplacePolicy ${r.UpdateReplacePolicy}, DeletionPolicy ${r.DeletionPolicy})`)),
  ...Object.entries(resources).flatMap(([id, r]) =>
    unless(r.DeletionPolicy !== 'Retain', `${id}: DeletionPolicy is RetainExceptOnCreate; with Retain, a failed first deployment leaves a name behind that the next one collides with`)),
  ...['AWS::DynamoDB::Table', 'AWS::SQS::Queue'].flatMap((type) => ofType(resources, type)).flatMap(([id, r]) => {
    const wanted = environment.removal === 'retain' ? 'RetainExceptOnCreate' : 'Delete';
    return unless(r.DeletionPolicy === wanted, `${id}: DeletionPolicy is RetainExceptOnCreate in the template, and ${wanted} in ${environment.name}; it is ${r.DeletionPolicy}`);
  }),
];

/**
 * What the templates say of versions and aliases, for ever. CloudFormation leaves both alone while that does not change, whatever a rollout made live.
 * If it changes, CloudFormation sets the alias to what its template says: all traffic goes to the first version, at once and unwatched.
 */
export const versions: Standard = ({ resources }) => {
  const functions = ofType(resources, 'AWS::Lambda::Function');
  const frozen = functions.flatMap(([id]) => {
    const prefix = id.replace(/Function$/, '');
    return [
      [`${prefix}Version`, { Type: 'AWS::Lambda::Version', Properties: { Description: 'Published when the function was created', FunctionName: { Ref: id } }, UpdateReplacePolicy: 'Retain', DeletionPolicy: 'RetainExceptOnCreate' }],
      [`${prefix}Alias`, { Type: 'AWS::Lambda::Alias', Properties: { FunctionName: { Ref: id }, FunctionVersion: { 'Fn::GetAtt': [`${prefix}Version`, 'Version'] }, Name: 'live' } }],
    ] as [string, object][];
  });
  const known = new Set(frozen.map(([id]) => id));
  return [
    ...frozen.flatMap(([id, wanted]) => unless(isDeepStrictEqual(resources[id], wanted), `${id}: must stay ${JSON.stringify(wanted)}: any change makes the function's first version live`)),
    ...['AWS::Lambda::Version', 'AWS::Lambda::Alias'].flatMap((type) => ofType(resources, type)).flatMap(([id]) => unless(known.has(id), `${id}: a function has one version and one alias; make deploy publishes the other versions`)),
  ];
};

export const functions: Standard = ({ environment, resources }) =>
  ofType(resources, 'AWS::Lambda::Function').flatMap(([id, { Properties: p }]) => {
    const logGroup = resources[refersTo(p.LoggingConfig?.LogGroup) ?? ''];
    return [
      ...unless(typeof p.MemorySize === 'number', `${id}: MemorySize is given`),
      ...unless(typeof p.Timeout === 'number' && p.Timeout <= 900, `${id}: Timeout is given`),
      ...unless(p.Runtime === 'provided.al2023' && p.Handler === 'bootstrap', `${id}: Runtime is provided.al2023, Handler bootstrap`),
      ...unless(Array.isArray(p.Architectures), `${id}: Architectures is [{Ref: Architecture}]`),
      ...unless(p.TracingConfig?.Mode === environment.tracing, `${id}: TracingConfig.Mode is {Ref: TracingMode}`),
      ...unless(logGroup?.Type === 'AWS::Logs::LogGroup', `${id}: LoggingConfig.LogGroup refers to a log group of its own`),
      ...unless(logGroup?.Properties.LogGroupName === `/aws/lambda/${p.FunctionName}`, `${id}: its log group is /aws/lambda/${p.FunctionName}`),
      ...unless(allows(resources, id, 'logs:PutLogEvents', refersTo(p.LoggingConfig?.LogGroup)), `${id}: its role may write to its own log group`),
      ...unless(p.ReservedConcurrentExecutions === environment.reservedConcurrency[p.FunctionName.replace(environment.suffix, '')], `${id}: reserved concurrency is the environment's (environments.ts)`),
      ...unless(!p.VpcConfig && !p.DeadLetterConfig, `${id}: an on-failure destination, not a DeadLetterConfig: it carries the history of the attempts`),
    ];
  });

export const logs: Standard = ({ environment, resources }) =>
  ofType(resources, 'AWS::Logs::LogGroup').flatMap(([id, { Properties: p }]) =>
    unless(p.RetentionInDays === environment.logRetentionDays, `${id}: RetentionInDays is {Ref: LogRetentionDays}`));

/** Where an asynchronous invocation goes when Lambda gives up on it. */
export const destinations: Standard = ({ resources }) => {
  const needed = new Map<string, string>();
  for (const [id, { Properties: p }] of ofType(resources, 'AWS::Scheduler::Schedule')) needed.set(refersTo(p.Target?.Arn) ?? '', id);
  for (const [id, alias] of asynchronouslyInvoked(resources)) needed.set(alias, id);
  const configured = ofType(resources, 'AWS::Lambda::EventInvokeConfig');
  return [
    ...configured.flatMap(([id, r]) => {
      const p = r.Properties;
      const queue = refersTo(p.DestinationConfig?.OnFailure?.Destination);
      const fn = refersTo(p.FunctionName) ?? '';
      const alias = fn.replace(/Function$/, 'Alias');
      // What only a schedule invokes needs no dead letter of a run that failed: the next run does its work.
      const handedOver = [...asynchronouslyInvoked(resources)].some(([, target]) => target === alias);
      return [
        ...unless(p.Qualifier === 'live', `${id}: Qualifier is live`),
        ...unless([r.DependsOn].flat().includes(alias), `${id}: DependsOn ${alias}, or it may be made before its alias`),
        ...unless(resources[queue ?? '']?.Type === 'AWS::SQS::Queue' || !handedOver, `${id}: OnFailure is a queue of the template`),
        ...unless(typeof p.MaximumRetryAttempts === 'number' && typeof p.MaximumEventAgeInSeconds === 'number', `${id}: retries and age are given`),
        ...unless(queue === undefined || allows(resources, fn, 'sqs:SendMessage', queue), `${id}: the role of ${fn} may sqs:SendMessage to ${queue}`),
      ];
    }),
    ...[...needed].flatMap(([alias, by]) => {
      const fn = alias.replace(/Alias$/, 'Function');
      return unless(configured.some(([, { Properties: p }]) => refersTo(p.FunctionName) === fn), `${fn}: is invoked asynchronously by ${by}, so it needs an EventInvokeConfig`);
    }),
  ];
};

/** A variable *_FUNCTION (not TARGET_FUNCTION_ARN, which is called synchronously) is an asynchronous hand-over. */
function* asynchronouslyInvoked(resources: Record<string, Resource>): Generator<[string, string]> {
  for (const [id, { Properties: p }] of ofType(resources, 'AWS::Lambda::Function')) {
    for (const [name, value] of Object.entries(p.Environment?.Variables ?? {})) {
      const target = refersTo(value);
      if (name.endsWith('_FUNCTION') && target) yield [id, target];
    }
  }
}

export const privileges: Standard = ({ resources }) =>
  statements(resources).flatMap(({ where, statement }) => {
    if (statement.Effect !== 'Allow' || UNBOUNDED_STATEMENTS.has(where)) return [];
    const actions = [statement.Action].flat() as string[];
    const unbounded = [statement.Resource].flat().filter((r) => r !== undefined && JSON.stringify(r).includes('*'));
    return [
      ...unless(statement.Sid !== undefined || where.endsWith('.trust'), `${where}: a Sid says what it is for`),
      ...unless(!statement.NotAction && !statement.NotResource && !statement.NotPrincipal, `${where}: says what is allowed, not what is not`),
      ...actions.flatMap((a) => unless(!a.includes('*'), `${where}: names its actions, not ${a}`)),
      ...unless(unbounded.length === 0 || actions.every((a) => UNBOUNDED_ACTIONS.has(a)), `${where}: names its resources, not ${JSON.stringify(unbounded)}`),
      ...unless(JSON.stringify(statement.Principal ?? '') !== '"*"' && JSON.stringify(statement.Principal ?? '') !== '{"AWS":"*"}', `${where}: is not for everybody`),
    ];
  }).concat(
    ofType(resources, 'AWS::IAM::Role').flatMap(([id, { Properties: p }]) => unless(!p.ManagedPolicyArns, `${id}: policies of its own, none managed by AWS (they have wildcards)`)),
    ['AWS::IAM::User', 'AWS::IAM::AccessKey', 'AWS::IAM::ManagedPolicy'].flatMap((t) => ofType(resources, t)).map(([id]) => `${id}: roles with inline policies only`),
    ofType(resources, 'AWS::Lambda::Permission').flatMap(([id, { Properties: p }]) => [
      ...unless(p.SourceArn !== undefined, `${id}: SourceArn limits who may invoke`),
      ...unless(isAlias(resources, p.FunctionName), `${id}: FunctionName is {Ref: …Alias}`),
    ]),
    unusedRoles(resources),
  );

function unusedRoles(resources: Record<string, Resource>): string[] {
  const text = JSON.stringify(resources);
  return ofType(resources, 'AWS::IAM::Role').flatMap(([id]) => unless(text.includes(`{"Fn::GetAtt":["${id}","Arn"]}`), `${id}: nobody uses it`));
}

interface Statement { Sid?: string; Effect: string; Action?: any; NotAction?: any; Resource?: any; NotResource?: any; Principal?: any; NotPrincipal?: any; Condition?: any }

/** Every statement of every policy, with where it stands. */
export function statements(resources: Record<string, Resource>): { where: string; statement: Statement }[] {
  return Object.entries(resources).flatMap(([id, { Properties: p }]) => {
    const documents: [string, any][] = [
      ...(p?.Policies ?? []).map((x: any) => ['', x.PolicyDocument]),
      ...(p?.PolicyDocument ? [['', p.PolicyDocument]] : []),
      ...(p?.KeyPolicy ? [['', p.KeyPolicy]] : []),
      ...(p?.AssumeRolePolicyDocument ? [['trust', p.AssumeRolePolicyDocument]] : []),
    ] as [string, any][];
    return documents.flatMap(([kind, d]) => [d.Statement].flat().map((statement: Statement) => ({ where: `${id}.${kind || statement.Sid}`, statement })));
  });
}

/** Does the role of a function allow an action on a resource? */
export function allows(resources: Record<string, Resource>, fn: string, action: string, target: string | undefined): boolean {
  const role = refersTo(resources[fn]?.Properties.Role) ?? refersTo(resources[fn]?.Properties.Target?.RoleArn) ?? fn;
  return statements(resources).some(({ where, statement }) =>
    where.startsWith(`${role}.`) && statement.Effect === 'Allow' && [statement.Action].flat().includes(action) &&
    [statement.Resource].flat().some((r) => refersTo(r) === target));
}

/** Does the end of an ARN (`…:API/STAGE/METHOD/path`, with `*`) cover a method and path? */
function covers(sourceArn: any, path: string): boolean {
  const end = [sourceArn?.['Fn::Join']?.[1] ?? sourceArn].flat().pop();
  if (typeof end !== 'string' || !end.startsWith('/*/')) return false;
  const pattern = end.slice('/*'.length).split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&')).join('.*');
  return new RegExp(`^${pattern}$`).test(path);
}

/** Routes, schedules and hand-overs go to something that exists, through `live`. */
export const targets: Standard = ({ resources }) => [
  ...ofType(resources, 'AWS::ApiGatewayV2::Route').flatMap(([id, { Properties: p }]) => {
    const integration = JSON.stringify(p.Target ?? '').match(/"Ref":"(\w+)"/)?.[1] ?? '';
    const alias = refersTo(resources[integration]?.Properties.IntegrationUri) ?? '';
    const [method, route] = String(p.RouteKey).split(' ');
    const path = `/${method === 'ANY' ? '*' : method}${(route ?? '').replace(/\{[^}]+\}/g, '*')}`;
    const permitted = ofType(resources, 'AWS::Lambda::Permission').some(([, { Properties: q }]) =>
      refersTo(q.FunctionName) === alias && covers(q.SourceArn, path));
    return [
      ...unless(resources[integration]?.Type === 'AWS::ApiGatewayV2::Integration', `${id}: Target is integrations/\${an integration of the template}`),
      ...unless(isAlias(resources, { Ref: alias }), `${id}: its integration's IntegrationUri is {Ref: …Alias}`),
      ...unless(permitted, `${id}: an AWS::Lambda::Permission on ${alias} allows …\${HttpApiId}/*${path}`),
      ...unless(resources[integration]?.Properties.PayloadFormatVersion === '2.0', `${integration}: PayloadFormatVersion is "2.0"`),
    ];
  }),
  ...ofType(resources, 'AWS::Scheduler::Schedule').flatMap(([id, { Properties: p }]) => {
    const alias = refersTo(p.Target?.Arn);
    const deadLetters = refersTo(p.Target?.DeadLetterConfig?.Arn);
    return [
      ...unless(isAlias(resources, p.Target?.Arn), `${id}: Target.Arn is {Ref: …Alias}`),
      ...unless(allows(resources, id, 'lambda:InvokeFunction', alias), `${id}: its role may lambda:InvokeFunction ${alias}, and nothing else needs it`),
      ...unless(typeof p.Target?.RetryPolicy?.MaximumRetryAttempts === 'number' && typeof p.Target.RetryPolicy.MaximumEventAgeInSeconds === 'number', `${id}: Target.RetryPolicy gives retries and age (Scheduler's own; Lambda's comes on top)`),
      ...unless(resources[deadLetters ?? '']?.Type === 'AWS::SQS::Queue', `${id}: Target.DeadLetterConfig is a queue of the template: what Scheduler cannot hand to Lambda is in no other place`),
      ...unless(allows(resources, id, 'sqs:SendMessage', deadLetters), `${id}: its role may sqs:SendMessage to ${deadLetters}`),
      ...unless(p.FlexibleTimeWindow?.Mode === 'OFF', `${id}: FlexibleTimeWindow is OFF`),
      ...unless(['ENABLED', 'DISABLED'].includes(p.State) || p.State?.Ref !== undefined, `${id}: State is given`),
    ];
  }),
  ...statements(resources).flatMap(({ where, statement }) =>
    [statement.Action].flat().includes('lambda:InvokeFunction') && statement.Resource !== undefined
      ? [statement.Resource].flat().flatMap((r) => unless(isAlias(resources, r), `${where}: Resource is {Ref: …Alias}, so that callers go through live`))
      : []),
  ...ofType(resources, 'AWS::Lambda::Function').flatMap(([id, { Properties: p }]) =>
    Object.entries(p.Environment?.Variables ?? {}).flatMap(([name, value]) => {
      const target = resources[refersTo(value) ?? ''];
      return unless(target?.Type !== 'AWS::Lambda::Function', `${id}: ${name} is {Ref: …Alias}, so that the call goes through live`);
    })),
];

/** Every route has its own limit of requests. */
export const throttling: Standard = ({ resources }) => {
  const routes = ofType(resources, 'AWS::ApiGatewayV2::Route');
  const keys = new Set(routes.map(([, { Properties: p }]) => String(p.RouteKey)));
  const limited = (s: any) => s?.ThrottlingRateLimit > 0 && s?.ThrottlingBurstLimit > 0;
  return ofType(resources, 'AWS::ApiGatewayV2::Stage').flatMap(([id, { Properties: p, DependsOn }]) => [
    ...unless(limited(p.DefaultRouteSettings), `${id}: DefaultRouteSettings limit what has no line of its own`),
    ...[...keys].flatMap((key) => unless(limited(p.RouteSettings?.[key]), `${id}: RouteSettings limit "${key}"`)),
    ...Object.keys(p.RouteSettings ?? {}).flatMap((key) => unless(keys.has(key), `${id}: RouteSettings name "${key}", which is no route`)),
    ...routes.flatMap(([route]) => unless([DependsOn].flat().includes(route), `${id}: is made after ${route}`)),
  ]);
};

/** AppSync creates a schema in the background, and refuses other changes of its API meanwhile ("Schema is currently being altered"). */
export const schemas: Standard = ({ resources }) =>
  ['AWS::AppSync::ApiKey', 'AWS::AppSync::DataSource', 'AWS::AppSync::FunctionConfiguration', 'AWS::AppSync::Resolver']
    .flatMap((type) => ofType(resources, type))
    .flatMap(([id, { Properties: p, DependsOn }]) => {
      const schema = ofType(resources, 'AWS::AppSync::GraphQLSchema').find(([, s]) => refersTo(s.Properties.ApiId) === refersTo(p.ApiId))?.[0];
      return unless(schema !== undefined && [DependsOn].flat().includes(schema), `${id}: DependsOn the schema of its API`);
    });

export const encryption: Standard = ({ resources }) => {
  const tlsOnly = (id: string, type: string) =>
    ofType(resources, type).some(([, { Properties: p }]) =>
      [...(p.Queues ?? []), ...(p.Topics ?? [])].some((q: any) => refersTo(q) === id) &&
      p.PolicyDocument.Statement.some((s: any) => s.Effect === 'Deny' && s.Principal === '*' && s.Condition?.Bool?.['aws:SecureTransport'] === 'false'));
  return [
    ...ofType(resources, 'AWS::SQS::Queue').flatMap(([id, { Properties: p }]) => [
      ...unless(p.SqsManagedSseEnabled === true || p.KmsMasterKeyId !== undefined, `${id}: SqsManagedSseEnabled is true`),
      ...unless(tlsOnly(id, 'AWS::SQS::QueuePolicy'), `${id}: a queue policy denies what is not TLS`),
      ...unless(p.MessageRetentionPeriod === 1209600, `${id}: MessageRetentionPeriod is 1209600 (14 days, the longest)`),
    ]),
    ...ofType(resources, 'AWS::SNS::Topic').flatMap(([id, { Properties: p }]) => {
      const key = refersTo(p.KmsMasterKeyId) ?? '';
      const publishers = statements(resources).filter(({ where }) => where.startsWith(`${key}.`)).map(({ statement }) => JSON.stringify(statement.Principal)).join();
      return [
        ...unless(resources[key]?.Type === 'AWS::KMS::Key', `${id}: is encrypted with a key of our own: CloudWatch cannot publish under AWS's`),
        ...unless(publishers.includes('cloudwatch.amazonaws.com') && publishers.includes('budgets.amazonaws.com'), `${id}: CloudWatch and Budgets may use its key`),
        ...unless(tlsOnly(id, 'AWS::SNS::TopicPolicy'), `${id}: a topic policy denies what is not TLS`),
      ];
    }),
  ];
};

/** The sections of a runbook, in this order. */
export const HEADINGS = ['What it means', 'What users notice', 'How to look', 'What to do', 'How to know it is over', 'Why it may come back', 'Why these numbers'];

/** The runbook of an alarm: docs/runbooks/ALARM.md. The alarms of the two feeds share their pages. */
export const pageOf = (alarm: string) => `${alarm.replace(/^(github|hatebu)-/, '')}.md`;

export const alarms: Standard = ({ environment, resources }) => {
  const metrics = ownMetrics();
  // Whatever invokes a function besides a schedule names its alias too; roles name what they may invoke.
  const called = JSON.stringify(Object.values(resources).filter((r) => !['AWS::Scheduler::Schedule', 'AWS::IAM::Role'].includes(r.Type)).map((r) => r.Properties));
  const invoked = (state: string) => ofType(resources, 'AWS::Scheduler::Schedule').filter(([, { Properties: p }]) => p.State === state).map(([, { Properties: p }]) => refersTo(p.Target?.Arn) ?? '');
  const running = new Set(invoked('ENABLED')); // a function that several schedules invoke is paused when all of them are
  const paused = new Set(invoked('DISABLED').filter((alias) => !running.has(alias) && !called.includes(`{"Ref":"${alias}"}`)).map((alias) => alias.replace(/Alias$/, 'Function')));
  return ofType(resources, 'AWS::CloudWatch::Alarm').flatMap(([id, { Properties: p }]) => {
    const name = String(p.AlarmName).slice(0, String(p.AlarmName).length - environment.suffix.length);
    const page = `docs/runbooks/${pageOf(name)}`;
    const text = fs.existsSync(path.join(root, page)) ? fs.readFileSync(path.join(root, page), 'utf8') : undefined;
    const dimensions: Record<string, any> = Object.fromEntries((p.Dimensions ?? []).map((d: any) => [d.Name, d.Value]));
    const topics = (actions: any) => (actions ?? []).length > 0 && actions.every((a: any) => resources[refersTo(a) ?? '']?.Type === 'AWS::SNS::Topic');
    return [
      ...unless(String(p.AlarmName).endsWith(environment.suffix), `${id}: AlarmName is {Fn::Sub: "NAME\${Suffix}"}`),
      ...unless(topics(p.AlarmActions) && topics(p.OKActions), `${id}: AlarmActions and OKActions are [{Ref: AlarmTopicArn}]`),
      ...unless(p.Metrics === undefined && p.MetricName !== undefined, `${id}: a plain metric, no metric math: every target has to accept it`),
      ...unless((p.ActionsEnabled ?? true) === !paused.has(refersTo(dimensions.FunctionName) ?? ''), `${id}: pages nobody while the schedule of its function is off, and only if nothing else invokes the function (ActionsEnabled: {Fn::If: [NAMEIsPaused, false, true]})`),
      ...unless(['breaching', 'notBreaching', 'missing', 'ignore'].includes(p.TreatMissingData), `${id}: TreatMissingData is chosen`),
      ...unless(String(p.AlarmDescription).endsWith(`Runbook ${page}`), `${id}: AlarmDescription is a sentence and ends in "Runbook ${page}"`),
      ...unless(text !== undefined, `${id}: ${page} does not exist`),
      ...(text === undefined ? [] : [
        ...unless(text.split('\n', 1)[0]!.replace(/^# /, '').split(', ').includes(name), `${page}: its title names ${name}`),
        ...unless(isDeepStrictEqual([...text.matchAll(/^## (.*)$/gm)].map((m) => m[1]), HEADINGS), `${page}: its sections are ${HEADINGS.join(', ')}`),
      ]),
      ...unless(p.MetricName !== 'Errors' || (p.DatapointsToAlarm ?? p.EvaluationPeriods) > 1 || p.Threshold > 1, `${id}: a single error must not ring: require it repeatedly (DatapointsToAlarm), or raise the threshold`),
      ...unless(p.Namespace !== 'Ichido' || metrics.has(p.MetricName), `${id}: crates/telemetry/src/metric.rs has no metric ${p.MetricName}`),
      ...(isFiltered(p, resources)
        ? unless(p.Dimensions === undefined, `${id}: a metric that a metric filter finds has no dimensions`)
        : watched(id, p.Namespace, dimensions, resources)),
    ];
  });
};

/** Is the metric of an alarm one that a metric filter of the template finds in a log? */
function isFiltered(alarm: any, resources: Record<string, Resource>): boolean {
  return ofType(resources, 'AWS::Logs::MetricFilter').some(([, { Properties: p }]) =>
    resources[refersTo(p.LogGroupName) ?? '']?.Type === 'AWS::Logs::LogGroup' &&
    p.MetricTransformations.some((t: any) => t.MetricNamespace === alarm.Namespace && t.MetricName === alarm.MetricName));
}

/** The dimensions of an alarm name something that exists. */
function watched(id: string, namespace: string, dimensions: Record<string, any>, resources: Record<string, Resource>): string[] {
  const is = (value: any, type: string) => resources[refersTo(value) ?? '']?.Type === type;
  switch (namespace) {
    case 'AWS/Lambda': {
      const fn = refersTo(dimensions.FunctionName);
      return [
        ...unless(is(dimensions.FunctionName, 'AWS::Lambda::Function'), `${id}: the dimension FunctionName refers to a function`),
        ...unless(isDeepStrictEqual(dimensions.Resource, { 'Fn::Join': ['', [{ Ref: fn }, ':live']] }), `${id}: the dimension Resource is {Fn::Sub: "\${${fn}}:live"}`),
      ];
    }
    case 'Ichido':
      return unless(is(dimensions.FunctionName, 'AWS::Lambda::Function'), `${id}: the dimension FunctionName refers to a function`);
    case 'AWS/SQS':
      return unless(is(dimensions.QueueName, 'AWS::SQS::Queue'), `${id}: the dimension QueueName refers to a queue`);
    case 'AWS/DynamoDB':
      return unless(is(dimensions.TableName, 'AWS::DynamoDB::Table'), `${id}: the dimension TableName refers to a table`);
    case 'AWS/ApiGateway':
      return unless(is(dimensions.ApiId, 'AWS::ApiGatewayV2::Api'), `${id}: the dimension ApiId refers to the HTTP API`);
    case 'AWS/AppSync':
      return unless(is(dimensions.GraphQLAPIId, 'AWS::AppSync::GraphQLApi'), `${id}: the dimension GraphQLAPIId refers to the API`);
    default:
      return [`${id}: watches ${namespace}, which infra/test/standards.ts does not know; teach it what the dimensions refer to`];
  }
}

/** No secret in plain text: variables name secrets, and nothing weakens a function for local use. */
export const secrets: Standard = ({ environment, resources }) =>
  ofType(resources, 'AWS::Lambda::Function').flatMap(([id, { Properties: p }]) =>
    Object.entries<any>(p.Environment?.Variables ?? {}).flatMap(([name, value]) => [
      ...unless(!/(TOKEN|SECRET|PASSWORD|API_KEY|FEED_URL|CREDENTIALS)$/.test(name), `${id}: ${name} looks like a secret; name it instead (${name}_PARAMETER)`),
      ...unless(!name.endsWith('_PARAMETER') || (typeof value === 'string' && value.startsWith('/')), `${id}: ${name} is the name of an SSM parameter`),
      ...unless(!LOCAL_ONLY.test(name), `${id}: ${name} is for local runs only`),
    ])).concat(
    environment.name === 'local' ? [] : Object.entries(resources).flatMap(([id, r]) => unless(!JSON.stringify(r.Properties ?? {}).includes('/ichido/local/'), `${id}: names a secret of the local environment`)));

/** Variables that a function could read and that its template leaves out on purpose: Hatena's entries go to Mastodon alone. */
export const NOT_CONFIGURED = new Map([
  ['hatebu-notifier', ['PUSHOVER_TOKEN_PARAMETER', 'PUSHOVER_USER_PARAMETER', 'PUSHOVER_URL', 'PUSHOVER_TITLE', 'PUSHOVER_WHEN_UNSURE']],
]);

/** Switches that a deployed function must not have. */
export const LOCAL_ONLY = /PRIVATE_ADDRESSES|ALLOW_(PRIVATE|LOCAL|LOOPBACK|HTTP)|INSECURE/;

export const tags: Standard = ({ environment, resources }) =>
  ['AWS::DynamoDB::Table', 'AWS::Lambda::Function', 'AWS::SQS::Queue', 'AWS::Logs::LogGroup', 'AWS::SNS::Topic', 'AWS::AppSync::GraphQLApi', 'AWS::KMS::Key']
    .flatMap((type) => ofType(resources, type))
    .flatMap(([id, { Properties: p }]) => {
      const has = Object.fromEntries((p.Tags ?? []).map((t: any) => [t.Key, t.Value]));
      return [
        ...unless(has.Environment === environment.name && has.Project === 'ichido', `${id}: is tagged with project and environment`),
        ...unless(typeof has.Application === 'string', `${id}: is tagged with its application (Metadata.Application of the template)`),
      ];
    });

export const all: Record<string, Standard> = { tables, removal, versions, functions, logs, destinations, privileges, targets, throttling, schemas, encryption, alarms, secrets, tags };

function unless(holds: unknown, problem: string): string[] {
  return holds ? [] : [problem];
}

function isAlias(resources: Record<string, Resource>, value: any): boolean {
  return typeof value?.Ref === 'string' && resources[value.Ref]?.Type === 'AWS::Lambda::Alias';
}

/** Names of the metrics that our functions send to CloudWatch: `Metric::count("Failures").alarmed()` in crates/telemetry. */
export function ownMetrics(): Set<string> {
  const text = fs.readFileSync(path.join(root, 'crates', 'telemetry', 'src', 'metric.rs'), 'utf8');
  return new Set([...text.matchAll(/Metric::\w+\("(\w+)"\)\.alarmed\(\)/g)].map((m) => m[1]!));
}
