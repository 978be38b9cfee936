// The mesh of a running platform, from outside: every operation and each of its errors over HTTP, the subscriptions over a bare
// WebSocket, both generations of clients and their mix, two groups that never hear each other, and the JavaScript client.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import WebSocket from 'ws';
import { EVERYTHING, Mesh } from '../../clients/mesh/mesh.js';
import { eventually, start, startWith } from '../platform.mjs';
import { connect } from './realtime.mjs';

let platform;
let api;
before(async () => {
  // Nobody here sends heartbeats, and the machine may be busy, so groups live long.
  platform = await startWith({ HOST_HEARTBEAT_SECONDS: '100', MEMBER_HEARTBEAT_SECONDS: '100' });
  api = await connect(platform.url);
});
after(() => platform?.stop());

const DOMAIN = '教室';
const CREATE = 'mutation ($name: String!, $hostId: ID!, $domain: String!, $seconds: Int) { createGroup(name: $name, hostId: $hostId, domain: $domain, maxConnectionTimeSeconds: $seconds) { id fullId expiresAt useWebSocket } }';
const WHERE = '$groupId: ID!, $domain: String!';
const where = 'groupId: $groupId, domain: $domain';
const JOIN = `mutation (${WHERE}, $nodeId: ID!, $nodeName: String) { joinGroup(${where}, nodeId: $nodeId, nodeName: $nodeName) { id name expiresAt } }`;
const LEAVE = `mutation (${WHERE}, $nodeId: ID!) { leaveGroup(${where}, nodeId: $nodeId) { peerId message } }`;
const BEAT = `mutation (${WHERE}, $nodeId: ID!) { sendMemberHeartbeat(${where}, nodeId: $nodeId) { nodeId expiresAt intervalSeconds heartbeatIntervalSeconds } }`;
const RENEW = `mutation (${WHERE}, $hostId: ID!) { renewHeartbeat(${where}, hostId: $hostId) { groupId expiresAt intervalSeconds } }`;
const DISSOLVE = `mutation (${WHERE}, $hostId: ID!, $messageId: ID) { dissolveGroup(${where}, hostId: $hostId, messageId: $messageId) { ${EVERYTHING} } }`;
const report = (selection = EVERYTHING) => `mutation (${WHERE}, $nodeId: ID!, $data: [SensorDataInput!]!, $messageId: ID) { reportDataByNode(${where}, nodeId: $nodeId, data: $data, messageId: $messageId) { ${selection} } }`;
const fire = (selection = EVERYTHING) => `mutation (${WHERE}, $nodeId: ID!, $events: [EventInput!]!, $messageId: ID) { fireEventsByNode(${where}, nodeId: $nodeId, events: $events, messageId: $messageId) { ${selection} } }`;
const RECORD = `mutation (${WHERE}, $nodeId: ID!, $events: [EventInput!]!) { recordEventsByNode(${where}, nodeId: $nodeId, events: $events) { recordedCount nextSince } }`;
const GET = `query (${WHERE}) { getGroup(${where}) { id fullId name hostId } }`;
const LIST = 'query ($domain: String!) { listGroupsByDomain(domain: $domain) { id } }';
const NODES = `query (${WHERE}) { listNodesInGroup(${where}) { id name } }`;
const STATUSES = `query (${WHERE}) { listGroupStatuses(${where}) { nodeId data { key value } } }`;
const STATUS = `query (${WHERE}, $nodeId: ID!) { getNodeStatus(${where}, nodeId: $nodeId) { nodeId data { key value } } }`;
const EVENTS = `query (${WHERE}, $since: String!) { getEventsSince(${where}, since: $since) { name cursor } }`;
const MESSAGES = `query (${WHERE}, $sequence: Int!) { getMessagesSince(${where}, sequence: $sequence) { messages { sequence } voids next head } }`;

