// The console's Slack panel in a real browser: one reply per file, whatever is broken.
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { json, open, platform, prepare } from './support.mjs';

let page;

prepare(async () => {
  page = await open(`${platform.url}/apps/slack`);
  await page.locator('#slack-many').waitFor();
});

// Each test begins without faults and with an unchanged form.
afterEach(async () => {
  await json(`${platform.url}/_local/faults`, { method: 'PUT', body: '{}' });
  await page.locator('#slack-files').fill('1');
  await choose('slack-uploader', '');
});

/** Clicks, and waits until the newest event has this verdict. Returns the event's id and the text of its row. */
async function send(button, verdict) {
  const known = await page.locator('#slack-events tr').count();
  await page.locator(button).click();
  const row = page.locator('#slack-events tr').first();
  await page.waitForFunction(
    ({ rows, text }) => {
      const all = document.querySelectorAll('#slack-events tr');
      const idle = !document.getElementById('slack-many').disabled;
      return idle && all.length >= rows && all[0]?.dataset.verdict === text;
    },
    { rows: button === '#slack-again' ? known : known + 1, text: verdict },
  );
  return { id: await row.getAttribute('data-event'), text: await row.innerText() };
}

const choose = (name, value) => page.locator(`input[name=${name}][value="${value}"]`).check({ force: true });

/** The files that were replied to. */
async function replies() {
  const outbox = await json(`${platform.url}/_local/outbox?sink=slack`);
  return outbox.map(({ request }) => request.metadata.event_payload.file);
}

async function picture(name) {
  if (process.env.SCREENSHOTS) await page.screenshot({ path: `${process.env.SCREENSHOTS}/${name}.png`, fullPage: true });
}

test('an event sent once gets one reply', async () => {
  const { text } = await send('#slack-once', 'one per file');
  assert.match(text, /1 × 200/);
  assert.match(text, /Received report\.pdf \(application\/pdf, 1\.2 MB\)\./);
  assert.equal((await replies()).length, 1);
});

test('the same event a hundred times at once, with several files, gets one reply per file', async () => {
  await page.locator('#slack-files').fill('3');
  const { text } = await send('#slack-many', 'one per file');
  assert.match(text, /100 × 200/);
  assert.match(text, /3 for 3 files/);
  const again = await send('#slack-again', 'one per file');
  assert.match(again.text, /200 × 200/);
});

test('another bot is answered, our own is not', async () => {
  await choose('slack-uploader', 'bot');
  await send('#slack-many', 'one per file');
  await choose('slack-uploader', 'own');
  const { text } = await send('#slack-many', 'ignored, as it should be');
  assert.match(text, /100 × 200/);
});

test('while the store is down, and after it is back, there is one reply', async () => {
  await choose('slack-store', 'down');
  await page.locator('#broken').filter({ hasText: 'Store' }).waitFor();
  const { id, text } = await send('#slack-many', 'one per file');
  assert.match(text, /100 × 200/);
  await choose('slack-store', '');
  await page.waitForFunction(() => document.getElementById('broken').hidden);
  const again = await send('#slack-again', 'one per file');
  await picture('slack');
  assert.equal(again.id, id);
  assert.match(again.text, /1 for 1 file/);
});

test('everything on the panel has a name and nothing went wrong in the browser', async () => {
  const unnamed = await page.locator('#page-slack').evaluate((panel) =>
    [...panel.querySelectorAll('button, input, select')].filter((each) => !(each.labels?.length || each.textContent.trim() || each.ariaLabel)).map((each) => each.outerHTML));
  assert.deepEqual(unnamed, []);
  // On a busy machine a delivery may be refused and repeated; the browser reports every refusal.
  assert.deepEqual(page.problems.filter((problem) => !/status of 50[03]/.test(problem)), []);
});
