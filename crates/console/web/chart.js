// Charts in SVG: lines over time with outages shaded, and sparklines against a threshold.
import { clock, count, el, fill, nameOf, placed, svg } from './kit.js';

const LEFT = 40;
const RIGHT = 8;
const LABEL = 14;
const BOTTOM = 22;

/** The smallest "round" number that is not smaller. */
function round(value) {
  if (value <= 4) return 4;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const factor of [1, 2, 2.5, 5, 10]) if (power * factor >= value) return power * factor;
  return value;
}

/**
 * Lines over time. `series`: [{name, label}], drawn in the colour `--NAME`. Call `draw({from, stepSeconds, at, values: {NAME: []},
 * outages})` as often as there is news. The arrow keys move a cursor, as the mouse does; what it points at is said in words.
 */
export function lineChart({ id, label, series, height = 210, unit = '' }) {
  let data;
  let cursor = -1;
  const hiddenNames = new Set();
  const picture = svg('svg', { class: 'chart', id, height, role: 'img', 'aria-label': label, tabindex: '0' });
  const readout = el('p', { class: 'readout', role: 'status', 'aria-live': 'off' });
  const legend = el('div', { class: 'legend' }, series.map(({ name, label: title }) => {
    const key = el('button', { class: 'legend-key', 'aria-pressed': 'true', style: `--of: var(--${name})`, onclick: () => {
      if (hiddenNames.has(name)) hiddenNames.delete(name); else hiddenNames.add(name);
      key.setAttribute('aria-pressed', String(!hiddenNames.has(name)));
      paint();
    } }, el('span', { class: 'swatch', 'aria-hidden': 'true' }), title);
    return key;
  }));
  const element = el('figure', { class: 'figure' }, legend, picture, readout);

  const width = () => Math.max(260, picture.clientWidth || picture.parentElement?.clientWidth || 600);
  function paint() {
    if (!data) return;
    const { from, stepSeconds, values, outages = [] } = data;
    const wide = width();
    const shown = series.filter(({ name }) => !hiddenNames.has(name) && values[name]);
    const steps = Math.max(...series.map(({ name }) => values[name]?.length ?? 0), 2);
    const begin = Date.parse(from);
    const end = begin + steps * stepSeconds * 1000;
    const top = round(Math.max(0, ...shown.flatMap(({ name }) => values[name].filter((value) => value !== null))));
    const bands = outages.map((outage) => [outage, Math.max(LEFT, LEFT + ((Date.parse(outage.from) - begin) / (end - begin)) * (wide - LEFT - RIGHT))])
      .filter(([outage, left]) => left < wide - RIGHT && (!outage.to || Date.parse(outage.to) > begin));
    const label = (outage) => `${nameOf(outage.what)}: ${outage.how}`;
    const words = bands.map(([outage, left]) => { const long = label(outage).length * 6.4; return { x: Math.max(LEFT, Math.min(left + 3, wide - RIGHT - long)), width: long }; });
    const labelRows = placed(words);
    const TOP = 10 + LABEL * (Math.max(-1, ...labelRows) + 1);
    const x = (time) => LEFT + ((time - begin) / (end - begin)) * (wide - LEFT - RIGHT);
    const y = (value) => TOP + (1 - value / top) * (height - TOP - BOTTOM);
    const at = (index) => x(begin + (index + 0.5) * stepSeconds * 1000);
    const parts = [];
    bands.forEach(([outage, left], index) => {
      const right = Math.min(x(Date.parse(outage.to ?? data.at)), wide - RIGHT);
      parts.push(svg('rect', { class: 'outage', x: left, y: TOP, width: Math.max(2, right - left), height: height - TOP - BOTTOM }),
        svg('path', { class: 'outage-edge', d: `M${left} ${TOP}V${height - BOTTOM}` }),
        svg('text', { class: 'outage-label', x: words[index].x, y: LABEL * labelRows[index] + LABEL - 2 }, label(outage)));
    });
    for (const part of [0, 0.5, 1]) {
      parts.push(svg('path', { class: 'grid', d: `M${LEFT} ${y(top * part)}H${wide - RIGHT}` }),
        svg('text', { class: 'axis', x: LEFT - 6, y: y(top * part) + 4, 'text-anchor': 'end' }, count(top * part)));
    }
    const ticks = wide > 560 ? 5 : 3;
    for (let tick = 0; tick <= ticks; tick += 1) {
      const time = begin + ((end - begin) * tick) / ticks;
      const anchor = tick === 0 ? 'start' : tick === ticks ? 'end' : 'middle';
      parts.push(svg('text', { class: 'axis', x: x(time), y: height - 6, 'text-anchor': anchor }, clock(time).slice(0, 8)));
    }
    for (const { name } of shown) {
      const points = values[name].map((value, index) => (value === null ? null : [at(index), y(value)]));
      let line = '';
      points.forEach((point, index) => { if (point) line += `${index > 0 && points[index - 1] ? 'L' : 'M'}${point[0].toFixed(1)} ${point[1].toFixed(1)}`; });
      parts.push(svg('path', { class: 'line', style: `--of: var(--${name})`, d: line }));
    }
    if (cursor >= 0) {
      parts.push(svg('path', { class: 'cursor', d: `M${at(cursor)} ${TOP}V${height - BOTTOM}` }));
      for (const { name } of shown) if (typeof values[name][cursor] === 'number') parts.push(svg('circle', { class: 'point', style: `--of: var(--${name})`, r: 3.5, cx: at(cursor), cy: y(values[name][cursor]) }));
    }
    picture.setAttribute('viewBox', `0 0 ${wide} ${height}`);
    fill(picture, parts);
    say();
  }
  function say() {
    const { from, stepSeconds, values } = data;
    const time = (index) => clock(Date.parse(from) + index * stepSeconds * 1000).slice(0, 8);
    const part = ({ name, label: title }) => `${title} ${count(values[name]?.[cursor] ?? null)}${unit}`;
    readout.textContent = cursor >= 0 ? `${time(cursor)} – ${time(cursor + 1)}: ${series.map(part).join(', ')}` : `Each point is ${stepSeconds} s. Point at the chart, or focus it and use the arrow keys.`;
  }
  const steps = () => Math.max(...series.map(({ name }) => data?.values[name]?.length ?? 0));
  picture.addEventListener('pointermove', (event) => {
    if (!data) return;
    const box = picture.getBoundingClientRect();
    const share = (((event.clientX - box.left) / box.width) * width() - LEFT) / (width() - LEFT - RIGHT);
    const next = Math.floor(share * steps());
    cursor = next >= 0 && next < steps() ? next : -1;
    paint();
  });
  picture.addEventListener('pointerleave', () => { cursor = -1; paint(); });
  picture.addEventListener('keydown', (event) => {
    if (!data) return;
    const last = steps() - 1;
    const to = { ArrowLeft: (cursor < 0 ? last + 1 : cursor) - 1, ArrowRight: cursor + 1, Home: 0, End: last, Escape: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    readout.setAttribute('aria-live', 'polite');
    cursor = event.key === 'Escape' ? -1 : Math.min(last, Math.max(0, to));
    paint();
  });
  picture.addEventListener('blur', () => readout.setAttribute('aria-live', 'off'));
  new ResizeObserver(() => paint()).observe(element);
  element.draw = (next) => { data = next; if (cursor >= steps()) cursor = -1; paint(); };
  return element;
}

/** A small line, with a threshold if there is one. `label` says in words what is drawn. */
export function sparkline(values, { label, threshold, kind = 'accent', width = 120, height = 28, above = true } = {}) {
  const real = values.filter((value) => typeof value === 'number');
  const most = Math.max(...real, threshold ?? 0, 1e-9);
  const step = width / Math.max(1, values.length - 1);
  const y = (value) => height - 3 - (value / most) * (height - 6);
  let line = '';
  values.forEach((value, index) => { if (typeof value === 'number') line += `${index > 0 && typeof values[index - 1] === 'number' ? 'L' : 'M'}${(index * step).toFixed(1)} ${y(value).toFixed(1)}`; });
  const dots = values.map((value, index) => (typeof value === 'number' && typeof values[index - 1] !== 'number' && typeof values[index + 1] !== 'number'
    ? svg('circle', { class: 'spark-dot', style: `--of: var(--${kind})`, cx: index * step, cy: y(value), r: 2 }) : undefined));
  const over = threshold === undefined ? undefined : [
    svg('rect', { class: 'breach', x: 0, width, y: above ? 0 : y(threshold), height: Math.max(0, above ? y(threshold) : height - y(threshold)) }),
    svg('path', { class: 'threshold', d: `M0 ${y(threshold)}H${width}` })];
  return svg('svg', { class: 'spark', width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label ?? `${real.length} values, the last is ${count(real.at(-1) ?? null)}` },
    over, svg('path', { class: 'line', style: `--of: var(--${kind})`, d: line }), dots);
}
