// What stops a deployment before anything is deployed: settings and secrets that are missing, and settings that AWS would refuse half-way.
import type { Environment } from '../environments.ts';
import { described } from './world.ts';

/** Width of the column of names. */
const WIDTH = 42;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** How many days ahead AppSync lets an API key expire. */
const KEY_DAYS = { least: 1, most: 365 };
/** No time in seconds is as large as this; a time in milliseconds is. */
const MILLISECONDS_FROM = 100_000_000_000;

/** One line per problem; none if the environment can be deployed. `missing` are the names of the secrets that are not set. */
export function obstacles(env: Environment, missing: string[], now: Date): string[] {
  const { secrets, needed } = described(env);
  const line = (kind: string, name: string, text: string) => `  ${kind.padEnd(8)} ${name.padEnd(WIDTH)} ${text}`;
  const expiry = keyExpiryProblem(env, now);
  const key = secretsKeyProblem(env);
  return [
    ...(isWatched(env) && env.alarms === undefined ? [line('setting', 'alarms', "is missing: whom alarms notify, for example { protocol: 'email', endpoint: 'you@example.com' }")] : []),
    ...needed.map((n) => line('setting', n.parameter, `is missing: ${n.description}`)),
    ...(expiry === undefined ? [] : [line('setting', 'MeshApiKeyExpires', expiry)]),
    ...(key === undefined ? [] : [line('setting', 'secretsKey', key)]),
    ...secrets.filter((s) => missing.includes(s.name)).map((s) => line('secret', s.name, `is missing: ${s.description}`)),
  ];
}

/** Where somebody has to be told of an alarm. */
const isWatched = (env: Environment) => env.name === 'staging' || env.name === 'prod';

/** Why AppSync would refuse MeshApiKeyExpires. The local AWS refuses nothing, so `local` keeps the template's default. */
function keyExpiryProblem(env: Environment, now: Date): string | undefined {
  const value = env.parameters.MeshApiKeyExpires;
  if (value === undefined || env.name === 'local') return undefined;
  const good = toTheHour(now.getTime() + (KEY_DAYS.most - 1) * DAY_MS);
  const advice = `For example ${good / 1000} is ${new Date(good).toISOString()}.`;
  const seconds = Number(value);
  if (!Number.isInteger(seconds) || String(value).trim() === '') return `is "${value}", which is no number of seconds since the epoch. ${advice}`;
  if (seconds >= MILLISECONDS_FROM) return `is ${value}: these are milliseconds; it is in seconds since the epoch. ${advice}`;
  const expires = toTheHour(seconds * 1000);
  if (expires >= now.getTime() + KEY_DAYS.least * DAY_MS && seconds * 1000 <= now.getTime() + KEY_DAYS.most * DAY_MS) return undefined;
  return `is ${new Date(seconds * 1000).toISOString()}: AppSync lets an API key expire ${KEY_DAYS.least} to ${KEY_DAYS.most} days from now. ${advice}`;
}

/** Why the permission to decrypt would not work: IAM takes a key by its own ARN, not by an alias, and SSM only a key of its own region. */
function secretsKeyProblem({ secretsKey, region }: Environment): string | undefined {
  if (secretsKey === undefined || new RegExp(`^arn:[\\w-]+:kms:${region}:\\d{12}:key/[\\w-]+$`).test(secretsKey)) return undefined;
  return `is ${secretsKey}; it has to be the ARN of a key in ${region} (arn:aws:kms:${region}:ACCOUNT:key/ID)`;
}

/** AppSync rounds an expiry down to the hour. */
function toTheHour(ms: number): number {
  return Math.floor(ms / HOUR_MS) * HOUR_MS;
}
