// The programs that are in use: requests as clients of both earlier generations of this API send them, and what those clients look at in the
// answers. They know nothing of secrets, sequences or messageIds, and must work unchanged: each operation, each error, each subscription.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually, startWith } from '../platform.mjs';
import { connect } from './realtime.mjs';

/** The older clients know flat fields and one subscription per kind of message. */
const OLDER = {
  name: 'older',
  create: 'mutation CreateGroup($name: String!, $hostId: ID!, $domain: String!) { createGroup(name: $name, hostId: $hostId, domain: $domain) { id domain fullId name hostId createdAt } }',
  list: 'query ListGroupsByDomain($domain: String!) { listGroupsByDomain(domain: $domain) { id domain fullId name hostId createdAt } }',
  get: 'query GetGroup($groupId: ID!, $domain: String!) { getGroup(groupId: $groupId, domain: $domain) { id domain fullId name hostId } }',
  join: 'mutation JoinGroup($groupId: ID!, $nodeId: ID!, $domain: String!) { joinGroup(groupId: $groupId, nodeId: $nodeId, domain: $domain) { id name groupId domain } }',
  leave: 'mutation LeaveGroup($groupId: ID!, $nodeId: ID!, $domain: String!) { leaveGroup(groupId: $groupId, nodeId: $nodeId, domain: $domain) { peerId groupId domain message } }',
  dissolve: 'mutation DissolveGroup($groupId: ID!, $hostId: ID!, $domain: String!) { dissolveGroup(groupId: $groupId, hostId: $hostId, domain: $domain) { groupId domain message } }',
  report: 'mutation ReportDataByNode($nodeId: ID!, $groupId: ID!, $domain: String!, $data: [SensorDataInput!]!) { reportDataByNode(nodeId: $nodeId, groupId: $groupId, domain: $domain, data: $data) { nodeId groupId domain data { key value } timestamp } }',
  fire: 'mutation FireEventsByNode($nodeId: ID!, $groupId: ID!, $domain: String!, $events: [EventInput!]!) { fireEventsByNode(nodeId: $nodeId, groupId: $groupId, domain: $domain, events: $events) { events { name firedByNodeId groupId domain payload timestamp } firedByNodeId groupId domain timestamp } }',
  renew: 'mutation RenewHeartbeat($groupId: ID!, $domain: String!, $hostId: ID!) { renewHeartbeat(groupId: $groupId, domain: $domain, hostId: $hostId) { groupId domain expiresAt intervalSeconds } }',
  beat: 'mutation SendMemberHeartbeat($groupId: ID!, $domain: String!, $nodeId: ID!) { sendMemberHeartbeat(groupId: $groupId, domain: $domain, nodeId: $nodeId) { nodeId groupId domain expiresAt intervalSeconds } }',
  status: 'query GetNodeStatus($nodeId: ID!) { getNodeStatus(nodeId: $nodeId) { nodeId groupId domain data { key value } timestamp } }',
  statuses: 'query ListGroupStatuses($groupId: ID!, $domain: String!) { listGroupStatuses(groupId: $groupId, domain: $domain) { nodeId groupId domain data { key value } timestamp } }',
  nodes: 'query ListNodesInGroup($groupId: ID!, $domain: String!) { listNodesInGroup(groupId: $groupId, domain: $domain) { id name groupId domain } }',
  onData: 'subscription OnDataUpdateInGroup($groupId: ID!, $domain: String!) { onDataUpdateInGroup(groupId: $groupId, domain: $domain) { nodeId groupId domain data { key value } timestamp } }',
  onEvents: 'subscription OnBatchEventInGroup($groupId: ID!, $domain: String!) { onBatchEventInGroup(groupId: $groupId, domain: $domain) { events { name firedByNodeId payload timestamp } firedByNodeId groupId domain timestamp } }',
  onEnd: 'subscription OnGroupDissolve($groupId: ID!, $domain: String!) { onGroupDissolve(groupId: $groupId, domain: $domain) { groupId domain message } }',
  data: (message) => ({ nodeId: message.nodeId, data: message.data }),
  events: (message) => message.events.map(({ name }) => name),
  end: (message) => message.message,
};

