// AWS Lambda Powertools for TypeScript, idempotency: one call after the other, measured from inside.
import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency';
import { DynamoDBPersistenceLayer } from '@aws-lambda-powertools/idempotency/dynamodb';

const calls = Number(process.env.CALLS);
const persistenceStore = new DynamoDBPersistenceLayer({ tableName: process.env.TABLE });
const config = new IdempotencyConfig({});
// Without a context it warns about the remaining time on every call.
config.registerLambdaContext({ getRemainingTimeInMillis: () => 60_000 });
const work = makeIdempotent(async (_event) => ({ ok: true }), { persistenceStore, config });

const one = (n) => work({ id: `event-${n}` });
for (let n = 0; n < 200; n += 1) await one(calls + n);

const round = async () => {
  const started = process.hrtime.bigint();
  const cpu = process.cpuUsage();
  for (let n = 0; n < calls; n += 1) await one(n);
  const used = process.cpuUsage(cpu);
  const seconds = Number(process.hrtime.bigint() - started) / 1e9;
  return [calls / seconds, (used.user + used.system) / calls];
};
const fresh = await round();
const duplicate = await round();
console.log(JSON.stringify({
  fresh_per_second: fresh[0],
  fresh_cpu_us: fresh[1],
  duplicate_per_second: duplicate[0],
  duplicate_cpu_us: duplicate[1],
}));
