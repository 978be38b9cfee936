// What every page uses: elements, requests, live events. A page is an ES module that exports `mount(root, kit, parameters)`, which is
// called once, when the page is first shown. Its root gets a `show` event whenever it is shown, and `leave` before it is removed.

/** An address of this console, wherever it is mounted: url('/_console/frame'). */
export function url(path) {
  return new URL(path.replace(/^\//, ''), document.baseURI).href;
}

/** Makes an element: el('button', {class: 'primary', onclick: f}, 'Send'). Text is never read as markup. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'value' || name === 'checked') element[name] = value;
    else if (name === 'style') element.style.cssText = value; // an attribute would be an inline style, which the pages forbid
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** Replaces the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** Sets the text of an element, if it differs: a screen reader reads a live region again whenever it is written. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
  return element;
}

const drawn = new WeakMap();
/** Replaces the children of an element by `make()`, if `what` differs from the last time. The keyboard's focus stays where it was. */
export function refill(element, what, make) {
  const json = JSON.stringify(what);
  if (drawn.get(element) === json) return element;
  drawn.set(element, json);
  const reachable = () => [...element.querySelectorAll('a[href], button, summary, [tabindex]')];
  const before = reachable().indexOf(document.activeElement);
  const label = before < 0 ? undefined : document.activeElement.getAttribute('aria-label');
  fill(element, make());
  if (before >= 0) {
    const after = reachable();
    (after.find((each) => label && each.getAttribute('aria-label') === label) ?? after[Math.min(before, after.length - 1)])?.focus();
  }
  return element;
}

/** Sends a request and returns its JSON answer. A failure throws an Error with the server's message. */
export async function request(method, path, body, headers = {}) {
  const response = await fetch(url(path), {
    method,
    headers: body === undefined ? headers : { 'content-type': 'application/json', ...headers },
    body: body === undefined || typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await response.text();
  let json;
  try { json = text === '' ? undefined : JSON.parse(text); } catch { json = undefined; }
  if (!response.ok) {
    const error = new Error(json?.message ?? (text || response.statusText));
    error.status = response.status;
    error.body = json;
    throw error;
  }
  return json;
}
export const get = (path) => request('GET', path);
export const post = (path, body) => request('POST', path, body);
export const put = (path, body) => request('PUT', path, body);

/** Asks the back end for a change: change('run-schedule', {name: 'github-subscriber'}). Returns what was done, in a sentence. */
export async function change(action, what) {
  const { message } = await request('POST', '/_console/changes', { action, ...what }, { 'x-ichido-console': '1' });
  announce(message);
  return message;
}

/** Asks before a change. Returns what was written into `field` (or ''), or undefined if it was cancelled. */
export function ask(question, word, { as, field } = {}) {
  return new Promise((resolve) => {
    const input = field ? el('input', { type: 'text', id: 'ask-field', autocomplete: 'off' }) : undefined;
    const dialog = el('dialog', { id: 'ask', 'aria-labelledby': 'ask-question', onclose: () => { dialog.remove(); resolve(dialog.returnValue === 'yes' ? input?.value.trim() ?? '' : undefined); } },
      el('p', { id: 'ask-question' }, question), as ? el('p', { class: 'soft' }, `It is made as ${as}, and logged.`) : undefined,
      input ? el('label', { class: 'field' }, field, input) : undefined,
      el('div', { class: 'row end' }, el('button', { onclick: () => dialog.close('') }, 'Cancel'), el('button', { class: 'primary', onclick: () => dialog.close('yes') }, word)));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** What people call a part that can be broken. */
const NAMES = { dynamodb: 'Store (DynamoDB)', slack: 'Slack', mastodon: 'Mastodon', pushover: 'Pushover', bigquery: 'BigQuery', appsync: 'AppSync', webhook: 'Webhooks' };
export const nameOf = (name) => NAMES[name] ?? name;

/** A link to the life of a key. */
export function keyLink(key, namespace, text = key) {
  const of = namespace ?? (key.includes('#') ? key.split('#')[0] : '_');
  return el('a', { class: 'key', href: url(`/keys/${encodeURIComponent(of)}/${encodeURIComponent(key)}`) }, el('code', {}, text));
}

/** A coloured word. */
export const badge = (kind, text) => el('span', { class: `badge ${kind}` }, text);

/** Rows for labels that would cover each other: placed([{x, width}]) returns the row of each, from 0. */
export function placed(labels) {
  const ends = [];
  return labels.map(({ x, width }) => {
    let row = ends.findIndex((end) => end <= x);
    if (row < 0) row = ends.length;
    ends[row] = x + width + 6;
    return row;
  });
}

/** An SVG element. */
export function svg(tag, properties = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'style') element.style.cssText = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** The head of a page: its title, one sentence, and what can be done. */
export function head(title, sentence, ...actions) {
  return el('div', { class: 'head' }, el('div', {}, el('h1', {}, title), sentence ? el('p', { class: 'lead' }, sentence) : undefined),
    actions.length > 0 ? el('div', { class: 'row' }, actions) : undefined);
}

/** How long ago something was, or how soon it will be: "3 s ago", "in 2 min". */
export function ago(at, now = Date.now()) {
  const seconds = Math.round((now - Date.parse(at)) / 1000);
  const length = Math.abs(seconds);
  const text = length < 90 ? `${length} s` : length < 5400 ? `${Math.round(length / 60)} min` : length < 129600 ? `${Math.round(length / 3600)} h` : `${Math.round(length / 86400)} d`;
  return seconds >= 0 ? `${text} ago` : `in ${text}`;
}

/** Milliseconds for people: 0.4 ms, 35 ms, 1.2 s. */
export function millis(ms) {
  if (ms === null || ms === undefined) return '–';
  if (ms < 10) return `${Math.round(ms * 10) / 10} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : ms < 90_000 ? `${Math.round(ms / 100) / 10} s` : `${Math.round(ms / 60_000)} min`;
}

/** A number for people: 12 345. */
export const count = (number) => (number === null || number === undefined ? '–' : String(Math.round(number * 100) / 100).replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f'));

/**
 * A table that is folded, filtered and searched: rows beyond `shown` are behind a button, and a search box filters all of them.
 * `columns`: [title, class]; `row(item)` makes a `tr`; `text(item)` is what is searched.
 */
export function longTable({ id, label, columns, row, text, shown = 15, empty = 'Nothing here.', filters = [], searched = true }) {
  let items = [];
  let all = false;
  let chosen = '';
  const body = el('tbody', { id });
  const search = el('input', { type: 'search', id: `${id}-search`, placeholder: 'Search', 'aria-label': `Search ${label}`, autocomplete: 'off', oninput: () => draw() });
  const filter = filters.length === 0 ? undefined : el('select', { id: `${id}-filter`, 'aria-label': `Show which ${label}`, onchange: (event) => { chosen = event.target.value; draw(); } },
    filters.map(([value, title]) => el('option', { value }, title)));
  const more = el('button', { class: 'quiet', id: `${id}-more`, onclick: () => { all = !all; draw(); } });
  const found = el('span', { class: 'soft', role: 'status' });
  const none = el('p', { class: 'empty' });
  const table = el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label }, el('table', {},
    el('thead', {}, el('tr', {}, columns.map(([title, kind = '']) => el('th', { scope: 'col', class: kind }, title || el('span', { class: 'hidden' }, 'Actions'))))), body));
  const tools = el('div', { class: 'row tools' }, search, filter, found);
  function draw() {
    const wanted = search.value.trim().toLowerCase();
    const matching = items.filter((item) => (wanted === '' || text(item).toLowerCase().includes(wanted)) && (chosen === '' || filters.find(([value]) => value === chosen)[2](item)));
    const cut = all || wanted !== '' ? matching : matching.slice(0, shown);
    fill(body, cut.map(row));
    more.hidden = matching.length <= shown || wanted !== '';
    more.textContent = all ? 'Show fewer' : `Show all ${matching.length}`;
    more.setAttribute('aria-expanded', String(all));
    tools.hidden = !searched || items.length <= 5 && wanted === '' && chosen === '';
    table.hidden = matching.length === 0;
    none.hidden = matching.length > 0;
    fill(none, items.length === 0 ? empty : 'Nothing matches the search.');
    say(found, wanted === '' && chosen === '' ? `${items.length} in all` : `${matching.length} of ${items.length}`);
  }
  const element = el('div', { class: 'long' }, tools, table, none, more);
  element.show = (next) => { items = next; draw(); };
  element.show([]);
  return element;
}

/** Calls `work` now and every `ms` while the page is shown, and once whenever it is shown again. Failures are shown in `error`. */
export function refreshing(root, ms, work, error) {
  let timer;
  let running = false;
  async function once() {
    if (running) return;
    running = true;
    try {
      await work();
      if (error) error.hidden = true;
    } catch (caught) {
      if (error) { say(error, caught.message); error.hidden = false; }
    } finally { running = false; }
  }
  async function turn() {
    clearTimeout(timer);
    if (!root.hidden && !document.hidden) await once();
    if (root.isConnected) timer = setTimeout(turn, ms);
  }
  root.addEventListener('show', turn);
  root.addEventListener('leave', () => clearTimeout(timer));
  document.addEventListener('visibilitychange', () => { if (!document.hidden && !root.hidden && root.isConnected) turn(); });
  turn();
  return once;
}

/** Lets a screen reader read a sentence aloud. */
export function announce(text) {
  document.getElementById('announcer').textContent = text;
}

/** The local time of day of a timestamp: 12:34:56.789. */
export function clock(at) {
  const date = new Date(at);
  const two = (number) => String(number).padStart(2, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, '0')}`;
}

const listeners = new Set();
let state = 'connecting';

/** Calls `listener(event)` for every live event of a kind (`'*'` for all); returns a function that stops it. */
export function on(kind, listener) {
  const entry = { kind, listener };
  listeners.add(entry);
  return () => listeners.delete(entry);
}

/** Connects to the stream; `changed(state)` is called with 'live' or 'reconnecting'. */
export function connect(changed) {
  const source = new EventSource(url('/_console/events'));
  const become = (next) => { if (next !== state) { state = next; changed(state); } };
  source.onopen = () => become('live');
  source.onerror = () => become('reconnecting');
  source.onmessage = ({ data }) => {
    const event = JSON.parse(data);
    for (const { kind, listener } of listeners) {
      if (kind === '*' || kind === event.kind) listener(event);
    }
  };
  window.addEventListener('pagehide', () => source.close());
}

/** Reads and changes the faults: `set('slack', {mode: 'refuse', status: 429})` breaks, `set('slack')` heals. */
export const faults = {
  get: () => get('/_local/faults'),
  async set(name, fault) {
    const all = await get('/_local/faults');
    if (fault === undefined) delete all[name]; else all[name] = fault;
    return put('/_local/faults', all);
  },
  heal: () => put('/_local/faults', {}),
};

/** The faults behind those choices that are more than a mode. */
const FAULTS = { '': undefined, ratelimit: { mode: 'refuse', status: 429 }, reject: { mode: 'refuse', status: 422 }, slow: { mode: 'slow', ms: 500 } };

/** Radio buttons that break one part (`slack`, `dynamodb`). They also show faults that somebody else chose. */
export function faultSwitch(legend, id, name, options, attempt) {
  const group = choices(legend, id, options, (choice) => attempt(async () => {
    try {
      await faults.set(name, choice in FAULTS ? FAULTS[choice] : { mode: choice });
      announce(`${legend}: ${options.find(([value]) => value === choice)[1]}`);
    } catch (error) {
      reflect(await faults.get());
      throw error;
    }
  }));
  function reflect(all) {
    const fault = all[name];
    const special = options.find(([value]) => FAULTS[value] && FAULTS[value].mode === fault?.mode && FAULTS[value].status === fault.status);
    group.choose(special?.[0] ?? fault?.mode ?? '');
  }
  on('faults', (event) => reflect(event.faults));
  faults.get().then(reflect);
  return group;
}

/** An element for an error, and a function that runs some work and shows its error there. */
export function trial() {
  const error = el('p', { class: 'error', role: 'alert', hidden: true });
  async function attempt(work) {
    try {
      await work();
      error.hidden = true;
    } catch (caught) { say(error, caught.message); error.hidden = false; }
  }
  return { error, attempt };
}

/** A group of radio buttons: choices('Store', 'store', [['', 'healthy'], ['down', 'down']], chosen => …). */
export function choices(legend, name, options, chosen, selected = '') {
  const inputs = new Map();
  const labels = options.map(([value, text]) => {
    const input = el('input', { type: 'radio', name, value, checked: value === selected, onchange: () => chosen(value) });
    inputs.set(value, input);
    return el('label', { class: value === '' ? '' : 'fault' }, input, text);
  });
  const element = el('fieldset', {}, el('legend', {}, legend), el('div', { class: 'switches' }, labels));
  element.choose = (value) => { const input = inputs.get(value); if (input) input.checked = true; };
  return element;
}
