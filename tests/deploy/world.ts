// What the chapters share: a local AWS with everything deployed to it, stand-ins of the outside world, and ways to use both.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { lambda } from '../../infra/cli/aws.ts';
import { described } from '../../infra/cli/world.ts';
import { environments, type Environment } from '../../infra/environments.ts';
import { BUILT_IN, type Feed as Listed } from '../../infra/feeds.ts';
import { root } from '../../infra/template.ts';
import { startDestinations, type Destinations } from './destinations.ts';
import { startFeed, type Feed } from './feed.ts';
import { startLocalAws, type LocalAws } from './local-aws.ts';
import { startSlack, type StandIn } from './slack.ts';

export { until } from './local-aws.ts';

/** A deployment takes about 20 s on two idle cores; this is for busy ones. */
export const DEPLOY_MS = 600_000;
/** For what happens asynchronously after a call has been answered. */
export const EFFECT_MS = 60_000;

const runs = path.join(root, 'target', 'deploy-test');
/** A directory for this run alone, so that two runs can happen at the same time. */
const work = path.join(runs, String(process.pid));
/** The test's own copy of the binaries: it changes one. */
export const binaries = path.join(work, 'binaries');
/** A feed of the list. Its address is a secret. */
export const FURTHER_FEED: Listed = { name: 'further', secret: 'further-url', period: '15 minutes', destinations: ['mastodon'], text: '[further] {title}', first_run: 'all' };
export const FURTHER_TITLE = 'an entry of a further feed';
/** The environment as it is deployed here. */
export const environment: Environment = { ...environments.local, feeds: [...BUILT_IN, FURTHER_FEED] };
export const { functions } = described(environment);
export const entryId = 'tag:github.com,2008:PushEvent/1000000001';
export const signingSecret = crypto.randomBytes(16).toString('hex');

class World {
  aws!: LocalAws;
  slack!: StandIn;
  feed!: Feed;
  /** The feed of the list. */
  further!: Feed;
  destinations!: Destinations;
  /** The outputs of both stacks after the last deployment, by their names in the templates. */
  outputs: Record<string, string> = {};

  /** Set when the first deployment failed: the chapters after it cannot run. */
  private broken?: string;

  async start() {
    fs.rmSync(work, { recursive: true, force: true });
    removeRemainders();
    fs.cpSync(path.join(root, 'target', 'lambda-host'), binaries, { recursive: true });
    this.slack = await startSlack();
    this.feed = await startFeed(entryId);
    this.further = await startFeed('tag:blog.example.com,2026:1', FURTHER_TITLE);
    this.destinations = await startDestinations();
    this.aws = await startLocalAws(path.join(runs, `local-aws-${process.pid}.log`));
    Object.assign(process.env, {
      AWS_ENDPOINT_URL: this.aws.url, AWS_ENDPOINT_URL_S3: this.aws.url, AWS_REGION: 'ap-northeast-1', AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test',
      DEPLOY_DIR: work, AWS_EC2_METADATA_DISABLED: 'true', AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true',
    });
    // The caller may have credentials of a real account in the environment.
    for (const name of ['AWS_PROFILE', 'AWS_SESSION_TOKEN', 'AWS_DEFAULT_PROFILE']) delete process.env[name];
  }

  async stop() {
    this.slack?.close();
    this.feed?.close();
    this.further?.close();
    this.destinations?.close();
    await this.aws?.stop();
    fs.rmSync(work, { recursive: true, force: true }); // the log of the local AWS stays, so that a failure can be explained
  }

  /** Throws if the first deployment failed, so that tests fail at once instead of waiting. */
  assertIntact() {
    if (this.broken !== undefined) throw new Error(this.broken);
  }

  /** Notes that the first deployment failed. */
  break(why: string) {
    this.broken ??= why;
  }

  /** The environment of a process that deploys to, or calls, this world. */
  env(): NodeJS.ProcessEnv {
    return {
      ...process.env, BINARIES: binaries, ENV: 'local', CI: 'true',
      LOCAL_PARAMETERS: JSON.stringify({ SlackApiUrl: this.slack.url, MastodonUrl: this.destinations.url, PushoverUrl: this.destinations.url }),
      LOCAL_SlackSigningSecretParameter: signingSecret, LOCAL_GithubFeedUrlParameter: this.feed.url,
      LOCAL_FEEDS: JSON.stringify([FURTHER_FEED]), [`LOCAL_Url:${FURTHER_FEED.secret}`]: this.further.url,
    };
  }
}

export const world = new World();

