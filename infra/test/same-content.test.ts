// The setting that links a content which was handled before.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { environments, type Environment } from '../environments.ts';
import { sameContentParameters } from '../same-content.ts';
import { synthesize as fresh } from '../synthesize.ts';

const dev = (sameContent: unknown): Environment => ({ ...environments.dev, sameContent: sameContent as Environment['sameContent'] });
const variables = (environment: Environment) => fresh(environment).resources.SlackFilesFunction!.Properties!.Environment.Variables;

test('it is off unless an environment names channels', () => {
  for (const environment of Object.values(environments)) assert.deepEqual(sameContentParameters(environment), {}, environment.name);
  assert.equal(variables(environments.dev).SAME_CONTENT_CHANNELS, '');
});

test('the function gets the channels and the hours', () => {
  const { SAME_CONTENT_CHANNELS, SAME_CONTENT_HOURS } = variables(dev({ channels: ['C0123456789', 'G012'], hours: 48 }));
  assert.deepEqual([SAME_CONTENT_CHANNELS, String(SAME_CONTENT_HOURS)], ['C0123456789,G012', '48']);
  assert.deepEqual(sameContentParameters(dev({ channels: '*' })), { SlackSameContentChannels: '*', SlackSameContentHours: 24 });
});

for (const [what, setting, problem] of [
  ['no channel', { channels: [] }, /channels is a list of ids of channels, or '\*'/],
  ['one id that is no list', { channels: 'C0123456789' }, /channels is a list of ids/],
  ['the name of a channel', { channels: ['C0123456789', '#general'] }, /like C0123456789, not "#general"/],
  ['a star among ids', { channels: ['*', 'C0123456789'] }, /not "\*"/],
  ['no time', { channels: '*', hours: 0 }, /hours is a whole number from 1 to 720; it is 0/],
  ['half an hour', { channels: '*', hours: 0.5 }, /it is 0.5/],
  ['longer than a month', { channels: '*', hours: 721 }, /it is 721/],
] as const) {
  test(`${what} stops the synthesis`, () => {
    assert.throws(() => fresh(dev(setting)), problem);
  });
}
