// The overview: live events, switches that break something, schedules, dead letters, addresses.
import { el, fill, get, post, on, announce, clock, faults, faultSwitch, trial } from './kit.js';

const SHOWN = 200;
const STORE_FAULTS = [['', 'healthy'], ['down', 'down'], ['throttle', 'throttled'], ['slow', 'slow'], ['lose_answers', 'loses answers'], ['conflict', 'conflicts'], ['denied', 'denies access']];
const OUTSIDE_FAULTS = [['', 'healthy'], ['refuse', 'refuses'], ['ratelimit', 'rate-limits'], ['hang', 'hangs'], ['accept_then_lose', 'accepts, loses the answer']];
const NAMES = { dynamodb: 'Store (DynamoDB)', slack: 'Slack', mastodon: 'Mastodon', pushover: 'Pushover', bigquery: 'BigQuery', appsync: 'AppSync' };

export function overview(root, frame) {
  const counters = {};
  const counter = (name, label) => {
    counters[name] = el('b', { id: `count-${name}` }, '0');
    return el('li', {}, counters[name], el('span', {}, label));
  };
  const feed = el('ol', { class: 'feed', 'aria-label': 'Live events, newest first', tabindex: '0', id: 'feed' });
  const empty = el('p', { class: 'empty' }, 'Nothing has happened yet. Open the tab of an application and try it.');
  let paused = false;
  const pause = el('button', { 'aria-pressed': 'false', onclick: () => {
    paused = !paused;
    pause.setAttribute('aria-pressed', String(paused));
    pause.textContent = paused ? 'Resume' : 'Pause';
    if (!paused) draw();
  } }, 'Pause');
  const clear = el('button', { onclick: () => { rows.length = 0; fill(feed); empty.hidden = false; } }, 'Clear');

  root.append(
    el('ul', { class: 'counters', 'aria-label': 'Counts since this page was opened' },
      counter('arrived', 'requests'), counter('new', 'new keys'), counter('duplicate', 'duplicates'),
      counter('inflight', 'in flight'), counter('out', 'effects'), counter('failed', 'failed invocations')),
    el('div', { class: 'columns' },
      el('div', {}, el('section', { class: 'card', 'aria-labelledby': 'live-title' },
        el('div', { class: 'row end' }, el('h2', { id: 'live-title' }, 'Live'), el('div', { class: 'row' }, pause, clear)), empty, feed)),
      el('div', {}, faultSwitches(frame), schedules(), queues(), addresses(frame))));

  const rows = [];
  let scheduled = false;
  const tell = (event) => {
    count(event);
    const row = describe(event);
    if (!row) return;
    rows.push(row);
    if (rows.length > SHOWN) rows.splice(0, rows.length - SHOWN);
    if (!paused && !scheduled) {
      scheduled = true;
      requestAnimationFrame(() => { scheduled = false; draw(); });
    }
  };
  function draw() {
    for (const row of rows.filter((row) => !row.drawn)) {
      row.drawn = true;
      feed.prepend(row.element);
    }
    while (feed.childElementCount > SHOWN) feed.lastElementChild.remove();
    empty.hidden = feed.childElementCount > 0;
  }
  const sums = { arrived: 0, new: 0, duplicate: 0, inflight: 0, out: 0, failed: 0 };
  function count(event) {
    const add = (name) => { sums[name] += 1; counters[name].textContent = String(sums[name]); };
    if (event.kind === 'request') add('arrived');
    if (event.kind === 'decision') add({ new: 'new', duplicate: 'duplicate' }[event.result] ?? 'inflight');
    if (event.kind === 'outbox' && event.accepted) add('out');
    if (event.kind === 'invocation' && event.error) add('failed');
  }
  on('*', tell);
}

function describe(event) {
  const line = badge(event);
  if (!line) return undefined;
  const [kind, label, ...what] = line;
  const element = el('li', { class: 'fresh', 'data-kind': event.kind },
    el('time', { datetime: event.at }, clock(event.at)), el('span', { class: `badge ${kind}` }, label), el('span', { class: 'what' }, what));
  return { element, drawn: false };
}

function badge(event) {
  const code = (text) => el('code', {}, String(text));
  switch (event.kind) {
    case 'request': return [event.status < 400 ? '' : 'bad', 'request', code(`${event.method} ${event.path}`), ` answered ${event.status} in ${event.ms} ms (${event.function})`];
    case 'decision': return [{ new: 'new', duplicate: 'dup' }[event.result] ?? 'dup', event.result, code(event.key), ` ${event.reason ?? ''} (${event.function ?? '?'})`, event.fallback ? ' while the store was down' : ''];
    case 'outbox': return [event.accepted ? 'out' : 'bad', event.accepted ? 'effect' : 'refused', `${NAMES[event.sink] ?? event.sink}: `, code(summary(event.request)), event.lost ? ' (the answer was lost)' : '', event.accepted ? '' : ` with status ${event.status}`];
    case 'invocation': return event.error
      ? ['bad', 'failed', `${event.function}, attempt ${event.attempt}: ${event.error}: ${event.message ?? ''}`]
      : ['', 'ran', `${event.function} in ${event.ms} ms${event.attempt > 1 ? `, attempt ${event.attempt}` : ''}`];
    case 'dead-letter': return ['bad', 'dead letter', `${event.function} gave up: ${event.error}; the event is in ${event.queue}`];
    case 'log': return [event.level === 'ERROR' ? 'bad' : 'dup', event.level.toLowerCase(), `${event.function ?? ''} ${event.message ?? ''} ${event.error ?? ''}`];
    case 'faults': return Object.keys(event.faults).length ? ['bad', 'broken', wrong(event.faults)] : ['new', 'healed', 'no fault is switched on'];
    case 'schedule': return ['', 'schedule', `${event.name} started ${event.by === 'hand' ? 'by hand' : 'on time'}`];
    case 'alarm': return event.state === 'ALARM'
      ? ['bad', 'rings', code(event.name), ` ${event.description.split(' Runbook ')[0]}`]
      : ['new', 'stopped', code(event.name), ` is now ${event.state}`];
    case 'hang': return ['bad', 'hangs', `${NAMES[event.sink] ?? event.sink} does not answer ${event.path}`];
    default: return ['', event.kind, code(summary(event))];
  }
}

