// Everything at once: the whole local platform under a storm of all faults, killed with SIGKILL every few minutes, with all five applications
// loaded. At the end everything is healed, an operator does what the runbooks say, and the books must balance. README.md says what is checked.
//
//   node tests/storm/storm.mjs            for STORM_MINUTES (60)
//   node tests/storm/storm.mjs --short    every fault once and one kill: one and a half to two minutes
//
// SEED=n chooses the same faults and kills again. What the operating system does with them is different each time.
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { BINARY, launch } from '../platform.mjs';
import { chance } from '../mesh/world.mjs';
import { FeedsLoad } from './feeds.mjs';
import { MeshLoad } from './mesh.mjs';
import { Samples } from './samples.mjs';
import { SessyncLoad } from './sessync.mjs';
import { SlackLoad } from './slack.mjs';
import { Account } from './support.mjs';
import { TokensLoad } from './tokens.mjs';
import { Weather, described } from './weather.mjs';

/** What a healthy platform answers within. */
const ANSWER_MS = 10_000;
/** How long everything may take to settle after the storm: a claim of a killed `slack-files` lasts a minute, and its retries come after it. */
const SETTLE_MS = 5 * 60_000;
const SAMPLE_MS = 2_000;
/** How long only old requests are repeated, to see that nothing grows. */
const PLATEAU_MS = 60_000;
const SHORT_PLATEAU_MS = 14_000;
const PROGRESS_MS = 5_000;
/** The outbox keeps the last 20,000 requests: it is read long before that. */
const COLLECT_MS = 60_000;
/** The longest evaluation range of an alarm: six periods of 15 minutes. */
const ALARM_MINUTES = 6 * 15;
const ALARM_STEP = 5;
/** Fees, so that money also flows to the treasury. Few refusals until a delivery is given up, so that there are dead letters. */
const VARIABLES = { TOKENS_API__TAX_RATE: '0.05', DEAD_AFTER: '2' };

class Storm {
  isOver = false;
  isClosed = false;
  kills = [];
  /** What was broken when: {from, to, faults}. */
  phases = [];
  faults = {};
  #woken = new Set();
  #tracked = new Map();
  #outbox = new Map();
  #platform = null;
  #restarting = null;

  constructor({ seed, minutes, isShort }) {
    Object.assign(this, { seed, minutes, isShort });
    this.dice = chance(seed + 1);
    this.weather = new Weather(chance(seed), isShort);
    this.reports = join(process.env.CARGO_TARGET_DIR ?? resolve(import.meta.dirname, '../../target'), 'storm');
    mkdirSync(this.reports, { recursive: true });
    this.directory = mkdtempSync(join(this.reports, 'run-'));
    this.data = join(this.directory, 'data');
    this.messages = openSync(join(this.directory, 'platform.log'), 'a');
    this.tools = { ichidoctl: join(dirname(BINARY), 'ichidoctl'), sessync: join(dirname(BINARY), 'sessync') };
    this.feeds = new FeedsLoad(this);
    this.sessync = new SessyncLoad(this);
    this.loads = [new SlackLoad(this), this.feeds, new TokensLoad(this), this.sessync, new MeshLoad(this)];
    this.samples = new Samples(this);
    this.started = Date.now();
  }

  say(text) {
    const seconds = Math.floor((Date.now() - this.started) / 1000);
    console.log(`${String(Math.floor(seconds / 60)).padStart(3)}:${String(seconds % 60).padStart(2, '0')}  ${text}`);
  }

  // --- time ------------------------------------------------------------------

