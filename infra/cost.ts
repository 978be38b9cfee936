// What a month costs: one line per resource, from a synthesized template and a usage file. Pure; cli/cost.ts prints it.
import fs from 'node:fs';
import path from 'node:path';
import { EDGE_RULES } from './edge.ts';
import { infra, SECRETS_MANAGER } from './template.ts';

type Unit = string;
export type Prices = Record<Unit, number>;

export interface Line {
  application: string;
  /** What running it costs; what monitoring it adds; what backing it up adds. */
  part: 'service' | 'observability' | 'protection';
  resource: string;
  what: string;
  unit: Unit;
  quantity: number;
  /** How much of the quantity the free tier covers. */
  free: number;
  price: number;
  dollars: number;
}

/** `indexWrites`: what an index repeats of the writes, each of which is paid for again. */
interface Volume { writes: number; indexWrites?: number; reads: number; gigabytes: number }
/** What each run and each entry of a further feed adds. `calls` are those to the store, whatever each of them costs. */
interface PerFeed { perRun: { calls: number; reads: number }; perEntry: { calls: number; writes: number; indexWrites: number; kilobytes: number } }

export interface Usage {
  /** `traced`: the share of the invocations that may begin a trace, before sampling; 0 if another function's trace includes them. */
  functions: Record<string, { invocations: number | 'schedule' | 'entries'; milliseconds: number; traced?: number }>;
  tables: Record<string, Volume | PerFeed>;
  /** `entries`: how many new ones a further feed has. */
  furtherFeeds: { entries: number };
  httpApi: { requests: number; logKilobytesPerRequest: number };
  /** `lessonHours`: how long clients send requests. */
  mesh: { operations: number; updates: number; connectionMinutes: number; lessonHours: number; logKilobytesPerOperation: number };
  queues: { requests: number };
  observability: {
    logKilobytesPerInvocation: number;
    /** Metrics of our own by name: which functions send it, and in how many hours of a month. */
    metrics: Record<string, { functions: string[]; hours: number }>;
    /** Metrics that a metric filter finds in a log, by name: in how many hours of a month a line matches. */
    filtered: Record<string, { hours: number }>;
    notifications: number;
    dashboardLooks: number;
  };
}

interface Resource { Type: string; Properties?: any }

const DAYS = 30;
const HOURS = 24 * DAYS;
/** X-Ray records `ReservoirSize` requests per second and `FixedRate` of the others. */
interface Sampling { ReservoirSize: number; FixedRate: number }
/** For an API without a sampling rule of its own, and for every function: Lambda takes no rules (its developer guide, services-xray). */
const DEFAULT_SAMPLING: Sampling = { ReservoirSize: 1, FixedRate: 0.05 };
/** The dashboard shows three hours. */
const DASHBOARD_HOURS = 3;
/** For functions and tables that the usage file does not list. */
const UNKNOWN_FUNCTION = { invocations: 10_000, milliseconds: 100, traced: 1 };
const UNKNOWN_TABLE = { writes: 10_000, indexWrites: 0, reads: 10_000, gigabytes: 0.1 };

export function read<T>(name: string): T {
  return JSON.parse(fs.readFileSync(path.join(infra, 'cost', name), 'utf8')) as T;
}

export function pricesOf(region: string): Prices {
  const all = read<Record<string, Prices>>('prices.json');
  const prices = all[region];
  if (prices === undefined) throw new Error(`infra/cost/prices.json has no prices for ${region}`);
  return prices;
}

/** How often `rate(5 minutes)` runs in a month. */
export function runs(expression: string): number {
  const match = /^rate\((\d+) (minute|hour|day)s?\)$/.exec(expression);
  if (match === null) throw new Error(`cannot count ${expression}: only rate(…) is understood`);
  const minutes = Number(match[1]) * { minute: 1, hour: 60, day: 1440 }[match[2] as 'minute' | 'hour' | 'day'];
  return (DAYS * 1440) / minutes;
}

export interface Request {
  /** Logical id -> resource, with references to the other stack resolved. */
  resources: Record<string, Resource>;
  /** Logical id -> application (the template's name). */
  applications: Record<string, string>;
  usage: Usage;
  prices: Prices;
  free: boolean;
  suffix: string;
}

