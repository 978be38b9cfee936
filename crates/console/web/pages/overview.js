// The overview: rates with faults marked on the time axis, latency, the store, breakers and journals, what happens now, and
// (on one machine) switches that break something.
import { lineChart, sparkline } from '../chart.js';

const SHOWN = 120;
const REFRESH_MS = 1000;
/** More new events than this in one drawing are a storm, which is drawn less often. */
const STORM = 30;
const STORM_MS = 200;
const STORE_FAULTS = [['', 'healthy'], ['down', 'down'], ['throttle', 'throttled'], ['slow', 'slow'], ['lose_answers', 'loses answers'], ['conflict', 'conflicts'], ['denied', 'denies access']];
const OUTSIDE_FAULTS = [['', 'healthy'], ['refuse', 'refuses'], ['ratelimit', 'rate-limits'], ['hang', 'hangs'], ['accept_then_lose', 'accepts, loses the answer']];
/** Name in the contract, colour, title, title of the tile. */
const RATES = [['arrived', 'arrived', 'requests'], ['new', 'new', 'new keys'], ['duplicate', 'dup', 'duplicates'], ['effects', 'out', 'effects'], ['failures', 'bad', 'failures']];

export function mount(root, kit) {
  const { el, fill, get, has, frame } = kit;
  let minutes = 5;
  const { error } = kit.trial();
  const span = kit.choices('Last', 'overview-minutes', [['1', '1 min'], ['5', '5 min'], ['15', '15 min']], (value) => { minutes = Number(value); forget(); refresh(); }, '5');
  span.classList.add('inline');
  // The logs are asked only when somebody wants it: it takes seconds and costs money. Their answer stays, with its time, until they are asked again.
  let fromLogs;
  const ASK = 'Ask the logs for keys and effects';
  const forget = () => { fromLogs = undefined; if (logs) logs.textContent = ASK; };
  const logs = has('insights') ? el('button', { id: 'ask-logs', title: 'Logs Insights: AWS charges for the gigabytes of logs of this time', onclick: async () => {
    logs.disabled = true;
    logs.textContent = 'Asking the logs…';
    try { fromLogs = await get(`/_console/overview?minutes=${minutes}&logs=1`); await draw(); error.hidden = true; } catch (caught) { error.textContent = caught.message; error.hidden = false; }
    logs.disabled = false;
    logs.textContent = fromLogs ? `Ask the logs again (as of ${kit.clock(fromLogs.at).slice(0, 8)})` : ASK;
  } }, ASK) : undefined;

  const tiles = RATES.map(([name, colour, title]) => {
    const number = el('b', { id: `count-${name}` }, '–');
    const line = el('span', { class: 'tile-line' });
    return { name, colour, title, number, line, element: el('li', { style: `--of: var(--${colour})` }, el('span', {}, title), number, line) };
  });
  const chart = lineChart({ id: 'rates', label: 'Requests, new keys, duplicates, effects and failures over time', series: RATES.map(([, colour, title]) => ({ name: colour, label: title })) });

  const latency = el('tbody', { id: 'latency' });
  const noLatency = el('p', { class: 'empty' }, 'No function has run in this time. ', tryIt());
  const store = el('dl', { class: 'facts', id: 'store' });
  const breakers = el('tbody', { id: 'breakers' });
  const noBreakers = el('p', { class: 'empty' }, has('insights') ? 'Ask the logs to see the calls to the store. Breakers are in the logs of each function.' : 'No function has used the library yet.');
  const attention = el('div', { class: 'row', id: 'attention' });
  const card = (id, title, ...rest) => el('section', { class: 'card', 'aria-labelledby': `${id}-title` }, el('h2', { id: `${id}-title` }, title), rest);
  const head = (...titles) => el('thead', {}, el('tr', {}, titles.map((title) => el('th', { scope: 'col', class: ['p50', 'p99', 'runs', 'journal'].includes(title) ? 'number' : '' }, title || el('span', { class: 'hidden' }, 'p99 over time')))));

  const cards = [
    card('latency-card', 'Latency', noLatency, el('div', { class: 'scroll', tabindex: '0' }, el('table', {}, head('function', 'runs', 'p50', 'p99', ''), latency))),
    card('store-card', 'Store', store, noBreakers, el('div', { class: 'scroll', tabindex: '0' }, el('table', {}, head('function', 'breaker', 'journal'), breakers))),
    frame.addresses.length > 0 ? addresses(kit) : undefined];
  root.append(
    kit.head('Overview', 'One recorded outcome per key: duplicates get it, late workers cannot change it.', attention),
    error,
    el('ul', { class: 'tiles', 'aria-label': 'In this time' }, tiles.map(({ element }) => element)),
    el('section', { class: 'card', 'aria-labelledby': 'rates-title' }, el('div', { class: 'row end' }, el('h2', { id: 'rates-title' }, 'What happened'), logs, span), chart),
    has('live') || has('local')
      ? el('div', { class: 'columns' }, el('div', {}, has('live') ? live(root, kit) : undefined, has('local') ? faultSwitches(kit) : undefined), el('div', {}, cards))
      : el('div', { class: 'columns even' }, cards));

  function tryIt() {
    const first = frame.pages.find(({ group }) => group === 'Try');
    return first ? el('a', { href: kit.url(first.path) }, `Open ${first.title} and press its button.`) : '';
  }

  async function draw() {
    const seen = await get(`/_console/overview?minutes=${minutes}`);
    // The metrics do not know what only the logs know. It is as old as it is, so the chart shows it only for its own time.
    const counted = fromLogs ? { ...fromLogs.rates, arrived: seen.rates.arrived, failures: seen.rates.failures } : seen.rates;
    const drawn = fromLogs?.from === seen.from ? counted : seen.rates;
    seen.store ??= fromLogs?.store ?? null;
    const sum = (series) => series.reduce((total, value) => total + (value ?? 0), 0);
    for (const { name, colour, title, number, line } of tiles) {
      const series = counted[name] ?? [];
      number.textContent = series.length === 0 ? '–' : kit.count(sum(series));
      fill(line, sparkline(series, { kind: colour, width: 140, height: 30, label: `${title}: ${kit.count(sum(series))} in ${minutes} minutes` }));
    }
    const values = Object.fromEntries(RATES.map(([name, colour]) => [colour, drawn[name]]));
    chart.draw({ from: seen.from, at: seen.at, stepSeconds: seen.stepSeconds, values, outages: seen.outages });
    const order = [...seen.latency].sort((one, other) => (other.p99 ?? 0) - (one.p99 ?? 0));
    noLatency.hidden = order.length > 0;
    latency.closest('.scroll').hidden = order.length === 0;
    fill(latency, order.map((one) => el('tr', {}, el('th', { scope: 'row' }, one.function), el('td', { class: 'number' }, kit.count(one.count)), el('td', { class: 'number' }, kit.millis(one.p50)),
      el('td', { class: 'number' }, kit.millis(one.p99)), el('td', {}, sparkline(one.p99ByStep, { width: 70, height: 20, label: `p99 of ${one.function} over time, the longest ${kit.millis(Math.max(0, ...one.p99ByStep.filter((value) => value !== null)))}` })))));
    store.hidden = !seen.store;
    if (seen.store) {
      const { calls, errors, p50, p99 } = seen.store;
      const fact = (title, value, bad = false) => el('div', {}, el('dt', {}, title), el('dd', { class: bad ? 'bad-text' : '' }, value));
      fill(store, fact('calls', kit.count(sum(calls))), fact('errors', kit.count(sum(errors)), sum(errors) > 0), fact('p50', kit.millis(p50)), fact('p99', kit.millis(p99)));
    }
    noBreakers.hidden = seen.breakers.length > 0 || (has('insights') && Boolean(seen.store));
    breakers.closest('.scroll').hidden = seen.breakers.length === 0;
    fill(breakers, seen.breakers.map((one) => el('tr', { 'data-function': one.function, 'data-open': String(one.open) }, el('th', { scope: 'row' }, one.function),
      el('td', {}, one.open ? kit.badge('bad', 'open') : kit.badge('new', 'closed'), one.since ? el('span', { class: 'soft' }, ` ${kit.ago(one.since)}`) : ''),
      el('td', { class: 'number' }, one.journal > 0 ? kit.badge('dup', `${one.journal} to write`) : '0', one.journalFull > 0 ? kit.badge('bad', `full ${one.journalFull} times`) : ''))));
    const ringing = seen.alarms.ALARM ?? 0;
    const insufficient = seen.alarms.INSUFFICIENT_DATA ?? 0;
    const link = (path, kind, text) => el('a', { class: `badge large ${kind}`, href: kit.url(path) }, text);
    fill(attention,
      has('alarms') ? link('/operate/alarms', ringing > 0 ? 'bad' : 'new', ringing > 0 ? `${ringing} alarm${ringing === 1 ? ' rings' : 's ring'}` : `no alarm rings${insufficient ? `, ${insufficient} without data` : ''}`) : undefined,
      has('deadLetters') && seen.deadLetters !== null ? link('/operate/dead-letters', seen.deadLetters > 0 ? 'bad' : '', `${seen.deadLetters} dead letter${seen.deadLetters === 1 ? '' : 's'} in queues`) : undefined);
  }
  const refresh = kit.refreshing(root, kit.refreshMs(REFRESH_MS), draw, error);
}

