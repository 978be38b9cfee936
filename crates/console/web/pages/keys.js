// Keys: search the records of all applications; each leads to its life.
const STATES = [['', 'any state'], ['claimed', 'claimed'], ['completed', 'completed'], ['failed', 'failed'], ['released', 'released']];
const COLOURS = { claimed: 'dup', completed: 'new', failed: 'bad', released: '' };

export function mount(root, kit) {
  const { el, fill, get } = kit;
  const asked = new URLSearchParams(location.search);
  const { error, attempt } = kit.trial();
  const text = el('input', { type: 'search', id: 'keys-text', value: asked.get('text') ?? '', placeholder: 'A part of a key', autocomplete: 'off', spellcheck: 'false' });
  const state = el('select', { id: 'keys-state' }, STATES.map(([value, title]) => el('option', { value }, title)));
  const application = el('select', { id: 'keys-application' }, el('option', { value: '' }, 'all applications'));
  const found = el('p', { class: 'soft', role: 'status', id: 'keys-found' });
  const unread = el('ul', { class: 'plain' });
  const table = kit.longTable({
    id: 'keys-rows', label: 'keys', shown: 25, searched: false,
    columns: [['key'], ['state'], ['application'], ['attempts', 'number'], ['changed'], ['meaning']],
    text: (record) => `${record.key} ${record.application} ${record.state} ${record.words}`,
    empty: 'No key is recorded yet. Use an application first: each effect gets a key.',
    row: (record) => el('tr', { 'data-key': record.key }, el('th', { scope: 'row' }, kit.keyLink(record.key, record.namespace)), el('td', {}, kit.badge(COLOURS[record.state] ?? '', record.state)), el('td', {}, record.application),
      el('td', { class: 'number' }, kit.count(record.fence)), el('td', { class: 'whole' }, record.changedAt ? el('time', { datetime: record.changedAt, title: record.changedAt }, kit.ago(record.changedAt)) : '–'), el('td', { class: 'soft' }, record.words)),
  });
  const search = (event) => {
    event?.preventDefault();
    return attempt(async () => {
      const query = new URLSearchParams({ text: text.value.trim(), state: state.value, application: application.value });
      const answer = await get(`/_console/keys?${query}`);
      if (application.options.length === 1) application.append(...answer.applications.map((name) => el('option', { value: name }, name)));
      table.show(answer.keys);
      fill(unread, answer.unread.map((why) => el('li', { class: 'notice' }, `There may be more: ${why}`)));
      found.textContent = `${answer.keys.length} key${answer.keys.length === 1 ? '' : 's'} among ${kit.count(answer.examined)} items${answer.whole ? '' : '; there may be more: narrow the search'}.`;
    });
  };
  fill(root, kit.head('Keys', 'A key names an effect. Search for an event, a file, a delivery or a transfer, and see its life.'), error,
    el('section', { class: 'card', 'aria-label': 'Search' },
      el('form', { class: 'row', role: 'search', onsubmit: search }, el('label', { class: 'field grow' }, 'Key', text), el('label', { class: 'field' }, 'State', state), el('label', { class: 'field' }, 'Application', application),
        el('button', { class: 'primary', type: 'submit' }, 'Search')), found, unread, table));
  state.addEventListener('change', search);
  application.addEventListener('change', search);
  root.addEventListener('show', () => search());
  return search();
}
