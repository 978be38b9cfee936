// Feeds: add an entry to a sample feed, read the feed, break and heal a destination, and see every entry arrive once.

/** Name, title, schedule, function, destinations, and whether a person can add an entry: the two that are always there, and those of the list. */
const FEEDS = (await (await fetch('/_local/feeds')).json()).map((feed) => [feed.name, feed.title, feed.destinations.join(', '), feed]);
const SINKS = ['mastodon', 'pushover', 'slack', 'webhook'];
const DESTINATION = [['', 'healthy'], ['refuse', 'refuses (503)'], ['reject', 'rejects permanently (422)'], ['accept_then_lose', 'accepts, loses the answer']];
const STORE = [['', 'healthy'], ['down', 'down'], ['throttle', 'throttled'], ['lose_answers', 'loses answers']];
const SHOWN = 30;
/** The colour and the name of each state. */
const STATES = {
  owed: ['dup', 'owed'], delivered: ['new', 'delivered'], ignored: ['', 'ignored'], dead: ['bad', 'dead'],
  marked: ['', 'there at the first read, not posted'], same: ['', 'known under another id'], shadow: ['dup', 'rehearsed'],
};

export function mount(root, kit) {
  const { el, fill, get, post, on, announce, faultSwitch, trial, clock } = kit;

  const { error, attempt } = trial();

  const mastodon = faultSwitch('Mastodon', 'feeds-mastodon', 'mastodon', DESTINATION, attempt);
  const pushover = faultSwitch('Pushover', 'feeds-pushover', 'pushover', DESTINATION, attempt);
  const store = faultSwitch('The store', 'feeds-store', 'dynamodb', STORE, attempt);
  const timeline = el('ol', { class: 'plain', id: 'feeds-timeline', reversed: true });
  const noPosts = el('p', { class: 'empty' }, 'Nothing was posted yet. Add an entry and read the feed.');
  const lists = new Map();

  const slack = faultSwitch('Slack', 'feeds-slack', 'slack', DESTINATION, attempt);
  const webhook = faultSwitch('Webhooks', 'feeds-webhook', 'webhook', DESTINATION, attempt);

  const actions = FEEDS.map(([name, title, destinations, { schedule, sample }]) => {
    const last = el('p', { class: 'soft', role: 'status', id: `feeds-${name}-last` });
    const read = el('button', { id: `feeds-${name}-run`, class: 'primary', onclick: () => run(schedule, last) }, 'Read the feed now');
    const grow = el('button', {
      id: `feeds-${name}-grow`,
      onclick: () => attempt(async () => {
        const { title: added } = await post(`/feeds/sample/${name}`, {});
        last.textContent = `The sample feed now shows “${added}”.`;
        announce(last.textContent);
      }),
    }, 'Add an entry to the sample feed');
    return el('div', {}, el('h3', {}, title), el('p', { class: 'soft' }, `posts to ${destinations}`), el('div', { class: 'row' }, sample ? grow : undefined, read), last);
  });

  root.append(
    el('div', { class: 'columns' },
      el('section', { class: 'card', 'aria-labelledby': 'feeds-try-title' },
        el('h2', { id: 'feeds-try-title' }, 'Add an entry and read the feed'),
        el('p', { class: 'soft' }, 'The schedules also read the feeds, every 5 and 15 minutes. The first read posts nothing: it only marks the entries that are already there.'),
        error, actions),
      el('section', { class: 'card', 'aria-labelledby': 'feeds-break-title' },
        el('h2', { id: 'feeds-break-title' }, 'Break a destination'),
        el('p', { class: 'soft' }, 'An entry that cannot be delivered stays owed, and every run tries it again. An entry that the destination refuses permanently becomes a dead letter.'),
        mastodon, pushover, slack, webhook, store)),
    el('section', { class: 'card', 'aria-labelledby': 'feeds-timeline-title' },
      el('h2', { id: 'feeds-timeline-title' }, 'Posts'), noPosts, timeline),
    ...FEEDS.map(([name, title]) => {
      const rows = el('tbody', { id: `feeds-${name}-entries` });
      const total = el('span', { class: 'soft' });
      lists.set(name, { rows, total });
      return el('section', { class: 'card', 'aria-labelledby': `feeds-${name}-title` },
        el('h2', { id: `feeds-${name}-title` }, `${title}: the state of every entry `, total),
        el('div', { class: 'scroll' }, el('table', {},
          el('thead', {}, el('tr', {}, ['entry', 'state', 'deliveries', ''].map((column) => el('th', { scope: 'col' }, column)))), rows)));
    }));

  async function run(schedule, last) {
    await attempt(async () => {
      last.textContent = 'Reading…';
      try {
        const ran = await post(`/_local/schedules/${schedule}/run`);
        const report = ran.result;
        last.textContent = !ran.ok
          ? `The run failed: ${ran.error?.errorMessage ?? 'no reason was given'}`
          : `${report.feed}: ${report.entries} entries, ${report.new} new, ${report.settled} settled, ${report.owed} owed, ${report.dead} dead.`;
      } catch (caught) {
        last.textContent = `The run failed: ${caught.message}`;
      }
      announce(last.textContent);
      await refresh();
    });
  }

  const badge = (state) => { const [kind, text] = STATES[state] ?? ['', state]; return el('span', { class: `badge ${kind}` }, text); };

  function delivery(one) {
    const when = one.at ? ` at ${clock(one.at)}` : '';
    const why = one.reason ? `: ${one.reason}` : one.text ? `: ${one.text}` : '';
    return el('li', { 'data-destination': one.destination, 'data-state': one.state }, `${one.destination}: `, badge(one.state), el('span', { class: 'soft' }, `${when}${why}`));
  }

  function resend({ name, function: subscriber }, entry) {
    if (entry.state !== 'dead') return undefined;
    return el('button', {
      onclick: () => attempt(async () => {
        await post(`/2015-03-31/functions/${subscriber}/invocations`, { command: 'resend', entryId: entry.id, feed: subscriber === 'feeds-subscriber' ? { name } : undefined });
        announce('The entry is owed again. The next run delivers it.');
        await refresh();
      }),
      'aria-label': `Send “${entry.title}” again`,
    }, 'Send again');
  }

  async function entries(name, feed) {
    const { rows, total } = lists.get(name);
    const answer = await get(`/_local/feeds/${name}`);
    total.textContent = `(${answer.total})`;
    fill(rows, answer.entries.slice(0, SHOWN).map((entry) => el('tr', { 'data-entry': entry.id, 'data-state': entry.state },
      el('th', { scope: 'row' }, entry.title || entry.id, el('br'), el('code', { class: 'soft' }, entry.id)),
      el('td', {}, badge(entry.state), entry.inFeed ? undefined : el('span', { class: 'soft' }, ' no longer in the feed'), entry.reason ? el('span', { class: 'soft' }, ` ${entry.reason}`) : undefined),
      el('td', {}, el('ul', { class: 'plain' }, entry.deliveries.map(delivery))),
      el('td', {}, resend(feed, entry)))));
  }

  async function posts() {
    const all = (await Promise.all(SINKS.map((sink) => get(`/_local/outbox?sink=${sink}`)))).flat();
    // Slack's other messages are those of the Slack application.
    const posted = all.filter(({ sink, request }) => sink !== 'slack' || request.metadata?.event_type === 'ichido_feed_entry');
    posted.sort((a, b) => b.id - a.id);
    noPosts.hidden = posted.length > 0;
    fill(timeline, posted.slice(0, SHOWN).map(({ id, at, sink, request }) => el('li', { 'data-sink': sink, 'data-id': String(id) },
      el('time', { datetime: at }, clock(at)), ' ', el('span', { class: 'badge' }, sink), ' ',
      sink === 'mastodon' ? request.status ?? '' : sink === 'pushover' ? `${request.message ?? ''} ${request.url ?? ''}` : request.text ?? '')));
  }

  // One refresh runs at a time. Events that come meanwhile cause one more.
  let running;
  let again = false;
  function refresh() {
    if (running) { again = true; return running; }
    running = (async () => {
      do {
        again = false;
        await Promise.all([posts(), ...FEEDS.map(([name, , , feed]) => entries(name, feed))]);
      } while (again);
    })().catch(() => undefined).finally(() => { running = undefined; });
    return running;
  }
  on('outbox', ({ sink }) => { if (SINKS.includes(sink)) setTimeout(refresh, 100); });
  on('schedule', () => setTimeout(refresh, 200));
  on('invocation', (event) => { if (String(event.function ?? '').endsWith('-subscriber')) setTimeout(refresh, 200); });
  refresh();
}
