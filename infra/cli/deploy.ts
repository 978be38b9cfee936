// make deploy: shows what will change, asks before touching prod, deploys both stacks, publishes versions, prints the outputs. Safe to repeat.
//
//   ENV=…            the environment
//   STACK=data       only what holds data; STACK=service only the rest
//   YES=1            does not ask (pipelines)
//   FAIL=service     lets this stack (or data) fail at its end, to see that a failed deployment does no harm; not in prod
//   NOTE=text        is added to the description of every function, so that each is published again
//   IMPORT=1         takes over tables and queues that exist already under the names of the templates (docs/taking-over.md)
//   --check          only checks whether the deployment would be refused
import fs from 'node:fs';
import readline from 'node:readline/promises';
import { oneLine, say } from '../terminal.ts';
import { account, binaries, bootstrap, cdk, described, environment, live, outputsFile, Refusal, run, stacks, useEnvironment } from './world.ts';
import type { Environment } from '../environments.ts';
import { setTimeToLive } from './time-to-live.ts';
import { obstacles } from './obstacles.ts';
import { protect, protectedStacks } from './protect.ts';
import { publish } from './publish.ts';
import { seedLocalSecrets } from './secrets.ts';
import { missing } from './stored.ts';

run(async () => {
  const env = environment();
  useEnvironment(env);
  const owner = await account(env);
  if (env.name === 'local') await seedLocalSecrets(env);
  await refuseUnlessComplete(env);
  refuseImport(env);
  const fail = rehearsed(env);

  const before = await live(env);
  const moving = before.filter((l) => l.moving).map((l) => l.function);
  if (moving.length > 0) {
    throw new Refusal(`A rollout is in progress (${moving.join(', ')}). Finish it (make rollout ENV=${env.name}) or roll it back (make rollback ENV=${env.name}), then deploy.`);
  }
  const bootstrapped = await isBootstrapped();
  if (!bootstrapped && env.name !== 'local') {
    throw new Refusal(`The account is not prepared for the CDK. Run this once, as its administrator:\n  (cd infra && npx cdk bootstrap aws://${owner}/${env.region})`);
  }
  if (process.argv.includes('--check')) return; // before anything is built
  binaries();
  if (!bootstrapped) {
    if ((await bootstrap(env, owner)) !== 0) throw new Refusal('cdk bootstrap failed; its output is above');
  }

  if (env.name !== 'local') {
    await ok(env, ['diff', ...stacks(env), '--method', 'template'], 'cdk diff');
    await ask(env);
  }

  const outputs = outputsFile(env);
  const guarded = env.removal === 'retain' ? await protectedStacks(env) : []; // elsewhere the CDK removes what somebody protected
  await ok(env, [
    'deploy', ...stacks(env), '--exclusively', '--require-approval', 'never', '--outputs-file', outputs, '--progress', 'events', '--ci',
    ...(guarded.length > 0 ? ['-c', `protected=${guarded.join(',')}`] : []), ...(fail ? ['-c', `fail=${fail}`] : []),
    ...(process.env.IMPORT === '1' ? ['--import-existing-resources'] : []),
  ], 'cdk deploy');
  if (env.name === 'local' && stacks(env).includes(`ichido-data-${env.name}`)) await setTimeToLive(env);
  if (stacks(env).includes(`ichido-${env.name}`)) await publish(env);
  await protect(env);
  await print(outputs, env);
});

async function refuseUnlessComplete(env: Environment) {
  const found = obstacles(env, await missing(described(env).secrets.map((s) => s.name)), new Date());
  if (found.length === 0) return;
  throw new Refusal(`${env.name} cannot be deployed yet:\n${found.join('\n')}\n\nSet settings in infra/environments.ts (alarms of ${env.name}, all others in its parameters), and secrets with make secrets ENV=${env.name}.`);
}

/** CloudFormation imports only what its template retains, and would say so after minutes. */
function refuseImport(env: Environment) {
  if (process.env.IMPORT !== '1' || env.removal === 'retain') return;
  throw new Refusal(`IMPORT=1 takes over only what is kept, and the tables of ${env.name} are destroyed with their stack. Set removal: 'retain' for ${env.name} in infra/environments.ts.`);
}

/** The stack that FAIL names. */
function rehearsed(env: Environment): string | undefined {
  const fail = process.env.FAIL;
  if (!fail) return undefined;
  if (fail !== 'data' && fail !== 'service') throw new Refusal(`FAIL must be data or service, not "${fail}"`);
  if (env.name === 'prod') throw new Refusal('FAIL is not for prod');
  return fail;
}

/** cdk bootstrap stores its version in SSM. */
async function isBootstrapped(): Promise<boolean> {
  return (await missing(['/cdk-bootstrap/hnb659fds/version'])).length === 0;
}

async function ask(env: Environment) {
  if (env.name !== 'prod' || process.env.YES === '1') return;
  if (!process.stdin.isTTY) throw new Refusal('prod is deployed only after a confirmation, and there is no terminal to ask. Set YES=1 to confirm.');
  const terminal = readline.createInterface({ input: process.stdin, output: process.stderr });
  const answer = await terminal.question('\nDeploy this to prod? Type prod to go on: ');
  terminal.close();
  if (answer.trim() !== 'prod') throw new Refusal('Nothing was deployed.');
}

async function ok(env: Environment, args: string[], what: string) {
  const code = await cdk(env, ...args);
  if (code !== 0) throw new Refusal(`${what} failed (exit code ${code}); its output is above`);
}

async function print(file: string, env: Environment) {
  const outputs = JSON.parse(fs.readFileSync(file, 'utf8')) as Record<string, Record<string, string>>;
  say(`\n${env.name} is deployed.`);
  for (const [, values] of Object.entries(outputs)) {
    for (const [name, value] of Object.entries(values)) {
      if (!name.startsWith('ExportsOutput')) say(`  ${name.padEnd(24)} ${oneLine(value)}`);
    }
  }
  const waiting = (await live(env)).filter((l) => l.waiting !== undefined).map((l) => `  ${l.function}: version ${l.waiting}, live is ${l.version}`);
  if (waiting.length > 0) say(`\nNew versions get no traffic yet (make rollout ENV=${env.name}):\n${waiting.join('\n')}`);
}
