// sessync: the rows that arrive at the stand-in for BigQuery.

const SHOWN = 200;
const FAULTS = [['', 'healthy'], ['refuse', 'refuses'], ['ratelimit', 'rate-limits'], ['accept_then_lose', 'accepts, loses the answer'], ['hang', 'hangs']];

export function mount(root, { el, fill, get, on, faultSwitch, trial, clock }) {
  const rows = el('tbody', { id: 'sessync-rows' });
  const totals = { rows: el('b', { id: 'sessync-total' }, '0'), batches: el('b', { id: 'sessync-batches' }, '0'), doubled: el('b', { id: 'sessync-doubled' }, '0') };
  const empty = el('p', { class: 'empty' }, 'No row yet. Run sessync as crates/sessync/README.md shows, with ', el('code', {}, `BIGQUERY_EMULATOR_HOST=${location.host}`), '.');
  const { error, attempt } = trial();
  const breaks = faultSwitch('BigQuery', 'sessync-bigquery', 'bigquery', FAULTS, attempt);

  root.append(
    el('ul', { class: 'counters', 'aria-label': 'What BigQuery has' },
      el('li', {}, totals.rows, el('span', {}, 'rows')), el('li', {}, totals.batches, el('span', {}, 'batches')), el('li', {}, totals.doubled, el('span', {}, 'lines stored twice'))),
    el('section', { class: 'card', 'aria-labelledby': 'sessync-break-title' }, el('h2', { id: 'sessync-break-title' }, 'Break the destination'), error, breaks),
    el('section', { class: 'card', 'aria-labelledby': 'sessync-rows-title' }, el('h2', { id: 'sessync-rows-title' }, 'Rows, newest first'), empty,
      el('div', { class: 'scroll' }, el('table', {}, el('thead', {}, el('tr', {}, ['arrived', 'line', 'session', 'type', 'written'].map((name) => el('th', { scope: 'col' }, name)))), rows))));

  async function draw() {
    const batches = await get('/_local/outbox?sink=bigquery');
    const all = batches.flatMap((batch) => (batch.request.rows ?? []).map((row) => ({ at: batch.at, ...row.json })));
    totals.rows.textContent = String(all.length);
    totals.batches.textContent = String(batches.length);
    const times = new Map();
    for (const row of all) times.set(row.uuid, (times.get(row.uuid) ?? 0) + 1);
    totals.doubled.textContent = String([...times.values()].filter((count) => count > 1).length);
    empty.hidden = all.length > 0;
    fill(rows, all.slice(-SHOWN).reverse().map((row) => el('tr', {}, el('td', {}, clock(row.at)), el('td', {}, el('code', {}, row.uuid ?? '')),
      el('td', {}, el('code', {}, row.session_id ?? '')), el('td', {}, row.type ?? row.message_type ?? ''), el('td', {}, row.timestamp ?? ''))));
  }
  let due;
  on('outbox', ({ sink }) => {
    if (sink !== 'bigquery' || due) return;
    due = setTimeout(() => { due = undefined; draw(); }, 100);
  });
  draw();
}
