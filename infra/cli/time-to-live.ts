// Sets through the API what the local AWS ignores in CloudFormation templates. AWS itself needs none of it.
import { DescribeTimeToLiveCommand, DynamoDBClient, UpdateTimeToLiveCommand } from '@aws-sdk/client-dynamodb';
import type { Environment } from '../environments.ts';
import { parameters } from '../service.ts';
import { readTemplate, tablesOf, templateNames } from '../template.ts';

export async function setTimeToLive(env: Environment) {
  const client = new DynamoDBClient({});
  for (const template of templateNames().map((n) => readTemplate(n))) {
    const values = parameters(template, env, { architecture: 'arm64' }, {});
    for (const { name: TableName, properties } of tablesOf(template, values)) {
      const { TimeToLiveDescription: now } = await client.send(new DescribeTimeToLiveCommand({ TableName }));
      if (now?.TimeToLiveStatus === 'ENABLED') continue;
      await client.send(new UpdateTimeToLiveCommand({ TableName, TimeToLiveSpecification: properties.TimeToLiveSpecification }));
    }
  }
}
