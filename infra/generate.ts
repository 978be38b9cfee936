// templates/*.yaml -> generated/*.ts with cdk-from-cfn.
//
// Each template becomes two constructs, so that what holds data can be deployed apart from what runs: `NAME-data.ts` with
// tables and queues, `NAME.ts` with everything else. A reference from one to the other becomes a property of the second
// (`processedEventsTableArn`) and an output of the first; `index.ts` lists what there is.
//
//   npm run generate             writes
//   npm run generate -- --check  fails if anything would change
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { infra, readTemplate, templateNames, type Template } from './template.ts';

const { transmute } = createRequire(import.meta.url)('cdk-from-cfn') as typeof import('cdk-from-cfn');

/** What holds data. A queue's policy goes with its queue. */
const STATEFUL = new Set(['AWS::DynamoDB::Table', 'AWS::SQS::Queue', 'AWS::SQS::QueuePolicy']);

const HEADER = '// Generated from infra/templates by `make generate`. Do not edit.\n';

type Json = any;

/** Every `Ref`, `Fn::GetAtt` and `${…}` in a value, rewritten by `change` (undefined leaves it). */
function mapReferences(value: Json, change: (id: string, attribute?: string) => string | undefined): Json {
  if (Array.isArray(value)) return value.map((v) => mapReferences(v, change));
  if (value === null || typeof value !== 'object') return value;
  const keys = Object.keys(value);
  if (keys.length === 1 && keys[0] === 'Ref') {
    const to = change(value.Ref);
    return to === undefined ? value : { Ref: to };
  }
  if (keys.length === 1 && keys[0] === 'Fn::GetAtt') {
    const [id, attribute] = value['Fn::GetAtt'] as [string, string];
    const to = change(id, attribute);
    return to === undefined ? value : { Ref: to };
  }
  if (keys.length === 1 && keys[0] === 'Fn::Sub') {
    if (typeof value['Fn::Sub'] !== 'string') throw new Error('Fn::Sub takes a string here, not a list: use parameters');
    return {
      'Fn::Sub': value['Fn::Sub'].replace(/\$\{([^}]+)\}/g, (all: string, name: string) => {
        const [id, ...attribute] = name.split('.');
        const to = change(id!, attribute.length > 0 ? attribute.join('.') : undefined);
        return to === undefined ? all : `\${${to}}`;
      }),
    };
  }
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, mapReferences(v, change)]));
}

function references(value: Json): Set<string> {
  const seen = new Set<string>();
  mapReferences(value, (id) => {
    seen.add(id);
    return undefined;
  });
  return seen;
}

/** Conditions are referred to by name in `Fn::If` and in a resource's `Condition`. */
function conditionsIn(value: Json, seen = new Set<string>()): Set<string> {
  if (Array.isArray(value)) value.forEach((v) => conditionsIn(v, seen));
  else if (value !== null && typeof value === 'object') {
    for (const [k, v] of Object.entries<Json>(value)) {
      if (k === 'Fn::If') seen.add(v[0]);
      if (k === 'Condition' && typeof v === 'string') seen.add(v);
      conditionsIn(v, seen);
    }
  }
  return seen;
}

/** Only the parameters and conditions that the rest of the template uses. */
function prune(template: Template): Template {
  const body = { Resources: template.Resources, Outputs: template.Outputs };
  const conditions = Object.fromEntries([...conditionsIn(body)].sort().map((c) => {
    const condition = template.Conditions?.[c];
    if (condition === undefined) throw new Error(`there is no condition ${c}`);
    return [c, condition];
  }));
  const used = references({ body, conditions });
  const parameters = Object.fromEntries(Object.entries(template.Parameters ?? {}).filter(([p]) => used.has(p)));
  return { ...template, Parameters: parameters, Conditions: conditions };
}

interface Split {
  data?: Template;
  service?: Template;
  /** Properties of the service that are outputs of the data. */
  links: string[];
}

function split(name: string, template: Template): Split {
  const stateful = new Set(Object.entries(template.Resources).filter(([, r]) => STATEFUL.has(r.Type)).map(([id]) => id));
  const pick = (keep: (id: string) => boolean) =>
    Object.fromEntries(Object.entries(template.Resources).filter(([id]) => keep(id)));

  const links = new Map<string, Json>();
  const link = (id: string, attribute?: string) => {
    if (!stateful.has(id)) return undefined;
    const to = `${id}${attribute ?? 'Ref'}`;
    if (template.Parameters?.[to] ?? template.Resources[to]) throw new Error(`${name}: ${to} is taken, rename it`);
    links.set(to, attribute === undefined ? { Ref: id } : { 'Fn::GetAtt': [id, attribute] });
    return to;
  };

  const isOfData = (output: { Value: unknown }) => [...references(output.Value)].some((id) => stateful.has(id));
  const outputs = Object.entries(template.Outputs ?? {});
  const serviceResources = mapReferences(pick((id) => !stateful.has(id)), link);
  const service = prune({
    ...template,
    Parameters: {
      ...template.Parameters,
      ...Object.fromEntries([...links.keys()].map((l) => [l, { Type: 'String', Description: `${l} of ${name}-data` }])),
    },
    Resources: serviceResources,
    Outputs: Object.fromEntries(outputs.filter(([, o]) => !isOfData(o))),
  });
  const dataResources = pick((id) => stateful.has(id));
  for (const id of references(dataResources)) {
    if (template.Resources[id] && !stateful.has(id)) {
      throw new Error(`${name}: a table or queue refers to ${id}, which is deployed after it`);
    }
  }
  const data = prune({
    ...template,
    Resources: dataResources,
    Outputs: {
      ...Object.fromEntries(outputs.filter(([, o]) => isOfData(o))),
      ...Object.fromEntries([...links].map(([l, value]) => [l, { Value: value }])),
    },
  });
  return {
    data: stateful.size > 0 ? data : undefined,
    service: Object.keys(serviceResources).length > 0 ? service : undefined,
    links: [...links.keys()],
  };
}

