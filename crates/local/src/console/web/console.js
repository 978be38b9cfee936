// The frame of the console: one tab for the overview, one per application, one for alarms and metrics.
import * as kit from './kit.js';
import { el, fill, get } from './kit.js';
import { operations } from './operations.js';
import { overview } from './overview.js';

const main = document.getElementById('main');
const tablist = document.getElementById('tabs');

start();

async function start() {
  const frame = await until(() => get('/_local/console'));
  const config = await get('/_local/config');
  const tabs = [
    { name: 'overview', title: 'Overview', mount: (root) => overview(root, frame) },
    ...frame.panels.map((panel) => ({ ...panel, mount: (root) => application(root, panel, config) })),
    { name: 'operations', title: 'Alarms and metrics', mount: operations },
  ];
  drawTabs(tabs);
  window.addEventListener('hashchange', () => show(location.hash.slice(1)));
  // The overview is mounted first, whichever tab is shown, so that it misses no event of the stream.
  tabs[0].mounted = true;
  tabs[0].mount(tabs[0].root);
  show(location.hash.slice(1));
  kit.connect((state) => {
    document.getElementById('connection').classList.toggle('live', state === 'live');
    document.getElementById('connection-text').textContent = state === 'live' ? 'live' : 'ichido-local does not answer; reconnecting';
  });

  function drawTabs() {
    for (const tab of tabs) {
      tab.button = el('button', { role: 'tab', id: `tab-${tab.name}`, 'aria-controls': `panel-${tab.name}`, 'aria-selected': 'false', tabindex: '-1',
        onclick: () => { location.hash = tab.name; }, onkeydown: move }, tab.title);
      tab.root = el('section', { role: 'tabpanel', id: `panel-${tab.name}`, 'aria-labelledby': `tab-${tab.name}`, hidden: true });
      tablist.append(tab.button);
      main.append(tab.root);
    }
  }

  function move(event) {
    const at = tabs.findIndex((tab) => tab.button === event.currentTarget);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = tabs[to % tabs.length];
    location.hash = next.name;
    next.button.focus();
  }

  function show(name) {
    const chosen = tabs.find((tab) => tab.name === name) ?? tabs[0];
    for (const tab of tabs) {
      const selected = tab === chosen;
      tab.button.setAttribute('aria-selected', String(selected));
      tab.button.tabIndex = selected ? 0 : -1;
      tab.root.hidden = !selected;
    }
    if (!chosen.mounted) {
      chosen.mounted = true;
      chosen.mount(chosen.root);
    }
    chosen.root.dispatchEvent(new Event('show'));
  }
}

/** Asks until there is an answer, because the platform may still be starting. */
async function until(ask) {
  for (;;) {
    try { return await ask(); } catch { await new Promise((resolve) => setTimeout(resolve, 500)); }
  }
}

async function application(root, panel, config) {
  try {
    const module = await import(`/console/panels/${panel.name}.js`);
    await module.mount(root, { ...kit, config });
  } catch (error) {
    fill(root, el('p', { class: 'error' }, `The ${panel.title} panel could not be loaded: ${error.message}. Reload the page to try again.`));
  }
}
