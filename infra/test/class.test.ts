// An hour of a school class on the mesh: how much batching and rare heartbeats save.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fs from 'node:fs';
import path from 'node:path';
import { REPORT_MS } from '../../clients/mesh/mesh.js';
import { beats, classHour, classLines, coalescingTable, hour, oneClass, rateRulesLines } from '../class.ts';
import { infra } from '../template.ts';
import { pricesOf } from '../cost.ts';
import { environments } from '../environments.ts';

const prices = pricesOf('ap-northeast-1');
const c = classHour();

test('the class is the one of the benchmark', () => {
  assert.deepEqual([c.groups, c.nodes, c.reportsPerSecond, c.batchesPerSecond], [10, 40, 15, 2]);
});

test('messages to subscribers are counted once per subscriber', () => {
  const { delivering, publishing } = hour(c, prices, true, c.heartbeats.rare);
  assert.equal(Math.round(publishing / prices.appsyncOperation!), 10 * 17 * 3600);
  assert.equal(Math.round(delivering / prices.appsyncUpdate!), 10 * 17 * 3600 * 40);
});

test('batching saves more than half', () => {
  const [batched, single] = [true, false].map((is) => hour(c, prices, is, c.heartbeats.rare).total);
  assert.ok(batched! < single! / 2, `${batched} ${single}`);
});

test('the heartbeats of production save at least 70 % of what heartbeats cost', () => {
  assert.equal(beats(c, c.heartbeats.often), 96_000);
  assert.equal(beats(c, c.heartbeats.rare), 12_900);
  const [often, rare] = [c.heartbeats.often, c.heartbeats.rare].map((intervals) => hour(c, prices, true, intervals).heartbeats);
  assert.ok(1 - rare! / often! >= 0.7, `${often} ${rare}`);
});

test('the intervals are those of the environments', () => {
  const of = (name: 'dev' | 'prod') => ({ host: Number(environments[name].parameters.MeshHostHeartbeatSeconds), member: Number(environments[name].parameters.MeshMemberHeartbeatSeconds) });
  assert.deepEqual(of('dev'), c.heartbeats.often);
  assert.deepEqual(of('prod'), c.heartbeats.rare);
});

test('nearly all of what a class costs is messages to its members, and coalescing is what saves', () => {
  const { delivering, total } = oneClass(c, prices, 5, 250);
  assert.ok(delivering / total > 0.8, `${delivering} of ${total}`);
  assert.equal(Math.round(delivering / prices.appsyncUpdate!), 40 * 4 * 3600 * 40, 'reports times members');
  assert.equal(oneClass(c, prices, 1, 50).total, oneClass(c, prices, 1, 500).total, 'who changes rarely sends as often as it changes');
});

test('the table of the documentation is that of the model, and its default is that of the client', () => {
  const page = fs.readFileSync(path.join(infra, '..', 'docs', 'mesh.md'), 'utf8');
  for (const row of coalescingTable(prices)) assert.ok(page.includes(row), row);
  assert.equal(REPORT_MS, c.one.default);
});

test('make cost says what rate rules cost, on or off', () => {
  assert.match(rateRulesLines(prices, 1_500_000, false)[0]!, /off here\): 6\.00 per month and 0\.60 per million requests; 6\.90 at this usage/);
  assert.match(rateRulesLines(prices, 0, true)[0]!, /on: counted above/);
});

test('make cost prints what batching saves', () => {
  assert.match(classLines(prices).join('\n'), /Batching .* saves \d+ %/);
});
