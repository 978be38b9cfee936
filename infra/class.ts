// What an hour of a school class on the mesh costs: with batching and without, with frequent heartbeats and with rare ones.
// Pure; cli/cost.ts prints it.
import { read, type Prices } from './cost.ts';

interface Units { operations?: number; writes: number; reads: number }
interface Intervals { host: number; member: number }
export interface ClassHour {
  groups: number; nodes: number;
  reportsPerSecond: number; batchesPerSecond: number;
  valuesPerReport: number; eventsPerBatch: number;
  report: Units; batch: Units; heartbeat: Units;
  heartbeats: { often: Intervals; rare: Intervals };
  /** One class in one group: how often the values of each node change, and for how long the client may collect them. */
  one: { nodes: number; changesPerSecond: number[]; coalescingMs: number[]; default: number };
}

export interface Hour {
  publishing: number;
  delivering: number;
  storing: number;
  connections: number;
  heartbeats: number;
  total: number;
}

const HOUR = 3600;

export const classHour = () => read<ClassHour>('class.json');

/** How many heartbeats one hour has. */
export function beats({ groups, nodes }: ClassHour, { host, member }: Intervals): number {
  return groups * (HOUR / host + ((nodes - 1) * HOUR) / member);
}

/** The cost of one hour in dollars. */
export function hour(c: ClassHour, prices: Prices, isBatched: boolean, intervals: Intervals): Hour {
  const price = (unit: string) => {
    const found = prices[unit];
    if (found === undefined) throw new Error(`there is no price of ${unit}`);
    return found;
  };
  const store = ({ writes, reads }: Units, count: number) => count * (writes * price('dynamodbWrite') + reads * price('dynamodbRead'));
  const reports = c.groups * c.reportsPerSecond * HOUR * (isBatched ? 1 : c.valuesPerReport);
  const batches = c.groups * c.batchesPerSecond * HOUR * (isBatched ? 1 : c.eventsPerBatch);
  const count = beats(c, intervals);
  const publishing = (reports + batches) * price('appsyncOperation');
  const delivering = (reports + batches) * c.nodes * price('appsyncUpdate');
  const storing = store(c.report, reports) + store(c.batch, batches);
  const connections = c.groups * c.nodes * 60 * price('appsyncConnectionMinute');
  const heartbeats = count * (c.heartbeat.operations ?? 1) * price('appsyncOperation') + store(c.heartbeat, count);
  return { publishing, delivering, storing, connections, heartbeats, total: publishing + delivering + storing + connections + heartbeats };
}

/** The cost of one hour of one class in one group, in dollars, if every node's values change so often and are collected for so long. */
export function oneClass(c: ClassHour, prices: Prices, changesPerSecond: number, coalescingMs: number): Hour {
  const reportsPerSecond = c.one.nodes * Math.min(changesPerSecond, 1000 / coalescingMs);
  return hour({ ...c, groups: 1, nodes: c.one.nodes, reportsPerSecond, batchesPerSecond: 0 }, prices, true, c.heartbeats.rare);
}

/** The table of docs/mesh.md. */
export function coalescingTable(prices: Prices): string[] {
  const c = classHour();
  const { changesPerSecond, coalescingMs, default: chosen } = c.one;
  return [
    `| changes per second and node | ${coalescingMs.map((ms) => `${ms} ms${ms === chosen ? ' (default)' : ''}`).join(' | ')} |`,
    `|---|${coalescingMs.map(() => '---').join('|')}|`,
    ...changesPerSecond.map((changes) => `| ${changes} | ${coalescingMs.map((ms) => `$${oneClass(c, prices, changes, ms).total.toFixed(2)}`).join(' | ')} |`),
  ];
}

/** What refusing floods costs; see MeshRateRules in infra/templates/mesh.yaml. */
export function rateRulesLines(prices: Prices, operations: number, isOn: boolean): string[] {
  const fixed = prices.wafAcl! + prices.wafRule!;
  const total = fixed + operations * prices.wafRequest!;
  return [
    `Rate rules of the mesh (MeshRateRules, ${isOn ? 'on: counted above' : 'off'} here): ${fixed.toFixed(2)} per month and ${(prices.wafRequest! * 1e6).toFixed(2)} per million requests; ${total.toFixed(2)} at this usage.`,
    'Introspection off (MeshIntrospection) costs nothing.',
  ];
}

/** The lines that `make cost` prints. */
export function classLines(prices: Prices): string[] {
  const c = classHour();
  const { often, rare } = c.heartbeats;
  const columns: [string, Hour][] = [
    ['with batching', hour(c, prices, true, rare)],
    ['without', hour(c, prices, false, rare)],
    [`beats ${often.host}/${often.member} s`, hour(c, prices, true, often)],
  ];
  const rows: [string, keyof Hour][] = [['mutations', 'publishing'], ['messages to subscribers', 'delivering'], ['the table', 'storing'], ['connections', 'connections'], ['heartbeats', 'heartbeats'], ['total', 'total']];
  const saved = 1 - columns[0]![1].heartbeats / columns[2]![1].heartbeats;
  const batching = 1 - columns[0]![1].total / columns[1]![1].total;
  return [
    `An hour of a class on the mesh: ${c.groups} groups of ${c.nodes} nodes, ${c.reportsPerSecond} reports and ${c.batchesPerSecond} event batches per second and group`,
    `  ${''.padEnd(40)}${columns.map(([name]) => name.padStart(16)).join('')}`,
    ...rows.map(([name, key]) => `  ${name.padEnd(40)}${columns.map(([, h]) => h[key].toFixed(2).padStart(16)).join('')}`),
    `  Batching (${c.valuesPerReport} values per report, ${c.eventsPerBatch} events per batch) saves ${Math.round(batching * 100)} %. Heartbeats every ${rare.host} s of the host and ${rare.member} s of members`,
    `  instead of ${often.host} s and ${often.member} s save ${Math.round(saved * 100)} % of what heartbeats cost (required: 70 %).`,
    `An hour of one class of ${c.one.nodes} in one group, by the client's coalescing interval (docs/mesh.md)`,
    ...coalescingTable(prices).map((row) => `  ${row}`),
  ];
}
