// The pipeline's templates as they are in one environment.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { parse } from 'yaml';
import type { Name } from '../environments.ts';
import { infra, type Template } from '../template.ts';

export interface Statement {
  Sid: string;
  Action: string | string[];
  Resource: string | string[];
  Condition?: any;
}

export const read = (file: string) => fs.readFileSync(path.join(infra, 'pipeline', file), 'utf8');
export const role = parse(read('role.yaml')) as Template;

/** The statements of the role that deploys an environment. */
export const policy = (environment: Name, account?: string): Statement[] => resolved(role.Resources.Deployer!.Properties!.Policies[0].PolicyDocument.Statement, environment, account);

/** A part of a template as it is in one environment. */
export function resolved(value: any, environment: Name, account = '123456789012'): any {
  if (Array.isArray(value)) return value.map((v) => resolved(v, environment, account));
  if (typeof value !== 'object' || value === null) return value;
  if ('Fn::If' in value) {
    const [condition, yes, no] = value['Fn::If'];
    assert.ok(['IsProd', 'HasBoundary'].includes(condition), condition);
    return resolved(condition === 'IsProd' && environment === 'prod' ? yes : no, environment, account);
  }
  if ('Fn::Sub' in value) {
    const [text, more] = [value['Fn::Sub']].flat();
    const variables: Record<string, string> = {
      Environment: environment, Repository: 'olga/ichido', 'AWS::Partition': 'aws', 'AWS::Region': 'ap-northeast-1', 'AWS::AccountId': account,
      ...resolved(more ?? {}, environment, account),
    };
    return text.replace(/\$\{([\w:]+)\}/g, (_: string, name: string) => variables[name] ?? assert.fail(`\${${name}} is not known`));
  }
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, resolved(v, environment, account)]));
}
