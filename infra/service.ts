// What the templates leave to the CDK: assets, tags, removal policies, and the two stacks of an environment.
//
//   ichido-data-ENV   tables and queues: what holds data
//   ichido-ENV        everything else, which can be destroyed and deployed again without losing anything
import fs from 'node:fs';
import path from 'node:path';
import * as cdk from 'aws-cdk-lib';
import * as apigatewayv2 from 'aws-cdk-lib/aws-apigatewayv2';
import * as dynamodb from 'aws-cdk-lib/aws-dynamodb';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import { Asset } from 'aws-cdk-lib/aws-s3-assets';
import { type Construct, type IConstruct } from 'constructs';
import { edgeParameters } from './edge.ts';
import { type Environment } from './environments.ts';
import { listedSecrets, listParameters, schedules } from './feeds.ts';
import { generated, type Part } from './generated/index.ts';
import { sameContentParameters } from './same-content.ts';
import { functionsOf, infra, isProdName, namesSecret, readTemplate, root, SECRETS_MANAGER, type Template } from './template.ts';

const MOST_RESOURCES = 500;
/** CloudFormation takes templates of a million bytes. The rest of the template takes less than half of that; a test compares. */
const MOST_SCHEDULE_BYTES = 500_000;

export interface Options {
  /** A directory with NAME/bootstrap for each function; `undefined` for a placeholder, which cannot be deployed. */
  binaries?: string;
  architecture: 'arm64' | 'x86_64';
  /** Names of the stacks that are protected against deletion now. The CDK would take the protection of any other away. */
  protected?: string[];
  /** Is added to the description of every function: another description is another version. */
  note?: string;
  /** Lets this stack fail once everything else in it is deployed: to see that a failed deployment does no harm. */
  fail?: 'data' | 'service';
}

export function addStacks(app: cdk.App, environment: Environment, options: Options) {
  app.node.setContext('@aws-cdk/core:defaultCrossStackReferences', 'strong'); // a table in use cannot be deleted
  // A new stack is not protected: CloudFormation could not remove what is left of a failed first deployment. `deploy` protects it after its first success.
  const stack = (name: string, description: string) => new cdk.Stack(app, name, {
    description,
    env: { account: environment.account, region: environment.region },
    terminationProtection: options.protected?.includes(name) ?? false,
  });
  const data = stack(`ichido-data-${environment.name}`, 'ichido: what holds data');
  const service = stack(`ichido-${environment.name}`, 'ichido: what runs');
  service.addStackDependency(data);

  // Outputs of shared.yaml that other templates use. The dashboard, in shared.yaml, shows the API of mesh.yaml, which is made later.
  let mesh: unknown;
  const shared: Record<string, unknown> = { MeshApiId: cdk.Lazy.string({ produce: () => String(mesh) }), FurtherFeedsAlarm: alarmOfFurtherFeeds(environment) };
  for (const part of generated) {
    const template = readTemplate(part.name);
    const values = parameters(template, environment, options, shared);
    const links: Record<string, unknown> = {};
    if (part.data) {
      const construct = add(data, part.name, part.data, template, values, environment);
      for (const link of part.links) links[link] = output(construct, part.data, link);
    }
    if (part.service) {
      const functions = addFunctions(service, template, options);
      const construct = add(service, part.name, part.service, template, { ...values, ...links, ...functions.values }, environment);
      functions.connect(construct, environment);
      if (part.name === 'shared') {
        for (const name of Object.keys(part.service.outputs)) shared[name] = output(construct, part.service, name);
      }
      if (part.name === 'feeds') addSchedules(service, environment, links.FeedsSubscriberFailuresArn);
      if (part.name === 'mesh') mesh = output(construct, part.service, 'MeshApiId');
    }
  }

  stageAfterRoutes(service);
  refuseTooMany(service, environment);
  if (options.note) describe(service, options.note);
  if (options.fail !== undefined) failAtTheEnd({ data, service }[options.fail]);

  if (environment.permissionsBoundary !== undefined) {
    iam.PermissionsBoundary.of(app).apply(iam.ManagedPolicy.fromManagedPolicyName(service, 'PermissionsBoundary', environment.permissionsBoundary));
  }
  cdk.Tags.of(app).add('Project', 'ichido');
  cdk.Tags.of(app).add('Environment', environment.name);
  return { data, service };
}

/** The end of the dashboard's list of alarms: one that is not always there. */
function alarmOfFurtherFeeds(environment: Environment): string {
  const { PARTITION, REGION, ACCOUNT_ID } = cdk.Aws;
  return listParameters(environment).FurtherFeeds === 'on' ? `, "arn:${PARTITION}:cloudwatch:${REGION}:${ACCOUNT_ID}:alarm:further-feeds-errors${environment.suffix}"` : '';
}

