// Draws samples as an SVG: panels with lines over time, kills as vertical lines, faults as grey bands.

const [WIDTH, PANEL, LEFT, TOP, RIGHT] = [1000, 220, 70, 40, 190];
const COLOURS = ['#0b6e99', '#b04a00', '#2f7d32', '#7b3fa0', '#a31515', '#00695c', '#5d4037', '#37474f'];

const escaped = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;');

/** `panels`: [{title, unit, series: [{name, points: [[at, value]]}]}]; `kills`: times; `phases`: [{from, to}]. */
export function svg({ title, panels, kills, phases }) {
  const times = panels.flatMap(({ series }) => series.flatMap(({ points }) => points.map(([at]) => at)));
  const [from, to] = times.reduce(([low, high], at) => [Math.min(low, at), Math.max(high, at)], [Infinity, -Infinity]);
  const x = (at) => LEFT + ((Math.min(Math.max(at, from), to) - from) / Math.max(1, to - from)) * (WIDTH - LEFT - RIGHT);
  const height = TOP + panels.length * (PANEL + 50);
  const drawn = panels.map(({ title: name, unit, series }, n) => {
    const top = TOP + n * (PANEL + 50) + 20;
    const most = Math.max(1e-9, ...series.flatMap(({ points }) => points.map(([, value]) => value))) * 1.05;
    const y = (value) => top + PANEL - (value / most) * PANEL;
    const grid = [0, 0.25, 0.5, 0.75, 1].map((part) => `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(most * part)}" y2="${y(most * part)}" stroke="#ddd"/><text x="${LEFT - 6}" y="${y(most * part) + 4}" text-anchor="end">${(most * part).toFixed(most < 10 ? 1 : 0)}</text>`);
    const bands = phases.map((phase) => `<rect x="${x(phase.from).toFixed(1)}" width="${(x(phase.to) - x(phase.from)).toFixed(1)}" y="${top}" height="${PANEL}" fill="#eee"/>`);
    const marks = kills.map((at) => `<line x1="${x(at).toFixed(1)}" x2="${x(at).toFixed(1)}" y1="${top}" y2="${top + PANEL}" stroke="#c00" stroke-dasharray="4 3"/>`);
    const lines = series.map(({ name: of, points }, k) => {
      const colour = COLOURS[k % COLOURS.length];
      const path = points.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(' ');
      return `<polyline points="${path}" fill="none" stroke="${colour}" stroke-width="1.5"/><text x="${WIDTH - RIGHT + 8}" y="${top + 14 + k * 16}" fill="${colour}">${escaped(of)}</text>`;
    });
    const minutes = Array.from({ length: 7 }, (_, k) => from + ((to - from) * k) / 6).map((at) => `<text x="${x(at).toFixed(1)}" y="${top + PANEL + 15}" text-anchor="middle">${((at - from) / 60_000).toFixed(1)}</text>`);
    return `<text x="${LEFT}" y="${top - 6}" font-weight="bold">${escaped(name)} (${unit}) over minutes</text>${[...bands, ...grid, ...marks, ...lines, ...minutes].join('')}`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/><text x="${LEFT}" y="20" font-size="15">${escaped(title)}</text>${drawn.join('')}</svg>\n`;
}
