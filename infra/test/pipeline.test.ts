// The sample pipeline: what it may do, what it runs, and what it deploys.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { described } from '../cli/world.ts';
import { environments, type Name } from '../environments.ts';
import { parameters } from '../service.ts';
import { synthesize as fresh } from '../synthesize.ts';
import { infra, readTemplate, root, tablesOf, templateNames, type Template } from '../template.ts';
import { policy, read, resolved, role, type Statement } from './deployer.ts';
import { statements } from './standards.ts';
import { complete, ofType, synthesize } from './synth.ts';

const account = parse(read('account.yaml')) as Template;
const workflow = parse(read('github-actions.yml'));
const DEPLOYED: Name[] = ['dev', 'staging', 'prod'];

const actionsOf = (all: Statement[]) => all.flatMap((s) => [s.Action].flat());
const resourcesOf = (environment: Name, sid: string) => [policy(environment).find((s) => s.Sid === sid)!.Resource].flat();
const arn = (rest: string) => rest.replace('::', ':ap-northeast-1:123456789012:').replace(/^/, 'arn:aws:');

// ------------------------------------------------------------------------------------------------------------ the role

for (const environment of DEPLOYED) {
  test(`the role of ${environment} touches exactly the functions, tables and stacks of ${environment}`, () => {
    const env = environments[environment];
    const functions = described(env).functions.flatMap(({ deployed }) => [arn(`lambda::function:${deployed}`), arn(`lambda::function:${deployed}:*`)]);
    assert.deepEqual(resourcesOf(environment, 'Versions').sort(), functions.sort());
    const tables = templateNames().map((n) => readTemplate(n)).flatMap((template) => {
      const values = parameters(template, complete(environment), { architecture: 'arm64' }, {});
      return tablesOf(template, values).map(({ name }) => arn(`dynamodb::table/${name}`));
    });
    assert.deepEqual(resourcesOf(environment, 'Tables').sort(), tables.sort());
    assert.deepEqual(resourcesOf(environment, 'Stacks'), [`ichido-${environment}`, `ichido-data-${environment}`].map((stack) => arn(`cloudformation::stack/${stack}/*`)));
    assert.deepEqual(resourcesOf(environment, 'Secrets'), [arn(`secretsmanager::secret:ichido/${environment}/*`)]);
  });

  test(`jobs of the GitHub environment ${environment} on main, and no others, can assume its role`, () => {
    const { RoleName, AssumeRolePolicyDocument: trust, PermissionsBoundary } = resolved(role.Resources.Deployer!.Properties, environment);
    assert.equal(RoleName, `ichido-deployer-${environment}`, 'two environments in one account do not collide');
    assert.equal(PermissionsBoundary.Ref, 'AWS::NoValue');
    assert.equal(trust.Statement.length, 1);
    assert.equal(trust.Statement[0].Principal.Federated, 'arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com');
    assert.deepEqual(trust.Statement[0].Condition, {
      StringEquals: {
        'token.actions.githubusercontent.com:aud': 'sts.amazonaws.com',
        'token.actions.githubusercontent.com:sub': `repo:olga/ichido:environment:${environment}`,
        'token.actions.githubusercontent.com:ref': `refs/heads/${workflow.on.push.branches}`, // a job of any branch can name an environment
      },
    });
  });
}

test('a repository is named as GitHub names it in the subject of its tokens, with ids or without', () => {
  const { AllowedPattern } = role.Parameters!.Repository as unknown as { AllowedPattern: string };
  const pattern = new RegExp(`^(?:${AllowedPattern})$`);
  for (const name of ['olga/ichido', 'olga@123456/ichido@456789']) assert.match(name, pattern);
  for (const name of ['olga', 'olga/*', 'olga/ichido:environment:prod', 'olga@/ichido@', 'olga@123456/ichido@*']) assert.doesNotMatch(name, pattern);
});

test('nobody deploys an environment because a parameter was forgotten', () => {
  assert.deepEqual(role.Parameters!.Environment!.AllowedValues, DEPLOYED);
  assert.equal(role.Parameters!.Environment!.Default, undefined);
});

