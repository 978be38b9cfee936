// make smoke: calls every deployed function through `live` with the health payload, which has no effect, and the HTTP API.
import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import fs from 'node:fs';
import { request } from '../accept/http.ts';
import { oneLine, say } from '../terminal.ts';
import { described, environment, outputsFile, Refusal, run, useEnvironment } from './world.ts';

run(async () => {
  const env = environment();
  useEnvironment(env);
  const lambda = new LambdaClient({});
  const failures: string[] = [];
  for (const { deployed } of described(env).functions) {
    const started = performance.now();
    let problem: string | undefined;
    try {
      const answer = await lambda.send(new InvokeCommand({ FunctionName: deployed, Qualifier: 'live', Payload: JSON.stringify({ ichido: 'health' }) }));
      const text = new TextDecoder().decode(answer.Payload);
      if (answer.FunctionError) problem = text;
      say(`${answer.FunctionError ? 'failed' : 'ok    '}  ${deployed}:live   version ${answer.ExecutedVersion ?? '?'}   ${Math.round(performance.now() - started)} ms`);
    } catch (error) {
      problem = (error as Error).message;
      say(`failed  ${deployed}:live`);
    }
    if (problem) failures.push(`${deployed}: ${oneLine(problem)}`);
  }
  failures.push(...await httpApi(outputsFile(env)));
  if (failures.length > 0) throw new Refusal(`\n${failures.join('\n')}`);
});

/** The function itself, not API Gateway, must refuse an unsigned event. */
async function httpApi(file: string): Promise<string[]> {
  if (!fs.existsSync(file)) return [];
  const outputs = Object.assign({}, ...Object.values<object>(JSON.parse(fs.readFileSync(file, 'utf8')))) as Record<string, string>;
  if (!outputs.HttpApiUrl || !outputs.SlackRequestUrlPath) return [];
  const { status } = await request(new URL(outputs.SlackRequestUrlPath, outputs.HttpApiUrl), { 'content-type': 'application/json' }, '{}');
  const fine = status === 401;
  say(`${fine ? 'ok    ' : 'failed'}  POST ${oneLine(outputs.SlackRequestUrlPath)}   unsigned: ${status}`);
  return fine ? [] : [`POST ${outputs.SlackRequestUrlPath}: expected 401 for an unsigned event, got ${status}`];
}
