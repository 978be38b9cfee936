// What a role may and may not do, tried with the role's own credentials.
import { dynamodb, iam, lambda, scheduler, sns, sqs, ssm, sts } from '../../infra/cli/aws.ts';

export interface Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken: string;
}

export interface Statement {
  Sid?: string;
  Action: string | string[];
  Resource: string | string[];
}

/** Actions that the local AWS cannot be asked about; docs/verification.md says what proves them instead. */
export const UNTRIED = new Map([
  ['ssm:GetParameters', 'taken for a call on everything, whatever its names'],
  ['logs:CreateLogStream', 'asked of the log group, where AWS asks of its streams'],
  ['logs:PutLogEvents', 'asked of the log group, where AWS asks of its streams'],
  ['xray:PutTraceSegments', 'there is no X-Ray'],
  ['xray:PutTelemetryRecords', 'there is no X-Ray'],
]);

/** The roles that our stacks made. */
export async function roleNames(): Promise<string[]> {
  const { Roles } = await new iam.IAMClient({}).send(new iam.ListRolesCommand({ MaxItems: 1000 }));
  return (Roles ?? []).map((r) => r.RoleName!).filter((name) => name.startsWith('ichido-local-'));
}

/** Credentials of a role. Only its service may assume it, so the test allows this account to do so for a moment. */
export async function credentialsOf(role: string): Promise<Credentials> {
  const admin = new iam.IAMClient({});
  const { Role } = await admin.send(new iam.GetRoleCommand({ RoleName: role }));
  const trust = decodeURIComponent(Role!.AssumeRolePolicyDocument!);
  const account = Role!.Arn!.split(':')[4];
  const ours = JSON.stringify({ Version: '2012-10-17', Statement: [{ Effect: 'Allow', Principal: { AWS: `arn:aws:iam::${account}:root` }, Action: 'sts:AssumeRole' }] });
  await admin.send(new iam.UpdateAssumeRolePolicyCommand({ RoleName: role, PolicyDocument: ours }));
  try {
    const { Credentials: c } = await new sts.STSClient({}).send(new sts.AssumeRoleCommand({ RoleArn: Role!.Arn, RoleSessionName: 'trial' }));
    return { accessKeyId: c!.AccessKeyId!, secretAccessKey: c!.SecretAccessKey!, sessionToken: c!.SessionToken! };
  } finally {
    await admin.send(new iam.UpdateAssumeRolePolicyCommand({ RoleName: role, PolicyDocument: trust }));
  }
}

/** What a role's policies say, as deployed. */
export async function statementsOf(role: string): Promise<Statement[]> {
  const admin = new iam.IAMClient({});
  const { PolicyNames } = await admin.send(new iam.ListRolePoliciesCommand({ RoleName: role }));
  const found: Statement[] = [];
  for (const PolicyName of PolicyNames ?? []) {
    const { PolicyDocument } = await admin.send(new iam.GetRolePolicyCommand({ RoleName: role, PolicyName }));
    found.push(...[JSON.parse(decodeURIComponent(PolicyDocument!)).Statement].flat());
  }
  return found;
}

/**
 * The local AWS ignores the names in ssm:GetParameters and checks it as a call on everything, which our roles do not allow. So
 * that functions can start there, the test allows it, after the roles were tried as they are.
 */
export async function forgiveGetParameters(role: string) {
  await new iam.IAMClient({}).send(new iam.PutRolePolicyCommand({
    RoleName: role.split('/').pop(),
    PolicyName: 'local-aws-only',
    PolicyDocument: JSON.stringify({ Version: '2012-10-17', Statement: [{ Effect: 'Allow', Action: 'ssm:GetParameters', Resource: '*' }] }),
  }));
}

/** Whether a call is allowed. It is if the error is about the resource itself. */
export async function isAllowed(call: () => Promise<unknown>): Promise<boolean> {
  try {
    await call();
    return true;
  } catch (error) {
    const { name, message } = error as Error;
    if (/AccessDenied|UnauthorizedOperation|AuthorizationError|NotAuthorized/i.test(`${name} ${message}`)) return false;
    if (/NotFound|NoSuch|NonExistent|Validation|InvalidParameter|ResourceConflict|ConditionalCheckFailed|TransactionCanceled|AlreadyExists/i.test(name)) return true;
    throw error;
  }
}

/** Makes a call that a statement allows, in a way that changes nothing. */
export async function attempt(credentials: Credentials, action: string, resource: string): Promise<unknown> {
  const config = { credentials, maxAttempts: 1 };
  const [service] = action.split(':');
  if (service === 'dynamodb') return attemptOnTable(new dynamodb.DynamoDBClient(config), action, resource);
  switch (action) {
    case 'lambda:InvokeFunction':
      return new lambda.LambdaClient(config).send(new lambda.InvokeCommand({ FunctionName: resource, InvocationType: 'DryRun' }));
    case 'sqs:SendMessage': {
      const admin = new sqs.SQSClient({ useQueueUrlAsEndpoint: false });
      const { QueueUrl } = await admin.send(new sqs.GetQueueUrlCommand({ QueueName: resource.split(':').pop() }));
      await new sqs.SQSClient({ ...config, useQueueUrlAsEndpoint: false }).send(new sqs.SendMessageCommand({ QueueUrl, MessageBody: 'trial' }));
      return admin.send(new sqs.PurgeQueueCommand({ QueueUrl }));
    }
    default:
      throw new Error(`tests/deploy/roles.ts does not know how to try ${action}`);
  }
}

