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
 * A member that was offline for so long that its membership expired joins again, with its secret, and goes on from the last sequence that it delivered.
 *
 * A value or an event that the server refuses is left out, and the rest is sent. `report` and `fire` say so to their caller (a promise that
 * rejects), and `failed` to whoever listens, so a program need not look at the promises. A listener that throws disturbs nobody else.
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
/** How often a member sends its heartbeat if the server does not say it, and how many it may miss: then it has expired. The server counts in whole seconds. */
const HEARTBEAT_SECONDS = 15;
const HEARTBEATS_UNTIL_GONE = 5;
const WHOLE_SECOND_MS = 1000;
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
    this.#groups = new Map();
  }

  /** The secret of each node that this client is or was: a node that comes again is the same one. */
  #secrets;
  /** The group that each node of this client went to last. */
  #groups;

  /** Did this client take the node to another group? Then a membership in the former one is over, and does not fetch the node back. */
  hasMoved({ domain, id }, nodeId) {
    return (this.#groups.get(nameOf(domain, nodeId)) ?? id) !== id;
  }

  #secretOf(domain, nodeId, given) {
    const key = nameOf(domain, nodeId);
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
    // AWS WAF refuses an address that sends too much, for a while. A class shares one address.
    if (error?.errorType === 'WAFForbiddenException') throw new MeshError('Unavailable', `The mesh cannot be reached: ${error.message}`);
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
    this.#groups.set(nameOf(domain, hostId), group.id);
    return new Membership(this, group, hostId, true, hostSecret).enter();
  }

  /** Joins a group and enters it. A node that comes again, from another page, brings its `secret`. */
  async join({ groupId, domain, nodeId, nodeName, secret }) {
    const since = this.machine.now();
    const { memberSecret, ...node } = await this.enroll({ groupId, domain, nodeId, nodeName, secret });
    this.#groups.set(nameOf(domain, nodeId), groupId);
    const group = { ...node, id: groupId, domain, secured: Boolean(memberSecret) };
    return new Membership(this, group, nodeId, false, memberSecret, nodeName, since).enter();
  }

  /** Makes a node a member, or one again. */
  enroll({ groupId, domain, nodeId, nodeName, secret }) {
    return this.request(
      `mutation ($groupId: ID!, $domain: String!, $nodeId: ID!, $nodeName: String, $secret: String) {
         joinGroup(groupId: $groupId, domain: $domain, nodeId: $nodeId, nodeName: $nodeName, secret: $secret) {
           heartbeatIntervalSeconds useWebSocket pollingIntervalSeconds memberSecret } }`,
      { groupId, domain, nodeId, nodeName, secret: this.#secretOf(domain, nodeId, secret) },
    );
  }
}

/** What a node is called among all domains. */
const nameOf = (domain, nodeId) => JSON.stringify([domain, nodeId]);

