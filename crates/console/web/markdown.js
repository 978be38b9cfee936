// Shows the Markdown of our runbooks: headings, paragraphs, lists, tables, code, links. Text is never read as markup of HTML.
import { el } from './kit.js';

/** Turns Markdown into page elements. `link(target)` gives the address that a link leads to; without one, the link is shown as text. */
export function markdown(text, link = () => undefined) {
  const lines = text.split('\n');
  const out = [];
  let at = 0;
  const take = (test) => { const from = at; while (at < lines.length && test(lines[at])) at += 1; return lines.slice(from, at); };
  while (at < lines.length) {
    const line = lines[at];
    const heading = /^(#{1,4}) (.*)$/.exec(line);
    if (line.trim() === '') { at += 1; }
    else if (line.startsWith('```')) {
      at += 1;
      const code = take((next) => !next.startsWith('```'));
      at += 1;
      out.push(el('pre', { tabindex: '0' }, el('code', {}, code.join('\n'))));
    } else if (heading) {
      at += 1;
      if (heading[1].length > 1) out.push(el('h4', {}, inline(heading[2], link)));
    } else if (line.startsWith('|')) {
      const rows = take((next) => next.startsWith('|')).map((row) => row.split(/(?<!\\)\|/).slice(1, -1).map((cell) => cell.trim()));
      const [titles, , ...rest] = rows;
      out.push(el('div', { class: 'scroll', tabindex: '0' }, el('table', {}, el('thead', {}, el('tr', {}, titles.map((cell) => el('th', { scope: 'col' }, inline(cell, link))))),
        el('tbody', {}, rest.map((row) => el('tr', {}, row.map((cell) => el('td', {}, inline(cell, link)))))))));
    } else if (/^(-|\d+\.) /.test(line)) {
      const ordered = /^\d/.test(line);
      const start = ordered ? Number.parseInt(line, 10) : undefined;
      const items = [];
      for (const next of take((other) => /^(-|\d+\.) |^ {2,}\S/.test(other))) {
        if (/^(-|\d+\.) /.test(next)) items.push(next.replace(/^(-|\d+\.) /, '')); else items[items.length - 1] += ` ${next.trim()}`;
      }
      out.push(el(ordered ? 'ol' : 'ul', start > 1 ? { start } : {}, items.map((item) => el('li', {}, inline(item, link)))));
    } else {
      // The first line belongs to the paragraph, whatever it looks like: every turn takes at least one line.
      at += 1;
      const rest = take((next) => next.trim() !== '' && !/^(```|#{1,4} |\||- |\d+\. )/.test(next));
      out.push(el('p', {}, inline([line, ...rest].join(' '), link)));
    }
  }
  return out;
}

/** Code, links and bold text inside a line. */
function inline(text, link) {
  const parts = [];
  const pieces = /`([^`]+)`|\[([^\]]+)\]\(([^)]+)\)|\*\*([^*]+)\*\*|<(https?:[^>]+)>/g;
  let from = 0;
  for (let found = pieces.exec(text); found; found = pieces.exec(text)) {
    parts.push(text.slice(from, found.index));
    from = found.index + found[0].length;
    if (found[1]) parts.push(el('code', {}, found[1]));
    else if (found[2]) { const href = link(found[3]); parts.push(href ? el('a', { href }, found[2]) : el('span', {}, found[2])); }
    else if (found[4]) parts.push(el('b', {}, found[4]));
    else parts.push(found[5]);
  }
  parts.push(text.slice(from));
  return parts;
}
