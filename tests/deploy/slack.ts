// Slack, as far as the deployed functions see it: its Web API, and events signed as Slack signs them.
import crypto from 'node:crypto';
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

/** A message with one file, as the Events API sends it. */
export function fileEvent(eventId: string, fileId: string, seconds: number): string {
  return JSON.stringify({
    token: 'unused', team_id: 'T0001', api_app_id: 'A0001', type: 'event_callback', event_id: eventId, event_time: seconds,
    event: {
      type: 'message', subtype: 'file_share', channel: 'C0001', user: 'U0001', text: 'minutes', ts: `${seconds}.000200`, channel_type: 'channel',
      files: [{ id: fileId, name: 'minutes.pdf', mimetype: 'application/pdf', filetype: 'pdf', size: 12_345 }],
    },
  });
}

export function sign(secret: string, body: string, seconds: number): Record<string, string> {
  const signature = crypto.createHmac('sha256', secret).update(`v0:${seconds}:${body}`).digest('hex');
  return { 'content-type': 'application/json', 'x-slack-request-timestamp': String(seconds), 'x-slack-signature': `v0=${signature}` };
}