function wrong(faults) {
  return Object.entries(faults).map(([name, fault]) => `${NAMES[name] ?? name}: ${fault.mode.replaceAll('_', ' ')}${fault.status ? ` ${fault.status}` : ''}`).join('; ');
}

function summary(request) {
  const text = request?.text ?? request?.status ?? request?.message ?? JSON.stringify(request);
  const plain = typeof text === 'string' ? text : JSON.stringify(text);
  return plain.length > 160 ? `${plain.slice(0, 160)}…` : plain;
}

function faultSwitches(frame) {
  const { error, attempt } = trial();
  const groups = ['dynamodb', ...frame.sinks].map((name) =>
    faultSwitch(NAMES[name] ?? name, `fault-${name}`, name, name === 'dynamodb' ? STORE_FAULTS : OUTSIDE_FAULTS, attempt));
  const broken = document.getElementById('broken');
  function reflect(all) {
    const names = Object.keys(all).map((name) => NAMES[name] ?? name);
    broken.hidden = names.length === 0;
    broken.textContent = names.length === 0 ? '' : `Broken on purpose: ${names.join(', ')}`;
  }
  on('faults', (event) => reflect(event.faults));
  faults.get().then(reflect);
  const heal = el('button', { onclick: () => faults.heal().then(() => announce('All faults are switched off')) }, 'Heal everything');
  return el('section', { class: 'card', 'aria-labelledby': 'faults-title' },
    el('div', { class: 'row end' }, el('h2', { id: 'faults-title' }, 'Break something'), heal), error, groups);
}

function schedules() {
  const list = el('ul', { class: 'plain' });
  const card = el('section', { class: 'card', 'aria-labelledby': 'schedules-title', hidden: true }, el('h2', { id: 'schedules-title' }, 'Schedules'), list);
  async function draw() {
    const all = await get('/_local/schedules');
    card.hidden = all.length === 0;
    fill(list, all.map((schedule) => el('li', { class: 'row end' },
      el('span', {}, el('code', {}, schedule.name), el('span', { class: 'soft' }, ` ${schedule.expression}, ${schedule.enabled ? `next ${clock(schedule.next).slice(0, 8)}` : 'paused'}`)),
      el('span', { class: 'row' },
        el('button', { onclick: run(schedule.name), 'aria-label': `Run ${schedule.name} now` }, 'Run now'),
        el('button', { onclick: () => post(`/_local/schedules/${schedule.name}/${schedule.enabled ? 'pause' : 'resume'}`).then(draw), 'aria-label': `${schedule.enabled ? 'Pause' : 'Resume'} ${schedule.name}` }, schedule.enabled ? 'Pause' : 'Resume')))));
  }
  const run = (name) => async ({ currentTarget: button }) => {
    button.disabled = true;
    try {
      const ran = await post(`/_local/schedules/${name}/run`);
      announce(ran.ok ? `${name} has run` : `${name} failed: ${ran.error.errorMessage}`);
    } finally { button.disabled = false; draw(); }
  };
  draw();
  on('schedule', draw);
  return card;
}

function queues() {
  const list = el('ul', { class: 'plain' });
  const card = el('section', { class: 'card', 'aria-labelledby': 'queues-title', hidden: true }, el('h2', { id: 'queues-title' }, 'Dead letters'), list);
  async function draw() {
    const all = await get('/_local/queues');
    card.hidden = all.length === 0;
    fill(list, all.map((queue) => el('li', { class: 'row end' }, el('code', {}, queue.name),
      el('span', { class: `badge ${queue.visible ? 'bad' : ''}` }, `${queue.visible + queue.inFlight}`))));
  }
  draw();
  on('dead-letter', draw);
  return card;
}

function addresses(frame) {
  const rows = [['AWS endpoint', frame.url], ['DynamoDB, for tools', frame.dynamodbUrl], ['the same over TLS', frame.tlsUrl]];
  return el('section', { class: 'card', 'aria-labelledby': 'addresses-title' }, el('h2', { id: 'addresses-title' }, 'Addresses'),
    el('div', { class: 'scroll' }, el('table', {}, el('tbody', {}, rows.map(([what, where]) => el('tr', {}, el('th', { scope: 'row' }, what), el('td', {}, el('code', {}, where))))))));
}