// ---------------------------------------------------------------- what happens now

const KINDS = [['', 'Everything'], ['decision', 'Decisions'], ['outbox', 'Effects'], ['request', 'Requests'], ['problem', 'Problems']];
const isProblem = (event) => ['log', 'dead-letter', 'hang', 'alarm', 'faults'].includes(event.kind) || (event.kind === 'invocation' && event.error) || (event.kind === 'request' && event.status >= 400) || (event.kind === 'outbox' && !event.accepted);

function live(root, kit) {
  const { el, fill, on } = kit;
  const feed = el('ol', { class: 'feed', 'aria-label': 'Live events, newest first', tabindex: '0', id: 'feed' });
  const first = kit.frame.pages.find(({ group }) => group === 'Try');
  const empty = el('p', { class: 'empty' }, 'Nothing has happened yet. ', first ? el('a', { href: kit.url(first.path) }, `Open ${first.title} and press its button.`) : '');
  // Only events are kept; elements are made for those that are seen, once per frame, however many arrive.
  let events = [];
  let fresh = 0;
  let paused = false;
  let kind = '';
  let wanted = '';
  let scheduled = false;
  let storm = false;
  const matches = (event) => event.kind === 'missed' || (kind === '' || (kind === 'problem' ? isProblem(event) : event.kind === kind)) && (wanted === '' || JSON.stringify(event).toLowerCase().includes(wanted));
  const pause = el('button', { 'aria-pressed': 'false', onclick: () => {
    paused = !paused;
    pause.setAttribute('aria-pressed', String(paused));
    pause.textContent = paused ? 'Resume' : 'Pause';
    if (!paused) redraw();
  } }, 'Pause');
  const clear = el('button', { onclick: () => { events = []; redraw(); } }, 'Clear');
  const select = el('select', { 'aria-label': 'Show which events', onchange: () => { kind = select.value; redraw(); } }, KINDS.map(([value, title]) => el('option', { value }, title)));
  const search = el('input', { type: 'search', placeholder: 'Search', 'aria-label': 'Search the events', oninput: () => { wanted = search.value.trim().toLowerCase(); redraw(); } });

  on('*', (event) => {
    if (!matches(event)) return;
    events.push(event);
    fresh += 1;
    if (events.length > 4 * SHOWN) { events = events.slice(-SHOWN); }
    if (!paused && !scheduled && !root.hidden) {
      scheduled = true;
      // Nobody reads a storm line by line: then five drawings a second are enough.
      setTimeout(() => requestAnimationFrame(() => { scheduled = false; add(); }), storm ? STORM_MS : 0);
    }
  });
  root.addEventListener('show', () => { if (!paused) redraw(); });
  function add() {
    const news = events.slice(-Math.min(fresh, SHOWN));
    // In a storm, only what fits on the screen is worth an element.
    const drawn = news.slice(-STORM).map((event) => describe(event, kit)).filter(Boolean);
    storm = fresh > STORM;
    fresh = 0;
    feed.prepend(...drawn.reverse());
    while (feed.childElementCount > SHOWN) feed.lastElementChild.remove();
    empty.hidden = feed.childElementCount > 0;
  }
  function redraw() {
    fresh = 0;
    events = events.filter(matches);
    fill(feed, events.slice(-SHOWN).reverse().map((event) => describe(event, kit)));
    empty.hidden = feed.childElementCount > 0;
  }
  return el('section', { class: 'card', 'aria-labelledby': 'live-title' },
    el('div', { class: 'row end' }, el('h2', { id: 'live-title' }, 'Live'), el('div', { class: 'row' }, select, search, pause, clear)), empty, feed);
}

