// Lambda's Runtime API: takes one event at a time, as AWS's own Node runtime does.
import http from 'node:http';
import { handler } from './handler.mjs';

const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
const [host, port] = process.env.AWS_LAMBDA_RUNTIME_API.split(':');

function call(method, path, body) {
  return new Promise((resolve, reject) => {
    const request = http.request({ agent, host, port, method, path: `/2018-06-01/runtime/${path}` }, (response) => {
      const parts = [];
      response.on('data', (part) => parts.push(part));
      response.on('end', () => resolve({ headers: response.headers, body: Buffer.concat(parts).toString() }));
    });
    request.on('error', reject);
    request.end(body);
  });
}

for (;;) {
  const next = await call('GET', 'invocation/next');
  const id = next.headers['lambda-runtime-aws-request-id'];
  try {
    const answer = await handler(JSON.parse(next.body), { awsRequestId: id });
    await call('POST', `invocation/${id}/response`, JSON.stringify(answer));
  } catch (error) {
    await call('POST', `invocation/${id}/error`, JSON.stringify({ errorType: error.name, errorMessage: error.message }));
  }
}
