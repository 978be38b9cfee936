/**
 * A client of the mesh, for browsers and Node, without dependencies.
 *
 * What it promises: every message of a group that is published after `join` resolved, and is still kept when it is asked for,
 * reaches the listeners once and in the one order in which the group accepted them. A gap in the sequence is noticed,
 * filled by a query, and told (`gap`) if it cannot be filled. The group's end reaches them once (`ended`).
 *
 * How: one subscription to `onMessageInGroup`; messages wait until those before them are here, at most GAP_PATIENCE_MS, then the
 * missing ones are asked for. After every (re)connection the stream is asked for what came meanwhile: a server may lose a message
 * right after it has acknowledged a subscription. Groups without WebSocket are polled with the same query.
 */

/** Reports and events are collected for this long and sent together. */
export const BATCH_MS = 50;
/** How long an out-of-order message waits for the ones before it. */
const GAP_PATIENCE_MS = 300;
/** Pauses between attempts to reconnect: the first, and the longest. */
const RECONNECT_FIRST_MS = 500;
const RECONNECT_LONGEST_MS = 15000;
/** Without a sign of life for this long a socket counts as dead (the server names its own limit when it acknowledges). */
const SILENCE_MS = 300000;
/** Beyond every sequence: asking from here tells the head, and nothing else. */
const BEYOND = 2147483647;
/** How often a request is tried when the server says "try again". */
const ATTEMPTS = 5;

/** The one selection with which both generations of clients understand each other. */
export const EVERYTHING = `
  groupId domain sequence messageId timestamp
  nodeStatus { nodeId groupId domain data { key value } timestamp }
  batchEvent { firedByNodeId groupId domain timestamp events { name firedByNodeId groupId domain payload timestamp cursor } }
  groupDissolve { groupId domain message }
  nodeId data { key value } firedByNodeId events { name firedByNodeId groupId domain payload timestamp cursor } message`;

const GROUP = 'id domain fullId name hostId createdAt expiresAt heartbeatIntervalSeconds useWebSocket pollingIntervalSeconds';

/** What the server refused, with AppSync's `errorType` as `type`. */
export class MeshError extends Error {
  constructor(type, message) {
    super(message);
    this.name = 'MeshError';
    this.type = type;
  }

  /** The group is over: there is nothing to come back to. */
  get isEnd() {
    return this.type === 'GroupNotFound';
  }

  get isRetryable() {
    return this.type === 'Conflict' || this.type === 'Unavailable';
  }
}

export class Mesh {
  /** @param {{endpoint: string, realtime?: string, apiKey: string, WebSocket?: any, fetch?: any}} options */
  constructor({ endpoint, realtime, apiKey, WebSocket, fetch }) {
    this.endpoint = endpoint;
    this.realtime = realtime ?? `${endpoint.replace(/^http/, 'ws')}/realtime`;
    this.apiKey = apiKey;
    this.WebSocket = WebSocket ?? globalThis.WebSocket;
    this.fetch = fetch ?? globalThis.fetch.bind(globalThis);
  }

