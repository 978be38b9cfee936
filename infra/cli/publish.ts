// The end of a successful deployment: a version of every function, which the alias `deployed` names.
//
// CloudFormation knows nothing of this alias, so neither a deployment nor its rollback moves it. A rollout moves `live` to what it names
// (crates/ops/src/rollout), and Lambda refuses to delete that version.
import fs from 'node:fs';
import path from 'node:path';
import { DescribeStacksCommand, CloudFormationClient } from '@aws-sdk/client-cloudformation';
import { CreateAliasCommand, GetFunctionConfigurationCommand, LambdaClient, PublishVersionCommand, UpdateAliasCommand, waitUntilFunctionUpdated, type AliasConfiguration } from '@aws-sdk/client-lambda';
import type { Environment } from '../environments.ts';
import { oneLine } from '../terminal.ts';
import { alias, assemblyDirectory, DEPLOYED, described, Refusal } from './world.ts';

/** How long Lambda may take to finish an update of a function. */
const UPDATE_SECONDS = 300;

/** Where CloudFormation takes the code of a function from. */
export interface Code {
  S3Bucket: string;
  S3Key: string;
}

/**
 * Publishes what CloudFormation has deployed and names it `deployed`. Without a change Lambda returns the version before. If another
 * deployment begins meanwhile, the functions may be what that one will roll back: then nothing is named. Code that somebody put into a
 * function by hand is refused: CloudFormation leaves it there, because its template did not change.
 */
export async function publish(env: Environment, codes: Map<string, Code> = synthesizedCodes(env)) {
  const lambda = new LambdaClient({});
  const names = described(env).functions.map((f) => f.deployed);
  const before = await Promise.all(names.map((name) => alias(lambda, name, DEPLOYED)));
  const deployment = await lastDeployment(env);
  const versions = await Promise.all(names.map((name, i) => publishVersion(lambda, name, codes.get(name), before[i])));
  if (await lastDeployment(env) !== deployment) throw new Refusal(inTheWay(env));
  await Promise.all(names.map((name, i) => record(env, lambda, name, versions[i]!, description(codes.get(name)), before[i])));
}

/** When CloudFormation last changed the functions. */
async function lastDeployment(env: Environment): Promise<number | undefined> {
  const { Stacks } = await new CloudFormationClient({}).send(new DescribeStacksCommand({ StackName: `ichido-${env.name}` }));
  const stack = Stacks?.[0];
  if (stack?.StackStatus?.endsWith('_FAILED')) throw new Refusal(`The stack ichido-${env.name} is in the state ${stack.StackStatus}. Continue its rollback first (aws cloudformation continue-update-rollback).`);
  if (!stack?.StackStatus?.endsWith('_COMPLETE')) throw new Refusal(inTheWay(env));
  return (stack.LastUpdatedTime ?? stack.CreationTime)?.getTime();
}

const inTheWay = (env: Environment) => `Another deployment of ${env.name} is in progress, so nothing new can be rolled out yet. Wait for it, then run make deploy ENV=${env.name} again.`;

/** The version of what the function is now; a change between the reading and the publishing is refused. */
async function publishVersion(lambda: LambdaClient, FunctionName: string, code: Code | undefined, before: AliasConfiguration | undefined): Promise<string> {
  await waitUntilFunctionUpdated({ client: lambda, maxWaitTime: UPDATE_SECONDS }, { FunctionName }).catch((error: Error) => {
    throw new Refusal(`Lambda did not finish the update of ${FunctionName}, so nothing new can be rolled out: ${oneLine(error.message)}`);
  });
  const { RevisionId, CodeSha256 } = await lambda.send(new GetFunctionConfigurationCommand({ FunctionName }));
  if (code !== undefined && before?.Description === description(code)) {
    const last = await lambda.send(new GetFunctionConfigurationCommand({ FunctionName, Qualifier: before.FunctionVersion }));
    if (last.CodeSha256 !== CodeSha256) throw new Refusal(changedByHand(FunctionName, code));
  }
  try {
    const { Version } = await lambda.send(new PublishVersionCommand({ FunctionName, RevisionId, CodeSha256 }));
    if (Version === undefined) throw new Refusal(`Lambda published ${FunctionName} and did not say as which version. Run make deploy again.`);
    return Version;
  } catch (error) {
    if ((error as Error).name === 'PreconditionFailedException') throw new Refusal(`Somebody changed ${FunctionName} during this deployment. Nothing new can be rolled out. Run make deploy again.`);
    throw error;
  }
}

const changedByHand = (name: string, { S3Bucket, S3Key }: Code) => `The code of ${name} is not what the last deployment put there: somebody changed it by hand, and this deployment did not change it back. Nothing new can be rolled out.
Put the deployed code back, then deploy again:
  aws lambda update-function-code --function-name ${name} --s3-bucket ${S3Bucket} --s3-key ${S3Key}`;

/** What the alias `deployed` says about itself: which code it is. */
const description = (code: Code | undefined) => `code ${code?.S3Key ?? 'unknown'}; what the last deployment published, a rollout moves live to it`;

/** The code of each function in the template that was just deployed. */
function synthesizedCodes(env: Environment): Map<string, Code> {
  const template = JSON.parse(fs.readFileSync(path.join(assemblyDirectory(), `ichido-${env.name}.template.json`), 'utf8'));
  const functions = Object.values<any>(template.Resources).filter(({ Type }) => Type === 'AWS::Lambda::Function');
  return new Map(functions.map(({ Properties: { FunctionName, Code } }) => [FunctionName, { S3Bucket: bucket(Code.S3Bucket), S3Key: Code.S3Key }]));
}

/** The bucket's name; the CDK leaves the account to CloudFormation where the environment does not name it. */
const bucket = (name: string | { 'Fn::Sub': string }) => typeof name === 'string' ? name : name['Fn::Sub'].replaceAll('${AWS::AccountId}', 'ACCOUNT').replaceAll('${AWS::Region}', 'REGION');

/** Names a version `deployed`, unless another deployment did so since `before` was read. */
async function record(env: Environment, lambda: LambdaClient, FunctionName: string, FunctionVersion: string, Description: string, before: AliasConfiguration | undefined) {
  if (before?.FunctionVersion === FunctionVersion && before.Description === Description) return;
  const wanted = { FunctionName, Name: DEPLOYED, FunctionVersion, Description };
  try {
    await (before === undefined ? lambda.send(new CreateAliasCommand(wanted)) : lambda.send(new UpdateAliasCommand({ ...wanted, RevisionId: before.RevisionId })));
  } catch (error) {
    if (['PreconditionFailedException', 'ResourceConflictException'].includes((error as Error).name)) throw new Refusal(inTheWay(env));
    throw error;
  }
}
