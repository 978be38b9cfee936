// Memory and file sizes of the platform, sampled through the storm, and their plot.
//
// "Flat" needs a definition, because the platform keeps what it was given: records, rows, the outbox. So two things are checked. A *plateau* after
// the storm repeats only what was done before, and nothing may grow. And through the storm, memory and files may grow with the work that was done, but
// not faster: a second half that costs more per piece of work than the first one is a leak.
import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { svg } from './plot.mjs';

const MB = 1024 * 1024;
/** Memory moves by a few MB by itself: buffers, the allocator, the logs that are kept. */
const PLATEAU_MEMORY = 8 * MB;
const PLATEAU_FILE = 64 * 1024;
/** What is in the write-ahead log moves into the database some time: 1,000 pages of 4 KB. */
const PLATEAU_DATABASE = 5 * MB;
/** The second half of the storm may cost this much more per piece of work, and this many bytes at all. */
const FASTER = 1.5;
const SLACK = { memory: 16 * MB, file: 2 * MB };
/** SQLite writes its log back when it has 1,000 pages; a long read may hold that up for a while. */
const WAL = 'dynamodb.db-wal';
const MAX_WAL = 32 * MB;
const ENOUGH = 6;
/** In a storm of less than this, memory is still being filled for the first time. */
const SHORTEST_MS = 8 * 60_000;

export class Samples {
  /** {at, work, rss, files: name -> bytes} */
  list = [];
  #plateauFrom = Infinity;
  #stormUntil = Infinity;

  constructor(storm) {
    this.storm = storm;
  }

  take() {
    const rss = resident(this.storm.pid);
    if (rss === null) return; // it is being killed
    const files = { 'sessync state': this.storm.sessync.size() };
    for (const name of readdirSync(this.storm.data)) {
      if (/\.(db|db-wal|jsonl)$/.test(name)) files[name] = statSync(join(this.storm.data, name), { throwIfNoEntry: false })?.size ?? 0;
    }
    const work = this.storm.loads.reduce((sum, load) => sum + load.done, 0);
    this.list.push({ at: Date.now(), work, rss, files });
  }

  /** From now on nothing new is asked for. */
  stormIsOver() {
    this.#stormUntil = Date.now();
  }

  plateauBegins() {
    this.#plateauFrom = Date.now();
  }

  /** Are there enough samples to compare thirds? */
  get isEnough() {
    const [plateau, storm] = [this.list.filter(({ at }) => at >= this.#plateauFrom), this.list.filter(({ at }) => at <= this.#stormUntil)];
    return plateau.length >= ENOUGH && storm.length >= ENOUGH;
  }

  shown() {
    const last = this.list.at(-1);
    if (!last) return '';
    return `${Math.round(last.rss / MB)} MB, files ${(Object.values(last.files).reduce((a, b) => a + b, 0) / MB).toFixed(1)} MB`;
  }

  books(account) {
    const plateau = this.list.filter(({ at }) => at >= this.#plateauFrom);
    const storm = this.list.filter(({ at }) => at <= this.#stormUntil);
    if (!this.isEnough) {
      account.wrong(`there are only ${storm.length} samples of the storm and ${plateau.length} of the plateau`);
      return;
    }
    const third = (list, n) => list.slice(Math.floor((list.length * n) / 3), Math.floor((list.length * (n + 1)) / 3));
    const names = [...new Set(this.list.flatMap(({ files }) => Object.keys(files)))].sort();
    const things = [['memory', ({ rss }) => rss, PLATEAU_MEMORY, SLACK.memory], ...names.map((name) => [name, ({ files }) => files[name] ?? 0, name === 'dynamodb.db' ? PLATEAU_DATABASE : PLATEAU_FILE, SLACK.file])];
    account.line('pieces of work: files, entries, transfers, lines, messages', storm.at(-1).work);
    for (const [name, of, mayGrow, slack] of things) {
      const at = (list) => median(list.map(of));
      const [before, after] = [at(third(plateau, 0)), at(third(plateau, 2))];
      account.line(`MB of ${name} on the plateau, which repeats what was done (before it, the most was ${mb(Math.max(...storm.map(of)))})`, mb(after));
      if (name === WAL) {
        const most = Math.max(...this.list.map(of));
        if (most > MAX_WAL) account.wrong(`${name} grew to ${mb(most)} MB; SQLite did not write it back`);
        continue;
      }
      if (after - before > mayGrow) account.wrong(`${name} grew from ${mb(before)} to ${mb(after)} MB while only old requests were repeated`);
      if (storm.at(-1).at - storm[0].at < SHORTEST_MS || name === 'invocations.jsonl') continue;
      const parts = [0, 1, 2].map((n) => third(storm, n));
      const [first, second] = [[0, 1], [1, 2]].map(([from, to]) => {
        const work = median(parts[to].map((sample) => sample.work)) - median(parts[from].map((sample) => sample.work));
        return { grew: at(parts[to]) - at(parts[from]), work };
      });
      account.line(`bytes of ${name} per piece of work, from the first to the second third and from the second to the third`, [first, second].map(({ grew, work }) => Math.round(grew / Math.max(1, work))).join(', '));
      const allowed = Math.max(0, first.grew / Math.max(1, first.work)) * FASTER * second.work + slack;
      if (second.grew > allowed) account.wrong(`${name} grew by ${mb(second.grew)} MB in the last part of the storm, and by ${mb(first.grew)} MB in the part before it`);
    }
  }

  write() {
    const { reports, seed, kills, phases } = this.storm;
    writeFileSync(join(reports, 'samples.json'), JSON.stringify({ seed, kills, samples: this.list }));
    const series = (name, of) => ({ name, points: this.list.map((sample) => [sample.at, of(sample) / MB]) });
    const names = [...new Set(this.list.flatMap(({ files }) => Object.keys(files)))].sort();
    const panels = [
      { title: 'Memory of the platform', unit: 'MB', series: [series('resident', ({ rss }) => rss)] },
      { title: 'Files', unit: 'MB', series: names.map((name) => series(name, ({ files }) => files[name] ?? 0)) },
      { title: 'Work done', unit: 'pieces', series: [{ name: 'files, entries, transfers, lines, messages', points: this.list.map(({ at, work }) => [at, work]) }] },
    ];
    writeFileSync(join(reports, 'memory.svg'), svg({ title: `Storm with SEED=${seed}: kills are red, faults are grey`, panels, kills, phases }));
  }
}

const mb = (bytes) => (bytes / MB).toFixed(1);

function median(list) {
  const sorted = [...list].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

/** The resident memory of a process in bytes, or null if there is no such process. */
function resident(pid) {
  try {
    if (process.platform === 'linux') return Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? NaN) * 1024 || null;
    return Number(execFileSync('ps', ['-o', 'rss=', '-p', String(pid)], { encoding: 'utf8' })) * 1024 || null;
  } catch {
    return null;
  }
}