  /** One operation with one field; its value. Throws a MeshError. */
  async request(query, variables = {}) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#once(query, variables);
      } catch (error) {
        if (attempt >= ATTEMPTS || !(error instanceof MeshError) || !error.isRetryable) throw error;
        await sleep(50 * 2 ** attempt * (0.5 + Math.random() / 2));
      }
    }
  }

  async #once(query, variables) {
    let body;
    try {
      const response = await this.fetch(this.endpoint, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-api-key': this.apiKey },
        body: JSON.stringify({ query, variables }),
      });
      body = await response.json();
    } catch (cause) {
      throw new MeshError('Unavailable', `The mesh cannot be reached: ${cause.message}`);
    }
    const error = body.errors?.[0];
    if (error) throw new MeshError(error.errorType ?? 'Unknown', error.message);
    return Object.values(body.data ?? {})[0];
  }

  createDomain() {
    return this.request('mutation { createDomain }');
  }

  listGroups(domain) {
    return this.request(`query ($domain: String!) { listGroupsByDomain(domain: $domain) { ${GROUP} } }`, { domain });
  }

  /** Creates the host's group, or finds the one that it has, and enters it. */
  async host({ name, domain, hostId, maxConnectionTimeSeconds, useWebSocket }) {
    const group = await this.request(
      `mutation ($name: String!, $hostId: ID!, $domain: String!, $seconds: Int, $ws: Boolean) {
         createGroup(name: $name, hostId: $hostId, domain: $domain, maxConnectionTimeSeconds: $seconds, useWebSocket: $ws) { ${GROUP} } }`,
      { name, hostId, domain, seconds: maxConnectionTimeSeconds, ws: useWebSocket },
    );
    return new Membership(this, group, hostId, true).enter();
  }

  /** Joins a group and enters it. */
  async join({ groupId, domain, nodeId, nodeName }) {
    const node = await this.request(
      `mutation ($groupId: ID!, $domain: String!, $nodeId: ID!, $nodeName: String) {
         joinGroup(groupId: $groupId, domain: $domain, nodeId: $nodeId, nodeName: $nodeName) {
           heartbeatIntervalSeconds useWebSocket pollingIntervalSeconds } }`,
      { groupId, domain, nodeId, nodeName },
    );
    return new Membership(this, { ...node, id: groupId, domain }, nodeId, false).enter();
  }
}

/**
 * A node in a group. Listeners: `status` (a NodeStatus), `events` (a BatchEvent), `message` (every message as it came),
 * `gap` ({from, to}: lost), `ended` ({reason}), `connection` ('open' | 'lost' | 'polling').
 */
export class Membership {
  #mesh;
  #listeners = new Map();
  #timers = new Set();
  #socket = null;
  #reconnects = 0;
  /** The last sequence that was delivered, in order. */
  #delivered = 0;
  /** Messages that wait for those before them. */
  #waiting = new Map();
  #filling = null;
  #unsent = { data: new Map(), events: [] };
  #reported = new Map();
  #flushing = null;
  #over = false;

  constructor(mesh, group, nodeId, isHost) {
    this.#mesh = mesh;
    this.group = group;
    this.nodeId = nodeId;
    this.isHost = isHost;
  }

