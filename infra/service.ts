// What the templates leave to the CDK: assets, versions, tags, removal policies, and the two stacks of an environment.
//
//   ichido-data-ENV   tables and queues: what holds data
//   ichido-ENV        everything else, which can be destroyed and deployed again without losing anything
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import * as cdk from 'aws-cdk-lib';
import * as apigatewayv2 from 'aws-cdk-lib/aws-apigatewayv2';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import { Asset } from 'aws-cdk-lib/aws-s3-assets';
import { type Construct, type IConstruct } from 'constructs';
import { type Environment } from './environments.ts';
import { generated, type Part } from './generated/index.ts';
import { functionsOf, infra, isProdName, namesSecret, readTemplate, root, SECRETS_MANAGER, type Template } from './template.ts';

export interface Options {
  /** A directory with NAME/bootstrap for each function; `undefined` for a placeholder, which cannot be deployed. */
  binaries?: string;
  architecture: 'arm64' | 'x86_64';
}

export function addStacks(app: cdk.App, environment: Environment, options: Options) {
  app.node.setContext('@aws-cdk/core:defaultCrossStackReferences', 'strong'); // a table in use cannot be deleted
  const common = {
    env: { account: environment.account, region: environment.region },
    terminationProtection: environment.removal === 'retain',
  };
  const data = new cdk.Stack(app, `ichido-data-${environment.name}`, { ...common, description: 'ichido: what holds data' });
  const service = new cdk.Stack(app, `ichido-${environment.name}`, { ...common, description: 'ichido: what runs' });
  service.addStackDependency(data);

  const shared: Record<string, unknown> = {}; // outputs of shared.yaml that other templates use
  for (const part of generated) {
    const template = readTemplate(part.name);
    const values = parameters(template, environment, options, shared);
    const links: Record<string, unknown> = {};
    if (part.data) {
      const construct = add(data, part.name, part.data, template, values, environment);
      for (const link of part.links) links[link] = output(construct, part.data, link);
    }
    if (part.service) {
      const functions = addFunctions(service, part.name, template, options);
      const construct = add(service, part.name, part.service, template, { ...values, ...links, ...functions.values }, environment);
      functions.connect(construct, environment);
      if (part.name === 'shared') {
        for (const name of Object.keys(part.service.outputs)) shared[name] = output(construct, part.service, name);
      }
    }
  }

  stageAfterRoutes(service);

  cdk.Tags.of(app).add('Project', 'ichido');
  cdk.Tags.of(app).add('Environment', environment.name);
  return { data, service };
}

/** A stage's settings name routes, which must exist before the stage; they are in other templates. */
function stageAfterRoutes(stack: cdk.Stack) {
  const all = stack.node.findAll();
  for (const stage of all.filter((c) => c instanceof apigatewayv2.CfnStage)) {
    for (const route of all.filter((c) => c instanceof apigatewayv2.CfnRoute)) stage.addResourceDependency(route);
  }
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
    ...shared,
  };
  const values: Record<string, unknown> = {};
  for (const [name, { Default }] of Object.entries(template.Parameters ?? {})) {
    if (name in environment.parameters) values[name] = environment.parameters[name];
    else if (known[name] !== undefined) values[name] = known[name];
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
      cdk.Validations.of(child).acknowledge({ id: `AwsSolutions::${rule}`, reason });
    }
  }
  // A link between the two stacks is exported by the CDK itself.
  for (const name of Object.keys(part.outputs)) {
    if (template.Outputs?.[name] === undefined) construct.node.tryRemoveChild(`CfnOutput${name}`);
  }
  if (environment.name === 'local') withoutUnknownOutputs(construct);
  // The feeds may cost one dollar per month, and ten alarms alone cost one: alarms are not counted as a cost of their application.
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