test('the provider of tokens exists once per account, whoever made it', () => {
  assert.deepEqual(ofType(role.Resources as any, 'AWS::IAM::OIDCProvider'), []);
  const [[, provider]] = ofType(account.Resources as any, 'AWS::IAM::OIDCProvider') as [[string, any]];
  assert.equal(provider.Condition, 'CreatesProvider');
});

test('the role may do exactly this, and each for a reason', () => {
  const reasons: Record<string, string> = {
    'sts:AssumeRole': 'the CDK\'s roles of this account deploy',
    'ssm:DescribeParameters': 'make deploy: secrets, and whether the account is bootstrapped',
    'secretsmanager:DescribeSecret': 'make deploy: secrets',
    'lambda:CreateAlias': 'make deploy: the first version',
    'lambda:GetAlias': 'make deploy, make rollout',
    'lambda:GetFunctionConfiguration': 'make deploy: before it publishes',
    'lambda:InvokeFunction': 'make rollout, make smoke: the health payload',
    'lambda:PublishVersion': 'make deploy',
    'lambda:UpdateAlias': 'make deploy, make rollout',
    'cloudformation:DescribeStacks': 'make deploy: what was deployed last',
    'cloudformation:UpdateTerminationProtection': 'make deploy: after the first success',
    'dynamodb:DescribeTable': 'make deploy: is the table protected?',
    'dynamodb:UpdateTable': 'make deploy: protects it',
    'cloudwatch:DescribeAlarms': 'make rollout',
    'cloudwatch:GetMetricData': 'make rollout',
  };
  assert.deepEqual(actionsOf(policy('prod')).sort(), Object.keys(reasons).sort());
  const unbounded = policy('prod').filter((s) => s.Resource === '*').map((s) => s.Sid);
  assert.deepEqual(unbounded, ['Parameters', 'Watch'], 'IAM has no resources for these');
  const cdk = resourcesOf('prod', 'Cdk');
  for (const each of cdk) assert.match(each, /^arn:aws:iam::123456789012:role\/cdk-hnb659fds-(deploy|file-publishing|lookup)-role-123456789012-ap-northeast-1$/);
});

test('neither the role nor CloudFormation on its behalf can read a secret', () => {
  const reads = /^(ssm:GetParameter|secretsmanager:(GetSecretValue|BatchGet|\*)|kms:(Decrypt|ReEncrypt|GenerateDataKey|CreateGrant|\*)|ssm:\*|\*)/;
  assert.deepEqual(actionsOf(policy('prod')).filter((a) => reads.test(a)), []);
  const execution: Statement[] = resolved(account.Resources.Execution!.Properties!.PolicyDocument.Statement, 'prod');
  const reading = execution.filter((s) => [s.Action].flat().some((a) => reads.test(a)));
  assert.deepEqual(reading.map((s) => s.Resource), ['arn:aws:ssm:*:123456789012:parameter/cdk-bootstrap/hnb659fds/version'], 'the version of the bootstrap is no secret');
});

test('the one role of the CDK that may look at everything cannot decrypt', () => {
  const bootstrap = parse(fs.readFileSync(path.join(infra, 'node_modules', 'aws-cdk', 'lib', 'api', 'bootstrap', 'bootstrap-template.yaml'), 'utf8'));
  const denied = bootstrap.Resources.LookupRole.Properties.Policies.flatMap((p: any) => p.PolicyDocument.Statement).filter((s: any) => s.Effect === 'Deny');
  assert.ok(denied.some((s: any) => [s.Action].flat().includes('kms:Decrypt') && s.Resource === '*'));
});

/** What no pipeline runs: commands of people, and what only the local AWS needs. */
const BY_HAND = ['accept.ts', 'aws.ts', 'destroy.ts', 'secrets.ts', 'time-to-live.ts'];

