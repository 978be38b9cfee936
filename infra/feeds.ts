// The feeds of an environment: what the list may say, and the schedule of each feed that is not built in.
//
// The first two feeds have functions, tables and schedules of their own (templates/feeds.yaml). All further feeds share `feeds-subscriber`, `feeds-notifier` and
// `feeds-state`; the input of a feed's schedule is its whole definition, so a change of the list needs no new version of a function. crates/feeds/README.md
// says what each key means.
import { type Environment } from './environments.ts';
import { readTemplate, type Resource, type Template } from './template.ts';

/** The first two entries of every list. */
export const BUILT_IN = [{ name: 'github' }, { name: 'hatebu' }] as const;

export const DESTINATIONS = ['mastodon', 'pushover', 'slack', 'webhook'] as const;

/** A public address, or the name of the secret that holds one: `NAME` is the SSM parameter `/ichido/ENV/feeds/NAME`. */
type Address = { url: string; secret?: undefined } | { secret: string; url?: undefined };

export type Feed = Address & {
  /** Part of the name of its schedule and of every key in the table: under a new name a feed begins anew. */
  name: string;
  /** How often it is read, as EventBridge writes it: `1 minute`, `15 minutes`, `2 hours`, `1 day`. */
  period: string;
  destinations: (typeof DESTINATIONS)[number][];
  /** The text of a post. */
  text?: string;
  filter?: { ignore_title?: string; ignore_link?: string; only_title?: string; only_link?: string };
  /** What the first read posts: `mark` (nothing), `last:N` or `all`. */
  first_run?: string;
  /** The id of the Slack channel. */
  channel?: string;
  /** Where the webhook posts to. */
  webhook?: Address;
  /** Its schedule is off: nothing is read, and what is owed waits. */
  paused?: boolean;
};

export type Feeds = readonly [...typeof BUILT_IN, ...Feed[]];

/** The longest time between two runs of a feed, in minutes. What is owed is tried in every run, and the alarm looks at periods of this length. */
const LONGEST_INTERVAL = 15;
const DAY = 24 * 60;
const LONGEST_PERIOD = 365 * DAY;
/** What EventBridge Scheduler takes as the input of a schedule. */
const LARGEST_INPUT = 256 * 1024;
/** IAM counts the characters of all inline policies of a role. */
const LARGEST_POLICY = 10_240;
/** What the rest of a role's policy takes at most, and what comes before a secret's name in its ARN (the longest region, partition and environment). */
const POLICY_BASE = 2_600;
const ARN_LENGTH = '"arn:aws-us-gov:ssm:ap-northeast-1:123456789012:parameter",'.length;

/** Where the secrets of an environment's feeds are in SSM. */
const secretsOf = (environment: Environment) => `/ichido/${environment.name}/feeds/`;

/** The feeds that share functions. The list is wrong if this throws; the error names every entry and key that is. */
export function further(environment: Environment): Feed[] {
  const [github, hatebu, ...feeds] = environment.feeds;
  const problems = [github, hatebu].flatMap((entry, i) => unless(
    entry?.name === BUILT_IN[i]!.name && Object.keys(entry).length === 1, `feeds[${i}] has to be ${JSON.stringify(BUILT_IN[i])}: the templates say everything else about it`));
  const names = new Set<unknown>();
  for (const [i, feed] of feeds.entries()) {
    const entry: any = feed;
    const where = `feeds[${i + BUILT_IN.length}]${typeof entry?.name === 'string' ? ` "${entry.name}"` : ''}`;
    const found = isRecord(entry) ? problemsOf(entry, environment) : ['this is not an object'];
    if (names.has(entry?.name)) found.push('an entry before it has this name');
    names.add(entry?.name);
    problems.push(...found.map((problem) => `${where}: ${problem}`));
  }
  if (problems.length === 0) {
    for (const [fn, secrets] of Object.entries(secretsByFunction(environment, feeds))) {
      const size = POLICY_BASE + secrets.reduce((sum, name) => sum + ARN_LENGTH + name.length, 0);
      if (size > LARGEST_POLICY) problems.push(`${fn} reads ${secrets.length} secret addresses, which are too many for its role: a role's policy has at most ${LARGEST_POLICY} characters. Give addresses without a token as url`);
    }
  }
  if (problems.length > 0) throw new Error(`The list of feeds of ${environment.name} (infra/environments.ts) is wrong:\n${problems.map((p) => `  ${p}`).join('\n')}`);
  return feeds;
}

