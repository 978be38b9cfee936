// What goes wrong, and when: all of it follows from the seed. The feeds themselves are faults of `feeds.mjs`; everything else is a fault of
// the platform (crates/local/README.md, "Break something").

/** What can be broken, and how. `status` and `ms` are chosen anew each time. */
const FAULTS = {
  dynamodb: ['down', 'throttle', 'error', 'slow', 'lose_answers', 'conflict', 'denied', 'lag_indexes'],
  slack: ['refuse', 'hang', 'accept_then_lose', 'slow'],
  mastodon: ['refuse', 'hang', 'accept_then_lose', 'slow'],
  pushover: ['refuse', 'hang', 'accept_then_lose', 'slow'],
  bigquery: ['refuse', 'hang', 'accept_then_lose', 'slow'],
  appsync: ['refuse', 'hang', 'accept_then_lose', 'slow'],
  feed: ['refuse', 'hang', 'cut', 'slow'],
};
export const TARGETS = Object.keys(FAULTS);

/** Statuses of refusals: of each API those that it really sends. Slack says "no" with 200; 401 is a token that is refused; 422 a text. */
const STATUSES = {
  slack: [200, 429, 500, 503],
  mastodon: [401, 422, 429, 500, 503],
  pushover: [400, 429, 500, 503],
  bigquery: [429, 500, 503],
  appsync: [429, 500, 503],
  feed: [404, 429, 500, 503],
};

/** Each phase lasts from the first to the second number of seconds, and so does the calm after it. */
const LONG = { phase: [4, 14], calm: [2, 8], targets: [1, 3], kill: [120, 240] };
/** Every fault once in twenty seconds: each phase breaks everything at once, in another way. */
const SHORT = { phase: [2, 2.5], calm: [0.2, 0.5], targets: [TARGETS.length, TARGETS.length], kill: [5, 10] };

export class Weather {
  #dice;
  #pace;
  #decks = new Map();
  /** How often each fault was there: `dynamodb down` -> 3. */
  seen = new Map(TARGETS.flatMap((target) => FAULTS[target].map((mode) => [`${target} ${mode}`, 0])));

  constructor(dice, isShort) {
    this.#dice = dice;
    this.#pace = isShort ? SHORT : LONG;
  }

  /** The next phase: its faults, how long it lasts, and how long the calm after it. */
  next() {
    const { phase, calm, targets } = this.#pace;
    const count = Math.round(this.#dice.between(...targets));
    const broken = new Set(this.#shuffled(TARGETS).slice(0, count));
    // Everything needs the store, and it can fail in the most ways.
    if (this.#dice.happens(0.4)) broken.add('dynamodb');
    const faults = Object.fromEntries([...broken].map((target) => [target, this.#fault(target)]));
    for (const [target, { mode }] of Object.entries(faults)) this.seen.set(`${target} ${mode}`, this.seen.get(`${target} ${mode}`) + 1);
    return { faults, ms: this.#dice.between(...phase) * 1000, calmMs: this.#dice.between(...calm) * 1000 };
  }

  /** How long until the next kill -9. */
  untilKill() {
    return this.#dice.between(...this.#pace.kill) * 1000;
  }

  /** Has everything been broken in every way? */
  get isComplete() {
    return [...this.seen.values()].every((count) => count > 0);
  }

  /** The modes of a target come from a shuffled deck, so that each is dealt before one is dealt again. */
  #fault(target) {
    if (!this.#decks.get(target)?.length) this.#decks.set(target, this.#deck(target));
    const mode = this.#decks.get(target).pop();
    const fault = { mode, rate: this.#dice.pick([1, 0.5, 0.3]) };
    if (mode === 'refuse') fault.status = this.#dice.pick(STATUSES[target]);
    if (mode === 'slow' || mode === 'lag_indexes') fault.ms = Math.round(this.#dice.between(50, 1500));
    return fault;
  }

  /** Whoever meets a `hang` waits for half a minute or more. The short storm deals it first and once, so that it need not wait for that at its end. */
  #deck(target) {
    const deck = this.#shuffled(FAULTS[target]);
    if (this.#pace !== SHORT || !deck.includes('hang')) return deck;
    const others = deck.filter((mode) => mode !== 'hang');
    return this.seen.get(`${target} hang`) === 0 ? [...others, 'hang'] : others;
  }

  #shuffled(list) {
    return list.map((value) => [this.#dice.random(), value]).sort(([a], [b]) => a - b).map(([, value]) => value);
  }
}

/** `dynamodb down 50%, slack refuse 503` */
export const described = (faults) =>
  Object.entries(faults).map(([target, { mode, status, rate }]) => [target, mode, status, rate < 1 ? `${rate * 100}%` : ''].filter(Boolean).join(' ')).join(', ') || 'calm';
