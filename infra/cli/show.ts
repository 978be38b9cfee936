// make synth, make diff: the CDK's own, for an environment.
import path from 'node:path';
import { say } from '../terminal.ts';
import { assemblyDirectory, cdk, environment, live, Refusal, run, stacks, useEnvironment } from './world.ts';

run(async () => {
  const env = environment();
  const command = process.argv[2];
  if (command === 'synth') {
    process.env.BINARIES ??= 'placeholder';
    process.env.CDK_DISABLE_CLI_TELEMETRY = 'true';
    const code = await cdk(env, 'synth', '--quiet', ...stacks(env));
    if (code !== 0) throw new Refusal('synthesis failed');
    say(`${path.relative(process.cwd(), assemblyDirectory())} has ${stacks(env).map((s) => `${s}.template.json`).join(', ')}`);
  } else if (command === 'diff') {
    useEnvironment(env);
    const code = await cdk(env, 'diff', ...stacks(env), '--method', 'template');
    if (code !== 0) throw new Refusal('cdk diff failed');
    for (const l of (await live(env)).filter((l) => l.version !== '')) {
      const note = l.moving ? ' (a rollout is in progress)' : l.waiting ? ` (version ${l.waiting} waits for a rollout)` : '';
      say(`live  ${l.function}: version ${l.version}${note}`);
    }
  } else {
    throw new Refusal('usage: show.ts synth|diff');
  }
});
