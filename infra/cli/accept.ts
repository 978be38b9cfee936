// make accept: proves on a deployed environment what only the place where it runs can prove, one line per step.
//
//   ENV=…                    the environment; not prod, because a run rings alarms and deploys three times
//   STEPS=alarms,transfer    only these steps; a step that needs another one (`needs`) is proven only together with it
//   ACCEPT_SLACK_CHANNEL     a channel of which the bot is a member, for the step slack-event on an account
//   ACCEPT_SENDER_TOKEN, ACCEPT_RECIPIENT_TOKEN   tokens of two accounts, for the step transfer on an account
//   --list                   prints the steps
//
// The exit code is 0 if no step failed.
import fs from 'node:fs';
import path from 'node:path';
import { steps } from '../accept/steps/index.ts';
import { line, runSteps, total } from '../accept/step.ts';
import { World } from '../accept/world.ts';
import { root } from '../template.ts';
import { complain, say } from '../terminal.ts';
import { account, environment, live, Refusal, run, useEnvironment } from './world.ts';

run(async () => {
  if (process.argv.includes('--list')) {
    for (const { name, claim } of steps) say(`${name.padEnd(20)}${claim}`);
    return;
  }
  const env = environment();
  if (env.name === 'prod') throw new Refusal('A run rings every alarm and deploys three times. Use dev or staging, which are deployed from the same templates.');
  if (env.name !== 'local' && process.env.AWS_ENDPOINT_URL) throw new Refusal(`AWS_ENDPOINT_URL is set (${process.env.AWS_ENDPOINT_URL}), so AWS would not be asked and nothing of ${env.name} proven. Unset it.`);
  useEnvironment(env);
  await account(env);
  const world = new World(env);
  const chosen = choose(process.env.STEPS);
  if (chosen.some((step) => step.name === 'failed-deployment')) await refuseUnlessSettled(world);

  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (world.interrupted) process.exit(1); // twice: at once, whatever is left
      complain(`\n${signal}: the run ends and undoes what it did. Once more ends it at once.`);
      world.interrupt();
    });
  }
  const terminal = process.stderr.isTTY === true;
  const outcomes = await runSteps(chosen, world,
    (step, outcome) => {
      if (terminal) process.stderr.write('\r\x1b[K');
      say(line(step.name, outcome));
    },
    (step) => process.stderr.write(terminal ? `\r\x1b[K… ${step.name}: ${step.claim}` : `… ${step.name}: ${step.claim}\n`));
  if (outcomes.some((o) => o.verdict === 'failed') && fs.existsSync(world.log)) say(`\n${path.relative(root, world.log)} has what the commands printed.`);
  say(`\n${total(outcomes)}`);
  process.exit(outcomes.some((o) => o.verdict === 'failed') ? 1 : 0);
});

function choose(names: string | undefined) {
  if (!names) return steps;
  const wanted = names.split(',').map((name) => name.trim());
  const unknown = wanted.filter((name) => !steps.some((step) => step.name === name));
  if (unknown.length > 0) throw new Refusal(`there is no step ${unknown.join(', ')}; the steps are ${steps.map((step) => step.name).join(', ')}`);
  return steps.filter((step) => wanted.includes(step.name));
}

/** The last steps deploy: nothing else may change with them, and no rollout may be under way. */
async function refuseUnlessSettled(world: World) {
  const moving = (await live(world.env)).filter((l) => l.moving).map((l) => l.function);
  if (moving.length > 0) throw new Refusal(`A rollout is in progress (${moving.join(', ')}). Finish it or roll it back first.`);
  const { code, text } = await world.cli('show', {}, 'diff');
  if (code !== 0) throw new Refusal(`cdk diff failed:\n${text}`);
  if (!/Number of stacks with differences: 0/.test(text)) {
    throw new Refusal(`${world.env.name} differs from this directory, so a run would deploy more than its own marks. Deploy first: make deploy ENV=${world.env.name}\n\n${text}`);
  }
}
