// A platform of one's own on free ports, and a browser.
import { chromium } from 'playwright-core';
import { PATIENCE_MS } from '../platform.mjs';

export { eventually, json, start, startWith } from '../platform.mjs';

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'];

/** A browser; close it when done. */
export const browse = () => chromium.launch({ executablePath: CHROMIUM, args: FLAGS });

/** A page of its own with what goes wrong in it in `page.problems`. */
export async function open(browser, url, options = {}) {
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
