// Where the JavaScript client subscribes, and what it says when it cannot. No platform: a simulated group (world.mjs), and sockets of one's own.
import assert from 'node:assert/strict';
import net from 'node:net';
import { test } from 'node:test';
import WebSocket from 'ws';
import { Mesh } from '../../clients/mesh/mesh.js';
import { World } from './world.mjs';

const ID = 'abcdefghijklmnopqrstuvwxyz';
const ENDPOINT = `https://${ID}.appsync-api.ap-northeast-1.amazonaws.com/graphql`;
const REALTIME = `wss://${ID}.appsync-realtime-api.ap-northeast-1.amazonaws.com/graphql`;

test('the client subscribes where AppSync serves subscriptions of its endpoint', () => {
  const realtime = (endpoint, options) => new Mesh({ endpoint, apiKey: 'key', ...options }).realtime;
  assert.equal(realtime(ENDPOINT), REALTIME, 'the output MeshEndpoint of a deployment');
  assert.equal(realtime(`${ENDPOINT}/`), REALTIME);
  assert.equal(realtime(`https://${ID}.appsync-api.cn-north-1.amazonaws.com.cn/graphql`), `wss://${ID}.appsync-realtime-api.cn-north-1.amazonaws.com.cn/graphql`);
  assert.equal(realtime('https://mesh.example.com/graphql'), 'wss://mesh.example.com/graphql/realtime', 'a custom domain');
  assert.equal(realtime('http://127.0.0.1:8787/graphql'), 'ws://127.0.0.1:8787/graphql/realtime', 'the local platform');
  assert.equal(realtime(ENDPOINT, { realtime: 'wss://elsewhere.example.com/x' }), 'wss://elsewhere.example.com/x');
});

test('a failure of AppSync itself is tried again, and what it refuses is not', async () => {
  const answers = (list) => {
    const asked = [];
    const fetch = async (_url, { body }) => {
      const { status, text } = list[Math.min(asked.length, list.length - 1)];
      asked.push(body);
      return { status, json: async () => JSON.parse(text) };
    };
    // Pauses take no time, and the time limit of a request never comes.
    const machine = { setTimeout: (work, ms) => (ms >= 10_000 ? null : setTimeout(work, 0)), clearTimeout, now: Date.now, random: () => 0 };
    return { asked, mesh: new Mesh({ endpoint: ENDPOINT, apiKey: 'key', fetch, machine }) };
  };
  const failure = JSON.stringify({ errors: [{ errorType: 'InternalFailure', message: 'try again' }] });
  const blocked = JSON.stringify({ errors: [{ errorType: 'WAFForbiddenException', message: 'too many requests' }] });
  const made = { status: 200, text: JSON.stringify({ data: { createDomain: 'd' } }) };
  const later = answers([{ status: 500, text: failure }, { status: 429, text: failure }, { status: 403, text: blocked }, made]);
  assert.equal(await later.mesh.createDomain(), 'd');
  assert.equal(later.asked.length, 4);
  assert.equal(new Set(later.asked).size, 1, 'every attempt is the same, so that a messageId is');
  const never = answers([{ status: 503, text: '<html>' }]);
  await assert.rejects(never.mesh.createDomain(), { type: 'Unavailable', message: 'The mesh cannot be reached: status 503' });
  const refused = answers([{ status: 401, text: JSON.stringify({ errors: [{ errorType: 'UnauthorizedException', message: 'no' }] }) }]);
  await assert.rejects(refused.mesh.createDomain(), { type: 'UnauthorizedException' });
  assert.equal(refused.asked.length, 1);
});

/** A host in a simulated group; `Socket` is its WebSocket. What it warns of is in `warnings`. */
async function host(world, Socket, { endpoint = ENDPOINT, useWebSocket = true } = {}) {
  const warnings = [];
  const mesh = new Mesh({ endpoint, apiKey: 'key', fetch: world.fetch({ down: false }), WebSocket: Socket, warn: (text) => warnings.push(text), machine: world.machine });
  if (!Socket) mesh.WebSocket = undefined; // Node 22 has one of its own
  const entering = mesh.host({ name: 'class', domain: 'home', hostId: 'teacher', useWebSocket });
  await world.time.until(world.time.now + 20_000);
  return { membership: await entering, warnings };
}