/** Every write is conditional on an item that is not there. */
async function attemptOnTable(db: dynamodb.DynamoDBClient, action: string, arn: string): Promise<unknown> {
  const [, TableName, , IndexName] = /:table\/([^/]+)(\/index\/(.+))?$/.exec(arn)!;
  const { Table } = await new dynamodb.DynamoDBClient({}).send(new dynamodb.DescribeTableCommand({ TableName }));
  const hash = Table!.KeySchema![0]!.AttributeName!;
  const Key = Object.fromEntries(Table!.KeySchema!.map((k) => [k.AttributeName!, { S: 'nobody' }]));
  const absent = { ConditionExpression: 'attribute_exists(#k)', ExpressionAttributeNames: { '#k': hash } };
  switch (action) {
    case 'dynamodb:DescribeTable': return db.send(new dynamodb.DescribeTableCommand({ TableName }));
    case 'dynamodb:GetItem': return db.send(new dynamodb.GetItemCommand({ TableName, Key }));
    case 'dynamodb:BatchGetItem': return db.send(new dynamodb.BatchGetItemCommand({ RequestItems: { [TableName!]: { Keys: [Key] } } }));
    case 'dynamodb:PutItem': return db.send(new dynamodb.PutItemCommand({ TableName, Item: Key, ...absent }));
    case 'dynamodb:UpdateItem': return db.send(new dynamodb.UpdateItemCommand({ TableName, Key, ...absent }));
    case 'dynamodb:DeleteItem': return db.send(new dynamodb.DeleteItemCommand({ TableName, Key, ...absent }));
    case 'dynamodb:BatchWriteItem': return db.send(new dynamodb.BatchWriteItemCommand({ RequestItems: { [TableName!]: [{ DeleteRequest: { Key } }] } }));
    case 'dynamodb:ConditionCheckItem': return db.send(new dynamodb.TransactWriteItemsCommand({ TransactItems: [{ ConditionCheck: { TableName, Key, ...absent } }] }));
    case 'dynamodb:Query': {
      const schema = IndexName ? Table!.GlobalSecondaryIndexes!.find((i) => i.IndexName === IndexName)!.KeySchema! : Table!.KeySchema!;
      return db.send(new dynamodb.QueryCommand({
        TableName, IndexName, KeyConditionExpression: '#k = :k', ExpressionAttributeNames: { '#k': schema[0]!.AttributeName! }, ExpressionAttributeValues: { ':k': { S: 'nobody' } },
      }));
    }
    default: throw new Error(`tests/deploy/roles.ts does not know how to try ${action}`);
  }
}

/** Calls that none of our roles needs. */
export function forbidden(credentials: Credentials, target: { table: string; fn: string; topic: string; queueUrl: string }): [string, () => Promise<unknown>][] {
  const config = { credentials, maxAttempts: 1 };
  const db = new dynamodb.DynamoDBClient(config);
  const fn = new lambda.LambdaClient(config);
  const parameters = new ssm.SSMClient(config);
  const queue = new sqs.SQSClient({ ...config, useQueueUrlAsEndpoint: false });
  return [
    ['dynamodb:Scan', () => db.send(new dynamodb.ScanCommand({ TableName: target.table }))],
    ['dynamodb:DeleteTable', () => db.send(new dynamodb.DeleteTableCommand({ TableName: target.table }))],
    ['dynamodb:UpdateTimeToLive', () => db.send(new dynamodb.UpdateTimeToLiveCommand({ TableName: target.table, TimeToLiveSpecification: { AttributeName: 'ttl', Enabled: false } }))],
    ['dynamodb:ListTables', () => db.send(new dynamodb.ListTablesCommand({}))],
    ['dynamodb:GetItem on another table', () => db.send(new dynamodb.GetItemCommand({ TableName: 'somebody-elses', Key: { id: { S: 'x' } } }))],
    ['lambda:UpdateFunctionCode', () => fn.send(new lambda.UpdateFunctionCodeCommand({ FunctionName: target.fn, ZipFile: new Uint8Array([0]) }))],
    ['lambda:InvokeFunction on another function', () => fn.send(new lambda.InvokeCommand({ FunctionName: target.fn, InvocationType: 'DryRun' }))],
    ['lambda:UpdateAlias', () => fn.send(new lambda.UpdateAliasCommand({ FunctionName: target.fn, Name: 'live', FunctionVersion: '1' }))],
    ['ssm:PutParameter', () => parameters.send(new ssm.PutParameterCommand({ Name: '/ichido/local/new', Value: 'x', Type: 'String' }))],
    ['ssm:GetParameters of another secret', () => parameters.send(new ssm.GetParametersCommand({ Names: ['/ichido/local/another/secret'] }))],
    ['sns:Publish', () => new sns.SNSClient(config).send(new sns.PublishCommand({ TopicArn: target.topic, Message: 'x' }))],
    ['sqs:ReceiveMessage', () => queue.send(new sqs.ReceiveMessageCommand({ QueueUrl: target.queueUrl }))],
    ['scheduler:ListSchedules', () => new scheduler.SchedulerClient(config).send(new scheduler.ListSchedulesCommand({}))],
    ['iam:ListRoles', () => new iam.IAMClient(config).send(new iam.ListRolesCommand({}))],
  ];
}
