// Starts a platform on free ports and a browser for the test file that imports this.
import { after, before } from 'node:test';
import { chromium } from 'playwright-core';
import { PATIENCE_MS, startWith } from '../platform.mjs';

export { eventually, json, start, startWith } from '../platform.mjs';

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'];

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

/** Opens a page in a context of its own. Errors in the page are collected in `page.problems`. */
export async function open(url, options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.problems = [];
  page.on('pageerror', (error) => page.problems.push(String(error)));
  page.on('console', (message) => { if (message.type() === 'error') page.problems.push(message.text()); });
  await page.goto(url);
  await page.getByRole('tab', { name: 'Overview' }).waitFor();
  return page;
}
