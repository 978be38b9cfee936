// Mastodon and Pushover, as far as the deployed notifiers see them.
import http from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Destinations {
  /** Both are at one address; their paths differ. */
  url: string;
  /** What was posted, in order. */
  statuses: string[];
  messages: string[];
  /** Mastodon forgets the keys of earlier posts. */
  forget(): void;
  close(): void;
}

export async function startDestinations(): Promise<Destinations> {
  const statuses: string[] = [];
  const messages: string[] = [];
  const byKey = new Map<string, object>();
  const server = http.createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = chunks.length > 0 ? JSON.parse(Buffer.concat(chunks).toString()) : {};
    const answer = (): object | undefined => {
      switch (`${request.method} ${request.url?.split('?')[0]}`) {
        case 'GET /api/v2/instance': return { configuration: { statuses: { max_characters: 500, characters_reserved_per_url: 23 } } };
        case 'GET /api/v1/accounts/verify_credentials': return { id: '1' };
        case 'GET /api/v1/accounts/1/statuses': {
          const before = Number(new URL(request.url!, 'http://localhost').searchParams.get('max_id') ?? Infinity);
          return statuses.map((content, i) => ({ id: String(i + 1), content })).filter(({ id }) => Number(id) < before).reverse();
        }
        case 'POST /api/v1/statuses': {
          const key = String(request.headers['idempotency-key']);
          if (!byKey.has(key)) byKey.set(key, { id: String(statuses.push(body.status)) });
          return byKey.get(key);
        }
        case 'POST /1/messages.json': return { status: 1, request: String(messages.push(body.message)) };
        default: return undefined;
      }
    };
    const value = answer();
    response.writeHead(value ? 200 : 404, { 'content-type': 'application/json' });
    response.end(JSON.stringify(value ?? { error: 'no such path' }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    statuses,
    messages,
    forget: () => byKey.clear(),
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
