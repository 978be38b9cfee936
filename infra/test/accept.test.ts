// `make accept`: what its table says, and what it leaves behind. tests/deploy runs it for real.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { line, notHere, proven, runSteps, total, type Outcome, type Step } from '../accept/step.ts';
import { steps } from '../accept/steps/index.ts';
import { type World } from '../accept/world.ts';
import { environments } from '../environments.ts';
import { synthesize } from '../synthesize.ts';

/** A world that can only undo. */
function world(undone: string[] = [], left: string[] = []): World {
  return { undo: async () => { undone.push('undone'); return left; } } as unknown as World;
}

const step = (name: string, prove: () => Promise<Outcome>, needs?: string[]): Step => ({ name, claim: name, needs, prove });
const fails = async (): Promise<Outcome> => { throw new Error('it is false'); };

async function told(list: Step[], at = world()): Promise<string[]> {
  const lines: string[] = [];
  const outcomes = await runSteps(list, at, (s, o) => lines.push(line(s.name, o).replace(/ +/g, ' ')));
  return [...lines, total(outcomes)];
}

test('each step is one line, and the last line counts them', async () => {
  assert.deepEqual(await told([step('a', async () => proven('seen')), step('b', async () => notHere('no Lambda here')), step('c', fails)]), [
    'proven a seen', 'not provable here b no Lambda here', 'failed c it is false', 'proven clean-up nothing of this run is left', '2 proven, 1 not provable here, 1 failed',
  ]);
});

test('a step that needs one which is not proven is never passed', async () => {
  let ran = false;
  const run = async () => { ran = true; return proven('seen'); };
  const lines = await told([step('a', fails), step('b', run, ['a']), step('c', async () => notHere('no')), step('d', run, ['c'])]);
  assert.equal(ran, false);
  assert.match(lines[1]!, /^failed b needs a/);
  assert.match(lines[3]!, /^not provable here d needs c/);
});

test('what was made is undone also after a failure, and a remainder is a failure', async () => {
  const undone: string[] = [];
  const lines = await told([step('a', fails)], world(undone, ['could not delete the queue: denied']));
  assert.deepEqual(undone, ['undone']);
  assert.deepEqual(lines.slice(1), ['failed clean-up could not delete the queue: denied', '0 proven, 0 not provable here, 2 failed']);
});

test('an interrupted run begins no further step and still undoes what it did', async () => {
  const undone: string[] = [];
  const at = world(undone);
  const lines = await told([step('a', async () => { at.interrupted = true; throw new Error('it was ended'); }), step('b', async () => proven('seen'))], at);
  assert.deepEqual(undone, ['undone']);
  assert.match(lines[1]!, /^failed b the run was interrupted/);
});

test('steps have names of their own, and need only steps before them', () => {
  const names = steps.map((s) => s.name);
  assert.equal(new Set(names).size, names.length);
  for (const [i, { name, needs = [] }] of steps.entries()) {
    for (const need of needs) assert.ok(names.slice(0, i).includes(need), `${name} needs ${need}`);
  }
});

test('a note changes every function', () => {
  const descriptions = (note?: string) => Object.values(synthesize(environments.dev, undefined, { note }).resources)
    .filter((r) => r.Type === 'AWS::Lambda::Function').map((r) => r.Properties.Description as string);
  assert.deepEqual(descriptions('accept-1'), descriptions().map((text) => `${text} (accept-1)`));
});
