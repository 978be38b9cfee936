// sessync: two projects whose session logs grow while sessync uploads them, and is itself killed now and then. The books: every line is in
// BigQuery once.
import { appendFile, mkdir, writeFile } from 'node:fs/promises';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { run } from './support.mjs';

const PROJECTS = ['orchard', 'harbour'];
/** A batch may be tried for five minutes. Whatever takes longer than that and a little is a fault. */
const RUN_MS = 6 * 60_000;

export class SessyncLoad {
  name = 'sessync';
  /** Every uuid that a log has. */
  lines = { orchard: new Set(), harbour: new Set() };
  #copied = 0;
  #runs = { done: 0, failed: 0, killed: 0 };

  constructor(storm) {
    this.storm = storm;
    this.home = join(storm.directory, 'sessync');
  }

  get done() {
    return this.lines.orchard.size + this.lines.harbour.size;
  }

  status() {
    return `${this.done} lines`;
  }

  #project(name) {
    const cwd = join(this.home, name);
    return { cwd, logs: join(this.home, 'claude', 'projects', cwd.replace(/[^A-Za-z0-9]/g, '-')) };
  }

  async load() {
    for (const name of PROJECTS) {
      const { cwd, logs } = this.#project(name);
      await mkdir(join(cwd, '.claude', 'sessync'), { recursive: true });
      await mkdir(logs, { recursive: true });
      const config = { project_id: 'storm', dataset: 'logs', table: name, developer_id: 'me', user_email: 'me@example.com', upload_batch_size: 50 };
      await writeFile(join(cwd, '.claude', 'sessync', 'config.json'), JSON.stringify(config));
    }
    await Promise.all(PROJECTS.flatMap((name) => [this.#write(name), this.#upload(name)]));
  }

  async #write(name) {
    const { storm } = this;
    const { dice } = storm;
    const { logs, cwd } = this.#project(name);
    let session = 1;
    let kept = [];
    let half = '';
    const file = () => join(logs, `session-${session}.jsonl`);
    while (!storm.isOver) {
      let text = half;
      half = '';
      for (let left = Math.round(dice.between(1, 12)); left > 0; left -= 1) {
        const uuid = `${name}-${this.lines[name].size + 1}`;
        const line = { uuid, timestamp: new Date().toISOString(), sessionId: `s${session}`, type: 'user', cwd, message: { role: 'user', content: `line ${uuid} ${'x'.repeat(Math.round(dice.between(0, 400)))}` } };
        kept.push(line);
        text += `${JSON.stringify(line)}\n`;
        this.lines[name].add(uuid);
      }
      // A line that is still being written: its end comes with the next ones.
      if (dice.happens(0.3)) {
        const at = text.length - Math.round(dice.between(2, 60));
        half = text.slice(at);
        text = text.slice(0, at);
      }
      await appendFile(file(), text);
      // Now and then the session is resumed: a new file begins with the lines of the old one, under a new session id.
      if (dice.happens(0.03)) {
        await appendFile(file(), half);
        half = '';
        session += 1;
        const copies = kept.slice(-60);
        this.#copied += copies.length;
        kept = copies.map((line) => ({ ...line, sessionId: `s${session}` }));
        await appendFile(file(), kept.map((line) => `${JSON.stringify(line)}\n`).join(''));
      }
      await storm.sleep(dice.between(800, 3_000));
    }
    await appendFile(file(), half);
  }

  #sessync(name, options, killAfter) {
    const { cwd } = this.#project(name);
    const env = { ...process.env, BIGQUERY_EMULATOR_HOST: this.storm.url.replace('http://', ''), CLAUDE_CONFIG_DIR: join(this.home, 'claude'), XDG_STATE_HOME: join(this.home, 'state'), SESSYNC_TRUST: '1' };
    return run(this.storm.tools.sessync, options, { cwd, env, ms: RUN_MS, killAfter });
  }

  async #upload(name) {
    const { storm } = this;
    while (!storm.isOver) {
      const killAfter = storm.dice.happens(0.2) ? storm.dice.between(10, 1_500) : undefined;
      const { code, killed } = await this.#sessync(name, [], killAfter);
      this.#runs[killed ? 'killed' : code === 0 ? 'done' : 'failed'] += 1;
      await storm.sleep(storm.dice.between(500, 5_000));
    }
  }

  async settle() {
    for (const name of PROJECTS) {
      await this.storm.eventually(`the logs of ${name} uploaded`, async () => {
        const { code, out } = await this.#sessync(name, []);
        return code === 0 && out.startsWith('Nothing to do');
      });
    }
  }

  /** An upload with nothing new. */
  async repeat() {
    await this.#sessync(PROJECTS[0], []);
  }

  async books(account) {
    let written = 0;
    let rows = 0;
    for (const name of PROJECTS) {
      const counts = await this.#rows(name);
      written += this.lines[name].size;
      for (const uuid of this.lines[name]) if (counts.get(uuid) !== 1) account.wrong(`line ${uuid} is in BigQuery ${counts.get(uuid) ?? 0} times`);
      for (const [uuid, count] of counts) {
        rows += count;
        if (!this.lines[name].has(uuid)) account.wrong(`${uuid} is in BigQuery and in no log`);
      }
      const verified = await this.#sessync(name, ['verify']);
      if (verified.code !== 0) account.wrong(`sessync verify in ${name}: ${verified.out}${verified.err}`);
      const dead = files(join(this.#project(name).cwd, '.claude')).filter((file) => file.endsWith('dead-letters.jsonl'));
      if (dead.length > 0) account.wrong(`sessync set lines aside: ${dead}`);
    }
    account.line('lines in the logs', written);
    account.line('rows in BigQuery', rows);
    account.named('lines that a resumed session repeats', this.#copied);
    account.line('uploads that ended well', this.#runs.done);
    account.named('uploads that BigQuery failed', this.#runs.failed);
    account.named('uploads that were killed', this.#runs.killed);
  }

  /** How often BigQuery has each uuid, asked with the statement that sessync makes. */
  async #rows(name) {
    const counts = new Map();
    const ask = async (path, options) => (await this.storm.http(`/bigquery/v2/projects/storm/queries${path}`, { ms: 30_000, ...options })).json;
    let page = await ask('', {
      method: 'POST', headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ query: `SELECT uuid, COUNT(*) AS n FROM \`storm.logs.${name}\` GROUP BY uuid`, useLegacySql: false }),
    });
    for (;;) {
      for (const { f: [uuid, count] } of page.rows ?? []) counts.set(uuid.v, Number(count.v));
      if (!page.pageToken) return counts;
      page = await ask(`/${page.jobReference.jobId}?pageToken=${page.pageToken}`, {});
    }
  }

  /** The bytes of all states. */
  size() {
    return PROJECTS.flatMap((name) => files(join(this.#project(name).cwd, '.claude'))).reduce((total, file) => total + (statSync(file, { throwIfNoEntry: false })?.size ?? 0), 0);
  }
}

function files(directory) {
  try {
    return readdirSync(directory, { withFileTypes: true, recursive: true }).filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath ?? entry.path, entry.name));
  } catch {
    return []; // not made yet, or changed while it was read
  }
}
