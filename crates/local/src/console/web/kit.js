// What every panel uses: elements, requests, live events. A panel is an ES module that exports `mount(root, kit)`,
// which is called once, when its tab is first shown.

/** Makes an element: el('button', {class: 'primary', onclick: f}, 'Send'). Text is never read as markup. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'value' || name === 'checked') element[name] = value;
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

/** Sends a request and returns its JSON answer. A failure throws an Error with the server's message. */
export async function request(method, path, body, headers = {}) {
  const response = await fetch(path, {
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
  const source = new EventSource('/_local/events');
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
    error.hidden = true;
    try { await work(); } catch (caught) { error.textContent = caught.message; error.hidden = false; }
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
