// A local platform of this run's own, on free ports and in memory.
import { spawn } from 'node:child_process';
import path from 'node:path';
import { root } from '../template.ts';

const START_MS = 60_000;

export interface Platform {
  url: string;
  stop(): Promise<unknown>;
}

export async function startPlatform(): Promise<Platform> {
  const binary = process.env.ICHIDO_LOCAL || path.join(process.env.CARGO_TARGET_DIR || path.join(root, 'target'), 'debug', 'ichido-local');
  // The variables of the local AWS are not for the platform's functions.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('AWS_')));
  const child = spawn(binary, ['--memory', '--no-demo', '--port', '0', '--dynamodb-port', '0', '--tls-port', '0'], { cwd: root, stdio: ['ignore', 'pipe', 'ignore'], env });
  process.on('exit', () => child.kill('SIGKILL'));
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const url = await new Promise<string>((resolve, reject) => {
    let text = '';
    const timer = setTimeout(() => reject(new Error(`the local platform did not start within ${START_MS / 1000} s: ${text}`)), START_MS);
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`the local platform ended with ${code}: ${text}`)));
    child.stdout.on('data', (part) => {
      text += part;
      const found = /^ +console +(http:\S+)/m.exec(text)?.[1];
      if (found === undefined) return;
      clearTimeout(timer);
      resolve(found);
    });
  });
  return { url, stop: () => { child.kill('SIGTERM'); return ended; } };
}