  get #where() {
    return { groupId: this.group.id, domain: this.group.domain };
  }

  /** The last sequence that the listeners have seen. */
  get sequence() {
    return this.#delivered;
  }

  on(kind, listener) {
    if (!this.#listeners.has(kind)) this.#listeners.set(kind, new Set());
    this.#listeners.get(kind).add(listener);
    return () => this.#listeners.get(kind)?.delete(listener);
  }

  #tell(kind, value) {
    for (const listener of this.#listeners.get(kind) ?? []) listener(value);
  }

  /** Finds out where the stream is, and begins to follow it. */
  async enter() {
    const { head } = await this.#page(BEYOND);
    this.#delivered = head;
    this.#beat();
    if (this.group.useWebSocket === false) this.#poll();
    else await this.#connect();
    return this;
  }

  /** Reports values; only what has changed is sent, after BATCH_MS, together with what else has by then. */
  report(values) {
    for (const [key, value] of Object.entries(values)) {
      const text = String(value);
      if (this.#unsent.data.has(key) ? this.#unsent.data.get(key) !== text : this.#reported.get(key) !== text) {
        this.#unsent.data.set(key, text);
      }
    }
    return this.#schedule();
  }

  /** Fires an event, in order, after BATCH_MS together with the others of that time. */
  fire(name, payload = null) {
    const text = payload === null || typeof payload === 'string' ? payload : JSON.stringify(payload);
    this.#unsent.events.push({ eventName: name, payload: text, firedAt: new Date().toISOString() });
    return this.#schedule();
  }

  #schedule() {
    if (this.#over) return Promise.reject(new MeshError('GroupNotFound', 'The group has ended.'));
    this.#flushing ??= sleep(BATCH_MS).then(() => this.flush());
    return this.#flushing;
  }

  /** Sends what is waiting now. A publish whose answer is lost is repeated under the same messageId. */
  async flush() {
    this.#flushing = null;
    const { data, events } = this.#unsent;
    this.#unsent = { data: new Map(), events: [] };
    const sent = [];
    if (data.size > 0) {
      for (const [key, value] of data) this.#reported.set(key, value);
      // The last known values all together: a status is the whole of it.
      const all = [...this.#reported].map(([key, value]) => ({ key, value }));
      sent.push(this.#publish('reportDataByNode', 'data', '[SensorDataInput!]!', all));
    }
    if (events.length > 0) {
      const field = this.group.useWebSocket === false ? 'recordEventsByNode' : 'fireEventsByNode';
      sent.push(this.#publish(field, 'events', '[EventInput!]!', events));
    }
    await Promise.all(sent);
  }

  async #publish(field, argument, type, value) {
    const selection = field === 'recordEventsByNode' ? 'recordedCount nextSince' : EVERYTHING;
    const query = `mutation ($groupId: ID!, $domain: String!, $nodeId: ID!, $value: ${type}, $messageId: ID) {
      ${field}(groupId: $groupId, domain: $domain, nodeId: $nodeId, ${argument}: $value, messageId: $messageId) { ${selection} } }`;
    try {
      return await this.#mesh.request(query, { ...this.#where, nodeId: this.nodeId, value, messageId: newId() });
    } catch (error) {
      this.#failed(error);
      throw error;
    }
  }

  async leave() {
    this.#end('left');
    await this.#mesh.request(
      'mutation ($groupId: ID!, $domain: String!, $nodeId: ID!) { leaveGroup(groupId: $groupId, domain: $domain, nodeId: $nodeId) { message } }',
      { ...this.#where, nodeId: this.nodeId },
    );
  }

  async dissolve() {
    await this.#mesh.request(
      `mutation ($groupId: ID!, $domain: String!, $hostId: ID!) { dissolveGroup(groupId: $groupId, domain: $domain, hostId: $hostId) { ${EVERYTHING} } }`,
      { ...this.#where, hostId: this.nodeId },
    );
    this.#end('dissolved');
  }

  /** Stops without telling the server: what a crash looks like to the others. */
  drop() {
    this.#end('dropped');
  }

  // --- staying alive ---------------------------------------------------------

  #beat() {
    const seconds = this.group.heartbeatIntervalSeconds ?? 15;
    this.#every(seconds * 1000, async () => {
      const [field, id] = this.isHost ? ['renewHeartbeat', 'hostId'] : ['sendMemberHeartbeat', 'nodeId'];
      const query = `mutation ($groupId: ID!, $domain: String!, $id: ID!) {
        ${field}(groupId: $groupId, domain: $domain, ${id}: $id) { expiresAt } }`;
      await this.#mesh.request(query, { ...this.#where, id: this.nodeId }).catch((error) => this.#failed(error));
    });
  }

  #poll() {
    this.#tell('connection', 'polling');
    this.#every((this.group.pollingIntervalSeconds ?? 2) * 1000, () => this.#catchUp());
  }

  #failed(error) {
    if (error instanceof MeshError && (error.isEnd || error.type === 'NodeNotFound')) this.#end(error.type);
  }

  #end(reason) {
    if (this.#over) return;
    this.#over = true;
    for (const timer of this.#timers) clearInterval(timer);
    this.#timers.clear();
    this.#socket?.close();
    this.#socket = null;
    this.#tell('ended', { reason });
  }

  #every(ms, work) {
    const timer = setInterval(() => void work(), ms);
    timer.unref?.();
    this.#timers.add(timer);
  }

  // --- following the stream --------------------------------------------------

  /** One connection: resolves when the subscription is acknowledged and what came before it has been asked for. */
  #connect() {
    return new Promise((resolve, reject) => {
      const host = new URL(this.#mesh.endpoint).host;
      const authorization = { host, 'x-api-key': this.#mesh.apiKey };
      const header = encodeURIComponent(btoa(JSON.stringify(authorization)));
      const socket = new this.#mesh.WebSocket(`${this.#mesh.realtime}?header=${header}&payload=e30=`, 'graphql-ws');
      this.#socket = socket;
      let silence;
      let patience = SILENCE_MS;
      const alive = () => {
        clearTimeout(silence);
        silence = setTimeout(() => socket.close(), patience);
        silence.unref?.();
      };
      alive();
      socket.onopen = () => socket.send(JSON.stringify({ type: 'connection_init' }));
      socket.onclose = () => {
        clearTimeout(silence);
        reject(new MeshError('Unavailable', 'The connection was closed.'));
        if (this.#socket === socket) this.#lost();
      };
      socket.onmessage = ({ data }) => {
        alive();
        const message = JSON.parse(data);
        if (message.type === 'connection_ack') {
          patience = message.payload?.connectionTimeoutMs ?? patience;
          const query = `subscription ($groupId: ID!, $domain: String!) { onMessageInGroup(groupId: $groupId, domain: $domain) { ${EVERYTHING} } }`;
          const payload = { data: JSON.stringify({ query, variables: this.#where }), extensions: { authorization } };
          socket.send(JSON.stringify({ id: 'stream', type: 'start', payload }));
        } else if (message.type === 'start_ack') {
          this.#reconnects = 0;
          this.#tell('connection', 'open');
          this.#catchUp().then(resolve, reject);
        } else if (message.type === 'data') {
          this.#arrived(message.payload.data.onMessageInGroup);
        } else if (message.type === 'error' || message.type === 'connection_error') {
          const error = message.payload?.errors?.[0];
          reject(new MeshError(error?.errorType ?? 'Unknown', error?.message ?? 'The subscription was refused.'));
          socket.close();
        }
      };
    });
  }

  #lost() {
    this.#socket = null;
    if (this.#over) return;
    this.#tell('connection', 'lost');
    const pause = Math.min(RECONNECT_LONGEST_MS, RECONNECT_FIRST_MS * 2 ** this.#reconnects);
    this.#reconnects += 1;
    setTimeout(() => {
      if (!this.#over) this.#connect().catch((error) => this.#failed(error));
    }, pause * (0.5 + Math.random() / 2));
  }

  #arrived(message) {
    if (!message || message.sequence <= this.#delivered) return; // seen, by a query or an earlier connection
    this.#waiting.set(message.sequence, message);
    this.#deliver();
    if (this.#waiting.size > 0 && !this.#filling) {
      this.#filling = sleep(GAP_PATIENCE_MS)
        .then(() => (this.#waiting.size > 0 ? this.#catchUp() : undefined))
        .finally(() => {
          this.#filling = null;
          if (this.#waiting.size > 0 && !this.#over) this.#arrived([...this.#waiting.values()][0]);
        });
    }
  }

  /** Delivers what is next in order, as far as it is here. */
  #deliver() {
    for (;;) {
      const message = this.#waiting.get(this.#delivered + 1);
      if (!message) return;
      this.#waiting.delete(message.sequence);
      this.#delivered = message.sequence;
      this.#tell('message', message);
      if (message.nodeStatus) this.#tell('status', message.nodeStatus);
      if (message.batchEvent) this.#tell('events', message.batchEvent);
      if (message.groupDissolve) this.#end('dissolved');
    }
  }

  #page(sequence) {
    return this.#mesh.request(
      `query ($groupId: ID!, $domain: String!, $sequence: Int!) {
         getMessagesSince(groupId: $groupId, domain: $domain, sequence: $sequence) { messages { ${EVERYTHING} } voids next head } }`,
      { ...this.#where, sequence },
    );
  }

  /** Asks for what came after the last delivered message. */
  async #catchUp() {
    try {
      for (;;) {
        const page = await this.#page(this.#delivered);
        const here = new Map(page.messages.map((message) => [message.sequence, message]));
        const voids = new Set(page.voids);
        let lostFrom = null;
        const lost = (to) => {
          if (lostFrom !== null) this.#tell('gap', { from: lostFrom, to });
          lostFrom = null;
        };
        for (let n = this.#delivered + 1; n <= page.next; n += 1) {
          const message = here.get(n) ?? this.#waiting.get(n);
          if (message) {
            lost(n - 1);
            this.#waiting.set(n, message);
            this.#deliver();
          } else {
            if (!voids.has(n)) lostFrom ??= n;
            else lost(n - 1);
            this.#delivered = n;
          }
        }
        lost(page.next);
        this.#deliver();
        if (page.messages.length === 0 || this.#delivered >= page.head) return;
      }
    } catch (error) {
      this.#failed(error);
    }
  }
}

function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function newId() {
  return globalThis.crypto?.randomUUID?.() ?? `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
}
