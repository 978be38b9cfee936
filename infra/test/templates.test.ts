// The hand-written templates: what all their readers (cdk-from-cfn, crates/template, people) rely on.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { parseDocument, visit } from 'yaml';
import { environments } from '../environments.ts';
import { generate, stale } from '../generate.ts';
import { functionsOf, infra, isProdName, namesSecret, readTemplate, templateNames } from '../template.ts';
import { names, synthesize } from './synth.ts';

const INTRINSICS = new Set(['Ref', 'Condition', 'Fn::Sub', 'Fn::GetAtt', 'Fn::If', 'Fn::Join', 'Fn::Equals']);
const templates = templateNames().map((name) => ({ name, template: readTemplate(name) }));

test('what is generated is what the templates say (make generate)', () => {
  assert.deepEqual(stale(generate()), []);
});

for (const { name, template } of templates) {
  const file = `infra/templates/${name}.yaml`;
  const text = fs.readFileSync(path.join(infra, 'templates', `${name}.yaml`), 'utf8');

  test(`${file} has long-form intrinsics, and only those that every reader knows`, () => {
    const document = parseDocument(text);
    const problems: string[] = document.errors.map(String);
    visit(document, {
      Node(_, node) {
        if (node.tag?.startsWith('!') && !node.tag.startsWith('!!')) problems.push(`${node.tag}: write the long form`);
      },
      Pair(_, pair) {
        const key = String(pair.key);
        if (key.startsWith('Fn::') && !INTRINSICS.has(key)) problems.push(`${key}: the local platform does not know it`);
      },
    });
    assert.deepEqual(problems, []);
  });

  test(`${file} explains its parameters and gives each a default`, () => {
    for (const [p, { Default, Description, Type }] of Object.entries(template.Parameters ?? {})) {
      assert.notEqual(Default, undefined, `${p} has no Default`);
      assert.ok(Description, `${p} has no Description`);
      assert.ok(['String', 'Number'].includes(Type), `${p}: Type is String or Number`);
      if (namesSecret(p)) assert.match(String(Default), /^\/ichido\/local\/[a-z-]+\/[a-z-]+$/, `${p}: the default is /ichido/local/APP/NAME`);
      if (isProdName(p)) assert.doesNotMatch(String(Default), /-(local|dev|staging|prod)$/, `${p}: the default is the name in prod`);
    }
  });

  test(`${file} uses every parameter that it declares`, () => {
    const body = JSON.stringify([template.Resources, template.Conditions, template.Outputs]);
    for (const p of Object.keys(template.Parameters ?? {})) {
      assert.ok(body.includes(`"Ref":"${p}"`) || body.includes(`\${${p}}`), `${p} is not used`);
    }
  });

  test(`${file} names its application, and what it needs and accepts exists`, () => {
    assert.ok(template.Metadata?.Application, 'Metadata.Application is the tag of its resources');
    for (const p of template.Metadata?.Needed ?? []) assert.ok(template.Parameters?.[p], `Needed: there is no parameter ${p}`);
    for (const [id, rules] of Object.entries(template.Metadata?.Accepted ?? {})) {
      assert.ok(template.Resources[id], `Accepted: there is no resource ${id}`);
      for (const [rule, reason] of Object.entries(rules)) assert.ok(reason.length > 20, `Accepted: ${id} ${rule} wants a reason`);
    }
  });

  test(`${file} retains what it retains on replacement too, and nothing that a failed deployment created`, () => {
    for (const [id, r] of Object.entries(template.Resources)) {
      const retained = ['AWS::DynamoDB::Table', 'AWS::SQS::Queue', 'AWS::Lambda::Version'].includes(r.Type);
      assert.deepEqual([r.DeletionPolicy, r.UpdateReplacePolicy], retained ? ['RetainExceptOnCreate', 'Retain'] : [undefined, undefined], id);
    }
  });
}

test('logical ids, parameters apart from the common ones, and outputs are unique over all templates', () => {
  const seen = new Map<string, string>();
  for (const { name, template } of templates) {
    for (const id of [...Object.keys(template.Resources), ...Object.keys(template.Outputs ?? {})]) {
      assert.equal(seen.get(id), undefined, `${id} is in ${name}.yaml and in ${seen.get(id)}.yaml`);
      seen.set(id, name);
    }
  }
});

test('every setting of an environment is a parameter of some template', () => {
  const parameters = new Set(templates.flatMap(({ template }) => Object.keys(template.Parameters ?? {})));
  if (!templates.some(({ name }) => name === 'mesh')) for (const p of Object.keys(environments.dev.parameters)) parameters.add(p);
  for (const [name, { parameters: set, reservedConcurrency }] of Object.entries(environments)) {
    for (const p of Object.keys(set)) assert.ok(parameters.has(p), `${name}: no template has the parameter ${p}`);
    const functions = templates.flatMap(({ template }) => functionsOf(template).map((f) => f.name));
    for (const f of Object.keys(reservedConcurrency)) assert.ok(functions.includes(f), `${name}: there is no function ${f}`);
  }
});

test('in prod tables and schedules have their fixed names, elsewhere the same with -ENV', () => {
  const fixed: Record<string, string> = {
    ProcessedEventsTable: 'slack-classify-bot-processed-events',
    GithubStateTable: 'masutaka-feed-github-state',
    HatebuStateTable: 'masutaka-feed-hatebu-state',
    FeedsStateTable: 'feeds-state',
    MeshTable: 'MeshV2Table',
    GithubSchedule: 'github-feed-subscriber-schedule',
    HatebuSchedule: 'hatebu-feed-subscriber-schedule',
  };
  for (const name of names) {
    const named = Object.values(synthesize(name).resources)
      .filter((r) => ['AWS::DynamoDB::Table', 'AWS::Scheduler::Schedule'].includes(r.Type))
      .map((r) => r.Properties.TableName ?? r.Properties.Name);
    const suffix = name === 'prod' ? '' : `-${name}`;
    for (const n of named) assert.ok(n.endsWith(suffix), `${n} in ${name}`);
    const wanted = Object.values(fixed).filter((s) => templates.some(({ template }) => JSON.stringify(template.Parameters).includes(`"${s}"`)));
    for (const w of wanted) assert.ok(named.includes(`${w}${suffix}`), `${w}${suffix} is in ${name}`);
  }
});

test('logical ids are the committed ones: a changed id replaces what it names', () => {
  const file = path.join(infra, 'test', 'logical-ids.json');
  const { stacks, resources } = synthesize('prod');
  const kept = new Set(['AWS::DynamoDB::Table', 'AWS::SQS::Queue', 'AWS::ApiGatewayV2::Api', 'AWS::AppSync::GraphQLApi', 'AWS::AppSync::ApiKey', 'AWS::SNS::Topic', 'AWS::KMS::Key', 'AWS::Lambda::Function', 'AWS::Lambda::Version', 'AWS::Lambda::Alias', 'AWS::Scheduler::Schedule']);
  const list = (ids: string[]) => Object.fromEntries(ids.filter((id) => kept.has(resources[id]!.Type)).sort().map((id) => [id, resources[id]!.Type]));
  const now = { data: list(stacks.data.ids), service: list(stacks.service.ids) };
  if (process.env.UPDATE) fs.writeFileSync(file, `${JSON.stringify(now, null, 2)}\n`);
  assert.deepEqual(now, JSON.parse(fs.readFileSync(file, 'utf8')),
    'if this is what you want (nothing of value is replaced), accept it: UPDATE=1 npm --prefix infra test');
});
