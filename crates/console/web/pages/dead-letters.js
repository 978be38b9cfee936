// Dead letters: what was given up, why, and sending it again.
export function mount(root, kit) {
  const { el, fill, get, on, has } = kit;
  const { error, attempt } = kit.trial();
  const list = el('ul', { class: 'plain letters', id: 'letters' });
  const unread = el('ul', { class: 'plain' });
  const empty = el('p', { class: 'empty' }, 'There are no dead letters: nothing was given up. ', has('local') ? 'To see one, break Slack or Mastodon on the overview, send something, and wait until it was tried often enough.' : '');
  const said = el('p', { class: 'soft', role: 'status' });

  function letter(one) {
    const questions = { 'redrive-dead-letter': `Send ${one.id} again? Remove the cause first.`, 'drop-dead-letter': `Delete ${one.id} without sending it?` };
    const change = (action, text, primary) => el('button', { class: primary ? 'primary' : '', 'aria-label': `${text} ${one.id}`, onclick: () => attempt(async () => {
      const reason = await kit.confirmed(questions[action], text, 'Reason');
      if (reason === undefined) return;
      kit.say(said, await kit.change(action, { application: one.application, id: one.id, reason }));
      await draw();
    }) }, text);
    return el('li', { 'data-letter': one.id },
      el('div', { class: 'row end' }, el('div', {}, kit.badge('bad', one.what || 'given up'), ' ', el('b', {}, one.function), el('span', { class: 'soft' }, ' ', el('time', { datetime: one.at }), `${one.attempts ? `, after ${one.attempts} attempts` : ''}, in ${one.place}`)),
        has('changes') ? el('div', { class: 'row' }, change('redrive-dead-letter', 'Send again', true), change('drop-dead-letter', 'Drop')) : undefined),
      el('p', {}, one.reason),
      one.keys.length > 0 ? el('p', {}, 'Keys: ', one.keys.map(({ namespace, key }, index) => [index > 0 ? ', ' : '', kit.keyLink(key, namespace)]).flat()) : undefined,
      el('details', {}, el('summary', {}, 'What would be sent', el('span', { class: 'hidden' }, ` again as ${one.id}`)), el('pre', { tabindex: '0' }, el('code', {}, JSON.stringify(one.payload, null, 2)))));
  }
  async function draw() {
    const all = await get('/_console/dead-letters');
    empty.hidden = all.letters.length > 0;
    kit.refill(list, all.letters, () => all.letters.map(letter));
    for (const time of list.querySelectorAll('time')) kit.say(time, kit.ago(time.dateTime));
    kit.refill(unread, all.unread, () => all.unread.map((why) => el('li', { class: 'notice' }, `There may be more: ${why}`)));
  }
  fill(root, kit.head('Dead letters', 'A delivery that was given up is kept with its reason. Sending it again uses the same key, so nothing happens twice.'), error,
    el('section', { class: 'card', 'aria-label': 'Dead letters' }, said, empty, unread, list));
  let due;
  on('dead-letter', () => { clearTimeout(due); due = setTimeout(() => { if (!root.hidden) attempt(draw); }, 300); });
  root.addEventListener('show', () => attempt(draw));
}
