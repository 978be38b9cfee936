// The list of feeds: what it may say, and what is made of it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { obstacles } from '../cli/obstacles.ts';
import { described } from '../cli/world.ts';
import { environment as find, environments, type Environment } from '../environments.ts';
import { BUILT_IN, DESTINATIONS, further, schedules, type Feed } from '../feeds.ts';
import { synthesize as fresh } from '../synthesize.ts';
import { readTemplate } from '../template.ts';
import * as standards from './standards.ts';
import { auditFresh, findings, listed, ofType, SAMPLE, synthesize } from './synth.ts';

const blog: Feed = { name: 'blog', url: 'https://blog.example.com/feed.xml', period: '15 minutes', destinations: ['mastodon'] };
const withFeeds = (...feeds: unknown[]): Environment => ({ ...environments.dev, feeds: [...BUILT_IN, ...(feeds as Feed[])] });
const many = (n: number, more: Partial<Feed> = {}) => Array.from({ length: n }, (_, i) => ({ ...blog, name: `blog-${i}`, ...more }));
const problem = (...feeds: unknown[]) => {
  try {
    further(withFeeds(...feeds));
    return 'none';
  } catch (error) {
    return (error as Error).message;
  }
};

// ------------------------------------------------------------------------------------- the check

test('a list with every key is accepted', () => {
  assert.equal(problem(...SAMPLE), 'none');
  assert.equal(problem(blog, { ...blog, name: '0', period: '1 minute' }, { ...blog, name: 'a'.repeat(32), period: '365 days' }), 'none');
  assert.equal(find('dev').feeds.length, 2);
});