  /** Sleeps, at most until the storm is over. */
  sleep(ms) {
    if (this.isOver) return Promise.resolve();
    return new Promise((done) => {
      const wake = () => { clearTimeout(timer); this.#woken.delete(wake); done(); };
      const timer = setTimeout(wake, ms);
      this.#woken.add(wake);
    });
  }

  /** Sleeps, whatever happens. */
  rest(ms) {
    return new Promise((done) => void setTimeout(done, ms));
  }

  end(why) {
    if (this.isOver) return;
    this.say(`the storm is over (${why})`);
    this.isOver = true;
    for (const wake of [...this.#woken]) wake();
  }

  /** Keeps a work of a load in mind, so that the books wait for it. */
  track(load, work) {
    const all = this.#tracked.get(load) ?? new Set();
    this.#tracked.set(load, all);
    const tracked = work.finally(() => all.delete(tracked));
    all.add(tracked);
    return tracked;
  }

  async eventually(what, look) {
    const until = Date.now() + SETTLE_MS;
    while (Date.now() < until) {
      if (await look()) return;
      await this.rest(1_000);
    }
    throw new Error(`never seen: ${what}`);
  }

  // --- the platform ----------------------------------------------------------

  get url() {
    return this.#platform.url;
  }

  get pid() {
    return this.#platform?.pid;
  }

  async #launch(...ports) {
    const [github, hatebu] = this.feedUrls;
    const options = ['--data', this.data, '--github-feed', github, '--hatebu-feed', hatebu, ...ports];
    this.#platform = await launch({ variables: VARIABLES, options, messages: this.messages, detached: true });
  }

  async start() {
    this.feedUrls = await this.feeds.serve();
    await this.#launch();
    this.config = await this.local('/_local/config');
  }

  /** Kills the platform and starts it again at the same address, with the same data and the same faults. */
  async kill() {
    const { port } = new URL(this.url);
    this.kills.push(Date.now());
    this.say(`kill -9 ${this.pid}`);
    this.#restarting = (async () => {
      await this.#platform.stop('SIGKILL');
      await this.#launch('--port', port);
      await this.#put();
    })();
    await this.#restarting;
    this.#restarting = null;
    this.say(`started again as ${this.pid}`);
  }

  async stop() {
    await this.#restarting;
    await this.#platform?.stop();
    this.feeds.close();
    closeSync(this.messages);
  }

  /** For the very end: nothing of this storm may stay behind. */
  abandon() {
    if (this.pid) try { process.kill(this.pid, 'SIGKILL'); } catch { /* it has ended */ }
  }

  // --- requests --------------------------------------------------------------

  /** A request to the platform. Without an answer the status is 0. */
  async http(path, { ms = ANSWER_MS, ...options }) {
    try {
      const response = await fetch(this.url + path, { ...options, signal: AbortSignal.timeout(ms) });
      const text = await response.text();
      let json;
      try { json = JSON.parse(text); } catch { /* it is another kind of text */ }
      return { status: response.status, text, json };
    } catch {
      return { status: 0, text: '', json: undefined };
    }
  }

  /** What the platform itself says: asked until it answers. */
  async local(path, options = {}) {
    for (let tries = 0; tries < 100; tries += 1) {
      const { status, json } = await this.http(path, options);
      if (status === 200) return json;
      await this.rest(300);
    }
    throw new Error(`${path} has no answer`);
  }

  /** All requests with an effect that a stand-in accepted, oldest first. */
  async outbox(sink) {
    for (const entry of await this.local(`/_local/outbox?sink=${sink}`, { ms: 60_000 })) this.#outbox.set(entry.id, entry);
    return [...this.#outbox.values()].filter((entry) => entry.sink === sink).sort((a, b) => a.id - b.id);
  }

  /** All items of a table, as a tool reads them: without faults. */
  async scan(table) {
    const items = [];
    for (let start; ;) {
      const page = await this.local('/', {
        method: 'POST', headers: { 'x-amz-target': 'DynamoDB_20120810.Scan', 'content-type': 'application/x-amz-json-1.0' },
        body: JSON.stringify({ TableName: table, ...(start ? { ExclusiveStartKey: start } : {}) }),
      });
      items.push(...page.Items);
      start = page.LastEvaluatedKey;
      if (!start) return items;
    }
  }

  // --- faults ----------------------------------------------------------------

  async #put() {
    const { feed, ...faults } = this.faults;
    await this.local('/_local/faults', { method: 'PUT', body: JSON.stringify(faults) });
  }

