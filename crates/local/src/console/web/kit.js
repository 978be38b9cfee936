// What every panel builds on: elements, requests, live events. A panel is an ES module that exports
// `mount(root, kit)`; it is called once, when its tab is first shown.

/** An element: el('button', {class: 'primary', onclick: f}, 'Send'). Text is always text, never markup. */
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

/** Replaces everything in an element. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** Makes a request that is answered with JSON. A failure is an Error with the server's own message. */
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

/** Lets a screen reader say a sentence. */
export function announce(text) {
  document.getElementById('announcer').textContent = text;
}

/** 12:34:56.789 of an RFC 3339 time. */
export function clock(at) {
  const date = new Date(at);
  const two = (number) => String(number).padStart(2, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, '0')}`;
}

const listeners = new Set();
let state = 'connecting';

/** Calls `listener(event)` for every live event of a kind (`'*'`: all); returns how to stop. */
export function on(kind, listener) {
  const entry = { kind, listener };
  listeners.add(entry);
  return () => listeners.delete(entry);
}

/** Starts the stream; `changed(state)` hears 'live' and 'reconnecting'. */
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

/** Reads and changes the faults. `set('slack', {mode: 'refuse', status: 429})`; `set('slack')` heals it. */
export const faults = {
  get: () => get('/_local/faults'),
  async set(name, fault) {
    const all = await get('/_local/faults');
    if (fault === undefined) delete all[name]; else all[name] = fault;
    return put('/_local/faults', all);
  },
  heal: () => put('/_local/faults', {}),
};

/** Choices that stand for more than a mode. */
const FAULTS = { '': undefined, ratelimit: { mode: 'refuse', status: 429 }, reject: { mode: 'refuse', status: 422 }, slow: { mode: 'slow', ms: 500 } };

/** Radio buttons that break one part of the world (`slack`, `dynamodb`) and show what anybody else broke. */
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

/** An element for errors, and a function that tries something and shows what goes wrong there. */
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