let hosts = 0;
/** A group with one member beside its host. */
async function group(domain = DOMAIN) {
  hosts += 1;
  const hostId = `host-${hosts}`;
  const { id: groupId } = await api.ok(CREATE, { name: 'class', hostId, domain });
  const here = { groupId, domain };
  await api.ok(JOIN, { ...here, nodeId: 'node-1', nodeName: 'One' });
  // A node that joins another group leaves the first, so each group has a member of its own.
  const nodeId = `node-of-${hostId}`;
  await api.ok(JOIN, { ...here, nodeId });
  return { ...here, hostId, nodeId };
}
const value = (text) => [{ key: 'temperature', value: text }];
const event = (eventName, payload = null) => ({ eventName, payload, firedAt: '2026-01-01T00:00:00.123Z' });

test('every operation succeeds over HTTP', async () => {
  const { groupId, domain, hostId, nodeId } = await group();
  const here = { groupId, domain };
  const name = await api.ok('mutation { createDomain }');
  assert.match(name, /^[0-9a-f]{32}$/);
  assert.equal((await api.ask('mutation { createDomain }', {}, { 'x-forwarded-for': '203.0.113.9, 10.0.0.1' })).data.createDomain, name, 'what a client claims is not believed');
  assert.equal((await api.ok(GET, here)).fullId, `${groupId}@${domain}`);
  assert.equal((await api.ok(CREATE, { name: 'again', hostId, domain })).id, groupId);
  assert.ok((await api.ok(LIST, { domain })).some(({ id }) => id === groupId));
  const said = await api.ok(report(), { ...here, nodeId, data: value('21') });
  assert.equal(said.sequence, 1);
  assert.deepEqual(await api.ok(STATUS, { ...here, nodeId }), { nodeId, data: value('21') });
  assert.deepEqual(await api.ok(STATUSES, here), [{ nodeId, data: value('21') }]);
  const fired = await api.ok(fire(), { ...here, nodeId, events: [event('start'), event('stop', '{}')] });
  assert.deepEqual(fired.batchEvent.events.map(({ name }) => name), ['start', 'stop']);
  const recorded = await api.ok(RECORD, { ...here, nodeId, events: [event('quiet')] });
  assert.equal(recorded.recordedCount, 1);
  assert.deepEqual((await api.ok(EVENTS, { ...here, since: fired.batchEvent.events[0].cursor })).map(({ name }) => name), ['stop', 'quiet']);
  assert.deepEqual(await api.ok(EVENTS, { ...here, since: recorded.nextSince }), []);
  assert.deepEqual(await api.ok(MESSAGES, { ...here, sequence: 1 }), { messages: [{ sequence: 2 }, { sequence: 3 }], voids: [], next: 3, head: 3 });
  assert.equal((await api.ok(BEAT, { ...here, nodeId })).intervalSeconds, 100);
  assert.equal((await api.ok(RENEW, { ...here, hostId })).groupId, groupId);
  assert.deepEqual((await api.ok(NODES, here)).map(({ id }) => id).sort(), ['node-1', nodeId].sort());
  assert.equal((await api.ok(LEAVE, { ...here, nodeId })).peerId, nodeId);
  const over = await api.ok(DISSOLVE, { ...here, hostId, messageId: 'the end' });
  assert.equal(over.groupDissolve.groupId, groupId);
  const again = await api.ok(DISSOLVE, { ...here, hostId, messageId: 'the end' });
  assert.deepEqual([again.sequence, again.groupId], [over.sequence, groupId], 'recognised, and to the same subscribers');
});

