// The handler on AWS Lambda Powertools for TypeScript, as its documentation recommends it: `makeIdempotent` around the function,
// a key chosen by JMESPath, and the Lambda context, so that a worker that dies leaves its record only until its time limit. The AWS SDK
// has its defaults, except that it tries a call as often as those of the other handlers (SDK_ATTEMPTS in crates/duel/src/storm.rs).
import { createInterface } from 'node:readline';
import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency';
import { DynamoDBPersistenceLayer } from '@aws-lambda-powertools/idempotency/dynamodb';

const address = process.env.ICHIDO_DUEL_ADDRESS;
const persistenceStore = new DynamoDBPersistenceLayer({ tableName: 'powertools', clientConfig: { endpoint: address, maxAttempts: 3 } });
const config = new IdempotencyConfig({ eventKeyJmesPath: 'event' });
const handle = makeIdempotent(
  async ({ event }) => {
    const answer = await fetch(`${address}/posts`, { method: 'POST', body: event });
    if (!answer.ok) throw new Error(`the destination refused the post: ${answer.status}`);
    return await answer.json();
  },
  { persistenceStore, config },
);

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
say({ ready: true });
for await (const line of createInterface({ input: process.stdin })) {
  const { event, limitMs } = JSON.parse(line);
  const deadline = Date.now() + limitMs;
  config.registerLambdaContext({ getRemainingTimeInMillis: () => Math.max(0, deadline - Date.now()) });
  try {
    await handle({ event });
    say({ ok: true });
  } catch (error) {
    say({ ok: false, why: error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message });
  }
}
process.exit(0);
