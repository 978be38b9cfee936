// AppSync's own runtime gives the same results for our resolvers as the tests expect.
import fs from 'node:fs';
import path from 'node:path';
import { EvaluateCodeCommand } from '@aws-sdk/client-appsync';
import { infra } from '../../template.ts';
import { must, proven, type Step } from '../step.ts';
import { evaluationCases, problemOf } from '../evaluation.ts';

export const resolvers: Step = {
  name: 'resolvers',
  claim: 'every resolver evaluates as expected in APPSYNC_JS',
  async prove(world) {
    const { appsync } = await world.mesh();
    const cases = evaluationCases();
    const problems: string[] = [];
    for (const each of cases) {
      const answer = await appsync.send(new EvaluateCodeCommand({
        runtime: { name: 'APPSYNC_JS', runtimeVersion: '1.0.0' }, code: fs.readFileSync(path.join(infra, 'appsync', each.file), 'utf8'), context: JSON.stringify(each.context), function: each.function,
      }));
      const problem = problemOf(each, answer);
      if (problem) problems.push(`${each.file} ${each.function} (${each.name}): ${problem}`);
    }
    must(problems.length === 0, problems.join('\n'));
    return proven(`${cases.length} evaluations of ${new Set(cases.map((c) => c.file)).size} files${world.place('local platform')}`);
  },
};
