// make deploy: shows what will change, asks before touching prod, deploys both stacks, prints the outputs. Safe to repeat.
//
//   ENV=…            the environment
//   STACK=data       only what holds data; STACK=service only the rest
//   YES=1            does not ask (pipelines)
//   --check          only checks whether the deployment would be refused
import fs from 'node:fs';
import readline from 'node:readline/promises';
import { LambdaClient, paginateListVersionsByFunction } from '@aws-sdk/client-lambda';
import { account, binaries, bootstrap, cdk, described, environment, live, missingSecrets, outputsFile, Refusal, run, stacks, useEnvironment, type Live } from './world.ts';
import type { Environment } from '../environments.ts';
import { setTimeToLive } from './mend.ts';
import { seedLocalSecrets } from './secrets.ts';

run(async () => {
  const env = environment();
  useEnvironment(env);
  const owner = await account(env);
  if (env.name === 'local') await seedLocalSecrets(env);
  await refuseUnlessComplete(env);

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
  const service = `ichido-${env.name}`;
  const parameters = stacks(env).includes(service) ? before.flatMap((l) => ['--parameters', `${service}:${l.prefix}Live=${l.version}`]) : [];
  await ok(env, ['deploy', ...stacks(env), '--exclusively', '--require-approval', 'never', '--outputs-file', outputs, '--progress', 'events', '--ci', ...parameters], 'cdk deploy');
  if (env.name === 'local' && stacks(env).includes(`ichido-data-${env.name}`)) await setTimeToLive(env);
  await print(outputs, env);
});

/** Width of the column of names. */
const WIDTH = 42;

async function refuseUnlessComplete(env: Environment) {
  const { secrets, needed } = described(env);
  const missing = await missingSecrets(secrets.map((s) => s.name));
  const problems = [
    ...needed.map((n) => `  setting  ${n.parameter.padEnd(WIDTH)} ${n.description}`),
    ...secrets.filter((s) => missing.includes(s.name)).map((s) => `  secret   ${s.name.padEnd(WIDTH)} ${s.description}`),
  ];
  if (problems.length === 0) return;
  throw new Refusal(`${env.name} cannot be deployed yet. Missing:\n${problems.join('\n')}\n\nSet settings in the parameters of ${env.name} in infra/environments.ts, and secrets with make secrets ENV=${env.name}.`);
}

/** cdk bootstrap stores its version in SSM. */
async function isBootstrapped(): Promise<boolean> {
  return (await missingSecrets(['/cdk-bootstrap/hnb659fds/version'])).length === 0;
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
  console.log(`\n${env.name} is deployed.`);
  for (const [, values] of Object.entries(outputs)) {
    for (const [name, value] of Object.entries(values)) {
      if (!name.startsWith('ExportsOutput')) console.log(`  ${name.padEnd(24)} ${value}`);
    }
  }
  const waiting = (await waitingVersions(await live(env))).map((w) => `  ${w.function}: version ${w.newest}, live is ${w.version}`);
  if (waiting.length > 0) console.log(`\nNew versions get no traffic yet (make rollout ENV=${env.name}):\n${waiting.join('\n')}`);
}

/** Functions whose newest version is not the one that is live. */
async function waitingVersions(now: Live[]) {
  const lambda = new LambdaClient({});
  const all = await Promise.all(now.map(async (l) => {
    let newest = 0;
    for await (const page of paginateListVersionsByFunction({ client: lambda }, { FunctionName: l.function })) {
      for (const { Version } of page.Versions ?? []) newest = Math.max(newest, Number(Version) || 0);
    }
    return { ...l, newest: String(newest) };
  }));
  return all.filter((l) => l.newest !== l.version);
}