function describe(event, kit) {
  const line = words(event, kit);
  if (!line) return undefined;
  const [kind, label, ...what] = line;
  return kit.el('li', { 'data-kind': event.kind }, kit.el('time', { datetime: event.at }, kit.clock(event.at)), kit.badge(kind, label), kit.el('span', { class: 'what' }, what));
}

function words(event, kit) {
  const code = (text) => kit.el('code', {}, String(text));
  const key = event.key ? kit.keyLink(event.key, event.namespace ?? undefined) : '';
  switch (event.kind) {
    case 'request': return [event.status < 400 ? '' : 'bad', 'request', code(`${event.method} ${event.path}`), ` answered ${event.status} in ${event.ms} ms (${event.function})`];
    case 'decision': return [{ new: 'new', duplicate: 'dup' }[event.result] ?? 'dup', event.result, key, ` ${event.reason ?? ''} (${event.function ?? '?'})`, event.fallback ? ' while the store was down' : ''];
    case 'outbox': return [event.accepted ? 'out' : 'bad', event.accepted ? 'effect' : 'refused', `${kit.nameOf(event.sink)}: `, code(summary(event.request)), event.lost ? ' (the answer was lost)' : '', event.accepted ? '' : ` with status ${event.status}`];
    case 'invocation': return event.error
      ? ['bad', 'failed', `${event.function}, attempt ${event.attempt}: ${event.error}: ${event.message ?? ''}`]
      : ['', 'ran', `${event.function} in ${event.ms} ms${event.attempt > 1 ? `, attempt ${event.attempt}` : ''}`];
    case 'dead-letter': return ['bad', 'dead letter', `${event.function ?? event.schedule} gave up${event.error ? `: ${event.error}` : ''}; the event is in `, kit.el('a', { href: kit.url('/operate/dead-letters') }, event.queue)];
    case 'log': return [event.level === 'ERROR' ? 'bad' : 'dup', event.level.toLowerCase(), key, ` ${event.function ?? ''} ${event.message ?? ''} ${event.error ?? ''}`];
    case 'faults': return Object.keys(event.faults).length ? ['bad', 'broken', wrong(event.faults, kit)] : ['new', 'healed', 'no fault is switched on'];
    case 'schedule': return ['', 'schedule', `${event.name} ${'enabled' in event ? (event.enabled ? 'was resumed' : 'was paused') : `started ${event.by === 'hand' ? 'by hand' : 'on time'}`}`];
    case 'alarm': return event.state === 'ALARM'
      ? ['bad', 'rings', kit.el('a', { href: kit.url('/operate/alarms') }, code(event.name)), ` ${event.description.split(' Runbook ')[0]}`]
      : ['new', 'stopped', code(event.name), ` is now ${event.state}`];
    case 'missed': return ['dup', 'skipped', `${event.missed} event${event.missed === 1 ? ' was' : 's were'} skipped: there were more than this page could take`];
    case 'hang': return ['bad', 'hangs', `${kit.nameOf(event.sink)} does not answer ${event.path}`];
    default: return ['', event.kind, code(summary(event))];
  }
}

