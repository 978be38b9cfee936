// Slack's Web API, as far as the deployed functions see it.
import http from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Call {
  method: string;
  body: Record<string, any>;
}

export interface StandIn {
  url: string;
  /** Every call that was made, in order. */
  calls: Call[];
  posts(): Call[];
  close(): void;
}

export async function startSlack(): Promise<StandIn> {
  const calls: Call[] = [];
  const server = http.createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const url = new URL(request.url ?? '/', 'http://slack');
    const method = url.pathname.split('/').pop() ?? '';
    const text = Buffer.concat(chunks).toString();
    const body = text.startsWith('{') ? JSON.parse(text) : Object.fromEntries(new URLSearchParams(text || url.search));
    calls.push({ method, body });
    const answer: Record<string, unknown> = { ok: true };
    if (method === 'chat.postMessage') Object.assign(answer, { channel: body.channel, ts: `${1_700_000_000 + calls.length}.000100` });
    if (method === 'conversations.replies') answer.messages = posted().filter((c) => c.body.thread_ts === body.ts).map((c) => c.body);
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(answer));
  });
  const posted = () => calls.filter((c) => c.method === 'chat.postMessage');
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/api`,
    calls,
    posts: posted,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
