/**
 * A client of the mesh, for browsers and Node, without dependencies.
 *
 * It promises: every message of a group that is published after `join` has resolved, and is still kept when the client asks for it,
 * reaches the listeners once and in the order in which the group accepted the messages. The client notices a gap in the sequence and
 * fills it by a query. If it cannot, it tells the listeners (`gap`). The group's end reaches them once (`ended`). Events of one membership
 * reach the group in the order in which they were fired.
 *
 * How: the client subscribes to `onMessageInGroup`. A message waits for the ones before it for at most GAP_PATIENCE_MS; then the client asks
 * for the missing ones. After every (re)connection it asks for what came meanwhile, and a little later once more, because a
 * server may lose a message right after it has acknowledged a subscription. It also asks after every heartbeat. Groups without WebSocket, and
 * clients that have lost their socket, poll with the same query. A client that cannot subscribe says so on the console (`warn`), once per outage.
 *
 * Groups that this client hosts are secured, unless `secured: false`: whoever acts, reads or listens in them proves with a secret who it is. The
 * client makes the secrets, so a call whose answer was lost can be repeated, and keeps them; `membership.secret` is what a page has to
 * keep itself if it wants to be the same node after a reload.
 */

/** Reports and events are collected for this long and sent together. */
export const BATCH_MS = 50;
/**
 * A node reports at most once per this interval, unless `reportMs` says otherwise; what changes meanwhile is sent together. Nearly all of what
 * a class costs is messages to its members, and this bounds their number (docs/mesh.md).
 */
export const REPORT_MS = 500;
/** How long an out-of-order message waits for the ones before it, and the longest pause between two queries for a message that may still come. */
const GAP_PATIENCE_MS = 300;
const GAP_PATIENCE_LONGEST_MS = 2000;
/** How long after the acknowledgement of a subscription the client asks for the stream once more. */
const SECOND_LOOK_MS = 2000;
/** Pauses between attempts to reconnect: the first, and the longest. */
const RECONNECT_FIRST_MS = 500;
const RECONNECT_LONGEST_MS = 15000;
/** How long a socket may take to be acknowledged, and how long it may then be silent (unless the server names its own limit). */
const CONNECT_MS = 10000;
const SILENCE_MS = 300000;
/** How long a request may take. */
const REQUEST_MS = 10000;
/** Beyond every sequence: a query from here returns the head and nothing else. */
const BEYOND = 2147483647;
/** How many times a request is sent while the server answers "try again". */
const ATTEMPTS = 5;
/** How much one batch of events holds: as many events as the server takes, and so few characters that both forms of it can be delivered. */
const BATCH_EVENTS = 100;
const BATCH_CHARACTERS = 30000;

/** The selection that both generations of clients understand. */
export const EVERYTHING = `
  groupId domain sequence messageId timestamp
  nodeStatus { nodeId groupId domain data { key value } timestamp }
  batchEvent { firedByNodeId groupId domain timestamp events { name firedByNodeId groupId domain payload timestamp cursor } }
  groupDissolve { groupId domain message }
  nodeId data { key value } firedByNodeId events { name firedByNodeId groupId domain payload timestamp cursor } message`;

const GROUP = 'id domain fullId name hostId createdAt expiresAt heartbeatIntervalSeconds useWebSocket pollingIntervalSeconds secured';

/** An API on AppSync's own domain, as the output `MeshEndpoint` of a deployment names it. */
const APPSYNC_DOMAIN = /^https:\/\/([^./]+)\.appsync-api\.([^/]+\.amazonaws\.com(?:\.cn)?)\/graphql$/i;

/**
 * Where to subscribe: on AppSync's own domain at another host (the output `MeshRealtimeEndpoint`), on a custom domain and on the local
 * platform at `/realtime` below the endpoint.
 */
