// The console's panel of session logs in a real browser: the rows that arrive at the stand-in for BigQuery.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually, json, open, platform, prepare } from './support.mjs';

prepare();

/** Inserts rows as sessync does. */
const insert = (...uuids) => json(`${platform.url}/bigquery/v2/projects/p/datasets/d/tables/t/insertAll`, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({
    kind: 'bigquery#tableDataInsertAllRequest',
    rows: uuids.map((uuid) => ({
      insertId: uuid,
      json: {
        uuid, session_id: 's1', type: 'user', timestamp: '2026-11-01T00:00:00Z', developer_id: 'me', user_email: 'me@example.com', hostname: 'here',
        project_name: 'p', source_file: 'p/s1.jsonl', upload_batch_id: `b-${uuids[0]}`, uploaded_at: '2026-11-01T00:00:01Z',
      },
    })),
  }),
});

test('rows appear and are counted, and lines that are stored twice are counted apart', async () => {
  const page = await open(`${platform.url}/apps/sessync`);
  await page.getByText('No row yet.').waitFor();
  const total = (id) => page.locator(`#sessync-${id}`).innerText();
  assert.deepEqual(await insert('u1', 'u2', 'u3'), { kind: 'bigquery#tableDataInsertAllResponse' });
  await eventually('the rows', async () => (await total('total')) === '3');
  assert.deepEqual([await total('batches'), await total('doubled')], ['1', '0']);
  assert.equal(await page.locator('#sessync-rows tr').count(), 3);
  assert.match(await page.locator('#sessync-rows tr').first().innerText(), /u3\s+s1\s+user/);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test('the destination can be broken from the panel, and healed', async () => {
  const page = await open(`${platform.url}/apps/sessync`);
  await page.locator('input[name=sessync-bigquery][value=refuse]').check({ force: true });
  await eventually('the fault', async () => (await json(`${platform.url}/_local/faults`)).bigquery?.mode === 'refuse');
  const before = (await json(`${platform.url}/_local/outbox?sink=bigquery`)).length;
  const refused = await insert('u4');
  assert.ok(refused.error, JSON.stringify(refused));
  assert.equal((await json(`${platform.url}/_local/outbox?sink=bigquery`)).length, before);
  await page.locator('input[name=sessync-bigquery][value=""]').check({ force: true });
  await eventually('health', async () => Object.keys(await json(`${platform.url}/_local/faults`)).length === 0);
  await page.context().close();
});

test('an upload that is killed is recovered by the next one, and each line is there once', async () => {
  const page = await open(`${platform.url}/apps/sessync`);
  await page.getByRole('button', { name: 'Upload, kill it, upload again' }).click();
  await page.locator('#sessync-said').filter({ hasText: 'All 200 lines are in BigQuery, each once.' }).waitFor();
  await page.locator('#sessync-steps').filter({ hasText: /killed \(kill -9\) when \d+ rows had arrived/ }).waitFor();
  const batches = await json(`${platform.url}/_local/outbox?sink=bigquery`);
  const uuids = batches.flatMap(({ request }) => request.rows.map((row) => row.json.uuid)).filter((uuid) => uuid.startsWith('demo-'));
  assert.deepEqual([uuids.length, new Set(uuids).size], [200, 200]);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
