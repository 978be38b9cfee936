// Protection against deletion: of the stacks, and of the tables that their templates protect. It is set after a deployment has succeeded,
// because CloudFormation could not remove what a failed first deployment leaves behind if it were protected from the start.
import { CloudFormationClient, DescribeStacksCommand, UpdateTerminationProtectionCommand } from '@aws-sdk/client-cloudformation';
import { DescribeTableCommand, DynamoDBClient, UpdateTableCommand } from '@aws-sdk/client-dynamodb';
import type { Environment } from '../environments.ts';
import { parameters } from '../service.ts';
import { decided, readTemplate, tablesOf, templateNames } from '../template.ts';
import { stacks } from './world.ts';

/** Those of the stacks that exist and are protected. */
export async function protectedStacks(env: Environment): Promise<string[]> {
  const cloudformation = new CloudFormationClient({});
  const found = await Promise.all(stacks(env).map(async (StackName) => {
    try {
      const { Stacks } = await cloudformation.send(new DescribeStacksCommand({ StackName }));
      return Stacks?.[0]?.EnableTerminationProtection ? [StackName] : [];
    } catch (error) {
      if (/does not exist/.test((error as Error).message)) return [];
      throw error;
    }
  }));
  return found.flat();
}

export async function protect(env: Environment) {
  if (env.removal === 'retain') {
    const already = await protectedStacks(env);
    const cloudformation = new CloudFormationClient({});
    for (const StackName of stacks(env).filter((s) => !already.includes(s))) {
      await cloudformation.send(new UpdateTerminationProtectionCommand({ StackName, EnableTerminationProtection: true }));
    }
  }
  const dynamodb = new DynamoDBClient({});
  for (const TableName of protectedTables(env)) {
    const { Table } = await dynamodb.send(new DescribeTableCommand({ TableName }));
    if (!Table?.DeletionProtectionEnabled) await dynamodb.send(new UpdateTableCommand({ TableName, DeletionProtectionEnabled: true }));
  }
}

/** The tables that are protected in an environment. */
function protectedTables(env: Environment): string[] {
  return templateNames().map((name) => readTemplate(name)).flatMap((template) => {
    const values = parameters(template, env, { architecture: 'arm64' }, {});
    return tablesOf(template, values).filter(({ properties: p }) => decided(p.DeletionProtectionEnabled, template, values) === true).map(({ name }) => name);
  });
}
