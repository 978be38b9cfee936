// Metrics: what CloudWatch has, searched and folded.
import { sparkline } from '../chart.js';

const REFRESH_MS = 5000;

export function mount(root, kit) {
  const { el, fill, get } = kit;
  const { error } = kit.trial();
  const number = (value) => el('td', { class: 'number' }, kit.count(value));
  const table = kit.longTable({
    id: 'metrics', label: 'metrics', shown: 15,
    columns: [['metric'], ['dimensions'], ['last hour'], ['count', 'number'], ['sum', 'number'], ['p50', 'number'], ['p99', 'number'], ['max', 'number']],
    text: (metric) => `${metric.namespace} ${metric.name} ${Object.values(metric.dimensions).join(' ')}`,
    empty: 'No metric yet. Functions send them when they run.',
    filters: [['', 'all'], ['Ichido', 'ours', (metric) => metric.namespace === 'Ichido'], ['AWS', 'those that AWS sends', (metric) => metric.namespace.startsWith('AWS/')]],
    row: (metric) => el('tr', {}, el('th', { scope: 'row' }, metric.name, el('br'), el('span', { class: 'soft' }, metric.namespace)), el('td', { class: 'soft' }, Object.values(metric.dimensions).join(', ')),
      el('td', {}, sparkline(metric.minutes.slice(-30), { width: 100, height: 22, label: `${metric.name} per minute` })), number(metric.count), number(metric.sum), number(metric.p50), number(metric.p99), number(metric.max)),
  });
  fill(root, kit.head('Metrics', kit.has('local') ? 'What CloudWatch would have received since the start.' : 'What CloudWatch has.'), error, el('section', { class: 'card', 'aria-label': 'Metrics' }, table));
  kit.refreshing(root, REFRESH_MS, async () => table.show(await get('/_console/metrics')), error);
}
