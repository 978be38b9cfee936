// The page of the duel: starts one, shows its columns while it runs, then the table and the sentences. It needs no frame; the console
// mounts it as it mounts its other pages.

const STYLE = new URL('/duel/duel.css', location.origin).href;
/** How often the state is asked for while a duel runs, and while none does. */
const WHILE_RUNNING_MS = 500;
const WHILE_IDLE_MS = 3000;
/** How many stories are shown before somebody asks for all. */
const FIRST_STORIES = 12;

const WHAT = {
  naive: 'looks whether the event is done, posts, records it',
  powertools: "AWS Lambda Powertools' idempotency utility, from npm, as its documentation recommends",
  ichido: 'claims the event, posts, records it; if a worker may have died in between, asks first whether the post is there',
};
const PHASES = {
  starting: 'the workers start',
  sending: 'new events',
  finishing: 'no new events; what nobody has acknowledged is delivered again',
  done: 'done',
};
const ROWS = [
  ['Events sent', (score) => score.sent],
  ['Events acknowledged', (score) => score.acknowledged],
  ['Posts at the destination', (score) => score.effects],
  ['Lost: events without a post', (score) => score.lost, true],
  ['Doubled: events with more than one post', (score) => score.doubled, true],
  ['Acknowledged, never posted', (score) => score.wronglyAcknowledged, true],
  ['CPU per event', (score) => `${(score.cpuMicrosPerEvent / 1000).toFixed(1)} ms`],
  ['Calls to the store per event', (score) => score.storeCallsPerEvent.toFixed(1)],
];

/** Makes an element. Text is never read as markup. */
function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** Sets the text of an element, if it differs: a screen reader reads a live region again whenever it is written. */
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

async function ask(method, body) {
  const response = await fetch('/_local/duel', { method, headers: body && { 'content-type': 'application/json' }, body: body && JSON.stringify(body) });
  const json = await response.json();
  if (!response.ok) throw new Error(json.message);
  return json;
}

