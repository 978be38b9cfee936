// AppSync over HTTP and over a bare WebSocket, as any other client would use it.
import assert from 'node:assert/strict';
import WebSocket from 'ws';
import { json, PATIENCE_MS } from '../platform.mjs';

/** The API of a running platform. */
export async function connect(url) {
  const { apiKey } = await json(`${url}/_local/config`);
  return new Api(url, apiKey);
}

class Api {
  constructor(url, key) {
    Object.assign(this, { url, key });
    this.endpoint = `${url}/graphql`;
  }

  /** The whole answer. */
  ask(query, variables = {}, headers = {}) {
    return json(this.endpoint, { method: 'POST', headers: { 'content-type': 'application/json', 'x-api-key': this.key, ...headers }, body: JSON.stringify({ query, variables }) });
  }

  /** The value of the one field of an operation that must succeed. */
  async ok(query, variables) {
    const answer = await this.ask(query, variables);
    assert.equal(answer.errors, undefined, JSON.stringify(answer.errors));
    return Object.values(answer.data)[0];
  }

  /** The type of the one error of an operation that must be refused. */
  async refused(query, variables) {
    const answer = await this.ask(query, variables);
    assert.equal(answer.errors?.length, 1, JSON.stringify(answer));
    return answer.errors[0].errorType;
  }

  /** A socket that is acknowledged; with another key, one that is refused. */
  async socket(key = this.key) {
    const authorization = { host: new URL(this.url).host, 'x-api-key': key };
    const header = Buffer.from(JSON.stringify(authorization)).toString('base64');
    const ws = new WebSocket(`${this.endpoint.replace(/^http/, 'ws')}/realtime?header=${encodeURIComponent(header)}&payload=e30=`, 'graphql-ws');
    const socket = new Socket(ws, authorization);
    await new Promise((resolve, reject) => { ws.once('open', resolve); ws.once('error', reject); });
    ws.send(JSON.stringify({ type: 'connection_init' }));
    await socket.heard((message) => message.type === 'connection_ack' || message.type === 'connection_error');
    return socket;
  }
}

class Socket {
  messages = [];
  #waiting = [];
  #next = 1;

  constructor(ws, authorization) {
    Object.assign(this, { ws, authorization });
    ws.on('message', (data) => {
      this.messages.push(JSON.parse(data));
      this.#waiting = this.#waiting.filter((look) => !look());
    });
  }

  /** The first message of this kind, whether it is here or still to come. */
  heard(is) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`never heard; but ${JSON.stringify(this.messages)}`)), PATIENCE_MS);
      const look = () => {
        const found = this.messages.find(is);
        if (found) { clearTimeout(timer); resolve(found); }
        return Boolean(found);
      };
      if (!look()) this.#waiting.push(look);
    });
  }

  /** Begins a subscription: its id, once it is acknowledged or refused, and what came of that. */
  async start(query, variables = {}) {
    const id = `s${this.#next}`;
    this.#next += 1;
    this.ws.send(JSON.stringify({ id, type: 'start', payload: { data: JSON.stringify({ query, variables }), extensions: { authorization: this.authorization } } }));
    const answer = await this.heard((message) => message.id === id && (message.type === 'start_ack' || message.type === 'error'));
    return { id, answer };
  }

  /** A subscription that must be acknowledged. */
  async subscribe(query, variables) {
    const { id, answer } = await this.start(query, variables);
    assert.equal(answer.type, 'start_ack', JSON.stringify(answer));
    return id;
  }

  /** What a subscription has heard. */
  data(id) {
    return this.messages.filter((message) => message.id === id && message.type === 'data').map((message) => Object.values(message.payload.data)[0]);
  }

  /** The next thing that a subscription hears, beyond what it has. */
  async next(id, count = 1) {
    await this.heard(() => this.data(id).length >= count);
    return this.data(id)[count - 1];
  }

  close() {
    this.ws.terminate();
  }
}