/** One schedule per further feed. It refers to the resources of feeds.yaml by their logical ids; the queue is in the other stack. */
function addSchedules(stack: cdk.Stack, environment: Environment, deadLetters: unknown) {
  for (const [id, { Type, Properties }] of Object.entries(schedules(environment, deadLetters))) {
    new cdk.CfnResource(stack, id, { type: Type, properties: Properties }).overrideLogicalId(id);
  }
}

/** CloudFormation would refuse the template, after everything was built and uploaded. */
function refuseTooMany(stack: cdk.Stack, environment: Environment) {
  const resources = stack.node.findAll().filter((c) => cdk.CfnResource.isCfnResource(c)).length;
  const feeds = Object.keys(schedules(environment)).length;
  if (resources > MOST_RESOURCES) {
    throw new Error(`${environment.name} lists ${feeds} further feeds, and there is room for ${MOST_RESOURCES - (resources - feeds)}: CloudFormation takes ${MOST_RESOURCES} resources per stack`);
  }
  const bytes = JSON.stringify(schedules(environment), null, 1).length;
  if (bytes > MOST_SCHEDULE_BYTES) {
    throw new Error(`the definitions of the ${feeds} further feeds of ${environment.name} take ${bytes} bytes of the template, and there is room for ${MOST_SCHEDULE_BYTES}: shorten the longest filters and texts`);
  }
}

/** A stage's settings name routes, which must exist before the stage; they are in other templates. */
function stageAfterRoutes(stack: cdk.Stack) {
  const all = stack.node.findAll();
  for (const stage of all.filter((c) => c instanceof apigatewayv2.CfnStage)) {
    for (const route of all.filter((c) => c instanceof apigatewayv2.CfnRoute)) stage.addResourceDependency(route);
  }
}

function describe(stack: cdk.Stack, note: string) {
  for (const fn of stack.node.findAll()) {
    if (fn instanceof lambda.CfnFunction) fn.description = `${fn.description} (${note})`;
  }
}

/** Waits for a signal that nobody sends. */
function failAtTheEnd(stack: cdk.Stack) {
  const others = stack.node.findAll().filter((c) => cdk.CfnResource.isCfnResource(c));
  const handle = new cdk.CfnWaitConditionHandle(stack, 'RehearsedFailureHandle');
  const failure = new cdk.CfnWaitCondition(stack, 'RehearsedFailure', { handle: handle.ref, timeout: '1' });
  for (const other of others) failure.addResourceDependency(other);
}

/** The value of each parameter of a template; those that are not here keep the template's default. */
export function parameters(
  template: Template,
  environment: Environment,
  options: Options,
  shared: Record<string, unknown>,
): Record<string, unknown> {
  const known: Record<string, unknown> = {
    Environment: environment.name,
    Suffix: environment.suffix,
    Architecture: options.architecture,
    LogLevel: environment.logLevel,
    LogRetentionDays: environment.logRetentionDays,
    TracingMode: environment.tracing,
    AlarmSubscription: environment.alarms ? 'on' : 'off',
    AlarmProtocol: environment.alarms?.protocol,
    AlarmEndpoint: environment.alarms?.endpoint,
    SlackRequestsPerSecond: environment.throttling.slack.requestsPerSecond,
    SlackRequestBurst: environment.throttling.slack.burst,
    TransferRequestsPerSecond: environment.throttling.transfers.requestsPerSecond,
    TransferRequestBurst: environment.throttling.transfers.burst,
    ReadRequestsPerSecond: environment.throttling.reads.requestsPerSecond,
    ReadRequestBurst: environment.throttling.reads.burst,
    OtherRequestsPerSecond: environment.throttling.others.requestsPerSecond,
    OtherRequestBurst: environment.throttling.others.burst,
    Budgets: environment.budgets ? 'on' : 'off',
    BudgetUsd: environment.budgets?.environment,
    FeedsBudgetUsd: environment.budgets?.feeds,
    ...edgeParameters(environment),
    ...sameContentParameters(environment),
    ...listParameters(environment),
    MeshSampling: environment.tracing === 'Active' && environment.name !== 'local' ? 'on' : 'off',
    ...shared,
  };
  const values: Record<string, unknown> = {};
  for (const [name, { Default }] of Object.entries(template.Parameters ?? {})) {
    if (name in environment.parameters) values[name] = environment.parameters[name];
    else if (known[name] !== undefined) values[name] = known[name];
    else if (environment.parameters[template.Metadata?.Optional?.[name] ?? ''] === '') values[name] = '';
    else if (namesSecret(name)) values[name] = String(Default).replace('/ichido/local/', `/ichido/${environment.name}/`);
    else if (isProdName(name)) values[name] = `${Default}${environment.suffix}`;
    else if (name.endsWith('File')) values[name] = fs.readFileSync(path.join(infra, 'appsync', String(Default)), 'utf8');
  }
  return values;
}

