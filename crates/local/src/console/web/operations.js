// The tab for alarms and metrics: what CloudWatch would show.
import { el, fill, get, post, announce } from './kit.js';

const REFRESH_MS = 4000;

export function operations(root) {
  const alarms = el('tbody');
  const metrics = el('tbody');
  const head = (...names) => el('thead', {}, el('tr', {}, names.map((name) => el('th', { scope: 'col', class: ['count', 'sum', 'p50', 'p99', 'max'].includes(name) ? 'number' : '' }, name))));
  const ahead = el('span', { class: 'soft', id: 'ahead' });
  const later = (minutes) => el('button', { onclick: async () => {
    const moved = await post(`/_local/alarms/advance?minutes=${minutes}`);
    ahead.textContent = `The alarms are ${Math.round(moved.aheadSeconds / 60)} minutes ahead of the clock.`;
    announce(ahead.textContent);
    await draw();
  } }, `${minutes} minute${minutes === 1 ? '' : 's'} later`);
  root.append(
    el('section', { class: 'card', 'aria-labelledby': 'alarms-title' },
      el('div', { class: 'row end' }, el('h2', { id: 'alarms-title' }, 'Alarms'), el('div', { class: 'row' }, ahead, later(1), later(5), later(30))),
      el('p', { class: 'soft' }, 'The alarms follow the rules of CloudWatch. Instead of waiting, move their time forward. Only alarms and metrics use this time.'),
      el('div', { class: 'scroll' }, el('table', {}, head('alarm', 'state', 'datapoints, newest first', 'meaning', 'runbook'), alarms))),
    el('section', { class: 'card', 'aria-labelledby': 'metrics-title' }, el('h2', { id: 'metrics-title' }, 'Metrics'),
      el('p', { class: 'soft' }, 'What CloudWatch would have received since the start.'),
      el('div', { class: 'scroll' }, el('table', {}, head('metric', 'dimensions', 'count', 'sum', 'p50', 'p99', 'max'), metrics))));
  const number = (value) => el('td', { class: 'number' }, value === null || value === undefined ? '' : String(Math.round(value * 100) / 100));
  async function draw() {
    if (root.hidden) return;
    const [rings, values] = await Promise.all([get('/_local/alarms'), get('/_local/metrics')]);
    const order = { ALARM: 0, INSUFFICIENT_DATA: 1, OK: 2 };
    rings.sort((one, other) => order[one.state] - order[other.state] || one.name.localeCompare(other.name));
    fill(alarms, rings.map((alarm) => el('tr', {}, el('th', { scope: 'row' }, el('code', {}, alarm.name)),
      el('td', {}, el('span', { class: `badge ${{ ALARM: 'bad', OK: 'new' }[alarm.state] ?? 'dup'}` }, alarm.state)),
      el('td', { class: 'soft', title: alarm.reason }, alarm.datapoints.map((point) => (point === null ? '–' : Math.round(point * 100) / 100)).join('  ')),
      el('td', {}, alarm.description.split(' Runbook ')[0]), el('td', {}, el('code', {}, alarm.runbook ?? '')))));
    fill(metrics, values.map((metric) => el('tr', {}, el('th', { scope: 'row' }, metric.name), el('td', { class: 'soft' }, Object.values(metric.dimensions).join(', ')),
      number(metric.count), number(metric.sum), number(metric.p50), number(metric.p99), number(metric.max))));
  }
  root.addEventListener('show', draw);
  setInterval(draw, REFRESH_MS);
  draw();
}
