// What stops a deployment before anything is deployed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { obstacles } from '../cli/obstacles.ts';
import { described } from '../cli/world.ts';
import { environments, type Environment } from '../environments.ts';
import { command, withAws } from './aws.ts';

const NOW = new Date('2026-11-17T02:30:00Z');
const DAY = 86_400;

/** An environment that has every setting, and whose API key expires at a time. */
function expiring(MeshApiKeyExpires: string | number): Environment {
  const needed = Object.fromEntries(described(environments.dev).needed.map(({ parameter }) => [parameter, 'set']));
  return { ...environments.dev, parameters: { ...environments.dev.parameters, ...needed, MeshApiKeyExpires } };
}
const inDays = (days: number) => NOW.getTime() / 1000 + days * DAY;

test('an API key that expires 1 to 365 days from now can be deployed', () => {
  for (const days of [1.1, 30, 364, 365]) {
    assert.deepEqual(obstacles(expiring(inDays(days)), [], NOW), [], `${days} days`);
    assert.deepEqual(obstacles(expiring(String(inDays(days))), [], NOW), [], `${days} days, as text`);
  }
});

test('an API key that has expired, expires too soon or too late stops a deployment', () => {
  // 1.01 days: AppSync rounds down to the hour, and then it is less than a day.
  for (const days of [-1, 0, 0.9, 1, 1.01, 365.1, 400, 26_798]) {
    const [problem, ...others] = obstacles(expiring(inDays(days)), [], NOW);
    assert.match(problem ?? '', /MeshApiKeyExpires +is 2\d{3}-.*1 to 365 days from now\. For example 1826330400 is 2027-11-16T02:00:00\.000Z/, `${days} days`);
    assert.deepEqual(others, []);
  }
});

test('the template\'s default for the API key is only for the local environment', () => {
  assert.deepEqual(obstacles(environments.local, [], NOW), []);
  assert.match(obstacles(expiring(4_102_444_800), [], NOW).join(), /2100-01-01/);
});

test('an expiry that is no time in seconds is told from one that is too late', () => {
  assert.match(obstacles(expiring(inDays(30) * 1000), [], NOW).join(), /these are milliseconds/);
  assert.match(obstacles(expiring('2027-01-01'), [], NOW).join(), /"2027-01-01", which is no number of seconds/);
  assert.match(obstacles(expiring(''), [], NOW).join(), /no number of seconds/);
});

test('settings and secrets that are missing stop a deployment by name', () => {
  const found = obstacles(environments.dev, ['/ichido/dev/slack/bot-token'], NOW);
  assert.ok(found.some((line) => /^ {2}setting +MeshApiKeyExpires +is missing: When the API key expires/.test(line)), found.join('\n'));
  assert.match(found.at(-1)!, /^ {2}secret +\/ichido\/dev\/slack\/bot-token +is missing: /);
});

test('staging and prod are not deployed without a recipient of alarms', () => {
  const stopped = /^ {2}setting +alarms +is missing: whom alarms notify/m;
  for (const name of ['staging', 'prod'] as const) {
    assert.match(obstacles({ ...environments[name], alarms: undefined }, [], NOW).join('\n'), stopped, name);
    assert.doesNotMatch(obstacles({ ...environments[name], alarms: { protocol: 'email', endpoint: 'operators@example.com' } }, [], NOW).join('\n'), stopped, name);
  }
  for (const name of ['dev', 'local'] as const) assert.doesNotMatch(obstacles(environments[name], [], NOW).join('\n'), stopped, name);
});

test('a key for secrets that IAM could not name stops a deployment', () => {
  const withKey = (secretsKey: string) => obstacles({ ...expiring(inDays(30)), secretsKey }, [], NOW).join();
  assert.equal(withKey('arn:aws:kms:ap-northeast-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab'), '');
  for (const wrong of ['alias/secrets', 'arn:aws:kms:ap-northeast-1:123456789012:alias/secrets', 'arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab']) {
    assert.match(withKey(wrong), /secretsKey +is .*; it has to be the ARN of a key in ap-northeast-1 \(arn:aws:kms:ap-northeast-1:ACCOUNT:key\/ID\)/, wrong);
  }
});

test('make deploy stops at an obstacle before it changes anything', async () => {
  const calls = await withAws(() => ({ Parameters: [] }), async (url) => {
    const { code, err } = await command('deploy', url, { ENV: 'dev' });
    assert.ok(code === 1 && /dev cannot be deployed yet:\n[^]*MeshApiKeyExpires/.test(err), err);
  });
  assert.deepEqual([...new Set(calls.map((c) => c.target))].sort(), ['AmazonSSM.DescribeParameters', 'sts'], 'it only asked who it is and which secrets there are');
});
