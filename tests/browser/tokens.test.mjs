// The console's token panel in a real browser: a transfer that is sent twice, or again after a lost answer, moves money once.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually, json, open, platform, prepare } from './support.mjs';

let page;

prepare(async () => {
  page = await open(`${platform.url}/apps/tokens`);
  await page.locator('#tokens-open').click();
  await balances('1000', '1000', '1000');
});

/** Waits until alice, bob and carol have these balances. */
const balances = (...wanted) => eventually(`balances of ${wanted}`, async () =>
  (await page.locator('#tokens-balances td.number').allInnerTexts()).join() === wanted.join());

/** Presses a button, and returns the panel's sentence and the newest answers. */
async function press(button) {
  await page.locator('#tokens-summary').evaluate((summary) => { summary.textContent = ''; });
  await page.locator(button).click();
  await page.waitForFunction(() => document.querySelector('#tokens-summary').textContent !== '' && !document.querySelector('#tokens-once').disabled);
  const answers = await page.locator('#tokens-answers li').evaluateAll((all) => all.map((each) => each.dataset.result));
  return { said: await page.locator('#tokens-summary').innerText(), answers };
}

async function newKey(amount = '10') {
  await page.locator('#tokens-new-key').click();
  await page.locator('#tokens-amount').fill(amount);
}

test('a transfer that is sent twice at once is made once, and both answers are equal', async () => {
  await newKey();
  const { said, answers } = await press('#tokens-twice');
  assert.equal(said, 'Sent twice: made once and replayed once. The two answers are equal, byte for byte.');
  assert.deepEqual(answers.slice(0, 2).sort(), ['made', 'replayed']);
  await balances('990', '1010', '1000');
  if (process.env.SCREENSHOTS) await page.screenshot({ path: `${process.env.SCREENSHOTS}/tokens.png`, fullPage: true });
});

test('a transfer whose answer was lost is sent again and replayed', async () => {
  await newKey();
  const { said, answers } = await press('#tokens-lost');
  assert.equal(said, 'The first answer was lost. The second request was replayed, and its answer is equal, byte for byte.');
  assert.deepEqual(answers.slice(0, 2), ['replayed', 'lost']);
  await balances('980', '1020', '1000');
  assert.equal((await press('#tokens-once')).said, 'Replayed: the transfer was made before.');
  await page.locator('#tokens-amount').fill('11');
  assert.equal((await press('#tokens-once')).said, 'Refused: IDEMPOTENCY_MISMATCH');
  await balances('980', '1020', '1000');
});

test('a transfer while the store loses its answers is made once', async () => {
  await newKey();
  await json(`${platform.url}/_local/faults`, { method: 'PUT', body: JSON.stringify({ dynamodb: { mode: 'lose_answers', rate: 0.5 } }) });
  const { said } = await press('#tokens-twice');
  await json(`${platform.url}/_local/faults`, { method: 'PUT', body: '{}' });
  // Whatever the first answers were, sending the same key again shows what happened.
  assert.match(said, /^Sent twice/);
  assert.match((await press('#tokens-once')).said, /^(Replayed: the transfer was made before|The transfer was made)\.$/);
  await balances('970', '1030', '1000');
});

test('a refusal is not recorded: the same key can be sent again when the balance is enough', async () => {
  await newKey('2000');
  assert.equal((await press('#tokens-once')).said, 'Refused: INSUFFICIENT_BALANCE');
  await page.locator('#tokens-amount').fill('70');
  assert.equal((await press('#tokens-once')).said, 'The transfer was made.');
  await balances('900', '1100', '1000');
});

test('a transfer is reversed by a new entry, and a frozen account cannot send', async () => {
  await page.getByRole('button', { name: 'Reverse 70 to bob' }).click();
  await balances('970', '1030', '1000');
  await page.locator('#tokens-history tr').filter({ hasText: 'reversal' }).first().waitFor();
  await page.getByRole('button', { name: 'Freeze alice', exact: true }).click();
  await page.getByRole('button', { name: 'Unfreeze alice' }).waitFor();
  await newKey();
  assert.equal((await press('#tokens-once')).said, 'Refused: ACCOUNT_FROZEN');
  await page.getByRole('button', { name: 'Unfreeze alice' }).click();
  await page.getByRole('button', { name: 'Freeze alice', exact: true }).waitFor();
  await balances('970', '1030', '1000');
});

test('nothing went wrong in the browser except the refusals', () => {
  // 403, 404, 409 and 422 are the refusals above; 503 is the store that lost its answers.
  assert.deepEqual(page.problems.filter((problem) => !/status of (40[349]|422|503)/.test(problem)), []);
});
