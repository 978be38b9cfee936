// The overview under load: a server of its own replays a recorded stream (stream.jsonl: requests, decisions, effects and invocations of
// Slack events that came many times) at a given rate, with new ids and times. The front end is the console's, from its files.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { CHROMIUM, FLAGS } from '../../tests/browser/support.mjs';

const { chromium } = createRequire(new URL('../../tests/browser/package.json', import.meta.url))('playwright-core');
const option = (name, otherwise) => { const at = process.argv.indexOf(`--${name}`); return at < 0 ? otherwise : Number(process.argv[at + 1]); };
const [rate, seconds] = [option('rate', 2000), option('seconds', 60)];
const WEB = new URL('../../crates/console/web/', import.meta.url);
const TURN_MS = 20;
const stream = (await readFile(new URL('stream.jsonl', import.meta.url), 'utf8')).trim().split('\n').map((line) => JSON.parse(line));

const frame = { environment: 'replay', capabilities: ['overview', 'live'], pages: [{ name: 'overview', title: 'Overview', path: '/', group: 'Watch' }], addresses: [], breakable: [] };
let sent = 0;
const series = () => Array.from({ length: 60 }, () => Math.round(rate * 5 * Math.random()));
const overview = () => ({
  at: new Date().toISOString(), from: new Date(Date.now() - 300_000).toISOString(), stepSeconds: 5,
  rates: { arrived: series(), new: series(), duplicate: series(), inFlight: series(), effects: series(), failures: series() },
  latency: ['slack-events', 'slack-files'].map((name) => ({ function: name, count: sent, p50: 4, p99: 20, p50ByStep: series(), p99ByStep: series() })),
  store: { calls: series(), errors: series(), p50: 1, p99: 4 }, breakers: [], outages: [{ what: 'dynamodb', how: 'throttle', from: new Date(Date.now() - 120_000).toISOString(), to: null }], alarms: { OK: 20 }, deadLetters: 0,
});

const server = createServer(async (request, response) => {
  const { pathname } = new URL(request.url, 'http://localhost');
  const json = (value) => response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  if (pathname === '/_console/frame') return json(frame);
  if (pathname === '/_console/overview') return json(overview());
  if (pathname === '/_console/events') {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const began = Date.now();
    let told = 0;
    const timer = setInterval(() => {
      const due = Math.floor(((Date.now() - began) / 1000) * rate);
      let text = '';
      for (; told < due; told += 1) text += `id: ${told + 1}\ndata: ${JSON.stringify({ ...stream[told % stream.length], id: told + 1, at: new Date().toISOString() })}\n\n`;
      sent = told;
      response.write(text);
    }, TURN_MS);
    return request.once('close', () => clearInterval(timer));
  }
  if (pathname === '/') return response.writeHead(200, { 'content-type': 'text/html' }).end((await readFile(new URL('index.html', WEB), 'utf8')).replace('%BASE%', '/'));
  try {
    const text = await readFile(new URL(pathname.replace(/^\/console\//, ''), WEB));
    return response.writeHead(200, { 'content-type': pathname.endsWith('.css') ? 'text/css' : 'text/javascript' }).end(text);
  } catch { return response.writeHead(404).end(); }
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));

const browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
const devtools = await page.context().newCDPSession(page);
await devtools.send('Performance.enable');
const heap = async () => {
  await devtools.send('HeapProfiler.collectGarbage');
  const { metrics } = await devtools.send('Performance.getMetrics');
  const of = (name) => metrics.find((metric) => metric.name === name).value;
  return { mb: of('JSHeapUsedSize') / 2 ** 20, nodes: of('Nodes') };
};
await page.goto(`http://127.0.0.1:${server.address().port}/`);
await page.locator('#feed li').first().waitFor();
await page.waitForTimeout(3000);
const before = await heap();
const from = sent;
const frames = await page.evaluate((ms) => new Promise((resolve) => {
  const begin = performance.now();
  let last = begin;
  let count = 0;
  let longest = 0;
  requestAnimationFrame(function next(now) {
    count += 1;
    longest = Math.max(longest, now - last);
    last = now;
    if (now - begin < ms) requestAnimationFrame(next); else resolve({ perSecond: (count * 1000) / (now - begin), longest });
  });
}), seconds * 1000);
const events = sent - from;
const after = await heap();
process.stdout.write(`${events} events in ${seconds} s (${Math.round(events / seconds)} a second)
frames per second   ${frames.perSecond.toFixed(1)} (the longest frame took ${Math.round(frames.longest)} ms)
JavaScript heap     ${before.mb.toFixed(1)} MB before, ${after.mb.toFixed(1)} MB after, each after a collection
DOM nodes           ${before.nodes} before, ${after.nodes} after
`);
await browser.close();
server.closeAllConnections();
server.close();