test('whatever make deploy, make rollout and make smoke call, the role allows', () => {
  const allowed = new Set([...actionsOf(policy('prod')), 'sts:GetCallerIdentity']); // which needs no permission
  const actions = new Map([['lambda:Invoke', 'lambda:InvokeFunction'], ['secrets-manager:DescribeSecret', 'secretsmanager:DescribeSecret']]);
  for (const file of fs.readdirSync(path.join(infra, 'cli')).filter((f) => !BY_HAND.includes(f))) {
    const text = fs.readFileSync(path.join(infra, 'cli', file), 'utf8');
    for (const [, names, service] of text.matchAll(/import \{([^}]*)\} from '@aws-sdk\/client-([\w-]+)'/g)) {
      for (const [, a, b] of names!.matchAll(/\b(?:(\w+)Command|paginate(\w+))\b/g)) {
        const call = `${service}:${a ?? b}`;
        assert.ok(allowed.has(actions.get(call) ?? call), `infra/cli/${file} calls ${call}; infra/pipeline/role.yaml does not allow it`);
      }
    }
  }
  const sources = path.join(root, 'crates', 'ops', 'src', 'rollout');
  const rollout = fs.readdirSync(sources).filter((f) => f.endsWith('.rs')).map((f) => fs.readFileSync(path.join(sources, f), 'utf8')).join('\n');
  const calls = [...rollout.matchAll(/\.(?:lambda|cloudwatch)\s*\.(\w+)\(\)/g)].map((m) => m[1]!);
  assert.ok(calls.includes('update_alias'), `found only ${calls}`);
  for (const call of calls.filter((c) => c !== 'clone')) {
    const name = call === 'invoke' ? 'InvokeFunction' : call.replace(/(^|_)(\w)/g, (_, __, letter: string) => letter.toUpperCase());
    assert.ok(allowed.has(`lambda:${name}`) || allowed.has(`cloudwatch:${name}`), `crates/ops/src/rollout calls ${name}; infra/pipeline/role.yaml does not allow it`);
  }
});

// ------------------------------------------------------------------------------------- what CloudFormation may do for it

/** The actions of the roles that the templates make. */
function neededByRoles(): Set<string> {
  const { resources } = synthesize('prod');
  return new Set(statements(resources)
    .filter(({ where }) => resources[where.split('.')[0]!]!.Type === 'AWS::IAM::Role' && !where.endsWith('.trust'))
    .flatMap(({ statement }) => [statement.Action].flat() as string[]));
}

test('the boundary allows what the roles of the templates need, and nothing else', () => {
  const boundary: Statement[] = resolved(account.Resources.Boundary!.Properties!.PolicyDocument.Statement, 'prod');
  const optional = ['kms:Decrypt', 'secretsmanager:GetSecretValue']; // where an environment asks for them
  assert.deepEqual(actionsOf(boundary).sort(), [...neededByRoles(), ...optional].sort());
  assert.deepEqual(boundary.filter((s) => s.Resource === '*').map((s) => s.Sid), ['Work'], 'secrets only under ichido/');
});

test('the execution policy knows every service of the templates', () => {
  const execution: Statement[] = resolved(account.Resources.Execution!.Properties!.PolicyDocument.Statement, 'prod');
  const allowed = new Set(actionsOf(execution).map((a) => a.split(':')[0]));
  const types = new Set(DEPLOYED.flatMap((name) => Object.values(fresh(complete(name)).resources).map((r) => r.Type)));
  for (const type of types) {
    const service = type.split('::')[1]!.toLowerCase().replace(/^apigatewayv2$/, 'apigateway');
    assert.ok(allowed.has(service), `infra/pipeline/account.yaml: Execution lacks ${service}, for ${type}`);
  }
  assert.deepEqual(execution.filter((s) => s.Sid === 'Services').flatMap((s) => [s.Action].flat()).filter((a) => !a.endsWith(':*')), []);
});

/** Where account.yaml names resources: by which type and property, and what comes before the name in an ARN. */
const NAMED: [sid: string, type: string, property: string, before: string][] = [
  ['Functions', 'AWS::Lambda::Function', 'FunctionName', 'lambda:*:123456789012:function:'],
  ['Tables', 'AWS::DynamoDB::Table', 'TableName', 'dynamodb:*:123456789012:table/'],
  ['Queues', 'AWS::SQS::Queue', 'QueueName', 'sqs:*:123456789012:'],
  ['Schedules', 'AWS::Scheduler::Schedule', 'Name', 'scheduler:*:123456789012:schedule/default/'],
  ['Topics', 'AWS::SNS::Topic', 'TopicName', 'sns:*:123456789012:'],
  ['LogGroups', 'AWS::Logs::LogGroup', 'LogGroupName', 'logs:*:123456789012:log-group:'],
];
const execution: Statement[] = resolved(account.Resources.Execution!.Properties!.PolicyDocument.Statement, 'prod');
/** A name; of one that contains an id, what comes before the id. */
const nameOf = (value: any): string => (typeof value === 'string' ? value : value['Fn::Join'][1][0]);

