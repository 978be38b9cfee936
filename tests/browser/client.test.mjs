// The package clients/mesh as a page uses it: the page of its README, in two windows.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import { test } from 'node:test';
import { browser, eventually, json, platform, prepare } from './support.mjs';

prepare();

const here = new URL('../../clients/mesh/', import.meta.url);
const readme = fs.readFileSync(new URL('README.md', here), 'utf8');
const page = /```html\n([\s\S]*?)```/.exec(readme)[1];

test('the page of the README works, and has ten lines', async () => {
  assert.ok(page.trimEnd().split('\n').length <= 10, page);
  const { apiKey } = await json(`${platform.url}/_local/config`);
  const server = http.createServer((request, response) => {
    const isModule = request.url === '/mesh.js';
    response.setHeader('content-type', isModule ? 'text/javascript' : 'text/html');
    response.end(isModule ? fs.readFileSync(new URL('mesh.js', here)) : page.replaceAll('http://127.0.0.1:8787', platform.url));
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const address = `http://127.0.0.1:${server.address().port}/class.html`;
  const problems = [];
  const window = async () => {
    const opened = await (await browser.newContext()).newPage();
    opened.on('dialog', (dialog) => dialog.accept(apiKey));
    opened.on('pageerror', (error) => problems.push(error.message));
    opened.on('console', (message) => { if (message.type() === 'warning' || message.type() === 'error') problems.push(message.text()); });
    await opened.goto(address);
    return opened;
  };
  try {
    const first = await window();
    await eventually('the group', async () => {
      const query = '{ listGroupsByDomain(domain: "home") { secured } }';
      const { data } = await json(`${platform.url}/graphql`, { method: 'POST', headers: { 'content-type': 'application/json', 'x-api-key': apiKey }, body: JSON.stringify({ query }) });
      return data.listGroupsByDomain.length === 1 && data.listGroupsByDomain[0].secured;
    });
    const second = await window();
    await eventually('a value of the second in the first', async () => {
      await second.fill('#value', String(Math.floor(Math.random() * 100)));
      return (await first.locator('#log').textContent()).includes('node-');
    });
    assert.deepEqual(problems.filter((text) => !text.includes('favicon')), []);
  } finally {
    server.close();
  }
});
