// Schedules: when each runs next, run one now, pause it.
export function mount(root, kit) {
  const { el, fill, get, on, has } = kit;
  const { error, attempt } = kit.trial();
  const rows = el('tbody', { id: 'schedules' });
  const said = el('p', { class: 'soft', role: 'status', id: 'schedules-said' });
  const empty = el('p', { class: 'empty' }, 'There are no schedules.');
  const act = (action, text, name, primary) => el('button', { class: primary ? 'primary' : '', 'aria-label': `${text} ${name}`, onclick: ({ currentTarget: button }) => attempt(async () => {
    // A button that is disabled loses the keyboard's focus.
    if (button.ariaDisabled === 'true') return;
    // A run leaves no trace: the function's own lines have it.
    const field = action === 'run-schedule' ? undefined : 'Reason';
    const reason = await kit.confirmed(`${text} ${name}?`, text, field);
    if (reason === undefined) return;
    button.ariaDisabled = 'true';
    try { kit.say(said, await kit.change(action, field ? { name, reason } : { name })); } finally { button.ariaDisabled = null; await draw(); }
  }) }, text);
  async function draw() {
    const all = await get('/_console/schedules');
    empty.hidden = all.length > 0;
    kit.refill(rows, all, () => all.map((one) => el('tr', {}, el('th', { scope: 'row' }, el('code', {}, one.name)), el('td', {}, one.expression),
      el('td', {}, one.enabled ? (one.next ? [`${kit.clock(one.next).slice(0, 8)} (`, el('time', { datetime: one.next }), ')'] : 'on time') : kit.badge('dup', 'paused')), el('td', {}, one.last ? el('time', { datetime: one.last }) : has('local') ? 'not yet' : '–'),
      el('td', {}, has('changes') ? el('div', { class: 'row' }, act('run-schedule', 'Run now', one.name, true), one.enabled ? act('pause-schedule', 'Pause', one.name) : act('resume-schedule', 'Resume', one.name)) : ''))));
    for (const time of rows.querySelectorAll('time')) kit.say(time, kit.ago(time.dateTime));
  }
  fill(root, kit.head('Schedules', 'A schedule invokes its function. A run that finds another one at work waits for nobody: the keys keep them apart.'), error,
    el('section', { class: 'card', 'aria-label': 'Schedules' }, said, empty,
      el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Schedules' }, el('table', {}, el('thead', {}, el('tr', {}, ['schedule', 'runs', 'next', 'last'].map((title) => el('th', { scope: 'col' }, title)), el('th', { scope: 'col' }, el('span', { class: 'hidden' }, 'Actions')))), rows))));
  let due;
  on('schedule', () => { clearTimeout(due); due = setTimeout(() => { if (!root.hidden) attempt(draw); }, 200); });
  root.addEventListener('show', () => attempt(draw));
}
