// The local AWS of this test. It enforces IAM. A proxy in front of it makes requests look like TLS, which the CDK's bucket and our
// queues require.
import { spawn, type ChildProcess } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import path from 'node:path';
import { root } from '../../infra/template.ts';

/** How long it may take to start, on a busy machine. */
const START_MS = 60_000;

export interface LocalAws {
  /** Through the proxy, as if over TLS. */
  url: string;
  /** Without the proxy: plain HTTP. */
  plain: string;
  log: string;
  stop(): Promise<void>;
}

/** A free port may be taken by somebody else before it is used: then another one is tried. */
const ATTEMPTS = 3;

export async function startLocalAws(log: string): Promise<LocalAws> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await start(await freePort(), log);
    } catch (error) {
      if (attempt === ATTEMPTS) throw error;
    }
  }
}

async function start(port: number, log: string): Promise<LocalAws> {
  const proxy = await startProxy(port);
  const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  fs.mkdirSync(path.dirname(log), { recursive: true });
  const out = fs.openSync(log, 'w');
  const child = spawn(path.join(root, 'target', 'venv', 'bin', 'ministack'), {
    detached: true, // a group of its own, so that the functions that it runs end with it
    stdio: ['ignore', out, out],
    env: {
      PATH: process.env.PATH, HOME: process.env.HOME, TMPDIR: process.env.TMPDIR,
      BIND_HOST: '127.0.0.1', GATEWAY_PORT: String(port), MINISTACK_REGION: 'ap-northeast-1', AWS_ENDPOINT_URL: url, AUTH: 'true',
    },
  });
  fs.closeSync(out);
  endWithUs(child);
  const stop = async () => {
    proxy.closeAllConnections();
    proxy.close();
    await end(child);
  };
  try {
    await until(START_MS, () => connects(port), () => {
      if (child.exitCode !== null) throw new Error(`the local AWS ended at once; see ${log}`);
    });
  } catch (error) {
    await stop();
    throw error;
  }
  return { url, plain: `http://127.0.0.1:${port}`, log, stop };
}

/** Forwards every request and says that it came over TLS. */
async function startProxy(port: number): Promise<http.Server> {
  const agent = new http.Agent({ keepAlive: true });
  const server = http.createServer((request, response) => {
    const headers = { ...request.headers, 'x-forwarded-proto': 'https' };
    const call = http.request({ host: '127.0.0.1', port, method: request.method, path: request.url, headers, agent }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    call.on('error', (error) => {
      if (!response.headersSent) response.writeHead(502);
      response.end(String(error));
    });
    request.pipe(call);
  });
  server.on('close', () => agent.destroy());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

/** It must stop with this process, however that ends. */
function endWithUs(child: ChildProcess) {
  process.on('exit', () => {
    if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
    try {
      process.kill(-child.pid, 'SIGKILL');
    } catch {
      // it is gone
    }
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1));
}

async function end(child: ChildProcess) {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  process.kill(-child.pid, 'SIGTERM');
  const killer = setTimeout(() => process.kill(-child.pid!, 'SIGKILL'), 5_000);
  await gone;
  clearTimeout(killer);
}

async function freePort(): Promise<number> {
  const server = net.createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

function connects(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1');
    socket.once('connect', () => { socket.destroy(); resolve(true); });
    socket.once('error', () => resolve(false));
  });
}

/** Polls until a condition holds; `watch` may give up earlier. */
export async function until<T>(ms: number, ask: () => Promise<T | undefined | false>, watch: () => void = () => {}): Promise<T> {
  const deadline = performance.now() + ms;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    watch();
    if (performance.now() > deadline) throw new Error(`not within ${ms / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