export function realtimeOf(endpoint) {
  const at = endpoint.replace(/\/+$/, '');
  const [, id, rest] = APPSYNC_DOMAIN.exec(at) ?? [];
  return id ? `wss://${id}.appsync-realtime-api.${rest}/graphql` : `${at.replace(/^http/i, 'ws')}/realtime`;
}

/** Why the server refused a request. `type` is AppSync's `errorType`. */
export class MeshError extends Error {
  constructor(type, message) {
    super(message);
    this.name = 'MeshError';
    this.type = type;
  }

  /** The group has ended: trying again is of no use. */
  get isEnd() {
    return this.type === 'GroupNotFound';
  }

  /** The secret is wrong or missing: somebody else is this node by now, or the node has left. */
  get isStranger() {
    return this.type === 'Unauthorized';
  }

  get isRetryable() {
    return this.type === 'Conflict' || this.type === 'Unavailable';
  }
}

/** The machine's own time and random numbers. A test brings others. */
const MACHINE = {
  setTimeout: (work, ms) => globalThis.setTimeout(work, ms),
  clearTimeout: (timer) => globalThis.clearTimeout(timer),
  now: () => Date.now(),
  random: () => Math.random(),
};

/** 32 hexadecimal digits: from the machine's source of secrets, or from a test's random numbers. */
function newSecret(machine) {
  const bytes = machine === MACHINE ? globalThis.crypto.getRandomValues(new Uint8Array(16)) : Uint8Array.from({ length: 16 }, () => machine.random() * 256);
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

export class Mesh {
  /** @param {{endpoint: string, realtime?: string, apiKey: string, WebSocket?: any, fetch?: any, warn?: any, machine?: any, reportMs?: number}} options */
  constructor({ endpoint, realtime, apiKey, WebSocket, fetch, warn, machine, reportMs }) {
    this.endpoint = endpoint;
    this.realtime = realtime ?? realtimeOf(endpoint);
    this.apiKey = apiKey;
    this.WebSocket = WebSocket ?? globalThis.WebSocket;
    this.fetch = fetch ?? globalThis.fetch.bind(globalThis);
    this.warn = warn ?? ((message) => console.warn(message));
    this.machine = machine ?? MACHINE;
    this.reportMs = reportMs ?? REPORT_MS;
    this.#secrets = new Map();
  }

  /** The secret of each node that this client is or was: a node that comes again is the same one. */
  #secrets;

  #secretOf(domain, nodeId, given) {
    const key = JSON.stringify([domain, nodeId]);
    const secret = given ?? this.#secrets.get(key) ?? newSecret(this.machine);
    this.#secrets.set(key, secret);
    return secret;
  }

  sleep(ms) {
    return new Promise((resolve) => void this.machine.setTimeout(resolve, ms));
  }

  /** Sends an operation with one field and returns the field's value. Throws a MeshError. */
  async request(query, variables = {}) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#once(query, variables);
      } catch (error) {
        if (attempt >= ATTEMPTS || !(error instanceof MeshError) || !error.isRetryable) throw error;
        await this.sleep(50 * 2 ** attempt * (0.5 + this.machine.random() / 2));
      }
    }
  }

  async #once(query, variables) {
    const abort = new AbortController();
    let timer;
    const late = new Promise((_, reject) => {
      timer = this.machine.setTimeout(() => {
        reject(new Error('no answer'));
        abort.abort();
      }, REQUEST_MS);
    });
    const asked = async () => {
      const response = await this.fetch(this.endpoint, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-api-key': this.apiKey },
        body: JSON.stringify({ query, variables }),
        signal: abort.signal,
      });
      // AppSync itself failed, or was asked too often. What its body says is not about the request, and need not be JSON.
      if (response.status === 429 || response.status >= 500) throw new Error(`status ${response.status}`);
      return response.json();
    };
    let body;
    try {
      body = await Promise.race([asked(), late]);
    } catch (cause) {
      throw new MeshError('Unavailable', `The mesh cannot be reached: ${cause.message}`);
    } finally {
      this.machine.clearTimeout(timer);
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

  /**
   * Creates the host's group, or finds the one that the host has, and enters it. The group is secured unless `secured` is false: clients of
   * earlier generations can join only groups that are not. A host that comes again, from another page, brings its `secret`.
   */
  async host({ name, domain, hostId, maxConnectionTimeSeconds, useWebSocket, secured = true, secret }) {
    const { hostSecret, ...group } = await this.request(
      `mutation ($name: String!, $hostId: ID!, $domain: String!, $seconds: Int, $ws: Boolean, $secured: Boolean, $secret: String) {
         createGroup(name: $name, hostId: $hostId, domain: $domain, maxConnectionTimeSeconds: $seconds, useWebSocket: $ws, secured: $secured, secret: $secret) {
           ${GROUP} hostSecret } }`,
      { name, hostId, domain, seconds: maxConnectionTimeSeconds, ws: useWebSocket, secured, secret: this.#secretOf(domain, hostId, secret) },
    );
    return new Membership(this, group, hostId, true, hostSecret).enter();
  }

  /** Joins a group and enters it. A node that comes again, from another page, brings its `secret`. */
  async join({ groupId, domain, nodeId, nodeName, secret }) {
    const { memberSecret, ...node } = await this.request(
      `mutation ($groupId: ID!, $domain: String!, $nodeId: ID!, $nodeName: String, $secret: String) {
         joinGroup(groupId: $groupId, domain: $domain, nodeId: $nodeId, nodeName: $nodeName, secret: $secret) {
           heartbeatIntervalSeconds useWebSocket pollingIntervalSeconds memberSecret } }`,
      { groupId, domain, nodeId, nodeName, secret: this.#secretOf(domain, nodeId, secret) },
    );
    return new Membership(this, { ...node, id: groupId, domain, secured: Boolean(memberSecret) }, nodeId, false, memberSecret).enter();
  }
}

/**
 * A node in a group. Listeners: `status` (a NodeStatus), `events` (a BatchEvent), `message` (every message),
 * `gap` ({from, to}: the numbers of lost messages), `ended` ({reason}), `connection` ('open' | 'lost' | 'polling').
 */
export class Membership {
  #mesh;
  #listeners = new Map();
  #timers = new Set();
  #socket = null;
  #reconnects = 0;
  /** Is the subscription acknowledged? */
  #open = false;
  #polling = false;
  /** Has the user been told of this outage? */
  #warned = false;
  /** Ends the wait for a connection. */
  #connected = null;
  /** The last sequence that was delivered, in order. */
  #delivered = 0;
  /** Messages that wait for those before them. */
  #waiting = new Map();
  #gapTimer = null;
  /** The query of the stream that is under way, and whether another one is wanted after it. */
  #look = null;
  #lookAgain = false;
  #unsent = { data: new Map(), events: [] };
  /** The values of this node that the group knows. */
  #reported = new Map();
  /** The flushes that are due: of reports, and of events. */
  #flushing = { data: null, events: null };
  /** When the last report was sent. */
  #reportedAt = -Infinity;
  #sending = Promise.resolve();
  #over = false;

  constructor(mesh, group, nodeId, isHost, secret) {
    this.#mesh = mesh;
    this.group = group;
    this.nodeId = nodeId;
    this.isHost = isHost;
    /** What this node proves itself with; null in a group that is not secured. */
    this.secret = secret ?? null;
  }

  /** The group, and in a secured one the secret. In another one there must be none: AppSync would look for it in the messages. */
  get #where() {
    const where = { groupId: this.group.id, domain: this.group.domain };
    return this.secret ? { ...where, secret: this.secret } : where;
  }

  /** An operation whose first variables and arguments are those of `#where`. */
  #here(kind, field, selection, variables = '', values = '') {
    const [declared, given] = this.secret ? [', $secret: String', ', secret: $secret'] : ['', ''];
    return `${kind} ($groupId: ID!, $domain: String!${declared}${variables}) { ${field}(groupId: $groupId, domain: $domain${given}${values}) { ${selection} } }`;
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

  /** Listeners cannot hear of the first attempt, which ends before they are there: so the user is told, once until a subscription succeeds. */
  #warn(why) {
    if (this.#warned) return;
    this.#warned = true;
    const { realtime, warn } = this.#mesh;
    warn(
      `mesh: node ${this.nodeId} cannot subscribe at ${realtime}: ${why}. It polls every ${this.#pollSeconds} s until it can. ` +
        'If the address is wrong, pass the right one as `realtime` (the output MeshRealtimeEndpoint of the deployment).',
    );
  }

  get #pollSeconds() {
    return this.group.pollingIntervalSeconds ?? 2;
  }

  #tell(kind, value) {
    for (const listener of this.#listeners.get(kind) ?? []) listener(value);
  }

  /** Asks for the stream's head and begins to follow the stream. */
  async enter() {
    const { head } = await this.#page(BEYOND);
    this.#delivered = head;
    this.#beat();
    if (this.group.useWebSocket !== false && this.#mesh.WebSocket) {
      await this.#connect();
      return this;
    }
    if (this.group.useWebSocket !== false) this.#warn('there is no WebSocket here (in Node before 22, pass the one of the package ws)');
    this.#poll();
    return this;
  }

  /** The last report of each member of the group. */
  statuses() {
    return this.#mesh.request(this.#here('query', 'listGroupStatuses', 'nodeId groupId domain data { key value } timestamp'), this.#where);
  }

  // --- publishing ------------------------------------------------------------

  /** Reports values. If one has changed, the node's values are sent after BATCH_MS, but at most once per `reportMs`. */
  report(values) {
    for (const [key, value] of Object.entries(values)) {
      const text = String(value);
      if (this.#unsent.data.has(key) ? this.#unsent.data.get(key) !== text : this.#reported.get(key) !== text) {
        this.#unsent.data.set(key, text);
      }
    }
    const { machine, reportMs } = this.#mesh;
    return this.#schedule('data', Math.max(BATCH_MS, this.#reportedAt + reportMs - machine.now()));
  }

  /** Fires an event. It is sent after BATCH_MS, in order, together with the other events of that time. */
  fire(name, payload = null) {
    const text = payload === null || typeof payload === 'string' ? payload : JSON.stringify(payload);
    this.#unsent.events.push({ eventName: name, payload: text, firedAt: new Date(this.#mesh.machine.now()).toISOString() });
    return this.#schedule('events', BATCH_MS);
  }

  #schedule(kind, ms) {
    if (this.#over) return Promise.reject(new MeshError('GroupNotFound', 'The group has ended.'));
    this.#flushing[kind] ??= this.#mesh.sleep(ms).then(() => this.#flush([kind]));
    return this.#flushing[kind];
  }

  /** Sends what is waiting, after what is being sent. If the answer to a publish is lost, the publish is repeated with the same messageId. */
  flush() {
    return this.#flush(['data', 'events']);
  }

  async #flush(kinds) {
    await this.#sending;
    const data = kinds.includes('data') ? this.#unsent.data : new Map();
    const events = kinds.includes('events') ? this.#unsent.events : [];
    for (const kind of kinds) this.#flushing[kind] = null;
    if (data.size === 0 && events.length === 0) return undefined;
    if (this.#over) throw new MeshError('GroupNotFound', 'The group has ended.');
    if (data.size > 0) {
      this.#unsent.data = new Map();
      this.#reportedAt = this.#mesh.machine.now();
    }
    if (events.length > 0) this.#unsent.events = [];
    const sent = Promise.all([this.#sendData(data), this.#sendEvents(events)]);
    // Reports and events are flushed at times of their own: what is being sent already stays part of it.
    this.#sending = Promise.allSettled([this.#sending, sent]).then(() => undefined);
    await sent;
    return undefined;
  }

  async #sendData(data) {
    if (data.size === 0) return;
    for (const [key, value] of data) this.#reported.set(key, value);
    // A status replaces the one before it, so it holds all known values.
    const all = [...this.#reported].map(([key, value]) => ({ key, value }));
    try {
      await this.#publish('reportDataByNode', 'data', '[SensorDataInput!]!', all);
    } catch (error) {
      // The group may not know these values: the next report sends them again.
      for (const [key, value] of data) if (!this.#unsent.data.has(key)) this.#unsent.data.set(key, value);
      throw error;
    }
  }

  async #sendEvents(events) {
    const field = this.group.useWebSocket === false ? 'recordEventsByNode' : 'fireEventsByNode';
    for (let from = 0; from < events.length; ) {
      let to = from;
      let characters = 0;
      while (to < events.length && to - from < BATCH_EVENTS) {
        characters += events[to].eventName.length + (events[to].payload?.length ?? 0);
        if (to > from && characters > BATCH_CHARACTERS) break;
        to += 1;
      }
      await this.#publish(field, 'events', '[EventInput!]!', events.slice(from, to));
      from = to;
    }
  }

  async #publish(field, argument, type, value) {
    const selection = field === 'recordEventsByNode' ? 'recordedCount nextSince' : EVERYTHING;
    const query = this.#here('mutation', field, selection, `, $nodeId: ID!, $value: ${type}, $messageId: ID`, `, nodeId: $nodeId, ${argument}: $value, messageId: $messageId`);
    try {
      return await this.#mesh.request(query, { ...this.#where, nodeId: this.nodeId, value, messageId: this.#newId() });
    } catch (error) {
      this.#failed(error);
      throw error;
    }
  }

  #newId() {
    const { machine } = this.#mesh;
    if (machine === MACHINE && globalThis.crypto?.randomUUID) return globalThis.crypto.randomUUID();
    return `${machine.now().toString(36)}-${machine.random().toString(36).slice(2)}`;
  }

  // --- the end ---------------------------------------------------------------

  async leave() {
    this.#end('left');
    await this.#mesh
      .request(this.#here('mutation', 'leaveGroup', 'message', ', $nodeId: ID!', ', nodeId: $nodeId'), { ...this.#where, nodeId: this.nodeId })
      .catch(unlessGone);
  }

  async dissolve() {
    await this.#mesh
      .request(this.#here('mutation', 'dissolveGroup', EVERYTHING, ', $hostId: ID!, $messageId: ID', ', hostId: $hostId, messageId: $messageId'), {
        ...this.#where,
        hostId: this.nodeId,
        messageId: this.#newId(),
      })
      .catch(unlessGone);
    this.#end('dissolved');
  }

  /** Stops without telling the server. To the others it looks like a crash. */
  drop() {
    this.#end('dropped');
  }

  #failed(error) {
    if (!(error instanceof MeshError)) return;
    if (error.isEnd) {
      this.#deliverTheRest();
      this.#end(error.type);
    } else if (error.type === 'NodeNotFound' || error.isStranger) {
      this.#end(error.type);
    }
  }

  #end(reason) {
    if (this.#over) return;
    this.#over = true;
    for (const timer of [...this.#timers]) this.#cancel(timer);
    this.#drop(this.#socket);
    this.#connected?.();
    this.#tell('ended', { reason });
  }

  // --- staying alive ---------------------------------------------------------

  #beat() {
    this.#later((this.group.heartbeatIntervalSeconds ?? 15) * 1000, async () => {
      this.#beat();
      const [field, id] = this.isHost ? ['renewHeartbeat', 'hostId'] : ['sendMemberHeartbeat', 'nodeId'];
      const query = this.#here('mutation', field, 'expiresAt', ', $id: ID!', `, ${id}: $id`);
      try {
        await this.#mesh.request(query, { ...this.#where, id: this.nodeId });
        if (this.#open) await this.#catchUp();
      } catch (error) {
        this.#failed(error);
      }
    });
  }

  /** Asks for the stream at every interval, until a socket is open. */
  #poll() {
    if (this.#polling || this.#over) return;
    this.#polling = true;
    this.#tell('connection', 'polling');
    const look = () => {
      if (this.#open || this.#over) {
        this.#polling = false;
        return;
      }
      void this.#catchUp();
      this.#later(this.#pollSeconds * 1000, look);
    };
    look();
  }

  /** Does something later, unless the membership has ended by then. */
  #later(ms, work) {
    const { machine } = this.#mesh;
    const timer = machine.setTimeout(() => {
      this.#timers.delete(timer);
      void work();
    }, ms);
    this.#timers.add(timer);
    return timer;
  }

  #cancel(timer) {
    this.#mesh.machine.clearTimeout(timer);
    this.#timers.delete(timer);
  }

  // --- following the stream --------------------------------------------------

  /** Opens one connection. Resolves when the subscription is acknowledged and the messages before it are here, or when the connection failed. */
  #connect() {
    const { endpoint, realtime, apiKey, WebSocket } = this.#mesh;
    return new Promise((resolve) => {
      this.#connected = resolve;
      const authorization = { host: new URL(endpoint).host, 'x-api-key': apiKey };
      const header = encodeURIComponent(btoa(JSON.stringify(authorization)));
      const socket = new WebSocket(`${realtime}?header=${header}&payload=e30=`, 'graphql-ws');
      this.#socket = socket;
      let patience = CONNECT_MS;
      let silence;
      let cause;
      const failed = (why) => {
        this.#cancel(silence);
        if (this.#socket === socket) {
          if (!this.#open) this.#warn(why);
          this.#lost();
        }
        resolve();
      };
      const alive = () => {
        this.#cancel(silence);
        silence = this.#later(patience, () => failed(`no answer within ${patience / 1000} s`));
      };
      alive();
      socket.onopen = () => socket.send(JSON.stringify({ type: 'connection_init' }));
      // Never taken away: the package ws ends the process if nobody listens. Browsers do not say the cause.
      socket.onerror = (event) => {
        cause = event?.message;
      };
      socket.onclose = (event) => failed(cause || `the connection was closed${event?.code ? ` (code ${event.code})` : ''}`);
      socket.onmessage = ({ data }) => {
        if (this.#socket !== socket) return;
        const message = JSON.parse(data);
        if (message.type === 'connection_ack') {
          const query = this.#here('subscription', 'onMessageInGroup', EVERYTHING);
          const payload = { data: JSON.stringify({ query, variables: this.#where }), extensions: { authorization } };
          socket.send(JSON.stringify({ id: 'stream', type: 'start', payload }));
          socket.limit = message.payload?.connectionTimeoutMs ?? SILENCE_MS;
        } else if (message.type === 'start_ack') {
          patience = socket.limit ?? SILENCE_MS;
          this.#reconnects = 0;
          this.#open = true;
          this.#warned = false;
          this.#tell('connection', 'open');
          this.#later(SECOND_LOOK_MS, () => this.#catchUp());
          void this.#catchUp().then(resolve);
        } else if (message.type === 'data') {
          this.#arrived(message.payload.data?.onMessageInGroup);
        } else if (message.type === 'complete') {
          // The group was dissolved, or this node has joined elsewhere or left: the next query says which.
          failed('the server ended the subscription');
          return;
        } else if (message.type === 'error' || message.type === 'connection_error') {
          const { message: text, errorType } = message.payload?.errors?.[0] ?? {};
          failed(`the server refused it (${text ?? errorType ?? message.type})`);
          return;
        }
        if (!this.#over) alive();
      };
    });
  }

  #drop(socket) {
    this.#socket = null;
    this.#open = false;
    if (!socket) return;
    socket.onclose = null;
    socket.onmessage = null;
    socket.close();
  }

  /** Reconnects after a pause, and polls until then. */
  #lost() {
    this.#drop(this.#socket);
    if (this.#over) return;
    this.#tell('connection', 'lost');
    this.#poll();
    const pause = Math.min(RECONNECT_LONGEST_MS, RECONNECT_FIRST_MS * 2 ** this.#reconnects);
    this.#reconnects += 1;
    this.#later(pause * (0.5 + this.#mesh.machine.random() / 2), () => this.#connect());
  }

  #arrived(message) {
    if (!message || this.#over) return;
    // Its publisher did not select all fields: the stream has the rest.
    if (typeof message.sequence !== 'number' || !(message.nodeStatus || message.batchEvent || message.groupDissolve)) {
      void this.#catchUp();
      return;
    }
    if (message.sequence <= this.#delivered) return; // delivered already, by a query or an earlier connection
    this.#waiting.set(message.sequence, message);
    this.#deliver();
    if (this.#waiting.size > 0 && !this.#gapTimer && !this.#over) {
      this.#gapTimer = this.#later(GAP_PATIENCE_MS, () => {
        this.#gapTimer = null;
        if (this.#waiting.size > 0) void this.#catchUp();
      });
    }
  }

  /** Delivers the next messages in order, as far as they are here. */
  #deliver() {
    while (!this.#over) {
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

  /** The group has ended, so missing messages can no longer be fetched: delivers the ones that are here. */
  #deliverTheRest() {
    for (const sequence of [...this.#waiting.keys()].sort((a, b) => a - b)) {
      if (this.#over) return;
      if (sequence > this.#delivered + 1) this.#tell('gap', { from: this.#delivered + 1, to: sequence - 1 });
      if (sequence > this.#delivered) this.#delivered = sequence - 1;
      this.#deliver();
    }
  }

  #page(sequence) {
    return this.#mesh.request(
      this.#here('query', 'getMessagesSince', `messages { ${EVERYTHING} } voids next head`, ', $sequence: Int!', ', sequence: $sequence'),
      { ...this.#where, sequence },
    );
  }

  /** Asks for the messages after the last delivered one, until the head is reached. One query at a time. */
  #catchUp() {
    if (this.#look) {
      this.#lookAgain = true;
      return this.#look;
    }
    this.#look = this.#follow().finally(() => {
      this.#look = null;
      if (this.#lookAgain && !this.#over) {
        this.#lookAgain = false;
        void this.#catchUp();
      }
    });
    return this.#look;
  }

  async #follow() {
    for (let patience = GAP_PATIENCE_MS; !this.#over; ) {
      let page;
      try {
        page = await this.#page(this.#delivered);
      } catch (error) {
        this.#failed(error);
        // Without a socket, the next poll asks again.
        if (this.#open && !this.#over) this.#later(GAP_PATIENCE_LONGEST_MS, () => this.#catchUp());
        return;
      }
      if (this.#over) return;
      const before = this.#delivered;
      this.#take(page);
      if (this.#delivered >= page.head && this.#waiting.size === 0) return;
      if (this.#delivered > before) {
        patience = GAP_PATIENCE_MS;
      } else {
        // The next message may still come: soon it is here, or counts as lost.
        await this.#mesh.sleep(patience);
        patience = Math.min(GAP_PATIENCE_LONGEST_MS, patience * 2);
      }
    }
  }

  /** Delivers a page, and tells the listeners of numbers that are neither in it nor void. */
  #take(page) {
    const here = new Map(page.messages.map((message) => [message.sequence, message]));
    const voids = new Set(page.voids);
    let lostFrom = null;
    const lost = (to) => {
      if (lostFrom !== null) this.#tell('gap', { from: lostFrom, to });
      lostFrom = null;
    };
    for (let n = this.#delivered + 1; n <= page.next && !this.#over; n = this.#delivered + 1) {
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
    lost(this.#delivered);
    this.#deliver();
  }
}

/** To a node that wants to leave, being gone already is no error. */
function unlessGone(error) {
  if (!(error instanceof MeshError) || !(error.isEnd || error.type === 'NodeNotFound')) throw error;
}
