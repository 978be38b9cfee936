// A subscriber at the API's realtime endpoint gets what somebody else publishes.
import WebSocket from 'ws';
import { Mesh, realtimeOf } from '../../../clients/mesh/mesh.js';
import { must, proven, type Step } from '../step.ts';

const ARRIVES_MS = 30_000;

export const realtime: Step = {
  name: 'realtime',
  claim: 'a subscriber gets a published event over the realtime endpoint',
  async prove(world) {
    const { endpoint, apiKey } = await world.mesh();
    const warnings: string[] = [];
    const mesh = () => new Mesh({ endpoint, apiKey, WebSocket, warn: (text: string) => warnings.push(text) });
    const domain = world.id;
    const teacher = await mesh().host({ name: 'accept', domain, hostId: `${world.id}-host`, maxConnectionTimeSeconds: 300, useWebSocket: true });
    world.afterwards('dissolve the group', () => teacher.dissolve());
    const pupil = await mesh().join({ groupId: teacher.group.id, domain, nodeId: `${world.id}-pupil`, nodeName: 'pupil' });
    world.afterwards('leave the group', () => pupil.leave());
    must(warnings.length === 0, warnings.join('\n')); // a client that cannot subscribe polls, and says so
    const arrived = new Promise<{ events: { payload: string }[] }>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`the event did not arrive within ${ARRIVES_MS / 1000} s`)), ARRIVES_MS);
      pupil.on('events', (batch: any) => { clearTimeout(timer); resolve(batch); });
    });
    await teacher.fire('accept', world.id);
    const { events } = await arrived;
    must(events[0]?.payload === world.id, `another event arrived: ${JSON.stringify(events)}`);
    must(warnings.length === 0, warnings.join('\n'));
    return proven(`an event went from one node to another at ${realtimeOf(endpoint)}${world.place('local platform')}`);
  },
};
