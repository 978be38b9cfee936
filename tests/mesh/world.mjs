// A simulated world, made from one seed: time that moves only when nothing else is left to do, repeatable chance, a network that
// loses, delays, reorders and breaks, and in it a group as crates/mesh/README.md describes it. No sockets, no clocks.

/** A small generator (mulberry32): the same seed, the same world. */
export function chance(seed) {
  let state = seed >>> 0;
  const random = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return { random, happens: (rate) => random() < rate, between: (from, to) => from + random() * (to - from), pick: (list) => list[Math.floor(random() * list.length)] };
}

/** Virtual time. Timers of one moment fire in the order in which they were set. */
export class Time {
  now = Date.UTC(2026, 0, 1);
  #queue = [];
  #next = 1;

  setTimeout = (work, ms) => {
    const timer = { at: this.now + Math.max(0, ms), order: this.#next, work };
    this.#next += 1;
    let at = this.#queue.length;
    while (at > 0 && this.#queue[at - 1].at > timer.at) at -= 1;
    this.#queue.splice(at, 0, timer);
    return timer;
  };

  clearTimeout = (timer) => {
    const at = this.#queue.indexOf(timer);
    if (at >= 0) this.#queue.splice(at, 1);
  };

  /** Lets everything happen until a moment. */
  async until(moment) {
    for (;;) {
      await new Promise(setImmediate); // all that promises have to do is done then
      const timer = this.#queue[0];
      if (!timer || timer.at > moment) break;
      this.#queue.shift();
      this.now = timer.at;
      timer.work();
    }
    this.now = moment;
  }
}

/** The server's own times: short, so that a minute sees a few of each. */
export const LIMITS = { hostBeat: 3, memberBeat: 4, beats: 5, retentionMs: 20_000, settledMs: 5_000, pollSeconds: 2, page: 40 };

const refuse = (errorType, message = errorType) => ({ errors: [{ errorType, message }] });

/** One group behind one network. */
export class World {
  constructor(seed) {
    this.seed = seed;
    this.dice = chance(seed);
    this.time = new Time();
    /** The group's log: number -> message, `null` for a void one; numbers that never came are missing. */
    this.log = new Map();
    this.writtenAt = new Map();
    this.head = 0;
    this.headAt = 0;
    this.members = new Map();
    this.published = new Map();
    /** The secret of each node, in a secured group. */
    this.secrets = new Map();
    this.sockets = new Set();
    /** How many times a node joined again after it had expired. */
    this.returned = 0;
    /** What the server takes in a value or a payload, in characters. */
    this.longest = Infinity;
    this.group = null;
    this.dissolved = false;
    /** How bad things are: rates that `storm` sets and `calm` heals. */
    this.calm();
  }

  calm() {
    this.faults = { loseRequest: 0, loseAnswer: 0, refuse: 0, loseAfterAck: 0, loseDelivery: 0, vanish: 0, slowWrite: 0, breakSocket: 0, hushSocket: 0 };
  }

  storm() {
    const { dice } = this;
    const rate = (most) => (dice.happens(0.5) ? dice.between(0, most) : 0);
    this.faults = {
      loseRequest: rate(0.2), loseAnswer: rate(0.2), refuse: rate(0.2), loseAfterAck: rate(1), loseDelivery: 0,
      vanish: rate(0.1), slowWrite: rate(0.2), breakSocket: rate(0.05), hushSocket: rate(0.02),
    };
  }

  get machine() {
    return { setTimeout: this.time.setTimeout, clearTimeout: this.time.clearTimeout, now: () => this.time.now, random: this.dice.random };
  }

  #sleep(ms) {
    return new Promise((resolve) => void this.time.setTimeout(resolve, ms));
  }

  isAlive() {
    return Boolean(this.group) && !this.dissolved && this.group.expiresAt > this.time.now && this.group.freshUntil > this.time.now;
  }

  // --- HTTP --------------------------------------------------------------------

  /** `fetch` for one node; `line.down` cuts it off. */
  fetch(line) {
    return async (_url, { body }) => {
      const { query, variables } = JSON.parse(body);
      const lost = () => Promise.reject(new Error('the line is dead'));
      await this.#sleep(this.dice.between(2, 60));
      if (line.down || this.dice.happens(this.faults.loseRequest)) return lost();
      const answer = await this.#answer(query, variables);
      await this.#sleep(this.dice.between(2, 60));
      if (line.down || this.dice.happens(this.faults.loseAnswer)) return lost();
      return { json: async () => JSON.parse(JSON.stringify(answer)) };
    };
  }

  async #answer(query, v) {
    if (this.dice.happens(this.faults.refuse)) return refuse(this.dice.pick(['Conflict', 'Unavailable']));
    const field = /(createGroup|joinGroup|leaveGroup|dissolveGroup|renewHeartbeat|sendMemberHeartbeat|reportDataByNode|fireEventsByNode|recordEventsByNode|getMessagesSince)\(/.exec(query)[1];
    const value = this.#isStranger(field, v) ? refuse('Unauthorized') : await this[`_${field}`](v);
    return value?.errors ? value : { data: { [field]: value } };
  }

  /** In a secured group the host and the nodes prove themselves; whoever reads has the secret of anybody. */
  #isStranger(field, { hostId, nodeId, id, secret }) {
    if (!this.isAlive() || !this.group.secured) return false;
    if (field === 'getMessagesSince') return ![...this.secrets].some(([node, its]) => its === secret && (node === this.group.hostId || this.#isMember(node)));
    const who = hostId ?? nodeId ?? id;
    return this.secrets.has(who) ? this.secrets.get(who) !== secret : field !== 'joinGroup';
  }

  _createGroup({ hostId, domain, ws, secured, secret }) {
    if (!this.isAlive()) {
      const { now } = this.time;
      this.group = { id: 'g1', domain, hostId, useWebSocket: ws !== false, expiresAt: now + 600_000, freshUntil: now + LIMITS.hostBeat * LIMITS.beats * 1000 };
      this.group.secured = Boolean(secured);
      if (secured) this.secrets.set(hostId, secret);
      this.members.set(hostId, Infinity);
    }
    return { ...this.group, hostSecret: this.secrets.get(hostId) ?? null, heartbeatIntervalSeconds: LIMITS.hostBeat, pollingIntervalSeconds: LIMITS.pollSeconds };
  }

  _joinGroup({ nodeId, secret }) {
    if (!this.isAlive()) return refuse('GroupNotFound');
    if (this.group.secured) this.secrets.set(nodeId, secret);
    if (this.members.has(nodeId) && !this.#isMember(nodeId)) this.returned += 1;
    this.members.set(nodeId, this.time.now + LIMITS.memberBeat * LIMITS.beats * 1000);
    return { memberSecret: this.secrets.get(nodeId) ?? null, heartbeatIntervalSeconds: LIMITS.memberBeat, useWebSocket: this.group.useWebSocket, pollingIntervalSeconds: LIMITS.pollSeconds };
  }

  #isMember(nodeId) {
    return (this.members.get(nodeId) ?? 0) > this.time.now;
  }

  _leaveGroup({ nodeId }) {
    if (!this.isAlive()) return refuse('GroupNotFound');
    if (!this.#isMember(nodeId)) return refuse('NodeNotFound');
    this.members.delete(nodeId);
    return { message: 'left' };
  }

  _renewHeartbeat() {
    if (!this.isAlive()) return refuse('GroupNotFound');
    this.group.freshUntil = this.time.now + LIMITS.hostBeat * LIMITS.beats * 1000;
    return { expiresAt: '' };
  }

  _sendMemberHeartbeat({ id }) {
    if (!this.isAlive()) return refuse('GroupNotFound');
    if (!this.#isMember(id)) return refuse('NodeNotFound');
    this.members.set(id, this.time.now + LIMITS.memberBeat * LIMITS.beats * 1000);
    return { expiresAt: '' };
  }

  _dissolveGroup({ groupId, domain, messageId }) {
    if (this.published.has(messageId)) return { ...this.published.get(messageId), groupId: null, domain: null };
    if (!this.isAlive()) return refuse('GroupNotFound');
    this.dissolved = true;
    this.head += 1;
    const message = { groupId, domain, sequence: this.head, messageId, groupDissolve: { groupId, domain, message: 'over' } };
    this.published.set(messageId, message);
    this.log.set(this.head, message);
    this.writtenAt.set(this.head, this.time.now);
    this.#deliver(message);
    return message;
  }

  #isTooLong(texts) {
    return texts.some((text) => (text?.length ?? 0) > this.longest);
  }

  _reportDataByNode(v) {
    if (this.#isTooLong(v.value.map(({ value }) => value))) return refuse('ValidationError', 'A value is too long.');
    return this.#publish(v, (where) => ({ nodeStatus: { ...where, nodeId: v.nodeId, data: v.value, timestamp: '' } }), true);
  }

  _fireEventsByNode(v) {
    if (this.#isTooLong(v.value.map(({ payload }) => payload))) return refuse('ValidationError', 'A payload is too long.');
    return this.#publish(v, (where) => ({ batchEvent: { ...where, firedByNodeId: v.nodeId, events: v.value.map((e) => ({ name: e.eventName, payload: e.payload })), timestamp: '' } }), true);
  }

  _recordEventsByNode(v) {
    return this.#publish(v, (where) => ({ batchEvent: { ...where, firedByNodeId: v.nodeId, events: v.value.map((e) => ({ name: e.eventName, payload: e.payload })), timestamp: '' } }), false);
  }

  /** The number first, then the message: in between, anything may happen. */
  async #publish({ groupId, domain, nodeId, messageId }, make, isDelivered) {
    const where = { groupId, domain };
    const known = this.published.get(messageId);
    if (known) return { ...known, groupId: null, domain: null };
    if (!this.isAlive()) return refuse('GroupNotFound');
    this.head += 1;
    this.headAt = this.time.now;
    const sequence = this.head;
    if (this.dice.happens(this.faults.vanish)) return refuse('Unavailable'); // the publisher's request dies: the number never comes
    await this.#sleep(this.dice.happens(this.faults.slowWrite) ? this.dice.between(100, 3000) : this.dice.between(1, 20));
    if (this.published.has(messageId)) {
      this.log.set(sequence, null);
      this.writtenAt.set(sequence, this.time.now);
      return refuse('Conflict');
    }
    if (this.dissolved) return refuse('GroupNotFound');
    if (!this.#isMember(nodeId)) {
      this.log.set(sequence, null);
      this.writtenAt.set(sequence, this.time.now);
      return refuse('NodeNotFound');
    }
    const message = { ...where, sequence, messageId, ...make(where) };
    this.log.set(sequence, message);
    this.writtenAt.set(sequence, this.time.now);
    this.published.set(messageId, message);
    if (isDelivered) this.#deliver(message);
    return message;
  }

  /** Is the message of a number still kept? */
  isKept(sequence) {
    return this.writtenAt.has(sequence) && this.writtenAt.get(sequence) + LIMITS.retentionMs > this.time.now;
  }

  _getMessagesSince({ sequence: after }) {
    if (!this.isAlive()) return refuse('GroupNotFound');
    const settled = (at) => at + LIMITS.settledMs <= this.time.now;
    const numbers = [...this.log.keys()].filter((n) => n > after).sort((a, b) => a - b);
    const page = numbers.slice(0, LIMITS.page);
    const messages = [];
    const voids = [];
    let next = after;
    let open = false;
    for (const n of page) {
      if (n > next + 1 && !settled(this.writtenAt.get(n))) open = true;
      if (!open) {
        next = n;
        if (this.isKept(n)) (this.log.get(n) ? messages : voids).push(this.log.get(n) ?? n);
      }
    }
    if (!open && page.length === numbers.length && next < this.head && settled(this.headAt)) next = this.head;
    return { messages, voids, next, head: this.head };
  }

  // --- WebSocket ---------------------------------------------------------------

  /** Each delivery takes its own time: what was published later may arrive earlier. */
  #deliver(message) {
    const text = JSON.stringify({ id: 'stream', type: 'data', payload: { data: { onMessageInGroup: message } } });
    for (const socket of this.sockets) if (socket.isSubscribed) this.time.setTimeout(() => socket.receive(text), this.dice.between(2, 120));
  }

  /** `WebSocket` for one node. */
  WebSocket(line) {
    const world = this;
    const { dice, time } = this;
    const KEEP_ALIVE_MS = 4000;
    return class Socket {
      isSubscribed = false;
      isDead = false;
      isHushed = false;
      acknowledgedAt = Infinity;

      constructor() {
        world.sockets.add(this);
        time.setTimeout(() => {
          if (line.down || dice.happens(world.faults.breakSocket)) this.break();
          else if (!this.isDead) this.onopen?.();
        }, dice.between(5, 100));
      }

      send(text) {
        const { type } = JSON.parse(text);
        if (type === 'connection_init') this.#say({ type: 'connection_ack', payload: { connectionTimeoutMs: 3 * KEEP_ALIVE_MS } });
        if (type === 'start') {
          time.setTimeout(() => {
            if (this.isDead) return;
            this.isSubscribed = true;
            this.acknowledgedAt = time.now;
            this.#say({ id: 'stream', type: 'start_ack' });
            this.#keepAlive();
          }, dice.between(2, 60));
        }
      }

      #say(message) {
        time.setTimeout(() => this.#pass(JSON.stringify(message)), dice.between(2, 60));
      }

      #keepAlive() {
        time.setTimeout(() => {
          if (this.isDead) return;
          this.#pass(JSON.stringify({ type: 'ka' }));
          this.#keepAlive();
        }, KEEP_ALIVE_MS);
      }

      /** A message of the stream. AppSync may lose one right after it has acknowledged. */
      receive(text) {
        if (time.now < this.acknowledgedAt + 1000 && dice.happens(world.faults.loseAfterAck)) return;
        if (dice.happens(world.faults.breakSocket)) this.break();
        if (dice.happens(world.faults.hushSocket)) this.isHushed = true; // half-open: nobody says that it is dead
        this.#pass(text);
      }

      #pass(data) {
        if (line.down) this.isHushed = true;
        if (!this.isDead && !this.isHushed) this.onmessage?.({ data });
      }

      break() {
        if (this.isDead) return;
        this.close();
        time.setTimeout(() => this.onclose?.(), 1);
      }

      close() {
        this.isDead = true;
        world.sockets.delete(this);
      }
    };
  }
}
