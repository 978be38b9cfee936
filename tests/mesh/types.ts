// The client's types, as a program would use them. Compiled with infra's (`tsc --noEmit`), never run.
import { EVERYTHING, Mesh, MeshError, realtimeOf, type MeshMessage, type NodeStatus } from '../../clients/mesh/mesh.js';

export async function lesson(apiKey: string): Promise<NodeStatus[]> {
  const endpoint = 'https://mesh.test/graphql';
  const mesh = new Mesh({ endpoint, realtime: realtimeOf(endpoint), apiKey, warn: (message) => message.trim() });
  const domain: string = await mesh.createDomain();
  const host = await mesh.host({ name: 'class', domain, hostId: 'teacher', useWebSocket: true, secured: true, secret: 'a secret of our own' });
  const kept: string | null = host.secret;
  const stop = host.on('message', (message: MeshMessage) => message.sequence.toFixed());
  host.on('status', ({ nodeId, data }) => `${nodeId} ${data[0]?.value}`);
  host.on('gap', ({ from, to }) => to - from);
  host.on('connection', (how) => how === 'polling');
  host.on('ended', ({ reason }) => reason === 'NodeNotFound');
  // @ts-expect-error there is no such reason
  host.on('ended', ({ reason }) => reason === 'bored');
  host.on('failed', ({ key, event, type }) => `${key ?? event} ${type}`);
  // @ts-expect-error there is no such kind
  host.on('weather', () => undefined);
  // @ts-expect-error a value is a text, a number or a flag
  await host.report({ temperature: { celsius: 20 } });
  await host.report({ temperature: 21, on: true, name: 'x' });
  await host.fire('start', { at: 1 });
  await host.flush();
  const found = await mesh.listGroups(domain);
  const pupil = await mesh.join({ groupId: found[0]!.id, domain, nodeId: 'pupil', nodeName: 'Pupil', secret: kept ?? undefined });
  try {
    await pupil.leave();
  } catch (error) {
    if (error instanceof MeshError && (error.isEnd || error.isRetryable || error.isStranger)) pupil.drop();
  }
  const statuses = await host.statuses();
  stop();
  await host.dissolve();
  await mesh.request<{ id: string }>(`query { ${EVERYTHING} }`, {});
  return statuses;
}
