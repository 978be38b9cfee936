// What a month costs: one line per resource, from a synthesized template and a usage file. Pure; cli/cost.ts prints it.
import fs from 'node:fs';
import path from 'node:path';
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

export interface Usage {
  functions: Record<string, { invocations: number | 'schedule'; milliseconds: number }>;
  tables: Record<string, { writes: number; reads: number; gigabytes: number }>;
  httpApi: { requests: number };
  mesh: { operations: number; updates: number; connectionMinutes: number };
  queues: { requests: number };
  observability: { logKilobytesAnInvocation: number; tracedShare: number; metricsAFunction: number };
}

interface Resource { Type: string; Properties?: any }

const DAYS = 30;
/** For functions and tables that the usage file does not list. */
const UNKNOWN_FUNCTION = { invocations: 10_000, milliseconds: 100 };
const UNKNOWN_TABLE = { writes: 10_000, reads: 10_000, gigabytes: 0.1 };

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

export function cost({ resources, applications, usage, prices, free, suffix }: Request): Line[] {
  const lines: Omit<Line, 'free' | 'price' | 'dollars'>[] = [];
  const add = (resource: string, part: Line['part'], what: string, unit: Unit, quantity: number) => {
    if (quantity > 0) lines.push({ application: applications[resource] ?? 'shared', part, resource, what, unit, quantity });
  };
  const scheduled = new Map<string, number>();
  const secrets = new Map<string, string>(); // its name -> a function that reads it: each is paid for once
  for (const { Type, Properties: p } of Object.values(resources)) {
    if (Type === 'AWS::Scheduler::Schedule') {
      const fn = String(p.Target?.Arn?.Ref ?? '').replace(/Alias$/, 'Function');
      scheduled.set(fn, (scheduled.get(fn) ?? 0) + runs(p.ScheduleExpression));
    }
  }
  for (const [id, { Type, Properties: p }] of Object.entries(resources)) {
    switch (Type) {
      case 'AWS::Lambda::Function': {
        const name = String(p.FunctionName).slice(0, String(p.FunctionName).length - suffix.length);
        const { invocations, milliseconds } = usage.functions[name] ?? UNKNOWN_FUNCTION;
        const count = invocations === 'schedule' ? scheduled.get(id) ?? 0 : invocations;
        add(id, 'service', 'requests', 'lambdaRequest', count);
        add(id, 'service', `GB-seconds (${p.MemorySize} MB, ${milliseconds} ms)`, p.Architectures?.[0] === 'arm64' ? 'lambdaGbSecondArm64' : 'lambdaGbSecondX86', (count * milliseconds * p.MemorySize) / 1000 / 1024);
        add(id, 'observability', 'log, GB written', 'logGb', (count * usage.observability.logKilobytesAnInvocation) / 1e6);
        if (p.TracingConfig?.Mode === 'Active') add(id, 'observability', 'traces', 'trace', count * usage.observability.tracedShare);
        add(id, 'observability', 'metrics of its own', 'metric', usage.observability.metricsAFunction);
        for (const name of secretsOf(p)) secrets.set(name, id);
        break;
      }
      case 'AWS::DynamoDB::Table': {
        const { writes, reads, gigabytes } = usage.tables[id] ?? UNKNOWN_TABLE;
        add(id, 'service', 'writes', 'dynamodbWrite', writes);
        add(id, 'service', 'reads', 'dynamodbRead', reads);
        add(id, 'service', 'GB stored', 'dynamodbGbMonth', gigabytes);
        if (p.PointInTimeRecoverySpecification?.PointInTimeRecoveryEnabled) add(id, 'protection', 'GB of point-in-time recovery', 'dynamodbPitrGbMonth', gigabytes);
        break;
      }
      case 'AWS::Scheduler::Schedule': add(id, 'service', p.ScheduleExpression, 'schedulerInvocation', runs(p.ScheduleExpression)); break;
      case 'AWS::ApiGatewayV2::Api': add(id, 'service', 'requests', 'httpApiRequest', usage.httpApi.requests); break;
      case 'AWS::SQS::Queue': add(id, 'service', 'requests', 'sqsRequest', usage.queues.requests); break;
      case 'AWS::AppSync::GraphQLApi':
        add(id, 'service', 'queries and mutations', 'appsyncOperation', usage.mesh.operations);
        add(id, 'service', 'messages to subscribers', 'appsyncUpdate', usage.mesh.updates);
        add(id, 'service', 'connection minutes', 'appsyncConnectionMinute', usage.mesh.connectionMinutes);
        break;
      case 'AWS::CloudWatch::Alarm': add(id, 'observability', 'alarm', 'alarm', 1); break;
      case 'AWS::CloudWatch::Dashboard': add(id, 'observability', 'dashboard', 'dashboard', 1); break;
      case 'AWS::KMS::Key': add(id, 'observability', 'key of the alarm topic', 'kmsKey', 1); break;
      default: break; // roles, policies, versions, aliases, routes, parameters of SSM and the first two budgets cost nothing
    }
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
