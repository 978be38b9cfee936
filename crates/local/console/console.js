// The console's frame: tabs, the live overview, faults, schedules, alarms. Applications add a panel each.
import * as kit from './kit.js';
import { el, fill, get, post, on, announce, clock, choices, faults } from './kit.js';

const SHOWN = 200;
const REFRESH_MS = 4000;
const STORE_FAULTS = [['', 'healthy'], ['down', 'down'], ['throttle', 'throttled'], ['slow', 'slow'], ['lose_answers', 'answers lost'], ['conflict', 'conflicts']];
const OUTSIDE_FAULTS = [['', 'healthy'], ['refuse', 'refuses'], ['ratelimit', 'rate-limits'], ['hang', 'hangs'], ['accept_then_lose', 'accepts, answer lost']];
const NAMES = { dynamodb: 'Store (DynamoDB)', slack: 'Slack', mastodon: 'Mastodon', pushover: 'Pushover', bigquery: 'BigQuery' };

const main = document.getElementById('main');
const tablist = document.getElementById('tabs');

start();

async function start() {
  const frame = await until(() => get('/_local/console'));
  const config = await get('/_local/config');
  const tabs = [
    { name: 'overview', title: 'Overview', mount: (root) => overview(root, frame) },
    ...frame.panels.map((panel) => ({ ...panel, mount: (root) => application(root, panel, config) })),
    { name: 'operations', title: 'Alarms and metrics', mount: operations },
  ];
  drawTabs(tabs);
  window.addEventListener('hashchange', () => show(location.hash.slice(1)));
  // The overview listens from the start, whichever tab is shown first; then the stream begins with what is kept.
  tabs[0].mounted = true;
  tabs[0].mount(tabs[0].root);
  show(location.hash.slice(1));
  kit.connect((state) => {
    document.getElementById('connection').classList.toggle('live', state === 'live');
    document.getElementById('connection-text').textContent = state === 'live' ? 'live' : 'the platform does not answer; reconnecting';
  });

  function drawTabs() {
    for (const tab of tabs) {
      tab.button = el('button', { role: 'tab', id: `tab-${tab.name}`, 'aria-controls': `panel-${tab.name}`, 'aria-selected': 'false', tabindex: '-1',
        onclick: () => { location.hash = tab.name; }, onkeydown: move }, tab.title);
      tab.root = el('section', { role: 'tabpanel', id: `panel-${tab.name}`, 'aria-labelledby': `tab-${tab.name}`, hidden: true });
      tablist.append(tab.button);
      main.append(tab.root);
    }
  }

  function move(event) {
    const at = tabs.findIndex((tab) => tab.button === event.currentTarget);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = tabs[to % tabs.length];
    location.hash = next.name;
    next.button.focus();
  }

  function show(name) {
    const chosen = tabs.find((tab) => tab.name === name) ?? tabs[0];
    for (const tab of tabs) {
      const selected = tab === chosen;
      tab.button.setAttribute('aria-selected', String(selected));
      tab.button.tabIndex = selected ? 0 : -1;
      tab.root.hidden = !selected;
    }
    if (!chosen.mounted) {
      chosen.mounted = true;
      chosen.mount(chosen.root);
    }
    chosen.root.dispatchEvent(new Event('show'));
  }
}

/** Asks again until it is answered: the platform may still be starting. */
async function until(ask) {
  for (;;) {
    try { return await ask(); } catch { await new Promise((resolve) => setTimeout(resolve, 500)); }
  }
}

async function application(root, panel, config) {
  try {
    const module = await import(`/console/panels/${panel.name}.js`);
    await module.mount(root, { ...kit, config });
  } catch (error) {
    fill(root, el('p', { class: 'error' }, `The panel of ${panel.title} cannot be shown: ${error.message}`));
  }
}

// ---------------------------------------------------------------- the overview

