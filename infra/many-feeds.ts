// What many feeds cost: the part of an environment's costs that its further feeds add, by their number. `make cost` prints it.
import { cost, furtherFeeds, pricesOf, sum, type Usage } from './cost.ts';
import { type Environment } from './environments.ts';
import { BUILT_IN, schedules, type Feed } from './feeds.ts';
import { synthesize, type Resource } from './synthesize.ts';
import { readTemplate, templateNames } from './template.ts';

const COUNTS = [1, 100, 200, 300];
const PERIOD = '15 minutes';

export interface Row { feeds: number; runs: number; calls: number; dollars: number }

/** For each number of feeds: what they add per month, without any free tier. All are read every 15 minutes and post to one destination. */
export function manyFeeds(environment: Environment, usage: Usage, counts: number[]): Row[] {
  const applications = Object.fromEntries(templateNames().flatMap((n) => Object.keys(readTemplate(n).Resources).map((id) => [id, n])));
  const dollars = (resources: Record<string, Resource>) => sum(cost({ resources, applications, usage, prices: pricesOf(environment.region), free: false, suffix: environment.suffix }));
  const withFeeds = (n: number): Environment => ({ ...environment, feeds: [...BUILT_IN, ...Array.from({ length: n }, (_, i) => feed(i))] });
  const none = dollars(synthesize(withFeeds(0)).resources);
  // Further feeds differ in their schedules alone; a test compares with what 300 are synthesized to.
  const one = synthesize(withFeeds(1)).resources;
  const table = usage.tables.FeedsStateTable;
  if (table === undefined || !('perRun' in table)) throw new Error('the usage of FeedsStateTable is given per run and per entry');
  return counts.map((count) => {
    const resources = { ...one, ...(schedules(withFeeds(count)) as Record<string, Resource>) };
    const { feeds, runs, entries } = furtherFeeds(resources, usage);
    return { feeds, runs, calls: runs * table.perRun.calls + entries * table.perEntry.calls, dollars: dollars(resources) - none };
  });
}

const feed = (i: number): Feed => ({ name: `feed-${i}`, url: 'https://example.com/feed.xml', period: PERIOD, destinations: ['mastodon'] });

/** What one more feed adds. */
export function slope(rows: Row[]): { calls: number; dollars: number } {
  const [first, last] = [rows[0]!, rows.at(-1)!];
  const n = last.feeds - first.feeds;
  return { calls: (last.calls - first.calls) / n, dollars: (last.dollars - first.dollars) / n };
}

export function manyFeedsLines(environment: Environment, usage: Usage): string[] {
  const rows = manyFeeds(environment, usage, COUNTS);
  const each = slope(rows);
  const column = (n: number) => Math.round(n).toLocaleString('en-US').padStart(20);
  return [
    `Further feeds, each read every ${PERIOD}, ${usage.furtherFeeds.entries} entries per month to one destination: what they add per month`,
    `  ${'feeds'.padEnd(16)}${'runs'.padStart(20)}${'calls to the store'.padStart(20)}${'dollars'.padStart(20)}`,
    ...rows.map((row) => `  ${String(row.feeds).padEnd(16)}${column(row.runs)}${column(row.calls)}${row.dollars.toFixed(2).padStart(20)}`),
    `  Each feed adds ${Math.round(each.calls).toLocaleString('en-US')} calls and $${each.dollars.toFixed(4)}; the alarm on all of them costs $${(rows[0]!.dollars - each.dollars).toFixed(2)}.`,
  ];
}
