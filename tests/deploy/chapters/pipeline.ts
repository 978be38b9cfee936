// What the pipeline's role may do, tried with its own credentials where IAM is enforced; and secrets that are kept in Secrets Manager.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cloudwatch, dynamodb, iam, lambda, secretsmanager, ssm, sts } from '../../../infra/cli/aws.ts';
import { root } from '../../../infra/template.ts';
import { policy } from '../../../infra/test/deployer.ts';
import { credentialsOf, isAllowed } from '../roles.ts';
import { DEPLOY_MS, run, typed, world, ichidoctl } from '../world.ts';

test('the pipeline\'s role moves this environment\'s functions and sees that secrets are there, but reads none', { timeout: DEPLOY_MS }, async () => {
  const admin = new iam.IAMClient({});
  const { Account } = await new sts.STSClient({}).send(new sts.GetCallerIdentityCommand({}));
  const RoleName = 'ichido-deployer-local';
  const trust = { Version: '2012-10-17', Statement: [{ Effect: 'Allow', Principal: { AWS: `arn:aws:iam::${Account}:root` }, Action: 'sts:AssumeRole' }] };
  await admin.send(new iam.CreateRoleCommand({ RoleName, AssumeRolePolicyDocument: JSON.stringify(trust) }));
  await admin.send(new iam.PutRolePolicyCommand({ RoleName, PolicyName: 'deploy', PolicyDocument: JSON.stringify({ Version: '2012-10-17', Statement: policy('local', Account) }) }));
  try {
    const config = { credentials: await credentialsOf(RoleName), maxAttempts: 1 };
    const [fn, parameters, secrets] = [new lambda.LambdaClient(config), new ssm.SSMClient(config), new secretsmanager.SecretsManagerClient(config)];
    const FunctionName = 'slack-events-local';
    const Name = '/ichido/local/slack/bot-token';
    const assume = (role: string) => () => new sts.STSClient(config).send(new sts.AssumeRoleCommand({ RoleArn: `arn:aws:iam::${Account}:role/${role}`, RoleSessionName: 'trial' }));
    const needed: [string, () => Promise<unknown>][] = [
      // The local AWS takes every call on an existing alias for lambda:ListAliases, so GetAlias and UpdateAlias cannot be tried.
      ['lambda:GetFunctionConfiguration', () => fn.send(new lambda.GetFunctionConfigurationCommand({ FunctionName }))],
      ['lambda:InvokeFunction of what is live', () => fn.send(new lambda.InvokeCommand({ FunctionName, Qualifier: 'live', InvocationType: 'DryRun' }))],
      ['ssm:DescribeParameters', () => parameters.send(new ssm.DescribeParametersCommand({ ParameterFilters: [{ Key: 'Name', Option: 'Equals', Values: [Name] }] }))],
      ['secretsmanager:DescribeSecret', () => secrets.send(new secretsmanager.DescribeSecretCommand({ SecretId: 'ichido/local/nothing-abcdef' }))],
      ['cloudwatch:DescribeAlarms', () => new cloudwatch.CloudWatchClient(config).send(new cloudwatch.DescribeAlarmsCommand({}))],
      ['dynamodb:DescribeTable', () => new dynamodb.DynamoDBClient(config).send(new dynamodb.DescribeTableCommand({ TableName: 'slack-classify-bot-processed-events-local' }))],
      ['sts:AssumeRole of the CDK\'s role', assume(`cdk-hnb659fds-deploy-role-${Account}-ap-northeast-1`)],
    ];
    const forbidden: [string, () => Promise<unknown>][] = [
      ['ssm:GetParameter', () => parameters.send(new ssm.GetParameterCommand({ Name }))],
      ['ssm:GetParameters', () => parameters.send(new ssm.GetParametersCommand({ Names: [Name], WithDecryption: true }))],
      ['ssm:GetParametersByPath', () => parameters.send(new ssm.GetParametersByPathCommand({ Path: '/ichido/local' }))],
      ['ssm:GetParameterHistory', () => parameters.send(new ssm.GetParameterHistoryCommand({ Name }))],
      ['ssm:PutParameter', () => parameters.send(new ssm.PutParameterCommand({ Name, Value: 'x', Overwrite: true }))],
      ['secretsmanager:GetSecretValue', () => secrets.send(new secretsmanager.GetSecretValueCommand({ SecretId: 'ichido/local/nothing-abcdef' }))],
      ['secretsmanager:DescribeSecret of another environment', () => secrets.send(new secretsmanager.DescribeSecretCommand({ SecretId: 'ichido/prod/nothing-abcdef' }))],
      ['lambda:PublishVersion of another environment', () => fn.send(new lambda.PublishVersionCommand({ FunctionName: 'slack-events' }))],
      ['lambda:CreateAlias of another environment', () => fn.send(new lambda.CreateAliasCommand({ FunctionName: 'slack-events', Name: 'other', FunctionVersion: '1' }))],
      ['lambda:InvokeFunction of another environment', () => fn.send(new lambda.InvokeCommand({ FunctionName: 'slack-events-staging', Qualifier: 'live', InvocationType: 'DryRun' }))],
      ['lambda:UpdateFunctionCode', () => fn.send(new lambda.UpdateFunctionCodeCommand({ FunctionName, ZipFile: new Uint8Array([0]) }))],
      ['dynamodb:GetItem', () => new dynamodb.DynamoDBClient(config).send(new dynamodb.GetItemCommand({ TableName: 'slack-classify-bot-processed-events-local', Key: { event_key: { S: 'x' } } }))],
      ['sts:AssumeRole of a role of somebody else', assume('OrganizationAccountAccessRole')],
      ['iam:PutRolePolicy', () => new iam.IAMClient(config).send(new iam.PutRolePolicyCommand({ RoleName, PolicyName: 'more', PolicyDocument: '{}' }))],
    ];
    const denied: string[] = [];
    for (const [what, call] of needed) if (!(await isAllowed(call))) denied.push(what);
    assert.deepEqual(denied, [], 'it needs them');
    const allowed: string[] = [];
    for (const [what, call] of forbidden) if (await isAllowed(call)) allowed.push(what);
    assert.deepEqual(allowed, [], 'it does not need them');
  } finally {
    await admin.send(new iam.DeleteRolePolicyCommand({ RoleName, PolicyName: 'deploy' }));
    await admin.send(new iam.DeleteRoleCommand({ RoleName }));
  }
});