/** A function's variables are text: a number among them (`{Ref: A Number parameter}`) is written out. */
function variablesAsText(template: Template): Template {
  const isNumber = (v: Json) => template.Parameters?.[v?.Ref]?.Type === 'Number';
  const asText = (v: Json) => (isNumber(v) ? { 'Fn::Sub': `\${${v.Ref}}` } : typeof v === 'number' || typeof v === 'boolean' ? String(v) : v);
  const resources = Object.entries(template.Resources).map(([id, r]) => {
    const variables = r.Properties?.Environment?.Variables;
    if (r.Type !== 'AWS::Lambda::Function' || variables === undefined) return [id, r];
    const Environment = { Variables: Object.fromEntries(Object.entries(variables).map(([k, v]) => [k, asText(v)])) };
    return [id, { ...r, Properties: { ...r.Properties, Environment } }];
  });
  return { ...template, Resources: Object.fromEntries(resources) };
}

const className = (name: string) => name.replace(/(^|-)([a-z])/g, (_, __, c: string) => c.toUpperCase());

/** cdk-from-cfn has its own rules for camel case, so the names are read from the generated text. */
function members(code: string, names: string[], what: string): Record<string, string> {
  const found = new Map([...code.matchAll(/(?:^| )readonly (\w+)\??[:;]/gm)].map((m) => [m[1]!.toLowerCase(), m[1]!]));
  return Object.fromEntries(names.map((n) => {
    const member = found.get(n.toLowerCase());
    if (member === undefined) throw new Error(`${what}: cdk-from-cfn made no member of ${n}`);
    return [n, member];
  }));
}

/** Everything that would be written: file name -> text. */
export function generate(templates = path.join(infra, 'templates')): Map<string, string> {
  const files = new Map<string, string>();
  const imports: string[] = [];
  const entries: string[] = [];
  for (const name of templateNames(templates)) {
    const parts = split(name, variablesAsText(readTemplate(name, templates)));
    const entry: string[] = [`    name: ${JSON.stringify(name)},`];
    for (const part of ['data', 'service'] as const) {
      const template = parts[part];
      if (template === undefined) continue;
      const file = part === 'data' ? `${name}-data` : name;
      const cls = className(file);
      let code: string;
      try {
        code = transmute(JSON.stringify(template), 'typescript', cls, 'construct');
      } catch (error) {
        throw new Error(`infra/templates/${name}.yaml: cdk-from-cfn refuses it: ${String(error)}`);
      }
      code = code.replaceAll('.addDependency(', '.addResourceDependency('); // its name since aws-cdk-lib 2.2xx
      files.set(`${file}.ts`, HEADER + code);
      imports.push(`import { ${cls} } from './${file}.ts';`);
      const properties = members(code, Object.keys(template.Parameters ?? {}), name);
      const outputs = members(code, Object.keys(template.Outputs ?? {}), name);
      entry.push(
        `    ${part}: {`,
        `      create: (scope, id, props) => new ${cls}(scope, id, props as any),`,
        `      properties: ${JSON.stringify(properties)},`,
        `      outputs: ${JSON.stringify(outputs)},`,
        `    },`,
      );
    }
    entry.push(`    links: ${JSON.stringify(parts.links)},`);
    entries.push(`  {\n${entry.join('\n')}\n  },`);
  }
  files.set('index.ts', `${HEADER}import { type Construct } from 'constructs';
${imports.join('\n')}

/** A construct, its properties by the template's parameters, and its members by the template's outputs. */
export interface Part {
  create(scope: Construct, id: string, props: Record<string, unknown>): Construct;
  properties: Record<string, string>;
  outputs: Record<string, string>;
}

export interface Generated {
  name: string;
  data?: Part;
  service?: Part;
  /** Outputs of \`data\` that are properties of \`service\`. */
  links: string[];
}

export const generated: Generated[] = [
${entries.join('\n')}
];
`);
  return files;
}

/** Names of files that differ from what is committed. */
export function stale(files: Map<string, string>, dir = path.join(infra, 'generated')): string[] {
  const present = fs.existsSync(dir) ? fs.readdirSync(dir) : [];
  const read = (f: string) => (present.includes(f) ? fs.readFileSync(path.join(dir, f), 'utf8') : undefined);
  return [...new Set([...present, ...files.keys()])].filter((f) => read(f) !== files.get(f)).sort();
}

function main() {
  const files = generate();
  const dir = path.join(infra, 'generated');
  const changed = stale(files, dir);
  if (process.argv.includes('--check')) {
    if (changed.length > 0) {
      console.error(`infra/generated is stale (${changed.join(', ')}): run make generate and commit the result`);
      process.exit(1);
    }
    return;
  }
  fs.mkdirSync(dir, { recursive: true });
  for (const f of changed) {
    const text = files.get(f);
    if (text === undefined) fs.rmSync(path.join(dir, f));
    else fs.writeFileSync(path.join(dir, f), text);
    console.log(`${text === undefined ? 'removed' : 'wrote'} infra/generated/${f}`);
  }
}

if (process.argv[1]?.endsWith('generate.ts')) main();
