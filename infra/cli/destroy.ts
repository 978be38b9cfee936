// make destroy: removes an environment. Where tables are retained, they stay, and it asks for a confirmation.
import readline from 'node:readline/promises';
import { complain } from '../terminal.ts';
import { account, cdk, environment, Refusal, run, stacks, useEnvironment } from './world.ts';

run(async () => {
  process.env.BINARIES = 'placeholder'; // nothing is uploaded
  const env = environment();
  useEnvironment(env);
  await account(env);
  if (env.removal === 'retain') {
    complain(`${env.name} keeps its tables and queues; they have to be deleted by hand. Its stacks are protected against deletion; remove the protection first (aws cloudformation update-termination-protection).`);
  }
  if (env.name !== 'local' && process.env.YES !== '1') {
    if (!process.stdin.isTTY) throw new Refusal('The environment is destroyed only after a confirmation, and there is no terminal to ask. Set YES=1 to confirm.');
    const terminal = readline.createInterface({ input: process.stdin, output: process.stderr });
    const answer = await terminal.question(`Destroy ${stacks(env).join(' and ')}? Type ${env.name} to go on: `);
    terminal.close();
    if (answer.trim() !== env.name) throw new Refusal('Nothing was destroyed.');
  }
  const code = await cdk(env, 'destroy', ...stacks(env), '--force');
  if (code !== 0) throw new Refusal(`cdk destroy failed (exit code ${code}); its output is above`);
});