/** Sockets that are closed at once, as by a server that does not know the path. */
const closing = (opened = []) => class {
  constructor(url) {
    opened.push(url);
    setImmediate(() => this.onclose?.({ code: 1006 }));
  }
  close() {}
};

test('it opens the realtime host and signs for the API\'s', async () => {
  const opened = [];
  const { membership } = await host(new World(1), closing(opened));
  membership.drop();
  const url = new URL(opened[0]);
  assert.equal(`${url.origin}${url.pathname}`, REALTIME);
  assert.deepEqual(JSON.parse(atob(url.searchParams.get('header'))), { host: new URL(ENDPOINT).host, 'x-api-key': 'key' });
});

test('a socket that cannot be opened is told once, with the address, the cause and what to do', async () => {
  const opened = [];
  const { membership, warnings } = await host(new World(2), closing(opened));
  membership.drop();
  assert.ok(opened.length > 1, 'it goes on trying');
  assert.equal(warnings.length, 1, warnings.join('\n'));
  assert.ok(warnings[0].includes(`node teacher cannot subscribe at ${REALTIME}: the connection was closed (code 1006). It polls every 2 s`), warnings[0]);
  assert.match(warnings[0], /`realtime` \(the output MeshRealtimeEndpoint of the deployment\)/);
});

test('an outage after a subscription that succeeded is told again', async () => {
  const world = new World(3);
  const Working = world.WebSocket({ down: false });
  let isBroken = true;
  const Broken = closing();
  const { membership, warnings } = await host(world, class {
    constructor(url) {
      return isBroken ? new Broken(url) : new Working(url);
    }
  });
  assert.equal(warnings.length, 1);
  isBroken = false;
  await world.time.until(world.time.now + 30_000);
  assert.equal(warnings.length, 1, 'a socket that works is nothing to warn of');
  isBroken = true;
  for (const socket of [...world.sockets]) socket.break();
  await world.time.until(world.time.now + 30_000);
  membership.drop();
  assert.equal(warnings.length, 2, warnings.join('\n'));
});

test('what the server says when it refuses is passed on', async () => {
  const refusing = class {
    constructor() {
      setImmediate(() => this.onopen());
    }
    send() {
      this.onmessage({ data: JSON.stringify({ type: 'connection_error', payload: { errors: [{ errorType: 'UnauthorizedException', message: 'You are not authorized to make this call.' }] } }) });
    }
    close() {}
  };
  const { membership, warnings } = await host(new World(4), refusing);
  membership.drop();
  assert.match(warnings[0], /the server refused it \(You are not authorized to make this call\.\)/);
});

test('a server that never answers is told', async () => {
  const { membership, warnings } = await host(new World(5), class { close() {} });
  membership.drop();
  assert.match(warnings[0], /no answer within 10 s/);
});

test('a client without WebSocket says that it polls, unless the group does', async () => {
  const without = await host(new World(6), undefined);
  without.membership.drop();
  assert.match(without.warnings[0], /there is no WebSocket here .*package ws/);
  const polling = await host(new World(7), undefined, { useWebSocket: false });
  polling.membership.drop();
  assert.deepEqual(polling.warnings, []);
});

test('a refused connection of the package ws is told, and does not end the process', async () => {
  const free = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => free.once('listening', resolve));
  const { port } = free.address();
  await new Promise((resolve) => free.close(resolve));
  const world = new World(8);
  const warnings = [];
  const mesh = new Mesh({ endpoint: `http://127.0.0.1:${port}/graphql`, apiKey: 'key', fetch: world.fetch({ down: false }), WebSocket, warn: (text) => warnings.push(text) });
  const entering = mesh.host({ name: 'class', domain: 'home', hostId: 'teacher' });
  for (let tries = 0; tries < 100 && warnings.length === 0; tries += 1) {
    await world.time.until(world.time.now + 1000);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  (await entering).drop();
  assert.match(warnings[0] ?? '', /ECONNREFUSED/);
});