function add(
  stack: cdk.Stack,
  name: string,
  part: Part,
  template: Template,
  values: Record<string, unknown>,
  environment: Environment,
): Construct {
  const props: Record<string, unknown> = {};
  for (const [parameter, property] of Object.entries(part.properties)) {
    if (values[parameter] !== undefined) props[property] = values[parameter];
  }
  const construct = part.create(stack, name, props);

  for (const child of construct.node.children) {
    if (!cdk.CfnResource.isCfnResource(child)) continue;
    // The logical id is the template's, whatever the construct is called: renaming one replaces nothing.
    child.overrideLogicalId(child.node.id);
    removal(child, environment);
    const accepted = { ...acceptedEverywhere(child, environment), ...template.Metadata?.Accepted?.[child.node.id] };
    for (const [rule, reason] of Object.entries(accepted)) {
      cdk.Validations.of(child).acknowledge({ id: `AwsSolutions::${located(rule, environment)}`, reason });
    }
  }
  // A link between the two stacks is exported by the CDK itself.
  for (const name of Object.keys(part.outputs)) {
    if (template.Outputs?.[name] === undefined) construct.node.tryRemoveChild(`CfnOutput${name}`);
  }
  if (environment.name === 'local') withoutUnknownOutputs(construct);
  // The budget of the feeds is one dollar and reports 80 % of it. Their alarms cost nearly that, always: without them the budget reports what has changed.
  if (template.Metadata?.Application) cdk.Tags.of(construct).add('Application', template.Metadata.Application, { excludeResourceTypes: ['AWS::CloudWatch::Alarm'] });
  return construct;
}

/** Outputs that the local AWS cannot resolve, though CloudFormation can: they would fail the whole deployment there. */
function withoutUnknownOutputs(construct: Construct) {
  const unknown = /"(RealtimeUrl|RealtimeDns)"/;
  for (const child of construct.node.children) {
    if (child instanceof cdk.CfnOutput && unknown.test(JSON.stringify(cdk.Stack.of(construct).resolve(child.value)))) construct.node.tryRemoveChild(child.node.id);
  }
}

/** A finding of cdk-nag as it reads in an environment: cdk-nag writes `<AWS::Region>` and `<AWS::AccountId>` only where the CDK does not know them. */
function located(rule: string, { region, account }: Environment): string {
  return rule.replaceAll('<AWS::Region>', region).replaceAll('<AWS::AccountId>', account ?? '<AWS::AccountId>');
}

/** Findings of cdk-nag that every template has for the same reason; the others are in the template's Metadata.Accepted. */
function acceptedEverywhere(resource: cdk.CfnResource, environment: Environment): Record<string, string> {
  switch (resource.cfnResourceType) {
    case 'AWS::DynamoDB::Table':
      return environment.name === 'prod' ? {} : { 'AwsSolutions-DDB3': 'Point-in-time recovery is for prod; nothing elsewhere is worth restoring' };
    case 'AWS::SQS::Queue':
      return resource.node.id.endsWith('Failures')
        ? { 'AwsSolutions-SQS3': 'It is itself where failed invocations end' }
        : {};
    case 'AWS::IAM::Role':
      return onlyTracesAreUnbounded(resource) ? { 'AwsSolutions-IAM5[Resource::*]': 'X-Ray has no resources to name' } : {};
    default:
      return {};
  }
}

function onlyTracesAreUnbounded(role: cdk.CfnResource): boolean {
  const { policies } = role as unknown as { policies?: { policyDocument: { Statement: { Sid?: string; Action: string[]; Resource: unknown }[] } }[] };
  const unbounded = (policies ?? []).flatMap((p) => p.policyDocument.Statement).filter((s) => s.Resource === '*');
  return unbounded.length > 0 && unbounded.every((s) => [s.Action].flat().every((a) => a.startsWith('xray:Put')));
}

/**
 * What happens to what holds data. What survives deletion also survives replacement; cdk-from-cfn drops `UpdateReplacePolicy`, so it is set here. It is deleted if the
 * deployment that created it fails, so that the next one can create it again. A table's own protection would prevent that: `deploy` sets it afterwards.
 */
