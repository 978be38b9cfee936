// Requests to the deployed HTTP API.
import http from 'node:http';
import https from 'node:https';

const ANSWER_MS = 60_000;

export interface Answer {
  status: number;
  text: string;
  headers: http.IncomingHttpHeaders;
}

/** A POST with a body, a GET without one. A local AWS chooses the API by the Host header, because names under localhost need not resolve. */
export function request(url: URL, headers: Record<string, string> = {}, body?: string): Promise<Answer> {
  const endpoint = url.hostname.endsWith('.localhost') ? new URL(process.env.AWS_ENDPOINT_URL ?? 'http://127.0.0.1') : url;
  const { request: send } = endpoint.protocol === 'https:' ? https : http;
  return new Promise((resolve, reject) => {
    const call = send(
      { host: endpoint.hostname, port: endpoint.port || undefined, path: url.pathname + url.search, method: body === undefined ? 'GET' : 'POST', headers: { ...headers, host: url.host }, timeout: ANSWER_MS },
      (answer) => {
        let text = '';
        answer.on('data', (d) => (text += d));
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text, headers: answer.headers }));
      },
    );
    call.on('error', reject);
    call.on('timeout', () => call.destroy(new Error(`${url.pathname}: no answer within ${ANSWER_MS / 1000} s`)));
    call.end(body);
  });
}