  async #break(faults) {
    const last = this.phases.at(-1);
    this.faults = faults;
    await this.#restarting;
    await this.#put();
    if (last && last.to === Infinity) last.to = Date.now();
    if (Object.keys(faults).length > 0) this.phases.push({ from: Date.now(), to: Infinity, faults });
  }

  /** The fault that a request to something of the storm's own meets. */
  strikes(target) {
    const fault = this.faults[target];
    return fault && this.dice.happens(fault.rate) ? fault : null;
  }

  /** Was this target broken at some time between the two? */
  wasBroken(target, from, to, is = () => true) {
    return this.phases.some((phase) => phase.faults[target] && is(phase.faults[target]) && phase.from <= to && phase.to >= from);
  }

  /** Were answers of this stand-in being lost when it accepted a request? */
  wasLost(sink, { at }) {
    const time = Date.parse(at);
    return this.wasBroken(sink, time - 200, time + 200, ({ mode }) => mode === 'accept_then_lose');
  }

  async #blow() {
    while (!this.isOver) {
      const { faults, ms, calmMs } = this.weather.next();
      this.say(described(faults));
      await this.#break(faults);
      await this.sleep(ms);
      await this.#break({});
      if (this.isShort && this.weather.isComplete && this.kills.length > 0) this.end('every fault was there');
      await this.sleep(calmMs);
    }
  }

  async #strike() {
    while (!this.isOver) {
      await this.sleep(this.weather.untilKill());
      if (!this.isOver) await this.kill();
      if (this.isShort) return;
    }
  }

  async #watch() {
    for (let last = { progress: 0, collected: Date.now() }; !this.isClosed;) {
      this.samples.take();
      if (Date.now() - last.progress >= PROGRESS_MS) {
        last.progress = Date.now();
        this.say(`${this.samples.shown()} · ${this.loads.map((load) => load.status()).join(', ')}`);
      }
      if (Date.now() - last.collected >= COLLECT_MS && !this.#restarting) {
        last.collected = Date.now();
        for (const sink of ['slack', 'mastodon', 'pushover']) await this.outbox(sink).catch(() => undefined);
      }
      await this.rest(SAMPLE_MS);
    }
  }

  // --- the whole -------------------------------------------------------------

  /** Runs the storm and returns the accounts. */
  async run() {
    await this.start();
    const watching = this.#watch();
    const accounts = [];
    const account = async (name, work) => {
      const its = new Account(name);
      accounts.push(its);
      try {
        await work(its);
      } catch (error) {
        its.wrong(error.message);
      }
    };
    const loads = new Map(this.loads.map((load) => [load, this.#load(load)]));
    for (const load of loads.values()) load.catch(() => undefined); // whoever awaits it later is told
    if (!this.isShort) this.sleep(this.minutes * 60_000).then(() => this.end('its time is up'));
    const troubles = [];
    await Promise.all([this.#blow(), this.#strike()].map((work) => work.catch((error) => { troubles.push(error); this.end(error.message); })));
    this.end('nothing can be broken any more');
    this.samples.stormIsOver();
    await this.#restarting;
    await this.#break({}).catch((error) => troubles.push(error));
    this.say('healed; everything settles');
    const settled = [...loads].map(async ([load, loaded]) => {
      await loaded;
      await Promise.all(this.#tracked.get(load) ?? []);
      await load.settle();
      this.say(`${load.name} has settled`);
    });
    const ends = await Promise.allSettled(settled.map((work) => Promise.race([work, late()])));
    ends.forEach(({ reason }, n) => { if (reason) troubles.push(new Error(`${this.loads[n].name}: ${reason.message}`)); });
    await this.#plateau().catch((error) => troubles.push(error));
    this.isClosed = true;
    await watching;
    await account('the storm', (its) => {
      for (const error of troubles) its.wrong(error.message);
      its.line('minutes', ((Date.now() - this.started) / 60_000).toFixed(1));
      its.line('phases of faults', this.phases.length);
      its.line('kills', this.kills.length);
      for (const [fault, count] of this.weather.seen) {
        if (count > 0) its.named(fault, count);
        else if (this.isShort) its.wrong(`${fault} was never there`);
      }
      if (this.isShort && this.kills.length === 0) its.wrong('the platform was never killed');
    });
    await account('alarms', (its) => this.#alarms(its));
    for (const load of this.loads) await account(load.name, (its) => load.books(its));
    await account('memory and files', (its) => this.samples.books(its));
    await account('the next start', (its) => this.#nextStart(its));
    return accounts;
  }

  async #load(load) {
    try {
      await load.load();
    } catch (error) {
      this.end(`the load of ${load.name} failed: ${error.message}`);
      throw error;
    }
  }

  /** Repeats what was done before, and nothing else: nothing may grow now. */
  async #plateau() {
    this.say('only old requests are repeated');
    const until = Date.now() + (this.isShort ? SHORT_PLATEAU_MS : PLATEAU_MS);
    this.samples.plateauBegins();
    while (Date.now() < until || (!this.samples.isEnough && Date.now() < until + SETTLE_MS)) {
      for (const load of this.loads) await load.repeat();
      await this.rest(200);
    }
  }

  /** Everything has ended: a start finds nothing to go on with. */
  async #nextStart(account) {
    const queues = await this.local('/_local/queues');
    for (const { name, visible, inFlight } of queues) account.named(`runs that failed during the storm, kept in the queue ${name}`, visible + inFlight);
    const kept = queues.reduce((sum, { visible, inFlight }) => sum + visible + inFlight, 0);
    const { port } = new URL(this.url);
    await this.#platform.stop();
    await this.#launch('--port', port);
    const size = (name) => statSync(join(this.data, name)).size;
    account.line('bytes of asynchronous invocations that have not ended', size('invocations.jsonl'));
    if (size('invocations.jsonl') > 0) account.wrong('there are asynchronous invocations that have not ended');
    account.line('bytes of messages in queues', size('messages.jsonl'));
    if (kept === 0 && size('messages.jsonl') > 0) account.wrong('the queues are empty, but their file is not');
  }

  /** The time of the alarms moves on while the schedules run, until every alarm has seen nothing but health. */
  async #alarms(account) {
    const rang = (await this.local('/_local/alarms')).filter(({ state }) => state === 'ALARM').map(({ name }) => name);
    account.line('alarms that rang when everything was healed', `${rang.length}`);
    for (const name of rang) account.named(name, 1);
    for (let minutes = 0; minutes < ALARM_MINUTES; minutes += ALARM_STEP) {
      await this.feeds.repeat();
      await this.local(`/_local/alarms/advance?minutes=${ALARM_STEP}`, { method: 'POST' });
    }
    await this.feeds.repeat();
    const alarms = await this.local('/_local/alarms');
    account.line(`alarms that ring ${ALARM_MINUTES} minutes later`, alarms.filter(({ state }) => state === 'ALARM').length);
    for (const { name, state, reason } of alarms) if (state === 'ALARM') account.wrong(`${name} still rings: ${reason}`);
  }
}

/** Fails when everything should have settled. */
const late = () => new Promise((_, reject) => void setTimeout(() => reject(new Error(`it did not settle within ${2 * SETTLE_MS / 60_000} minutes`)), 2 * SETTLE_MS));

const isShort = process.argv.includes('--short');
const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));
const minutes = Number(process.env.STORM_MINUTES ?? 60);
if (!Number.isSafeInteger(seed) || seed < 0 || !(minutes > 0 && minutes <= 24 * 60) || process.argv.slice(2).some((option) => option !== '--short')) {
  console.error('usage: [SEED=n] [STORM_MINUTES=60] node tests/storm/storm.mjs [--short]');
  process.exit(2);
}
const storm = new Storm({ seed, minutes, isShort });
process.on('exit', () => storm.abandon());
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    if (storm.isOver) process.exit(130);
    storm.end(`${signal}; once more ends it without the books`);
  });
}
console.log(`storm: SEED=${seed}, ${isShort ? 'every fault once' : `${minutes} minutes`}, in ${storm.directory}`);
const accounts = await storm.run();
await storm.stop();
const problems = accounts.flatMap((account) => account.problems.map((problem) => `${account.name}: ${problem}`));
const text = [`The books of the storm with SEED=${seed}`, ...accounts.map(String), problems.length === 0 ? 'The books balance.' : `The books do not balance:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`].join('\n\n');
console.log(`\n${text}\n`);
writeFileSync(join(storm.reports, 'books.txt'), `${text}\n`);
storm.samples.write();
if (problems.length === 0) rmSync(storm.directory, { recursive: true, force: true });
else console.log(`Replay with SEED=${seed}. The data, the platform's messages and the logs are kept in ${storm.directory}.`);
console.log(`Memory and file sizes are plotted in ${join(storm.reports, 'memory.svg')}.`);
process.exit(problems.length === 0 ? 0 : 1);