for (const [sid, type, property, before] of NAMED) {
  test(`CloudFormation changes ${type} of the templates, in every environment, and no others`, () => {
    const { Action, Resource } = execution.find((s) => s.Sid === sid)!;
    const service = before.split(':')[0];
    assert.equal(Action, `${service}:*`);
    const names = (name: Name) => ofType(fresh(complete(name)).resources, type).map(([, r]) => nameOf(r.Properties[property]));
    assert.ok(names('prod').length > 0);
    const listed = type === 'AWS::Scheduler::Schedule' ? ['feed-'] : []; // those of further feeds (infra/feeds.ts)
    assert.deepEqual([Resource].flat().sort(), [...names('prod'), ...listed].map((name) => `arn:aws:${before}${name}*`).sort());
    for (const each of DEPLOYED.flatMap(names)) {
      assert.ok([Resource].flat().some((r) => `arn:aws:${before}${each}`.startsWith(r.slice(0, -1))), `infra/pipeline/account.yaml: ${sid} lacks ${each}`);
    }
  });
}

test('what CloudFormation may do to anything in the account is listed here', () => {
  const anywhere = execution.filter((s) => s.Resource === '*' && s.Condition === undefined);
  assert.deepEqual(anywhere.map((s) => s.Sid), ['Services', 'Subscriptions', 'LogDelivery', 'AnyKey']);
  assert.deepEqual(actionsOf(anywhere).filter((a) => a.endsWith(':*')), ['appsync:*', 'budgets:*', 'cloudwatch:*', 'xray:*']);
  assert.deepEqual(execution.find((s) => s.Sid === 'HttpApis')!.Resource, ['apis', 'apis/*', 'tags/*'].map((each) => `arn:aws:apigateway:*::/${each}`), 'no REST APIs');
  assert.deepEqual(actionsOf(anywhere).filter((a) => a.startsWith('kms:')).filter((a) => !/^kms:(Describe|Get|List)/.test(a)), ['kms:EnableKeyRotation']);
});

test('CloudFormation changes only keys with the tag that every key of the templates has', () => {
  const ours = { Project: 'ichido' };
  const [resourceTag, requestTag] = ['aws:ResourceTag/Project', 'aws:RequestTag/Project'];
  const conditions = Object.fromEntries(execution.filter((s) => s.Condition && actionsOf([s]).some((a) => a.startsWith('kms:'))).map((s) => [s.Sid, s.Condition]));
  assert.deepEqual(conditions, {
    NewKeys: { StringEquals: { [requestTag]: ours.Project }, StringEqualsIfExists: { [resourceTag]: ours.Project } },
    Keys: { StringEquals: { [resourceTag]: ours.Project } },
  });
  for (const action of ['kms:PutKeyPolicy', 'kms:ScheduleKeyDeletion', 'kms:DisableKey', 'kms:TagResource', 'kms:UntagResource']) {
    const allowing = execution.filter((s) => [s.Action].flat().includes(action));
    assert.ok(allowing.length > 0 && allowing.every((s) => s.Condition !== undefined), action);
  }
  for (const name of DEPLOYED) {
    const keys = ofType(synthesize(name).resources, 'AWS::KMS::Key');
    assert.ok(keys.length > 0);
    for (const [id, { Properties }] of keys) assert.ok(Properties.Tags.some((t: any) => t.Key === 'Project' && t.Value === ours.Project), `${id} in ${name}`);
  }
});

test('IAM accepts both policies: at most 6,144 characters', () => {
  for (const id of ['Execution', 'Boundary']) {
    const text = JSON.stringify(resolved(account.Resources[id]!.Properties!.PolicyDocument, 'prod'));
    assert.ok(text.length <= 6144, `${id}: ${text.length}`);
  }
});

