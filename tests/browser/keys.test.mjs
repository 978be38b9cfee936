// The life of a key in a real browser: what is drawn is what happened, it can be stepped through and zoomed with the keyboard, and a
// table says the same.
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { eventKey, eventually, fileKey, json, lifePath, open, platform, prepare, slackEvent } from './support.mjs';

prepare();

const faults = (wanted) => json(`${platform.url}/_local/faults`, { method: 'PUT', body: JSON.stringify(wanted) });
const life = (namespace, key) => json(`${platform.url}/_console${lifePath(namespace, key)}`);
afterEach(() => faults({}));

test('a reply whose answer was lost: released, taken over, probed, and performed once', async () => {
  await faults({ slack: { mode: 'accept_then_lose' } });
  const page = await open(`${platform.url}${lifePath('FILE', fileKey('LOST1'))}`);
  await page.getByText('Nothing is known about this key').waitFor();
  assert.deepEqual(await slackEvent('LOST1'), [200]);
  // Live: the page that was opened before anything happened follows.
  await page.locator('#life .attempt').first().waitFor({ state: 'attached' });
  await page.locator('#life .outage').first().waitFor({ state: 'attached' });
  await faults({});
  await page.locator('#life-records [data-state=completed]').waitFor();
  await page.locator('#life-sentence').filter({ hasText: /^Performed by an earlier worker: the probe of worker \w{8} found it done; \d take-overs?/ }).waitFor();
  const { attempts, records } = await life('FILE', fileKey('LOST1'));
  const [first, last] = [attempts[0], attempts.at(-1)];
  assert.equal(first.end.how, 'released');
  assert.deepEqual([last.takenOver, last.probe.done, last.end.how], [true, true, 'completed']);
  assert.ok(last.fence > first.fence);
  assert.equal(records[0].fence, last.fence);
  assert.equal(await page.locator('#life .probe').count(), attempts.filter(({ probe }) => probe).length);
  assert.equal(await page.locator('#life-attempts tr').count(), attempts.length);
  assert.equal((await json(`${platform.url}/_local/outbox?sink=slack`)).filter(({ request }) => request.metadata?.event_payload?.file === 'FLOST1').length, 1);
  await page.locator('#life-outcome').filter({ hasText: 'reply' }).waitFor();
  if (process.env.SCREENSHOTS) await page.screenshot({ path: `${process.env.SCREENSHOTS}/life.png`, fullPage: true });
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test('duplicates are ticks with what they were told, and the effect is there once', async () => {
  await slackEvent('MANY1', { times: 20 });
  const page = await open(`${platform.url}${lifePath('events', eventKey('MANY1'))}`);
  await page.locator('#life-sentence').filter({ hasText: /^Performed once, by worker \w{8}; 19 duplicates held back\.$/ }).waitFor();
  assert.equal(await page.locator('#life .tick').count(), 19);
  assert.equal(await page.locator('#life .effect').count(), 1);
  assert.equal(await page.locator('#life .lease').count(), 1);
  assert.match(await page.locator('#life .tick title').first().textContent(), /duplicate, told/);
  await page.locator('#life-duplicates').filter({ hasText: /\d+ × completed/ }).waitFor();
  await page.context().close();
});

test('the moments are stepped through and the timeline is zoomed with the keyboard, and the table says the same', async () => {
  await slackEvent('STEP1', { times: 3 });
  const page = await open(`${platform.url}${lifePath('events', eventKey('STEP1'))}`);
  await page.locator('#life-records [data-state=completed]').waitFor();
  const { moments } = await life('events', eventKey('STEP1'));
  assert.equal(await page.locator('#life-moments tr').count(), moments.length);
  assert.match(await page.locator('#life-moments').innerText(), /checked it: new \(absent\)/);
  await page.locator('#life-scrub').focus();
  await page.keyboard.press('End');
  await page.locator('#life-now').filter({ hasText: new RegExp(`^${moments.length} of ${moments.length}, `) }).waitFor();
  assert.equal(await page.locator('#life-moments tr[aria-current=true]').count(), 1);
  await page.keyboard.press('Home');
  await page.locator('#life-now').filter({ hasText: /^1 of / }).waitFor();
  assert.match(await page.locator('#life-scrub').getAttribute('aria-valuetext'), /checked it: new/);
  const axis = () => page.locator('#life .axis').first().textContent();
  const before = await axis();
  await page.locator('#life').focus();
  await page.keyboard.press('+');
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowRight');
  await eventually('another part of the time', async () => (await axis()) !== before);
  await page.keyboard.press('0');
  await eventually('everything again', async () => (await axis()) === before);
  // The mouse: drag to move, click to look at the nearest moment.
  const box = await page.locator('#life').boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2 - 150, box.y + 20, { steps: 4 });
  await page.mouse.up();
  await eventually('the dragged time', async () => (await axis()) !== before);
  await page.context().close();
});

test('keys are found by a part of their text, and lead to their lives', async () => {
  await slackEvent('FIND1');
  const page = await open(`${platform.url}/keys`);
  await page.getByLabel('Key', { exact: true }).fill('FFIND1');
  await page.getByRole('button', { name: 'Search', exact: true }).click();
  await eventually('one key', async () => (await page.locator('#keys-rows tr').count()) === 1);
  await page.locator('#keys-rows a.key').click();
  await page.getByRole('heading', { level: 1, name: fileKey('FIND1') }).waitFor();
  await page.locator('#life-sentence').filter({ hasText: 'Performed once' }).waitFor();
  // The namespace in front may be left out.
  assert.equal((await life('FILE', fileKey('FIND1').replace('FILE#', ''))).key, fileKey('FIND1'));
  assert.equal((await life('slack', eventKey('FIND1'))).records.length, 1);
  await page.context().close();
});

test('a dead letter leads to its key, and is sent again', async () => {
  await faults({ slack: { mode: 'refuse', status: 503 } });
  await slackEvent('DEAD1');
  const page = await open(`${platform.url}/operate/dead-letters`);
  const letter = page.locator('#letters li').filter({ hasText: fileKey('DEAD1') });
  await letter.waitFor();
  await letter.filter({ hasText: 'RetriesExhausted' }).waitFor();
  await faults({});
  await letter.getByRole('button', { name: /^Send again/ }).click();
  await page.getByText('There are no dead letters').waitFor();
  await eventually('the reply', async () => (await life('FILE', fileKey('DEAD1'))).records[0]?.state === 'completed');
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test('text in a key is never read as markup', async () => {
  const key = '<img src=x onerror=alert(1)>#"&';
  const page = await open(`${platform.url}${lifePath('_', key)}`);
  await page.getByRole('heading', { level: 1, name: key }).waitFor();
  assert.equal(await page.locator('main img').count(), 0);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
