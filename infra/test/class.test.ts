// An hour of a school class on the mesh: how much batching and rare heartbeats save.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { beats, classHour, classLines, hour } from '../class.ts';
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

test('make cost prints what batching saves', () => {
  assert.match(classLines(prices).join('\n'), /Batching .* saves \d+ %/);
});