test('each error has its type over HTTP', async () => {
  const { groupId, domain, hostId, nodeId } = await group();
  const here = { groupId, domain };
  const gone = { groupId: 'nothing', domain };
  const stranger = { ...here, nodeId: 'stranger' };
  for (const [query, variables] of [
    [GET, gone], [NODES, gone], [STATUSES, gone], [STATUS, { ...gone, nodeId }], [EVENTS, { ...gone, since: '2026-01-01T00:00:00Z' }], [MESSAGES, { ...gone, sequence: 0 }],
    [JOIN, { ...gone, nodeId }], [LEAVE, { ...gone, nodeId }], [BEAT, { ...gone, nodeId }], [RENEW, { ...gone, hostId }], [DISSOLVE, { ...gone, hostId }],
    [report(), { ...gone, nodeId, data: value('1') }], [fire(), { ...gone, nodeId, events: [event('e')] }], [RECORD, { ...gone, nodeId, events: [event('e')] }],
  ]) assert.equal(await api.refused(query, variables), 'GroupNotFound', query);
  for (const [query, variables] of [
    [LEAVE, stranger], [BEAT, stranger], [report(), { ...stranger, data: value('1') }], [fire(), { ...stranger, events: [event('e')] }], [RECORD, { ...stranger, events: [event('e')] }],
  ]) assert.equal(await api.refused(query, variables), 'NodeNotFound', query);
  for (const [query, variables] of [[RENEW, { ...here, hostId: nodeId }], [DISSOLVE, { ...here, hostId: nodeId }]]) assert.equal(await api.refused(query, variables), 'Unauthorized', query);
  const long = 'x'.repeat(257);
  for (const [query, variables] of [
    [CREATE, { name: '', hostId, domain }], [CREATE, { name: 'n', hostId: long, domain }], [CREATE, { name: 'n', hostId, domain: '' }], [CREATE, { name: 'n', hostId: 'h', domain, seconds: 601 }],
    [GET, { ...here, domain: long }], [LIST, { domain: long }], [NODES, { ...here, domain: long }], [STATUS, { ...here, nodeId: '' }], [EVENTS, { ...here, since: 'yesterday' }], [MESSAGES, { ...here, sequence: -1 }],
    [JOIN, { ...here, nodeId: '' }], [LEAVE, { ...here, nodeId: long }], [BEAT, { ...here, nodeId: '' }], [RENEW, { ...here, domain: long, hostId }], [DISSOLVE, { ...here, domain: long, hostId }],
    [report(), { ...here, nodeId, data: [{ key: '', value: '' }] }], [fire(), { ...here, nodeId, events: [] }], [RECORD, { ...here, nodeId, events: [event('')] }],
    [report(), { ...here, nodeId, data: Array.from({ length: 99 }, (_, n) => ({ key: `${n}`, value: 'v'.repeat(4000) })) }],
  ]) assert.equal(await api.refused(query, variables), 'ValidationError', `${query} ${JSON.stringify(variables).slice(0, 100)}`);
  const once = { ...here, nodeId, data: value('1'), messageId: 'once' };
  await api.ok(report(), once);
  assert.equal(await api.refused(report(), { ...once, data: value('2') }), 'ValidationError', 'another message under a messageId that was used');
  assert.equal(await api.refused(fire(), { ...here, nodeId, events: [event('e')], messageId: 'once' }), 'ValidationError');
  const answer = await fetch(api.endpoint, { method: 'POST', headers: { 'x-api-key': 'another' }, body: JSON.stringify({ query: '{ __typename }' }) });
  assert.equal(answer.status, 401);
});

