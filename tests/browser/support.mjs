// Starts a platform on free ports and a browser for the test file that imports this.
import { createHmac } from 'node:crypto';
import { after, before } from 'node:test';
import { chromium } from 'playwright-core';
import { PATIENCE_MS, startWith } from '../platform.mjs';

export { eventually, json, start, startWith } from '../platform.mjs';

export const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
export const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'];

export let platform;
export let browser;

/** Before the first test of a file: starts a platform with these variables for its functions, starts a browser, and runs `besides`. */
export function prepare(besides = async () => {}, variables = {}) {
  before(async () => {
    platform = await startWith(variables);
    browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
    await besides();
  });
  after(async () => {
    await browser?.close();
    await platform?.stop();
  });
}

/** Opens a page in a context of its own. Waits until the console has drawn it; `console` is false for a page of another program. Errors in the page are collected in `page.problems`. */
export async function open(url, options = {}, console = true) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.problems = [];
  page.on('pageerror', (error) => page.problems.push(String(error)));
  page.on('console', (message) => { if (message.type() === 'error') page.problems.push(message.text()); });
  await page.goto(url);
  if (!console) return page;
  await page.locator('#nav a').first().waitFor({ state: 'attached' });
  await page.locator('main > section:not([hidden])').waitFor({ state: 'attached' });
  return page;
}

/** Sends a file event to `at`, signed as Slack signs; returns the statuses of all deliveries. */
export async function slackEvent(id, { times = 1, at = platform } = {}) {
  const { slackSigningSecret } = await (await fetch(`${at.url}/_local/config`)).json();
  const now = Math.floor(Date.now() / 1000);
  const body = JSON.stringify({
    type: 'event_callback', team_id: 'T0LOCAL', api_app_id: 'A0LOCAL', event_id: `Ev${id}`, event_time: now,
    event: { type: 'message', subtype: 'file_share', channel: 'C0LOCAL', channel_type: 'channel', ts: stamp(id), event_ts: stamp(id), user: 'U0ALICE', files: [{ id: `F${id}`, name: 'report.pdf', mimetype: 'application/pdf', size: 1000 }] },
  });
  const signature = `v0=${createHmac('sha256', slackSigningSecret).update(`v0:${now}:${body}`).digest('hex')}`;
  const headers = { 'content-type': 'application/json', 'x-slack-request-timestamp': String(now), 'x-slack-signature': signature };
  return Promise.all(Array.from({ length: times }, async () => (await fetch(`${at.url}/slack/events`, { method: 'POST', headers, body })).status));
}

/** When the message of each event was written. An old one would be looked for before it is answered. */
const stamps = new Map();
function stamp(id) {
  if (!stamps.has(id)) stamps.set(id, `${Math.floor(Date.now() / 1000)}.000100`);
  return stamps.get(id);
}

/** The keys of an event and of its file. */
export const eventKey = (id) => `Ev${id}`;
export const fileKey = (id) => `FILE#T0LOCAL#C0LOCAL#${stamp(id)}#F${id}`;
export const lifePath = (namespace, key) => `/keys/${namespace}/${encodeURIComponent(key)}`;
