// mesh: groups that come and go. In each, one node publishes with message ids of its own and repeats them, one uses the client's `fire`, and
// two follow the stream through WebSockets that the kills break. The books: every acknowledged message is in the stream once, in one order,
// and every subscriber has it.
import WebSocket from 'ws';
import { EVERYTHING, Mesh, MeshError } from '../../clients/mesh/mesh.js';

/** A message id is recognised for as long as messages are kept, two minutes. A publish that is not answered by then is given up. */
const GIVE_UP_MS = 100_000;
/** A group of the environment dev lives for ten minutes at most. */
const LIFE_MS = [100_000, 240_000];
const SHORT_LIFE_MS = [20_000, 30_000];
const DOMAIN = 'storm';
/** A membership ends when five heartbeats have failed; the environment dev has one every 15 seconds. */
const BEATS = 5;
const BEAT_MS = 15_000;

const PAGE = `query ($groupId: ID!, $domain: String!, $sequence: Int!, $secret: String) {
  getMessagesSince(groupId: $groupId, domain: $domain, sequence: $sequence, secret: $secret) { messages { ${EVERYTHING} } voids next head } }`;
const FIRE = `mutation ($groupId: ID!, $domain: String!, $nodeId: ID!, $events: [EventInput!]!, $messageId: ID, $secret: String) {
  fireEventsByNode(groupId: $groupId, domain: $domain, nodeId: $nodeId, events: $events, messageId: $messageId, secret: $secret) { ${EVERYTHING} } }`;

export class MeshLoad {
  name = 'mesh';
  #groups = [];
  #warnings = 0;

  constructor(storm) {
    this.storm = storm;
  }

  get done() {
    return this.#groups.reduce((sum, group) => sum + group.acknowledged.size, 0);
  }

  status() {
    return `${this.done} messages in ${this.#groups.length} groups`;
  }