/** How many further feeds there are, and how many runs and entries they have in a month. */
export function furtherFeeds(resources: Record<string, Resource>, usage: Usage) {
  const own = Object.values(resources).filter(({ Type, Properties: p }) => Type === 'AWS::Scheduler::Schedule' && p.Target?.Arn?.Ref === 'FeedsSubscriberAlias' && p.State !== 'DISABLED');
  return { feeds: own.length, runs: own.reduce((n, { Properties: p }) => n + runs(p.ScheduleExpression), 0), entries: own.length * usage.furtherFeeds.entries };
}

/** What a table holds and is asked for in a month. */
function volume(id: string, resources: Record<string, Resource>, usage: Usage): Volume {
  const of = usage.tables[id] ?? UNKNOWN_TABLE;
  if (!('perRun' in of)) return of;
  const { runs, entries } = furtherFeeds(resources, usage);
  return { writes: entries * of.perEntry.writes, indexWrites: entries * of.perEntry.indexWrites, reads: runs * of.perRun.reads, gigabytes: (entries * of.perEntry.kilobytes) / 1e6 };
}

export function cost({ resources, applications, usage, prices, free, suffix }: Request): Line[] {
  const lines: Omit<Line, 'free' | 'price' | 'dollars'>[] = [];
  const add = (resource: string, part: Line['part'], what: string, unit: Unit, quantity: number) => {
    // A schedule that is in no template belongs to what it invokes.
    const application = applications[resource] ?? applications[String(resources[resource]?.Properties?.Target?.Arn?.Ref)] ?? 'shared';
    if (quantity > 0) lines.push({ application, part, resource, what, unit, quantity });
  };
  const log = (resource: string, gigabytes: number, group: Resource | undefined) => {
    const days = group?.Properties?.RetentionInDays;
    if (days === undefined) throw new Error(`the log of ${resource} is kept for ever: give it a log group with RetentionInDays`);
    add(resource, 'observability', 'log, GB written', 'logGb', gigabytes);
    add(resource, 'observability', `log, GB kept for ${days} days`, 'logGbMonth', (gigabytes * days) / DAYS);
  };
  const observed = usage.observability;
  let logged = 0; // GB
  const scheduled = new Map<string, number>();
  const secrets = new Map<string, string>(); // its name -> a function that reads it: each is paid for once
  for (const { Type, Properties: p } of Object.values(resources)) {
    if (Type === 'AWS::Scheduler::Schedule' && p.State !== 'DISABLED') {
      const fn = String(p.Target?.Arn?.Ref ?? '').replace(/Alias$/, 'Function');
      scheduled.set(fn, (scheduled.get(fn) ?? 0) + runs(p.ScheduleExpression));
    }
  }
  for (const [id, { Type, Properties: p }] of Object.entries(resources)) {
    switch (Type) {
      case 'AWS::Lambda::Function': {
        const name = String(p.FunctionName).slice(0, String(p.FunctionName).length - suffix.length);
        const { invocations, milliseconds, traced } = usage.functions[name] ?? UNKNOWN_FUNCTION;
        const count = invocations === 'schedule' ? scheduled.get(id) ?? 0 : invocations === 'entries' ? furtherFeeds(resources, usage).entries : invocations;
        add(id, 'service', 'requests', 'lambdaRequest', count);
        add(id, 'service', `GB-seconds (${p.MemorySize} MB, ${milliseconds} ms)`, p.Architectures?.[0] === 'arm64' ? 'lambdaGbSecondArm64' : 'lambdaGbSecondX86', (count * milliseconds * p.MemorySize) / 1000 / 1024);
        const gigabytes = (count * observed.logKilobytesPerInvocation) / 1e6;
        logged += gigabytes;
        log(id, gigabytes, resources[String(p.LoggingConfig?.LogGroup?.Ref)]);
        if (p.TracingConfig?.Mode === 'Active') add(id, 'observability', 'traces', 'trace', sampled(count * (traced ?? 1), HOURS, DEFAULT_SAMPLING));
        // A metric is paid for in the hours in which it is sent.
        for (const [metric, { functions, hours }] of Object.entries(observed.metrics)) {
          if (functions.includes(name)) add(id, 'observability', `metric ${metric}, ${hours} of ${HOURS} h`, 'metric', hours / HOURS);
        }
        for (const name of secretsOf(p)) secrets.set(name, id);
        break;
      }
      case 'AWS::DynamoDB::Table': {
        const { writes, indexWrites, reads, gigabytes } = volume(id, resources, usage);
        add(id, 'service', 'writes', 'dynamodbWrite', writes);
        add(id, 'service', 'writes to indexes', 'dynamodbWrite', indexWrites ?? 0);
        add(id, 'service', 'reads', 'dynamodbRead', reads);
        add(id, 'service', 'GB stored', 'dynamodbGbMonth', gigabytes);
        if (p.PointInTimeRecoverySpecification?.PointInTimeRecoveryEnabled) add(id, 'protection', 'GB of point-in-time recovery', 'dynamodbPitrGbMonth', gigabytes);
        break;
      }
      case 'AWS::Scheduler::Schedule': add(id, 'service', p.ScheduleExpression, 'schedulerInvocation', p.State === 'DISABLED' ? 0 : runs(p.ScheduleExpression)); break;
      case 'AWS::ApiGatewayV2::Stage':
        if (p.AccessLogSettings) log(id, (usage.httpApi.requests * usage.httpApi.logKilobytesPerRequest) / 1e6, resources[String(p.AccessLogSettings.DestinationArn?.['Fn::GetAtt']?.[0])]);
        break;
      case 'AWS::ApiGatewayV2::Api': add(id, 'service', 'requests', 'httpApiRequest', usage.httpApi.requests); break;
      case 'AWS::SQS::Queue': add(id, 'service', 'requests', 'sqsRequest', usage.queues.requests); break;
      case 'AWS::AppSync::GraphQLApi':
        add(id, 'service', 'queries and mutations', 'appsyncOperation', usage.mesh.operations);
        add(id, 'service', 'messages to subscribers', 'appsyncUpdate', usage.mesh.updates);
        add(id, 'service', 'connection minutes', 'appsyncConnectionMinute', usage.mesh.connectionMinutes);
        if (p.LogConfig) log(id, (usage.mesh.operations * usage.mesh.logKilobytesPerOperation) / 1e6, logOfApi(id, resources));
        if (p.XrayEnabled === true) add(id, 'observability', 'traces', 'trace', sampled(usage.mesh.operations, usage.mesh.lessonHours, samplingOf(id, resources)));
        break;
      case 'AWS::WAFv2::WebACL':
        add(id, 'protection', 'web ACL', 'wafAcl', 1);
        add(id, 'protection', 'rules', 'wafRule', p.Rules.length);
        add(id, 'protection', 'requests', 'wafRequest', usage.mesh.operations);
        break;
      // Its web ACL is in no stack of the environment: infra/edge/web-acl.yaml.
      case 'AWS::CloudFront::Distribution':
        add(id, 'protection', 'requests to CloudFront', 'cloudfrontRequest', usage.httpApi.requests);
        add(id, 'protection', 'web ACL', 'wafAcl', 1);
        add(id, 'protection', 'rules', 'wafRule', EDGE_RULES);
        add(id, 'protection', 'requests to the web ACL', 'wafRequest', usage.httpApi.requests);
        break;
      case 'AWS::Logs::MetricFilter':
        for (const { MetricName } of p.MetricTransformations) {
          const { hours } = observed.filtered[MetricName] ?? { hours: HOURS };
          add(id, 'observability', `metric ${MetricName}, ${hours} of ${HOURS} h`, 'metric', hours / HOURS);
        }
        break;
      case 'AWS::CloudWatch::Alarm': add(id, 'observability', 'alarm', 'alarm', alarmMetrics(p)); break;
      case 'AWS::CloudWatch::Dashboard': add(id, 'observability', 'dashboard', 'dashboard', 1); break;
      case 'AWS::SNS::Topic': add(id, 'observability', 'messages about alarms', 'snsPublish', observed.notifications); break;
      case 'AWS::KMS::Key': add(id, 'observability', 'key of the alarm topic', 'kmsKey', 1); break;
      default: break; // roles, policies, versions, aliases, routes, parameters of SSM and the first two budgets cost nothing
    }
  }
  for (const [id, { Type }] of Object.entries(resources)) {
    if (Type === 'AWS::CloudWatch::Dashboard') add(id, 'observability', 'log, GB searched', 'logGbSearched', (observed.dashboardLooks * logged * DASHBOARD_HOURS) / HOURS);
  }
  for (const [name, id] of secrets) {
    if (name.startsWith(SECRETS_MANAGER)) add(id, 'observability', 'secret in Secrets Manager', 'secret', 1);
    else add(id, 'observability', 'secret in SSM (standard)', 'ssmParameter', 1);
  }
  const left: Record<string, number> = free ? { ...read<any>('prices.json').free } : {};
  return lines.map((line) => {
    const price = prices[line.unit];
    if (price === undefined) throw new Error(`there is no price of ${line.unit}`);
    const pool = line.unit.startsWith('lambdaGbSecond') ? 'lambdaGbSecond' : line.unit;
    const covered = Math.min(left[pool] ?? 0, line.quantity);
    left[pool] = (left[pool] ?? 0) - covered;
    return { ...line, free: covered, price, dollars: (line.quantity - covered) * price };
  });
}