test('a conflict in the store is an error of its own that can be tried again', async () => {
  const { groupId, domain, hostId, nodeId } = await group();
  const here = { groupId, domain };
  const faults = (body) => fetch(`${platform.url}/_local/faults`, { method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  try {
    assert.equal((await faults({ dynamodb: { mode: 'conflict' } })).status, 200);
    for (const [query, variables] of [
      [report(), { ...here, nodeId, data: value('1') }], [fire(), { ...here, nodeId, events: [event('e')] }], [RECORD, { ...here, nodeId, events: [event('e')] }],
      [BEAT, { ...here, nodeId }], [RENEW, { ...here, hostId }], [JOIN, { ...here, nodeId: 'late' }], [LEAVE, { ...here, nodeId }], [DISSOLVE, { ...here, hostId }],
      [CREATE, { name: 'n', hostId: 'another host', domain }],
    ]) assert.equal(await api.refused(query, variables), 'Conflict', query);
    assert.equal((await faults({ dynamodb: { mode: 'down' } })).status, 200);
    assert.equal(await api.refused(GET, here), 'Unavailable');
  } finally {
    await faults({});
  }
  assert.equal((await api.ok(report(), { ...here, nodeId, data: value('1') })).groupId, groupId);
});

const ON_DATA = `subscription (${WHERE}) { onDataUpdateInGroup(${where}) { ${EVERYTHING} } }`;
const ON_EVENTS = `subscription (${WHERE}) { onBatchEventInGroup(${where}) { ${EVERYTHING} } }`;
const ON_END = `subscription (${WHERE}) { onGroupDissolve(${where}) { ${EVERYTHING} } }`;
const ON_ALL = `subscription (${WHERE}) { onMessageInGroup(${where}) { ${EVERYTHING} } }`;

test('each subscription hears its kind, and onMessageInGroup all of them in one order', async () => {
  const { hostId, nodeId, ...here } = await group();
  const socket = await api.socket();
  try {
    const ids = {};
    for (const [name, query] of Object.entries({ data: ON_DATA, events: ON_EVENTS, end: ON_END, all: ON_ALL })) ids[name] = await socket.subscribe(query, here);
    const once = { ...here, nodeId, data: value('1'), messageId: 'once' };
    await api.ok(report(), once);
    await api.ok(report(), once); // recognised: nobody hears it again
    await api.ok(fire(), { ...here, nodeId, events: [event('e')] });
    await api.ok(RECORD, { ...here, nodeId, events: [event('silent')] });
    await api.ok(DISSOLVE, { ...here, hostId });
    const last = await socket.next(ids.all, 3);
    assert.equal(last.groupDissolve.groupId, here.groupId);
    await socket.next(ids.end);
    assert.deepEqual(socket.data(ids.all).map(({ sequence }) => sequence), [1, 2, 4], '3 was recorded, and is delivered to nobody');
    assert.deepEqual(socket.data(ids.data).map(({ sequence }) => sequence), [1]);
    assert.deepEqual(socket.data(ids.events).map(({ sequence }) => sequence), [2]);
    assert.deepEqual(socket.data(ids.end).map(({ sequence }) => sequence), [4]);
  } finally {
    socket.close();
  }
});

test('what a socket may not do is refused with its reason', async () => {
  const { groupId, domain } = await group();
  const socket = await api.socket();
  try {
    for (const [query, variables] of [
      ['subscription ($domain: String!) { onMessageInGroup(domain: $domain) { groupId } }', { domain }], // groupId is required
      [ON_ALL, { groupId }],
      ['subscription { onSomethingElse { groupId } }', {}],
      ['subscription {', {}],
      [GET, { groupId, domain }], // queries go over HTTP
    ]) {
      const { answer } = await socket.start(query, variables);
      assert.equal(answer.type, 'error', query);
      assert.ok(answer.payload.errors[0].message, query);
    }
  } finally {
    socket.close();
  }
  const stranger = await api.socket('another key');
  assert.equal(stranger.messages[0].type, 'connection_error');
  stranger.close();
});

test('two groups never hear each other, whatever they have in common', async () => {
  const [here, there] = [await group(), await group()];
  const elsewhere = { ...(await group('elsewhere')) };
  const socket = await api.socket();
  try {
    const subscribe = ({ groupId, domain }) => socket.subscribe(ON_ALL, { groupId, domain });
    const ids = [await subscribe(here), await subscribe(there), await subscribe(elsewhere)];
    // The same group id in another domain is another group.
    const nobody = await socket.subscribe(ON_ALL, { groupId: here.groupId, domain: 'elsewhere' });
    const say = ({ groupId, domain, nodeId }, text) => api.ok(report(), { groupId, domain, nodeId, data: value(text) });
    await Promise.all([here, there, elsewhere].flatMap((one, n) => Array.from({ length: 10 }, () => say(one, `${n}`))));
    for (const [n, id] of ids.entries()) {
      await socket.next(id, 10);
      assert.deepEqual(new Set(socket.data(id).map((message) => message.data[0].value)), new Set([`${n}`]));
      assert.equal(socket.data(id).length, 10);
    }
    assert.deepEqual(socket.data(nobody), []);
  } finally {
    socket.close();
  }
});

// Two generations: the older clients know flat fields, the newer ones nested ones.
const FLAT = { report: 'groupId domain nodeId data { key value } timestamp', fire: 'groupId domain firedByNodeId events { name payload } timestamp' };
const NESTED = { report: 'groupId domain nodeStatus { nodeId data { key value } timestamp }', fire: 'groupId domain batchEvent { firedByNodeId events { name payload } }' };

test('clients of one generation understand each other, and with everything selected everybody does', async () => {
  const { nodeId, ...here } = await group();
  const variables = { groupId: here.groupId, domain: here.domain };
  const socket = await api.socket();
  try {
    const on = (field, selection) => socket.subscribe(`subscription (${WHERE}) { ${field}(${where}) { ${selection} } }`, variables);
    const flat = await on('onDataUpdateInGroup', FLAT.report);
    const nested = await on('onDataUpdateInGroup', NESTED.report);
    const flatEvents = await on('onBatchEventInGroup', FLAT.fire);
    const nestedEvents = await on('onBatchEventInGroup', NESTED.fire);
    const say = async (selection, text) => {
      await api.ok(report(selection.report), { ...variables, nodeId, data: value(text) });
      await api.ok(fire(selection.fire), { ...variables, nodeId, events: [event(text)] });
    };
    await say(FLAT, 'flat');
    await say(NESTED, 'nested');
    await say({ report: EVERYTHING, fire: EVERYTHING }, 'both');
    await api.ok(report('sequence nodeId'), { ...variables, nodeId, data: value('to nobody') });
    await api.ok(report(), { ...variables, nodeId, data: value('last') });
    for (const id of [flat, nested]) await socket.next(id, 4);
    for (const id of [flatEvents, nestedEvents]) await socket.next(id, 3);
    // A subscriber gets what the publisher selected: of the other generation it only learns that there was something.
    assert.deepEqual(socket.data(flat).map((message) => message.data?.[0].value ?? null), ['flat', null, 'both', 'last']);
    assert.deepEqual(socket.data(nested).map((message) => message.nodeStatus?.data[0].value ?? null), [null, 'nested', 'both', 'last']);
    assert.deepEqual(socket.data(flatEvents).map((message) => message.events?.[0].name ?? null), ['flat', null, 'both']);
    assert.deepEqual(socket.data(nestedEvents).map((message) => message.batchEvent?.events[0].name ?? null), [null, 'nested', 'both']);
    assert.ok(socket.data(flat).every((message) => message.groupId === here.groupId && message.domain === here.domain));
  } finally {
    socket.close();
  }
});

/** Our own client on a running platform. */
const client = (at = api) => new Mesh({ endpoint: at.endpoint, apiKey: at.key, WebSocket });

test('our client understands publishers of either generation, and they it', async () => {
  const { nodeId, hostId, ...here } = await group();
  const membership = await client().join({ ...here, nodeId: 'ours' });
  const heard = [];
  membership.on('status', (status) => heard.push(status.data[0].value));
  membership.on('events', (batch) => heard.push(batch.events[0].name));
  const socket = await api.socket();
  try {
    const flat = await socket.subscribe(`subscription (${WHERE}) { onDataUpdateInGroup(${where}) { ${FLAT.report} } }`, here);
    const nested = await socket.subscribe(`subscription (${WHERE}) { onDataUpdateInGroup(${where}) { ${NESTED.report} } }`, here);
    await api.ok(report(FLAT.report), { ...here, nodeId, data: value('flat') });
    await api.ok(fire(NESTED.fire), { ...here, nodeId, events: [event('nested')] });
    await membership.report({ temperature: 21 });
    await eventually('all three', () => heard.length === 3);
    assert.deepEqual(heard, ['flat', 'nested', '21']);
    assert.deepEqual((await socket.next(flat, 2)).data, value('21'));
    assert.deepEqual((await socket.next(nested, 2)).nodeStatus.data, value('21'));
  } finally {
    membership.drop();
    socket.close();
  }
});

test('fifty clients create one group, and everybody who is in it hears the same log', async () => {
  const made = await Promise.all(Array.from({ length: 50 }, () => api.ok(CREATE, { name: 'race', hostId: 'racer', domain: DOMAIN })));
  assert.equal(new Set(made.map(({ id }) => id)).size, 1);
  const here = { groupId: made[0].id, domain: DOMAIN };
  const members = await Promise.all(Array.from({ length: 5 }, (_, n) => client().join({ ...here, nodeId: `runner-${n}` })));
  const logs = members.map(() => []);
  members.forEach((member, n) => member.on('message', (message) => logs[n].push(message.sequence)));
  const from = members.map((member) => member.sequence);
  await Promise.all(members.flatMap((member, n) => [member.fire(`a-${n}`), member.report({ n }), member.fire(`b-${n}`)]));
  await eventually('all ten', () => members.every((member) => member.sequence === 10));
  logs.forEach((log, n) => assert.deepEqual(log, Array.from({ length: 10 - from[n] }, (_, k) => k + from[n] + 1)));
  members.forEach((member) => member.drop());
});

test('a host that vanishes takes its group with it, and everybody learns of it', async () => {
  const quick = await startWith({ HOST_HEARTBEAT_SECONDS: '2', MEMBER_HEARTBEAT_SECONDS: '2' });
  try {
    const there = await connect(quick.url);
    const host = await client(there).host({ name: 'class', domain: 'home', hostId: 'teacher' });
    const pupil = await client(there).join({ groupId: host.group.id, domain: 'home', nodeId: 'pupil' });
    const ended = [];
    pupil.on('ended', ({ reason }) => ended.push(reason));
    host.drop();
    await eventually('the end', () => ended.length > 0);
    assert.deepEqual(ended, ['GroupNotFound']);
    assert.deepEqual(await there.ok(LIST, { domain: 'home' }), []);
  } finally {
    await quick.stop();
  }
});

test('a client without a socket polls, and goes over to the socket when there is one', async () => {
  const { nodeId, hostId, ...here } = await group();
  let isBroken = true;
  class Sometimes extends WebSocket {
    constructor(url, protocol) {
      super(isBroken ? url.replace('/graphql/realtime', '/nowhere') : url, protocol);
    }
  }
  const warnings = [];
  const mesh = new Mesh({ endpoint: api.endpoint, apiKey: api.key, WebSocket: Sometimes, warn: (text) => warnings.push(text) });
  const membership = await mesh.join({ ...here, nodeId: 'behind a wall' });
  const connections = [];
  const heard = [];
  membership.on('connection', (how) => connections.push(how));
  membership.on('status', (status) => heard.push(status.data[0].value));
  try {
    await api.ok(report(), { ...here, nodeId, data: value('1') });
    await eventually('it by polling', () => heard.includes('1'));
    isBroken = false;
    await eventually('a socket', () => connections.includes('open'));
    await api.ok(report(), { ...here, nodeId, data: value('2') });
    await eventually('the next', () => heard.includes('2'));
    assert.deepEqual(heard, ['1', '2']);
    assert.equal(warnings.length, 1, warnings.join('\n'));
    assert.match(warnings[0], /node behind a wall cannot subscribe at ws:.*\/graphql\/realtime: Unexpected server response: 404\. It polls/);
  } finally {
    membership.drop();
  }
});

test('tools can ask for the schema', async () => {
  const deep = (levels) => (levels === 0 ? 'name' : `name ofType { ${deep(levels - 1)} }`);
  const { data, errors } = await api.ask(`{ __schema { types { name fields { name args { name type { ${deep(7)} } } type { ${deep(7)} } } } } }`);
  assert.equal(errors, undefined);
  const message = data.__schema.types.find(({ name }) => name === 'MeshMessage');
  assert.deepEqual(message.fields.filter(({ name }) => ['nodeStatus', 'data', 'sequence'].includes(name)).map(({ name }) => name), ['sequence', 'nodeStatus', 'data']);
});

test('a start without variables of its own is the documented one', async () => {
  const plain = await start();
  try {
    const there = await connect(plain.url);
    const made = await there.ok('mutation { createGroup(name: "n", hostId: "h", domain: "d", useWebSocket: false) { heartbeatIntervalSeconds pollingIntervalSeconds useWebSocket } }');
    assert.deepEqual(made, { heartbeatIntervalSeconds: 15, pollingIntervalSeconds: 2, useWebSocket: false });
  } finally {
    await plain.stop();
  }
});