test('CloudFormation can give permissions only to bounded roles of the environments, never to the pipeline\'s own', () => {
  const execution: Statement[] = resolved(account.Resources.Execution!.Properties!.PolicyDocument.Statement, 'prod');
  const grants = /^iam:(CreateRole|PutRolePolicy|AttachRolePolicy|PutRolePermissionsBoundary)$/;
  const granting = execution.filter((s) => [s.Action].flat().some((a) => grants.test(a)));
  assert.deepEqual(granting.map((s) => s.Sid), ['BoundedRoles']);
  assert.deepEqual(granting[0]!.Condition, { StringEquals: { 'iam:PermissionsBoundary': 'arn:aws:iam::123456789012:policy/ichido-boundary' } });
  assert.equal(account.Resources.Boundary!.Properties!.ManagedPolicyName, 'ichido-boundary');
  for (const { Sid, Resource } of execution.filter((s) => [s.Action].flat().some((a) => a.startsWith('iam:')))) {
    for (const each of [Resource].flat()) {
      const pattern = new RegExp(`^${each.replaceAll('*', '.*')}$`);
      for (const name of DEPLOYED) assert.doesNotMatch(`arn:aws:iam::123456789012:role/ichido-deployer-${name}`, pattern, Sid);
    }
  }
  // Nothing but roles: no users, no policies (the boundary is one), no providers; and nobody takes a boundary away.
  for (const action of actionsOf(execution).filter((a) => a.startsWith('iam:'))) assert.match(action, /Role/);
  assert.ok(!actionsOf(execution).includes('iam:DeleteRolePermissionsBoundary'));
});

// ------------------------------------------------------------------------------------------------------- the workflow

const jobs = Object.entries<any>(workflow.jobs);
const deploying = jobs.filter(([, job]) => job.environment !== undefined);

