// A platform of one's own on free ports, for tests that drive it from outside.
import { spawn } from 'node:child_process';

export const BINARY = process.env.ICHIDO_LOCAL ?? new URL('../target/debug/ichido-local', import.meta.url).pathname;
/** Far longer than it takes: a debug build on a busy machine. */
export const PATIENCE_MS = 60_000;

/** Starts a platform that keeps nothing; with `--data DIR` among the options, one that does. */
export const start = (...options) => startWith({}, ...options);

/** The same with variables of its own. */
export const startWith = (variables, ...options) => launch({ variables, options });

/** The same, with its messages in a file (`messages`: a file descriptor), or in a process group of its own, which Ctrl-C does not reach. */
export async function launch({ variables = {}, options = [], messages = 'inherit', detached = false }) {
  const kept = options.includes('--data') ? [] : ['--memory'];
  const child = spawn(BINARY, [...kept, '--no-demo', '--port', '0', '--dynamodb-port', '0', '--tls-port', '0', ...options], { stdio: ['ignore', 'pipe', messages], env: { ...process.env, ...variables }, detached });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  const url = await new Promise((resolve, reject) => {
    let said = '';
    const timer = setTimeout(() => { child.kill('SIGKILL'); reject(new Error(`the platform does not start: ${said}`)); }, PATIENCE_MS);
    child.stdout.on('data', (part) => {
      said += part;
      const found = /^ +console +(http:\S+)/m.exec(said);
      if (found) { clearTimeout(timer); resolve(found[1]); }
    });
    child.once('exit', (code) => { clearTimeout(timer); reject(new Error(`the platform ended with ${code}: ${said}`)); });
  });
  return { url, pid: child.pid, stop: async (signal = 'SIGTERM') => { child.kill(signal); return ended; } };
}

/** Waits until `look()` answers something true. */
export async function eventually(what, look) {
  for (let tries = 0; tries < 600; tries += 1) {
    const found = await look();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`never seen: ${what}`);
}

export const json = async (url, options) => (await fetch(url, options)).json();
