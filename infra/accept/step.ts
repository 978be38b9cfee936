// One step of `make accept`: a claim about a deployment, and how it is proven.
import { harmless } from '../terminal.ts';
import type { World } from './world.ts';

export type Verdict = 'proven' | 'not provable here' | 'failed';

export interface Outcome {
  verdict: Verdict;
  /** What was seen, or why it could not be. */
  detail: string;
}

export interface Step {
  name: string;
  /** What is true if the step is proven: one sentence. */
  claim: string;
  /** Steps that must be proven before this one. */
  needs?: string[];
  /** Throws if the claim is false. */
  prove(world: World): Promise<Outcome>;
}

export const proven = (detail: string): Outcome => ({ verdict: 'proven', detail });
/** Never a pass: what answers here cannot show whether the claim is true on AWS. */
export const notHere = (why: string): Outcome => ({ verdict: 'not provable here', detail: why });

/** Throws `text` unless the condition holds. */
export function must(condition: unknown, text: string): asserts condition {
  if (!condition) throw new Error(text);
}

const WIDTH = { verdict: 19, name: 20 };

export function line(name: string, { verdict, detail }: Outcome): string {
  return `${verdict.padEnd(WIDTH.verdict)}${name.padEnd(WIDTH.name)}${harmless(detail).replaceAll('\n', `\n${' '.repeat(WIDTH.verdict + WIDTH.name)}`)}`;
}

/** The last line. Others rely on its form. */
export function total(outcomes: Outcome[]): string {
  const count = (verdict: Verdict) => outcomes.filter((o) => o.verdict === verdict).length;
  return `${count('proven')} proven, ${count('not provable here')} not provable here, ${count('failed')} failed`;
}

/** Runs the steps in order, and then, in reverse order, what they left to be undone. Tells each outcome as soon as it is known. */
export async function runSteps(steps: Step[], world: World, tell: (step: Step, outcome: Outcome) => void, begin: (step: Step) => void = () => {}): Promise<Outcome[]> {
  const outcomes = new Map<string, Outcome>();
  const finish = (step: Step, outcome: Outcome) => {
    outcomes.set(step.name, outcome);
    tell(step, outcome);
  };
  for (const step of steps) {
    if (world.interrupted) {
      finish(step, { verdict: 'failed', detail: 'the run was interrupted' });
      continue;
    }
    const missing = (step.needs ?? []).filter((name) => outcomes.get(name)?.verdict !== 'proven');
    if (missing.length > 0) {
      const verdict = missing.some((name) => outcomes.get(name)?.verdict === 'failed') ? 'failed' : 'not provable here';
      finish(step, { verdict, detail: `needs ${missing.join(', ')}, which is not proven` });
      continue;
    }
    begin(step);
    try {
      finish(step, await step.prove(world));
    } catch (error) {
      finish(step, { verdict: 'failed', detail: (error as Error).message });
    }
  }
  const cleanUp: Step = { name: 'clean-up', claim: 'nothing of this run is left', prove: async () => proven('nothing of this run is left') };
  begin(cleanUp);
  const left = await world.undo();
  finish(cleanUp, left.length === 0 ? await cleanUp.prove(world) : { verdict: 'failed', detail: left.join('\n') });
  return [...outcomes.values()];
}
