// What happened to Slack's events: by day and by channel, duplicates by their cause, and what is unusual.
const DAYS = [7, 30, 90];
const COUNTED = [['found', 'found'], ['sameContent', 'same content'], ['failedAttempts', 'failed, per attempt'], ['refused', 'refused']];
const CAUSES = [['slackRetry', 'Slack’s retry'], ['atOnce', 'at once'], ['anotherEnvelope', 'another envelope'], ['afterOutage', 'after an outage'], ['earlierBot', 'the bot before']];

export function mount(root, kit) {
  const { el, fill, get } = kit;
  const { error, attempt } = kit.trial();
  const days = el('select', { id: 'history-days', onchange: () => draw() }, DAYS.map((each) => el('option', { value: String(each) }, `${each} days`)));
  const waiting = el('p', { class: 'empty', role: 'status' }, 'The table is read; this can take some seconds.');
  const judged = el('p', { class: 'soft', id: 'history-judged' });
  const unusual = el('ul', { class: 'plain', id: 'history-unusual' });
  const byDay = el('tbody', { id: 'history-days-rows' });
  const byChannel = el('tbody', { id: 'history-channels-rows' });

  const columns = ['handled', 'duplicates', ...COUNTED.map(([, title]) => title)];
  const table = (first, label, rows) => el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label }, el('table', {},
    el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, first), columns.map((title) => el('th', { scope: 'col', class: title === 'duplicates' ? '' : 'number' }, title)))), rows));
  const causes = (duplicates) => CAUSES.filter(([name]) => duplicates[name] > 0).map(([name, text]) => `${kit.count(duplicates[name])} ${text}`).join(', ') || 'none';
  const row = (name, counted) => el('tr', {}, el('th', { scope: 'row', class: 'whole' }, name), el('td', { class: 'number' }, kit.count(counted.handled)), el('td', {}, causes(counted.duplicates)),
    COUNTED.map(([of]) => el('td', { class: 'number' }, kit.count(counted[of]))));

  const card = el('section', { class: 'card', 'aria-label': 'History', hidden: true }, judged, unusual,
    el('h2', {}, 'By day'), table('day', 'By day', byDay), el('h2', {}, 'By channel'), table('channel', 'By channel', byChannel));
  fill(root, kit.head('Slack’s history', 'What happened to Slack’s events, kept for 90 days. Times are UTC. ichidoctl slack report prints the same, and --html writes a page with charts.', el('label', { class: 'field' }, 'Shown', days)), error, waiting, card);

  let asked = 0;
  const draw = () => attempt(async () => {
    const own = ++asked;
    waiting.hidden = false;
    try {
      const report = await get(`/_console/history?days=${days.value}`);
      if (own !== asked) return; // another choice was made since
      judged.textContent = report.judged.map((words) => `${words[0].toUpperCase()}${words.slice(1)}.`).join(' ');
      fill(unusual, report.anomalies.map(({ kind, why }) => el('li', {}, kit.badge('bad', `unusual: ${kind}`), ` ${why}`)));
      fill(byDay, [...report.byDay].reverse().map((counted) => row(counted.day, counted)));
      fill(byChannel, report.byChannel.map((counted) => row(counted.channel, counted)), row('all', report.total));
      card.hidden = false;
    } finally { if (own === asked) waiting.hidden = true; }
  });
  root.addEventListener('show', () => { if (card.hidden) draw(); });
}