function overview(root, frame) {
  const counters = {};
  const counter = (name, label) => {
    counters[name] = el('b', { id: `count-${name}` }, '0');
    return el('li', {}, counters[name], el('span', {}, label));
  };
  const feed = el('ol', { class: 'feed', 'aria-label': 'What happens, newest first', tabindex: '0', id: 'feed' });
  const empty = el('p', { class: 'empty' }, 'Nothing has happened yet. Try an application from its tab.');
  let paused = false;
  const pause = el('button', { 'aria-pressed': 'false', onclick: () => {
    paused = !paused;
    pause.setAttribute('aria-pressed', String(paused));
    pause.textContent = paused ? 'Go on' : 'Pause';
    if (!paused) draw();
  } }, 'Pause');
  const clear = el('button', { onclick: () => { rows.length = 0; fill(feed); empty.hidden = false; } }, 'Clear');

  root.append(
    el('ul', { class: 'counters', 'aria-label': 'Lately' },
      counter('arrived', 'arrived'), counter('new', 'new'), counter('duplicate', 'duplicates'),
      counter('inflight', 'in flight'), counter('out', 'went out'), counter('failed', 'failed')),
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
    case 'request': return [event.status < 400 ? '' : 'bad', 'arrived', code(`${event.method} ${event.path}`), ` → ${event.status} in ${event.ms} ms (${event.function})`];
    case 'decision': return [{ new: 'new', duplicate: 'dup' }[event.result] ?? 'dup', event.result, code(event.key), ` ${event.reason ?? ''} (${event.function ?? '?'})`, event.fallback ? ' without the store' : ''];
    case 'outbox': return [event.accepted ? 'out' : 'bad', event.accepted ? 'went out' : 'refused', `${NAMES[event.sink] ?? event.sink}: `, code(summary(event.request)), event.lost ? ' (answer lost)' : '', event.accepted ? '' : ` → ${event.status}`];
    case 'invocation': return event.error
      ? ['bad', 'failed', `${event.function}, attempt ${event.attempt}: ${event.error}: ${event.message ?? ''}`]
      : ['', 'ran', `${event.function} in ${event.ms} ms${event.attempt > 1 ? `, attempt ${event.attempt}` : ''}`];
    case 'dead-letter': return ['bad', 'dead letter', `${event.function}: ${event.error} → ${event.queue}`];
    case 'log': return [event.level === 'ERROR' ? 'bad' : 'dup', event.level.toLowerCase(), `${event.function ?? ''} ${event.message ?? ''} ${event.error ?? ''}`];
    case 'faults': return Object.keys(event.faults).length ? ['bad', 'broken', wrong(event.faults)] : ['new', 'healed', 'nothing is broken on purpose'];
    case 'schedule': return ['', 'schedule', `${event.name} by ${event.by}`];
    case 'alarm': return event.state === 'ALARM'
      ? ['bad', 'rings', code(event.name), ` ${event.description.split(' Runbook ')[0]}`]
      : ['new', 'stopped', code(event.name), ` is ${event.state}`];
    case 'hang': return ['bad', 'hangs', `${NAMES[event.sink] ?? event.sink}: ${event.path}`];
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

// ---------------------------------------------------------------- what can be switched

function faultSwitches(frame) {
  const message = el('p', { class: 'error', role: 'alert', hidden: true });
  const groups = {};
  const change = (name) => async (mode) => {
    message.hidden = true;
    const fault = { '': undefined, ratelimit: { mode: 'refuse', status: 429 }, slow: { mode: 'slow', ms: 500 } };
    try {
      await faults.set(name, mode in fault ? fault[mode] : { mode });
      announce(`${NAMES[name] ?? name}: ${mode === '' ? 'healthy' : mode.replaceAll('_', ' ')}`);
    } catch (error) {
      message.textContent = error.message;
      message.hidden = false;
      reflect(await faults.get());
    }
  };
  for (const name of ['dynamodb', ...frame.sinks]) {
    groups[name] = choices(NAMES[name] ?? name, `fault-${name}`, name === 'dynamodb' ? STORE_FAULTS : OUTSIDE_FAULTS, change(name));
  }
  const broken = document.getElementById('broken');
  function reflect(all) {
    for (const [name, group] of Object.entries(groups)) {
      const fault = all[name];
      group.choose(fault === undefined ? '' : fault.mode === 'refuse' && fault.status === 429 ? 'ratelimit' : fault.mode);
    }
    const names = Object.keys(all).map((name) => NAMES[name] ?? name);
    broken.hidden = names.length === 0;
    broken.textContent = names.length === 0 ? '' : `Broken on purpose: ${names.join(', ')}`;
  }
  on('faults', (event) => reflect(event.faults));
  faults.get().then(reflect);
  const heal = el('button', { onclick: () => faults.heal().then(() => announce('Everything is healed')) }, 'Heal everything');
  return el('section', { class: 'card', 'aria-labelledby': 'faults-title' },
    el('div', { class: 'row end' }, el('h2', { id: 'faults-title' }, 'Break something'), heal), message, Object.values(groups));
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
  const card = el('section', { class: 'card', 'aria-labelledby': 'queues-title', hidden: true }, el('h2', { id: 'queues-title' }, 'Given up'), list);
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
  const rows = [['AWS endpoint', frame.url], ['DynamoDB, for tools', frame.dynamodbUrl], ['over TLS', frame.tlsUrl]];
  return el('section', { class: 'card', 'aria-labelledby': 'addresses-title' }, el('h2', { id: 'addresses-title' }, 'Addresses'),
    el('div', { class: 'scroll' }, el('table', {}, el('tbody', {}, rows.map(([what, where]) => el('tr', {}, el('th', { scope: 'row' }, what), el('td', {}, el('code', {}, where))))))));
}

// ---------------------------------------------------------------- alarms and metrics

function operations(root) {
  const alarms = el('tbody');
  const metrics = el('tbody');
  const head = (...names) => el('thead', {}, el('tr', {}, names.map((name) => el('th', { scope: 'col', class: ['count', 'sum', 'p50', 'p99', 'max'].includes(name) ? 'number' : '' }, name))));
  const ahead = el('span', { class: 'soft', id: 'ahead' });
  const later = (minutes) => el('button', { onclick: async () => {
    const moved = await post(`/_local/alarms/advance?minutes=${minutes}`);
    ahead.textContent = `The alarms are ${Math.round(moved.aheadSeconds / 60)} minutes ahead of the clock.`;
    announce(ahead.textContent);
    await draw();
  } }, `${minutes} minute${minutes === 1 ? '' : 's'} later`);
  root.append(
    el('section', { class: 'card', 'aria-labelledby': 'alarms-title' },
      el('div', { class: 'row end' }, el('h2', { id: 'alarms-title' }, 'Alarms'), el('div', { class: 'row' }, ahead, later(1), later(5), later(30))),
      el('p', { class: 'soft' }, 'Evaluated as CloudWatch does it. Instead of waiting, move their time: only metrics and alarms live in it.'),
      el('div', { class: 'scroll' }, el('table', {}, head('alarm', 'state', 'datapoints, newest first', 'what it means', 'runbook'), alarms))),
    el('section', { class: 'card', 'aria-labelledby': 'metrics-title' }, el('h2', { id: 'metrics-title' }, 'Metrics'),
      el('p', { class: 'soft' }, 'What CloudWatch would have been sent since the start.'),
      el('div', { class: 'scroll' }, el('table', {}, head('metric', 'dimensions', 'count', 'sum', 'p50', 'p99', 'max'), metrics))));
  const number = (value) => el('td', { class: 'number' }, value === null || value === undefined ? '' : String(Math.round(value * 100) / 100));
  async function draw() {
    if (root.hidden) return;
    const [rings, values] = await Promise.all([get('/_local/alarms'), get('/_local/metrics')]);
    const order = { ALARM: 0, INSUFFICIENT_DATA: 1, OK: 2 };
    rings.sort((one, other) => order[one.state] - order[other.state] || one.name.localeCompare(other.name));
    fill(alarms, rings.map((alarm) => el('tr', {}, el('th', { scope: 'row' }, el('code', {}, alarm.name)),
      el('td', {}, el('span', { class: `badge ${{ ALARM: 'bad', OK: 'new' }[alarm.state] ?? 'dup'}` }, alarm.state)),
      el('td', { class: 'soft', title: alarm.reason }, alarm.datapoints.map((point) => (point === null ? '–' : Math.round(point * 100) / 100)).join('  ')),
      el('td', {}, alarm.description.split(' Runbook ')[0]), el('td', {}, el('code', {}, alarm.runbook ?? '')))));
    fill(metrics, values.map((metric) => el('tr', {}, el('th', { scope: 'row' }, metric.name), el('td', { class: 'soft' }, Object.values(metric.dimensions).join(', ')),
      number(metric.count), number(metric.sum), number(metric.p50), number(metric.p99), number(metric.max))));
  }
  root.addEventListener('show', draw);
  setInterval(draw, REFRESH_MS);
  draw();
}
