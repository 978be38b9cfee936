// What the commands share: which environment, its functions, secrets and needed settings, and how to call AWS and the CDK.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { inspect } from 'node:util';
import { GetAliasCommand, LambdaClient, ResourceNotFoundException, type AliasConfiguration } from '@aws-sdk/client-lambda';
import { GetCallerIdentityCommand, STSClient } from '@aws-sdk/client-sts';
import { environment as find, type Environment } from '../environments.ts';
import { hasDestination, secretsOfList } from '../feeds.ts';
import { parameters } from '../service.ts';
import { functionsOf, namesSecret, readTemplate, root, templateNames } from '../template.ts';
import { complain, oneLine } from '../terminal.ts';

export class Refusal extends Error {}

/** Runs a command; a refusal is printed without a stack trace. */
export function run(main: () => Promise<void>) {
  main().catch((error: unknown) => {
    complain(error instanceof Refusal ? error.message : inspect(error));
    process.exit(1);
  });
}

export function environment(): Environment {
  try {
    return find(process.env.ENV);
  } catch (error) {
    throw new Refusal((error as Error).message);
  }
}

/** The functions, secrets and settings that an environment has: those of the templates, and the secrets of its list of feeds. Nothing reads a secret that is `unused`. */
export function described(env: Environment) {
  const functions: { name: string; deployed: string; timeout: number }[] = [];
  const secrets: Secret[] = [];
  const unused: Secret[] = [];
  const needed: { parameter: string; description: string }[] = [];
  for (const template of templateNames().map((n) => readTemplate(n))) {
    const values = parameters(template, env, { architecture: 'arm64' }, {});
    for (const f of functionsOf(template)) {
      functions.push({ name: f.name, deployed: `${f.name}${env.suffix}`, timeout: Number(f.resource.Properties?.Timeout) });
    }
    for (const [p, { Description }] of Object.entries(template.Parameters ?? {})) {
      if (!namesSecret(p)) continue;
      const { Optional, Destinations } = template.Metadata ?? {};
      const without = Optional?.[p] ? `; to do without, set ${Optional[p]} to "" in its parameters` : '';
      const secret = { parameter: p, name: String(values[p]), description: (Description ?? '').replace(/^(Name of the SecureString with|The parameter that holds) /, '') + without };
      if (secret.name === '' && (Optional?.[p] === undefined || env.parameters[Optional[p]] !== '') && Destinations?.[p] === undefined) needed.push({ parameter: p, description: secret.description });
      else if (secret.name === '' || (Destinations?.[p] !== undefined && !hasDestination(env, Destinations[p]))) unused.push(secret);
      else secrets.push(secret);
    }
    // The defaults are enough for the local environment.
    const unset = env.name === 'local' ? [] : (template.Metadata?.Needed ?? []).filter((p) => !(p in env.parameters));
    needed.push(...unset.map((parameter) => ({ parameter, description: template.Parameters?.[parameter]?.Description ?? '' })));
  }
  secrets.push(...secretsOfList(env).map((secret) => ({ parameter: `Url:${secret.name.split('/').pop()}`, ...secret })));
  return { functions, secrets: once(secrets), unused: once(unused.filter((u) => u.name !== '' && !secrets.some((s) => s.name === u.name))), needed };
}

interface Secret { parameter: string; name: string; description: string }

/** Two functions may read the same secret under two parameters. */
const once = (secrets: Secret[]) => secrets.filter((secret, i) => secrets.findIndex((other) => other.name === secret.name) === i);

/** The alias that names what the last deployment published (publish.ts). */
export const DEPLOYED = 'deployed';

/** An alias of a function; undefined if there is no such function or alias. */
export async function alias(lambda: LambdaClient, FunctionName: string, Name: string): Promise<AliasConfiguration | undefined> {
  try {
    return await lambda.send(new GetAliasCommand({ FunctionName, Name }));
  } catch (error) {
    if (error instanceof ResourceNotFoundException) return undefined;
    throw error;
  }
}

export interface Live {
  function: string;
  /** Empty before the first deployment. */
  version: string;
  /** What the last deployment published, if a rollout has not made it live. */
  waiting?: string;
  /** A rollout is moving traffic to another version. */
  moving: boolean;
}

/** What each alias points at now. */
export async function live(env: Environment): Promise<Live[]> {
  const lambda = new LambdaClient({});
  return Promise.all(described(env).functions.map(async ({ deployed: name }) => {
    const [live, deployed] = await Promise.all([alias(lambda, name, 'live'), alias(lambda, name, DEPLOYED)]);
    const version = live?.FunctionVersion ?? '';
    // In its last bake a rollout has moved all traffic, and only the description says that it may still go back.
    const last = /^rollout \d+ -> (\d+) at 100 %/.exec(live?.Description ?? '')?.[1];
    const moving = Object.keys(live?.RoutingConfig?.AdditionalVersionWeights ?? {}).length > 0 || (last !== undefined && last === version);
    return { function: name, version, waiting: deployed?.FunctionVersion === version ? undefined : deployed?.FunctionVersion, moving };
  }));
}

