// Feeds: add an entry to a sample feed, read the feed, break and heal a destination, and see every entry arrive once.

/** Name, title, schedule, function, destinations, and whether a person can add an entry: the two that are always there, and those of the list. */
const FEEDS = (await (await fetch('/_local/feeds')).json()).map((feed) => [feed.name, feed.title, feed.destinations.join(', '), feed]);
const SINKS = ['mastodon', 'pushover', 'slack', 'webhook'];
const DESTINATION = [['', 'healthy'], ['refuse', 'refuses (503)'], ['reject', 'rejects permanently (422)'], ['accept_then_lose', 'accepts, loses the answer']];
const STORE = [['', 'healthy'], ['down', 'down'], ['throttle', 'throttled'], ['lose_answers', 'loses answers']];
const SHOWN = 30;
const FEW = 6;
/** The colour and the name of each state. */
const STATES = {
  owed: ['dup', 'owed'], delivered: ['new', 'delivered'], ignored: ['', 'ignored'], dead: ['bad', 'dead'],
  marked: ['', 'there at the first read, not posted'], same: ['', 'known under another id'], shadow: ['dup', 'rehearsed'],
};

export function mount(root, kit) {
  const { el, fill, get, post, on, announce, faultSwitch, trial, clock } = kit;
  const sample = FEEDS.find(([, , , feed]) => feed.sample);

  const { error, attempt } = trial();

  const mastodon = faultSwitch('Mastodon', 'feeds-mastodon', 'mastodon', DESTINATION, attempt);
  const pushover = faultSwitch('Pushover', 'feeds-pushover', 'pushover', DESTINATION, attempt);
  const store = faultSwitch('The store', 'feeds-store', 'dynamodb', STORE, attempt);
  const timeline = el('ol', { class: 'posts', id: 'feeds-timeline', reversed: true });
  const noPosts = el('p', { class: 'empty' }, 'Nothing was posted yet. Press the button above.');
  const lists = new Map();
  let allPosts = false;
  const morePosts = el('button', { class: 'quiet', hidden: true, onclick: () => { allPosts = !allPosts; refresh(); } });

  const slack = faultSwitch('Slack', 'feeds-slack', 'slack', DESTINATION, attempt);
  const webhook = faultSwitch('Webhooks', 'feeds-webhook', 'webhook', DESTINATION, attempt);

  const actions = FEEDS.map(([name, title, destinations, { schedule, sample }]) => {
    const last = el('p', { class: 'soft', role: 'status', id: `feeds-${name}-last` });
    const read = el('button', { id: `feeds-${name}-run`, onclick: () => run(schedule, last) }, 'Read the feed now');
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

  const said = el('p', { class: 'soft', role: 'status', id: 'feeds-said' });
  const lead = sample ? el('button', { class: 'primary big', id: 'feeds-lead', onclick: ({ currentTarget: button }) => attempt(async () => {
    const [name, , , { schedule }] = sample;
    button.disabled = true;
    try {
      // The first read of a feed only marks what is there, so read once before the entry comes.
      await post(`/_local/schedules/${schedule}/run`);
      const { title } = await post(`/feeds/sample/${name}`, {});
      await run(schedule, said);
      said.textContent = `“${title}” is in the feed. ${said.textContent}`;
    } finally { button.disabled = false; }
  }) }, 'Publish an entry and read the feed') : undefined;

  root.append(
    kit.head('Feeds', 'Every new entry is posted to every destination: none is lost, none is posted twice.', lead),
    error, said,
    el('section', { class: 'card', 'aria-labelledby': 'feeds-timeline-title' },
      el('h2', { id: 'feeds-timeline-title' }, 'As posted'), noPosts, timeline, morePosts),
    el('div', { class: 'columns even' },
      el('section', { class: 'card', 'aria-labelledby': 'feeds-try-title' },
        el('h2', { id: 'feeds-try-title' }, 'One step at a time'),
        el('p', { class: 'soft' }, 'The schedules also read the feeds, every 5 and 15 minutes. The first read posts nothing: it only marks the entries that are already there.'),
        actions),
      el('section', { class: 'card', 'aria-labelledby': 'feeds-break-title' },
        el('h2', { id: 'feeds-break-title' }, 'Break a destination'),
        el('p', { class: 'soft' }, 'An entry that cannot be delivered stays owed, and every run tries it again. An entry that the destination refuses permanently becomes a dead letter.'),
        mastodon, pushover, slack, webhook, store)),
    ...FEEDS.map(([name, title]) => {
      const total = el('span', { class: 'soft' });
      const row = (entry) => el('tr', { 'data-entry': entry.id, 'data-state': entry.state },
        el('th', { scope: 'row' }, entry.title || entry.id, el('br'), el('code', { class: 'soft' }, entry.id)),
        el('td', {}, badge(entry.state), entry.inFeed ? undefined : el('span', { class: 'soft' }, ' no longer in the feed'), entry.reason ? el('span', { class: 'soft' }, ` ${entry.reason}`) : undefined),
        el('td', {}, el('ul', { class: 'plain' }, entry.deliveries.map((one) => delivery(one, entry, FEEDS.find(([of]) => of === name)[3])))),
        el('td', {}, resend(FEEDS.find(([of]) => of === name)[3], entry)));
      const columns = [['entry'], ['state'], ['deliveries'], ['']];
      const text = (entry) => `${entry.title} ${entry.id} ${entry.state} ${entry.reason ?? ''}`;
      const ours = kit.longTable({ id: `feeds-${name}-entries`, label: `entries of ${title}`, columns, row, text, shown: 8, empty: 'No entry has come since the first read. Publish one with the button above.' });
      const before = kit.longTable({ id: `feeds-${name}-marked`, label: `entries of ${title} from before the first read`, columns, row, text, shown: 10, empty: 'None.' });
      const marked = el('summary', { id: `feeds-${name}-marked-title` }, 'Seen before we came');
      lists.set(name, { ours, before, marked, total });
      return el('section', { class: 'card', 'aria-labelledby': `feeds-${name}-title` },
        el('h2', { id: `feeds-${name}-title` }, `${title}: the state of every entry `, total),
        ours, el('details', {}, marked, before));
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

  function badge(state) { const [kind, text] = STATES[state] ?? ['', state]; return el('span', { class: `badge ${kind}` }, text); }

  /** The key of a delivery (crates/feeds/src/table/delivery.rs). Very long ones are shortened there; those have no link. */
  function keyOf(one, entry, { name, function: subscriber }) {
    const parts = [...(subscriber === 'feeds-subscriber' ? [name] : []), one.destination, entry.id].map((part) => part.replaceAll('%', '%25').replaceAll('#', '%23'));
    return `DELIVERY#${parts.join('#')}`;
  }

  function delivery(one, entry, feed) {
    const when = one.at ? ` at ${clock(one.at)}` : '';
    const why = one.reason ? `: ${one.reason}` : one.text ? `: ${one.text}` : '';
    return el('li', { 'data-destination': one.destination, 'data-state': one.state }, `${one.destination}: `, badge(one.state), el('span', { class: 'soft' }, `${when}${why} `), keyOf(one, entry, feed).length < 900 ? kit.keyLink(keyOf(one, entry, feed), 'DELIVERY', 'its life') : undefined);
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

  async function entries(name) {
    const { ours, before, marked, total } = lists.get(name);
    const answer = await get(`/_local/feeds/${name}`);
    total.textContent = `(${answer.total})`;
    const old = answer.entries.filter(({ state }) => state === 'marked');
    ours.show(answer.entries.filter(({ state }) => state !== 'marked'));
    before.show(old);
    marked.textContent = `${old.length} entries were there at the first read and are not posted`;
    marked.parentElement.hidden = old.length === 0;
  }

  async function posts() {
    const all = (await Promise.all(SINKS.map((sink) => get(`/_local/outbox?sink=${sink}`)))).flat();
    // Slack's other messages are those of the Slack application.
    const posted = all.filter(({ sink, request }) => sink !== 'slack' || request.metadata?.event_type === 'ichido_feed_entry');
    posted.sort((a, b) => b.id - a.id);
    noPosts.hidden = posted.length > 0;
    morePosts.hidden = posted.length <= FEW;
    morePosts.textContent = allPosts ? 'Show fewer' : `Show all ${posted.length} posts`;
    fill(timeline, posted.slice(0, allPosts ? SHOWN : FEW).map(({ id, at, sink, request }) => el('li', { 'data-sink': sink, 'data-id': String(id) },
      el('p', { class: 'soft' }, el('span', { class: 'badge out' }, kit.nameOf(sink)), ' ', el('time', { datetime: at }, clock(at))),
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
        await Promise.all([posts(), ...FEEDS.map(([name]) => entries(name))]);
      } while (again);
    })().catch(() => undefined).finally(() => { running = undefined; });
    return running;
  }
  on('outbox', ({ sink }) => { if (SINKS.includes(sink)) setTimeout(refresh, 100); });
  on('schedule', () => setTimeout(refresh, 200));
  on('invocation', (event) => { if (String(event.function ?? '').endsWith('-subscriber')) setTimeout(refresh, 200); });
  refresh();
}
