// What a month costs by the project's own model.
const PARTS = [['service', 'service'], ['observability', 'observability'], ['protection', 'protection']];
const dollars = (number) => (number >= 0.005 || number === 0 ? number.toFixed(2) : number.toFixed(4));

export function mount(root, kit) {
  const { el, fill, get } = kit;
  const { error, attempt } = kit.trial();
  const waiting = el('p', { class: 'empty', role: 'status' }, 'The model is computed; this takes some seconds.');
  const total = el('p', { class: 'lead', id: 'cost-total' });
  const applications = el('tbody', { id: 'cost-applications' });
  const lines = kit.longTable({
    id: 'cost-lines', label: 'resources', shown: 15, columns: [['application'], ['part'], ['resource'], ['what'], ['quantity', 'number'], ['$ per month', 'number']],
    text: (line) => `${line.application} ${line.part} ${line.resource} ${line.what}`, filters: [['', 'all parts'], ...PARTS.map(([part, title]) => [part, title, (line) => line.part === part])],
    row: (line) => el('tr', {}, el('th', { scope: 'row' }, line.application), el('td', {}, line.part), el('td', {}, line.resource), el('td', {}, line.what), el('td', { class: 'number' }, kit.count(line.quantity)), el('td', { class: 'number' }, dollars(line.dollars))),
  });
  const table = el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Per application' }, el('table', {},
    el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, 'application'), [...PARTS.map(([, title]) => title), 'all-in'].map((title) => el('th', { scope: 'col', class: 'number' }, title)))), applications));
  const card = el('section', { class: 'card', 'aria-label': 'Cost', hidden: true }, total, table, el('h2', {}, 'By resource'), lines);
  fill(root, kit.head('Cost', 'What a month costs before any free tier, by the project’s own model of prices and usage (make cost), not by the bill.'), error, waiting, card);
  const draw = () => attempt(async () => {
    try {
      const cost = await get('/_console/cost');
      const sum = (all) => all.reduce((dollars, line) => dollars + line.dollars, 0);
      const by = (application, part) => sum(cost.lines.filter((line) => line.application === application && (part === undefined || line.part === part)));
      const names = [...new Set(cost.lines.map(({ application }) => application))].sort((one, other) => by(other) - by(one));
      total.textContent = `$${dollars(sum(cost.lines))} per month: ${cost.environment} in ${cost.region}.`;
      fill(applications, names.map((name) => el('tr', { 'data-application': name }, el('th', { scope: 'row' }, name), [...PARTS.map(([part]) => part), undefined].map((part) => el('td', { class: 'number' }, dollars(by(name, part)))))));
      lines.show([...cost.lines].sort((one, other) => other.dollars - one.dollars));
      card.hidden = false;
    } finally { waiting.hidden = true; }
  });
  root.addEventListener('show', () => { if (card.hidden) draw(); });
}