test('every action is pinned by the digest of a commit, with its version beside it', () => {
  const uses = [...read('github-actions.yml').matchAll(/uses: (.*)$/gm)].map((m) => m[1]!);
  assert.ok(uses.length >= 7);
  for (const each of uses) assert.match(each, /^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
});

test('whoever copies the workflow reads which rules its GitHub environments need', () => {
  assert.deepEqual(workflow.on, { push: { branches: ['main'] } });
  const head = read('github-actions.yml').split('\nname: ')[0]!.replace(/\n# ?/g, ' ');
  const section = fs.readFileSync(path.join(root, 'docs', 'deployment.md'), 'utf8').split('\n## A pipeline\n')[1]!.split('\n## ')[0]!;
  for (const text of [head, section]) {
    assert.match(text, /deployment branches/i);
    assert.match(text, /required reviewers/i);
  }
});

test('only the jobs that deploy can obtain credentials, and they build nothing', () => {
  assert.deepEqual(workflow.permissions, {}, 'none unless a job says so');
  assert.deepEqual(deploying.map(([name, job]) => [name, job.environment]), [['staging', 'staging'], ['prod', 'prod']]);
  for (const [name, job] of jobs) {
    const deploys = deploying.some(([other]) => other === name);
    assert.deepEqual(job.permissions, deploys ? { contents: 'read', 'id-token': 'write' } : { contents: 'read' }, name);
    if (deploys) for (const step of job.steps) assert.doesNotMatch(step.run ?? '', /\b(cargo|make (build|test|check))\b/, name);
    else assert.doesNotMatch(JSON.stringify(job), /configure-aws-credentials|secrets\.|AWS_/, name);
    for (const step of job.steps.filter((s: any) => s.uses?.startsWith('actions/checkout@'))) assert.equal(step.with['persist-credentials'], false);
  }
});

test('staging and prod deploy one artifact, prod after staging, and check it before they have credentials', () => {
  const { build, staging, prod } = workflow.jobs;
  assert.deepEqual([staging.needs, prod.needs], [['build'], ['build', 'staging']]);
  assert.deepEqual(prod.steps, staging.steps);
  assert.equal(build.outputs.digest, '${{ steps.pack.outputs.digest }}');
  for (const [name, job] of deploying) {
    assert.deepEqual(job.env, { ENV: name, DIGEST: '${{ needs.build.outputs.digest }}', BINARIES: 'target/artifact/lambda', ICHIDOCTL: 'target/artifact/ichidoctl' });
  }
  const position = (text: string) => staging.steps.findIndex((s: any) => (s.uses ?? s.run).includes(text));
  const order = ['download-artifact@', 'scripts/artifact unpack', 'scripts/setup-infra', 'configure-aws-credentials@', 'make deploy', 'make rollout', 'make smoke'].map(position);
  assert.deepEqual(order, [...order].sort((a, b) => a - b));
  assert.ok(order[0]! >= 0);
  const uploaded = build.steps.find((s: any) => s.uses?.startsWith('actions/upload-artifact@')).with;
  const downloaded = staging.steps.find((s: any) => s.uses?.startsWith('actions/download-artifact@')).with;
  assert.equal(uploaded.name, downloaded.name);
  assert.match(staging.steps[position('scripts/artifact unpack')].run, new RegExp(` ${downloaded.path}/${path.basename(uploaded.path)} "\\$DIGEST" target/artifact$`));
});

test('an artifact keeps what was built, executable, and another file is refused', () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'artifact-'));
  try {
    const BINARIES = path.join(dir, 'lambda');
    fs.mkdirSync(path.join(BINARIES, 'slack-events'), { recursive: true });
    fs.writeFileSync(path.join(BINARIES, 'slack-events', 'bootstrap'), 'a function', { mode: 0o755 });
    fs.writeFileSync(path.join(BINARIES, 'architecture'), 'arm64\n');
    const ICHIDOCTL = path.join(dir, 'tool');
    fs.writeFileSync(ICHIDOCTL, '#!/bin/sh\necho "rolled out"\n', { mode: 0o755 });
    const [file, out] = [path.join(dir, 'a.tar.gz'), path.join(dir, 'out')];
    const artifact = (...args: string[]) => spawnSync(path.join(root, 'scripts', 'artifact'), args, { env: { PATH: process.env.PATH, BINARIES, ICHIDOCTL }, encoding: 'utf8' });

    const packed = artifact('pack', file);
    assert.match(packed.stdout, /^[0-9a-f]{64}\n$/, packed.stderr);
    assert.equal(artifact('unpack', file, packed.stdout.trim(), out).status, 0);
    const bootstrap = path.join(out, 'lambda', 'slack-events', 'bootstrap');
    assert.equal(fs.readFileSync(bootstrap, 'utf8'), 'a function');
    assert.equal(fs.statSync(bootstrap).mode & 0o111, 0o111, 'Lambda cannot start it otherwise');
    assert.equal(execFileSync(path.join(out, 'ichidoctl'), { encoding: 'utf8' }), 'rolled out\n');

    fs.rmSync(out, { recursive: true });
    for (const digest of ['0'.repeat(64), '']) {
      const refused = artifact('unpack', file, digest, out);
      assert.notEqual(refused.status, 0);
      assert.ok(!fs.existsSync(out), 'nothing of it is unpacked');
    }
    fs.rmSync(path.join(BINARIES, 'architecture'));
    assert.match(artifact('pack', file).stderr, /architecture is missing: run make build/);
  } finally {
    fs.rmSync(dir, { recursive: true });
  }
});

test('a rollout runs the tool that was built before, if it is told which', () => {
  const text = fs.readFileSync(path.join(root, 'scripts', 'rollout'), 'utf8');
  assert.match(text, /if \[ -z "\$\{ICHIDOCTL:-\}" \]; then\n\s*cargo build/);
});

// ------------------------------------------------------------------------------------------------ what it installs

test('every Python tool is installed from wheels whose digests are known', () => {
  const lists = ['infra/requirements', 'infra/requirements-build', 'infra/requirements-release', 'tests/schemathesis/requirements'];
  assert.match(fs.readFileSync(path.join(root, 'scripts', 'setup-python'), 'utf8'), /--require-hashes --only-binary :all:/);
  for (const list of lists) {
    const chosen = fs.readFileSync(path.join(root, `${list}.in`), 'utf8').match(/^[\w-]+==[\w.]+/gm) ?? [];
    const locked = fs.readFileSync(path.join(root, `${list}.txt`), 'utf8').replace(/^#.*$/gm, '').replace(/\\\n/g, ' ').split('\n').filter((line) => line.trim() !== '');
    assert.ok(chosen.length > 0);
    for (const each of chosen) assert.ok(locked.some((line) => line.startsWith(`${each} `)), `${list}.txt does not have ${each}: make it again, as its first line says`);
    for (const line of locked) assert.match(line, /--hash=sha256:[0-9a-f]{64}/, line.slice(0, 60));
  }
});
