// A platform of one's own on free ports, and a browser.
import { spawn } from 'node:child_process';
import { chromium } from 'playwright-core';

const BINARY = process.env.ICHIDO_LOCAL ?? new URL('../../target/debug/ichido-local', import.meta.url).pathname;
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'];
/** Far longer than it takes: a debug build on a busy machine. */
const PATIENCE_MS = 60_000;

/** Starts a platform that keeps nothing; with `--data DIR` among the options, one that does. */
export async function start(...options) {
  const kept = options.includes('--data') ? [] : ['--memory'];
  const child = spawn(BINARY, [...kept, '--no-demo', '--port', '0', '--dynamodb-port', '0', '--tls-port', '0', ...options], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  const url = await new Promise((resolve, reject) => {
    let said = '';
    const timer = setTimeout(() => { child.kill('SIGKILL'); reject(new Error(`the platform does not start: ${said}`)); }, PATIENCE_MS);
    child.stdout.on('data', (part) => {
      said += part;
      const found = /^ +console +(http:\S+)/m.exec(said);
      if (found) { clearTimeout(timer); resolve(found[1]); }
    });
    child.once('exit', (code) => { clearTimeout(timer); reject(new Error(`the platform ended with ${code}: ${said}`)); });
  });
  return { url, pid: child.pid, stop: async (signal = 'SIGTERM') => { child.kill(signal); return ended; } };
}

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

/** Waits until `look()` answers something true. */
export async function eventually(what, look) {
  for (let tries = 0; tries < 600; tries += 1) {
    const found = await look();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`never seen: ${what}`);
}

export const json = async (url, options) => (await fetch(url, options)).json();
