// Starts each contender RUNS times, alternating, with a Runtime API and a TLS store of its own on loopback, and reports medians.
//
// Both get the same signed Slack event and read their secret from SSM. Rust then claims, hands over and completes; Node, which has the seed's
// logic, marks and hands over: one call less. Both open their own connections; nothing is kept between starts.
import { spawn } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import path from 'node:path';

const [binary, out] = process.argv.slice(2);
const RUNS = Number(process.env.RUNS ?? 20);
const LIMIT_MS = 20_000;
const WANTED = { times: 25, megabytes: 12 };
const secret = 'cold-start-bench';

/** DynamoDB, SSM and Lambda, as far as a door asks them. */
const store = https.createServer({ key: fs.readFileSync(path.join(out, 'key.pem')), cert: fs.readFileSync(path.join(out, 'cert.pem')) }, async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const target = request.headers['x-amz-target'] ?? '';
  const body = Buffer.concat(parts).toString();
  let answer = '{}';
  if (target.endsWith('.GetParameters')) {
    answer = JSON.stringify({ Parameters: JSON.parse(body).Names.map((Name) => ({ Name, Type: 'SecureString', Value: secret, Version: 1 })), InvalidParameters: [] });
  }
  if (request.url.includes('/invocations')) response.statusCode = 202;
  response.setHeader('content-type', target.startsWith('AmazonSSM') ? 'application/x-amz-json-1.1' : 'application/x-amz-json-1.0');
  if (target.startsWith('DynamoDB')) response.setHeader('x-amz-crc32', crc32(answer));
  response.end(answer);
});

function crc32(text) {
  let crc = ~0;
  for (const byte of Buffer.from(text)) {
    crc ^= byte;
    for (let k = 0; k < 8; k++) crc = (crc >>> 1) ^ (0xedb88320 & -(crc & 1));
  }
  return String(~crc >>> 0);
}

/** Lambda's Runtime API for one invocation. */
function runtime() {
  let done;
  const answered = new Promise((resolve) => (done = resolve));
  const server = http.createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    if (request.url.endsWith('/next')) {
      if (server.given) return; // the second one waits until the end
      server.given = true;
      response.setHeader('Lambda-Runtime-Aws-Request-Id', crypto.randomUUID());
      response.setHeader('Lambda-Runtime-Deadline-Ms', String(Date.now() + LIMIT_MS));
      response.setHeader('Lambda-Runtime-Invoked-Function-Arn', 'arn:aws:lambda:ap-northeast-1:000000000000:function:slack-events:live');
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(event()));
      return;
    }
    done({ at: performance.now(), ok: request.url.endsWith('/response'), body: Buffer.concat(parts).toString() });
    response.statusCode = 202;
    response.end('{}');
  });
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve({ server, answered })));
}

let serial = 0;
function event() {
  serial += 1;
  const seconds = Math.floor(Date.now() / 1000);
  const body = JSON.stringify({
    type: 'event_callback', team_id: 'T1', event_id: `Ev${serial}`, event_time: seconds,
    event: { type: 'message', subtype: 'file_share', channel: 'C1', user: 'U1', ts: `${seconds}.000100`, files: [{ id: `F${serial}`, name: 'a.pdf', mimetype: 'application/pdf', size: 10 }] },
  });
  const signature = crypto.createHmac('sha256', secret).update(`v0:${seconds}:${body}`).digest('hex');
  return {
    version: '2.0', routeKey: 'POST /slack/events', rawPath: '/slack/events', rawQueryString: '', isBase64Encoded: false, body,
    headers: { 'content-type': 'application/json', 'x-slack-request-timestamp': String(seconds), 'x-slack-signature': `v0=${signature}` },
    requestContext: { accountId: '0', apiId: 'x', domainName: 'x', requestId: 'r', routeKey: 'POST /slack/events', stage: '$default', time: '', timeEpoch: seconds * 1000, http: { method: 'POST', path: '/slack/events', protocol: 'HTTP/1.1', sourceIp: '192.0.2.1', userAgent: 'Slackbot' } },
  };
}

