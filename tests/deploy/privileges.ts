// What a function's role may and may not do, tried with the role's own credentials.
//
// They are got as a function gets them: a probe, deployed with the role, returns the credentials that it was given.
import zlib from 'node:zlib';
import { dynamodb, iam, lambda, scheduler, sns, sqs, ssm } from '../../infra/cli/aws.ts';

export interface Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken: string;
}

const PROBE = `#!/usr/bin/env node
const api = 'http://' + process.env.AWS_LAMBDA_RUNTIME_API + '/2018-06-01/runtime/invocation/';
(async () => {
  for (;;) {
    const next = await fetch(api + 'next');
    const id = next.headers.get('lambda-runtime-aws-request-id');
    const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey, AWS_SESSION_TOKEN: sessionToken } = process.env;
    await fetch(api + id + '/response', { method: 'POST', body: JSON.stringify({ accessKeyId, secretAccessKey, sessionToken }) });
  }
})();
`;

/** The credentials that a function with this role gets. */
export async function credentialsOf(role: string, name: string): Promise<Credentials> {
  const client = new lambda.LambdaClient({});
  const FunctionName = `probe-${name}`;
  await client.send(new lambda.CreateFunctionCommand({
    FunctionName, Role: role, Runtime: 'provided.al2023', Handler: 'bootstrap', Timeout: 30, Code: { ZipFile: zip('bootstrap', PROBE) },
  }));
  const answer = await client.send(new lambda.InvokeCommand({ FunctionName, Payload: '{}' }));
  await client.send(new lambda.DeleteFunctionCommand({ FunctionName }));
  const text = new TextDecoder().decode(answer.Payload);
  if (answer.FunctionError) throw new Error(`the probe failed: ${text}`);
  return JSON.parse(text) as Credentials;
}

/**
 * The local AWS does not look into the names of ssm:GetParameters and takes it for a call on everything, which our roles rightly do
 * not allow. So that functions can start there, they are allowed it there, after the roles were tried as they are.
 */
export async function forgiveGetParameters(role: string) {
  await new iam.IAMClient({}).send(new iam.PutRolePolicyCommand({
    RoleName: role.split('/').pop(),
    PolicyName: 'local-aws-only',
    PolicyDocument: JSON.stringify({ Version: '2012-10-17', Statement: [{ Effect: 'Allow', Action: 'ssm:GetParameters', Resource: '*' }] }),
  }));
}

/** Whether a call is allowed; any other error than a denial means that it was. */
export async function isAllowed(call: () => Promise<unknown>): Promise<boolean> {
  try {
    await call();
    return true;
  } catch (error) {
    const { name, message } = error as Error;
    if (/AccessDenied|UnauthorizedOperation|AuthorizationError|NotAuthorized/i.test(`${name} ${message}`)) return false;
    if (/NotFound|NoSuch|NonExistent|Validation|InvalidParameter|ResourceConflict/i.test(name)) return true;
    throw error;
  }
}

/** Things that no function of ours needs. */
export function forbidden(credentials: Credentials, target: { table: string; fn: string; topic: string; queueUrl: string }): [string, () => Promise<unknown>][] {
  const config = { credentials, maxAttempts: 1 };
  const db = new dynamodb.DynamoDBClient(config);
  const fn = new lambda.LambdaClient(config);
  const parameters = new ssm.SSMClient(config);
  const queue = new sqs.SQSClient({ ...config, useQueueUrlAsEndpoint: false });
  return [
    ['dynamodb:Scan', () => db.send(new dynamodb.ScanCommand({ TableName: target.table }))],
    ['dynamodb:DeleteTable', () => db.send(new dynamodb.DeleteTableCommand({ TableName: target.table }))],
    ['dynamodb:ListTables', () => db.send(new dynamodb.ListTablesCommand({}))],
    ['dynamodb:GetItem on another table', () => db.send(new dynamodb.GetItemCommand({ TableName: 'somebody-elses', Key: { id: { S: 'x' } } }))],
    ['lambda:UpdateFunctionCode', () => fn.send(new lambda.UpdateFunctionCodeCommand({ FunctionName: target.fn, ZipFile: zip('bootstrap', '') }))],
    ['lambda:InvokeFunction on itself', () => fn.send(new lambda.InvokeCommand({ FunctionName: target.fn, Payload: '{}' }))],
    ['lambda:UpdateAlias', () => fn.send(new lambda.UpdateAliasCommand({ FunctionName: target.fn, Name: 'live', FunctionVersion: '1' }))],
    ['ssm:PutParameter', () => parameters.send(new ssm.PutParameterCommand({ Name: '/ichido/local/new', Value: 'x', Type: 'String' }))],
    ['ssm:GetParameters of another secret', () => parameters.send(new ssm.GetParametersCommand({ Names: ['/ichido/local/another/secret'] }))],
    ['sns:Publish', () => new sns.SNSClient(config).send(new sns.PublishCommand({ TopicArn: target.topic, Message: 'x' }))],
    ['sqs:ReceiveMessage', () => queue.send(new sqs.ReceiveMessageCommand({ QueueUrl: target.queueUrl }))],
    ['scheduler:ListSchedules', () => new scheduler.SchedulerClient(config).send(new scheduler.ListSchedulesCommand({}))],
  ];
}

/** A zip with one executable file: just enough of the format. */
export function zip(name: string, text: string): Uint8Array {
  const data = Buffer.from(text);
  const file = Buffer.from(name);
  const crc = zlib.crc32 ? zlib.crc32(data) : crc32(data);
  const local = Buffer.alloc(30);
  local.writeUInt32LE(0x04034b50, 0);
  local.writeUInt16LE(20, 4);
  local.writeUInt32LE(crc, 14);
  local.writeUInt32LE(data.length, 18);
  local.writeUInt32LE(data.length, 22);
  local.writeUInt16LE(file.length, 26);
  const central = Buffer.alloc(46);
  central.writeUInt32LE(0x02014b50, 0);
  central.writeUInt16LE(0x0314, 4); // made by: Unix, for the mode below
  central.writeUInt16LE(20, 6);
  central.writeUInt32LE(crc, 16);
  central.writeUInt32LE(data.length, 20);
  central.writeUInt32LE(data.length, 24);
  central.writeUInt16LE(file.length, 28);
  central.writeUInt32LE((0o100755 << 16) >>> 0, 38);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(1, 8);
  end.writeUInt16LE(1, 10);
  end.writeUInt32LE(central.length + file.length, 12);
  end.writeUInt32LE(local.length + file.length + data.length, 16);
  return Buffer.concat([local, file, data, central, file, end]);
}

function crc32(data: Uint8Array): number {
  let crc = ~0;
  for (const byte of data) {
    crc ^= byte;
    for (let k = 0; k < 8; k++) crc = (crc >>> 1) ^ (0xedb88320 & -(crc & 1));
  }
  return ~crc >>> 0;
}