  async load() {
    const { storm } = this;
    this.mesh = new Mesh({ endpoint: `${storm.url}/graphql`, apiKey: storm.config.apiKey, WebSocket, warn: () => { this.#warnings += 1; } });
    await Promise.all([this.#classes('a'), this.#classes('b')]);
  }

  async #classes(room) {
    for (let n = 1; !this.storm.isOver; n += 1) {
      const life = this.storm.dice.between(...(this.storm.isShort ? SHORT_LIFE_MS : LIFE_MS));
      const group = new Group(this.storm, this.mesh, `${room}${n}`, Date.now() + life);
      this.#groups.push(group);
      await group.live();
    }
  }

  /** Each group waits for its own messages before it ends. */
  async settle() {}

  /** A query: a publish would be a new message. */
  async repeat() {
    await this.mesh.listGroups(DOMAIN);
  }

  async books(account) {
    const total = { published: 0, repeats: 0, unknown: 0, stream: 0, voids: 0, lost: 0, heard: 0, ended: 0 };
    for (const group of this.#groups) group.check(account, total);
    account.line('messages acknowledged', total.published);
    account.named('publishes without a final answer: in the stream once or not at all', total.unknown);
    account.line('messages in the streams of all groups', total.stream);
    account.line('messages heard by subscribers, who all follow whole streams', total.heard);
    account.named('publishes that were repeats of a message id', total.repeats);
    account.named('numbers that a refused publish left void', total.voids);
    account.named('numbers that were taken and never written; subscribers were told of the gap', total.lost);
    account.named('memberships that ended before their group, because their heartbeats failed', total.ended);
    account.named('times that a node had to poll', this.#warnings);
  }
}

/** One group, from its creation to its end. */
class Group {
  /** Message id (or the name of the event, if the client made the id) -> the sequence, once it is known. */
  acknowledged = new Map();
  /** Published, and not known to be in the stream. */
  #unknown = new Set();
  #repeats = 0;
  #followers = [];
  /** The stream as an independent reader fetches it: sequence -> message. */
  #stream = new Map();
  #voids = new Set();
  #audited = 0;
  #problems = [];
  #isEnding = false;

  constructor(storm, mesh, name, until) {
    Object.assign(this, { storm, mesh, name, until });
  }

  get #isOver() {
    return this.storm.isOver || Date.now() > this.until;
  }

  async live() {
    const { mesh, name } = this;
    const host = await this.#enter('host', () => mesh.host({ name, domain: DOMAIN, hostId: `host-${name}` }));
    if (!host) return;
    this.host = host;
    this.where = { groupId: host.group.id, domain: DOMAIN };
    const joined = (nodeId) => this.#enter(nodeId, () => mesh.join({ ...this.where, nodeId }));
    // A node is in one group of a domain at a time, so each group has nodes of its own.
    const nodes = (await Promise.all([joined(`${name}-one`), joined(`${name}-two`)])).filter(Boolean);
    await Promise.all([this.#publish(), ...nodes.map((node) => this.#fire(node)), this.#audit()]);
    await this.#end();
  }

  /** Enters until it succeeds, and follows the stream from then on. */
  async #enter(who, enter) {
    for (let tries = 0; tries < 100 && !this.#isOver; tries += 1) {
      try {
        const membership = await enter();
        const follower = { who, membership, from: membership.sequence, log: [], gaps: [], ended: null }; // ended: before the group
        membership.on('message', (message) => follower.log.push(message));
        membership.on('gap', (gap) => follower.gaps.push(gap));
        membership.on('ended', ({ reason }) => { if (!this.#isEnding) follower.ended = { reason, at: Date.now() }; });
        this.#followers.push(follower);
        return membership;
      } catch {
        await this.storm.rest(1_000);
      }
    }
    return null;
  }

  /** The host publishes with message ids of its own, and sends each once more now and then. */
  async #publish() {
    const { storm } = this;
    for (let n = 1; !this.#isOver; n += 1) {
      const messageId = `${this.name}-m${n}`;
      // Made once: the same id with other content would be refused.
      const variables = { ...this.where, secret: this.host.secret, nodeId: this.host.nodeId, messageId, events: [{ eventName: messageId, firedAt: new Date().toISOString() }] };
      const send = () => this.mesh.request(FIRE, variables);
      this.#unknown.add(messageId);
      const giveUp = Date.now() + GIVE_UP_MS;
      while (Date.now() < giveUp) {
        try {
          this.#know(messageId, (await send()).sequence);
          break;
        } catch (error) {
          if (this.#isFinal(error)) return;
          this.#repeats += 1;
          await storm.rest(storm.dice.between(100, 1_000));
        }
      }
      if (storm.dice.happens(0.3)) {
        this.#repeats += 1;
        await send().then(({ sequence }) => this.#know(messageId, sequence), (error) => this.#isFinal(error));
      }
      await storm.sleep(storm.dice.between(200, 1_200));
    }
  }

  /** Is there no use in trying again? A fault makes a request `Unavailable` or `Conflict`, and a broken AppSync says `InternalFailure`; anything else is wrong. */
  #isFinal(error) {
    const type = error instanceof MeshError ? error.type : error.message;
    if (['GroupNotFound', 'NodeNotFound'].includes(type)) return true;
    if (!['Unavailable', 'Conflict', 'InternalFailure'].includes(type)) this.#problems.push(`a publish was refused: ${type} ${error.message}`);
    return false;
  }

  #know(messageId, sequence) {
    this.#unknown.delete(messageId);
    const before = this.acknowledged.get(messageId);
    if (before !== undefined && before !== sequence) this.#problems.push(`message ${messageId} was acknowledged as ${before} and as ${sequence}`);
    this.acknowledged.set(messageId, sequence);
  }

  /** A node that uses the client as programs do. */
  async #fire(node) {
    for (let n = 1; !this.#isOver; n += 1) {
      const name = `${node.nodeId}-f${n}`;
      this.#unknown.add(name);
      try {
        await node.fire(name);
        this.#unknown.delete(name);
        this.acknowledged.set(name, null); // the client keeps the sequence to itself
      } catch (error) {
        if (this.#isFinal(error)) return;
      }
      await this.storm.sleep(this.storm.dice.between(300, 1_500));
    }
  }

  /** Fetches the stream from its beginning, page by page, while its messages are kept. */
  async #audit() {
    while (!this.#isOver) {
      await this.#read().catch(() => undefined);
      await this.storm.sleep(5_000);
    }
  }

  /** Returns how far the stream was read, and its head. */
  async #read() {
    for (;;) {
      const page = await this.mesh.request(PAGE, { ...this.where, secret: this.host.secret, sequence: this.#audited });
      for (const message of page.messages) this.#stream.set(message.sequence, message);
      for (const number of page.voids) this.#voids.add(number);
      const isDone = page.next === this.#audited || page.next >= page.head;
      this.#audited = page.next;
      if (isDone) return page;
    }
  }

  /** Waits until everybody who is there has heard everything, and dissolves the group. */
  async #end() {
    const isThere = () => this.#followers.filter(({ ended }) => ended === null);
    for (let tries = 0; tries < 120; tries += 1) {
      const page = await this.#read().catch(() => null);
      if (page && page.next >= page.head && isThere().every(({ membership }) => membership.sequence >= page.head)) break;
      await this.storm.rest(1_000);
    }
    this.head = this.#audited;
    for (const follower of this.#followers) follower.until = follower.membership.sequence;
    this.#isEnding = true;
    for (let tries = 0; tries < 60; tries += 1) {
      try {
        await this.host.dissolve();
        break;
      } catch {
        await this.storm.rest(1_000);
      }
    }
    for (const { membership } of this.#followers) membership.drop();
  }

  /** Was something in the way of each of the last heartbeats? */
  #couldNotBeat(at) {
    const { storm } = this;
    const isBroken = (from, to) => ['appsync', 'dynamodb'].some((target) => storm.wasBroken(target, from, to)) || storm.kills.some((kill) => kill >= from && kill <= to);
    return Array.from({ length: BEATS }, (_, n) => at - n * BEAT_MS).every((to) => isBroken(to - BEAT_MS, to));
  }

  check(account, total) {
    const wrong = (text) => account.wrong(`group ${this.name}: ${text}`);
    for (const problem of this.#problems) wrong(problem);
    total.repeats += this.#repeats;
    total.unknown += this.#unknown.size;
    total.voids += this.#voids.size;
    if (this.head === undefined) return; // it was never made, or the storm ended at once
    // The numbers of each message. Events of one publish are one message; the client sends events that were fired together in one.
    const numbers = new Map();
    for (const [sequence, message] of this.#stream) {
      if (message.groupDissolve) continue;
      const names = new Set([...(message.batchEvent?.events ?? []).map(({ name }) => name)]);
      for (const name of names) numbers.set(name, [...(numbers.get(name) ?? []), sequence]);
    }
    for (const [name, sequence] of this.acknowledged) {
      total.published += 1;
      const found = numbers.get(name) ?? [];
      if (found.length !== 1) wrong(`message ${name} was acknowledged and is in the stream ${found.length} times`);
      else if (sequence !== null && found[0] !== sequence) wrong(`message ${name} was acknowledged as ${sequence} and is ${found[0]}`);
    }
    for (const [name, found] of numbers) {
      if (!this.acknowledged.has(name) && !this.#unknown.has(name)) wrong(`message ${name} is in the stream, and nobody published it`);
      if (this.#unknown.has(name) && found.length > 1) wrong(`message ${name} is in the stream ${found.length} times`);
    }
    total.stream += this.#stream.size;
    for (let n = 1; n <= this.head; n += 1) if (!this.#stream.has(n) && !this.#voids.has(n)) total.lost += 1;
    for (const { who, from, until, log, gaps, ended } of this.#followers) {
      const isEarly = ended !== null;
      if (isEarly && this.#couldNotBeat(ended.at)) total.ended += 1;
      else if (isEarly) wrong(`the membership of ${who} ended early (${ended.reason})`);
      const heard = log.filter(({ groupDissolve }) => !groupDissolve).map(({ sequence }) => sequence);
      total.heard += heard.length;
      for (let n = 1; n < heard.length; n += 1) if (heard[n] <= heard[n - 1]) wrong(`${who} heard ${heard[n]} after ${heard[n - 1]}`);
      const set = new Set(heard);
      const last = isEarly ? Math.max(from, ...heard) : this.head;
      if (!isEarly && until < this.head) wrong(`${who} came only to ${until} of ${this.head}`);
      for (let n = from + 1; n <= last; n += 1) {
        if (this.#stream.has(n) && !this.#stream.get(n).groupDissolve && !set.has(n)) wrong(`${who} did not hear message ${n}${gaps.some((gap) => gap.from <= n && n <= gap.to) ? ', and was told that it is lost' : ''}`);
        if (!this.#stream.has(n) && set.has(n)) wrong(`${who} heard message ${n}, which is not in the stream`);
      }
    }
  }
}