/** The newer clients know nested fields, one subscription for everything, polling, and when a group ends. */
const NEWER = {
  ...OLDER,
  name: 'newer',
  create: 'mutation CreateGroup($name: String!, $hostId: ID!, $domain: String!, $maxConnectionTimeSeconds: Int, $useWebSocket: Boolean!) { createGroup(name: $name, hostId: $hostId, domain: $domain, maxConnectionTimeSeconds: $maxConnectionTimeSeconds, useWebSocket: $useWebSocket) { id domain fullId name hostId createdAt expiresAt heartbeatIntervalSeconds useWebSocket pollingIntervalSeconds } }',
  join: 'mutation JoinGroup($groupId: ID!, $domain: String!, $nodeId: ID!, $nodeName: String) { joinGroup(groupId: $groupId, domain: $domain, nodeId: $nodeId, nodeName: $nodeName) { id name groupId domain expiresAt heartbeatIntervalSeconds useWebSocket pollingIntervalSeconds } }',
  dissolve: 'mutation DissolveGroup($groupId: ID!, $domain: String!, $hostId: ID!) { dissolveGroup(groupId: $groupId, domain: $domain, hostId: $hostId) { groupId domain groupDissolve { groupId domain message } } }',
  report: 'mutation ReportDataByNode($groupId: ID!, $domain: String!, $nodeId: ID!, $data: [SensorDataInput!]!) { reportDataByNode(groupId: $groupId, domain: $domain, nodeId: $nodeId, data: $data) { groupId domain nodeStatus { nodeId groupId domain data { key value } timestamp } } }',
  fire: 'mutation FireEventsByNode($groupId: ID!, $domain: String!, $nodeId: ID!, $events: [EventInput!]!) { fireEventsByNode(groupId: $groupId, domain: $domain, nodeId: $nodeId, events: $events) { groupId domain batchEvent { events { name firedByNodeId groupId domain payload timestamp } firedByNodeId groupId domain timestamp } } }',
  record: 'mutation RecordEventsByNode($groupId: ID!, $domain: String!, $nodeId: ID!, $events: [EventInput!]!) { recordEventsByNode(groupId: $groupId, domain: $domain, nodeId: $nodeId, events: $events) { groupId domain recordedCount nextSince } }',
  since: 'query GetEventsSince($groupId: ID!, $domain: String!, $since: String!) { getEventsSince(groupId: $groupId, domain: $domain, since: $since) { name firedByNodeId groupId domain payload timestamp cursor } }',
  renew: 'mutation RenewHeartbeat($groupId: ID!, $domain: String!, $hostId: ID!) { renewHeartbeat(groupId: $groupId, domain: $domain, hostId: $hostId) { groupId domain expiresAt heartbeatIntervalSeconds } }',
  beat: 'mutation SendMemberHeartbeat($groupId: ID!, $domain: String!, $nodeId: ID!) { sendMemberHeartbeat(groupId: $groupId, domain: $domain, nodeId: $nodeId) { nodeId groupId domain expiresAt heartbeatIntervalSeconds } }',
  onAll: 'subscription OnMessageInGroup($groupId: ID!, $domain: String!) { onMessageInGroup(groupId: $groupId, domain: $domain) { groupId domain nodeStatus { nodeId groupId domain data { key value } timestamp } batchEvent { events { name firedByNodeId groupId domain payload timestamp } firedByNodeId groupId domain timestamp } groupDissolve { groupId domain message } } }',
  data: (message) => ({ nodeId: message.nodeStatus.nodeId, data: message.nodeStatus.data }),
  events: (message) => message.batchEvent.events.map(({ name }) => name),
  end: (message) => message.groupDissolve.message,
};

const PATIENT = { HOST_HEARTBEAT_SECONDS: '100', MEMBER_HEARTBEAT_SECONDS: '100' };
let platform;
let api;
before(async () => {
  platform = await startWith(PATIENT);
  api = await connect(platform.url);
});
after(() => platform?.stop());

const value = (text) => [{ key: 'temperature', value: text }];
const event = (eventName) => ({ eventName, payload: '{}', firedAt: '2026-01-01T00:00:00.123Z' });
/** Two clients of one id in two tests must not meet. */
let people = 0;
const somebody = (role) => `${role}-${(people += 1)}`;

/** What clients look at in a refusal: its type, then the words of its message. */
async function refusal(query, variables, at = api) {
  const { errors } = await at.ask(query, variables);
  assert.equal(errors?.length, 1, `${query} ${JSON.stringify(errors)}`);
  const [{ errorType, message }] = errors;
  return { errorType, message };
}

async function group(g, domain = 'classroom', more = {}) {
  const hostId = somebody('host');
  const made = await api.ok(g.create, { name: 'class', hostId, domain, useWebSocket: true, ...more });
  return { made, hostId, here: { groupId: made.id, domain } };
}

