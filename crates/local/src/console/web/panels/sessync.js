// sessync: rows arrive at the stand-in for BigQuery; an upload that is killed is recovered by the next one.

const SHOWN = 200;
const FAULTS = [['', 'healthy'], ['refuse', 'refuses'], ['ratelimit', 'rate-limits'], ['accept_then_lose', 'accepts, loses the answer'], ['hang', 'hangs']];

export function mount(root, kit) {
  const { el, fill, get, post, on, faultSwitch, trial, clock } = kit;
  const rows = kit.longTable({
    id: 'sessync-rows', label: 'rows', shown: 12, columns: ['arrived', 'line', 'session', 'type', 'written'].map((name) => [name]), empty: '',
    text: (row) => `${row.uuid} ${row.session_id}`,
    row: (row) => el('tr', {}, el('td', { class: 'whole' }, clock(row.at)), el('td', {}, el('code', {}, row.uuid ?? '')),
      el('td', {}, el('code', {}, row.session_id ?? '')), el('td', {}, row.type ?? row.message_type ?? ''), el('td', { class: 'whole' }, row.timestamp ?? '')),
  });
  const totals = { rows: el('b', { id: 'sessync-total' }, '0'), batches: el('b', { id: 'sessync-batches' }, '0'), doubled: el('b', { id: 'sessync-doubled' }, '0') };
  const empty = el('p', { class: 'empty' }, 'No row yet. Press the button above, or run sessync as crates/sessync/README.md shows, with ', el('code', {}, `BIGQUERY_EMULATOR_HOST=${location.host}`), '.');
  const { error, attempt } = trial();
  const breaks = faultSwitch('BigQuery', 'sessync-bigquery', 'bigquery', FAULTS, attempt);

  const said = el('p', { role: 'status', id: 'sessync-said' });
  const steps = el('ol', { id: 'sessync-steps' });
  const story = el('section', { class: 'card', 'aria-labelledby': 'sessync-story-title', hidden: true }, el('h2', { id: 'sessync-story-title' }, 'A killed upload'), said, steps);
  const lead = el('button', { class: 'primary big', id: 'sessync-lead', onclick: () => attempt(async () => {
    lead.disabled = true;
    story.hidden = false;
    said.textContent = 'sessync uploads 200 lines in batches of 20 …';
    fill(steps);
    try {
      const told = await post('/_local/sessync/demo');
      fill(steps,
        el('li', {}, `sessync began to upload ${told.lines} lines.`),
        el('li', {}, told.killed ? `It was killed (kill -9) when ${told.arrivedBeforeTheKill} rows had arrived. It never learned that its last batch was accepted.` : 'It ended before it could be killed. Press the button again.'),
        el('li', {}, 'Run again, it asked BigQuery what had arrived, and sent only the rest.'),
        el('li', {}, `It says: ${told.said}`));
      said.textContent = told.ok && told.rows === told.lines ? `All ${told.lines} lines are in BigQuery, each once.` : `${told.rows} of ${told.lines} lines are in BigQuery: ${told.said}`;
      kit.announce(said.textContent);
      await draw();
    } finally { lead.disabled = false; }
  }) }, 'Upload, kill it, upload again');

  root.append(
    kit.head('Session logs', 'Each line of a session log is in BigQuery exactly once, also if the upload is killed.', lead),
    error, story,
    el('ul', { class: 'counters', 'aria-label': 'What BigQuery has' },
      el('li', {}, totals.rows, el('span', {}, 'rows')), el('li', {}, totals.batches, el('span', {}, 'batches')), el('li', {}, totals.doubled, el('span', {}, 'lines stored twice'))),
    el('section', { class: 'card', 'aria-labelledby': 'sessync-break-title' }, el('h2', { id: 'sessync-break-title' }, 'Break the destination'), breaks),
    el('section', { class: 'card', 'aria-labelledby': 'sessync-rows-title' }, el('h2', { id: 'sessync-rows-title' }, 'Rows, newest first'), empty, rows));

  async function draw() {
    const batches = await get('/_local/outbox?sink=bigquery');
    const all = batches.flatMap((batch) => (batch.request.rows ?? []).map((row) => ({ at: batch.at, ...row.json })));
    totals.rows.textContent = String(all.length);
    totals.batches.textContent = String(batches.length);
    const times = new Map();
    for (const row of all) times.set(row.uuid, (times.get(row.uuid) ?? 0) + 1);
    totals.doubled.textContent = String([...times.values()].filter((count) => count > 1).length);
    empty.hidden = all.length > 0;
    rows.show(all.slice(-SHOWN).reverse());
  }
  let due;
  on('outbox', ({ sink }) => {
    if (sink !== 'bigquery' || due) return;
    due = setTimeout(() => { due = undefined; draw(); }, 100);
  });
  draw();
}
