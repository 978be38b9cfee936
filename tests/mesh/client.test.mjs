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
  const made = { status: 200, text: JSON.stringify({ data: { createDomain: 'd' } }) };
  const later = answers([{ status: 500, text: failure }, { status: 429, text: failure }, { status: 503, text: '<html>' }, made]);
  assert.equal(await later.mesh.createDomain(), 'd');
  assert.equal(later.asked.length, 4);
  assert.equal(new Set(later.asked).size, 1, 'every attempt is the same, so that a messageId is');
  const never = answers([{ status: 503, text: failure }]);
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
