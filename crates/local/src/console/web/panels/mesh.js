// Mesh: open two windows, host a group in one, join it in the other, and see values and events in both.

import { Mesh } from '/clients/mesh.js';

const LINES = 200;

export function mount(root, kit) {
  const { el, fill, svg, announce, trial, config } = kit;
  const mesh = new Mesh({ endpoint: `${location.origin}/graphql`, apiKey: config.apiKey });
  let here = null;

  const domain = el('input', { type: 'text', id: 'mesh-domain', value: 'home', autocomplete: 'off' });
  const name = el('input', { type: 'text', id: 'mesh-name', value: `node-${crypto.randomUUID().slice(0, 4)}`, autocomplete: 'off' });
  const polling = el('input', { type: 'checkbox', id: 'mesh-polling' });
  const host = el('button', { id: 'mesh-host', class: 'primary big', onclick: () => attempt(create) }, 'Host a group here');
  const second = el('a', { href: '/apps/mesh', target: '_blank', rel: 'noopener', id: 'mesh-second' }, 'Open a second window');
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

  const picture = svg('svg', { class: 'mesh-picture', id: 'mesh-picture', viewBox: '-200 -110 400 220', role: 'img', 'aria-label': 'The group: no node yet' });
  /** What the picture shows: node → {value, lit}. A node moves outwards as its value grows. */
  const nodes = new Map();
  const RINGS = [36, 66, 96];
  function drawPicture() {
    const others = [...nodes.keys()].filter((id) => id !== hostId());
    const place = (id, value) => {
      if (id === hostId()) return [0, 0];
      const angle = (2 * Math.PI * others.indexOf(id)) / Math.max(1, others.length) - Math.PI / 2;
      const far = 40 + 0.5 * Math.min(100, Math.max(0, value ?? 0));
      return [Math.cos(angle) * far * 1.9, Math.sin(angle) * far];
    };
    const at = [...nodes].map(([id, { value, lit }]) => ({ id, value, lit, to: place(id, value) }));
    const edges = at.filter(({ id }) => id !== hostId()).map(({ to: [x, y], lit }) => svg('path', { class: `edge ${lit ? 'lit' : ''}`, d: `M0 0L${x.toFixed(1)} ${y.toFixed(1)}` }));
    for (const { id, value, to: [x, y] } of at) {
      let shape = picture.querySelector(`[data-node="${CSS.escape(id)}"]`);
      if (!shape) {
        shape = svg('g', { class: 'at', 'data-node': id }, svg('circle', { r: 17, class: `node ${id === hostId() ? 'host' : ''} ${id === here?.nodeId ? 'me' : ''}` }), svg('text', { y: 32 }, id), svg('text', { class: 'value', y: 5 }, ''));
        picture.append(shape);
      }
      shape.style.transform = `translate(${x}px, ${y}px)`;
      shape.querySelector('.value').textContent = value ?? '';
    }
    for (const shape of picture.querySelectorAll('[data-node]')) if (!nodes.has(shape.dataset.node)) shape.remove();
    for (const old of picture.querySelectorAll('.edge, .ring')) old.remove();
    picture.prepend(...(nodes.size > 0 ? RINGS.map((r) => svg('ellipse', { class: 'ring', rx: r * 1.9, ry: r, fill: 'none', stroke: 'var(--line)', 'stroke-dasharray': '2 5' })) : []), ...edges);
    picture.setAttribute('aria-label', nodes.size === 0 ? 'The group: no node yet' : `The group: ${at.map(({ id, value }) => `${id}${value === undefined ? '' : ` at ${value}`}`).join(', ')}`);
    noPicture.hidden = nodes.size > 0;
    picture.toggleAttribute('hidden', nodes.size === 0);
  }
  const hostId = () => here?.group?.hostId ?? (here?.isHost ? here.nodeId : undefined);
  function lightUp(id, value) {
    const known = nodes.get(id) ?? {};
    nodes.set(id, { value: value ?? known.value, lit: true });
    drawPicture();
    setTimeout(() => { const node = nodes.get(id); if (node) { node.lit = false; drawPicture(); } }, 700);
  }
  const noPicture = el('p', { class: 'empty' }, 'Press the button to host a group. Then open a second window, join the group there, and move its slider: its node moves here.');

  root.append(
    kit.head('Mesh', 'A group of nodes shares values and events. Each message has one place in one order, and nobody misses one unnoticed.', host, second),
    el('section', { class: 'card', 'aria-label': 'The group' }, noPicture, picture),
    el('div', { class: 'columns even' },
      el('section', { class: 'card', 'aria-labelledby': 'mesh-enter-title' },
        el('h2', { id: 'mesh-enter-title' }, 'Join a group'),
        el('label', { class: 'field' }, 'Domain', domain),
        el('label', { class: 'field' }, 'This node', name),
        el('label', { class: 'row' }, polling, 'Poll instead of using a WebSocket'),
        error,
        el('div', { class: 'row' }, find),
        groups),
      el('section', { class: 'card', 'aria-labelledby': 'mesh-say-title' },
        el('h2', { id: 'mesh-say-title' }, 'Send values and events'),
        state,
        el('label', { class: 'field' }, 'Temperature', slider),
        el('label', { class: 'field' }, 'Event', event),
        el('div', { class: 'row' }, fire, leave, dissolve, drop))),
    el('div', { class: 'columns even' },
      el('section', { class: 'card', 'aria-labelledby': 'mesh-values-title' },
        el('h2', { id: 'mesh-values-title' }, 'Values of all nodes'),
        el('div', { class: 'scroll', tabindex: '0' }, el('table', {}, el('thead', {}, el('tr', {}, ['node', 'values', 'at'].map((title) => el('th', { scope: 'col' }, title)))), values))),
      el('section', { class: 'card', 'aria-labelledby': 'mesh-log-title' },
        el('h2', { id: 'mesh-log-title' }, 'Messages'),
        log)));

  drawPicture();

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
    nodes.clear();
    if (hostId()) nodes.set(hostId(), {});
    nodes.set(here.nodeId, nodes.get(here.nodeId) ?? {});
    drawPicture();
    show(`In ${title} as ${here.nodeId}${here.isHost ? ', its host' : ''}.`);
    able(true);
    const told = (status) => {
      const row = [...values.children].find((child) => child.dataset.node === status.nodeId) ?? values.appendChild(el('tr', { 'data-node': status.nodeId }));
      const number = Number(status.data.find(({ key }) => key === 'temperature')?.value);
      lightUp(status.nodeId, Number.isFinite(number) ? number : undefined);
      const said = status.data.map(({ key, value }) => `${key} = ${value}`).join(', ');
      row.replaceChildren(el('td', {}, status.nodeId), el('td', { class: 'mesh-said' }, said), el('td', {}, status.timestamp.slice(11, 19)));
    };
    here.on('status', told);
    // Values from before this node joined, unless newer ones have arrived.
    attempt(async () => (await membership.statuses()).filter(({ nodeId }) => here === membership && ![...values.children].some((row) => row.dataset.node === nodeId)).forEach(told));
    here.on('message', (message) => {
      if (message.firedByNodeId) lightUp(message.firedByNodeId);
      const what = message.nodeStatus ? 'values' : message.batchEvent ? message.batchEvent.events.map((fired) => fired.name).join(', ') : message.groupDissolve?.message;
      const who = message.nodeId ?? message.firedByNodeId ?? 'the host';
      line(`#${message.sequence} ${who}: ${what}`);
    });
    here.on('gap', ({ from, to }) => line(`messages #${from} to #${to} were lost`));
    here.on('connection', (how) => line(`connection: ${how}`));
    here.on('ended', ({ reason }) => { show(`The group has ended (${reason}).`); able(false); nodes.clear(); drawPicture(); });
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
