// Transfers: each under one idempotency key, sent again until the answer is final, sometimes several copies at once. The books: the money of
// every transfer that was answered with 200 moved once, no other money moved, and all balances together are the grants.
import { run } from './support.mjs';

/** Longer than `tokens-api` may take (12 s): when a request is given up, its function has ended. */
const ANSWER_MS = 14_000;
const UNIT = 100_000_000n;

const units = (text) => {
  const [whole, part = ''] = text.split('.');
  return BigInt(whole) * UNIT + BigInt(part.padEnd(8, '0'));
};
const shown = (amount) => `${amount / UNIT}.${String(amount % UNIT).padStart(8, '0')}`;

export class TokensLoad {
  name = 'tokens';
  /** Every transfer: key -> {sender, recipient, amount, and its answer once it is final}. */
  transfers = new Map();
  /** Transaction id of a transfer -> its reversal's, once the answer is final. */
  reversals = new Map();
  #wrong = [];
  #repeats = 0;
  #next = 1;
  #pending = 0;

  constructor(storm) {
    this.storm = storm;
  }

  get done() {
    return [...this.transfers.values()].filter(({ answer }) => answer).length;
  }

  status() {
    return `${this.done}/${this.transfers.size} transfers`;
  }

  async load() {
    const { storm } = this;
    await Promise.all(storm.config.accounts.map(({ token }) => this.#until('/tokens/accounts', token, undefined)));
    while (!storm.isOver) {
      if (this.#pending < 20) void storm.track(this, this.#transfer());
      await storm.sleep(storm.dice.between(150, 600));
    }
  }

  async #transfer() {
    const { dice, config } = this.storm;
    this.#pending += 1;
    const sender = dice.pick(config.accounts);
    const recipient = dice.pick(config.accounts.filter(({ did }) => did !== sender.did));
    const key = `storm-${this.#next}`;
    this.#next += 1;
    // Some are more than anybody has: they are refused.
    const amount = dice.happens(0.1) ? '50000' : dice.between(0.01, 40).toFixed(Math.round(dice.between(0, 7)));
    if (!/[1-9]/.test(amount)) {
      this.#pending -= 1;
      return;
    }
    const transfer = { sender: sender.did, recipient: recipient.did, amount, answer: null };
    this.transfers.set(key, transfer);
    const body = { recipientDid: recipient.did, amount, idempotencyKey: key };
    transfer.answer = await this.#until('/tokens/transfer', sender.token, body);
    this.#pending -= 1;
    if (transfer.answer?.status !== 200) return;
    const { transactionId } = transfer.answer.json;
    if (dice.happens(0.2)) {
      await this.storm.sleep(dice.between(0, 30_000));
      const answer = await this.#until('/tokens/transfer', sender.token, { ...body, amount: `${amount}${amount.includes('.') ? '' : '.'}1` });
      if (answer && answer.status !== 422) this.#wrong.push(`key ${key} was used for another amount and got ${answer.status}`);
    }
    if (dice.happens(0.1)) {
      this.reversals.set(transactionId, null);
      const answer = await this.#until('/tokens/reversals', config.operatorToken, { senderDid: sender.did, transactionId, reason: 'storm' });
      this.reversals.set(transactionId, answer);
    }
  }

  #send(path, token, body) {
    return this.storm.http(path, {
      method: 'POST', ms: ANSWER_MS,
      headers: { authorization: `Bearer ${token}`, ...(body ? { 'content-type': 'application/json' } : {}) },
      body: body ? JSON.stringify(body) : undefined,
    });
  }

  /** Sends a request, sometimes in several copies, until the answer is final. All successes must be the same, byte for byte. */
  async #until(path, token, body) {
    const { dice } = this.storm;
    const send = () => this.#send(path, token, body);
    const successes = new Set();
    let success = null;
    const note = (answer) => {
      if (answer.status !== 200 && answer.status !== 201) return;
      successes.add(answer.text);
      success ??= answer;
      if (successes.size === 2) this.#wrong.push(`${path} ${JSON.stringify(body)} has two different answers: ${[...successes].join(' and ')}`);
    };
    while (!this.storm.isClosed) {
      const copies = dice.happens(0.3) ? Math.round(dice.between(2, 4)) : 1;
      this.#repeats += copies - 1;
      const answers = await Promise.all(Array.from({ length: copies }, send));
      answers.forEach(note);
      if (success) {
        if (dice.happens(0.2)) note(await send());
        return success;
      }
      // A refusal says that the money does not move by this request. A copy without an answer, or one that was sent beside it, may still have
      // moved it: only a request that was alone knows.
      if (copies === 1 && answers[0].status >= 400 && answers[0].status < 500 && answers[0].status !== 429) return answers[0];
      this.#repeats += 1;
      await this.storm.rest(dice.between(100, 1_500));
    }
    return null;
  }