/** The account of the credentials; refuses any other than the environment's. */
export async function account(env: Environment): Promise<string> {
  let found: string | undefined;
  try {
    found = (await new STSClient({}).send(new GetCallerIdentityCommand({}))).Account;
  } catch (error) {
    throw new Refusal(`AWS does not accept your credentials (${oneLine((error as Error).message)}).\nSign in first (aws sso login, AWS_PROFILE=…), or try ENV=local, which needs no account.`);
  }
  if (found === undefined) throw new Refusal('AWS returned no account for these credentials');
  if (env.account !== undefined && env.account !== found) {
    throw new Refusal(`${env.name} belongs to account ${env.account}; these credentials are for ${found}`);
  }
  return found;
}

/** Uses the environment's region, whatever the shell's variables say. The local AWS needs no credentials. */
export function useEnvironment(env: Environment) {
  process.env.AWS_REGION = env.region;
  process.env.CDK_DISABLE_CLI_TELEMETRY = 'true';
  process.env.JSII_DEPRECATED = 'quiet';
  process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED = 'true'; // versions are pinned
  const endpoint = process.env.AWS_ENDPOINT_URL;
  if (env.name !== 'local') {
    if (endpoint) complain(`AWS_ENDPOINT_URL is set: this goes to ${endpoint}, not to AWS.`);
    return;
  }
  if (endpoint === undefined) throw new Refusal('ENV=local needs AWS_ENDPOINT_URL; scripts/local-aws start prints it, make deploy ENV=local does everything');
  if (!URL.canParse(endpoint) || !['127.0.0.1', 'localhost', '[::1]'].includes(new URL(endpoint).hostname)) {
    throw new Refusal(`ENV=local deploys to this machine only; AWS_ENDPOINT_URL is ${endpoint}`);
  }
  process.env.AWS_ENDPOINT_URL_S3 ??= endpoint;
  process.env.CDK_VALIDATION = 'false'; // the tests validate it, and the other environments at every synthesis; it is half of the time
  process.env.AWS_ACCESS_KEY_ID = 'test';
  process.env.AWS_SECRET_ACCESS_KEY = 'test';
  delete process.env.AWS_PROFILE;
  delete process.env.AWS_SESSION_TOKEN;
  process.env.AWS_EC2_METADATA_DISABLED = 'true';
}

/** Where the binaries are and what they were built for; `make build` leaves a note beside them. */
export function binaries(): { directory: string; architecture: string } {
  const directory = process.env.BINARIES ?? 'target/lambda';
  if (directory === 'placeholder') return { directory, architecture: process.env.ARCH ?? 'arm64' };
  const note = path.resolve(root, directory, 'architecture');
  if (!fs.existsSync(note)) throw new Refusal(`there is no build in ${directory}: run make build first`);
  return { directory, architecture: fs.readFileSync(note, 'utf8').trim() };
}

/** The stacks of an environment; STACK=data or STACK=service means only one of them. */
export function stacks(env: Environment): string[] {
  const both = { data: `ichido-data-${env.name}`, service: `ichido-${env.name}` };
  const which = process.env.STACK;
  if (which === undefined || which === '') return [both.data, both.service];
  if (which !== 'data' && which !== 'service') throw new Refusal(`STACK must be data or service, not "${which}"`);
  return [both[which]];
}

/** Where a deployment writes its files: outputs, cdk.out. The deployment test uses another directory. */
export const directory = () => path.resolve(root, process.env.DEPLOY_DIR ?? 'target');
export const outputsFile = (env: Environment) => path.join(directory(), `outputs-${env.name}.json`);
export const assemblyDirectory = () => path.join(directory(), 'cdk.out');

const cli = path.join(root, 'infra', 'node_modules', '.bin', 'cdk');

function cdkArguments(env: Environment, args: string[]): string[] {
  const { directory, architecture } = binaries();
  return [...args, '-c', `env=${env.name}`, '-c', `binaries=${directory}`, '-c', `architecture=${architecture}`, '--output', assemblyDirectory(), '--no-notices'];
}

/** The real CDK, on this terminal. */
export function cdk(env: Environment, ...args: string[]): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(cli, cdkArguments(env, args), { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] });
    child.on('error', reject);
    child.on('exit', (code) => resolve(code ?? 1));
  });
}

/** Prepares an account for the CDK; from a directory without a cdk.json, so that nothing is synthesized for it. */
export function bootstrap(env: Environment, owner: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(cli, ['bootstrap', `aws://${owner}/${env.region}`, '--no-notices'], { cwd: path.join(root, 'infra'), stdio: ['ignore', 'inherit', 'inherit'] });
    child.on('error', reject);
    child.on('exit', (code) => resolve(code ?? 1));
  });
}
