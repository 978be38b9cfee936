// What each resolver is given and what it must return, for AppSync's EvaluateCode.
//
// In what is expected, "*" stands for any value (a time, an id). A member that is null counts as missing: AppSync may leave it out.
import fs from 'node:fs';
import path from 'node:path';
import type { EvaluateCodeCommandOutput } from '@aws-sdk/client-appsync';
import { infra } from '../template.ts';

export interface EvaluationCase {
  name: string;
  /** Below infra/appsync. */
  file: string;
  function: 'request' | 'response';
  context: object;
  /** What the function returns, or the message of its error; and what it leaves in the stash, apart from other members. */
  expected: { result?: unknown; error?: string; stash?: Record<string, unknown> };
}

export function evaluationCases(): EvaluationCase[] {
  const directory = path.join(infra, 'appsync', 'cases');
  return fs.readdirSync(directory).sort().flatMap((file) => JSON.parse(fs.readFileSync(path.join(directory, file), 'utf8')) as EvaluationCase[]);
}

/** What an answer is, if it is not what the case expects. */
export function problemOf({ expected }: EvaluationCase, answer: EvaluateCodeCommandOutput): string | undefined {
  const wrong = (what: string, found: unknown, wanted: unknown) => `${what} is ${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`;
  const { error } = answer;
  if (error?.codeErrors?.length) {
    return error.codeErrors.map(({ errorType, value, location }) => `${errorType} in line ${location?.line}: ${value}`).join('; ');
  }
  if (error?.message !== expected.error) return wrong('the error', error?.message, expected.error);
  const result = answer.evaluationResult === undefined ? undefined : JSON.parse(answer.evaluationResult);
  if (expected.error === undefined && !fits(expected.result, result)) return wrong('the result', result, expected.result);
  const stash = JSON.parse(answer.stash ?? '{}');
  const lacking = Object.entries(expected.stash ?? {}).find(([name, value]) => !fits(value, stash[name]));
  return lacking && wrong(`${lacking[0]} in the stash`, stash[lacking[0]], lacking[1]);
}

function fits(wanted: unknown, found: unknown): boolean {
  if (wanted === '*') return found !== undefined && found !== null;
  if (typeof wanted !== 'object' || wanted === null || typeof found !== 'object' || found === null) return (wanted ?? null) === (found ?? null);
  if (Array.isArray(wanted) !== Array.isArray(found)) return false;
  const [left, right] = [wanted as Record<string, unknown>, found as Record<string, unknown>];
  return [...new Set([...Object.keys(left), ...Object.keys(right)])].every((name) => fits(left[name], right[name]));
}