/** A teacher and a pupil in a simulated group. `line.down` cuts the pupil off. */
async function lesson(seed, { secured = true } = {}) {
  const world = new World(seed);
  const line = { down: false };
  const warnings = [];
  const client = (own) => new Mesh({ endpoint: ENDPOINT, apiKey: 'key', fetch: world.fetch(own), WebSocket: world.WebSocket(own), warn: (text) => warnings.push(text), machine: world.machine });
  const pass = (ms) => world.time.until(world.time.now + ms);
  const [first, second] = [client({ down: false }), client(line)];
  const hosting = first.host({ name: 'class', domain: 'home', hostId: 'teacher', secured });
  await pass(2000);
  const teacher = await hosting;
  const joining = second.join({ groupId: 'g1', domain: 'home', nodeId: 'pupil' });
  await pass(2000);
  return { world, line, warnings, pass, teacher, pupil: await joining, second };
}

/** What the group heard of a node's values, and of its events. */
const reports = (world, nodeId) => [...world.log.values()].filter((m) => m?.nodeStatus?.nodeId === nodeId).map((m) => Object.fromEntries(m.nodeStatus.data.map(({ key, value }) => [key, value])));
const names = (world) => [...world.log.values()].filter((m) => m?.batchEvent).flatMap((m) => m.batchEvent.events.map(({ name }) => name));

for (const secured of [true, false]) {
  test(`a node that was offline for longer than its membership joins again and goes on where it was (${secured ? 'secured' : 'open'})`, async () => {
    const { world, line, pass, teacher, pupil } = await lesson(11, { secured });
    const [heard, gaps, endings] = [[], [], []];
    pupil.on('events', ({ events }) => heard.push(...events.map(({ name }) => name)));
    pupil.on('gap', (gap) => gaps.push(gap));
    pupil.on('ended', ({ reason }) => endings.push(reason));
    teacher.fire('before');
    await pass(2000);
    line.down = true;
    await pass(15_000);
    teacher.fire('meanwhile'); // 10 s before the line is back: kept
    await pass(10_000);
    line.down = false;
    await pass(20_000);
    teacher.fire('after');
    pupil.fire('here again');
    await pass(5000);
    assert.deepEqual(endings, []);
    assert.equal(world.returned, 1, 'its membership had expired');
    assert.deepEqual([...heard].sort(), ['after', 'before', 'here again', 'meanwhile']);
    assert.deepEqual(gaps, []);
    assert.equal(pupil.sequence, world.head);
    teacher.drop();
    pupil.drop();
  });
}

test('a node that its own client took to another group is not fetched back', async () => {
  const { world, line, pass, teacher, pupil, second } = await lesson(12);
  const endings = [];
  pupil.on('ended', ({ reason }) => endings.push(reason));
  line.down = true;
  await pass(25_000);
  // As if it had been joined there: this world has one group.
  second.enroll = () => assert.fail('joined again');
  second.hasMoved = () => true;
  line.down = false;
  await pass(20_000);
  assert.deepEqual(endings, ['Unauthorized'], 'it is no member any more');
  assert.equal(world.returned, 0);
  teacher.drop();
});

test('a client knows to which group it took a node', async () => {
  const { teacher, pupil, second } = await lesson(13);
  assert.equal(second.hasMoved({ id: 'g1', domain: 'home' }, 'pupil'), false);
  assert.equal(second.hasMoved({ id: 'g0', domain: 'home' }, 'pupil'), true, 'a membership of before');
  assert.equal(second.hasMoved({ id: 'g0', domain: 'elsewhere' }, 'pupil'), false, 'another node');
  teacher.drop();
  pupil.drop();
});