function wrong(faults, kit) {
  return Object.entries(faults).map(([name, fault]) => `${kit.nameOf(name)}: ${fault.mode.replaceAll('_', ' ')}${fault.status ? ` ${fault.status}` : ''}`).join('; ');
}

function summary(request) {
  const text = request?.text ?? request?.status ?? request?.message ?? JSON.stringify(request);
  const plain = typeof text === 'string' ? text : JSON.stringify(text);
  return plain.length > 160 ? `${plain.slice(0, 160)}…` : plain;
}

// ---------------------------------------------------------------- on one machine

function faultSwitches(kit) {
  const { el } = kit;
  const { error, attempt } = kit.trial();
  const groups = kit.frame.breakable.map((name) =>
    kit.faultSwitch(kit.nameOf(name), `fault-${name}`, name, name === 'dynamodb' ? STORE_FAULTS : OUTSIDE_FAULTS, attempt));
  const heal = el('button', { onclick: () => attempt(async () => { await kit.faults.heal(); kit.announce('All faults are switched off'); }) }, 'Heal everything');
  return el('section', { class: 'card', 'aria-labelledby': 'faults-title' },
    el('div', { class: 'row end' }, el('h2', { id: 'faults-title' }, 'Break something'), heal), error, el('div', { class: 'fault-groups' }, groups));
}

function addresses({ el, frame }) {
  return el('section', { class: 'card', 'aria-labelledby': 'addresses-title' }, el('h2', { id: 'addresses-title' }, 'Addresses'),
    el('div', { class: 'scroll', tabindex: '0' }, el('table', {}, el('tbody', {}, frame.addresses.map(({ what, url }) => el('tr', {}, el('th', { scope: 'row' }, what), el('td', {}, el('code', {}, url))))))));
}