  /** Nothing to do: every request is repeated until its answer is final. */
  async settle() {}

  /** A transfer that was made long ago. */
  async repeat() {
    const [key, made] = [...this.transfers].findLast(([, { answer }]) => answer?.status === 200) ?? [];
    if (!key) return;
    const { token } = this.storm.config.accounts.find(({ did }) => did === made.sender);
    const answer = await this.#send('/tokens/transfer', token, { recipientDid: made.recipient, amount: made.amount, idempotencyKey: key });
    if (answer.text !== made.answer.text) this.#wrong.push(`transfer ${key} was answered with ${made.answer.text}, and later with ${answer.status} ${answer.text}`);
  }

  async #history(token, did) {
    const all = [];
    for (let cursor = ''; cursor !== null;) {
      const page = (await this.storm.http(`/tokens/transactions/${encodeURIComponent(did)}?limit=100${cursor && `&cursor=${encodeURIComponent(cursor)}`}`, {
        headers: { authorization: `Bearer ${token}` }, ms: ANSWER_MS,
      })).json;
      all.push(...page.transactions);
      cursor = page.hasMore ? page.cursor : null;
    }
    return all;
  }

  async books(account) {
    const { config } = this.storm;
    for (const wrong of this.#wrong) account.wrong(wrong);
    const balances = new Map(config.accounts.map(({ did }) => [did, 1000n * UNIT]));
    const add = (did, amount) => balances.set(did, balances.get(did) + amount);
    const moved = new Map();
    let refused = 0;
    for (const [key, { sender, recipient, amount, answer }] of this.transfers) {
      if (!answer) account.wrong(`transfer ${key} has no final answer`);
      else if (answer.status !== 200) refused += 1;
      else {
        const { transactionId, fee } = answer.json;
        if (moved.has(transactionId)) account.wrong(`transfers ${key} and ${moved.get(transactionId).key} are one transaction`);
        moved.set(transactionId, { key, sender, recipient, amount: units(amount), fee: units(fee) });
        add(sender, -units(amount) - units(fee));
        add(recipient, units(amount));
      }
    }
    let reversed = 0;
    for (const [id, answer] of this.reversals) {
      if (!answer) account.wrong(`the reversal of ${id} has no final answer`);
      if (answer?.status !== 200) continue;
      reversed += 1;
      const { sender, recipient, amount, fee } = moved.get(id);
      add(sender, amount + fee);
      add(recipient, -amount);
    }
    account.line('transfers asked for', this.transfers.size);
    account.line('answered with 200: the money moved', moved.size);
    account.line('refused: no money moved', refused);
    account.line('taken back by the operator', reversed);
    account.named('requests that were repeats', this.#repeats);
    const inLedger = new Set();
    for (const { did, token } of config.accounts) {
      for (const entry of await this.#history(token, did)) {
        if (entry.kind !== 'transfer') continue;
        if (inLedger.has(entry.transactionId)) account.wrong(`transaction ${entry.transactionId} is twice in the histories`);
        inLedger.add(entry.transactionId);
        if (!moved.has(entry.transactionId)) account.wrong(`transaction ${entry.transactionId} of ${did} moved ${entry.amount}, but no client knows of it`);
      }
      const { balance } = (await this.storm.http(`/tokens/balance/${encodeURIComponent(did)}`, { headers: { authorization: `Bearer ${token}` } })).json;
      if (units(balance) !== balances.get(did)) account.wrong(`${did} has ${balance}, and should have ${shown(balances.get(did))}`);
    }
    for (const [id, { key }] of moved) if (!inLedger.has(id)) account.wrong(`transfer ${key} was answered with 200, and transaction ${id} is in no history`);
    account.line('transfers in the histories', inLedger.size);
    const verified = await run(this.storm.tools.ichidoctl, ['tokens', 'verify', '--json', '--endpoint-url', this.storm.url]);
    const report = JSON.parse(verified.out || '{}');
    if (verified.code !== 0 || report.findings.length > 0 || report.balances !== report.grants) account.wrong(`ichidoctl tokens verify: ${verified.out}${verified.err}`);
    account.line(`all balances together, as ichidoctl tokens verify reads them from ${report.entries} entries`, report.balances);
    account.line('all grants', report.grants);
  }
}