function removal(resource: cdk.CfnResource, environment: Environment) {
  if (resource instanceof dynamodb.CfnTable) resource.deletionProtectionEnabled = undefined;
  const versioned = resource instanceof lambda.CfnVersion; // versions are kept everywhere, so that a rollout can go back
  const options = resource.cfnOptions;
  if (options.deletionPolicy !== cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE) return;
  const retained = environment.removal === 'retain' || versioned;
  if (!retained) options.deletionPolicy = cdk.CfnDeletionPolicy.DELETE;
  options.updateReplacePolicy = retained ? cdk.CfnDeletionPolicy.RETAIN : cdk.CfnDeletionPolicy.DELETE;
}

function output(construct: IConstruct, part: Part, name: string): unknown {
  return (construct as unknown as Record<string, unknown>)[part.outputs[name]!];
}

/** The code of a template's functions, and what an environment changes in them. */
function addFunctions(stack: cdk.Stack, template: Template, options: Options) {
  const values: Record<string, unknown> = {};
  const functions = functionsOf(template);
  for (const { prefix, name } of functions) {
    const asset = new Asset(stack, `${prefix}Code`, { path: binaryDirectory(name, options) });
    values.CodeBucket = asset.s3BucketName;
    values[`${prefix}CodeKey`] = asset.s3ObjectKey;
  }
  const connect = (construct: Construct, environment: Environment) => {
    for (const { id, prefix, name } of functions) {
      const fn = construct.node.findChild(id) as lambda.CfnFunction;
      fn.reservedConcurrentExecutions = environment.reservedConcurrency[name];
      allowSecrets(environment, name, fn, construct.node.findChild(`${prefix}Role`) as iam.CfnRole);
    }
  };
  return { values, connect };
}

/** What the templates cannot know: which secrets are in Secrets Manager, and which key they are encrypted with. */
function allowSecrets(environment: Environment, name: string, fn: lambda.CfnFunction, role: iam.CfnRole) {
  const variables = (fn.environment as lambda.CfnFunction.EnvironmentProperty | undefined)?.variables as Record<string, string> | undefined;
  const listed = listedSecrets(environment, name);
  const names = [...Object.entries(variables ?? {}).filter(([name, secret]) => name.endsWith('_PARAMETER') && secret !== '').map(([, secret]) => secret), ...listed];
  const managed = names.filter((name) => name.startsWith(SECRETS_MANAGER));
  const { partition, region, account } = cdk.Stack.of(fn);
  const statements: any[] = (role.policies as iam.CfnRole.PolicyProperty[])[0]!.policyDocument.Statement;
  const allow = (statement: object) => statements.push({ Effect: 'Allow', ...statement });
  // A secret that the environment does without (Metadata.Optional) has no name, so its ARN ends too soon.
  for (const statement of statements.filter((s) => Array.isArray(s.Resource))) statement.Resource = statement.Resource.filter((arn: string) => !arn.endsWith(':parameter'));
  statements.splice(0, statements.length, ...statements.filter((s) => s.Resource.length > 0));
  if (listed.length > 0) allow({ Sid: 'ListedSecrets', Action: 'ssm:GetParameters', Resource: listed.map((name) => `arn:${partition}:ssm:${region}:${account}:parameter${name}`) });
  // A secret in Secrets Manager is read through SSM, which needs the permissions of both.
  if (managed.length > 0) {
    allow({
      Sid: 'SecretsManager',
      Action: 'secretsmanager:GetSecretValue',
      // Secrets Manager ends a secret's ARN with six characters of its own.
      Resource: managed.map((name) => `arn:${partition}:secretsmanager:${region}:${account}:secret:${name.slice(SECRETS_MANAGER.length)}-??????`),
    });
  }
  if (names.length > 0 && environment.secretsKey !== undefined) {
    const services = [...(managed.length < names.length ? ['ssm'] : []), ...(managed.length > 0 ? ['secretsmanager'] : [])];
    allow({
      Sid: 'SecretsKey',
      Action: 'kms:Decrypt',
      Resource: environment.secretsKey,
      Condition: { StringEquals: { 'kms:ViaService': services.map((service) => `${service}.${environment.region}.amazonaws.com`) } },
    });
  }
}

function binaryDirectory(binary: string, options: Options): string {
  if (options.binaries === undefined) {
    const placeholder = path.join(root, 'target', 'cdk-placeholder', binary);
    fs.mkdirSync(placeholder, { recursive: true });
    fs.writeFileSync(path.join(placeholder, 'bootstrap'), `#!/bin/sh\n# ${binary} was not built\nexit 1\n`, { mode: 0o755 });
    return placeholder;
  }
  const directory = path.resolve(root, options.binaries, binary);
  if (!fs.existsSync(path.join(directory, 'bootstrap'))) {
    throw new Error(`${path.relative(root, directory)}/bootstrap is missing: run make build`);
  }
  return directory;
}
