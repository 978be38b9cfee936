// Rollouts: which version is live, which would be, and a rollout that is under way, followed while it moves.
/** As often as a rollout looks at its alarms. AWS allows an account a few such calls per second, and the rollout needs some. */
const REFRESH_MS = 15_000;

export function mount(root, kit) {
  const { el, fill, get } = kit;
  const { error } = kit.trial();
  const rows = el('tbody', { id: 'rollouts' });
  const unread = el('ul', { class: 'plain' });
  const sentence = el('p', { class: 'lead', id: 'rollouts-sentence', role: 'status' });
  const empty = el('p', { class: 'empty' }, 'No function is deployed here.');
  const STATES = { moving: ['dup', 'moving'], foreign: ['bad', 'moved by hand'] };

  function row(one) {
    const [kind, words] = STATES[one.state] ?? (one.to === null ? ['new', 'settled'] : ['', 'would move']);
    const ringing = one.alarms.filter(({ state }) => state === 'ALARM');
    const unknown = one.alarms.filter(({ state }) => state !== 'ALARM' && state !== 'OK').length;
    const watched = one.state !== 'moving' ? `${one.alarms.length} alarm${one.alarms.length === 1 ? '' : 's'}`
      : ringing.length > 0 ? `rings: ${ringing.map(({ name }) => name).join(', ')}` : `${one.alarms.length - unknown} quiet${unknown > 0 ? `, ${unknown} not known` : ''}`;
    return el('tr', { 'data-function': one.function, 'data-state': one.state }, el('th', { scope: 'row' }, one.function), el('td', {}, kit.badge(kind, words)),
      el('td', { class: 'number' }, String(one.live)), el('td', { class: 'number' }, one.to === null ? '–' : String(one.to)),
      el('td', {}, one.state === 'settled' ? (one.to === null || one.steps.length === 0 ? '' : `${one.steps.map((step) => `${step} %`).join(' → ')}${one.bakeSeconds ? `, each watched for ${kit.millis(one.bakeSeconds * 1000)}` : ''}`)
        : [el('progress', { class: 'share', max: '100', value: String(one.percent), 'aria-label': `${one.percent} % of the traffic of ${one.function} on version ${one.to}` }), `${one.percent} %`]),
      el('td', {}, watched), el('td', {}, one.invocations === null ? '' : `${kit.count(one.invocations)} runs, ${kit.count(one.errors)} errors`),
      el('td', { class: 'soft' }, one.note ?? (one.beatAt ? `sign of life ${kit.ago(one.beatAt)}` : '')));
  }
  async function draw() {
    const all = await get('/_console/rollouts');
    const moving = all.functions.filter(({ state }) => state === 'moving').length;
    const foreign = all.functions.filter(({ state }) => state === 'foreign').length;
    const waiting = all.functions.filter(({ state, to }) => state === 'settled' && to !== null).length;
    sentence.textContent = moving > 0 ? `A rollout is under way: ${moving} function${moving === 1 ? '' : 's'} moving.` : waiting > 0 ? `${waiting} function${waiting === 1 ? ' has' : 's have'} a new version that waits for a rollout.` : foreign > 0 ? `${foreign} function${foreign === 1 ? ' was' : 's were'} moved by hand.` : all.unread.length > 0 ? 'Not everything could be read.' : 'What was deployed last has all traffic.';
    sentence.hidden = all.functions.length === 0;
    empty.hidden = all.functions.length > 0;
    rows.closest('.scroll').hidden = all.functions.length === 0;
    fill(rows, all.functions.map(row));
    fill(unread, all.unread.map((why) => el('li', { class: 'notice' }, why)));
  }
  const columns = [['function'], ['state'], ['live', 'number'], ['to', 'number'], ['traffic'], ['alarms'], ['new version'], ['note']];
  fill(root, kit.head('Rollouts', 'A rollout moves traffic to the deployed version step by step, and back if an alarm rings. The command line starts it: ichidoctl rollout.'), error,
    el('section', { class: 'card', 'aria-label': 'Rollouts' }, sentence, empty, unread, el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Functions' },
      el('table', {}, el('thead', {}, el('tr', {}, columns.map(([title, kind = '']) => el('th', { scope: 'col', class: kind }, title)))), rows))));
  kit.refreshing(root, REFRESH_MS, draw, error);
}