/** Findings of cdk-nag that every template has for the same reason; the others are in the template's Metadata.Accepted. */
export function acceptedEverywhere(resource: cdk.CfnResource, environment: Environment): Record<string, string> {
  switch (resource.cfnResourceType) {
    case 'AWS::DynamoDB::Table':
      return environment.name === 'prod' ? {} : { 'AwsSolutions-DDB3': 'Point-in-time recovery is for prod; nothing elsewhere is worth restoring' };
    case 'AWS::SQS::Queue':
      return resource.node.id.endsWith('Failures')
        ? { 'AwsSolutions-SQS3': 'It is itself where failed invocations end; an alarm watches it' }
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

/** cdk-from-cfn keeps DeletionPolicy and drops UpdateReplacePolicy: what is retained is retained on replacement too. */
function removal(resource: cdk.CfnResource, environment: Environment) {
  const versioned = resource instanceof lambda.CfnVersion; // old versions are kept everywhere, so that a rollout can go back
  const policy = resource.cfnOptions.deletionPolicy;
  if (policy === cdk.CfnDeletionPolicy.RETAIN && environment.removal === 'destroy' && !versioned) {
    resource.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.DELETE;
  }
  resource.cfnOptions.updateReplacePolicy = resource.cfnOptions.deletionPolicy;
}

function output(construct: IConstruct, part: Part, name: string): unknown {
  return (construct as unknown as Record<string, unknown>)[part.outputs[name]!];
}

/**
 * A function's code, the digest that publishes a version, and the parameter that says what is live.
 *
 * The digest covers code and configuration, so a deployment without a change publishes nothing. The alias takes its
 * version from a parameter of the stack, which `deploy` fills with what is live now: CloudFormation never moves traffic.
 */
function addFunctions(stack: cdk.Stack, name: string, template: Template, options: Options) {
  const values: Record<string, unknown> = {};
  const connections: ((construct: Construct, environment: Environment) => void)[] = [];
  for (const { id, prefix, name: binary } of functionsOf(template)) {
    const asset = new Asset(stack, `${prefix}Code`, { path: binaryDirectory(binary, options) });
    values.CodeBucket = asset.s3BucketName;
    values[`${prefix}CodeKey`] = asset.s3ObjectKey;

    const live = new cdk.CfnParameter(stack, `${prefix}Live`, {
      type: 'String',
      default: '',
      description: `The version of ${binary} that is live now; empty the first time`,
    });
    const isNew = new cdk.CfnCondition(stack, `${prefix}IsNew`, { expression: cdk.Fn.conditionEquals(live.valueAsString, '') });

    let fn: lambda.CfnFunction | undefined;
    let version: lambda.CfnVersion | undefined;
    values[`${prefix}Revision`] = cdk.Lazy.string({ produce: () => revision(fn!) });
    values[`${prefix}Live`] = cdk.Lazy.string({
      produce: () => cdk.Fn.conditionIf(isNew.logicalId, version!.attrVersion, live.valueAsString).toString(),
    });
    connections.push((construct, environment) => {
      fn = construct.node.findChild(id) as lambda.CfnFunction;
      version = construct.node.tryFindChild(`${prefix}Version`) as lambda.CfnVersion | undefined;
      if (version === undefined) throw new Error(`infra/templates/${name}.yaml: ${id} has no ${prefix}Version`);
      fn.reservedConcurrentExecutions = environment.reservedConcurrency[binary];
      allowSecretsManager(fn, construct.node.findChild(`${prefix}Role`) as iam.CfnRole);
    });
  }
  return {
    values,
    connect: (construct: Construct, environment: Environment) => connections.forEach((c) => c(construct, environment)),
  };
}

/** A secret in Secrets Manager is read through SSM, which needs the permissions of both. */
function allowSecretsManager(fn: lambda.CfnFunction, role: iam.CfnRole) {
  const variables = (fn.environment as lambda.CfnFunction.EnvironmentProperty | undefined)?.variables as Record<string, string> | undefined;
  const names = Object.values(variables ?? {}).filter((v) => typeof v === 'string' && v.startsWith(SECRETS_MANAGER));
  if (names.length === 0) return;
  const { partition, region, account } = cdk.Stack.of(fn);
  const policies = role.policies as iam.CfnRole.PolicyProperty[];
  policies[0]!.policyDocument.Statement.push({
    Sid: 'SecretsManager',
    Effect: 'Allow',
    Action: 'secretsmanager:GetSecretValue',
    // Secrets Manager ends a secret's ARN with six characters of its own.
    Resource: names.map((name) => `arn:${partition}:secretsmanager:${region}:${account}:secret:${name.slice(SECRETS_MANAGER.length)}-??????`),
  });
}

/** Short, because it is the version's description. */
function revision(fn: lambda.CfnFunction): string {
  const resolved = cdk.Stack.of(fn).resolve((fn as any)._toCloudFormation()) as { Resources: Record<string, { Properties: any }> };
  const { Tags: _, ReservedConcurrentExecutions: __, ...configuration } = Object.values(resolved.Resources)[0]!.Properties;
  return crypto.createHash('sha256').update(JSON.stringify(configuration)).digest('hex').slice(0, 16);
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
