// make cost: what a month of an environment costs.
//
//   ENV=…             the environment
//   FREE_TIER=on      subtract what AWS gives away every month (off by default)
//   USAGE=file        the usage to count with, instead of infra/cost/usage.json
import fs from 'node:fs';
import { classLines, rateRulesLines } from '../class.ts';
import { cost, pricesOf, read, estimates, sum, totals, type Line, type EstimateRow, type Usage } from '../cost.ts';
import { edgeLines } from '../edge.ts';
import { further } from '../feeds.ts';
import { manyFeedsLines } from '../many-feeds.ts';
import { synthesize } from '../synthesize.ts';
import { readTemplate, templateNames } from '../template.ts';
import { say, sayJson } from '../terminal.ts';
import { environment, Refusal, run } from './world.ts';

const dollars = (n: number) => (n >= 0.005 || n === 0 ? n.toFixed(2) : n.toFixed(4)).padStart(10);

run(async () => {
  const env = environment();
  const free = process.env.FREE_TIER ?? 'off';
  if (!['on', 'off'].includes(free)) throw new Refusal('FREE_TIER must be on or off');
  const usage = process.env.USAGE ? (JSON.parse(fs.readFileSync(process.env.USAGE, 'utf8')) as Usage) : read<Usage>('usage.json');
  const applications = Object.fromEntries(templateNames().flatMap((n) => Object.keys(readTemplate(n).Resources).map((id) => [id, n])));
  const lines = cost({ resources: synthesize(env).resources, applications, usage, prices: pricesOf(env.region), free: free === 'on', suffix: env.suffix });

  if (process.argv.includes('--json')) {
    sayJson({ environment: env.name, region: env.region, freeTier: free, lines }, 2);
    return;
  }
  say(`${env.name} in ${env.region}, US dollars per month, free tier ${free}; usage from ${process.env.USAGE ?? 'infra/cost/usage.json'}\n`);
  for (const application of [...new Set(lines.map((l) => l.application))]) {
    const own = lines.filter((l) => l.application === application && l.part === 'service');
    if (own.length > 0) print(application, own);
  }
  const watching = lines.filter((l) => l.part === 'observability');
  print('observability (alarms, metrics, dashboard, logs, traces, secrets)', compact(watching));
  const safety = lines.filter((l) => l.part === 'protection');
  if (safety.length > 0) print('protection (point-in-time recovery, rate rules, limit per address)', safety);
  say(`${'everything'.padEnd(78)}${dollars(sum(lines))}   of which observability ${sum(watching).toFixed(2)}, protection ${sum(safety).toFixed(2)}`);
  // Others rely on the words `service` and `all-in`.
  say(`\n${'per application'.padEnd(58)}${'service'.padStart(20)}${'all-in'.padStart(10)}`);
  for (const { application, service, allIn } of totals(lines)) {
    const limit = application === 'feeds' && further(env).length === 0 ? `   ${allIn <= 1 ? 'within' : 'ABOVE'} the limit of 1.00` : '';
    say(`  ${application.padEnd(66)}${dollars(service)}${dollars(allIn)}${limit}`);
  }

  say(`\n${manyFeedsLines(env, usage).join('\n')}`);
  say(`\n${classLines(pricesOf(env.region)).join('\n')}`);
  const isOn = (resource: string) => lines.some((l) => l.resource === resource);
  say(`\n${rateRulesLines(pricesOf(env.region), usage.mesh.operations, isOn('MeshWebAcl')).join('\n')}`);
  say(`\n${edgeLines(pricesOf(env.region), usage.httpApi.requests, isOn('EdgeDistribution')).join('\n')}`);
  const { checked } = read<{ checked: Record<string, string> }>('prices.json');
  say(`\nPrices: infra/cost/prices.json, last checked on ${checked.on}. ${env.region}: ${checked[env.region]}.`);
  say(`\nThe first estimates, as they were made and at today's prices (us-east-1)\n`);
  for (const estimate of estimates()) {
    say(estimate.title.padEnd(58) + 'then'.padStart(10) + 'today'.padStart(10));
    for (const row of estimate.rows) say(`  ${row.what.padEnd(56)}${dollars(row.then)}${dollars(row.now)}   ${[differs(row), row.note].filter(Boolean).join('; ')}`.trimEnd());
    say(`  ${'total'.padEnd(56)}${dollars(estimate.then)}${dollars(estimate.now)}\n`);
  }
});

/** How a price changed, in the unit that price lists use. */
function differs({ price, priceNow }: EstimateRow): string {
  if (Math.abs(price - priceNow) < price * 1e-6) return '';
  const a = price < 1e-3 ? 1e6 : 1;
  const shown = (n: number) => `$${Number((n * a).toPrecision(4))}`;
  return `${shown(price)} then, ${shown(priceNow)} today${a > 1 ? ' per million' : ''}`;
}

/** There are many alarms and metrics: one line per application. */
function compact(lines: Line[]): Line[] {
  const merged = new Map<string, Line>();
  for (const l of lines) {
    const key = `${l.application} ${l.unit}`;
    const known = merged.get(key);
    if (known) Object.assign(known, { quantity: known.quantity + l.quantity, free: known.free + l.free, dollars: known.dollars + l.dollars });
    else merged.set(key, { ...l, resource: l.application });
  }
  return [...merged.values()];
}

function print(title: string, lines: Line[]) {
  say(title);
  for (const l of lines) {
    const quantity = l.quantity >= 100 ? Math.round(l.quantity).toLocaleString('en-US') : String(Number(l.quantity.toPrecision(3)));
    say(`  ${l.resource.padEnd(28)}${l.what.padEnd(34)}${quantity.padStart(14)}${dollars(l.dollars)}${l.free > 0 ? '   free tier' : ''}`);
  }
  say(`  ${''.padEnd(76)}${dollars(sum(lines))}\n`);
}
