// Reading the hand-written templates: the one place that knows their conventions (README.md).
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';

export const infra = path.dirname(fileURLToPath(import.meta.url));
export const root = path.dirname(infra);
/** The prefix under which SSM shows the secrets of Secrets Manager. */
export const SECRETS_MANAGER = '/aws/reference/secretsmanager/';

export interface Parameter {
  Type: string;
  Default?: string | number;
  Description?: string;
  AllowedValues?: (string | number)[];
}

export interface Resource {
  Type: string;
  Condition?: string;
  DependsOn?: string | string[];
  DeletionPolicy?: string;
  UpdateReplacePolicy?: string;
  Properties?: Record<string, any>;
}

export interface Template {
  Description?: string;
  Metadata?: {
    /** The tag `Application` of every resource. */
    Application?: string;
    /** Parameters that an environment has to set. */
    Needed?: string[];
    /** Secrets that an environment may do without: parameter -> the parameter that it sets to "" for that. */
    Optional?: Record<string, string>;
    /** Secrets that are needed only while a further feed has a destination: parameter -> destination. */
    Destinations?: Record<string, string>;
    /** Findings of cdk-nag that are so on purpose: logical id -> rule -> reason. */
    Accepted?: Record<string, Record<string, string>>;
  };
  Parameters?: Record<string, Parameter>;
  Conditions?: Record<string, unknown>;
  Resources: Record<string, Resource>;
  Outputs?: Record<string, { Description?: string; Value: unknown }>;
}

/** Names of all templates; `shared` first, because the others refer to what it makes. */
export function templateNames(dir = path.join(infra, 'templates')): string[] {
  const names = fs.readdirSync(dir).filter((f) => f.endsWith('.yaml')).map((f) => f.slice(0, -'.yaml'.length)).sort();
  return ['shared', ...names.filter((n) => n !== 'shared')].filter((n) => names.includes(n));
}

export function readTemplate(name: string, dir = path.join(infra, 'templates')): Template {
  return parse(fs.readFileSync(path.join(dir, `${name}.yaml`), 'utf8')) as Template;
}

/** Whether a condition holds: one that compares two of the parameters' values. */
function holds(condition: string, template: Template, values: Record<string, unknown>): boolean {
  const compared = (template.Conditions?.[condition] as { 'Fn::Equals': any[] })['Fn::Equals'];
  const [a, b] = compared.map((side) => (side?.Ref === undefined ? side : values[side.Ref] ?? template.Parameters?.[side.Ref]?.Default));
  return a === b;
}

/** A property as the values of parameters decide it: `Fn::If` on a condition. */
export function decided(property: any, template: Template, values: Record<string, unknown>): unknown {
  const [condition, yes, no] = property?.['Fn::If'] ?? [];
  if (condition === undefined) return property;
  return holds(condition, template, values) ? yes : no;
}

/** The tables that the template makes with these values of its parameters. */
export function tablesOf(template: Template, values: Record<string, unknown>): { name: string; properties: Record<string, any> }[] {
  return Object.values(template.Resources)
    .filter(({ Type, Condition }) => Type === 'AWS::DynamoDB::Table' && (Condition === undefined || holds(Condition, template, values)))
    .map(({ Properties: properties = {} }) => ({ name: String(values[properties.TableName.Ref]), properties }));
}

/** `SlackEventsFunction` -> `SlackEvents`; what all of a function's logical ids and parameters begin with. */
function functionPrefix(logicalId: string): string {
  if (!logicalId.endsWith('Function')) throw new Error(`${logicalId}: the logical id of a function ends in Function`);
  return logicalId.slice(0, -'Function'.length);
}

/** `slack-events` from `FunctionName: {Fn::Sub: "slack-events${Suffix}"}`: also the binary's name. */
export function functionName(logicalId: string, resource: Resource): string {
  const sub = resource.Properties?.FunctionName?.['Fn::Sub'];
  if (typeof sub !== 'string' || !sub.endsWith('${Suffix}')) {
    throw new Error(`${logicalId}: FunctionName has to be {Fn::Sub: "NAME\${Suffix}"}`);
  }
  return sub.slice(0, -'${Suffix}'.length);
}

/** Every function of a template: binary name, logical id, prefix. */
export function functionsOf(template: Template) {
  return Object.entries(template.Resources)
    .filter(([, r]) => r.Type === 'AWS::Lambda::Function')
    .map(([id, resource]) => ({ id, resource, prefix: functionPrefix(id), name: functionName(id, resource) }));
}

/** A parameter that names a secret, and never holds its value. */
export const namesSecret = (parameter: string) => parameter.endsWith('Parameter');

/** A parameter whose default is a name in prod; elsewhere `-ENV` is appended. Tables and schedules keep these names for ever: their data and their users depend on them. */
export const isProdName = (parameter: string) => parameter.endsWith('Name');