for (const g of [OLDER, NEWER]) {
  test(`${g.name} clients: each operation`, async () => {
    const domain = await api.ok('mutation CreateDomain { createDomain }');
    assert.match(domain, /^[0-9a-f]{16,}$/, 'a name that is not an address');
    assert.equal(await api.ok('mutation CreateDomain { createDomain }'), domain, 'the same for everybody at one address');
    const { made, hostId, here } = await group(g, domain);
    assert.equal(made.fullId, `${made.id}@${domain}`);
    assert.deepEqual(await api.ok(g.nodes, here), [], 'a new group is empty');
    assert.equal((await api.ok(g.get, here)).hostId, hostId);
    assert.ok((await api.ok(g.list, { domain })).some(({ id }) => id === made.id));
    // A host reports without having joined, and is a node then.
    await api.ok(g.report, { ...here, nodeId: hostId, data: value('20') });
    assert.deepEqual((await api.ok(g.nodes, here)).map(({ id }) => id), [hostId]);
    const nodeId = somebody('node');
    assert.equal(await api.ok(g.status, { nodeId }), null, 'nobody has this id');
    const joined = await api.ok(g.join, { ...here, nodeId });
    assert.deepEqual([joined.id, joined.groupId, joined.domain], [nodeId, made.id, domain]);
    assert.equal(await api.ok(g.status, { nodeId }), null, 'it has reported nothing');
    const said = await api.ok(g.report, { ...here, nodeId, data: value('21') });
    assert.deepEqual(g.data(said), { nodeId, data: value('21') });
    const status = await api.ok(g.status, { nodeId });
    assert.deepEqual([status.groupId, status.domain, status.data], [made.id, domain, value('21')]);
    assert.deepEqual((await api.ok(g.statuses, here)).map((one) => one.nodeId).sort(), [hostId, nodeId].sort());
    assert.deepEqual(g.events(await api.ok(g.fire, { ...here, nodeId, events: [event('start'), event('stop')] })), ['start', 'stop']);
    const renewed = await api.ok(g.renew, { ...here, hostId });
    assert.equal(renewed.intervalSeconds ?? renewed.heartbeatIntervalSeconds, 100);
    const beaten = await api.ok(g.beat, { ...here, nodeId });
    assert.equal(beaten.intervalSeconds ?? beaten.heartbeatIntervalSeconds, 100);
    assert.equal((await api.ok(g.leave, { ...here, nodeId })).peerId, nodeId);
    assert.equal(await api.ok(g.status, { nodeId }), null, 'it has left');
    assert.match(g.end(await api.ok(g.dissolve, { ...here, hostId })), /dissolved/);
    assert.equal((await api.ok(g.create, { name: 'class', hostId, domain, useWebSocket: true })).id === made.id, false, 'another group after the first');
  });

  test(`${g.name} clients: each error`, async () => {
    const { hostId, here } = await group(g);
    const nodeId = somebody('node');
    await api.ok(g.join, { ...here, nodeId });
    const gone = { groupId: 'nothing', domain: here.domain };
    const events = [event('e')];
    const operations = (where, who, host) => [
      [g.join, { ...where, nodeId: somebody('late') }], [g.leave, { ...where, nodeId: who }], [g.beat, { ...where, nodeId: who }], [g.renew, { ...where, hostId: host }],
      [g.report, { ...where, nodeId: who, data: value('1') }], [g.fire, { ...where, nodeId: who, events }], [g.dissolve, { ...where, hostId: host }],
      ...(g.record ? [[g.record, { ...where, nodeId: who, events }]] : []),
    ];
    for (const [query, variables] of operations(gone, nodeId, hostId)) {
      const { errorType, message } = await refusal(query, variables);
      assert.equal(errorType, 'GroupNotFound', query);
      assert.ok(message.includes(`Group not found: nothing@${here.domain}`), `${query}: ${message}`);
    }
    for (const [query, variables] of operations(here, 'stranger', 'stranger').filter(([query]) => query !== g.join && query !== g.renew && query !== g.dissolve)) {
      const { errorType, message } = await refusal(query, variables);
      assert.equal(errorType, 'NodeNotFound', query);
      assert.ok(message.includes('Node not found'), `${query}: ${message}`);
    }
    for (const query of [g.renew, g.dissolve]) {
      const { errorType, message } = await refusal(query, { ...here, hostId: nodeId });
      assert.deepEqual([errorType, message.includes('Only the host')], ['Unauthorized', true], message);
    }
    assert.equal((await refusal(g.create, { name: '', hostId, domain: here.domain, useWebSocket: true })).errorType, 'ValidationError');
    assert.equal((await refusal(g.get, gone)).errorType, 'GroupNotFound');
  });
}

