// Runs the JavaScript client in many simulated worlds: joins, leaves, drops, losses after start_ack, reconnects, expiries. Its listeners must
// hear the group's log in order and nothing twice, and every gap must be noticed, and filled while messages are kept.
//
//   SEED=n node simulation.mjs        one world, again
//   SEEDS=100000 node simulation.mjs  many
//
// Without node:test, whose bookkeeping of every promise takes longer than the worlds do.
import assert from 'node:assert/strict';
import { Mesh } from '../../clients/mesh/mesh.js';
import { World } from './world.mjs';

const SEEDS = Number(process.env.SEEDS ?? 300);
const STORM_MS = 30_000;
const CALM_MS = 30_000;

/** One node: its client, and what its listeners heard. */
class Node {
  heard = [];
  gaps = [];
  endings = [];
  fired = [];
  accepted = new Set();
  line = { down: false };
  membership = null;

  constructor(world, id) {
    this.world = world;
    this.id = id;
    const options = { endpoint: 'http://mesh.test/graphql', apiKey: 'key', warn: () => {}, machine: world.machine };
    this.mesh = new Mesh({ ...options, fetch: world.fetch(this.line), WebSocket: world.WebSocket(this.line) });
  }

  enter(membership) {
    this.membership = membership;
    this.from = membership.sequence;
    membership.on('message', (message) => this.heard.push(message));
    membership.on('gap', (gap) => {
      // The client may give up only messages that it could not fetch at that moment.
      for (let n = gap.from; n <= gap.to; n += 1) {
        const message = this.world.log.get(n);
        if (message && this.world.isKept(n) && this.world.isAlive()) this.wronglyLost ??= { n, at: this.world.time.now, written: this.world.writtenAt.get(n) };
      }
      this.gaps.push(gap);
    });
    membership.on('ended', ({ reason }) => this.endings.push(reason));
  }

  get isIn() {
    return this.membership !== null && this.endings.length === 0;
  }

  say() {
    const { dice } = this.world;
    if (dice.happens(0.5)) {
      this.membership.report({ temperature: Math.floor(dice.between(0, 30)) }).catch(() => {});
    } else {
      for (let count = 1 + Math.floor(dice.between(0, 3)); count > 0; count -= 1) {
        const name = `${this.id}-${this.fired.length}`;
        this.fired.push(name);
        this.membership.fire(name).then(() => this.accepted.add(name), () => {});
      }
    }
  }
}

/** What one world comes to. Throws where a promise was broken. */
async function live(seed) {
  const world = new World(seed);
  const { dice, time } = world;
  const nodes = [];
  const begin = time.now;
  const useWebSocket = dice.happens(0.8);
  const later = (ms, work) => void time.setTimeout(work, ms);
  const attempt = async (node, work) => {
    try {
      node.enter(await work());
    } catch {
      node.refused = true; // five attempts in a storm may all fail, and the group may be over
    }
  };

  const host = new Node(world, 'host');
  nodes.push(host);
  later(0, () => attempt(host, () => host.mesh.host({ name: 'class', domain: 'home', hostId: 'host', useWebSocket, secured: dice.happens(0.5) })));
  for (let n = 1; n <= 4; n += 1) {
    const node = new Node(world, `node-${n}`);
    nodes.push(node);
    later(dice.between(1000, STORM_MS / 2), () => world.group && attempt(node, () => node.mesh.join({ groupId: 'g1', domain: 'home', nodeId: node.id })));
  }
  // A node that never joined publishes too: its numbers are void.
  for (let n = 0; n < 3; n += 1) {
    later(dice.between(2000, STORM_MS), () => {
      world._reportDataByNode({ groupId: 'g1', domain: 'home', nodeId: 'stranger', messageId: `s${n}`, value: [] });
    });
  }
  for (let at = 2000; at < STORM_MS + 10_000; at += dice.between(50, 1500)) {
    later(at, () => {
      const inside = nodes.filter((node) => node.isIn && !node.line.down);
      if (inside.length > 0) dice.pick(inside).say();
    });
  }
  for (let at = 3000; at < STORM_MS; at += dice.between(2000, 10_000)) later(at, () => world.storm());
  later(STORM_MS, () => world.calm());
  // Lines go down, for a moment or for longer than messages are kept and members live.
  for (const node of nodes) {
    if (!dice.happens(0.4)) continue;
    const from = dice.between(4000, STORM_MS - 12_000);
    const long = dice.happens(0.3) ? dice.between(15_000, 26_000) : dice.between(500, 8000);
    later(from, () => { node.line.down = true; });
    later(Math.min(from + long, STORM_MS), () => { node.line.down = false; });
  }
  if (dice.happens(0.2)) later(dice.between(10_000, STORM_MS), () => nodes[1].isIn && nodes[1].membership.leave().catch(() => {}));
  if (dice.happens(0.2)) later(dice.between(10_000, STORM_MS), () => nodes[2].isIn && nodes[2].membership.drop());
  const ending = dice.random();
  if (ending < 0.2) later(STORM_MS + 15_000, () => host.isIn && host.membership.dissolve().catch(() => {}));
  else if (ending < 0.3) later(STORM_MS, () => host.isIn && host.membership.drop());

  await time.until(begin + STORM_MS + CALM_MS);
  for (const node of nodes) check(world, node);
  const summary = {
    messages: [...world.log.values()].filter(Boolean).length,
    heard: nodes.reduce((sum, node) => sum + node.heard.length, 0),
    gaps: nodes.reduce((sum, node) => sum + node.gaps.length, 0),
    endings: nodes.flatMap((node) => node.endings),
    polled: !useWebSocket,
    returned: world.returned,
  };
  for (const node of nodes) node.membership?.drop();
  await time.until(time.now + 60_000);
  return summary;
}

