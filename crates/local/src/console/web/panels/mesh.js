// Mesh: open two windows, host a group in one, join it in the other, and see values and events in both.

import { Mesh } from '/clients/mesh.js';

const LINES = 200;

export function mount(root, kit) {
  const { el, announce, trial, config } = kit;
  const mesh = new Mesh({ endpoint: `${location.origin}/graphql`, apiKey: config.apiKey });
  let here = null;

  const domain = el('input', { type: 'text', id: 'mesh-domain', value: 'home', autocomplete: 'off' });
  const name = el('input', { type: 'text', id: 'mesh-name', value: `node-${crypto.randomUUID().slice(0, 4)}`, autocomplete: 'off' });
  const polling = el('input', { type: 'checkbox', id: 'mesh-polling' });
  const host = el('button', { id: 'mesh-host', class: 'primary', onclick: () => attempt(create) }, 'Host a group');
  const find = el('button', { id: 'mesh-find', onclick: () => attempt(list) }, 'Find groups');
  const groups = el('ul', { id: 'mesh-groups', class: 'plain' });
  const { error, attempt } = trial();

  const state = el('p', { id: 'mesh-state', class: 'soft' }, 'This node is in no group.');
  const slider = el('input', { type: 'range', id: 'mesh-value', min: '0', max: '100', value: '20', disabled: true, oninput: () => report() });
  const event = el('input', { type: 'text', id: 'mesh-event', value: 'hello', disabled: true });
  const fire = el('button', { id: 'mesh-fire', disabled: true, onclick: () => attempt(() => here.fire(event.value)) }, 'Fire the event');
  const leave = el('button', { id: 'mesh-leave', disabled: true, onclick: () => attempt(() => here.leave()) }, 'Leave');
  const dissolve = el('button', { id: 'mesh-dissolve', disabled: true, onclick: () => attempt(() => here.dissolve()) }, 'Dissolve');
  const drop = el('button', { id: 'mesh-drop', disabled: true, onclick: () => here.drop() }, 'Disconnect without leaving');
  const values = el('tbody', { id: 'mesh-values' });
  const log = el('ul', { id: 'mesh-log', class: 'plain' });

  root.append(
    el('div', { class: 'columns' },
      el('section', { class: 'card', 'aria-labelledby': 'mesh-enter-title' },
        el('h2', { id: 'mesh-enter-title' }, 'Host or join a group'),
        el('p', { class: 'soft' }, 'Host a group here. Then open this page in a second window and join the group there.'),
        el('label', { class: 'field' }, 'Domain', domain),
        el('label', { class: 'field' }, 'This node', name),
        el('label', { class: 'row' }, polling, 'Poll instead of using a WebSocket'),
        error,
        el('div', { class: 'row' }, host, find),
        groups),
      el('section', { class: 'card', 'aria-labelledby': 'mesh-say-title' },
        el('h2', { id: 'mesh-say-title' }, 'Send values and events'),
        state,
        el('label', { class: 'field' }, 'Temperature', slider),
        el('label', { class: 'field' }, 'Event', event),
        el('div', { class: 'row' }, fire, leave, dissolve, drop))),
    el('div', { class: 'columns' },
      el('section', { class: 'card', 'aria-labelledby': 'mesh-values-title' },
        el('h2', { id: 'mesh-values-title' }, 'Values of all nodes'),
        el('table', {}, el('thead', {}, el('tr', {}, ['node', 'values', 'at'].map((title) => el('th', { scope: 'col' }, title)))), values)),
      el('section', { class: 'card', 'aria-labelledby': 'mesh-log-title' },
        el('h2', { id: 'mesh-log-title' }, 'Messages'),
        log)));

  async function create() {
    enter(await mesh.host({ name: `${name.value}’s group`, domain: domain.value, hostId: name.value, useWebSocket: !polling.checked }));
  }

  async function list() {
    const found = await mesh.listGroups(domain.value);
    groups.replaceChildren(...found.map((group) => el('li', { class: 'row' },
      el('span', {}, group.name),
      el('button', { class: 'mesh-join', onclick: () => attempt(async () => enter(await mesh.join({ groupId: group.id, domain: group.domain, nodeId: name.value }), group.name)) }, 'Join'))));
    if (found.length === 0) groups.append(el('li', { class: 'soft' }, 'No group in this domain.'));
  }

  function enter(membership, title = membership.group.name) {
    here?.drop();
    here = membership;
    values.replaceChildren();
    log.replaceChildren();
    show(`In ${title} as ${here.nodeId}${here.isHost ? ', its host' : ''}.`);
    able(true);
    const told = (status) => {
      const row = [...values.children].find((child) => child.dataset.node === status.nodeId) ?? values.appendChild(el('tr', { 'data-node': status.nodeId }));
      const said = status.data.map(({ key, value }) => `${key} = ${value}`).join(', ');
      row.replaceChildren(el('td', {}, status.nodeId), el('td', { class: 'mesh-said' }, said), el('td', {}, status.timestamp.slice(11, 19)));
    };
    here.on('status', told);
    // Values from before this node joined, unless newer ones have arrived.
    attempt(async () => (await membership.statuses()).filter(({ nodeId }) => here === membership && ![...values.children].some((row) => row.dataset.node === nodeId)).forEach(told));
    here.on('message', (message) => {
      const what = message.nodeStatus ? 'values' : message.batchEvent ? message.batchEvent.events.map((fired) => fired.name).join(', ') : message.groupDissolve?.message;
      const who = message.nodeId ?? message.firedByNodeId ?? 'the host';
      line(`#${message.sequence} ${who}: ${what}`);
    });
    here.on('gap', ({ from, to }) => line(`messages #${from} to #${to} were lost`));
    here.on('connection', (how) => line(`connection: ${how}`));
    here.on('ended', ({ reason }) => { show(`The group has ended (${reason}).`); able(false); });
    report();
  }

  function report() {
    if (here) attempt(() => here.report({ temperature: slider.value }));
  }

  function able(inside) {
    for (const control of [slider, event, fire, leave, drop]) control.disabled = !inside;
    dissolve.disabled = !inside || !here.isHost;
  }

  function show(text) {
    state.textContent = text;
    announce(text);
  }

  function line(text) {
    log.prepend(el('li', {}, text));
    while (log.children.length > LINES) log.lastChild.remove();
  }
}