test('a secret that an environment keeps in Secrets Manager is looked for there', { timeout: DEPLOY_MS }, async () => {
  const SecretId = 'ichido/local/slack-bot';
  const name = `/aws/reference/secretsmanager/${SecretId}`;
  const env = { LOCAL_PARAMETERS: JSON.stringify({ ...JSON.parse(world.env().LOCAL_PARAMETERS!), SlackBotTokenParameter: name }) };
  /** What `make secrets` and the doctor say about it. */
  const said = async () => {
    const secrets = (await typed('', 'secrets', env)).text;
    const doctor = JSON.parse((await run(ichidoctl, ['doctor', '--env', 'local', '--json'], env)).text) as { kind: string; name: string; ok: boolean; notes?: string[] }[];
    const finding = doctor.find((f) => f.kind === 'secret' && f.name === name)!;
    return { listed: new RegExp(`^(missing|set) +${name} `, 'm').exec(secrets)?.[1], ok: finding.ok, note: finding.notes?.[0] };
  };
  assert.deepEqual(await said(), { listed: 'missing', ok: false, note: 'Secrets Manager has no secret of this name; create it there' });
  const client = new secretsmanager.SecretsManagerClient({});
  await client.send(new secretsmanager.CreateSecretCommand({ Name: SecretId, SecretString: 'x' }));
  assert.deepEqual(await said(), { listed: 'set', ok: true, note: undefined });
  await client.send(new secretsmanager.DeleteSecretCommand({ SecretId, RecoveryWindowInDays: 7 }));
  const leaving = await said();
  await client.send(new secretsmanager.DeleteSecretCommand({ SecretId, ForceDeleteWithoutRecovery: true }));
  assert.deepEqual([leaving.listed, leaving.ok], ['missing', false]);
  assert.match(leaving.note!, /scheduled for deletion/);
});
