// The frame of the console, used as a person would. With SCREENSHOTS=DIR it keeps pictures.
import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import { test } from 'node:test';
import axe from 'axe-core';
import { eventually, json, lifePath, open, platform, prepare, slackEvent, start } from './support.mjs';

prepare();

async function picture(page, name) {
  if (process.env.SCREENSHOTS) await page.screenshot({ path: `${process.env.SCREENSHOTS}/${name}.png`, fullPage: true });
}

const number = async (page, id) => Number(await page.locator(`#count-${id}`).innerText());

test('a request appears without a reload', async () => {
  const page = await open(platform.url);
  await page.getByText('live', { exact: true }).waitFor();
  const before = await eventually('the counts', async () => { const now = await number(page, 'arrived'); return Number.isFinite(now) && { now }; });
  // It is not signed by Slack, so it is refused, but it is still a request.
  const refused = await fetch(`${platform.url}/slack/events`, { method: 'POST', body: '{}' });
  assert.equal(refused.status, 401);
  await eventually('the request', async () => (await number(page, 'arrived')) === before.now + 1);
  await page.locator('#feed li').filter({ hasText: 'POST /slack/events' }).filter({ hasText: '401' }).first().waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test('a fault is switched on, shown in every window, and healed', async () => {
  const [page, other] = [await open(platform.url), await open(platform.url)];
  const store = page.getByRole('group', { name: 'Store (DynamoDB)' });
  await store.getByRole('radio', { name: 'down' }).check({ force: true });
  await eventually('the fault', async () => (await json(`${platform.url}/_local/faults`)).dynamodb?.mode === 'down');
  await other.locator('#broken').filter({ hasText: 'Broken on purpose: Store (DynamoDB)' }).waitFor();
  assert.ok(await other.getByRole('group', { name: 'Store (DynamoDB)' }).getByRole('radio', { name: 'down' }).isChecked());
  const slack = page.getByRole('group', { name: 'Slack' });
  await slack.getByRole('radio', { name: 'rate-limits' }).check({ force: true });
  await eventually('both faults', async () => {
    const faults = await json(`${platform.url}/_local/faults`);
    return faults.dynamodb?.mode === 'down' && faults.slack?.status === 429;
  });
  await picture(page, 'broken');
  await page.getByRole('button', { name: 'Heal everything' }).click();
  await eventually('health', async () => Object.keys(await json(`${platform.url}/_local/faults`)).length === 0);
  await other.locator('#broken').waitFor({ state: 'hidden' });
  assert.ok(await store.getByRole('radio', { name: 'healthy' }).isChecked());
  assert.deepEqual([page.problems, other.problems], [[], []]);
  await page.context().close();
  await other.context().close();
});

test('everything can be done with the keyboard', async () => {
  const page = await open(platform.url);
  const focused = (what) => page.evaluate(what);
  await page.keyboard.press('Tab');
  assert.equal(await focused(() => document.activeElement.textContent), 'Skip to the content');
  await page.keyboard.press('Tab');
  assert.equal(await focused(() => document.activeElement.textContent), 'Overview');
  await page.getByRole('link', { name: 'Alarms', exact: true }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Alarms' }).waitFor();
  assert.equal(await focused(() => document.activeElement.id), 'main', 'the focus goes to the page');
  await page.goBack();
  await page.getByRole('heading', { name: 'Break something' }).waitFor();
  await page.getByRole('group', { name: 'Slack' }).getByRole('radio', { name: 'healthy' }).focus();
  await page.keyboard.press('ArrowRight');
  await eventually('the fault', async () => (await json(`${platform.url}/_local/faults`)).slack?.mode === 'refuse');
  await page.keyboard.press('ArrowLeft');
  await eventually('health', async () => Object.keys(await json(`${platform.url}/_local/faults`)).length === 0);
  // The chart says in words what its cursor points at.
  await page.locator('#rates').focus();
  await page.keyboard.press('End');
  await page.locator('.readout').filter({ hasText: /requests \d+, new keys \d+, duplicates \d+/ }).first().waitFor();
  await page.context().close();
});

test('an event in the list leads to the life of its key', async () => {
  const page = await open(platform.url);
  await slackEvent('LINK1');
  // By keyboard: newer lines push this one down, and a click could hit another one.
  await page.locator('#feed a.key').filter({ hasText: 'EvLINK1' }).first().press('Enter');
  await page.getByRole('heading', { level: 1, name: 'EvLINK1' }).waitFor();
  assert.equal(new URL(page.url()).pathname, '/keys/events/EvLINK1');
  await page.context().close();
});

test('the rates show what happened, and a fault is marked on the time axis', async () => {
  const page = await open(platform.url);
  await slackEvent('RATES1', { times: 5 });
  const tile = async (name) => Number(await page.locator(`#count-${name}`).innerText());
  await eventually('the new keys', async () => (await tile('new')) >= 2 && (await tile('duplicate')) >= 4 && (await tile('effects')) >= 1);
  await page.locator('#latency tr').filter({ hasText: 'slack-events' }).waitFor();
  await page.locator('#breakers tr[data-function="slack-events"][data-open=false]').waitFor();
  await json(`${platform.url}/_local/faults`, { method: 'PUT', body: JSON.stringify({ dynamodb: { mode: 'down' } }) });
  await page.locator('#rates .outage-label').filter({ hasText: 'Store (DynamoDB): down' }).waitFor();
  // The store fails often enough that the breaker of the function opens, and its journal fills.
  for (let at = 0; at < 6; at += 1) await slackEvent(`DOWN${at}`);
  await page.locator('#breakers tr[data-function="slack-events"][data-open=true]').filter({ hasText: 'to write' }).waitFor();
  await json(`${platform.url}/_local/faults`, { method: 'PUT', body: '{}' });
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

const PAGES = ['/', '/keys', lifePath('events', 'EvAXE1'), '/operate/alarms', '/operate/dead-letters', '/operate/schedules', '/operate/metrics', '/apps/slack', '/apps/feeds', '/apps/tokens', '/apps/sessync', '/apps/mesh', '/duel'];

test('every page opens without an error, from this machine alone, in less than 250 KB', async () => {
  await slackEvent('AXE1', { times: 3 });
  let bytes = 0;
  const seen = new Set();
  for (const path of PAGES) {
    const page = await open('about:blank', {}, false);
    const responses = [];
    page.on('response', (response) => responses.push(response));
    const answer = await page.goto(`${platform.url}${path}`);
    assert.match(answer.headers()['content-security-policy'], /default-src 'self'/);
    await page.getByRole('heading', { level: 1 }).waitFor().catch(async () => assert.fail(`${path} has no heading: ${await page.locator('main').innerText()} ${page.problems}`));
    assert.equal(await page.getByRole('heading', { level: 1 }).count(), 1, path);
    assert.match(await page.title(), /ichido local$/);
    for (const response of responses) {
      const { pathname, host, protocol } = new URL(response.url());
      if (protocol === 'data:') continue;
      assert.equal(host, new URL(platform.url).host, response.url());
      // Without sample data there are no accounts yet, and a missing balance is a 404.
      if (!(path === '/apps/tokens' && pathname.startsWith('/tokens/'))) assert.ok(response.status() < 400, `${path}: ${response.status()} ${response.url()}`);
      if (pathname.startsWith('/_') || pathname.startsWith('/feeds/') || seen.has(pathname)) continue;
      seen.add(pathname);
      if (pathname.startsWith('/console/') || pathname === '/') bytes += (await response.body()).length;
    }
    // The browser reports what was looked at above.
    assert.deepEqual(page.problems.filter((problem) => !problem.startsWith('Failed to load resource')), [], path);
    await page.context().close();
  }
  assert.ok(bytes > 50_000 && bytes < 250_000, `${bytes} bytes`);
});

for (const [device, options] of [['a desk', {}], ['a desk in the dark', { colorScheme: 'dark' }], ['a phone', { viewport: { width: 360, height: 740 }, hasTouch: true }], ['a desk at 200 %', { viewport: { width: 640, height: 450 }, deviceScaleFactor: 2 }]]) {
  test(`every page on ${device}: axe finds nothing serious, and nothing scrolls sideways`, async () => {
    await slackEvent('AXE1', { times: 2 });
    for (const path of PAGES) {
      const page = await open(`${platform.url}${path}`, { ...options, bypassCSP: true });
      await page.getByRole('heading', { level: 1 }).waitFor();
      // Pages ask for their data first.
      await Promise.race([page.waitForLoadState('networkidle'), page.waitForTimeout(1500)]);
      await page.addScriptTag({ content: axe.source });
      const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
      const serious = violations.filter(({ impact }) => ['serious', 'critical'].includes(impact));
      assert.deepEqual(serious.map(({ id, nodes }) => `${path} ${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(' | ')}`), []);
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(wider <= 0, `${path}: the page scrolls sideways by ${wider}`);
      await page.context().close();
    }
  });
}

test('on a phone the menu opens and leads on', async () => {
  const page = await open(platform.url, { viewport: { width: 360, height: 740 } });
  await page.getByRole('button', { name: 'Menu' }).click();
  await page.getByRole('link', { name: 'Schedules' }).click();
  await page.getByRole('heading', { level: 1, name: 'Schedules' }).waitFor();
  assert.ok(await page.locator('#nav').isHidden());
  await page.context().close();
});

test('alarms: the ringing first, each with its line and its runbook in the page', async () => {
  const page = await open(`${platform.url}/#operations`);
  // Moving the time makes the alarm ring at once: half an hour without a read is silence.
  await page.getByRole('button', { name: '30 minutes later' }).click();
  const ringing = page.locator('#alarms li[data-alarm="github-feed-silence"][data-state=ALARM]');
  await ringing.waitFor();
  await page.getByText('The alarms are 30 minutes ahead of the clock.').first().waitFor();
  await ringing.getByText('Runbook').click();
  await ringing.getByRole('heading', { name: 'What it means' }).waitFor();
  await ringing.getByText('docs/runbooks/feed-silence.md').waitFor();
  await page.getByText('do not ring').click();
  const quiet = page.locator('#alarms-quiet li[data-alarm="slack-files-dead-letters"]');
  await quiet.waitFor();
  await page.getByRole('searchbox', { name: 'Search alarms' }).fill('dead letter');
  await eventually('the search', async () => (await page.locator('#alarms-quiet > li').count()) < 4);
  await picture(page, 'alarms');
  await page.context().close();
});

test('metrics are folded, filtered and searched', async () => {
  await slackEvent('METRIC1');
  const page = await open(`${platform.url}/operate/metrics`);
  const rows = page.locator('#metrics tr');
  await page.locator('#metrics tr').first().waitFor();
  assert.ok(await rows.count() <= 15);
  await page.getByRole('button', { name: /^Show all/ }).click();
  assert.ok(await rows.count() > 15);
  await page.getByRole('searchbox', { name: 'Search metrics' }).fill('Invocations');
  await eventually('the search', async () => (await rows.allInnerTexts()).every((text) => text.includes('Invocations')));
  await page.context().close();
});

test('every runbook is shown, and a line that only looks like a heading ends', async () => {
  const page = await open(platform.url);
  const runbooks = new URL('../../docs/runbooks/', import.meta.url);
  const names = (await readdir(runbooks)).filter((name) => name.endsWith('.md'));
  assert.ok(names.length > 10);
  for (const name of names) {
    const text = await readFile(new URL(name, runbooks), 'utf8');
    const shown = await page.evaluate(async (markdown) => (await import('/console/markdown.js')).markdown(markdown).map((element) => element.textContent).join('\n'), text);
    assert.ok(shown.length > 100, name);
  }
  const shown = await page.evaluate(async () => (await import('/console/markdown.js')).markdown('#42\n#hash\n\n##### deep\n-\n# title').map((element) => element.outerHTML));
  assert.deepEqual(shown, ['<p>#42 #hash</p>', '<p>##### deep -</p>']);
  await page.context().close();
});

test('a live region is not written again, and a list keeps the keyboard focus', async () => {
  const page = await open(`${platform.url}/operate/schedules`);
  const pause = page.getByRole('button', { name: 'Pause github-subscriber' });
  await pause.waitFor();
  const kept = await page.evaluate(async () => {
    const { el, refill, say } = await import('/console/kit.js');
    const region = document.body.appendChild(el('p', { role: 'status' }));
    let writes = 0;
    const observer = new MutationObserver((all) => { writes += all.length; });
    observer.observe(region, { childList: true, characterData: true, subtree: true });
    for (let at = 0; at < 3; at += 1) { say(region, 'the same'); await new Promise((resolve) => setTimeout(resolve, 0)); }
    const list = document.body.appendChild(el('div'));
    const buttons = (names) => names.map((name) => el('button', { 'aria-label': name }, name));
    refill(list, ['a', 'b'], () => buttons(['a', 'b']));
    const [first] = list.children;
    list.children[1].focus();
    refill(list, ['a', 'b'], () => buttons(['a', 'b']));
    const same = list.children[0] === first;
    refill(list, ['new', 'a', 'b'], () => buttons(['new', 'a', 'b']));
    return { writes, same, focused: document.activeElement.ariaLabel };
  });
  assert.deepEqual(kept, { writes: 1, same: true, focused: 'b' });
  await pause.focus();
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Resume github-subscriber' }).waitFor();
  await eventually('the focus on the other button', () => page.evaluate(() => document.activeElement.ariaLabel === 'Resume github-subscriber'));
  await page.keyboard.press('Enter');
  await pause.waitFor();
  await page.context().close();
});

test('schedules run, pause and resume', async () => {
  const page = await open(`${platform.url}/operate/schedules`);
  await page.getByRole('button', { name: 'Run now github-subscriber' }).click();
  await page.getByText('github-subscriber has run').first().waitFor();
  await page.getByRole('button', { name: 'Pause github-subscriber' }).click();
  await page.getByRole('row').filter({ hasText: 'github-subscriber' }).filter({ hasText: 'paused' }).waitFor();
  await page.getByRole('button', { name: 'Resume github-subscriber' }).click();
  await page.getByRole('button', { name: 'Pause github-subscriber' }).waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

/** The contrast between a text and its background, as WCAG defines it. */
const contrast = (selector) => {
  const parse = (color) => color.match(/[\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((part) => { const share = part / 255; return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const element = document.querySelector(selector);
  let behind = element;
  let background = [0, 0, 0, 0];
  while (behind && (background[3] === 0)) {
    const [r, g, b, a = 1] = parse(getComputedStyle(behind).backgroundColor);
    background = [r, g, b, a];
    behind = behind.parentElement;
  }
  const [one, other] = [luminance(parse(getComputedStyle(element).color)), luminance(background)];
  return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
};

for (const colorScheme of ['light', 'dark']) {
  test(`it can be read in ${colorScheme}, on a desk and on a phone`, async () => {
    for (const [device, viewport] of [['desk', { width: 1280, height: 900 }], ['phone', { width: 360, height: 740 }]]) {
      const page = await open(platform.url, { colorScheme, viewport });
      await fetch(`${platform.url}/slack/events`, { method: 'POST', body: '{}' });
      await page.locator('#feed li').first().waitFor();
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(wider <= 0, `${device}: the page scrolls sideways by ${wider}`);
      for (const selector of ['h1', '#feed li time', '#feed .badge', '.tiles span', '.switches label', 'nav a', '.soft']) {
        assert.notEqual(await page.locator(selector).count(), 0, `${selector} is not on the page`);
        const found = await page.evaluate(contrast, selector);
        assert.ok(found >= 4.5, `${device}, ${colorScheme}, ${selector}: ${found.toFixed(2)}`);
      }
      await picture(page, `${colorScheme}-${device}`);
      await page.context().close();
    }
  });
}

test('text from outside is never read as markup', async () => {
  const page = await open(platform.url);
  await fetch(`${platform.url}/tokens/%3Cimg%20src=x%20onerror=alert(1)%3E`);
  await fetch(`${platform.url}/slack/events?<script>alert(1)</script>`, { method: 'POST', body: '<b>' });
  await page.locator('#feed li').filter({ hasText: /\/tokens\/.*img/ }).first().waitFor();
  assert.equal(await page.locator('#feed img, #feed script, #feed b').count(), 0);
  assert.deepEqual(page.problems.filter((problem) => /alert/.test(problem)), []);
  await page.context().close();
});

test('when the platform stops the console says so, and when it is back the console continues', async () => {
  const mine = await start();
  const page = await open(mine.url);
  await page.getByText('live', { exact: true }).waitFor();
  await mine.stop();
  await page.getByText('reconnecting').waitFor();
  const again = await start('--port', new URL(mine.url).port);
  await page.getByText('live', { exact: true }).waitFor();
  await again.stop();
  await page.context().close();
});
