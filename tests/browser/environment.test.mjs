// The console of a deployed environment in a real browser: `ichidoctl console` serves it, and the local platform is its AWS.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { after, test } from 'node:test';
import axe from 'axe-core';
import { eventKey, eventually, json, open, platform, prepare, slackEvent } from './support.mjs';

const BINARY = process.env.ICHIDOCTL ?? new URL('../../target/debug/ichidoctl', import.meta.url).pathname;
const started = [];

prepare();
after(() => { for (const child of started) child.kill(); });

/** Starts `ichidoctl console` on a free port; returns its address. */
async function serve(...options) {
  const env = { ...process.env, AWS_ENDPOINT_URL: platform.url, AWS_EC2_METADATA_DISABLED: 'true' };
  for (const name of ['ENV', 'AWS_PROFILE', 'AWS_ACCESS_KEY_ID']) delete env[name];
  const child = spawn(BINARY, ['console', ...options], { stdio: ['ignore', 'pipe', 'ignore'], env });
  started.push(child);
  return new Promise((resolve, reject) => {
    let said = '';
    child.stdout.on('data', (part) => { said += part; const found = / is at (http:\S+)/.exec(said); if (found) resolve(found[1]); });
    child.once('exit', (code) => reject(new Error(`the console ended with ${code}: ${said}`)));
  });
}

test('every page of the console of an environment opens, from this machine alone, without an error', async () => {
  await slackEvent('PROD1', { times: 3 });
  const address = await serve();
  const page = await open(address);
  const foreign = [];
  page.on('request', (request) => { if (!request.url().startsWith(address) && !request.url().startsWith('data:')) foreign.push(request.url()); });
  assert.equal(await page.locator('#connection').isVisible(), false, 'there is no stream');
  await eventually('the requests', async () => Number(await page.locator('#count-arrived').innerText()) >= 3);
  assert.equal(await page.locator('#count-new').innerText(), '–');
  await page.getByRole('button', { name: 'Ask the logs for keys and effects' }).click();
  await eventually('what the logs say', async () => Number(await page.locator('#count-duplicate').innerText()) >= 2);
  for (const [name, heading] of [['Keys', 'Keys'], ['Alarms', 'Alarms'], ['Dead letters', 'Dead letters'], ['Schedules', 'Schedules'], ['Rollouts', 'Rollouts'], ['Cost', 'Cost'], ['Slack’s history', 'Slack’s history']]) {
    await page.getByRole('link', { name, exact: true }).click();
    await page.getByRole('heading', { level: 1, name: heading }).waitFor();
    if (name === 'Rollouts') await page.locator('#rollouts tr').first().waitFor();
    if (name === 'Cost') await page.locator('#cost-total').filter({ hasText: /^\$\d+\.\d\d per month: local in / }).waitFor();
    if (name === 'Slack’s history') await page.locator('#history-days-rows tr').first().waitFor();
    if (process.env.SCREENSHOTS) await page.screenshot({ path: `${process.env.SCREENSHOTS}/environment-${name}.png`, fullPage: true });
  }
  assert.equal(await page.getByRole('button', { name: /Pause|Run now/ }).count(), 0, 'it only reads');
  assert.deepEqual(foreign, []);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

for (const [device, options] of [['a desk', {}], ['a desk in the dark', { colorScheme: 'dark' }], ['a phone', { viewport: { width: 360, height: 740 }, hasTouch: true }]]) {
  test(`the pages of an environment on ${device}: axe finds nothing serious, and nothing scrolls sideways`, async () => {
    const address = await serve('--allow-changes');
    for (const path of ['', 'operate/alarms', 'operate/schedules', 'operate/rollouts', 'operate/cost', 'operate/history']) {
      const page = await open(`${address}${path}`, { ...options, bypassCSP: true });
      await page.getByRole('heading', { level: 1 }).waitFor();
      if (path.endsWith('rollouts')) await page.locator('#rollouts tr').first().waitFor();
      if (path.endsWith('cost')) await page.locator('#cost-applications tr').first().waitFor();
      if (path.endsWith('history')) await page.locator('#history-days-rows tr').first().waitFor();
      await Promise.race([page.waitForLoadState('networkidle'), page.waitForTimeout(1500)]);
      await page.addScriptTag({ content: axe.source });
      const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
      const serious = violations.filter(({ impact }) => ['serious', 'critical'].includes(impact));
      assert.deepEqual(serious.map(({ id, nodes }) => `${path} ${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(' | ')}`), []);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth), `${path} scrolls sideways`);
      await page.context().close();
    }
  });
}

test('a key is searched, and its life is read from logs and record', async () => {
  await slackEvent('PROD2', { times: 2 });
  const page = await open(`${await serve()}keys?text=${eventKey('PROD2')}`);
  await page.locator(`#keys-rows tr[data-key=${eventKey('PROD2')}] a`).click();
  await page.locator('#life-sentence').filter({ hasText: /^Recorded as done; 1 duplicate held back\.$/ }).waitFor();
  await page.locator('#life-records [data-state=completed]').waitFor();
  await page.context().close();
});

test('a schedule is paused after a question, as who is asking, and only then', async () => {
  const page = await open(`${await serve('--allow-changes')}operate/schedules`);
  const enabled = async () => (await json(`${platform.url}/_local/schedules`)).find(({ name }) => name === 'github-subscriber').enabled;
  const pause = page.getByRole('button', { name: 'Pause github-feed-subscriber-schedule' });
  await pause.click();
  await page.locator('#ask').filter({ hasText: 'It is made as arn:aws:iam::' }).getByRole('button', { name: 'Cancel' }).click();
  await page.locator('#ask').waitFor({ state: 'detached' });
  assert.equal(await enabled(), true);
  await pause.click();
  await page.locator('#ask').getByRole('button', { name: 'Pause' }).click();
  await page.getByRole('button', { name: 'Resume github-feed-subscriber-schedule' }).waitFor();
  assert.equal(await enabled(), false);
  await page.context().close();
});

test('without the token there is nothing', async () => {
  const address = await serve();
  const { origin } = new URL(address);
  for (const path of ['/', '/_console/frame', '/operate/alarms']) assert.equal((await fetch(`${origin}${path}`)).status, 404, path);
});
