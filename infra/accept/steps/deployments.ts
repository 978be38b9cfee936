// Deployments move no traffic, whether they succeed or fail; rollouts do.
import { spawn } from 'node:child_process';
import readline from 'node:readline';
import { CloudFormationClient, DescribeStacksCommand } from '@aws-sdk/client-cloudformation';
import { GetAliasCommand, GetFunctionConfigurationCommand, InvokeCommand, LambdaClient, paginateListVersionsByFunction } from '@aws-sdk/client-lambda';
import { binaries, described } from '../../cli/world.ts';
import { root } from '../../template.ts';
import { must, notHere, proven, type Step } from '../step.ts';
import type { World } from '../world.ts';
import { HEALTH } from './functions.ts';

/** The function that is rolled out: its health payload has no effect, and nothing else calls it often. */
const ROLLED_OUT = 'mesh-resolver';
/** Enough that both versions answer at 50 %: the chance that one does not is 2^-39. */
const CALLS = 40;

interface Standing { function: string; live: string; weights: Record<string, number>; versions: string[]; code: string; description: string }

/** Where each function stands: what is live, which versions there are, and the unpublished code. */
async function standings(world: World): Promise<Standing[]> {
  const lambda = new LambdaClient({});
  return Promise.all(described(world.env).functions.map(async ({ deployed }) => {
    const alias = await lambda.send(new GetAliasCommand({ FunctionName: deployed, Name: 'live' }));
    const { CodeSha256, Description } = await lambda.send(new GetFunctionConfigurationCommand({ FunctionName: deployed }));
    const versions: string[] = [];
    for await (const page of paginateListVersionsByFunction({ client: lambda }, { FunctionName: deployed })) {
      versions.push(...(page.Versions ?? []).map((v) => v.Version!).filter((v) => v !== '$LATEST'));
    }
    return { function: deployed, live: alias.FunctionVersion!, weights: alias.RoutingConfig?.AdditionalVersionWeights ?? {}, versions, code: CodeSha256 ?? '', description: Description ?? '' };
  }));
}

const traffic = (all: Standing[]) => JSON.stringify(all.map((s) => [s.function, s.live, s.weights]));

/** `make deploy`. With NOTE every function is changed. */
const deploy = (world: World, variables: Record<string, string>) => world.cli('deploy', { YES: '1', BINARIES: binaries().directory, ...variables });

async function mustDeploy(world: World, variables: Record<string, string>) {
  const { code } = await deploy(world, variables);
  must(code === 0, `make deploy failed; ${world.log} has its output`);
}

/** When CloudFormation last worked on the stack of what runs, and how that ended. */
async function stack(world: World): Promise<{ updated: number; status: string }> {
  const { Stacks } = await new CloudFormationClient({}).send(new DescribeStacksCommand({ StackName: `ichido-${world.env.name}` }));
  const { LastUpdatedTime, CreationTime, StackStatus } = Stacks![0]!;
  return { updated: (LastUpdatedTime ?? CreationTime)!.getTime(), status: StackStatus! };
}

export const failedDeployment: Step = {
  name: 'failed-deployment',
  claim: 'a deployment that fails leaves live where it was, and publishes nothing',
  async prove(world) {
    const before = await standings(world);
    const { updated } = await stack(world);
    world.afterwards('deploy once more without the marks of this run', () => mustDeploy(world, {}));
    const { code } = await deploy(world, { NOTE: world.id, FAIL: 'service' });
    must(code !== 0, 'the deployment that had to fail succeeded');
    const now = await stack(world);
    must(now.updated > updated && /ROLLBACK/.test(now.status), `the deployment failed before CloudFormation changed anything; ${world.log} has its output`);
    const after = await standings(world);
    must(traffic(after) === traffic(before), `live moved: ${traffic(before)} before, ${traffic(after)} after`);
    for (const [i, { function: name, versions }] of after.entries()) {
      must(versions.length === before[i]!.versions.length, `${name} has a new version, although the deployment failed`);
    }
    const left = after.filter((s) => s.description.includes(world.id)).map((s) => s.function);
    if (world.isLocal) return proven(`live of ${after.length} functions stayed where it was (on the local AWS, which ${left.length === 0 ? 'rolled the stack back' : 'does not roll a stack back'})`);
    must(left.length === 0, `CloudFormation did not roll back ${left.join(', ')}`);
    return proven(`live of ${after.length} functions stayed where it was, and CloudFormation rolled the stack back`);
  },
};

export const deployment: Step = {
  name: 'deployment',
  claim: 'the deployment after a failed one publishes new versions and moves no traffic',
  needs: ['failed-deployment'],
  async prove(world) {
    const before = await standings(world);
    await mustDeploy(world, { NOTE: world.id });
    const after = await standings(world);
    must(traffic(after) === traffic(before), `live moved: ${traffic(before)} before, ${traffic(after)} after`);
    for (const [i, { function: name, versions }] of after.entries()) {
      must(versions.length === before[i]!.versions.length + 1, `${name} has ${versions.length - before[i]!.versions.length} new versions instead of one`);
    }
    return proven(`${after.length} functions have one new version each, and live stayed where it was${world.place('local AWS')}`);
  },
};

