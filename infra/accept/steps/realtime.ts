// A subscriber at the API's realtime endpoint gets what somebody else publishes: in a secured group with its secret, until it leaves; in
// another one as clients have always got it. Of a request with two fields at most one is answered.
import WebSocket from 'ws';
import { type Membership, Mesh, realtimeOf } from '../../../clients/mesh/mesh.js';
import { must, proven, type Step } from '../step.ts';

const ARRIVES_MS = 30_000;
const SUBSCRIBE = (secret?: string) => `subscription ($groupId: ID!, $domain: String!${secret ? ', $secret: String' : ''}) { onMessageInGroup(groupId: $groupId, domain: $domain${secret ? ', secret: $secret' : ''}) { groupId } }`;

/** A promise that gives up after a while. */
function soon<T>(what: string, begin: (resolve: (value: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${what} did not come within ${ARRIVES_MS / 1000} s`)), ARRIVES_MS);
    begin((value) => { clearTimeout(timer); resolve(value); });
  });
}

/** A bare subscription: what the server says to it, one message after the other. */
async function subscription(endpoint: string, apiKey: string, where: { groupId: string; domain: string; secret?: string }) {
  const authorization = { host: new URL(endpoint).host, 'x-api-key': apiKey };
  const header = encodeURIComponent(Buffer.from(JSON.stringify(authorization)).toString('base64'));
  const socket = new WebSocket(`${realtimeOf(endpoint)}?header=${header}&payload=e30=`, 'graphql-ws');
  const said: string[] = [];
  let look = () => {};
  socket.on('error', (error: Error) => { said.push(error.message); look(); });
  socket.on('open', () => socket.send(JSON.stringify({ type: 'connection_init' })));
  socket.on('message', (data: Buffer) => {
    const message = JSON.parse(String(data));
    if (message.type === 'connection_ack') {
      const payload = { data: JSON.stringify({ query: SUBSCRIBE(where.secret), variables: where }), extensions: { authorization } };
      socket.send(JSON.stringify({ id: 'accept', type: 'start', payload }));
    } else if (message.type !== 'ka') {
      said.push(message.type === 'error' ? `error ${message.payload?.errors?.[0]?.errorType}` : message.type);
      look();
    }
  });
  const heard = (...wanted: string[]) => soon<string>(wanted.join(' or '), (resolve) => {
    look = () => { const found = said.find((one) => wanted.some((want) => one.startsWith(want))); if (found) resolve(found); };
    look();
  });
  return { heard, close: () => socket.terminate() };
}

export const realtime: Step = {
  name: 'realtime',
  claim: 'a subscriber gets a published event over the realtime endpoint, and in a secured group only with its secret; a request has one field',
  async prove(world) {
    const { endpoint, apiKey } = await world.mesh();
    const warnings: string[] = [];
    const mesh = () => new Mesh({ endpoint, apiKey, WebSocket, warn: (text: string) => warnings.push(text) });
    const domain = world.id;
    // Resolvers cannot see the other fields of their request, and several that end subscriptions would exceed what AppSync ends per request.
    const field = `listGroupsByDomain(domain: ${JSON.stringify(domain)}) { id }`;
    const both = await fetch(endpoint, { method: 'POST', headers: { 'content-type': 'application/json', 'x-api-key': apiKey }, body: JSON.stringify({ query: `{ a: ${field} b: ${field} }` }) });
    const { data, errors } = (await both.json()) as { data?: { a?: unknown; b?: unknown } | null; errors?: { errorType?: string }[] };
    must(errors?.length && !(data?.a && data?.b), 'a request with two fields was answered');
    const arrives = async (teacher: Membership, pupil: Membership) => {
      must(warnings.length === 0, warnings.join('\n')); // a client that cannot subscribe polls, and says so
      const arrived = soon<{ events: { payload: string | null }[] }>('the event', (resolve) => pupil.on('events', resolve));
      await teacher.fire('accept', world.id);
      const { events } = await arrived;
      must(events[0]?.payload === world.id, `another event arrived: ${JSON.stringify(events)}`);
      must(warnings.length === 0, warnings.join('\n'));
    };
    for (const secured of [true, false]) {
      const kind = secured ? 'secured' : 'open';
      const teacher = await mesh().host({ name: 'accept', domain, hostId: `${world.id}-${kind}-host`, maxConnectionTimeSeconds: 300, useWebSocket: true, secured });
      world.afterwards(`dissolve the ${kind} group`, () => teacher.dissolve());
      must(teacher.group.secured === secured, `the group is secured: ${teacher.group.secured}; it was asked for: ${secured}`);
      const pupil = await mesh().join({ groupId: teacher.group.id, domain, nodeId: `${world.id}-${kind}-pupil`, nodeName: 'pupil' });
      world.afterwards(`leave the ${kind} group`, () => pupil.leave());
      await arrives(teacher, pupil);
      if (pupil.secret === null) continue;
      const where = { groupId: teacher.group.id, domain };
      const stranger = await subscription(endpoint, apiKey, where);
      const refused = await stranger.heard('start_ack', 'error').finally(stranger.close);
      must(refused === 'error Unauthorized', `a subscription without a secret got ${refused}`);
      const own = await subscription(endpoint, apiKey, { ...where, secret: pupil.secret });
      try {
        must((await own.heard('start_ack', 'error')) === 'start_ack', 'a subscription with the secret was refused');
        await pupil.leave();
        await own.heard('complete');
      } finally {
        own.close();
      }
    }
    return proven(`events went from one node to another at ${realtimeOf(endpoint)}, in a secured group only with its secret and until the node left${world.place('local platform')}`);
  },
};
