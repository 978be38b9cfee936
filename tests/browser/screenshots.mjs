// Makes pictures of the console: node screenshots.mjs DIR [all]. scripts/screenshots calls it.
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { eventually, json, startWith } from '../platform.mjs';
import { CHROMIUM, FLAGS, eventKey, fileKey, lifePath, slackEvent } from './support.mjs';

const [directory, all] = process.argv.slice(2);
await mkdir(directory, { recursive: true });
const platform = await startWith({});
const browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
const faults = (wanted) => json(`${platform.url}/_local/faults`, { method: 'PUT', body: JSON.stringify(wanted) });
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A picture of a page, after something was done on it. */
async function picture(name, path, { act = async () => undefined, height = 760, whole = false, schemes = ['light', 'dark'], width = 1200 } = {}) {
  for (const colorScheme of schemes) {
    const page = await (await browser.newContext({ colorScheme, viewport: { width, height } })).newPage();
    await page.goto(`${platform.url}${path}`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    await act(page);
    await pause(1200);
    await page.screenshot({ path: join(directory, `${name}-${colorScheme}.png`), fullPage: whole });
    await page.context().close();
  }
}

try {
  const id = (name) => name + Math.random().toString(36).slice(2, 6).toUpperCase();
  // A key with a life: its reply is posted and the answer is lost; it is taken over, and the probe finds the reply. Meanwhile the event comes again.
  const lost = id('REPORT');
  await slackEvent(id('FIRST'), { times: 30, at: platform });
  await faults({ slack: { mode: 'accept_then_lose' } });
  await slackEvent(lost, { times: 8, at: platform });
  await pause(2600);
  await faults({});
  await eventually('the reply', async () => (await json(`${platform.url}/_console${lifePath('FILE', fileKey(lost))}`)).records[0]?.state === 'completed');
  for (let at = 0; at < 6; at += 1) await slackEvent(id('MORE'), { times: 5 + 9 * (at % 3), at: platform });
  await faults({ dynamodb: { mode: 'throttle', rate: 0.6 } });
  for (let at = 0; at < 5; at += 1) { await slackEvent(id('SLOW'), { times: 12, at: platform }); await pause(700); }
  await faults({});
  for (let at = 0; at < 6; at += 1) { await slackEvent(id('AFTER'), { times: 6, at: platform }); await pause(900); }
  await slackEvent(lost, { times: 6, at: platform });

  await picture('overview', '/', { act: async (page) => { await page.getByRole('radio', { name: '1 min' }).check({ force: true }); await pause(800); } });
  await picture('life', lifePath('FILE', fileKey(lost)));
  if (all) {
    await picture('life-event', lifePath('events', eventKey(lost)), { whole: true });
    await picture('keys', '/keys', { whole: true });
    await json(`${platform.url}/_local/alarms/advance?minutes=30`, { method: 'POST' });
    await picture('alarms', '/operate/alarms', { whole: true, act: async (page) => page.locator('#alarms summary').first().click() });
    await picture('metrics', '/operate/metrics', { whole: true });
    await picture('schedules', '/operate/schedules', { whole: true });
    await picture('dead-letters', '/operate/dead-letters', { whole: true });
    await picture('slack', '/apps/slack', { whole: true, act: async (page) => { await page.click('#slack-many'); await pause(6000); } });
    await picture('feeds', '/apps/feeds', { whole: true, act: async (page) => { await page.click('#feeds-lead'); await pause(4000); } });
    await picture('tokens', '/apps/tokens', { whole: true, act: async (page) => { await page.click('#tokens-lead'); await pause(2500); } });
    await picture('sessync', '/apps/sessync', { whole: true, act: async (page) => { await page.click('#sessync-lead'); await page.getByText('each once').first().waitFor(); } });
    await picture('mesh', '/apps/mesh', { whole: true, act: async (page) => {
      await page.click('#mesh-host');
      await page.locator('#mesh-state').filter({ hasText: 'its host' }).waitFor();
      for (const value of ['70', '35', '90']) {
        const other = await page.context().newPage();
        await other.goto(`${platform.url}/apps/mesh`);
        await other.click('#mesh-find');
        await other.locator('.mesh-join').last().click();
        await other.locator('#mesh-value:not([disabled])').fill(value);
        await pause(500);
      }
    } });
    for (const [name, path] of [['overview', '/'], ['life', lifePath('FILE', fileKey(lost))], ['slack', '/apps/slack'], ['tokens', '/apps/tokens'], ['alarms', '/operate/alarms']]) await picture(`phone-${name}`, path, { whole: true, width: 360, height: 740 });
  }
} finally {
  await browser.close();
  await platform.stop();
}