export async function mount(root) {
  if (!document.querySelector(`link[href="${STYLE}"]`)) document.head.append(el('link', { rel: 'stylesheet', href: STYLE }));
  const seed = el('input', { id: 'duel-seed', inputmode: 'numeric', pattern: '[0-9]*', placeholder: 'any', autocomplete: 'off' });
  const seconds = el('input', { id: 'duel-seconds', type: 'number', min: '10', max: '3600', value: '90', required: true });
  const start = el('button', { id: 'duel-start', class: 'primary', type: 'submit' }, 'Start the duel');
  const stop = el('button', { id: 'duel-stop', type: 'button', hidden: true, onclick: () => attempt(() => ask('DELETE')) }, 'Stop it');
  const form = el('form', { class: 'start', hidden: true, onsubmit: begin },
    el('label', {}, 'Seed', seed), el('label', {}, 'Seconds', seconds), start, stop);
  const error = el('p', { class: 'error', role: 'alert', hidden: true });
  const bar = el('progress', { max: '1', value: '0', 'aria-label': 'Time of the duel' });
  const now = el('span', { id: 'duel-now' });
  const clock = el('div', { class: 'clock', hidden: true }, bar, now);
  const announced = el('p', { role: 'status', id: 'duel-status' });
  const columns = el('div', { class: 'handlers' });
  const legend = el('ul', { class: 'legend', hidden: true },
    ...[['1', 'an event with one post'], ['2', 'doubled'], ['0', 'lost'], ['.', 'not decided yet']].map(([mark, text]) =>
      el('li', {}, el('span', { class: 'events', 'aria-hidden': 'true' }, el('i', { 'data-mark': mark })), text)));
  const result = el('section', { class: 'card', id: 'duel-result', hidden: true, 'aria-label': 'Result' });
  const stories = el('section', { class: 'card', id: 'duel-stories', hidden: true, 'aria-label': 'How it came about' });
  root.classList.add('duel');
  root.append(
    el('h1', {}, 'The duel: exactly once'),
    el('p', { class: 'lead' }, 'Each event asks for one post; think of a payment. An event may arrive twice, and anything may break on the way: workers are killed '
      + 'between any two calls, answers are lost, the store throttles or is down, an answer comes after the lease. Three handlers get the same events and meet the same faults. '
      + 'Exactly once means that, in the end, there is one post per event: none is missing, none is there twice.'),
    form, error, clock, announced, columns, legend, result, stories,
  );

  const cards = new Map();
  let phase;
  loop();

  async function loop() {
    while (root.isConnected) {
      let running = false;
      if (!root.hidden && !document.hidden) {
        try {
          const state = await ask('GET');
          running = state.running;
          draw(state);
        } catch { /* the process has ended; what it said last stays */ }
      }
      await new Promise((resolve) => setTimeout(resolve, running ? WHILE_RUNNING_MS : WHILE_IDLE_MS));
    }
  }

  async function begin(event) {
    event.preventDefault();
    await attempt(async () => {
      const wanted = { seconds: Number(seconds.value) };
      if (seed.value !== '') wanted.seed = Number(seed.value);
      await ask('POST', wanted);
      for (let state = { running: true }; state.running;) {
        state = await ask('GET');
        draw(state);
        await new Promise((resolve) => setTimeout(resolve, WHILE_RUNNING_MS));
      }
    });
  }

  async function attempt(work) {
    error.hidden = true;
    try { await work(); } catch (caught) { error.textContent = caught.message; error.hidden = false; }
  }

  function draw({ running, startable, duel, failed }) {
    form.hidden = !startable;
    start.disabled = running;
    stop.hidden = !running;
    if (failed) { say(error, failed); error.hidden = false; }
    clock.hidden = !duel;
    if (!duel) return;
    bar.value = duel.phase === 'done' ? 1 : Math.min(1, duel.elapsedMs / 1000 / duel.seconds);
    now.replaceChildren(`Seed ${duel.seed}. ${Math.floor(duel.elapsedMs / 1000)} s of ${duel.seconds}: ${PHASES[duel.phase]}`,
      duel.storeDown ? el('span', { class: 'down' }, '; the store is down') : '');
    if (duel.phase !== phase) {
      phase = duel.phase;
      say(announced, [duel.leftOut && `${duel.leftOut}.`, phase === 'done' && verdict(duel)].filter(Boolean).join(' '));
    }
    const names = duel.handlers.map(({ name }) => name).join();
    if (columns.dataset.names !== names) {
      columns.dataset.names = names;
      cards.clear();
      columns.replaceChildren(...duel.handlers.map(card));
    }
    legend.hidden = duel.handlers.length === 0;
    duel.handlers.forEach((score, at) => update(score, duel.marks[at] ?? ''));
    result.hidden = stories.hidden = duel.phase !== 'done';
    if (duel.phase === 'done' && result.dataset.of !== `${duel.seed} ${duel.elapsedMs}`) {
      result.dataset.of = `${duel.seed} ${duel.elapsedMs}`;
      conclude(duel);
    }
  }

  function card(score) {
    const doubled = el('dd', {});
    const lost = el('dd', {});
    const posts = el('dd', {});
    const events = el('div', { class: 'events', 'aria-hidden': 'true' });
    const element = el('article', { class: 'card', 'data-handler': score.name },
      el('h2', {}, score.name, ' ', el('small', { class: 'soft' }, score.version)),
      el('p', { class: 'soft' }, WHAT[score.name]),
      el('dl', { class: 'figures' },
        el('div', {}, el('dt', {}, 'doubled'), doubled), el('div', {}, el('dt', {}, 'lost'), lost), el('div', {}, el('dt', {}, 'posts / events'), posts)),
      events);
    cards.set(score.name, { element, doubled, lost, posts, events });
    return element;
  }

  function update(score, marks) {
    const { element, doubled, lost, posts, events } = cards.get(score.name);
    const wrong = score.doubled + score.lost + score.wronglyAcknowledged > 0;
    element.classList.toggle('wrong', wrong);
    element.classList.toggle('right', !wrong);
    for (const [figure, value] of [[doubled, score.doubled], [lost, score.lost]]) {
      figure.textContent = value;
      figure.className = value === 0 ? 'zero' : 'some';
    }
    posts.textContent = `${score.effects} / ${score.sent}`;
    while (events.childElementCount > marks.length) events.lastElementChild.remove();
    while (events.childElementCount < marks.length) events.append(el('i'));
    [...marks].forEach((mark, at) => { if (events.children[at].dataset.mark !== mark) events.children[at].dataset.mark = mark; });
  }

  function conclude(duel) {
    result.replaceChildren(el('h2', {}, 'Result'), el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Table of the result' }, el('table', {},
      el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, ''), duel.handlers.map(({ name, version }) => el('th', { scope: 'col' }, `${name} ${version}`)))),
      el('tbody', {}, ROWS.map(([name, value, mustBeZero]) => el('tr', {}, el('th', { scope: 'row' }, name),
        duel.handlers.map((score) => el('td', { class: mustBeZero ? (value(score) === 0 ? 'zero' : 'some') : undefined }, String(value(score))))))))),
      el('p', { class: 'soft' }, 'CPU is that of the workers without their start. The handlers in Rust are built as this program is: if it is a debug build, they use several times what a release uses.'));
    tell(duel.stories, FIRST_STORIES);
  }

  function tell(all, most) {
    const shown = all.slice(0, most);
    stories.replaceChildren(...[el('h2', {}, 'How it came about'),
      all.length === 0 ? el('p', {}, 'No effect was lost or doubled.') : '',
      causes(all).map(([handler, lines]) => [el('h3', {}, handler), el('ul', { class: 'causes' }, lines.map((line) => el('li', {}, line)))]).flat(),
      el('ol', { class: 'stories' }, shown.map((story) => el('li', {}, el('strong', {}, `${story.handler}, event ${story.event}`), ' ', el('span', { class: 'badge' }, story.wrong), ` ${story.text}.`,
        story.ichido && el('small', {}, `ichido, same event, same faults: ${story.ichido}.`)))),
      all.length > most ? el('button', { type: 'button', onclick: () => tell(all, all.length) }, `Show all ${all.length}`) : ''].flat());
  }
}

/** How often each cause is behind an effect that went wrong, per handler: the most frequent first. */
function causes(stories) {
  const handlers = new Map();
  for (const { handler, causeWords } of stories) {
    const counts = handlers.get(handler) ?? new Map();
    handlers.set(handler, counts.set(causeWords, (counts.get(causeWords) ?? 0) + 1));
  }
  return [...handlers].map(([handler, counts]) => [handler, [...counts].sort(([, a], [, b]) => b - a).map(([words, number]) => `${number} × ${words}`)]);
}

function verdict(duel) {
  return duel.handlers.map(({ name, doubled, lost }) => `${name}: ${doubled} doubled, ${lost} lost`).join('; ') + '.';
}
