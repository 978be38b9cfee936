// An AWS that answers what a test says, for the commands in cli/.
import { spawn } from 'node:child_process';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { infra } from '../template.ts';

export interface Call {
  /** `AmazonSSM.PutParameter`; `sts` for the one call without a target. */
  target: string;
  body: any;
}

const IDENTITY = '<GetCallerIdentityResponse><GetCallerIdentityResult><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>';

/** Runs `use` while AWS answers as `answers` says; what it was asked. An answer with `__type` is an error. */
export async function withAws(answers: (call: Call) => object, use: (url: string) => Promise<void>): Promise<Call[]> {
  const calls: Call[] = [];
  const server = http.createServer(async (request, answer) => {
    let text = '';
    for await (const part of request) text += part;
    const target = String(request.headers['x-amz-target'] ?? 'sts');
    const call = { target, body: target === 'sts' ? text : JSON.parse(text) };
    calls.push(call);
    if (target === 'sts') return answer.end(IDENTITY);
    const body: any = answers(call);
    answer.statusCode = body.__type === undefined ? 200 : 400;
    answer.end(JSON.stringify(body));
  });
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  try {
    await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.close();
  }
  return calls;
}

/** Runs a command of cli/ as make does, against this AWS, with this input. */
export function command(name: string, url: string, env: Record<string, string>, input = ''): Promise<{ code: number | null; out: string; err: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ['--import', 'tsx', `cli/${name}.ts`], {
      cwd: infra,
      timeout: 60_000,
      env: { PATH: process.env.PATH, AWS_ENDPOINT_URL: url, AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test', ...env },
    });
    let [out, err] = ['', ''];
    child.stdout.on('data', (d) => (out += d));
    child.stderr.on('data', (d) => (err += d));
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, out, err }));
    child.stdin.on('error', () => {}); // it may end without reading
    child.stdin.end(input);
  });
}
