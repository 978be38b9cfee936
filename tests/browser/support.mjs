// A platform of one's own on free ports, and a browser, for the tests of the file that imports this.
import { after, before } from 'node:test';
import { chromium } from 'playwright-core';
import { PATIENCE_MS, start } from '../platform.mjs';

export { eventually, json, start, startWith } from '../platform.mjs';

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'];

/** There from before the first test until after the last. */
export let platform;
let browser;

before(async () => {
  platform = await start();
  browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
});

after(async () => {
  await browser?.close();
  await platform?.stop();
});

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
