// Feeds: two feeds that grow while their schedules run, often overlapping. The books: every entry is on Mastodon once and, if it came from
// GitHub, on Pushover. Pushover knows no idempotency key: a message that is there twice must have a reason that the README names.
import { createServer } from 'node:http';
import { run } from './support.mjs';

/** How many entries a feed shows, like the real ones. */
const SHOWN = 30;
/** An entry that leaves the feed before any run has recorded it is not promised. So the feed stops growing while this many are not recorded. */
const UNRECORDED = 15;
/** A subscriber may take two minutes. */
const RUN_MS = 125_000;
/** The lease of a delivery: the time limit of a notifier. A completion that was not recorded until then never will be. */
const LEASE_MS = 40_000;

const FEEDS = {
  github: { path: '/github.atom', schedule: 'github-subscriber', table: 'masutaka-feed-github-state', destinations: ['mastodon', 'pushover'] },
  hatebu: { path: '/hatebu.rdf', schedule: 'hatebu-subscriber', table: 'masutaka-feed-hatebu-state', destinations: ['mastodon'] },
};

export class FeedsLoad {
  name = 'feeds';
  /** By feed, oldest first: {id, title, link, at}. The first one is there before the first read, which posts nothing. */
  entries = { github: [], hatebu: [] };
  #recorded = { github: 0, hatebu: 0 };
  #runs = { ok: 0, failed: 0 };
  #redriven = 0;
  #failedAgain = 0;
  #server;

  constructor(storm) {
    this.storm = storm;
  }

  get done() {
    return this.#recorded.github + this.#recorded.hatebu;
  }

  status() {
    const total = this.entries.github.length + this.entries.hatebu.length;
    return `${this.done}/${total} entries`;
  }

