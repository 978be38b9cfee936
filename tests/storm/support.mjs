// What the loads have in common.
import { spawn } from 'node:child_process';

/** Runs a program to its end, or kills it after `ms`, or on purpose after `killAfter` milliseconds. */
export function run(program, options, { ms = 60_000, killAfter, ...how } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, options, { stdio: ['ignore', 'pipe', 'pipe'], ...how });
    let [out, err, killed] = ['', '', false];
    const timer = setTimeout(() => { killed = true; child.kill('SIGKILL'); }, Math.min(ms, killAfter ?? ms));
    child.stdout.on('data', (part) => { out += part; });
    child.stderr.on('data', (part) => { err += part; });
    child.once('error', (error) => { clearTimeout(timer); reject(error); });
    child.once('close', (code) => { clearTimeout(timer); resolve({ code, out, err, killed }); });
  });
}

/** One application's part of the books. */
export class Account {
  lines = [];
  problems = [];

  constructor(name) {
    this.name = name;
  }

  /** Something that was counted. */
  line(what, count) {
    this.lines.push([what, String(count)]);
  }

  /** Something that a promise allows: told by name, if it happened. */
  named(what, count) {
    if (count > 0) this.line(`· ${what}`, count);
  }

  /** Something that no promise allows. */
  wrong(what) {
    this.problems.push(what);
  }

  toString() {
    const rows = this.lines.map(([what, count]) => `  ${count.padStart(12)}  ${what}`);
    return [`${this.name}: ${this.problems.length === 0 ? 'balances' : `${this.problems.length} WRONG`}`, ...rows].join('\n');
  }
}