/**
 * A node in a group. Listeners: `status` (a NodeStatus), `events` (a BatchEvent), `message` (every message),
 * `gap` ({from, to}: the numbers of lost messages), `ended` ({reason}), `connection` ('open' | 'lost' | 'polling'), `failed` (a MeshError: what was
 * not published). README.md says what the words and reasons mean.
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
  /** The values that wait to be sent, and the calls of `report` and `fire` that wait for their answer. */
  #values = new Map();
  #calls = { report: [], fire: [] };
  /** The values of this node that the group knows, and those that it was told last: a value that is being sent is only in the latter. */
  #known = new Map();
  #reported = new Map();
  /** Is a flush due: of reports, of events? */
  #due = { report: false, fire: false };
  /** When the last report was sent. */
  #reportedAt = -Infinity;
  #sending = Promise.resolve();
  #over = false;
  #nodeName;
  /** Until when the membership lasts at least. A host is a member for as long as its group lives. */
  #memberUntil = Infinity;
  /** The attempt to join again that is under way. */
  #returning = null;

  constructor(mesh, group, nodeId, isHost, secret, nodeName, since) {
    this.#mesh = mesh;
    this.group = group;
    this.nodeId = nodeId;
    this.isHost = isHost;
    /** What this node proves itself with; null in a group that is not secured. */
    this.secret = secret ?? null;
    this.#nodeName = nodeName;
    this.#isMemberSince(since);
  }

  get #beatMs() {
    return (this.group.heartbeatIntervalSeconds ?? HEARTBEAT_SECONDS) * 1000;
  }

  /** The node joined, or sent a heartbeat, at this time. */
  #isMemberSince(sent) {
    if (!this.isHost) this.#memberUntil = sent + HEARTBEATS_UNTIL_GONE * this.#beatMs - WHOLE_SECOND_MS;
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
    const broken = (error) => this.#mesh.warn(`mesh: a listener of ${kind} of node ${this.nodeId} failed: ${error?.stack ?? error}`);
    for (const listener of [...(this.#listeners.get(kind) ?? [])]) {
      // What a listener does wrong must not keep the others, or the next message, from being delivered.
      try {
        const done = listener(value);
        if (typeof done?.then === 'function') done.then(undefined, broken);
      } catch (error) {
        broken(error);
      }
    }
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

  /**
   * Reports values. If one has changed, the node's values are sent after BATCH_MS, but at most once per `reportMs`. The promise rejects if one of these
   * values was refused (`error.key`), which is then left out, or if the report could not be sent: then the next one sends the values again.
   */
  report(values) {
    const entries = Object.entries(values);
    for (const [key, value] of entries) {
      const text = String(value);
      if (this.#values.has(key) ? this.#values.get(key) !== text : this.#reported.get(key) !== text) this.#values.set(key, text);
    }
    const { machine, reportMs } = this.#mesh;
    const wait = Math.max(BATCH_MS, this.#reportedAt + reportMs - machine.now());
    return this.#call('report', { keys: entries.map(([key]) => key) }, wait);
  }

  /**
   * Fires an event. It is sent after BATCH_MS, in order, together with the other events of that time. The promise rejects if it was refused or
   * could not be sent (`error.event`).
   */
  fire(name, payload = null) {
    const text = payload === null || typeof payload === 'string' ? payload : JSON.stringify(payload);
    const event = { eventName: String(name), payload: text, firedAt: new Date(this.#mesh.machine.now()).toISOString() };
    return this.#call('fire', { event }, BATCH_MS);
  }

  /** Puts a call into the next flush of its kind. Nobody has to look at its promise: `failed` tells the same. */
  #call(kind, call, ms) {
    const promise = new Promise((resolve, reject) => Object.assign(call, { resolve, reject }));
    promise.catch(() => undefined);
    if (this.#over) {
      call.reject(new MeshError('GroupNotFound', 'The group has ended.'));
      return promise;
    }
    this.#calls[kind].push(call);
    if (!this.#due[kind]) {
      this.#due[kind] = true;
      void this.#mesh.sleep(ms).then(() => this.#flush([kind])).catch(() => undefined);
    }
    return promise;
  }

  /**
   * Sends what is waiting, after what is being sent. Rejects with the first failure. If the answer to a publish is lost, the publish is repeated with
   * the same messageId.
   */
  flush() {
    const done = this.#flush(['report', 'fire']);
    done.catch(() => undefined);
    return done;
  }

  #flush(kinds) {
    const turn = this.#sending.then(() => this.#send(kinds));
    this.#sending = turn.catch(() => undefined);
    return turn;
  }

  async #send(kinds) {
    const take = (kind) => (kinds.includes(kind) ? this.#calls[kind].splice(0) : []);
    const [reports, fires] = [take('report'), take('fire')];
    const values = kinds.includes('report') ? [...this.#values] : [];
    for (const kind of kinds) this.#due[kind] = false;
    if (this.#over) {
      const ended = new MeshError('GroupNotFound', 'The group has ended.');
      for (const call of [...reports, ...fires]) call.reject(ended);
      if (values.length + fires.length > 0) throw ended;
      return;
    }
    if (values.length > 0) {
      this.#values = new Map();
      this.#reportedAt = this.#mesh.machine.now();
    }
    const failures = (await Promise.all([this.#sendReports(values, reports), this.#sendEvents(fires)])).flat();
    if (failures.length === 0) return;
    if (!this.#over) {
      for (const error of failures) this.#tell('failed', error);
      if (!this.#listeners.get('failed')?.size) this.#mesh.warn(`mesh: node ${this.nodeId}: ${failures[0].message}`);
    }
    throw failures[0];
  }

  /** Sends changed values and answers the calls that reported them. Returns what failed. */
  async #sendReports(values, calls) {
    const failures = values.length > 0 ? await this.#sendValues(values) : [];
    const ofAll = failures.find(({ key }) => key === undefined);
    for (const call of calls) {
      const failure = ofAll ?? failures.find(({ key }) => call.keys.includes(key));
      if (failure) call.reject(failure);
      else call.resolve();
    }
    return failures;
  }

  /** A report that is refused is divided, until the values that are the cause are alone. They are left out. */
  async #sendValues(values) {
    for (const [key, text] of values) this.#reported.set(key, text);
    // A status replaces the one before it, so it holds all known values.
    const all = new Map([...this.#known, ...values]);
    try {
      await this.#publish('reportDataByNode', 'data', '[SensorDataInput!]!', Array.from(all, ([key, value]) => ({ key, value })));
    } catch (error) {
      if (!isRefusal(error)) {
        // The group may not know these values: the next report sends them again.
        for (const [key, text] of values) if (!this.#values.has(key)) this.#values.set(key, text);
        return [error];
      }
      if (values.length > 1) return this.#divided(values, (part) => this.#sendValues(part));
      const [[key]] = values;
      if (this.#known.has(key)) this.#reported.set(key, this.#known.get(key));
      else this.#reported.delete(key);
      return [Object.assign(new MeshError(error.type, `The value of ${key} was not reported: ${error.message}`), { key })];
    }
    for (const [key, text] of values) this.#known.set(key, text);
    return [];
  }

  /** Sends events in batches and answers the calls that fired them. Returns what failed. */
  async #sendEvents(calls) {
    const failures = [];
    for (let from = 0; from < calls.length; ) {
      let to = from;
      let characters = 0;
      while (to < calls.length && to - from < BATCH_EVENTS) {
        const { eventName, payload } = calls[to].event;
        characters += eventName.length + (payload?.length ?? 0);
        if (to > from && characters > BATCH_CHARACTERS) break;
        to += 1;
      }
      failures.push(...(await this.#sendBatch(calls.slice(from, to))));
      from = to;
    }
    return failures;
  }

  /** A batch that is refused is divided, until the events that are the cause are alone. The others are sent, in order. */
  async #sendBatch(calls) {
    const field = this.group.useWebSocket === false ? 'recordEventsByNode' : 'fireEventsByNode';
    try {
      await this.#publish(field, 'events', '[EventInput!]!', calls.map(({ event }) => event));
    } catch (error) {
      if (isRefusal(error) && calls.length > 1) return this.#divided(calls, (part) => this.#sendBatch(part));
      return calls.map(({ event, reject }) => {
        const failure = Object.assign(new MeshError(error.type, `The event ${event.eventName} was not fired: ${error.message}`), { event: event.eventName });
        reject(failure);
        return failure;
      });
    }
    for (const { resolve } of calls) resolve();
    return [];
  }

  /** Does both halves of a list, one after the other. */
  async #divided(list, work) {
    const half = Math.ceil(list.length / 2);
    const first = await work(list.slice(0, half));
    return [...first, ...(await work(list.slice(half)))];
  }

  async #publish(field, argument, type, value) {
    const selection = field === 'recordEventsByNode' ? 'recordedCount nextSince' : EVERYTHING;
    const query = this.#here('mutation', field, selection, `, $nodeId: ID!, $value: ${type}, $messageId: ID`, `, nodeId: $nodeId, ${argument}: $value, messageId: $messageId`);
    const variables = { ...this.#where, nodeId: this.nodeId, value, messageId: this.#newId() };
    try {
      return await this.#asMember(() => this.#mesh.request(query, variables));
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
    // Otherwise the node would be a member again.
    await this.#returning?.catch(() => undefined);
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
    } else if (error.type === 'NodeNotFound' || error.isStranger || error.isFromReturning) {
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

  /** Asks something as a member. If the node has expired, as after a long time offline, it joins again and asks once more. */
  async #asMember(ask) {
    try {
      return await ask();
    } catch (error) {
      // Readers of a secured group are told Unauthorized when they have expired. A node that has not expired has left, or somebody else is it.
      const isOut = error instanceof MeshError && (error.type === 'NodeNotFound' || error.isStranger);
      const mayReturn = !this.#over && this.#mesh.machine.now() >= this.#memberUntil && !this.#mesh.hasMoved(this.group, this.nodeId);
      if (!isOut || !mayReturn) throw error;
    }
    this.#returning ??= this.#return().finally(() => {
      this.#returning = null;
    });
    await this.#returning;
    return ask();
  }

  async #return() {
    const { id: groupId, domain } = this.group;
    const since = this.#mesh.machine.now();
    try {
      await this.#mesh.enroll({ groupId, domain, nodeId: this.nodeId, nodeName: this.#nodeName, secret: this.secret ?? undefined });
    } catch (error) {
      // The group may be full by now. What can be tried again, the next heartbeat or query tries.
      throw error instanceof MeshError && !error.isRetryable ? Object.assign(error, { isFromReturning: true }) : error;
    }
    this.#isMemberSince(since);
  }

  #beat() {
    this.#later(this.#beatMs, async () => {
      this.#beat();
      const [field, id] = this.isHost ? ['renewHeartbeat', 'hostId'] : ['sendMemberHeartbeat', 'nodeId'];
      const query = this.#here('mutation', field, 'expiresAt', ', $id: ID!', `, ${id}: $id`);
      try {
        await this.#asMember(async () => {
          const sent = this.#mesh.machine.now();
          await this.#mesh.request(query, { ...this.#where, id: this.nodeId });
          this.#isMemberSince(sent);
        });
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
        page = await this.#asMember(() => this.#page(this.#delivered));
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

/** Does the server refuse what was sent, whoever sends it and however often? */
function isRefusal(error) {
  return error instanceof MeshError && error.type === 'ValidationError' && !error.isFromReturning;
}

/** To a node that wants to leave, being gone already is no error. */
function unlessGone(error) {
  if (!(error instanceof MeshError) || !(error.isEnd || error.type === 'NodeNotFound')) throw error;
}
