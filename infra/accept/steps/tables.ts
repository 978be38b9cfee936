// What the tables keep, and for how long.
import { DescribeContinuousBackupsCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { synthesize } from '../../synthesize.ts';
import { must, notHere, proven, type Step } from '../step.ts';
import type { World } from '../world.ts';

interface Finding { kind: string; name: string; ok: boolean; notes: string[] }

async function findings(world: World, ...kinds: string[]): Promise<Finding[]> {
  const { answer } = await world.ctl<Finding[]>('doctor');
  const found = answer.filter((f) => kinds.includes(f.kind));
  must(found.length > 0, `ichidoctl doctor checked nothing of the kind ${kinds.join(', ')}`);
  const wrong = found.filter((f) => !f.ok).map((f) => `${f.name}: ${f.notes.join('; ')}`);
  must(wrong.length === 0, wrong.join('\n'));
  return found;
}

export const expiry: Step = {
  name: 'ttl',
  claim: 'every table expires what its template says',
  async prove(world) {
    return proven(`${(await findings(world, 'ttl')).length} tables expire what their templates say${world.place('local AWS')}`);
  },
};

export const backups: Step = {
  name: 'backups',
  claim: 'point-in-time recovery and deletion protection are as the templates say',
  async prove(world) {
    if (world.isLocal) return notHere('the local AWS ignores point-in-time recovery and deletion protection');
    const found = await findings(world, 'table', 'recovery');
    const dynamodb = new DynamoDBClient({});
    const tables = Object.values(synthesize(world.env).resources).filter((r) => r.Type === 'AWS::DynamoDB::Table').map((r) => r.Properties);
    const wrong: string[] = [];
    let on = 0;
    for (const { TableName, PointInTimeRecoverySpecification: wanted } of tables) {
      const { ContinuousBackupsDescription: there } = await dynamodb.send(new DescribeContinuousBackupsCommand({ TableName }));
      const status = there?.PointInTimeRecoveryDescription?.PointInTimeRecoveryStatus ?? 'DISABLED';
      const expected = wanted?.PointInTimeRecoveryEnabled ? 'ENABLED' : 'DISABLED';
      if (status !== expected) wrong.push(`${TableName}: point-in-time recovery is ${status}, the template says ${expected}`);
      if (status === 'ENABLED') on++;
    }
    must(wrong.length === 0, wrong.join('\n'));
    const protection = `the protection of ${found.filter((f) => f.kind === 'table').length} tables is as their templates say`;
    if (on > 0) return proven(`${protection}; ${on} have point-in-time recovery`);
    return proven(`${protection}. Point-in-time recovery is off here: the templates switch it on in prod only, where \`ichidoctl doctor --env prod\` checks it`);
  },
};
