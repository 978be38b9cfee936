// The console's feeds panel in a real browser: every entry is delivered and none twice, whatever is broken.
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { eventually, json, open, platform, prepare } from './support.mjs';

let page;

// With a variable for one function: the function's name is in front.
prepare(async () => {
  page = await open(`${platform.url}/apps/feeds`);
  await page.locator('#feeds-github-run').waitFor();
}, { HATEBU_SUBSCRIBER__IGNORE_TITLE: '^Advertisement' });

afterEach(() => json(`${platform.url}/_local/faults`, { method: 'PUT', body: '{}' }));

const choose = async (name, value) => {
  await page.locator(`input[name=${name}][value="${value}"]`).check({ force: true });
  await page.waitForFunction((broken) => document.getElementById('broken').hidden !== broken, value !== '');
};

/** Adds an entry to a sample feed and returns its title. */
async function grow(feed) {
  const last = page.locator(`#feeds-${feed}-last`);
  await last.evaluate((text) => { text.textContent = ''; });
  await page.locator(`#feeds-${feed}-grow`).click();
  const said = await eventually('the entry', async () => /shows “(.*)”\.$/.exec(await last.innerText()));
  return said[1];
}

/** Reads a feed as its schedule does, and returns the panel's sentence about it. */
async function read(feed) {
  const last = page.locator(`#feeds-${feed}-last`);
  await last.evaluate((text) => { text.textContent = ''; });
  await page.locator(`#feeds-${feed}-run`).click();
  return eventually('the run', async () => { const said = await last.innerText(); return said !== '' && said !== 'Reading…' && said; });
}

/** The newest entry of a feed's list, once it is in this state. */
async function newest(feed, state) {
  const row = page.locator(`#feeds-${feed}-entries tr`).first();
  await eventually(`an entry that is ${state}`, async () => (await row.getAttribute('data-state')) === state);
  const deliveries = await row.locator('li').evaluateAll((all) => all.map((each) => [each.dataset.destination, each.dataset.state]));
  return { row, text: await row.innerText(), deliveries: Object.fromEntries(deliveries) };
}

/** How many posts that Mastodon accepted contain a text. */
const posted = async (text) => (await json(`${platform.url}/_local/outbox?sink=mastodon`)).filter(({ request }) => request.status.includes(text)).length;

test('the first read marks the present entries and posts nothing', async () => {
  for (const feed of ['github', 'hatebu']) {
    assert.match(await read(feed), /[1-9]\d* entries, 0 new|[1-9]\d* entries, \d+ new, 0 settled, 0 owed/);
    await page.locator(`#feeds-${feed}-marked-title`).filter({ hasText: /^[1-9]\d* entries were there at the first read/ }).waitFor();
    await page.locator(`#feeds-${feed}-marked-title`).click();
    await page.locator(`#feeds-${feed}-marked tr[data-state=marked]`).first().waitFor();
    assert.ok(await page.locator(`#feeds-${feed}-marked tr`).count() <= 10, 'a long list is folded');
  }
  assert.deepEqual(await json(`${platform.url}/_local/outbox?sink=mastodon`), []);
});

test('a new entry is posted, and shown in its list and among the posts', async () => {
  const title = await grow('github');
  await read('github');
  const { deliveries, text } = await newest('github', 'delivered');
  assert.equal(deliveries.mastodon, 'delivered');
  assert.match(text, /mastodon: delivered at \d\d:\d\d/);
  await page.locator('#feeds-timeline li[data-sink=mastodon]').filter({ hasText: `[GH] ${title}` }).waitFor();
  await grow('hatebu');
  await read('hatebu');
  await newest('hatebu', 'delivered');
  await page.locator('#feeds-timeline li[data-sink=mastodon]').filter({ hasText: '[B!] id:' }).waitFor();
});

test('Mastodon is broken and healed, and no entry is lost or posted twice', async () => {
  const before = (await json(`${platform.url}/_local/outbox?sink=mastodon`)).length;
  await choose('feeds-mastodon', 'refuse');
  await grow('hatebu');
  await read('hatebu');
  const { text } = await newest('hatebu', 'owed');
  assert.match(text, /mastodon: owed.*503/s, 'it says why');
  assert.equal((await json(`${platform.url}/_local/outbox?sink=mastodon`)).length, before);
  await choose('feeds-mastodon', '');
  await read('hatebu');
  await newest('hatebu', 'delivered');
  await read('hatebu');
  assert.equal((await json(`${platform.url}/_local/outbox?sink=mastodon`)).length, before + 1);
  if (process.env.SCREENSHOTS) await page.screenshot({ path: `${process.env.SCREENSHOTS}/feeds.png`, fullPage: true });
});

test('Mastodon accepts and its answer is lost: the status is posted once', async () => {
  await choose('feeds-mastodon', 'accept_then_lose');
  const added = await json(`${platform.url}/feeds/sample/hatebu`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ title: 'A page whose post is lost' }) });
  assert.equal(added.title, 'A page whose post is lost');
  await read('hatebu');
  await newest('hatebu', 'owed');
  await choose('feeds-mastodon', '');
  await read('hatebu');
  await newest('hatebu', 'delivered');
  assert.equal(await posted('A page whose post is lost'), 1);
});

test('a permanently refused entry becomes a dead letter with its reason, and can be sent again', async () => {
  await choose('feeds-mastodon', 'reject');
  const added = await json(`${platform.url}/feeds/sample/hatebu`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ title: 'A page nobody takes' }) });
  const dead = page.locator('#feeds-hatebu-entries tr[data-state=dead]').filter({ hasText: added.title });
  // It takes a few runs, because an entry is tried more than once before it is given up.
  await eventually('the dead letter', async () => { await read('hatebu'); return (await dead.count()) === 1; });
  assert.match(await dead.innerText(), /mastodon: dead.*422/s);
  await choose('feeds-mastodon', '');
  await read('hatebu');
  assert.equal(await posted(added.title), 0, 'a dead letter stays dead until somebody sends it again');
  await page.getByRole('button', { name: `Send “${added.title}” again` }).click();
  await page.locator('#feeds-hatebu-entries tr[data-state=owed]').filter({ hasText: added.title }).waitFor();
  await read('hatebu');
  await page.locator('#feeds-hatebu-entries tr[data-state=delivered]').filter({ hasText: added.title }).waitFor();
  assert.equal(await posted(added.title), 1);
});

test('an entry that the filter ignores is shown with the reason and posted nowhere', async () => {
  const added = await json(`${platform.url}/feeds/sample/hatebu`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ title: 'Advertisement: a better umbrella' }) });
  await read('hatebu');
  const { row, text } = await newest('hatebu', 'ignored');
  assert.equal(await row.getAttribute('data-entry'), added.id);
  assert.match(text, /ignored\s+\S+/, 'it says why');
  assert.equal(await posted(added.title), 0);
});

test('nothing went wrong in the browser', () => {
  assert.deepEqual(page.problems, []);
});