  /** Serves both feeds, and returns where. It survives the platform. */
  async serve() {
    for (const feed of Object.keys(FEEDS)) this.#add(feed);
    this.#server = createServer((request, response) => this.#answer(request, response));
    await new Promise((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    const at = `http://127.0.0.1:${this.#server.address().port}`;
    return Object.values(FEEDS).map(({ path }) => at + path);
  }

  close() {
    this.#server?.closeAllConnections();
    this.#server?.close();
  }

  #add(feed) {
    const n = this.entries[feed].length;
    const entry = {
      github: { id: `tag:github.com,2008:PushEvent/${n}`, title: `alice pushed to storm-${n}`, link: `https://github.com/alice/storm/compare/${n}...${n + 1}` },
      hatebu: { id: `https://example.com/page/${n}`, title: `Page ${n} of the storm`, link: `https://example.com/page/${n}` },
    }[feed];
    this.entries[feed].push({ ...entry, at: new Date().toISOString() });
  }

  #answer(request, response) {
    const feed = Object.keys(FEEDS).find((name) => FEEDS[name].path === request.url);
    if (!feed) return response.writeHead(404).end();
    const fault = this.storm.strikes('feed');
    if (fault?.mode === 'refuse') return response.writeHead(fault.status).end('refused');
    if (fault?.mode === 'hang') return undefined;
    const shown = this.entries[feed].slice(-SHOWN).reverse();
    const body = feed === 'github' ? atom(shown) : rdf(shown);
    const etag = `"${feed}-${this.entries[feed].length}"`;
    const headers = { 'content-type': feed === 'github' ? 'application/atom+xml; charset=utf-8' : 'application/xml; charset=utf-8', etag };
    const send = () => {
      if (request.headers['if-none-match'] === etag) return response.writeHead(304, headers).end();
      // A document that is cut short looks whole to HTTP. It has another ETag than the whole one.
      if (fault?.mode === 'cut') return response.writeHead(200, { ...headers, etag: `"cut-${Date.now()}"` }).end(body.slice(0, this.#cut(feed, shown, body)));
      return response.writeHead(200, headers).end(body);
    };
    if (fault?.mode === 'slow') return setTimeout(send, fault.ms);
    return send();
  }

  /**
   * Where a document is cut. A read without any entry that is known is a gap (crates/feeds/README.md), also if the document was cut short before the
   * first known one, and a gap fails all runs of four periods. So the newest entry that is known to be recorded stays in.
   */
  #cut(feed, shown, body) {
    const known = shown.find((entry) => this.entries[feed].indexOf(entry) < this.#recorded[feed]);
    if (!known) return body.length;
    const end = body.indexOf('>', body.indexOf(feed === 'github' ? '</entry' : '</item', body.indexOf(`>${known.title}<`))) + 1;
    return Math.max(end, Math.round(body.length * 0.7));
  }

  async load() {
    const { storm } = this;
    for (const feed of Object.keys(FEEDS)) await storm.eventually(`the first read of ${feed}`, () => this.#run(feed));
    await Promise.all([this.#grow(), ...Object.keys(FEEDS).flatMap((feed) => [this.#follow(feed, 2_000, 6_000), this.#follow(feed, 15_000, 40_000)])]);
  }

  async #grow() {
    const { storm } = this;
    while (!storm.isOver) {
      const feed = storm.dice.pick(Object.keys(FEEDS));
      const unrecorded = () => this.entries[feed].length - this.#recorded[feed];
      if (unrecorded() >= UNRECORDED) await this.#look(feed);
      if (unrecorded() < UNRECORDED) this.#add(feed);
      await storm.sleep(storm.dice.between(400, 2_000));
    }
  }

  async #follow(feed, from, to) {
    while (!this.storm.isOver) {
      await this.#run(feed);
      await this.storm.sleep(this.storm.dice.between(from, to));
    }
  }

  async #run(feed) {
    const answer = await this.storm.http(`/_local/schedules/${FEEDS[feed].schedule}/run`, { method: 'POST', ms: RUN_MS });
    const ok = answer.json?.ok === true;
    this.#runs[ok ? 'ok' : 'failed'] += 1;
    return ok ? answer.json.result : null;
  }

  /** How many entries are recorded: the oldest ones, without a gap. */
  async #look(feed) {
    const answer = await this.storm.http(`/_local/feeds/${feed}`, {});
    if (!answer.json) return;
    const known = new Set(answer.json.entries.map(({ id }) => id));
    const of = this.entries[feed];
    while (this.#recorded[feed] < of.length && (known.has(of[this.#recorded[feed]].id) || this.#recorded[feed] < answer.json.total - 100)) this.#recorded[feed] += 1;
  }

  /** Runs the schedules until nothing is owed. Dead letters are sent again by an operator, as the runbook says. */
  async settle() {
    await this.storm.eventually('every entry settled', async () => {
      let isSettled = true;
      for (const feed of Object.keys(FEEDS)) {
        const listed = await run(this.storm.tools.ichidoctl, ['dead-letters', 'list', feed, '--json', '--endpoint-url', this.storm.url]);
        if (listed.code === 2) throw new Error(`ichidoctl dead-letters list ${feed}: ${listed.err}`);
        if (listed.code !== 0) {
          this.#redriven += JSON.parse(listed.out).deadLetters.length;
          await run(this.storm.tools.ichidoctl, ['dead-letters', 'redrive', feed, '--yes', '--endpoint-url', this.storm.url]);
          isSettled = false;
        }
        const report = await this.#run(feed);
        await this.#look(feed);
        if (!report || report.owed > 0 || this.#recorded[feed] < this.entries[feed].length) isSettled = false;
      }
      return isSettled;
    });
  }

  /** One more run of each schedule, with nothing new in its feed. Everything is healed, so it must succeed. */
  async repeat() {
    for (const feed of Object.keys(FEEDS)) if (!(await this.#run(feed))) this.#failedAgain += 1;
  }

  async books(account) {
    const posts = counted(await this.storm.outbox('mastodon'), ({ status }) => /https?:\/\/\S+/.exec(status)?.[0]);
    const messages = counted(await this.storm.outbox('pushover'), ({ url }) => url);
    const fences = await this.#fences();
    const known = new Set();
    const expected = { mastodon: 0, pushover: 0 };
    const reasons = new Map();
    for (const [feed, { destinations }] of Object.entries(FEEDS)) {
      const [marked, ...entries] = this.entries[feed];
      known.add(marked.link);
      if (posts.has(marked.link) || messages.has(marked.link)) account.wrong(`${marked.id} was there before the first read, and was posted`);
      for (const { id, link } of entries) {
        known.add(link);
        expected.mastodon += 1;
        const posted = posts.get(link) ?? [];
        if (posted.length !== 1) account.wrong(`${id} is on Mastodon ${posted.length} times`);
        if (!destinations.includes('pushover')) continue;
        expected.pushover += 1;
        const pushed = messages.get(link) ?? [];
        if (pushed.length === 0) account.wrong(`${id} was never sent to Pushover`);
        // The promise: at most once per take-over. The fence counts the claims.
        const fence = fences.get(`DELIVERY#pushover#${id}`) ?? 0;
        if (pushed.length > fence) account.wrong(`${id} was sent to Pushover ${pushed.length} times under ${fence} claims`);
        for (let n = 0; n + 1 < pushed.length; n += 1) {
          const why = this.#whyAgain(pushed[n], pushed[n + 1]);
          if (why) reasons.set(why, (reasons.get(why) ?? 0) + 1);
          else account.wrong(`${id} was sent to Pushover again at ${pushed[n + 1].at}, after ${pushed[n].at}, for no reason that is known`);
        }
      }
    }
    for (const link of [...posts.keys(), ...messages.keys()]) if (!known.has(link)) account.wrong(`${link} was posted, and was in no feed`);
    account.line('entries in the feeds after the first read', expected.mastodon);
    account.line('posts on Mastodon', sum(posts));
    account.line('entries for Pushover', expected.pushover);
    account.line('messages at Pushover', sum(messages));
    for (const [why, count] of reasons) account.named(`Pushover messages sent again because ${why}`, count);
    account.named('dead letters that the operator sent again', this.#redriven);
    if (this.#failedAgain > 0) account.wrong(`${this.#failedAgain} runs failed although everything was healed`);
    account.line('runs that the storm asked for: done', this.#runs.ok);
    account.named('runs that ended in an error or not at all', this.#runs.failed);
  }

  /** Why a message was sent again after this one, in the words of crates/feeds/README.md. */
  #whyAgain(message, next) {
    const at = Date.parse(message.at);
    const until = Math.min(Date.parse(next.at), at + LEASE_MS);
    if (this.storm.wasLost('pushover', message)) return 'its answer was lost';
    if (this.storm.kills.some((kill) => kill >= at - 100 && kill <= until)) return 'the process was killed before it had recorded the first one';
    if (this.storm.wasBroken('dynamodb', at - 1_000, until)) return 'the store failed before the first one was recorded';
    return null;
  }

  /** The fence of every claim in the state tables, by key. */
  async #fences() {
    const fences = new Map();
    for (const { table } of Object.values(FEEDS)) {
      for (const item of await this.storm.scan(table)) if (item.ichido_fence) fences.set(item.entry_id.S, Number(item.ichido_fence.N));
    }
    return fences;
  }
}

function counted(outbox, key) {
  const by = new Map();
  for (const entry of outbox) {
    const name = key(entry.request);
    by.set(name, [...(by.get(name) ?? []), entry]);
  }
  return by;
}

const sum = (by) => [...by.values()].reduce((total, list) => total + list.length, 0);

const atom = (entries) => `<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="en-US"><id>tag:github.com,2008:/storm.private</id><title>Private Feed</title><updated>${entries[0].at}</updated>
${entries.map(({ id, title, link, at }) => `<entry><id>${id}</id><published>${at}</published><updated>${at}</updated><link type="text/html" rel="alternate" href="${link}"/><title type="html">${title}</title><author><name>alice</name></author><content type="html">${title}</content></entry>`).join('\n')}
</feed>
`;

const rdf = (entries) => `<?xml version="1.0" encoding="UTF-8"?>
<rdf:RDF xmlns="http://purl.org/rss/1.0/" xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:dc="http://purl.org/dc/elements/1.1/">
<channel rdf:about="https://b.hatena.ne.jp/storm/bookmark.rss"><title>storm</title><link>https://b.hatena.ne.jp/storm/bookmark</link></channel>
${entries.map(({ id, title, link, at }) => `<item rdf:about="${id}"><title>${title}</title><link>${link}</link><description>later</description><dc:creator>storm</dc:creator><dc:date>${at}</dc:date></item>`).join('\n')}
</rdf:RDF>
`;