const KEYS = ['name', 'url', 'secret', 'period', 'destinations', 'text', 'filter', 'first_run', 'channel', 'webhook', 'paused'];
const FILTERS = ['ignore_title', 'ignore_link', 'only_title', 'only_link'];
const PLACEHOLDERS = ['title', 'link', 'author', 'content', 'categories', 'enclosure'];
const PLACEHOLDER = new RegExp(`\\{(${PLACEHOLDERS.join('|')})\\}`, 'g');

function problemsOf(feed: Record<string, any>, environment: Environment): string[] {
  const destinations: unknown[] = Array.isArray(feed.destinations) ? feed.destinations : [];
  const optional = (key: string, holds: (value: any) => boolean, text: string) => unless(feed[key] === undefined || holds(feed[key]), `${key} ${text}; it is ${JSON.stringify(feed[key])}`);
  const withDestination = (key: string, destination: string) => [
    ...unless(!destinations.includes(destination) || feed[key] !== undefined, `${key} is missing: the destination ${destination} needs it`),
    ...unless(destinations.includes(destination) || feed[key] === undefined, `${key} is only for the destination ${destination}`),
  ];
  const text = JSON.stringify(feed);
  return [
    ...unknown(feed, KEYS, ''),
    ...nameProblems(feed.name),
    ...addressProblems(feed, environment, ''),
    ...unless(minutesOf(feed.period) !== undefined, `period is "1 minute", "15 minutes", "1 hour", "2 hours", "1 day" and so on, at most ${LONGEST_PERIOD / DAY} days; it is ${JSON.stringify(feed.period)}`),
    ...unless(destinations.length > 0 && new Set(destinations).size === destinations.length, `destinations is a list of one or more of ${DESTINATIONS.join(', ')}, each once; it is ${JSON.stringify(feed.destinations)}`),
    ...destinations.flatMap((d) => destinationProblems(d, environment)),
    ...optional('text', (t) => typeof t === 'string' && t.trim() !== '' && !/[{}]/.test(t.replace(PLACEHOLDER, '')), `is a text with ${PLACEHOLDERS.map((p) => `{${p}}`).join(', ')}`),
    ...optional('filter', (f) => isRecord(f) && Object.values(f).every((v) => typeof v === 'string' && v !== ''), 'has regular expressions'),
    ...(isRecord(feed.filter) ? unknown(feed.filter, FILTERS, 'filter.') : []),
    ...optional('first_run', (f) => typeof f === 'string' && /^(mark|all|last:[1-9]\d{0,5})$/.test(f), 'is "mark", "last:N" or "all"'),
    ...withDestination('channel', 'slack'),
    ...optional('channel', (c) => typeof c === 'string' && /^[CDG][A-Z0-9]{2,}$/.test(c), 'is the id of a channel, such as "C0123456789"'),
    ...withDestination('webhook', 'webhook'),
    ...optional('webhook', isRecord, 'is {"url": "https://…"} or {"secret": "NAME"}'),
    ...(isRecord(feed.webhook) ? [...unknown(feed.webhook, ['url', 'secret'], 'webhook.'), ...addressProblems(feed.webhook, environment, 'webhook.')] : []),
    ...optional('paused', (p) => typeof p === 'boolean', 'is true or false'),
    ...unless(Buffer.byteLength(text) < LARGEST_INPUT - 100, `it has ${Buffer.byteLength(text)} bytes; the input of a schedule has at most ${LARGEST_INPUT}`),
    // CloudFormation and Scheduler would put something else in its place.
    ...unless(!/\{\{resolve:|<aws\.scheduler\./.test(text), 'it contains {{resolve: or <aws.scheduler., which AWS replaces'),
  ];
}

function nameProblems(name: unknown): string[] {
  const reserved = BUILT_IN.flatMap((feed) => [feed.name, `${feed.name}-subscriber`]);
  return [
    ...unless(typeof name === 'string' && /^[a-z0-9-]{1,32}$/.test(name), `name has 1 to 32 of a-z, 0-9 and -; it is ${JSON.stringify(name)}`),
    ...unless(!reserved.includes(String(name)), 'this name is reserved for a built-in feed; choose another one'),
    // Its schedule would have the name of another environment's.
    ...unless(!/-(local|dev|staging|prod)$/.test(String(name)), 'name ends like an environment'),
  ];
}

function addressProblems(of: Record<string, any>, environment: Environment, prefix: string): string[] {
  const { url, secret } = of;
  if ((url === undefined) === (secret === undefined)) return [`give either ${prefix}url or ${prefix}secret`];
  if (secret !== undefined) {
    return [
      ...unless(typeof secret === 'string' && /^[a-z0-9-]{1,64}$/.test(secret), `${prefix}secret has 1 to 64 of a-z, 0-9 and -; it is ${JSON.stringify(secret)}`),
      ...unless(!ownSecrets().has(secret), `${prefix}secret is "${secret}", which is a secret of infra/templates/feeds.yaml; choose another name`),
    ];
  }
  const parsed = typeof url === 'string' && URL.canParse(url) ? new URL(url) : undefined;
  const onThisMachine = environment.name === 'local' && parsed?.protocol === 'http:' && ['127.0.0.1', 'localhost', '[::1]'].includes(parsed.hostname);
  return [
    ...unless(parsed?.protocol === 'https:' || onThisMachine, `${prefix}url is an https address; it is ${JSON.stringify(url)}`),
    ...unless(!parsed?.username && !parsed?.password, `${prefix}url has a password in it; store the address with make secrets, and name it as ${prefix}secret`),
  ];
}

function destinationProblems(destination: unknown, environment: Environment): string[] {
  if (!(DESTINATIONS as readonly unknown[]).includes(destination)) return [`destinations are ${DESTINATIONS.join(', ')}; ${JSON.stringify(destination)} is not known`];
  const without = Object.entries(feedsTemplate().Metadata?.Destinations ?? {}).filter(([p, d]) => d === destination && environment.parameters[p] === '');
  return without.map(([p]) => `the destination ${destination} needs ${p}, which ${environment.name} sets to ""`);
}

const unless = (holds: unknown, problem: string): string[] => (holds ? [] : [problem]);
const isRecord = (value: unknown): value is Record<string, any> => typeof value === 'object' && value !== null && !Array.isArray(value);
const unknown = (of: object, known: string[], prefix: string) => Object.keys(of).filter((key) => !known.includes(key)).map((key) => `there is no key ${prefix}${key}; there are ${known.join(', ')}`);

/** `15 minutes` -> 15. One has the singular, all others the plural: EventBridge refuses everything else. */
function minutesOf(period: unknown): number | undefined {
  const match = /^(?:(1) (minute|hour|day)|([2-9]|[1-9]\d{1,5}) (minute|hour|day)s)$/.exec(typeof period === 'string' ? period : '');
  if (match === null) return undefined;
  const minutes = Number(match[1] ?? match[3]) * { minute: 1, hour: 60, day: DAY }[(match[2] ?? match[4]) as 'minute' | 'hour' | 'day'];
  return minutes <= LONGEST_PERIOD ? minutes : undefined;
}

let template: Template | undefined;
const feedsTemplate = () => (template ??= readTemplate('feeds'));
const ownSecrets = () => new Set(Object.values(feedsTemplate().Parameters ?? {}).map(({ Default }) => /^\/ichido\/local\/feeds\/(.+)$/.exec(String(Default))?.[1]));

// ------------------------------------------------------------------------------------- what is made of the list

/** Names of the secrets of the list that each function reads: the addresses of feeds, and those of webhooks. */
function secretsByFunction(environment: Environment, feeds: Feed[]): Record<string, string[]> {
  const named = (secrets: (string | undefined)[]) => [...new Set(secrets.filter((secret) => secret !== undefined))].map((secret) => secretsOf(environment) + secret);
  return { 'feeds-subscriber': named(feeds.map((f) => f.secret)), 'feeds-notifier': named(feeds.map((f) => f.webhook?.secret)) };
}

/** Names of the secrets of the list that a function reads, beside those that its variables name. */
export const listedSecrets = (environment: Environment, fn: string): string[] => secretsByFunction(environment, further(environment))[fn] ?? [];

/** The secrets of the list, and what each is. */
export function secretsOfList(environment: Environment): { name: string; description: string }[] {
  const prefix = secretsOf(environment);
  const all = further(environment).flatMap((feed) => [
    ...(feed.secret === undefined ? [] : [{ name: prefix + feed.secret, description: `the address of the feed ${feed.name}` }]),
    ...(feed.webhook?.secret === undefined ? [] : [{ name: prefix + feed.webhook.secret, description: `the address of the webhook of the feed ${feed.name}` }]),
  ]);
  return [...new Map(all.map((secret) => [secret.name, secret])).values()];
}

/** Does a further feed of the environment have this destination? */
export const hasDestination = (environment: Environment, destination: string) => further(environment).some((feed) => (feed.destinations as string[]).includes(destination));

/** Parameters of the templates that depend on the list. */
export function listParameters(environment: Environment): Record<string, string> {
  const feeds = further(environment);
  return {
    FurtherFeeds: feeds.length > 0 ? 'on' : 'off',
    FurtherFeedsState: feeds.length > 0 && feeds.every((feed) => feed.paused) ? 'DISABLED' : 'ENABLED',
  };
}

/**
 * The schedule of each further feed, as CloudFormation resources that refer to those of templates/feeds.yaml. A feed that is read rarely has more runs than reads:
 * a run tries again what is owed, and the function knows whether the feed is due.
 */
export function schedules(environment: Environment, deadLetters: unknown = { 'Fn::GetAtt': ['FeedsSubscriberFailures', 'Arn'] }): Record<string, Resource> {
  return Object.fromEntries(further(environment).map(({ paused, ...feed }) => {
    const period = minutesOf(feed.period)!;
    const interval = Math.ceil(period / Math.ceil(period / LONGEST_INTERVAL));
    return [scheduleId(feed.name), {
      Type: 'AWS::Scheduler::Schedule',
      Properties: {
        Name: `feed-${feed.name}${environment.suffix}`,
        Description: `Reads the feed ${feed.name}`,
        ScheduleExpression: `rate(${interval} ${interval === 1 ? 'minute' : 'minutes'})`,
        FlexibleTimeWindow: { Mode: 'OFF' },
        State: paused ? 'DISABLED' : 'ENABLED',
        Target: {
          Arn: { Ref: 'FeedsSubscriberAlias' },
          RoleArn: { 'Fn::GetAtt': ['FeedsSchedulerRole', 'Arn'] },
          Input: JSON.stringify({ feed }),
          // A run that is a whole interval late is useless: the next one is due.
          RetryPolicy: { MaximumRetryAttempts: 2, MaximumEventAgeInSeconds: interval * 60 },
          DeadLetterConfig: { Arn: deadLetters },
        },
      },
    }];
  }));
}

/** Logical ids have no `-`, and names have no capital letters. */
const scheduleId = (name: string) => `FeedSchedule${name.replaceAll('-', 'X')}`;
