// A platform of one's own on free ports, and a browser, for the tests of the file that imports this.
import { after, before } from 'node:test';
import { chromium } from 'playwright-core';
import { PATIENCE_MS, startWith } from '../platform.mjs';

export { eventually, json, start, startWith } from '../platform.mjs';

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'];

export let platform;
let browser;

/** Starts a platform, with these variables for its functions, and a browser before the first test of a file, then what it needs besides. */
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

/** A page of its own with what goes wrong in it in `page.problems`. */
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
