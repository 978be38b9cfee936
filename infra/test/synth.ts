// Every environment, synthesized once in this process.
import * as cdk from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { environments, type Environment, type Name } from '../environments.ts';
import { BUILT_IN, type Feed } from '../feeds.ts';
import { synthesize as fresh, type Resource, type Synthesized } from '../synthesize.ts';

export type { Resource, Synthesized };

export const names = Object.keys(environments) as Name[];

/** Further feeds with every key and every destination. */
export const SAMPLE: Feed[] = [
  { name: 'blog', url: 'https://blog.example.com/feed.xml', period: '15 minutes', destinations: ['mastodon', 'pushover'], text: '{title} {link} {categories}', first_run: 'last:3' },
  {
    name: 'team-news', secret: 'team-news-url', period: '1 minute', destinations: ['slack', 'webhook'], channel: 'C0123456789', webhook: { secret: 'team-news-hook' },
    filter: { ignore_title: '^Draft', only_link: 'news' },
  },
  { name: 'comic', url: 'https://comic.example.com/rss', period: '1 day', destinations: ['webhook'], webhook: { url: 'https://hook.example.com/comic' }, paused: true },
];

/** An environment with these feeds. */
export const listed = (name: Name): Environment => ({ ...environments[name], feeds: [...BUILT_IN, ...SAMPLE] });

/** An environment with everything that is off by default. */
export const complete = (name: Name): Environment => ({ ...environments[name], parameters: { ...environments[name].parameters, SessyncState: 'on' } });

const plain = new Map<Name, Synthesized>();
const audited = new Map<Name, Synthesized>();

export function synthesize(name: Name): Synthesized {
  const known = plain.get(name) ?? audited.get(name) ?? fresh(environments[name]);
  plain.set(name, known);
  return known;
}

/** The same, looked at by cdk-nag and the CDK's own validation, which take longer than all the rest. */
export function audit(name: Name): Synthesized {
  const known = audited.get(name) ?? auditFresh(environments[name]);
  audited.set(name, known);
  return known;
}

/** An environment that is none of ours: another account, another region. */
export function auditFresh(environment: Environment): Synthesized {
  return fresh(environment, (app) => cdk.Validations.of(app).addPlugins(new AwsSolutionsChecks(app)));
}

/** What cdk-nag found and nobody explained. */
export function findings({ report }: Synthesized): string[] {
  if (report === undefined) throw new Error('cdk-nag left no report: does the plugin still run?');
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
