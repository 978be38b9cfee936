// What the steps share: the deployment, how to call it, and what has to be undone at the end.
//
// On an account everything is asked of AWS. With ENV=local the deployment is on the local AWS, and what that cannot answer (AppSync, Slack) is
// asked of the local platform, which a run starts for itself.
import { spawn, type ChildProcess } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { AppSyncClient, ListApiKeysCommand, ListGraphqlApisCommand } from '@aws-sdk/client-appsync';
import { GetParameterCommand, SSMClient } from '@aws-sdk/client-ssm';
import { outputsFile, Refusal } from '../cli/world.ts';
import type { Environment } from '../environments.ts';
import { root } from '../template.ts';
import { startPlatform, type Platform } from './platform.ts';

/** For a deployment. */
const COMMAND_MS = 45 * 60_000;
/** For what happens asynchronously after a call was answered. */
export const EFFECT_MS = 180_000;

export interface Mesh {
  appsync: AppSyncClient;
  endpoint: string;
  apiKey: string;
}

export class World {
  readonly env: Environment;
  /** Names everything that this run makes. */
  readonly id = `accept-${crypto.randomBytes(4).toString('hex')}`;
  /** The outputs of both stacks. */
  readonly outputs: Record<string, string>;
  private platform?: Promise<Platform>;
  private readonly undoing: { what: string; undo: () => Promise<unknown> }[] = [];

  constructor(env: Environment) {
    this.env = env;
    const file = outputsFile(env);
    if (!fs.existsSync(file)) throw new Refusal(`${path.relative(root, file)} does not exist. Deploy first, from this directory: make deploy ENV=${env.name}`);
    this.outputs = Object.assign({}, ...Object.values<object>(JSON.parse(fs.readFileSync(file, 'utf8'))));
  }

  get isLocal(): boolean {
    return this.env.name === 'local';
  }

  output(name: string): string {
    const value = this.outputs[name];
    if (value === undefined) throw new Error(`the deployment has no output ${name}`);
    return value;
  }

  /** Where the answer came from, for the table. */
  place(local: 'local AWS' | 'local platform'): string {
    return this.isLocal ? ` (on the ${local})` : '';
  }

  /** The local platform of this run; it stops at the end. */
  localPlatform(): Promise<Platform> {
    this.platform ??= startPlatform().then((platform) => {
      this.afterwards('stop the local platform', () => platform.stop());
      return platform;
    });
    return this.platform;
  }

  async mesh(): Promise<Mesh> {
    if (this.isLocal) {
      const { url } = await this.localPlatform();
      const { apiKey } = (await (await fetch(`${url}/_local/config`)).json()) as { apiKey: string };
      return { appsync: new AppSyncClient({ endpoint: url }), endpoint: `${url}/graphql`, apiKey };
    }
    const appsync = new AppSyncClient({});
    const endpoint = this.output('MeshEndpoint');
    for (let nextToken: string | undefined; ;) {
      const page = await appsync.send(new ListGraphqlApisCommand({ nextToken }));
      const found = page.graphqlApis?.find((api) => api.uris?.GRAPHQL === endpoint);
      if (found) {
        const { apiKeys } = await appsync.send(new ListApiKeysCommand({ apiId: found.apiId }));
        const apiKey = apiKeys?.find((key) => (key.expires ?? 0) * 1000 > Date.now())?.id;
        if (apiKey === undefined) throw new Error('every API key of the mesh has expired');
        return { appsync, endpoint, apiKey };
      }
      nextToken = page.nextToken;
      if (nextToken === undefined) throw new Error(`no API of this account has the endpoint ${endpoint}`);
    }
  }

  /** Whether somebody wants the run to end: no step begins any more, and what was made is undone. */
  interrupted = false;
  private readonly children = new Set<ChildProcess>();

  /** Ends the step that is under way. */
  interrupt() {
    this.interrupted = true;
    for (const child of this.children) child.kill('SIGINT');
  }

  /** Registers what undoes something; it runs at the end, also after a failure. */
  afterwards(what: string, undo: () => Promise<unknown>) {
    this.undoing.push({ what, undo });
  }

  /** Undoes everything, the last first. Returns what could not be undone. */
  async undo(): Promise<string[]> {
    const failed: string[] = [];
    for (let next = this.undoing.pop(); next; next = this.undoing.pop()) {
      await next.undo().catch((error: Error) => failed.push(`could not ${next!.what}: ${error.message}`));
    }
    return failed;
  }

  /** The value of a secret. */
  async secret(name: string): Promise<string> {
    const { Parameter } = await new SSMClient({}).send(new GetParameterCommand({ Name: name, WithDecryption: true }));
    return Parameter?.Value ?? '';
  }

  /** Runs a program to its end; what it prints goes to the log, not to the terminal. */
  run(program: string, args: string[], variables: Record<string, string> = {}): Promise<{ code: number; text: string }> {
    return new Promise((resolve, reject) => {
      const child = spawn(program, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'], timeout: COMMAND_MS, env: { ...process.env, ENV: this.env.name, ...variables } });
      this.children.add(child);
      let text = '';
      child.stdout.on('data', (d) => (text += d));
      child.stderr.on('data', (d) => (text += d));
      child.on('error', reject);
      child.on('close', (code) => {
        this.children.delete(child);
        fs.appendFileSync(this.log, `\n== ${path.basename(program)} ${args.join(' ')} (exit code ${code})\n${text}`);
        resolve({ code: code ?? 1, text });
      });
    });
  }

  /** Everything that the commands of this run printed. */
  get log(): string {
    const directory = path.join(path.dirname(outputsFile(this.env)), 'accept');
    fs.mkdirSync(directory, { recursive: true });
    return path.join(directory, `${this.id}.log`);
  }

  /** A program of infra/cli, as make runs it. */
  cli(name: string, variables: Record<string, string> = {}, ...args: string[]) {
    return this.run(path.join(root, 'infra', 'node_modules', '.bin', 'tsx'), [path.join(root, 'infra', 'cli', `${name}.ts`), ...args], variables);
  }

  readonly ichidoctl = path.join(process.env.CARGO_TARGET_DIR ?? path.join(root, 'target'), 'debug', 'ichidoctl');

  /** `ichidoctl … --json`; its exit code is 0 or 1, and its answer. */
  async ctl<T>(...args: string[]): Promise<{ code: number; answer: T }> {
    const { code, text } = await this.run(this.ichidoctl, [...args, '--env', this.env.name, '--json']);
    if (code > 1) throw new Error(`ichidoctl ${args.join(' ')}: ${text.trim()}`);
    return { code, answer: JSON.parse(text || 'null') as T };
  }
}

/** Asks until the answer is neither undefined nor false. */
export async function until<T>(world: World, what: string, ask: () => Promise<T | undefined | false>, ms = EFFECT_MS, pauseMs = 1000): Promise<T> {
  const deadline = Date.now() + ms;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    if (world.interrupted) throw new Error('the run was interrupted');
    if (Date.now() > deadline) throw new Error(`${what} was not seen within ${ms / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}