export const coldStarts: Step = {
  name: 'cold-starts',
  claim: 'the cold start of each function, as Lambda reports it',
  needs: ['deployment'],
  async prove(world) {
    if (world.isLocal) return notHere('the local AWS reports no Init Duration');
    const lambda = new LambdaClient({});
    const times = await Promise.all((await standings(world)).map(async ({ function: name, versions }) => {
      const newest = versions.map(Number).sort((a, b) => a - b).at(-1); // never called before, so it starts cold
      const { LogResult, FunctionError, Payload } = await lambda.send(new InvokeCommand({ FunctionName: name, Qualifier: String(newest), LogType: 'Tail', Payload: JSON.stringify(HEALTH) }));
      must(!FunctionError, `${name}: ${new TextDecoder().decode(Payload)}`);
      const report = Buffer.from(LogResult ?? '', 'base64').toString();
      const ms = /Init Duration: ([\d.]+) ms/.exec(report)?.[1] ?? /"initDurationMs":\s*([\d.]+)/.exec(report)?.[1];
      must(ms !== undefined, `${name}: Lambda reported no Init Duration: ${report}`);
      return `${name} ${Math.round(Number(ms))} ms`;
    }));
    return proven(times.join(', '));
  },
};

/** What the rollout step found out about weights. */
let seen: { old: number; new: number } | undefined;

export const rollout: Step = {
  name: 'rollout',
  claim: 'a rollout sets the weights of live, and going back removes them',
  needs: ['deployment'],
  async prove(world) {
    const lambda = new LambdaClient({});
    const name = `${ROLLED_OUT}${world.env.suffix}`;
    const alias = () => lambda.send(new GetAliasCommand({ FunctionName: name, Name: 'live' }));
    const before = (await alias()).FunctionVersion!;
    const moving = spawn(world.ichidoctl, ['rollout', '--env', world.env.name, '--function', ROLLED_OUT, '--steps', '50,100', '--bake', '3600', '--json'], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
    process.once('exit', () => moving.kill('SIGINT'));
    let text = '';
    moving.stderr.on('data', (d) => (text += d));
    const code = new Promise<number | null>((resolve) => moving.on('close', resolve));
    const moved = new Promise<void>((resolve) => readline.createInterface({ input: moving.stdout }).on('line', (line) => {
      text += `${line}\n`;
      if ((JSON.parse(line) as { event: string; percent?: number }).event === 'moved') resolve();
    }));
    try {
      const first = await Promise.race([moved.then(() => 'moved'), code]);
      must(first === 'moved', `the rollout ended before its first step: ${text}`);
      const weights = (await alias()).RoutingConfig?.AdditionalVersionWeights ?? {};
      must(Object.values(weights).join() === '0.5', `the weights of live are ${JSON.stringify(weights)} instead of one half`);
      seen = { old: 0, new: 0 };
      for (let i = 0; i < CALLS; i++) {
        const { ExecutedVersion } = await lambda.send(new InvokeCommand({ FunctionName: name, Qualifier: 'live', Payload: JSON.stringify(HEALTH) }));
        seen[ExecutedVersion === before ? 'old' : 'new']++;
      }
    } finally {
      moving.kill('SIGINT');
      await code;
    }
    const after = await alias();
    must(after.FunctionVersion === before && Object.keys(after.RoutingConfig?.AdditionalVersionWeights ?? {}).length === 0, `live did not go back to version ${before}: ${JSON.stringify(after)}`);
    return proven(`live of ${name} gave one half to the new version, and went back to version ${before} on request${world.place('local AWS')}`);
  },
};

export const weights: Step = {
  name: 'weights',
  claim: 'Lambda divides the calls of live by its weights',
  needs: ['rollout'],
  async prove(world) {
    if (world.isLocal) return notHere('the local AWS stores weights and sends every call to one version');
    must(seen !== undefined && seen.old > 0 && seen.new > 0, `with weights of one half, ${seen?.old} calls went to the old version and ${seen?.new} to the new one`);
    return proven(`of ${CALLS} calls ${seen.old} went to the old version and ${seen.new} to the new one`);
  },
};

export const rollback: Step = {
  name: 'rollback',
  claim: 'a rollback returns to the version before the last rollout',
  needs: ['rollout'],
  async prove(world) {
    const lambda = new LambdaClient({});
    const name = `${ROLLED_OUT}${world.env.suffix}`;
    const live = async () => (await lambda.send(new GetAliasCommand({ FunctionName: name, Name: 'live' }))).FunctionVersion!;
    const before = await live();
    const move = async (...args: string[]) => {
      const { code, text } = await world.run(world.ichidoctl, [...args, '--env', world.env.name, '--function', ROLLED_OUT]);
      must(code === 0, `ichidoctl ${args.join(' ')} failed: ${text}`);
      return live();
    };
    const forward = await move('rollout', '--steps', '100', '--bake', '0');
    must(forward !== before, `the rollout left live on version ${before}`);
    const back = await move('rollback');
    must(back === before, `the rollback moved live to version ${back} instead of ${before}`);
    return proven(`live of ${name} went from version ${before} to ${forward} and back${world.place('local AWS')}`);
  },
};
