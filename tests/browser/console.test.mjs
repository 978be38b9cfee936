// The frame of the console, used as a person would. With SCREENSHOTS=DIR it keeps pictures.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually, json, open, platform, prepare, start } from './support.mjs';

prepare();

async function picture(page, name) {
  if (process.env.SCREENSHOTS) await page.screenshot({ path: `${process.env.SCREENSHOTS}/${name}.png`, fullPage: true });
}

const number = async (page, id) => Number(await page.locator(`#count-${id}`).innerText());

test('a request appears without a reload', async () => {
  const page = await open(platform.url);
  await page.getByText('live', { exact: true }).waitFor();
  const before = await number(page, 'arrived');
  // It is not signed by Slack, so it is refused, but it is still a request.
  const refused = await fetch(`${platform.url}/slack/events`, { method: 'POST', body: '{}' });
  assert.equal(refused.status, 401);
  await eventually('the request', async () => (await number(page, 'arrived')) === before + 1);
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
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to the content');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute('role')), 'tab');
  await page.keyboard.press('End');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Alarms and metrics');
  await page.getByRole('heading', { name: 'Alarms' }).waitFor();
  await page.keyboard.press('Home');
  await page.getByRole('heading', { name: 'Break something' }).waitFor();
  await page.getByRole('group', { name: 'Slack' }).getByRole('radio', { name: 'healthy' }).focus();
  await page.keyboard.press('ArrowRight');
  await eventually('the fault', async () => (await json(`${platform.url}/_local/faults`)).slack?.mode === 'refuse');
  await page.keyboard.press('ArrowLeft');
  await eventually('health', async () => Object.keys(await json(`${platform.url}/_local/faults`)).length === 0);
  await page.context().close();
});

test('everything has a name for a screen reader', async () => {
  const page = await open(platform.url);
  for (const tab of await page.getByRole('tab').all()) {
    await tab.click();
    const unnamed = await page.locator('main section[role=tabpanel]:not([hidden])').evaluate((root) => {
      const named = (each) => each.ariaLabel || each.textContent.trim() || each.labels?.length || each.getAttribute('aria-labelledby');
      return [...root.querySelectorAll('button, input, select, textarea, [role=img]')].filter((each) => !named(each)).map((each) => each.outerHTML);
    });
    assert.deepEqual(unnamed, [], await tab.innerText());
  }
  assert.equal(await page.locator('html').getAttribute('lang'), 'en');
  assert.equal(await page.getByRole('heading', { level: 1 }).count(), 1);
  await page.context().close();
});

test('alarms and metrics are shown with their runbooks', async () => {
  const page = await open(`${platform.url}/#operations`);
  await page.getByRole('row').filter({ hasText: 'slack-files-dead-letters' }).filter({ hasText: 'docs/runbooks/slack-files-dead-letters.md' }).waitFor();
  await page.getByRole('row').filter({ hasText: 'Invocations' }).first().waitFor();
  // Moving the time makes the alarm ring at once: half an hour without a read is silence.
  const silence = page.getByRole('row').filter({ hasText: 'github-feed-silence' });
  await page.getByRole('button', { name: '30 minutes later' }).click();
  await silence.filter({ hasText: 'ALARM' }).waitFor();
  await page.getByText('The alarms are 30 minutes ahead of the clock.').first().waitFor();
  await picture(page, 'operations');
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
      for (const selector of ['h1', '#feed li time', '#feed .badge', '.counters span', '.switches label', '[role=tab]', '.soft']) {
        if (await page.locator(selector).count() === 0) continue;
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
  await page.locator('#feed li').first().waitFor();
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
