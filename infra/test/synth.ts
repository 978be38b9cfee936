// Every environment, synthesized once in this process.
import fs from 'node:fs';
import path from 'node:path';
import * as cdk from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { environments, type Environment, type Name } from '../environments.ts';
import { addStacks } from '../service.ts';
import { root } from '../template.ts';

export interface Resource {
  Type: string;
  Properties: any;
  Condition?: string;
  DependsOn?: string | string[];
  DeletionPolicy?: string;
  UpdateReplacePolicy?: string;
}

export interface Synthesized {
  environment: Environment;
  /** Both stacks' resources by logical id (unique over both). */
  resources: Record<string, Resource>;
  /** Logical ids by stack: `data` and `service`. */
  stacks: Record<'data' | 'service', { template: any; ids: string[]; bytes: number }>;
  /** What cdk-nag found and nobody explained. */
  findings: string[];
}

export const names = Object.keys(environments) as Name[];

const done = new Map<Name, Synthesized>();

export function synthesize(name: Name): Synthesized {
  const known = done.get(name);
  if (known) return known;
  const environment = environments[name];
  const outdir = path.join(root, 'target', 'cdk-test', `${name}-${process.pid}`);
  const app = new cdk.App({ outdir });
  const stacks = addStacks(app, environment, { architecture: 'arm64' });
  cdk.Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  const exitCode = process.exitCode;
  const assembly = app.synth();
  process.exitCode = exitCode; // the findings are asserted, one by one; synthesis alone is no failure

  const read = (stack: cdk.Stack) => {
    const { templateFullPath } = assembly.getStackByName(stack.stackName);
    const text = fs.readFileSync(templateFullPath, 'utf8');
    const template = JSON.parse(text);
    return { template, ids: Object.keys(template.Resources), bytes: text.length };
  };
  const result: Synthesized = {
    environment,
    stacks: { data: read(stacks.data), service: read(stacks.service) },
    resources: {},
    findings: findings(outdir),
  };
  const exports = new Map(Object.values<any>(result.stacks.data.template.Outputs ?? {}).map((o) => [o.Export?.Name, o.Value]));
  result.resources = resolveImports({ ...result.stacks.data.template.Resources, ...result.stacks.service.template.Resources }, exports);
  fs.rmSync(outdir, { recursive: true, force: true });
  done.set(name, result);
  return result;
}

function findings(outdir: string): string[] {
  const file = path.join(outdir, 'validation-report.json');
  if (!fs.existsSync(file)) throw new Error('cdk-nag left no report: does the plugin still run?');
  const report = JSON.parse(fs.readFileSync(file, 'utf8'));
  return (report.pluginReports ?? []).flatMap((plugin: any) =>
    (plugin.violations ?? []).flatMap((v: any) =>
      (v.violatingConstructs ?? []).map((c: any) => `${v.ruleName} ${c.constructPath}: ${v.description}`)));
}

/** Resources of one type. */
export function ofType(resources: Record<string, Resource>, type: string): [string, Resource][] {
  return Object.entries(resources).filter(([, r]) => r.Type === type);
}

/** The logical id that a value refers to, if it is a single reference. */
export function refersTo(value: any): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (typeof value.Ref === 'string') return value.Ref;
  if (Array.isArray(value['Fn::GetAtt'])) return value['Fn::GetAtt'][0];
  return undefined;
}

/** Imports from the data stack become the references that they stand for: one template to reason about. */
function resolveImports(value: any, exports: Map<string, any>): any {
  if (Array.isArray(value)) return value.map((v) => resolveImports(v, exports));
  if (typeof value !== 'object' || value === null) return value;
  const imported = value['Fn::ImportValue'];
  if (imported !== undefined) {
    if (!exports.has(imported)) throw new Error(`nothing exports ${JSON.stringify(imported)}`);
    return exports.get(imported);
  }
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, resolveImports(v, exports)]));
}
