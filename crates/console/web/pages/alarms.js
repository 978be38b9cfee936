// Alarms: the ringing ones first, each with its line against its threshold and its runbook.
import { sparkline } from '../chart.js';
import { markdown } from '../markdown.js';

const REFRESH_MS = 4000;
const STATES = { ALARM: ['bad', 'rings'], OK: ['new', 'OK'], INSUFFICIENT_DATA: ['dup', 'no data'] };
const SIGNS = { GreaterThanThreshold: '>', GreaterThanOrEqualToThreshold: '≥', LessThanThreshold: '<', LessThanOrEqualToThreshold: '≤' };

export function mount(root, kit) {
  const { el, fill, get, post, has } = kit;
  const { error } = kit.trial();
  const rows = new Map();
  const list = el('ul', { class: 'plain alarms', id: 'alarms' });
  const quiet = el('ul', { class: 'plain alarms', id: 'alarms-quiet' });
  const quietTitle = el('summary', {}, 'The others');
  const folded = el('details', { class: 'card' }, quietTitle, quiet);
  const none = el('p', { class: 'empty' }, 'No alarm rings.');
  const search = el('input', { type: 'search', placeholder: 'Search alarms', 'aria-label': 'Search alarms', oninput: () => draw(last) });
  const ahead = el('span', { class: 'soft', id: 'ahead', role: 'status' });
  const later = (minutes) => el('button', { onclick: async () => {
    const moved = await post(`/_local/alarms/advance?minutes=${minutes}`);
    ahead.textContent = `The alarms are ${Math.round(moved.aheadSeconds / 60)} minutes ahead of the clock.`;
    await refresh();
  } }, `${minutes} minute${minutes === 1 ? '' : 's'} later`);
  let last = [];

  fill(root, kit.head('Alarms', has('local') ? 'They follow the rules of CloudWatch. Instead of waiting, move their time forward; only alarms and metrics use it.' : 'Ringing alarms come first. Each has its runbook.'),
    error, el('div', { class: 'row end tools' }, search, has('local') ? el('div', { class: 'row' }, ahead, later(1), later(5), later(30)) : undefined),
    el('section', { class: 'card', 'aria-labelledby': 'ringing-title' }, el('h2', { id: 'ringing-title' }, 'Ringing'), none, list), folded);

  function row(alarm) {
    const badge = el('span');
    const line = el('span', { class: 'alarm-line' });
    const why = el('p', { class: 'soft' });
    const text = el('div', { class: 'runbook' });
    const runbook = alarm.runbook ? el('details', { ontoggle: async (event) => {
      if (!event.target.open || text.childElementCount > 0) return;
      try {
        const found = await get(`/_console/runbooks/${encodeURIComponent(alarm.runbook)}`);
        fill(text, markdown(found.markdown), el('p', { class: 'soft' }, el('code', {}, found.path)));
      } catch (caught) { fill(text, el('p', { class: 'error' }, caught.message)); }
    } }, el('summary', {}, 'Runbook', el('span', { class: 'hidden' }, ` of ${alarm.name}`)), text) : el('p', { class: 'soft' }, 'It has no runbook.');
    const element = el('li', { 'data-alarm': alarm.name },
      el('div', { class: 'alarm' }, el('div', { class: 'alarm-name' }, badge, ' ', el('b', {}, alarm.name), el('p', {}, alarm.meaning), why), line), runbook);
    return { element, draw(next) {
      const [kind, words] = STATES[next.state] ?? ['', next.state];
      element.dataset.state = next.state;
      fill(badge, kit.badge(kind, words));
      const rule = `${next.statistic} of ${next.metric} ${SIGNS[next.comparison] ?? next.comparison} ${next.threshold} in ${next.datapointsToAlarm} of ${next.evaluationPeriods} periods of ${next.periodSeconds} s`;
      why.textContent = `Rings if ${rule}.${next.since ? ` Since ${kit.ago(next.since)}.` : ''}`;
      why.title = next.reason;
      const real = next.points.filter((point) => point !== null);
      fill(line, real.length === 0 ? el('span', { class: 'soft' }, `no data in the last ${next.points.length} periods`) : sparkline(next.points, { threshold: next.threshold, above: !next.comparison.startsWith('Less'), kind: next.state === 'ALARM' ? 'bad' : 'accent', width: 220, height: 44,
        label: `${next.metric}: the last of ${real.length} values is ${kit.count(real.at(-1))}, the threshold is ${next.threshold}` }));
    } };
  }

  function draw(alarms) {
    last = alarms;
    const wanted = search.value.trim().toLowerCase();
    const matching = alarms.filter((alarm) => `${alarm.name} ${alarm.meaning} ${alarm.metric}`.toLowerCase().includes(wanted));
    for (const alarm of matching) {
      if (!rows.has(alarm.name)) rows.set(alarm.name, row(alarm));
      rows.get(alarm.name).draw(alarm);
    }
    place(list, matching.filter(({ state }) => state === 'ALARM'));
    place(quiet, matching.filter(({ state }) => state !== 'ALARM'));
    none.hidden = list.childElementCount > 0;
    quietTitle.textContent = `${quiet.childElementCount} ${list.childElementCount > 0 ? 'others ' : ''}do not ring`;
    if (wanted !== '') folded.open = true;
  }

  /** Moves elements only if their order changed, so that an open runbook stays as it is. */
  function place(parent, alarms) {
    const wanted = alarms.map(({ name }) => rows.get(name).element);
    if (wanted.length !== parent.children.length || wanted.some((element, index) => parent.children[index] !== element)) fill(parent, wanted);
  }
  const refresh = kit.refreshing(root, kit.refreshMs(REFRESH_MS), async () => draw(await get('/_console/alarms')), error);
}