const wrong: [string, unknown, RegExp][] = [
  ['no object', 'https://blog.example.com', /feeds\[2\]: this is not an object/],
  ['nothing', null, /feeds\[2\]: this is not an object/],
  ['an empty entry', {}, /feeds\[2\]: name has 1 to 32 .*\n.*give either url or secret\n.*period is .*\n.*destinations is a list/],
  ['an unknown key', { ...blog, retries: 3 }, /feeds\[2\] "blog": there is no key retries; there are name, url, /],
  ['a key of the prototype', JSON.parse('{"__proto__": 1}'), /there is no key __proto__/],
  ['a name with capitals', { ...blog, name: 'Blog' }, /feeds\[2\] "Blog": name has 1 to 32 of a-z, 0-9 and -; it is "Blog"/],
  ['an empty name', { ...blog, name: '' }, /name has 1 to 32/],
  ['a long name', { ...blog, name: 'a'.repeat(33) }, /name has 1 to 32/],
  ['a name with a line at its end', { ...blog, name: 'blog\n' }, /name has 1 to 32/],
  ['a built-in name', { ...blog, name: 'github' }, /this name is reserved for a built-in feed/],
  ['the name of a built-in schedule', { ...blog, name: 'hatebu-subscriber' }, /reserved for a built-in feed/],
  ['a name that another environment would use', { ...blog, name: 'blog-staging' }, /name ends like an environment/],
  ['http', { ...blog, url: 'http://blog.example.com/' }, /url is an https address; it is "http:/],
  ['an address on this machine', { ...blog, url: 'http://127.0.0.1:9000/' }, /url is an https address/],
  ['no address', { ...blog, url: 'feed.xml' }, /url is an https address; it is "feed.xml"/],
  ['an address with a password', { ...blog, url: 'https://me:word@blog.example.com/' }, /url has a password in it; store the address with make secrets/],
  ['two addresses', { ...blog, secret: 'blog-url' }, /give either url or secret/],
  ['the name of a parameter as a secret', { ...blog, url: undefined, secret: '/ichido/dev/feeds/blog' }, /secret has 1 to 64 of a-z, 0-9 and -/],
  ['a token as an address', { ...blog, url: undefined, secret: 'mastodon-token' }, /"mastodon-token", which is a secret of infra\/templates\/feeds\.yaml/],
  ['a period without a unit', { ...blog, period: '15' }, /period is "1 minute", .*; it is "15"/],
  ['a number as a period', { ...blog, period: 15 }, /it is 15/],
  ['a plural that EventBridge refuses', { ...blog, period: '1 minutes' }, /it is "1 minutes"/],
  ['a singular that EventBridge refuses', { ...blog, period: '2 hour' }, /it is "2 hour"/],
  ['no period at all', { ...blog, period: '0 minutes' }, /it is "0 minutes"/],
  ['seconds', { ...blog, period: '30 seconds' }, /it is "30 seconds"/],
  ['a rate', { ...blog, period: 'rate(15 minutes)' }, /it is "rate\(15 minutes\)"/],
  ['years', { ...blog, period: '366 days' }, /at most 365 days; it is "366 days"/],
  ['no destinations', { ...blog, destinations: [] }, /destinations is a list of one or more of mastodon, pushover, slack, webhook, each once; it is \[\]/],
  ['one destination twice', { ...blog, destinations: ['mastodon', 'mastodon'] }, /each once/],
  ['destinations that are no list', { ...blog, destinations: 'mastodon' }, /destinations is a list/],
  ['an unknown destination', { ...blog, destinations: ['mastodon', 'x'] }, /destinations are mastodon, pushover, slack, webhook; "x" is not known/],
  ['Slack without a channel', { ...blog, destinations: ['slack'] }, /channel is missing: the destination slack needs it/],
  ['a channel without Slack', { ...blog, channel: 'C0123456789' }, /channel is only for the destination slack/],
  ['the name of a channel', { ...blog, destinations: ['slack'], channel: '#general' }, /channel is the id of a channel/],
  ['a webhook without an address', { ...blog, destinations: ['webhook'] }, /webhook is missing/],
  ['an address of a webhook as text', { ...blog, destinations: ['webhook'], webhook: 'https://hook.example.com/' }, /webhook is \{"url"/],
  ['a webhook over http', { ...blog, destinations: ['webhook'], webhook: { url: 'http://hook.example.com/' } }, /webhook\.url is an https address/],
  ['an unknown key of a webhook', { ...blog, destinations: ['webhook'], webhook: { url: 'https://hook.example.com/', method: 'PUT' } }, /no key webhook\.method/],
  ['an unknown key of a filter', { ...blog, filter: { ignoreTitle: 'x' } }, /no key filter\.ignoreTitle; there are ignore_title/],
  ['an empty filter', { ...blog, filter: { ignore_title: '' } }, /filter has regular expressions/],
  ['an unknown placeholder', { ...blog, text: '{title} {url}' }, /text is a text with \{title\}, .*; it is "\{title\} \{url\}"/],
  ['a brace that is not closed', { ...blog, text: '{title} {link' }, /text is a text with/],
  ['an empty text', { ...blog, text: ' ' }, /text is a text with/],
  ['a wrong first run', { ...blog, first_run: 'last:0' }, /first_run is "mark", "last:N" or "all"/],
  ['paused in words', { ...blog, paused: 'yes' }, /paused is true or false/],
  ['more than a schedule takes', { ...blog, filter: { only_title: 'x'.repeat(256 * 1024) } }, /has 26\d{4} bytes; the input of a schedule has at most 262144/],
  ['what CloudFormation would replace', { ...blog, text: '{title} {{resolve:ssm:/ichido/dev/feeds/mastodon-token}}' }, /contains \{\{resolve:/],
];

for (const [what, entry, message] of wrong) {
  test(`the list refuses ${what}, and names the entry`, () => {
    assert.match(problem(entry), message);
    assert.match(problem(entry), /^The list of feeds of dev \(infra\/environments\.ts\) is wrong:\n {2}feeds\[2\]/);
  });
}

test('the list names every entry that is wrong, at its place', () => {
  const text = problem(blog, blog, { ...blog, name: 'news', period: 'often' });
  assert.match(text, /feeds\[3\] "blog": an entry before it has this name\n {2}feeds\[4\] "news": period/);
});

test('the first two entries are the built-in ones, and say nothing else', () => {
  for (const feeds of [[], [{ name: 'github' }], [{ name: 'hatebu' }, { name: 'github' }], [{ name: 'github', period: '1 hour' }, { name: 'hatebu' }]]) {
    assert.throws(() => further({ ...environments.dev, feeds: feeds as any }), /feeds\[[01]\] has to be \{"name":"(github|hatebu)"\}/);
  }
});

test('a feed on this machine is only for the local environment', () => {
  const feeds = [...BUILT_IN, { ...blog, url: 'http://127.0.0.1:9000/feed.xml' }] as const;
  assert.equal(further({ ...environments.local, feeds }).length, 1);
  assert.throws(() => further({ ...environments.prod, feeds }), /https address/);
});

test('a destination that the environment has no token for is refused', () => {
  const env = { ...withFeeds({ ...blog, destinations: ['pushover'] }), parameters: { ...environments.dev.parameters, FeedsPushoverTokenParameter: '' } };
  assert.throws(() => further(env), /feeds\[2\] "blog": the destination pushover needs FeedsPushoverTokenParameter, which dev sets to ""/);
});

// ------------------------------------------------------------------------------------- what is made of it

test('without a further feed there is no schedule, role or alarm for one', () => {
  const ids = Object.keys(synthesize('prod').resources);
  assert.deepEqual(ids.filter((id) => /^FeedSchedule|^FeedsSchedulerRole$|^FurtherFeeds/.test(id)), []);
  assert.ok(ids.includes('FeedsStateTable') && ids.includes('FeedsSubscriberFunction'), 'what costs nothing is there already');
});

test('a list of feeds keeps every standard, and cdk-nag finds nothing unexplained', () => {
  for (const name of ['prod', 'dev'] as const) {
    const synthesized = auditFresh(listed(name));
    for (const [standard, check] of Object.entries(standards.all)) assert.deepEqual(check(synthesized), [], `${name} ${standard}`);
    assert.deepEqual(findings(synthesized), []);
  }
});

test('each feed has a schedule, whose input is its whole definition', () => {
  const { resources } = fresh(listed('staging'));
  const made = ofType(resources, 'AWS::Scheduler::Schedule').filter(([id]) => id.startsWith('FeedSchedule'));
  assert.deepEqual(made.map(([id, { Properties: p }]) => [id, p.Name, p.ScheduleExpression, p.State, p.Target.RetryPolicy.MaximumEventAgeInSeconds]), [
    ['FeedScheduleblog', 'feed-blog-staging', 'rate(15 minutes)', 'ENABLED', 900],
    ['FeedScheduleteamXnews', 'feed-team-news-staging', 'rate(1 minute)', 'ENABLED', 60],
    ['FeedSchedulecomic', 'feed-comic-staging', 'rate(15 minutes)', 'DISABLED', 900],
  ]);
  for (const [i, [, { Properties: p }]] of made.entries()) {
    const { paused, ...definition } = SAMPLE[i]!;
    assert.deepEqual(JSON.parse(p.Target.Input), { feed: definition });
    assert.deepEqual(p.Target.Arn, { Ref: 'FeedsSubscriberAlias' });
  }
});

test('a feed that is read rarely has a run every 15 minutes at least, and each period is a whole number of runs', () => {
  const rate = (period: string) => Object.values(schedules(withFeeds({ ...blog, period })))[0]!.Properties!.ScheduleExpression;
  const wanted = { '1 minute': 'rate(1 minute)', '7 minutes': 'rate(7 minutes)', '15 minutes': 'rate(15 minutes)', '16 minutes': 'rate(8 minutes)', '20 minutes': 'rate(10 minutes)', '50 minutes': 'rate(13 minutes)', '1 hour': 'rate(15 minutes)', '1 day': 'rate(15 minutes)' };
  assert.deepEqual(Object.fromEntries(Object.keys(wanted).map((period) => [period, rate(period)])), wanted);
});

test('the role of the schedules may invoke feeds-subscriber:live and write to their queue, and nothing else', () => {
  const { resources } = fresh(listed('dev'));
  const statements = standards.statements(resources).filter(({ where }) => where.startsWith('FeedsSchedulerRole.') && !where.endsWith('.trust'));
  assert.deepEqual(statements.map(({ statement }) => [statement.Action, statement.Resource]), [
    ['lambda:InvokeFunction', { Ref: 'FeedsSubscriberAlias' }],
    ['sqs:SendMessage', { 'Fn::GetAtt': ['FeedsSubscriberFailures', 'Arn'] }],
  ]);
});

test('each function reads the secrets of the list that it needs, and no others', () => {
  const { resources } = fresh({ ...listed('dev'), secretsKey: 'arn:aws:kms:ap-northeast-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab' });
  const all = standards.statements(resources);
  const readable = (role: string) => all.filter(({ where }) => where === `${role}.ListedSecrets`).flatMap(({ statement }) => [statement.Resource].flat()).map((arn) => JSON.stringify(arn).replace(/^.*:parameter/, '').replace(/"\]\]\}$/, ''));
  assert.deepEqual(readable('FeedsSubscriberRole'), ['/ichido/dev/feeds/team-news-url']);
  assert.deepEqual(readable('FeedsNotifierRole'), ['/ichido/dev/feeds/team-news-hook']);
  assert.ok(all.some(({ where }) => where === 'FeedsSubscriberRole.SecretsKey'), 'and decrypts it with the environment\'s key');
  assert.ok(!standards.statements(synthesize('dev').resources).some(({ where }) => where.endsWith('.ListedSecrets')));
});

test('a change of the list changes nothing but schedules, the secrets of the roles and what is there only with feeds', () => {
  const before = synthesize('dev').resources;
  const after = fresh(listed('dev')).resources;
  const changed = Object.keys({ ...before, ...after }).filter((id) => JSON.stringify(before[id]) !== JSON.stringify(after[id]));
  assert.deepEqual(changed.filter((id) => !id.startsWith('FeedSchedule')).sort(), ['Dashboard', 'FeedsNotifierRole', 'FeedsSchedulerRole', 'FeedsSubscriberRole', 'FurtherFeedsErrorsAlarm'], 'no function, so no version and no rollout');
});

test('the dashboard shows the alarm on further feeds, if there is one', () => {
  const alarms = (resources: ReturnType<typeof synthesize>['resources']) => {
    const body = resources.Dashboard!.Properties.DashboardBody['Fn::Join'][1].map((part: any) => (typeof part === 'string' ? part : 'x')).join('');
    return JSON.parse(body).widgets.find((w: any) => w.type === 'alarm').properties.alarms.map((arn: string) => arn.split(':').pop());
  };
  assert.deepEqual(alarms(fresh(listed('dev')).resources), [...alarms(synthesize('dev').resources), 'further-feeds-errors-dev']);
});

test('the alarm on further feeds pages nobody while all of them are paused', () => {
  const alarm = (...feeds: Feed[]) => fresh(withFeeds(...feeds)).resources.FurtherFeedsErrorsAlarm!.Properties.ActionsEnabled;
  assert.equal(alarm({ ...blog, paused: true }), false);
  assert.equal(alarm({ ...blog, paused: true }, { ...blog, name: 'news' }), true);
});

test('300 feeds are one stack that CloudFormation takes; where it would not, the error says how many there may be', () => {
  const { stacks, resources } = fresh(withFeeds(...many(300, { text: '{title} {link}'.padEnd(200, '.') })));
  assert.equal(ofType(resources, 'AWS::Scheduler::Schedule').filter(([id]) => id.startsWith('FeedSchedule')).length, 300);
  assert.ok(stacks.service.ids.length <= 500 && stacks.service.bytes <= 1_000_000, `${stacks.service.ids.length} resources, ${stacks.service.bytes} bytes`);
  const room = Number(/and there is room for (\d+): CloudFormation takes 500/.exec(String((() => {
    try {
      return fresh(withFeeds(...many(500)));
    } catch (error) {
      return error;
    }
  })()))?.[1]);
  assert.ok(room >= 300, `${room}`);
  assert.equal(fresh(withFeeds(...many(room))).stacks.service.ids.length, 500);
  assert.throws(() => fresh(withFeeds(...many(room + 1))), new RegExp(`lists ${room + 1} further feeds`));
});

test('definitions that are too long together are refused, and what is not refused fits into a template', () => {
  const long = many(3, { filter: { only_title: 'x'.repeat(160_000) } });
  const { stacks } = fresh(withFeeds(...long));
  assert.ok(stacks.service.bytes <= 1_000_000, `${stacks.service.bytes}`);
  assert.throws(() => fresh(withFeeds(...long, { ...long[0]!, name: 'one-more' })), /take 6\d{5} bytes of the template, and there is room for 500000/);
});

test('secrets that are too many for a policy are refused, and what is not refused fits', () => {
  const secretsKey = 'arn:aws:kms:ap-northeast-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab';
  const kinds: [string, (i: number) => object][] = [
    ['feeds-subscriber', (i) => ({ url: undefined, secret: `address-${i}` })],
    ['feeds-notifier', (i) => ({ destinations: ['webhook'], webhook: { secret: `address-${i}` } })],
  ];
  for (const [fn, hide] of kinds) {
    const hidden = (n: number) => many(n).map((feed, i) => ({ ...feed, ...hide(i) }));
    assert.match(problem(...hidden(200)), new RegExp(`${fn} reads 200 secret addresses, which are too many for its role: a role's policy has at most 10240 characters`));
    const most = Array.from({ length: 200 }, (_, i) => 200 - i).find((n) => problem(...hidden(n)) === 'none')!;
    assert.ok(most >= 75, `${most}`);
    const { resources } = fresh({ ...withFeeds(...hidden(most)), secretsKey });
    const role = resources[fn === 'feeds-subscriber' ? 'FeedsSubscriberRole' : 'FeedsNotifierRole']!;
    // As long as what CloudFormation puts in the place of references.
    const text = JSON.stringify(role.Properties.Policies[0].PolicyDocument, (_, v) => {
      if (v?.['Fn::Join']) return v['Fn::Join'][1].map((part: any) => (typeof part === 'string' ? part : 'ap-northeast-1')).join('');
      return v?.Ref || v?.['Fn::GetAtt'] ? 'x'.repeat(100) : v;
    });
    assert.ok(text.length > 8_000 && text.length <= 10_240, `${fn}: ${text.length}`);
  }
});

// ------------------------------------------------------------------------------------- secrets

const NOW = new Date('2026-11-17T02:30:00Z');
const secrets = (env: Environment) => described(env).secrets.map((s) => s.name.replace(`/ichido/${env.name}/feeds/`, '')).filter((s) => !s.startsWith('/'));

test('only secrets that a feed uses are demanded', () => {
  const builtIn = ['github-url', 'github-mastodon-token', 'pushover-token', 'pushover-user', 'hatebu-url', 'hatebu-mastodon-token'];
  assert.deepEqual(secrets(environments.dev), builtIn);
  assert.deepEqual(secrets(withFeeds(blog)), [...builtIn, 'mastodon-token']);
  assert.deepEqual(secrets(listed('dev')), [...builtIn, 'mastodon-token', 'slack-bot-token', 'webhook-key', 'team-news-url', 'team-news-hook']);
  assert.deepEqual(described(environments.dev).unused.map((s) => s.name), ['mastodon-token', 'slack-bot-token', 'webhook-key'].map((s) => `/ichido/dev/feeds/${s}`));
});

test('each destination names its secrets, and every secret of a destination is known', () => {
  const { Metadata, Parameters } = readTemplate('feeds');
  assert.deepEqual([...new Set(Object.values(Metadata!.Destinations!))].sort(), [...DESTINATIONS].sort());
  for (const p of [...Object.keys(Metadata!.Destinations!), ...Object.keys(Metadata!.Optional!), ...Object.values(Metadata!.Optional!)]) assert.ok(Parameters![p], p);
});

test('without a Pushover token there is no Pushover: its secrets are not demanded, named or readable', () => {
  const env: Environment = { ...environments.dev, parameters: { ...environments.dev.parameters, PushoverTokenParameter: '' } };
  assert.deepEqual(secrets(env).filter((s) => s.startsWith('pushover')), []);
  assert.deepEqual(described(env).needed.map((n) => n.parameter), described(environments.dev).needed.map((n) => n.parameter));
  const { resources } = fresh(env);
  const variables = resources.GithubNotifierFunction!.Properties.Environment.Variables;
  assert.deepEqual([variables.PUSHOVER_TOKEN_PARAMETER, variables.PUSHOVER_USER_PARAMETER], ['', '']);
  const readable = standards.statements(resources).find(({ where }) => where === 'GithubNotifierRole.Secrets')!.statement.Resource;
  assert.equal(readable.length, 1);
  assert.match(JSON.stringify(readable), /github-mastodon-token/);
  // A feed that pushes needs them again.
  assert.deepEqual(secrets({ ...env, feeds: [...BUILT_IN, { ...blog, destinations: ['pushover'] }] }).filter((s) => s.startsWith('pushover')), ['pushover-token', 'pushover-user']);
});

test('a secret that nothing can do without may not be empty, and one that may be missing says so', () => {
  const empty = { ...environments.dev, parameters: { ...environments.dev.parameters, GithubMastodonTokenParameter: '' } };
  assert.match(obstacles(empty, [], NOW).join('\n'), /setting +GithubMastodonTokenParameter +is missing/);
  const half = { ...environments.dev, parameters: { ...environments.dev.parameters, PushoverUserParameter: '' } };
  assert.match(obstacles(half, [], NOW).join('\n'), /setting +PushoverUserParameter +is missing/);
  const missing = obstacles(environments.dev, ['/ichido/dev/feeds/pushover-token'], NOW).join('\n');
  assert.match(missing, /pushover-token +is missing: the application's token; to do without, set PushoverTokenParameter to "" in its parameters/);
});
