// The page of the duel in a real browser: started with a seed, watched, read to its end.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { browser, eventually, json, platform, prepare } from './support.mjs';

let page;

prepare(async () => {
  page = await visit();
});

/** The page, in a context of its own. Errors in it are collected in `problems`. */
async function visit(options = {}) {
  const context = await browser.newContext(options);
  const opened = await context.newPage();
  opened.setDefaultTimeout(60_000);
  opened.problems = [];
  opened.on('pageerror', (error) => opened.problems.push(String(error)));
  opened.on('console', (message) => { if (message.type() === 'error') opened.problems.push(message.text()); });
  await opened.goto(`${platform.url}/duel`);
  await opened.locator('#duel-start').waitFor();
  return opened;
}

async function picture(name) {
  if (!process.env.SCREENSHOTS) return;
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: `${process.env.SCREENSHOTS}/duel-${name}-${colorScheme}.png`, fullPage: true });
  }
}

test('before the first duel there is a sentence, a seed and a button', async () => {
  assert.match(await page.locator('main').innerText(), /Exactly once means that, in the end, there is one post per event/);
  assert.equal(await page.locator('#duel-result').isVisible(), false);
  await picture('before');
});

test('a duel that would be too short is refused, and nothing starts', async () => {
  const refused = await fetch(`${platform.url}/_local/duel`, { method: 'POST', body: '{"seconds": 3}' });
  assert.equal(refused.status, 400);
  assert.match((await refused.json()).message, /from 10 to 3600 seconds, not 3/);
  const unknown = await fetch(`${platform.url}/_local/duel`, { method: 'POST', body: '{"speed": 3}' });
  assert.equal(unknown.status, 400);
  assert.equal((await json(`${platform.url}/_local/duel`)).running, false);
});

test('the button starts a duel, its columns move, and it ends with a table and sentences', async () => {
  await page.locator('#duel-seed').fill('7');
  await page.locator('#duel-seconds').fill('20');
  await page.locator('#duel-start').click();
  await page.locator('[data-handler=ichido] .events i').first().waitFor();
  assert.match(await page.locator('#duel-now').innerText(), /Seed 7\. \d+ s of 20/);
  const second = await fetch(`${platform.url}/_local/duel`, { method: 'POST', body: '{}' });
  assert.equal(second.status, 409, 'one at a time');
  await picture('during');
  await page.locator('#duel-result table').waitFor();
  await picture('after');

  const { running, duel } = await json(`${platform.url}/_local/duel`);
  assert.equal(running, false);
  assert.deepEqual([duel.seed, duel.phase], [7, 'done']);
  const [naive, ichido] = ['naive', 'ichido'].map((name) => duel.handlers.find((score) => score.name === name));
  assert.deepEqual([ichido.lost, ichido.doubled, ichido.wronglyAcknowledged], [0, 0, 0]);
  assert.ok(naive.doubled > 0);
  for (const { name, sent, doubled } of duel.handlers) {
    const column = page.locator(`[data-handler=${name}]`);
    assert.equal(await column.locator('.events i').count(), sent);
    assert.equal(await column.locator('.events i[data-mark="2"]').count(), doubled);
  }
  assert.equal(await page.locator('[data-handler=ichido] .events i[data-mark="1"]').count(), ichido.sent);
  assert.equal(await page.locator('#duel-result tbody tr').count(), 8);
  assert.match(await page.locator('#duel-stories').innerText(), /naive, event \d+ doubled/);
  assert.match(await page.locator('#duel-status').innerText(), /ichido: 0 doubled, 0 lost/);
  const all = page.getByRole('button', { name: /^Show all/ });
  if (await all.isVisible()) await all.click();
  assert.equal(await page.locator('#duel-stories .stories li').count(), duel.stories.length, 'one sentence per lost or doubled effect');
  assert.doesNotMatch(await page.locator('main').innerText(), /null|undefined|NaN/);
});

test('who comes later sees the last result, also on a phone', async () => {
  const phone = await visit({ viewport: { width: 360, height: 740 } });
  await phone.locator('#duel-result table').waitFor();
  assert.ok(await phone.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), 'nothing sticks out');
  assert.deepEqual(phone.problems, []);
});

test('a duel can be stopped', async () => {
  await page.locator('#duel-seconds').fill('90');
  await page.locator('#duel-start').click();
  await page.locator('#duel-stop').click();
  await eventually('the end', async () => !(await json(`${platform.url}/_local/duel`)).running);
  await page.locator('[role=alert]').filter({ hasText: 'stopped' }).waitFor();
});

test('everything on the page has a name and nothing went wrong in the browser', async () => {
  const unnamed = await page.evaluate(() =>
    [...document.querySelectorAll('button, input, progress')].filter((each) => !(each.labels?.length || each.textContent.trim() || each.ariaLabel)).map((each) => each.outerHTML));
  assert.deepEqual(unnamed, []);
  assert.deepEqual(page.problems, []);
});