/** The log group whose name AppSync chose: /aws/appsync/apis/API-ID. */
function logOfApi(api: string, resources: Record<string, Resource>): Resource | undefined {
  return Object.values(resources).find((r) => r.Type === 'AWS::Logs::LogGroup' && JSON.stringify(r.Properties.LogGroupName).includes(JSON.stringify({ 'Fn::GetAtt': [api, 'ApiId'] })));
}

/** How many of so many requests X-Ray records at most: if they come in so many hours, evenly. */
function sampled(requests: number, hours: number, { ReservoirSize, FixedRate }: Sampling): number {
  const always = Math.min(requests, ReservoirSize * hours * 3600);
  return always + (requests - always) * FixedRate;
}

/** The rule by which X-Ray records requests of an API. */
function samplingOf(api: string, resources: Record<string, Resource>): Sampling {
  const rules = Object.values(resources).filter((r) => r.Type === 'AWS::XRay::SamplingRule').map((r) => r.Properties.SamplingRule);
  return rules.find((rule) => rule.ResourceARN?.['Fn::GetAtt']?.[0] === api) ?? DEFAULT_SAMPLING;
}

/** How many metrics an alarm watches; each is paid for. */
export function alarmMetrics(p: any): number {
  return p.Metrics === undefined ? 1 : p.Metrics.filter((m: any) => m.MetricStat !== undefined).length;
}

