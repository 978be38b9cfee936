// The frame of the console: the menu, the address, and the page that is shown. The back end says which pages there are.
import * as kit from './kit.js';
import { announce, el, fill, get, url } from './kit.js';

/** Addresses of before there were pages. */
const FORMER = { slack: '/apps/slack', feeds: '/apps/feeds', tokens: '/apps/tokens', sessync: '/apps/sessync', mesh: '/apps/mesh', operations: '/operate/alarms', overview: '/' };

/** The order of the menu; other groups come after. */
const GROUPS = ['Watch', 'Try', 'Operate'];

const main = document.getElementById('main');
const nav = document.getElementById('nav');
const menu = document.getElementById('menu');

start();

async function start() {
  document.getElementById('skip').addEventListener('click', () => main.focus());
  const frame = await until(() => get('/_console/frame'));
  const has = (capability) => frame.capabilities.includes(capability);
  const config = has('local') ? await get('/_local/config') : {};
  // A question may cost something; then pages ask less often.
  const refreshMs = (ms) => Math.max(ms, (frame.refreshSeconds ?? 0) * 1000);
  // On one machine nothing is at stake. Elsewhere the same is asked as at the command line.
  const confirmed = (question, word, field) => (has('local') ? Promise.resolve('') : kit.ask(question, word, { as: frame.identity, field }));
  const whole = { ...kit, config, frame, has, navigate, refreshMs, confirmed };
  document.getElementById('environment').textContent = frame.environment === 'local' ? 'on this machine' : frame.environment;
  const pages = frame.pages.map((page) => ({ ...page, pattern: pattern(page.path) }));
  drawMenu(frame.pages);
  menu.addEventListener('click', () => open(menu.getAttribute('aria-expanded') !== 'true'));
  nav.addEventListener('keydown', (event) => { if (event.key === 'Escape') { open(false); menu.focus(); } });
  document.addEventListener('click', follow);
  window.addEventListener('popstate', () => show());

  if (has('local')) broken();
  // The overview is mounted first, whichever page is shown, so that it misses no event of the stream.
  const overview = pages.find(({ name }) => name === 'overview');
  if (overview) await mount(overview, {}, overview.path);
  await show();
  if (has('live')) {
    kit.connect((state) => {
      document.getElementById('connection').classList.toggle('live', state === 'live');
      document.getElementById('connection-text').textContent = state === 'live' ? 'live' : 'no answer; reconnecting';
    });
  } else {
    document.getElementById('connection').hidden = true;
  }

  function drawMenu(all) {
    const groups = new Map();
    for (const group of GROUPS) if (all.some((page) => page.group === group)) groups.set(group, []);
    for (const page of all.filter(({ group }) => group)) groups.set(page.group, [...(groups.get(page.group) ?? []), page]);
    fill(nav, [...groups].map(([group, members]) => el('div', { class: 'group' }, el('h2', { id: `group-${group}` }, group),
      el('ul', { 'aria-labelledby': `group-${group}` }, members.map((page) => el('li', {}, el('a', { href: url(page.path), 'data-page': page.name }, page.title)))))));
  }

  function open(wanted) {
    menu.setAttribute('aria-expanded', String(wanted));
    document.body.classList.toggle('menu-open', wanted);
  }

  /** A click on a link to one of our pages shows it without a reload. */
  function follow(event) {
    const link = event.target.closest?.('a[href]');
    if (!link || link.target || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const to = new URL(link.href);
    if (to.origin !== location.origin || !find(to.pathname)) return;
    event.preventDefault();
    navigate(to.pathname + to.search);
  }

  function navigate(path) {
    history.pushState(null, '', path);
    show(true);
  }

  function find(pathname) {
    const base = new URL(url('/')).pathname;
    const path = pathname.startsWith(base) ? `/${pathname.slice(base.length)}` : pathname;
    for (const page of pages) {
      const found = page.pattern.exec(path);
      if (!found) continue;
      try {
        return [page, Object.fromEntries(Object.entries(found.groups ?? {}).map(([name, value]) => [name, decodeURIComponent(value)]))];
      } catch { return undefined; }
    }
    return undefined;
  }

  async function show(moved = false) {
    const former = FORMER[location.hash.slice(1)];
    if (former && location.pathname === new URL(url('/')).pathname) history.replaceState(null, '', url(former));
    open(false);
    const [page, parameters] = find(location.pathname) ?? [pages[0], {}];
    const place = location.pathname;
    for (const other of pages) for (const root of other.roots?.values() ?? []) root.hidden = true;
    for (const link of nav.querySelectorAll('a')) {
      const current = link.dataset.page === page.name || (page.name === 'life' && link.dataset.page === 'keys');
      if (current) link.setAttribute('aria-current', 'page'); else link.removeAttribute('aria-current');
    }
    document.title = `${page.title} · ichido ${frame.environment}`;
    const root = await mount(page, parameters, place);
    if (location.pathname !== place) return;
    root.hidden = false;
    root.dispatchEvent(new Event('show'));
    if (moved) {
      window.scrollTo(0, 0);
      main.focus({ preventScroll: true });
      announce(page.title);
    }
  }

  /** The element of a page. A page with parameters is made anew for each address. */
  async function mount(page, parameters, place) {
    page.roots ??= new Map();
    const key = Object.keys(parameters).length === 0 ? '' : place;
    if (page.roots.has(key)) return page.roots.get(key);
    for (const old of key === '' ? [] : page.roots.values()) { old.dispatchEvent(new Event('leave')); old.remove(); }
    if (key !== '') page.roots.clear();
    const root = el('section', { id: `page-${page.name}`, 'aria-label': page.title, hidden: true });
    page.roots.set(key, root);
    main.append(root);
    try {
      const module = await import(url(`/console/pages/${page.name}.js`));
      await module.mount(root, whole, parameters);
    } catch (error) {
      root.append(el('p', { class: 'error', role: 'alert' }, `The page ${page.title} could not be loaded: ${error.message}. Reload the page to try again.`));
    }
    return root;
  }
}

/** `/keys/{namespace}/{key}` as a regular expression. */
function pattern(path) {
  return new RegExp(`^${path.replace(/\{(\w+)\}/g, '(?<$1>[^/]+)')}$`);
}

/** What is broken on purpose, on every page. */
function broken() {
  const element = document.getElementById('broken');
  const reflect = (all) => {
    const names = Object.keys(all).map(kit.nameOf);
    element.hidden = names.length === 0;
    element.textContent = names.length === 0 ? '' : `Broken on purpose: ${names.join(', ')}`;
  };
  kit.on('faults', (event) => reflect(event.faults));
  kit.faults.get().then(reflect, () => undefined);
}

/** Asks until there is an answer, because the platform may still be starting. */
async function until(ask) {
  for (;;) {
    try { return await ask(); } catch { await new Promise((resolve) => setTimeout(resolve, 500)); }
  }
}
