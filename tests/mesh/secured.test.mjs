// Secured groups on a running platform: our client in one, and what others cannot do there. crates/mesh/tests/secured.rs has every refusal.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import WebSocket from 'ws';
import { Mesh } from '../../clients/mesh/mesh.js';
import { eventually, startWith } from '../platform.mjs';
import { connect } from './realtime.mjs';

let platform;
let api;
before(async () => {
  platform = await startWith({ HOST_HEARTBEAT_SECONDS: '2', MEMBER_HEARTBEAT_SECONDS: '2' });
  api = await connect(platform.url);
});
after(() => platform?.stop());

const DOMAIN = 'school';
const warnings = [];
const client = () => new Mesh({ endpoint: api.endpoint, apiKey: api.key, WebSocket, warn: (text) => warnings.push(text) });
const ON_ALL = 'subscription ($groupId: ID!, $domain: String!, $secret: String) { onMessageInGroup(groupId: $groupId, domain: $domain, secret: $secret) { sequence } }';
const AS_BEFORE = 'subscription ($groupId: ID!, $domain: String!) { onMessageInGroup(groupId: $groupId, domain: $domain) { sequence } }';

test('our client hosts and joins a secured group, and everything in it works', async () => {
  const host = await client().host({ name: 'class', domain: DOMAIN, hostId: 'teacher' });
  const pupil = await client().join({ groupId: host.group.id, domain: DOMAIN, nodeId: 'pupil' });
  assert.equal(host.group.secured, true);
  assert.ok(host.secret && pupil.secret && host.secret !== pupil.secret);
  const heard = [];
  const ended = [];
  host.on('status', (status) => heard.push(status.data[0].value));
  host.on('events', (batch) => heard.push(batch.events[0].name));
  pupil.on('ended', ({ reason }) => ended.push(reason));
  await pupil.report({ temperature: 21 });
  await pupil.fire('start');
  await eventually('both', () => heard.length === 2);
  assert.deepEqual((await host.statuses()).map(({ nodeId }) => nodeId), ['pupil']);
  // Five heartbeats would have been missed by now.
  await new Promise((resolve) => setTimeout(resolve, 11_000));
  await pupil.report({ temperature: 22 });
  await eventually('the third', () => heard.length === 3);
  await host.dissolve();
  await eventually('the end', () => ended.length > 0);
  assert.deepEqual(warnings, [], 'nobody had to poll');
});

test('a repeat with the secret is the same group and node, also from another page; without it nothing is found', async () => {
  const mine = client();
  const host = await mine.host({ name: 'class', domain: DOMAIN, hostId: 'teacher-2' });
  const again = await mine.host({ name: 'class', domain: DOMAIN, hostId: 'teacher-2' });
  assert.equal(again.group.id, host.group.id, 'the client keeps its secrets');
  const reloaded = await client().host({ name: 'class', domain: DOMAIN, hostId: 'teacher-2', secret: host.secret });
  assert.equal(reloaded.group.id, host.group.id);
  await assert.rejects(client().host({ name: 'class', domain: DOMAIN, hostId: 'teacher-2' }), { type: 'Unauthorized' });
  await assert.rejects(client().host({ name: 'class', domain: DOMAIN, hostId: 'teacher-2', secured: false }), { type: 'Unauthorized' });
  const pupil = await client().join({ groupId: host.group.id, domain: DOMAIN, nodeId: 'pupil-2' });
  await assert.rejects(client().join({ groupId: host.group.id, domain: DOMAIN, nodeId: 'pupil-2' }), { type: 'Unauthorized' });
  for (const membership of [host, again, reloaded, pupil]) membership.drop();
});

test('a stranger hears nothing, and whoever leaves hears nothing any more', async () => {
  const host = await client().host({ name: 'class', domain: DOMAIN, hostId: 'teacher-3' });
  const pupil = await client().join({ groupId: host.group.id, domain: DOMAIN, nodeId: 'pupil-3' });
  const here = { groupId: host.group.id, domain: DOMAIN };
  const socket = await api.socket();
  try {
    for (const [query, variables] of [[AS_BEFORE, here], [ON_ALL, here], [ON_ALL, { ...here, secret: 'guessed' }]]) {
      const { answer } = await socket.start(query, variables);
      assert.deepEqual([answer.type, answer.payload?.errors[0].errorType], ['error', 'Unauthorized']);
    }
    const id = await socket.subscribe(ON_ALL, { ...here, secret: pupil.secret });
    await host.report({ temperature: 20 });
    assert.equal((await socket.next(id)).sequence, 1);
    await pupil.leave();
    await socket.heard((message) => message.id === id && message.type === 'complete');
    await host.report({ temperature: 21 });
    assert.equal(socket.data(id).length, 1);
  } finally {
    socket.close();
    host.drop();
  }
});

test('a node that joins elsewhere learns that it is out', async () => {
  const mine = client();
  const host = await client().host({ name: 'class', domain: DOMAIN, hostId: 'teacher-4' });
  const other = await client().host({ name: 'another', domain: DOMAIN, hostId: 'teacher-5' });
  const first = await mine.join({ groupId: host.group.id, domain: DOMAIN, nodeId: 'pupil-4' });
  const ended = [];
  first.on('ended', ({ reason }) => ended.push(reason));
  const second = await mine.join({ groupId: other.group.id, domain: DOMAIN, nodeId: 'pupil-4' });
  await eventually('the end of the first', () => ended.length > 0);
  assert.deepEqual(ended, ['Unauthorized']);
  for (const membership of [host, other, second]) membership.drop();
});

test('with secured: false the group is as before, for clients of every generation', async () => {
  const host = await client().host({ name: 'class', domain: DOMAIN, hostId: 'teacher-6', secured: false });
  assert.deepEqual([host.group.secured, host.secret], [false, null]);
  const socket = await api.socket();
  try {
    const id = await socket.subscribe(AS_BEFORE, { groupId: host.group.id, domain: DOMAIN });
    await host.report({ temperature: 20 });
    assert.equal((await socket.next(id)).sequence, 1);
  } finally {
    socket.close();
    host.drop();
  }
});