test('older clients: each subscription', async () => {
  const g = OLDER;
  const { hostId, here } = await group(g);
  const nodeId = somebody('node');
  await api.ok(g.join, { ...here, nodeId });
  const socket = await api.socket();
  try {
    const [data, events, end] = [await socket.subscribe(g.onData, here), await socket.subscribe(g.onEvents, here), await socket.subscribe(g.onEnd, here)];
    await api.ok(g.report, { ...here, nodeId, data: value('22') });
    await api.ok(g.fire, { ...here, nodeId, events: [event('start')] });
    await api.ok(g.dissolve, { ...here, hostId });
    assert.deepEqual(g.data(await socket.next(data)), { nodeId, data: value('22') });
    assert.deepEqual(g.events(await socket.next(events)), ['start']);
    assert.match(g.end(await socket.next(end)), /dissolved/);
  } finally {
    socket.close();
  }
});

test('newer clients: one subscription for everything', async () => {
  const g = NEWER;
  const { hostId, here } = await group(g);
  const nodeId = somebody('node');
  await api.ok(g.join, { ...here, nodeId });
  const socket = await api.socket();
  try {
    const all = await socket.subscribe(g.onAll, here);
    await api.ok(g.report, { ...here, nodeId, data: value('22') });
    await api.ok(g.fire, { ...here, nodeId, events: [event('start')] });
    await api.ok(g.dissolve, { ...here, hostId });
    await socket.next(all, 3);
    const [first, second, third] = socket.data(all);
    assert.deepEqual(g.data(first), { nodeId, data: value('22') });
    assert.deepEqual(g.events(second), ['start']);
    assert.match(g.end(third), /dissolved/);
    assert.equal(socket.messages.some(({ type }) => type === 'complete'), false, 'nobody ends their subscription');
  } finally {
    socket.close();
  }
});

test('newer clients: polling, and the end of the group', async () => {
  const g = NEWER;
  const { made, here } = await group(g, 'classroom', { useWebSocket: false, maxConnectionTimeSeconds: 300 });
  assert.deepEqual([made.useWebSocket, made.pollingIntervalSeconds], [false, 2]);
  assert.equal(Date.parse(made.expiresAt) - Date.parse(made.createdAt) <= 301_000, true);
  const nodeId = somebody('node');
  const joined = await api.ok(g.join, { ...here, nodeId, nodeName: 'One' });
  assert.equal(joined.expiresAt, made.expiresAt, 'joinGroup answers the end of the group');
  assert.equal(joined.useWebSocket, false);
  const since = new Date(Date.now() - 1000).toISOString();
  const { recordedCount, nextSince } = await api.ok(g.record, { ...here, nodeId, events: [event('a'), event('b')] });
  assert.equal(recordedCount, 2);
  assert.deepEqual((await api.ok(g.since, { ...here, since })).map(({ name }) => name), ['a', 'b']);
  assert.deepEqual(await api.ok(g.since, { ...here, since: nextSince }), []);
});

test('clients of both generations find the words for a group whose host is silent, and for one whose time is over', async () => {
  const quick = await startWith({ HOST_HEARTBEAT_SECONDS: '1', MEMBER_HEARTBEAT_SECONDS: '100' });
  try {
    const there = await connect(quick.url);
    const create = (more) => there.ok(NEWER.create, { name: 'class', hostId: somebody('host'), domain: 'd', useWebSocket: true, ...more });
    const { id: silent, hostId } = await create({});
    const nodeId = somebody('node');
    await there.ok(OLDER.join, { groupId: silent, domain: 'd', nodeId });
    const { id: short, hostId: shortHost } = await create({ maxConnectionTimeSeconds: 1 });
    const words = async (g, groupId, host) => {
      const where = { groupId, domain: 'd' };
      const asked = [
        [g.renew, { ...where, hostId: host }], [g.beat, { ...where, nodeId }], [g.join, { ...where, nodeId }], [g.leave, { ...where, nodeId }],
        [g.report, { ...where, nodeId, data: value('1') }], [g.fire, { ...where, nodeId, events: [event('e')] }], [g.dissolve, { ...where, hostId: host }],
        ...(g.record ? [[g.record, { ...where, nodeId, events: [event('e')] }]] : []),
      ];
      return Promise.all(asked.map(([query, variables]) => refusal(query, variables, there)));
    };
    const over = async (groupId) => (await there.ask(OLDER.get, { groupId, domain: 'd' })).errors !== undefined;
    await eventually('both groups end', async () => (await over(silent)) && (await over(short)));
    for (const g of [OLDER, NEWER]) {
      for (const { errorType, message } of await words(g, silent, hostId)) {
        assert.equal(errorType, 'GroupNotFound');
        assert.ok(message.includes(`Group not found: ${silent}@d (heartbeat expired)`), message);
      }
      for (const { errorType, message } of await words(g, short, shortHost)) {
        assert.equal(errorType, 'GroupNotFound');
        assert.ok(message.includes(`Group expired: ${short}@d`), message);
      }
    }
  } finally {
    await quick.stop();
  }
});