function check(world, node) {
  if (!node.membership) return;
  const said = `${node.id}: `;
  const numbers = node.heard.map((message) => message.sequence);
  for (let n = 1; n < numbers.length; n += 1) assert.ok(numbers[n] > numbers[n - 1], `${said}in order, and nothing twice: ${numbers}`);
  for (const message of node.heard) assert.deepEqual(message, world.log.get(message.sequence), `${said}as it was published`);
  assert.equal(node.wronglyLost, undefined, `${said}gave up what was kept: ${JSON.stringify(node.wronglyLost)}`);
  // Every number up to the last delivered one was heard, reported as lost, or void.
  const heard = new Set(numbers);
  const told = (n) => node.gaps.some(({ from, to }) => from <= n && n <= to);
  for (let n = node.from + 1; n <= node.membership.sequence; n += 1) {
    if (heard.has(n)) continue;
    assert.ok(world.log.get(n) === null || told(n), `${said}${n} was passed over without a word`);
  }
  assert.ok(node.endings.length <= 1, `${said}the end is told once: ${node.endings}`);
  // After the calm, every member of the group has reached the group's head.
  if (node.endings.length === 0) {
    assert.ok(world.isAlive(), `${said}the group is over, and nobody said so`);
    assert.equal(node.membership.sequence, world.head, `${said}is behind`);
  }
  // What was fired is in the log at most once, in the order in which it was fired, and what was accepted is there.
  const names = [...world.log.entries()].sort((a, b) => a[0] - b[0]).map(([, message]) => message).filter((message) => message?.batchEvent?.firedByNodeId === node.id).flatMap((message) => message.batchEvent.events.map((event) => event.name));
  assert.deepEqual(names, node.fired.filter((name) => names.includes(name)), `${said}events in order, none twice`);
  for (const name of node.accepted) assert.ok(names.includes(name), `${said}${name} was accepted and is not there`);
}

const seeds = process.env.SEED ? [Number(process.env.SEED)] : Array.from({ length: SEEDS }, (_, n) => n + 1);
const seen = { messages: 0, heard: 0, gaps: 0, polled: 0, returned: 0, endings: {} };
for (const seed of seeds) {
  try {
    const world = await live(seed);
    seen.messages += world.messages;
    seen.heard += world.heard;
    seen.gaps += world.gaps;
    seen.polled += world.polled ? 1 : 0;
    seen.returned += world.returned;
    for (const reason of world.endings) seen.endings[reason] = (seen.endings[reason] ?? 0) + 1;
  } catch (error) {
    console.error(`seed ${seed} breaks a promise; \`SEED=${seed} node tests/mesh/simulation.mjs\` replays it`);
    throw error;
  }
}
console.log(`${seeds.length} worlds: ${JSON.stringify(seen)}`);
if (seeds.length >= 100) {
  // The worlds were bad enough to prove something.
  assert.ok(seen.gaps > 10 && seen.polled > 10 && seen.messages > 1000, JSON.stringify(seen));
  for (const reason of ['left', 'dissolved', 'dropped', 'GroupNotFound']) assert.ok(seen.endings[reason] > 0, `nobody ended by ${reason}`);
  // Nodes that were offline for longer than a membership lasts joined again, instead of giving up while the group lived.
  assert.ok(seen.returned > 10, `only ${seen.returned} nodes joined again`);
  for (const reason of ['NodeNotFound', 'Unauthorized']) assert.equal(seen.endings[reason], undefined, `somebody gave up by ${reason}`);
}