/** What an application costs: its service alone, and all-in with its alarms, metrics, logs, traces, secrets and backups. */
export function totals(lines: Line[]): { application: string; service: number; allIn: number }[] {
  return [...new Set(lines.map((l) => l.application))].map((application) => {
    const own = lines.filter((l) => l.application === application);
    return { application, service: sum(own.filter((l) => l.part === 'service')), allIn: sum(own) };
  });
}

/** Names of the secrets that a function's variables name. */
function secretsOf(p: any): string[] {
  return Object.entries<any>(p.Environment?.Variables ?? {}).filter(([k, v]) => k.endsWith('_PARAMETER') && typeof v === 'string').map(([, v]) => v);
}

export const sum = (lines: Line[]) => lines.reduce((total, l) => total + l.dollars, 0);

export interface Estimate {
  title: string;
  total: number;
  digits: number;
  lines: { what: string; quantity: number; price: number; today: Unit; note?: string }[];
}

export interface EstimateRow { what: string; then: number; now: number; price: number; priceNow: number; note?: string }

/** The estimates that were made before anything was built: as they were, and at today's prices. */
export function estimates(): (Estimate & { then: number; now: number; rows: EstimateRow[] })[] {
  const today = pricesOf('us-east-1');
  return read<{ estimates: Estimate[] }>('estimates.json').estimates.map((estimate) => {
    const rows = estimate.lines.map((l) => ({ what: l.what, then: l.quantity * l.price, now: l.quantity * today[l.today]!, price: l.price, priceNow: today[l.today]!, note: l.note }));
    return { ...estimate, rows, then: rows.reduce((t, r) => t + r.then, 0), now: rows.reduce((t, r) => t + r.now, 0) };
  });
}
