// The life of a key: a lane per worker, attempts as bars over their leases, the effect, probes, take-overs, late workers, duplicates
// as ticks, outages shaded, and the recorded outcome. The same is in a table below.

const LABEL = 148;
const RIGHT = 16;
const ROOM = 12;
const MANY_LANES = 12;
/** How many moments the table shows at first. */
const FOLDED = 40;
const LANE = 46;
const AXIS = 24;
const SHORTEST_MS = 2;
const ENDS = { completed: ['new', 'completed'], failed: ['bad', 'failed for good'], released: ['dup', 'released'], refused: ['bad', 'refused: too late'], unrecorded: ['dup', 'performed, not recorded yet'] };
const TOLD = { completed: 'new', 'in flight': 'dup', failed: 'bad', 'different payload': 'bad', doubtful: 'bad', tombstone: 'bad' };
const TOLD_WORDS = { completed: 'told the recorded outcome', 'in flight': 'told that another worker is working on it', failed: 'told that it failed for good', 'different payload': 'refused: another payload under the same key', doubtful: 'refused: the effect may have happened', tombstone: 'refused: an earlier attempt was refused for good' };

export function mount(root, kit, { namespace, key }) {
  const { el, fill, get, svg, on } = kit;
  const ms = (at) => Date.parse(at);
  const { error, attempt } = kit.trial();
  let life;
  let view; // [from, to] in milliseconds; undefined: everything
  let at = -1; // the moment that is looked at

  const sentence = el('p', { class: 'lead', id: 'life-sentence', role: 'status' });
  const picture = svg('svg', { class: 'life', id: 'life', role: 'img', 'aria-label': 'Timeline of the key; the same is in the table below', tabindex: '0' });
  const scrub = el('input', { type: 'range', id: 'life-scrub', min: '0', max: '0', value: '0', 'aria-label': 'Step through the moments', oninput: () => look(Number(scrub.value)) });
  const now = el('p', { class: 'readout', id: 'life-now', role: 'status', 'aria-live': 'polite' }, 'Step through the moments with the slider, or click a row of the table.');
  const button = (text, label, work) => el('button', { class: 'quiet', title: label, onclick: work }, el('span', { 'aria-hidden': 'true' }, text), el('span', { class: 'hidden' }, label));
  const zoom = el('div', { class: 'row' }, button('−', 'Zoom out', () => zoomBy(1.6)), button('+', 'Zoom in', () => zoomBy(1 / 1.6)), button('←', 'Earlier', () => pan(-0.25)), button('→', 'Later', () => pan(0.25)), button('All', 'Show all of it', () => { view = undefined; paint(); }));
  const tip = el('p', { class: 'tip', hidden: true });
  const rows = el('tbody', { id: 'life-moments' });
  let unfolded = false;
  const more = el('button', { class: 'quiet', hidden: true, onclick: () => { unfolded = !unfolded; tables(); } });
  const attempts = el('tbody', { id: 'life-attempts' });
  const noAttempts = el('p', { class: 'empty' });
  const records = el('div', { id: 'life-records' });
  const duplicates = el('p', { id: 'life-duplicates' });
  const table = (titles, body, label) => el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label }, el('table', {}, el('thead', {}, el('tr', {}, titles.map((title) => el('th', { scope: 'col', class: title === 'fence' ? 'number' : '' }, title)))), body));

  fill(root,
    el('div', { class: 'head' }, el('div', {}, el('p', { class: 'crumb' }, el('a', { href: kit.url('/keys') }, 'Keys'), ` / ${namespace === '_' ? '' : namespace}`), el('h1', { class: 'key-title' }, el('code', {}, key)), sentence)),
    error,
    el('section', { class: 'card', 'aria-labelledby': 'life-title' },
      el('div', { class: 'row end' }, el('h2', { id: 'life-title' }, 'Its life'), zoom),
      el('div', { class: 'life-holder' }, picture, tip), scrub, now, legend(kit)),
    el('div', { class: 'columns' },
      el('div', {},
        el('section', { class: 'card', 'aria-labelledby': 'attempts-title' }, el('h2', { id: 'attempts-title' }, 'Attempts'), noAttempts, table(['fence', 'worker', 'claimed', 'lease ends', 'what became of it'], attempts, 'Attempts'), duplicates),
        el('section', { class: 'card', 'aria-labelledby': 'moments-title' }, el('h2', { id: 'moments-title' }, 'Every moment'), table(['time', 'after', 'worker', 'fence', 'what happened'], rows, 'Every moment'), more)),
      el('div', {}, el('section', { class: 'card', 'aria-labelledby': 'record-title' }, el('h2', { id: 'record-title' }, 'Record'), records))));

  // ---------------------------------------------------------------- what is drawn

  const short = (worker) => (worker.length > 12 ? worker.slice(0, 8) : worker);
  /** Everything from the first moment to the last; if a claim is still held, up to now. */
  function whole() {
    const times = [...life.moments.map((one) => ms(one.at)), ...life.attempts.flatMap((one) => [one.work?.from, one.end?.at].filter(Boolean).map(ms))];
    if (times.length === 0) return [ms(life.at) - 1000, ms(life.at)];
    const open = life.attempts.some((one) => !one.end && one.leaseEnd && ms(one.leaseEnd) > ms(life.at));
    const lost = life.attempts.filter((one) => !one.end && one.leaseEnd).map((one) => ms(one.leaseEnd));
    const [from, to] = [Math.min(...times), Math.max(...times, ...(open ? [ms(life.at)] : []), ...lost.filter((end) => end <= ms(life.at)))];
    const pad = Math.max((to - from) * 0.04, 5);
    return [from - pad, to + pad];
  }
  /** A lane per worker: every attempt is another one, also if Lambda repeats an invocation under the same id. Of very many, those that do not overlap share a lane. */
  function lanes() {
    const all = [];
    for (const one of life.attempts) {
      const begin = ms(one.claimedAt);
      const lane = life.attempts.length <= MANY_LANES ? undefined : all.find(({ worker, until }) => worker === one.worker && until <= begin);
      const until = Math.max(begin, one.end ? ms(one.end.at) : ms(one.leaseEnd ?? one.claimedAt));
      if (lane) { lane.attempts.push(one); lane.until = until; } else all.push({ worker: one.worker, attempts: [one], until });
    }
    return all;
  }

  function paint() {
    if (!life) return;
    const [from, to] = view ?? whole();
    const wide = Math.max(320, picture.clientWidth || 800);
    const label = wide < 560 ? 84 : LABEL;
    const names = lanes();
    const dupes = life.duplicates.length > 0;
    const x0 = (time) => label + ((time - from) / (to - from)) * (wide - label - RIGHT);
    const bands = life.outages.filter((outage) => ms(outage.from) < to && (outage.to ? ms(outage.to) : ms(life.at)) > from);
    const named = (outage) => `${kit.nameOf(outage.what)}: ${outage.how}`;
    const words = bands.map((outage) => { const long = named(outage).length * 6.4; return { x: Math.max(label, Math.min(x0(ms(outage.from)) + 3, wide - RIGHT - long)), width: long }; });
    const labelRows = kit.placed(words);
    const TOP = ROOM + 14 * (Math.max(-1, ...labelRows) + 1);
    const height = TOP + (names.length + (dupes ? 1 : 0)) * LANE + AXIS + (names.length + (dupes ? 1 : 0) === 0 ? LANE : 0);
    const x = x0;
    const clip = (time) => Math.min(wide - RIGHT, Math.max(label, x(time)));
    const seen = (time) => time >= from && time <= to;
    const parts = [];
    const bottom = height - AXIS;
    bands.forEach((outage, index) => {
      const [left, right] = [clip(ms(outage.from)), clip(outage.to ? ms(outage.to) : ms(life.at))];
      parts.push(titled(svg('rect', { class: 'outage', x: left, y: TOP - 6, width: Math.max(1, right - left), height: bottom - TOP + 6 }), `${named(outage)}, from ${kit.clock(outage.from)}${outage.to ? ` to ${kit.clock(outage.to)}` : ''}`),
        svg('path', { class: 'outage-edge', d: `M${left} ${TOP - 6}V${bottom}` }), svg('text', { class: 'outage-label', x: words[index].x, y: 14 * labelRows[index] + 11 }, named(outage)));
    });
    names.forEach(({ worker, attempts: mine }, lane) => {
      const y = TOP + lane * LANE;
      const times = life.attempts.filter((one) => one.worker === worker && ms(one.claimedAt) <= ms(mine[0].claimedAt)).length;
      parts.push(svg('path', { class: 'grid', d: `M${label} ${y + LANE - 3}H${wide - RIGHT}` }),
        svg('text', { class: 'lane', x: 0, y: y + 14 }, short(worker)), svg('text', { class: 'lane soft', x: 0, y: y + 28 }, cut(`${mine[0].function}${times > 1 ? `, try ${times}` : ''}`, label < 100 ? 13 : 24)));
      for (const one of mine) parts.push(...bar(one, y, { x, clip, seen, from, to, label, wide }));
    });
    if (dupes) {
      const y = TOP + names.length * LANE;
      parts.push(svg('text', { class: 'lane', x: 0, y: y + 14 }, label < 100 ? 'duplicates' : `${life.duplicates.length} duplicate${life.duplicates.length === 1 ? '' : 's'}`), svg('text', { class: 'lane soft', x: 0, y: y + 28 }, label < 100 ? '' : 'and what they were told'));
      for (const one of life.duplicates) {
        if (!seen(ms(one.at))) continue;
        parts.push(titled(svg('path', { class: `tick ${TOLD[one.told] ?? ''}`, d: `M${x(ms(one.at)).toFixed(1)} ${y + 4}V${y + 30}` }), `${kit.clock(one.at)} duplicate, ${TOLD_WORDS[one.told] ?? one.told}${one.until ? ` until ${kit.clock(one.until)}` : ''}${one.fallback ? ' (by the local memory)' : ''}`));
      }
    }
    if (names.length === 0 && !dupes) parts.push(svg('text', { class: 'lane soft', x: label, y: TOP + 20 }, 'no line about this key is kept'));
    const ticks = wide > 640 ? 5 : 2;
    for (let tick = 0; tick <= ticks; tick += 1) {
      const time = from + ((to - from) * tick) / ticks;
      parts.push(svg('text', { class: 'axis', x: x(time), y: height - 6, 'text-anchor': tick === 0 ? 'start' : tick === ticks ? 'end' : 'middle' }, to - from < 90_000 ? kit.clock(time).slice(3) : kit.clock(time).slice(0, 8)));
    }
    if (at >= 0 && seen(ms(life.moments[at].at))) parts.push(svg('path', { class: 'cursor', d: `M${x(ms(life.moments[at].at))} ${TOP - 8}V${bottom}` }));
    picture.setAttribute('viewBox', `0 0 ${wide} ${height}`);
    picture.setAttribute('height', height);
    fill(picture, parts);
  }

  function bar(one, y, { x, clip, seen, from, to, label, wide }) {
    const parts = [];
    const begin = ms(one.claimedAt);
    const lease = one.leaseEnd ? ms(one.leaseEnd) : begin;
    const end = one.end ? ms(one.end.at) : Math.min(Math.max(lease, begin), Math.max(ms(life.at), begin));
    const kind = one.end ? ENDS[one.end.how]?.[0] ?? '' : lease > ms(life.at) ? 'live' : 'lost';
    const [left, right] = [clip(begin), clip(end)];
    if (lease > begin && begin < to && lease > from) parts.push(titled(svg('rect', { class: 'lease', x: left, y: y + 11, width: Math.max(1, clip(one.end && one.end.how !== 'refused' ? end : lease) - left), height: 10, rx: 2 }), `lease of fence ${one.fence}: until ${kit.clock(lease)}${one.renewals.length ? `, renewed ${one.renewals.length} times` : ''}`));
    if (end >= from && begin <= to) parts.push(titled(svg('rect', { class: `attempt ${kind}`, x: left, y: y + 4, width: Math.max(3, right - left), height: 24, rx: 4 }), became(one)));
    if (one.probe && seen(ms(one.probe.askedAt))) {
      const asked = ms(one.probe.askedAt);
      const answered = one.probe.answeredAt ? ms(one.probe.answeredAt) : asked;
      parts.push(titled(svg('rect', { class: 'probe', x: clip(asked), y: y + 10, width: Math.max(4, clip(answered) - clip(asked)), height: 12, rx: 3 }), `probe: ${one.probe.done === null ? 'no answer' : one.probe.done ? 'the destination has it already' : 'the destination does not have it'}`));
    }
    if (one.work) {
      const [began, ended] = [ms(one.work.from), ms(one.work.to)];
      if (ended >= from && began <= to) {
        parts.push(titled(svg('rect', { class: 'work', x: clip(began), y: y + 13, width: Math.max(2, clip(ended) - clip(began)), height: 6 }), `work: ${kit.millis(ended - began)}`));
        if (one.work.done && seen(ended)) parts.push(titled(svg('path', { class: 'effect', d: `M${x(ended)} ${y + 6}l8 10l-8 10l-8 -10z` }), `the effect happened by ${kit.clock(ended)}`));
      }
    }
    for (const renewal of one.renewals) if (seen(ms(renewal.at))) parts.push(titled(svg('circle', { class: 'renewal', cx: x(ms(renewal.at)), cy: y + 16, r: 3 }), `renewed until ${kit.clock(renewal.leaseEnd)}`));
    if (one.end && seen(end)) parts.push(svg('path', { class: `end ${kind}`, d: one.end.how === 'refused' ? `M${x(end) - 5} ${y + 11}l10 10m0 -10l-10 10` : `M${x(end)} ${y + 1}v30` }));
    if (one.fence !== null && left < wide - RIGHT - 24 && begin <= to && end >= from) parts.push(svg('text', { class: 'fence', x: left > wide - 190 ? Math.min(right + 4, wide - RIGHT) : left + 4, 'text-anchor': left > wide - 190 ? 'end' : 'start', y: y + 40 }, `${one.fence === 0 ? 'without the store' : `fence ${one.fence}`}${one.takenOver ? ', taken over' : ''}`));
    return parts;
  }

  function titled(element, text) {
    element.append(svg('title', {}, text));
    element.dataset.tip = text;
    return element;
  }
  /** The text without the key, which the whole page is about. */
  const said = (one) => (one.what ? one.text.replaceAll(life.key, 'it') : one.text);
  const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

  function became(one) {
    if (one.strength === 'mark') return one.fallback ? 'admitted by the local memory' : 'admitted';
    const parts = [];
    if (one.takenOver) parts.push('took over from an earlier worker');
    if (one.probe) parts.push(one.probe.done === null ? 'asked the destination, without an answer' : one.probe.done ? 'the destination said that it was done' : 'the destination said that it was not done');
    if (one.work) parts.push(one.work.done ? `performed the effect in ${kit.millis(ms(one.work.to) - ms(one.work.from))}` : 'its work returned an error');
    if (one.end) parts.push(ENDS[one.end.how]?.[1] ?? one.end.how);
    else if (one.leaseEnd && ms(one.leaseEnd) > ms(life.at)) parts.push('is at work');
    else parts.push('nothing more was heard of it');
    return parts.join('; ');
  }

  // ---------------------------------------------------------------- in words

  function describe() {
    const performed = life.attempts.filter((one) => one.work?.done);
    const found = life.attempts.filter((one) => one.probe?.done);
    const marked = life.attempts.filter((one) => one.strength === 'mark');
    const refused = life.attempts.filter((one) => one.end?.how === 'refused').length;
    const took = life.attempts.filter((one) => one.takenOver).length;
    const many = (number, one, more = `${one}s`) => `${number} ${number === 1 ? one : more}`;
    const done = life.records.some(({ state }) => state === 'completed') || life.attempts.some((one) => one.end?.how === 'completed');
    const extra = [took ? many(took, 'take-over') : '', found.length && performed.length ? 'a probe found the effect done' : '', refused ? `${many(refused, 'late worker')} refused` : '', life.duplicates.length ? `${many(life.duplicates.length, 'duplicate')} held back` : ''].filter(Boolean);
    const main = life.attempts.length === 0 && life.records.length === 0 ? 'Nothing is known about this key: no line names it, and no table has it. Check its spelling; keys are as log lines show them in eventKey.'
      : performed.length === 0 && done && found.length > 0 ? `Performed by an earlier worker: the probe of worker ${short(found[0].worker)} found it done`
      // Who took over and got no answer of a probe does not know what its predecessor did.
      : performed.length === 1 && done && performed[0].takenOver && performed[0].probe?.done !== false
        ? `Performed by worker ${short(performed[0].worker)}; whether an earlier worker performed it too is not known`
      : performed.length === 1 && done ? `Performed once, by worker ${short(performed[0].worker)}`
      : marked.length > 0 && done ? `Admitted ${marked.length === 1 ? 'once' : `${marked.length} times`}, by worker ${marked.map((one) => short(one.worker)).join(' and ')}`
        : performed.length > 1 ? `Its work returned ${performed.length} times` : done ? 'Recorded as done' : 'Not done yet';
    kit.say(sentence, life.attempts.length === 0 && life.records.length === 0 ? main : `${main}${extra.length ? `; ${extra.join(', ')}` : ''}.`);
  }

  function tables() {
    noAttempts.hidden = life.attempts.length > 0;
    noAttempts.textContent = life.records.length > 0 ? 'The lines about its attempts are gone; the record is all that is left.' : 'No attempt is known.';
    attempts.closest('.scroll').hidden = life.attempts.length === 0;
    kit.refill(attempts, life.attempts.map((one) => [one, became(one)]), () => life.attempts.map((one) => el('tr', {}, el('th', { scope: 'row', class: 'number' }, kit.count(one.fence)), el('td', {}, el('code', { title: one.worker }, short(one.worker)), ` ${one.function}`), el('td', { class: 'whole' }, kit.clock(one.claimedAt)),
      el('td', { class: 'whole' }, one.leaseEnd ? `${kit.clock(one.leaseEnd)}${one.renewals.length ? ` (renewed ${one.renewals.length}×)` : ''}` : `none (${one.strength})`), el('td', {}, became(one)))));
    const told = new Map();
    for (const one of life.duplicates) told.set(one.told, (told.get(one.told) ?? 0) + 1);
    duplicates.hidden = told.size === 0;
    fill(duplicates, 'Duplicates: ', [...told].map(([what, times], index) => [index > 0 ? ', ' : '', kit.badge(TOLD[what] ?? '', `${times} × ${what}`)]).flat());
    const first = life.moments.length > 0 ? ms(life.moments[0].at) : 0;
    more.hidden = life.moments.length <= FOLDED;
    more.textContent = unfolded ? 'Show fewer' : `Show all ${life.moments.length} moments`;
    more.setAttribute('aria-expanded', String(unfolded));
    const older = life.whole ? [] : [el('tr', {}, el('td', { colspan: '5', class: 'soft' }, 'Some lines are not shown: there are more than were read, or they are gone.'))];
    kit.refill(rows, [life.moments, unfolded, life.whole], () => [...(unfolded ? life.moments : life.moments.slice(0, FOLDED)).map((one, index) => el('tr', { 'data-moment': one.what, 'aria-current': index === at ? 'true' : undefined, onclick: () => look(index) },
      el('td', { class: 'whole' }, el('time', { datetime: one.at }, kit.clock(one.at))), el('td', { class: 'number soft whole' }, `+${kit.millis(ms(one.at) - first)}`), el('td', { class: 'whole' }, el('code', { title: one.worker }, short(one.worker))), el('td', { class: 'number' }, one.fence === null ? '' : String(one.fence)),
      el('td', {}, one.level === 'ERROR' || one.level === 'WARN' ? kit.badge(one.level === 'ERROR' ? 'bad' : 'dup', one.level.toLowerCase()) : '', one.level === 'ERROR' || one.level === 'WARN' ? ' ' : '', said(one)))), ...older]);
    scrub.max = String(Math.max(0, life.moments.length - 1));
    scrub.disabled = life.moments.length === 0;
    kit.refill(records, life.records, () => (life.records.length === 0 ? [el('p', { class: 'empty' }, 'No table has a record of it: it never came, or its record has expired.')] : life.records.map(record)));
    for (const each of records.querySelectorAll('time')) kit.say(each, aged(each.dateTime));
  }

  const aged = (value) => `${kit.clock(value).slice(0, 8)} (${kit.ago(value)})`;
  function record(one) {
    const fact = (title, value) => (value === null || value === undefined || value === '' ? undefined : el('div', {}, el('dt', {}, title), el('dd', {}, value)));
    const time = (value) => (value ? el('time', { datetime: value, title: value }, aged(value)) : undefined);
    const stuck = one.state === 'claimed' && kit.has('changes');
    return el('div', { class: 'record', 'data-state': one.state }, el('p', {}, kit.badge({ completed: 'new', failed: 'bad', claimed: 'dup' }[one.state] ?? '', one.state), ` ${one.words}`),
      el('dl', { class: 'facts wide' }, fact('application', one.application), fact('attempts (fence)', kit.count(one.fence)), fact('lease until', time(one.leaseUntil)), fact('changed', time(one.changedAt)), fact('expires', one.expiresAt ? time(one.expiresAt) : 'never'), fact('owner', one.owner ? el('code', {}, one.owner) : undefined)),
      one.outcome !== undefined ? [el('h3', {}, 'Outcome'), el('pre', { id: 'life-outcome', tabindex: '0' }, el('code', {}, JSON.stringify(one.outcome, null, 2)))] : one.outcomeBytes ? el('p', { class: 'soft' }, `An outcome of ${one.outcomeBytes} bytes.`) : undefined,
      Object.keys(one.attributes).length > 0 ? el('details', {}, el('summary', {}, 'What the application keeps with it'), el('dl', { class: 'facts wide' }, Object.entries(one.attributes).map(([name, value]) => fact(name, typeof value === 'string' ? value : JSON.stringify(value))))) : undefined,
      stuck ? el('button', { onclick: () => attempt(async () => {
        const reason = await kit.ask(`Release the claim with fence ${one.fence}? Its worker must be gone for good.`, 'Release', { as: kit.frame.identity, field: 'Reason' });
        if (reason === undefined) return;
        await kit.change('release-key', { application: one.application, key: one.key, fence: one.fence, reason });
        await draw();
      }) }, 'Release the claim') : undefined);
  }

  // ---------------------------------------------------------------- moving

  function look(index) {
    if (!life || life.moments.length === 0) return;
    at = Math.min(life.moments.length - 1, Math.max(0, index));
    const one = life.moments[at];
    if (at >= FOLDED && !unfolded) { unfolded = true; tables(); }
    scrub.value = String(at);
    scrub.setAttribute('aria-valuetext', `${kit.clock(one.at)}: ${said(one)}`);
    kit.say(now, `${at + 1} of ${life.moments.length}, ${kit.clock(one.at)}, worker ${short(one.worker)}: ${said(one)}`);
    const [from, to] = view ?? whole();
    if (ms(one.at) < from || ms(one.at) > to) { const half = (to - from) / 2; view = [ms(one.at) - half, ms(one.at) + half]; }
    for (const row of rows.children) row.removeAttribute('aria-current');
    rows.children[at]?.setAttribute('aria-current', 'true');
    paint();
  }

  function zoomBy(factor, around) {
    if (!life) return;
    const [from, to] = view ?? whole();
    const [all, end] = whole();
    const middle = around ?? (at >= 0 ? ms(life.moments[at].at) : (from + to) / 2);
    const length = Math.min(Math.max((to - from) * factor, SHORTEST_MS), (end - all) * 1.5);
    const share = Math.min(1, Math.max(0, (middle - from) / (to - from)));
    view = [middle - length * share, middle + length * (1 - share)];
    paint();
  }
  function pan(share) {
    if (!life) return;
    const [from, to] = view ?? whole();
    const by = (to - from) * share;
    view = [from + by, to + by];
    paint();
  }
  const timeAt = (event) => {
    const box = picture.getBoundingClientRect();
    const wide = Math.max(320, picture.clientWidth);
    const label = wide < 560 ? 84 : LABEL;
    const [from, to] = view ?? whole();
    return from + ((((event.clientX - box.left) / box.width) * wide - label) / (wide - label - RIGHT)) * (to - from);
  };
  picture.addEventListener('wheel', (event) => {
    if (!life || !(event.ctrlKey || event.metaKey || event.shiftKey || document.activeElement === picture)) return;
    event.preventDefault();
    zoomBy(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event));
  }, { passive: false });
  let drag;
  picture.addEventListener('pointerdown', (event) => { drag = { x: event.clientX, view: view ?? whole(), moved: false }; picture.setPointerCapture(event.pointerId); });
  picture.addEventListener('pointermove', (event) => {
    const text = event.target.dataset?.tip;
    tip.hidden = !text;
    if (text) { tip.textContent = text; const box = picture.parentElement.getBoundingClientRect(); tip.style.left = `${Math.min(event.clientX - box.left + 12, box.width - 240)}px`; tip.style.top = `${event.clientY - box.top + 14}px`; }
    if (!drag || !life) return;
    const by = ((event.clientX - drag.x) / picture.clientWidth) * (drag.view[1] - drag.view[0]);
    if (Math.abs(event.clientX - drag.x) > 3) drag.moved = true;
    if (drag.moved) { view = [drag.view[0] - by, drag.view[1] - by]; paint(); }
  });
  picture.addEventListener('pointerup', (event) => {
    if (drag && !drag.moved && life) { const time = timeAt(event); let best = 0; life.moments.forEach((one, index) => { if (Math.abs(ms(one.at) - time) < Math.abs(ms(life.moments[best].at) - time)) best = index; }); look(best); }
    drag = undefined;
  });
  picture.addEventListener('pointerleave', () => { tip.hidden = true; });
  picture.addEventListener('keydown', (event) => {
    const act = { ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), '+': () => zoomBy(0.7), '=': () => zoomBy(0.7), '-': () => zoomBy(1.4), 0: () => { view = undefined; paint(); },
      ',': () => look(at - 1), '.': () => look(at + 1), Home: () => look(0), End: () => look(life.moments.length - 1) }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
  const resize = new ResizeObserver(() => paint());
  resize.observe(picture);

  // ---------------------------------------------------------------- live

  async function draw() {
    life = await get(`/_console/keys/${encodeURIComponent(namespace)}/${encodeURIComponent(key)}`);
    if (at >= life.moments.length) at = -1;
    describe();
    tables();
    paint();
  }
  const about = (event) => event.key === life?.key || event.key === key;
  let due;
  const soon = () => { due ??= setTimeout(() => { due = undefined; if (!root.hidden) attempt(draw); }, 250); };
  const stop = on('*', (event) => { if (about(event) || (event.kind === 'faults' && life)) soon(); });
  // Settling is no event of the stream, and a lease ends without one.
  // Without a stream nothing tells of news, so it is asked for until every attempt has ended. Each time searches the logs.
  let drawing = false;
  const timer = setInterval(async () => {
    const open = !life || life.attempts.some((one) => !one.end) || (!kit.has('live') && life.attempts.length === 0 && life.records.length === 0);
    if (root.hidden || drawing || !open) return;
    drawing = true;
    try { await attempt(draw); } finally { drawing = false; }
  }, kit.refreshMs(1000));
  root.addEventListener('leave', () => { stop(); clearInterval(timer); resize.disconnect(); });
  return attempt(draw);
}

function legend({ el }) {
  const entry = (kind, text) => el('li', {}, el('span', { class: `key-sign ${kind}`, 'aria-hidden': 'true' }), text);
  return el('ul', { class: 'life-legend' }, entry('lease', 'lease'), entry('attempt new', 'completed'), entry('attempt dup', 'released'), entry('attempt bad', 'refused or failed'), entry('attempt lost', 'never heard of again'), entry('probe', 'probe'), entry('effect', 'effect'), entry('tick', 'duplicate'), entry('outage', 'outage'),
    el('li', { class: 'soft' }, 'Drag to move. Ctrl and wheel, + and − zoom. , and . step.'));
}
