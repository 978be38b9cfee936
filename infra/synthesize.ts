// Synthesizes an environment in this process, with placeholders for binaries: for tests and for `make cost`.
import fs from 'node:fs';
import path from 'node:path';
import * as cdk from 'aws-cdk-lib';
import { type Environment } from './environments.ts';
import { addStacks, type Options } from './service.ts';
import { root } from './template.ts';

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
  /** Both stacks' resources by logical id (unique over both), as if they were one template. */
  resources: Record<string, Resource>;
  stacks: Record<'data' | 'service', { template: any; ids: string[]; bytes: number }>;
  /** What plug-ins reported. */
  report: any;
}

/** `prepare` registers plug-ins. Without it, the CDK's own validation is skipped too, which takes longer than everything else. */
export function synthesize(environment: Environment, prepare?: (app: cdk.App) => void, options: Partial<Options> = {}): Synthesized {
  const outdir = path.join(root, 'target', 'synthesized', `${environment.name}-${process.pid}`);
  const app = new cdk.App({ outdir });
  const stacks = addStacks(app, environment, { architecture: 'arm64', ...options });
  prepare?.(app);
  const { exitCode } = process;
  const { CDK_VALIDATION } = process.env;
  if (prepare === undefined) process.env.CDK_VALIDATION = 'false';
  try {
    app.synth();
  } catch (error) {
    // The findings of plug-ins are in the report, for the caller to judge; the templates were written nevertheless.
    if (!fs.existsSync(path.join(outdir, 'validation-report.json'))) throw error;
  }
  process.exitCode = exitCode;
  if (CDK_VALIDATION === undefined) delete process.env.CDK_VALIDATION;
  else process.env.CDK_VALIDATION = CDK_VALIDATION;

  const read = (stack: cdk.Stack) => {
    const text = fs.readFileSync(path.join(outdir, stack.templateFile), 'utf8');
    const template = JSON.parse(text);
    return { template, ids: Object.keys(template.Resources), bytes: text.length };
  };
  const data = read(stacks.data);
  const service = read(stacks.service);
  const exports = new Map(Object.values<any>(data.template.Outputs ?? {}).map((o) => [o.Export?.Name, o.Value]));
  const resources = resolveImports({ ...data.template.Resources, ...service.template.Resources }, exports);
  const file = path.join(outdir, 'validation-report.json');
  const report = fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, 'utf8')) : undefined;
  fs.rmSync(outdir, { recursive: true, force: true });
  return { environment, stacks: { data, service }, resources, report };
}

/** Replaces imports from the data stack by the references that they stand for, so that there is one template to look at. */
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
