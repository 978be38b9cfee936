// Tokens: balances, a transfer that is sent once, twice, or again after a lost answer, and the statements.
const SHOWN = 20;
const ROWS = 30;

export function mount(root, kit) {
  const { el, fill, on, announce, config } = kit;
  const accounts = config.accounts ?? [];
  const name = (did) => did.split(':').pop();

  // ---------------------------------------------------------------- talking to the API

  /** Makes a call, and returns its status, whether it was a replay, and the exact text of the body. */
  async function call(method, path, token, body, key) {
    const headers = { authorization: `Bearer ${token}` };
    if (body !== undefined) headers['content-type'] = 'application/json';
    if (key) headers['idempotency-key'] = key;
    const response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await response.text();
    return { status: response.status, replayed: response.headers.get('idempotency-replayed') === 'true', text, json: text ? JSON.parse(text) : {} };
  }

  // ---------------------------------------------------------------- balances

  const rows = new Map();
  const balances = el('tbody', { id: 'tokens-balances' });
  for (const account of accounts) {
    const balance = el('td', { class: 'number' }, '…');
    const status = el('td', {}, '…');
    const freeze = el('button', { onclick: () => setFrozen(account) }, 'Freeze');
    rows.set(account.did, { balance, status, freeze });
    balances.append(el('tr', {}, el('th', { scope: 'row', title: account.did }, name(account.did)), balance, status, el('td', {}, freeze)));
  }

  async function showBalances() {
    for (const account of accounts) {
      const row = rows.get(account.did);
      const answer = await call('GET', `/tokens/balance/${encodeURIComponent(account.did)}`, account.token);
      row.frozen = answer.json.status === 'frozen';
      row.balance.textContent = answer.status === 200 ? answer.json.balance : '–';
      row.status.textContent = answer.status === 200 ? answer.json.status : 'not opened';
      row.freeze.textContent = row.frozen ? 'Unfreeze' : 'Freeze';
      row.freeze.setAttribute('aria-label', `${row.freeze.textContent} ${name(account.did)}`);
      row.freeze.disabled = answer.status !== 200;
    }
  }

  async function setFrozen(account) {
    const verb = rows.get(account.did).frozen ? 'unfreeze' : 'freeze';
    await call('POST', `/tokens/accounts/${encodeURIComponent(account.did)}/${verb}`, config.operatorToken);
    await showBalances();
    announce(`${name(account.did)} is ${rows.get(account.did).status.textContent}`);
  }

  async function openAll() {
    for (const account of accounts) await call('POST', '/tokens/accounts', account.token);
    await refresh();
    announce('The accounts are open.');
  }

  // ---------------------------------------------------------------- a transfer

  const people = (id, chosen) => el('select', { id }, accounts.map((account, index) => {
    const option = el('option', { value: String(index) }, name(account.did));
    option.selected = index === chosen;
    return option;
  }));
  const from = people('tokens-from', 0);
  const to = people('tokens-to', 1);
  const amount = el('input', { id: 'tokens-amount', value: '10', inputmode: 'decimal', size: '12', autocomplete: 'off' });
  const message = el('input', { id: 'tokens-message', value: 'for lunch', size: '20', autocomplete: 'off' });
  const key = el('input', { id: 'tokens-key', value: newKey(), size: '20', autocomplete: 'off' });
  const answers = el('ol', { class: 'feed short', id: 'tokens-answers', 'aria-label': 'Answers, newest first', tabindex: '0' });
  const summary = el('p', { id: 'tokens-summary', role: 'status' }, 'Nothing sent yet.');

  function newKey() {
    return `key-${Math.random().toString(36).slice(2, 8)}`;
  }

  function send() {
    const body = { recipientDid: accounts[Number(to.value)].did, amount: amount.value.trim() };
    if (message.value !== '') body.message = message.value;
    return call('POST', '/tokens/transfer', accounts[Number(from.value)].token, body, key.value.trim());
  }

  function show(answer) {
    const good = answer.status === 200;
    const label = good ? (answer.replayed ? 'replayed' : 'made') : String(answer.status);
    const life = good ? [' ', kit.keyLink(recordKey(), 'IDEMPOTENCY', 'its life')] : [];
    const what = good ? [`${answer.json.amount} to ${name(answer.json.recipientDid)}, transaction ${answer.json.transactionId}`, ...life] : `${answer.json.code}: ${answer.json.detail}`;
    const kind = good ? (answer.replayed ? 'dup' : 'new') : 'bad';
    list(label, kind, what);
    return label;
  }

  /** The key of the record of a transfer (crates/tokens/src/table.rs). */
  const recordKey = () => `IDEMPOTENCY#${[accounts[Number(from.value)].did, key.value.trim()].map((part) => part.replaceAll('%', '%25').replaceAll('#', '%23')).join('#')}`;

  function list(label, kind, what) {
    const now = new Date().toISOString();
    answers.prepend(el('li', { class: 'fresh', 'data-result': label },
      el('time', { datetime: now }, kit.clock(now)), el('span', { class: `badge ${kind}` }, label), el('span', { class: 'what' }, what)));
    while (answers.childElementCount > SHOWN) answers.lastElementChild.remove();
  }

  function say(text) {
    summary.textContent = text;
    announce(text);
  }

  const busy = (work) => async (event) => {
    event?.preventDefault();
    buttons.forEach((button) => { button.disabled = true; });
    try { await work(); } catch (error) { say(`The token API did not answer: ${error.message}`); }
    buttons.forEach((button) => { button.disabled = false; });
    await refresh();
  };

  const once = busy(async () => {
    const answer = await send();
    say(answer.status === 200 ? (answer.replayed ? 'Replayed: the transfer was made before.' : 'The transfer was made.') : `Refused: ${answer.json.code}`);
    show(answer);
  });

  const twice = busy(async () => {
    // Sent at the same time, so neither request can know of the other.
    const [first, second] = await Promise.all([send(), send()]);
    const labels = [show(first), show(second)].sort();
    const same = first.text === second.text;
    if (labels.join() === 'made,replayed') say(`Sent twice: made once and replayed once. The two answers are ${same ? 'equal, byte for byte' : 'DIFFERENT'}.`);
    else say(same ? `Sent twice. Both answers are equal: ${labels.join(', ')}.` : `Sent twice: ${labels.join(', ')}.`);
  });

  const lost = busy(async () => {
    // The service makes the transfer, but its client gets no answer and can only send the same key again.
    const unseen = await send();
    list('lost', '', 'the first answer did not arrive; the client sends the same request again');
    const again = await send();
    show(again);
    if (again.replayed) say(`The first answer was lost. The second request was replayed, and its answer is ${unseen.text === again.text ? 'equal, byte for byte' : 'DIFFERENT'}.`);
    else say(again.status === 200 ? 'The second request made the transfer.' : `The second request was refused: ${again.json.code}`);
  });

  const buttons = [
    el('button', { id: 'tokens-once', type: 'submit' }, 'Send once'),
    el('button', { id: 'tokens-twice', type: 'button', onclick: twice }, 'Send twice at the same time'),
    el('button', { id: 'tokens-lost', type: 'button', onclick: lost }, 'Send, lose the answer, send again'),
  ];
  const field = (text, input) => el('label', { for: input.id }, text, ' ', input);

  // ---------------------------------------------------------------- statements

  const whose = people('tokens-whose', 0);
  whose.addEventListener('change', () => showHistory());
  const history = el('tbody', { id: 'tokens-history' });

  async function showHistory() {
    const account = accounts[Number(whose.value)];
    if (!account) return;
    const answer = await call('GET', `/tokens/statement/${encodeURIComponent(account.did)}?limit=${ROWS}`, account.token);
    const entries = answer.json.entries ?? [];
    fill(history, entries.map((entry) => el('tr', {},
      el('td', {}, el('time', { datetime: entry.createdAt }, kit.clock(entry.createdAt))),
      el('td', {}, entry.kind),
      el('td', {}, entry.counterparty ? `${entry.direction === 'out' ? 'to' : 'from'} ${name(entry.counterparty)}` : ''),
      el('td', { class: 'number' }, `${entry.direction === 'out' ? '−' : '+'}${entry.amount}`),
      el('td', { class: 'number' }, entry.balance),
      el('td', {}, entry.kind === 'sent' ? el('button', { 'aria-label': `Reverse ${entry.amount} to ${name(entry.counterparty)}`, onclick: () => reverse(account, entry) }, 'Reverse') : ''))));
    if (entries.length === 0) fill(history, el('tr', {}, el('td', { colspan: '6', class: 'empty' }, 'No transactions.')));
  }

  async function reverse(account, entry) {
    const answer = await call('POST', '/tokens/reversals', config.operatorToken,
      { senderDid: account.did, transactionId: entry.transactionId, reason: 'from the console' });
    say(answer.status === 200 ? (answer.replayed ? 'This transfer was already reversed.' : 'A new entry reverses the transfer.') : `Refused: ${answer.json.code}`);
    await refresh();
  }

  // ---------------------------------------------------------------- the page

  let due;
  const refresh = async () => {
    clearTimeout(due);
    try { await showBalances(); drawPicture(); await showHistory(); } catch { /* The next event tries again. */ }
  };
  // Refresh when anybody posts, for example curl or another tab. Our own reads are no posts.
  on('request', (event) => {
    if (!JSON.stringify(event).includes('POST')) return;
    clearTimeout(due);
    due = setTimeout(() => { if (!root.hidden) refresh(); }, 300);
  });
  root.addEventListener('show', refresh);

  const head = (...titles) => el('thead', {}, el('tr', {}, titles.map((title) => el('th', { scope: 'col' }, title))));
  const sum = el('p', { class: 'conserved soft', id: 'tokens-sum', role: 'status' });
  const [left, right, arrow] = [el('div', { class: 'account' }), el('div', { class: 'account' }), el('div', { class: 'arrow', 'aria-hidden': 'true' }, '→')];
  /** Two accounts, the arrow between them, and the sum of all, which a transfer does not change. */
  function drawPicture() {
    const side = (element, account) => fill(element, el('span', {}, name(account.did)), el('b', {}, rows.get(account.did).balance.textContent), el('span', { class: 'soft' }, rows.get(account.did).status.textContent));
    side(left, accounts[Number(from.value)]);
    side(right, accounts[Number(to.value)]);
    const balances = accounts.map(({ did }) => Number(rows.get(did).balance.textContent));
    sum.textContent = balances.every(Number.isFinite) ? `All ${accounts.length} accounts together: ${kit.count(balances.reduce((total, each) => total + each, 0))}. A transfer moves tokens; it makes and loses none.` : 'Open the accounts first: press “Open all”.';
  }
  for (const select of [from, to]) select.addEventListener('change', drawPicture);

  const lead = el('button', { class: 'primary big', id: 'tokens-lead', onclick: async () => {
    if (accounts.some(({ did }) => rows.get(did).status.textContent === 'not opened')) await openAll();
    key.value = newKey();
    amount.value = '10';
    await twice();
    arrow.classList.remove('moving');
    requestAnimationFrame(() => arrow.classList.add('moving'));
  } }, 'Send 10 twice at the same time');
  root.append(
    kit.head('Tokens', 'A transfer moves money once per idempotency key, however often it is sent.', lead),
    el('section', { class: 'card', 'aria-label': 'Two accounts' }, el('div', { class: 'accounts' }, left, arrow, right), sum, summary),
    el('div', { class: 'columns' },
    el('div', {},
      el('section', { class: 'card', 'aria-labelledby': 'tokens-send-title' },
        el('h2', { id: 'tokens-send-title' }, 'Send a transfer'),
        el('form', { onsubmit: once },
          el('div', { class: 'row' }, field('From', from), field('To', to), field('Amount', amount)),
          el('div', { class: 'row' }, field('Message', message), field('Idempotency key', key),
            el('button', { type: 'button', id: 'tokens-new-key', onclick: () => { key.value = newKey(); } }, 'New key')),
          el('div', { class: 'row' }, buttons)),
        answers)),
    el('div', {},
      el('section', { class: 'card', 'aria-labelledby': 'tokens-accounts-title' },
        el('div', { class: 'row end' }, el('h2', { id: 'tokens-accounts-title' }, 'Accounts'), el('button', { id: 'tokens-open', onclick: openAll }, 'Open all')),
        el('div', { class: 'scroll', tabindex: '0' }, el('table', {}, head('Account', 'Balance', 'Status', 'Operator'), balances))),
      el('section', { class: 'card', 'aria-labelledby': 'tokens-history-title' },
        el('div', { class: 'row end' }, el('h2', { id: 'tokens-history-title' }, 'Statement'), field('of', whose)),
        el('div', { class: 'scroll', tabindex: '0' }, el('table', {}, head('Time', 'Kind', 'With', 'Amount', 'Balance', 'Operator'), history))))));
  return refresh();
}