test('a value that is refused is left out and told, and the others go on', async () => {
  const { world, pass, teacher, pupil, warnings } = await lesson(14);
  world.longest = 10;
  const failed = [];
  pupil.on('failed', (error) => failed.push(error));
  const good = pupil.report({ temperature: 20 });
  const bad = pupil.report({ light: 7, essay: 'much too long for a value' });
  await pass(3000);
  await good;
  await assert.rejects(bad, { name: 'MeshError', type: 'ValidationError', key: 'essay', message: 'The value of essay was not reported: A value is too long.' });
  assert.deepEqual(failed.map(({ key }) => key), ['essay']);
  assert.deepEqual(reports(world, 'pupil').at(-1), { temperature: '20', light: '7' });
  const next = pupil.report({ temperature: 21 });
  await pass(3000);
  await next;
  assert.deepEqual(reports(world, 'pupil').at(-1), { temperature: '21', light: '7' });
  // A value that was good before keeps its last good state.
  const worse = pupil.report({ light: 'far too long for a value' });
  await pass(3000);
  await assert.rejects(worse, { key: 'light' });
  const again = pupil.report({ light: 7, temperature: 22 });
  await pass(3000);
  await again;
  assert.deepEqual(reports(world, 'pupil').at(-1), { temperature: '22', light: '7' });
  assert.deepEqual(warnings, []);
  teacher.drop();
  pupil.drop();
});

test('an event that is refused is left out and told, and its neighbours are fired in order', async () => {
  const { world, pass, teacher, pupil } = await lesson(15);
  world.longest = 10;
  const failed = [];
  pupil.on('failed', ({ event }) => failed.push(event));
  const fired = ['a', 'b', 'c', 'd', 'e'].map((name) => pupil.fire(name, name === 'c' ? 'much too long for a payload' : 'short'));
  await pass(3000);
  const settled = await Promise.allSettled(fired);
  assert.deepEqual(settled.map(({ status }) => status), ['fulfilled', 'fulfilled', 'rejected', 'fulfilled', 'fulfilled']);
  assert.equal(settled[2].reason.event, 'c');
  assert.deepEqual(failed, ['c']);
  assert.deepEqual(names(world), ['a', 'b', 'd', 'e']);
  teacher.drop();
  pupil.drop();
});

test('nobody has to look at the promises of report, fire and flush', async () => {
  const { world, pass, teacher, pupil, warnings } = await lesson(16);
  const unhandled = [];
  const note = (error) => unhandled.push(error);
  process.on('unhandledRejection', note);
  world.longest = 3;
  pupil.report({ essay: 'too long' });
  pupil.fire('x', 'too long');
  pupil.flush();
  await pass(3000);
  pupil.drop();
  pupil.report({ late: 1 });
  pupil.fire('late');
  pupil.flush();
  await pass(3000);
  await new Promise((resolve) => setTimeout(resolve, 10));
  process.off('unhandledRejection', note);
  assert.deepEqual(unhandled, []);
  assert.equal(warnings.length, 1, 'nobody listens to `failed`, so the console tells');
  assert.match(warnings[0], /^mesh: node pupil: The (value of essay|event x) was not/);
  teacher.drop();
});

test('a listener that throws or rejects disturbs nobody else', async () => {
  const { pass, teacher, pupil, warnings } = await lesson(17);
  const heard = [];
  pupil.on('message', () => { throw new Error('a mistake'); });
  pupil.on('message', async () => { throw new Error('another mistake'); });
  pupil.on('message', ({ sequence }) => heard.push(sequence));
  pupil.on('ended', () => { throw new Error('even here'); });
  pupil.on('ended', ({ reason }) => heard.push(reason));
  for (const name of ['a', 'b', 'c']) {
    teacher.fire(name);
    await pass(1000);
  }
  pupil.drop();
  await pass(1000);
  assert.deepEqual(heard, [1, 2, 3, 'dropped']);
  assert.equal(warnings.filter((text) => /^mesh: a listener of message of node pupil failed: Error: (a|another) mistake/.test(text)).length, 6);
  assert.ok(warnings.some((text) => text.includes('even here')));
  teacher.drop();
});
