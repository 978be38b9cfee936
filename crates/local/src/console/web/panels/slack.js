// Slack: send a file event as Slack does, as often as you like, and see exactly one reply per file.

const MANY = 100;
/** Slack repeats a refused delivery after growing pauses. The pauses here are shorter. */
const REPEATS = 3;
const PAUSE_MS = 500;
const MAX_FILES = 10;
const STORE = [['', 'healthy'], ['down', 'down'], ['throttle', 'throttled'], ['lose_answers', 'loses answers']];
const SLACK = [['', 'healthy'], ['accept_then_lose', 'accepts, loses the answer'], ['ratelimit', 'rate-limits'], ['refuse', 'refuses']];
// The first is the ordinary case. It has no value, because the kit colours choices that have one.
const UPLOADERS = [['', 'a person'], ['bot', 'another bot'], ['own', 'our own bot']];
const KINDS = [['report.pdf', 'application/pdf', 1_250_000], ['notes.txt', 'text/plain', 4_200], ['photo.png', 'image/png', 820_000]];
/** Our bot in the local workspace (crates/local/src/tenants/slack.rs). */
const OWN = { bot_id: 'B00000000', user: 'U00000000' };
const STRANGER = { bot_id: 'B0STRANGER' };

export function mount(root, kit) {
  const { el, get, on, announce, choices, faultSwitch, trial, config } = kit;
  const events = [];

  const files = el('input', { type: 'number', id: 'slack-files', min: '1', max: String(MAX_FILES), value: '1' });
  let uploader = '';
  const who = choices('Uploaded by', 'slack-uploader', UPLOADERS, (chosen) => { uploader = chosen; });
  const once = el('button', { id: 'slack-once', onclick: () => run(newEvent(), 1) }, 'Send once');
  const many = el('button', { id: 'slack-many', class: 'primary big', onclick: () => run(newEvent(), MANY) }, `Send one event ${MANY} times at once`);
  const again = el('button', { id: 'slack-again', disabled: true, onclick: () => run(events[0], MANY) }, `Send the last event ${MANY} more times`);
  const { error, attempt } = trial();

  const store = faultSwitch('The store', 'slack-store', 'dynamodb', STORE, attempt);
  const slack = faultSwitch('Slack', 'slack-api', 'slack', SLACK, attempt);

  const COUNTED = [['found', 'found'], ['sameContent', 'same content'], ['failedAttempts', 'failed, per attempt'], ['refused', 'refused']];
  const CAUSES = [['slackRetry', "Slack's retry"], ['atOnce', 'at once'], ['anotherEnvelope', 'another envelope'], ['afterOutage', 'after an outage'], ['earlierBot', 'the bot before']];
  const causes = (duplicates) => {
    const counted = CAUSES.filter(([name]) => duplicates[name] > 0).map(([name, text]) => `${duplicates[name]} ${text}`);
    return counted.length === 0 ? 'none' : counted.join(', ');
  };
  const history = el('tbody', { id: 'slack-history' });
  const unusual = el('ul', { class: 'plain', id: 'slack-unusual' });
  async function showHistory() {
    const report = await get('/_local/slack/report?days=7');
    history.replaceChildren(...[...report.byDay].reverse().map((counted) => el('tr', {},
      el('th', { scope: 'row', class: 'whole' }, counted.day), el('td', { class: 'number' }, String(counted.handled)), el('td', {}, causes(counted.duplicates)),
      COUNTED.map(([name]) => el('td', { class: 'number' }, String(counted[name]))))));
    unusual.replaceChildren(...report.anomalies.map(({ kind, why }) => el('li', {}, el('span', { class: 'badge bad' }, `unusual: ${kind}`), ` ${why}`)));
  }

  const table = el('tbody', { id: 'slack-events' });
  const empty = el('p', { class: 'empty' }, 'No event yet. Press the button above.');
  const thread = el('ol', { class: 'thread', id: 'slack-thread', 'aria-label': 'The thread of the last event' });
  const noThread = el('p', { class: 'empty' }, 'The thread appears here: the message with its files, and one reply per file.');
  const score = el('p', { class: 'soft', id: 'slack-score', role: 'status' });

  root.append(
    kit.head('Slack', 'Slack sends an event again when it is not sure. However often it comes, each file gets exactly one reply.', many),
    error,
    el('section', { class: 'card', 'aria-labelledby': 'slack-thread-title' }, el('h2', { id: 'slack-thread-title' }, '#uploads'), noThread, thread, score),
    el('div', { class: 'columns' },
      el('section', { class: 'card', 'aria-labelledby': 'slack-send-title' },
        el('h2', { id: 'slack-send-title' }, 'What is sent'),
        el('p', { class: 'soft' }, 'The console signs the event and sends it to ', el('code', {}, 'POST /slack/events'), ', as Slack does. Every delivery carries the same event.'),
        el('label', { class: 'field' }, 'Files in the message', files),
        who,
        el('div', { class: 'row' }, once, again)),
      el('section', { class: 'card', 'aria-labelledby': 'slack-break-title' },
        el('h2', { id: 'slack-break-title' }, 'Break the store or Slack'),
        el('p', { class: 'soft' }, 'Break something, send an event, and heal it again. Lambda retries a failed event. An event that keeps failing becomes a dead letter.'),
        store, slack)),
    el('section', { class: 'card', 'aria-labelledby': 'slack-events-title' },
      el('h2', { id: 'slack-events-title' }, 'One reply per file'),
      empty,
      el('div', { class: 'scroll', tabindex: '0' }, el('table', {},
        el('thead', {}, el('tr', {}, ['event', 'deliveries', 'answers', 'replies', ''].map((name) => el('th', { scope: 'col', class: name === 'deliveries' ? 'number' : '' }, name)))), table))),
    el('section', { class: 'card', 'aria-labelledby': 'slack-history-title' },
      el('h2', { id: 'slack-history-title' }, 'History'),
      el('p', { class: 'soft' }, 'Kept for 90 days, by hour and channel. ', el('a', { href: '/_local/slack/report.html?days=30', target: '_blank', rel: 'noopener' }, 'Open the report'), ', or run ', el('code', {}, 'ichidoctl slack report'), '. The last duplicates of a burst are counted with the next duplicate.'),
      unusual,
      el('div', { class: 'scroll', tabindex: '0' }, el('table', {},
        el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, 'day'), el('th', { scope: 'col', class: 'number' }, 'handled'), el('th', { scope: 'col' }, 'duplicates'), COUNTED.map(([, text]) => el('th', { scope: 'col', class: 'number' }, text)))), history))));
  attempt(showHistory);

  function newEvent() {
    const count = Math.min(MAX_FILES, Math.max(1, Math.trunc(Number(files.value)) || 1));
    files.value = String(count);
    const id = crypto.randomUUID().replaceAll('-', '').slice(0, 10).toUpperCase();
    const ts = `${Math.floor(Date.now() / 1000)}.${String(Math.floor(Math.random() * 1e6)).padStart(6, '0')}`;
    const list = Array.from({ length: count }, (_, at) => {
      const [name, mimetype, size] = KINDS[at % KINDS.length];
      return { id: `F${id}${at}`, name, mimetype, size };
    });
    const by = { '': { user: 'U0ALICE' }, bot: STRANGER, own: OWN }[uploader];
    const body = JSON.stringify({
      type: 'event_callback', team_id: 'T0LOCAL', api_app_id: 'A0LOCAL', event_id: `Ev${id}`, event_time: Math.floor(Date.now() / 1000),
      event: { type: 'message', subtype: 'file_share', channel: 'C0LOCAL', channel_type: 'channel', ts, event_ts: ts, files: list, ...by },
    });
    const event = { id: `Ev${id}`, ts, body, files: list, own: uploader === 'own', sent: 0, repeated: 0, answers: new Map(), replies: new Map(), row: undefined };
    events.unshift(event);
    return event;
  }

  async function run(event, times) {
    for (const button of [once, many, again]) button.disabled = true;
    await attempt(async () => {
      const at = Math.floor(Date.now() / 1000);
      const headers = {
        'content-type': 'application/json',
        'x-slack-request-timestamp': String(at),
        'x-slack-signature': await sign(config.slackSigningSecret, at, event.body),
      };
      draw(event);
      await Promise.all(Array.from({ length: times }, async () => {
        event.sent += 1;
        const status = await deliver(event, headers);
        event.answers.set(status, (event.answers.get(status) ?? 0) + 1);
        draw(event);
      }));
      await count();
      await showHistory();
      announce(`${event.id}: ${answers(event)}; ${replies(event)}`);
    });
    for (const button of [once, many, again]) button.disabled = false;
  }

  /** Delivers as Slack does: a delivery that gets a 5xx is repeated. Returns the last status. */
  async function deliver(event, headers) {
    for (let attempt = 0; ; attempt += 1) {
      const retry = attempt === 0 ? {} : { 'x-slack-retry-num': String(attempt), 'x-slack-retry-reason': 'http_error' };
      const { status } = await fetch('/slack/events', { method: 'POST', headers: { ...headers, ...retry }, body: event.body });
      if (status < 500 || attempt === REPEATS) return status;
      event.repeated += 1;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * (attempt + 1)));
    }
  }

  // The outbox lists the messages that Slack accepted, so replies are counted there.
  let counting;
  function count() {
    counting ??= (async () => {
      const entries = await get('/_local/outbox?sink=slack');
      counting = undefined;
      for (const event of events) {
        event.replies = new Map(event.files.map(({ id }) => [id, []]));
        for (const { request } of entries) event.replies.get(request.metadata?.event_payload?.file)?.push(request.text);
        draw(event);
      }
    })();
    return counting;
  }
  on('outbox', ({ sink }) => { if (sink === 'slack' && events.length > 0) setTimeout(count, 50); });

  const answers = (event) => [...event.answers].sort().map(([status, times]) => `${times} × ${status}`).join(', ') + (event.repeated ? `, ${event.repeated} repeated` : '') || 'none yet';
  const counts = (event) => [...event.replies.values()].map((texts) => texts.length);
  const replies = (event) => `${counts(event).reduce((sum, each) => sum + each, 0)} for ${event.files.length} ${event.files.length === 1 ? 'file' : 'files'}`;

  function verdict(event) {
    const all = counts(event);
    if (event.own) return all.some((each) => each > 0) ? ['bad', 'replied to itself'] : ['new', 'ignored, as it should be'];
    if (all.some((each) => each > 1)) return ['bad', 'more than one reply'];
    if (all.length === event.files.length && all.every((each) => each === 1)) return ['new', 'one per file'];
    return ['dup', 'waiting for replies'];
  }

  /** The thread of the last event, as people see it in Slack. */
  function drawThread() {
    const event = events[0];
    noThread.hidden = Boolean(event);
    if (!event) return;
    const bubble = (kind, face, name, ...what) => el('li', { class: `bubble ${kind}` }, el('span', { class: 'face', 'aria-hidden': 'true' }, face), el('div', {}, el('b', {}, name), el('p', {}, what)));
    const [face, name] = event.own ? ['i', 'our own bot'] : ['A', 'Alice'];
    kit.fill(thread, bubble('', face, name, `shared ${event.files.map((file) => file.name).join(', ')}`),
      event.files.flatMap((file) => (event.replies.get(file.id) ?? []).map((reply) => bubble('bot', 'i', 'ichido', reply, ' ', kit.keyLink(`FILE#T0LOCAL#C0LOCAL#${event.ts}#${file.id}`, 'FILE', 'its life')))));
    const total = counts(event).reduce((sum, each) => sum + each, 0);
    score.textContent = `${event.sent} deliveries of one event, ${total} ${total === 1 ? 'reply' : 'replies'} to ${event.files.length} ${event.files.length === 1 ? 'file' : 'files'}.`;
  }

  function draw(event) {
    empty.hidden = true;
    drawThread();
    const [kind, text] = verdict(event);
    const row = el('tr', { 'data-event': event.id, 'data-verdict': text },
      el('th', { scope: 'row' }, kit.keyLink(event.id, 'events')), el('td', { class: 'number' }, String(event.sent)), el('td', {}, answers(event)),
      el('td', {}, replies(event), el('ul', { class: 'plain' }, [...event.replies.values()].flat().map((reply) => el('li', { class: 'soft' }, reply)))),
      el('td', {}, el('span', { class: `badge ${kind}` }, text)));
    if (event.row) event.row.replaceWith(row); else table.prepend(row);
    event.row = row;
  }
}

/** `v0=` and the HMAC-SHA256 of `v0:{timestamp}:{body}`, as Slack signs. */
async function sign(secret, timestamp, body) {
  const bytes = (text) => new TextEncoder().encode(text);
  const key = await crypto.subtle.importKey('raw', bytes(secret), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  const mac = await crypto.subtle.sign('HMAC', key, bytes(`v0:${timestamp}:${body}`));
  return `v0=${[...new Uint8Array(mac)].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}