/** Removes what runs left behind that were killed before they could clean up. */
function removeRemainders() {
  for (const name of fs.existsSync(runs) ? fs.readdirSync(runs) : []) {
    const pid = /^(?:local-aws-)?(\d+)(?:\.log)?$/.exec(name)?.[1];
    if (pid !== undefined && !isRunning(Number(pid))) fs.rmSync(path.join(runs, name), { recursive: true, force: true });
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** Runs a program in this world's environment; returns what it printed and its exit code. */
export function run(program: string, args: string[] = [], env: Record<string, string> = {}, input = ''): Promise<{ code: number; text: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd: root, stdio: ['pipe', 'pipe', 'pipe'], timeout: DEPLOY_MS, env: { ...world.env(), ...env } });
    child.stdin.on('error', () => {}); // it may end without reading
    child.stdin.end(input);
    let text = '';
    child.stdout.on('data', (d) => (text += d));
    child.stderr.on('data', (d) => (text += d));
    child.on('error', reject);
    child.on('close', (code) => resolve({ code: code ?? 1, text }));
  });
}

/** The operator's tool. */
export const ichidoctl = path.join(process.env.CARGO_TARGET_DIR ?? path.join(root, 'target'), 'debug', 'ichidoctl');

/** A command of infra/cli, as make runs it. */
export function command(name: string, env: Record<string, string> = {}, ...args: string[]) {
  return typed('', name, env, ...args);
}

/** The same, with input as if somebody typed it. */
export function typed(input: string, name: string, env: Record<string, string> = {}, ...args: string[]) {
  return run(path.join(root, 'infra', 'node_modules', '.bin', 'tsx'), [path.join(root, 'infra', 'cli', `${name}.ts`), ...args], env, input);
}

/** Deploys, and learns the outputs. */
export async function deploy(env: Record<string, string> = {}): Promise<string> {
  const { code, text } = await command('deploy', env);
  if (code !== 0 && Object.keys(world.outputs).length === 0) world.break('nothing is deployed; the first failure says why');
  assert.equal(code, 0, text);
  world.outputs = Object.assign({}, ...Object.values<object>(JSON.parse(fs.readFileSync(path.join(work, 'outputs-local.json'), 'utf8'))));
  return text;
}

export const client = () => new lambda.LambdaClient({});

/** The published versions of a function. */
export async function versions(fn: string): Promise<string[]> {
  const answer = await client().send(new lambda.ListVersionsByFunctionCommand({ FunctionName: fn }));
  return (answer.Versions ?? []).map((v) => v.Version!).filter((v) => v !== '$LATEST');
}

/** The version that an alias of a function names: `live`, or `deployed`. */
const aliasOf = async (fn: string, Name: string) => (await client().send(new lambda.GetAliasCommand({ FunctionName: fn, Name }))).FunctionVersion;
export const liveVersion = (fn: string) => aliasOf(fn, 'live');
export const deployedVersion = (fn: string) => aliasOf(fn, 'deployed');

/** Changes a function's code: after the end of an ELF file, so that it is another file and the same program. */
export function changeCode(name: string) {
  fs.appendFileSync(path.join(binaries, name, 'bootstrap'), '\n');
}

/** Calls a deployed function through `live`; its answer, or an error with what it said. */
export async function invoke(fn: string, payload: object): Promise<any> {
  const answer = await client().send(new lambda.InvokeCommand({ FunctionName: fn, Qualifier: 'live', Payload: JSON.stringify(payload) }));
  const text = new TextDecoder().decode(answer.Payload);
  if (answer.FunctionError) throw new Error(`${fn}: ${text}`);
  return JSON.parse(text);
}

/** A request to the deployed HTTP API; without a body it is a GET. */
export function request(route: string, headers: Record<string, string>, body?: string): Promise<{ status: number; text: string; headers: http.IncomingHttpHeaders }> {
  const api = new URL(world.outputs.HttpApiUrl!);
  return new Promise((resolve, reject) => {
    const call = http.request(new URL(route, world.aws.url), { method: body === undefined ? 'GET' : 'POST', headers: { ...headers, host: api.host }, timeout: EFFECT_MS }, (answer) => {
      let text = '';
      answer.on('data', (d) => (text += d));
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text, headers: answer.headers }));
    });
    call.on('timeout', () => call.destroy(new Error(`${route}: no answer within ${EFFECT_MS / 1000} s`)));
    call.on('error', reject);
    call.end(body);
  });
}

export const post = (route: string, body: string, headers: Record<string, string>) => request(route, headers, body);