async function start(command, args, env) {
  const { server, answered } = await runtime();
  const began = performance.now();
  const child = spawn(command, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env.PATH, AWS_LAMBDA_RUNTIME_API: `127.0.0.1:${server.address().port}`, AWS_REGION: 'ap-northeast-1', AWS_ACCESS_KEY_ID: 'x', AWS_SECRET_ACCESS_KEY: 'x',
      AWS_LAMBDA_FUNCTION_NAME: 'slack-events', AWS_LAMBDA_FUNCTION_VERSION: '1', AWS_LAMBDA_FUNCTION_MEMORY_SIZE: '256', AWS_LAMBDA_LOG_GROUP_NAME: 'x', AWS_LAMBDA_LOG_STREAM_NAME: 'x',
      AWS_ENDPOINT_URL: `https://127.0.0.1:${store.address().port}`, DEDUP_TABLE_NAME: 'events', LOG_LEVEL: 'error', ...env,
    },
  });
  let said = '';
  child.stdout.on('data', (d) => (said += d));
  child.stderr.on('data', (d) => (said += d));
  const failed = new Promise((resolve) => {
    child.once('exit', (code) => resolve({ ok: false, body: `ended with ${code}: ${said}` }));
    setTimeout(() => resolve({ ok: false, body: `no answer within ${LIMIT_MS} ms: ${said}` }), LIMIT_MS).unref();
  });
  const answer = await Promise.race([answered, failed]);
  const megabytes = answer.ok ? Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${child.pid}/status`, 'utf8'))[1]) / 1024 : 0;
  child.removeAllListeners('exit');
  child.kill('SIGKILL');
  server.closeAllConnections();
  server.close();
  if (!answer.ok || JSON.parse(answer.body).statusCode !== 200) throw new Error(`${command} did not accept the event: ${answer.body}`);
  return { ms: answer.at - began, megabytes };
}

const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];

await new Promise((resolve) => store.listen(0, '127.0.0.1', resolve));
const cert = path.resolve(out, 'ca.pem');
const contenders = {
  'Rust': () => start(path.resolve(binary), [], {
    SSL_CERT_FILE: cert, DEDUP_FALLBACK: 'closed', SLACK_BOT_ID: 'B1', SLACK_BOT_USER_ID: 'U9', SLACK_SIGNING_SECRET_PARAMETER: '/bench/signing-secret',
    SLACK_FILES_FUNCTION: 'arn:aws:lambda:ap-northeast-1:000000000000:function:slack-files:live',
  }),
  'Node 20': () => start(process.execPath, [path.join(out, 'handler.mjs')], { NODE_EXTRA_CA_CERTS: cert, SLACK_SIGNING_SECRET_PARAMETER: '/bench/signing-secret', SLACK_FILES_FUNCTION: 'slack-files', AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true' }),
};
const results = Object.fromEntries(Object.keys(contenders).map((name) => [name, []]));
for (let i = 0; i <= RUNS; i++) {
  for (const [name, run] of Object.entries(contenders)) {
    const result = await run();
    if (i > 0) results[name].push(result); // the first one only warms the page cache
  }
}
console.log(`process start to first response, ${RUNS} starts each, TLS store on loopback (node ${process.version})\n`);
console.log('             median ms    p90 ms   resident MB');
for (const [name, runs] of Object.entries(results)) {
  const ms = runs.map((r) => r.ms).sort((a, b) => a - b);
  console.log(`${name.padEnd(12)}${median(ms).toFixed(1).padStart(10)}${ms[Math.floor(ms.length * 0.9)].toFixed(1).padStart(10)}${median(runs.map((r) => r.megabytes)).toFixed(1).padStart(14)}`);
}
const times = median(results['Node 20'].map((r) => r.ms)) / median(results.Rust.map((r) => r.ms));
const megabytes = median(results.Rust.map((r) => r.megabytes));
console.log(`\nRust starts ${times.toFixed(1)} times faster (wanted: ${WANTED.times}) in ${megabytes.toFixed(1)} MB (wanted: under ${WANTED.megabytes})`);
store.closeAllConnections();
store.close();
