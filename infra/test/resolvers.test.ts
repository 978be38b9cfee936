// Resolvers under what AppSync does and the local platform does not. What they answer is tested in crates/mesh/tests/resolvers.rs.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { infra } from '../template.ts';

const NOW = Date.UTC(2026, 0, 1);
/** The part of `@aws-appsync/utils` that the responses below use. */
const util = {
  error(message: string, type: string): never {
    throw Object.assign(new Error(message), { type });
  },
  time: { nowEpochMilliSeconds: () => NOW, nowEpochSeconds: () => NOW / 1000 },
};

/** The response function of a resolver file. */
function response(file: string): (ctx: any) => any {
  const code = fs.readFileSync(path.join(infra, 'appsync', file), 'utf8')
    .replace(/^import .*'@aws-appsync\/utils';$/m, '')
    .replaceAll('export function', 'function');
  return new Function('util', 'runtime', `'use strict';\n${code}\nreturn response;`)(util, {});
}

/** An array as AppSync has it: "Array.prototype.sort() doesn't support arguments". */
function asInAppSync<T>(items: T[]): T[] {
  return Object.assign(items, {
    sort: (...args: unknown[]) => {
      if (args.length > 0) throw new Error('AppSync: sort() takes no arguments');
      return Array.prototype.sort.call(items);
    },
  });
}

test('readEvents keeps events in order without giving sort a function, which AppSync refuses', () => {
  const item = (sequence: number, ...names: string[]) =>
    ({ kind: 'events', sequence, at: NOW - 60_000 + sequence, ttl: NOW / 1000 + 60, message: { events: names.map((name) => ({ name })) } });
  const items = asInAppSync([item(1, 'a1', 'a2'), item(2, 'b'), item(11, 'c'), item(12, 'd')]);
  const stash: any = { events: asInAppSync([]), from: 1, seen: 0, seeks: 0, since: NOW - 100_000, cursor: '' };
  response('functions/readEvents.js')({ stash, result: { items, nextToken: null }, prev: { result: null } });
  assert.deepEqual(stash.events.map(({ name, cursor }: any) => `${name} ${cursor}`), [
    'a1 000000000001:000', 'a2 000000000001:001', 'b 000000000002:000', 'c 000000000011:000', 'd 000000000012:000',
  ]);
});

// DynamoDB's API spells it the first way, and AppSync's documentation of cancellationReasons the second.
for (const refused of ['ConditionalCheckFailed', 'ConditionCheckFailed']) {
  const cancelled = (...types: string[]) => ({
    args: { groupId: 'g1', domain: 'd' },
    error: { type: 'DynamoDB:TransactionCanceledException', message: '' },
    result: { keys: null, cancellationReasons: types.map((type) => ({ type, message: '' })) },
    prev: { result: 'before' },
  });

  test(`putMember recognises a cancelled transaction by ${refused}`, () => {
    const answer = response('functions/putMember.js');
    assert.throws(() => answer(cancelled(refused, 'None', 'None')), { type: 'GroupNotFound' });
    assert.throws(() => answer(cancelled('None', refused, 'None')), { type: 'Conflict' });
    assert.throws(() => answer(cancelled('None', 'None', refused)), { type: 'Unauthorized' }, 'somebody else is this node');
    assert.throws(() => answer(cancelled('None', 'ThrottlingError', 'None')), { type: 'Unavailable' });
  });

  test(`writeMessage recognises a cancelled transaction by ${refused}`, () => {
    const failure = (...types: string[]) => {
      const stash: any = {};
      response('functions/writeMessage.js')({ ...cancelled(...types), stash });
      return stash.failure.type;
    };
    assert.equal(failure(refused, 'None'), 'NodeNotFound');
    assert.equal(failure('None', refused), 'Conflict');
    const stash: any = {};
    const item = { ttl: NOW / 1000 + 1 };
    response('functions/writeMessage.js')({ ...cancelled(), result: { cancellationReasons: [{ type: refused, message: '', item }] }, stash });
    assert.equal(stash.failure.type, 'Unauthorized', 'the node is a member, so the secret is wrong');
    assert.equal(failure('None', 'ThrottlingError'), 'Unavailable');
  });

  test(`declareVoid recognises a cancelled transaction by ${refused}`, () => {
    const stash = { failure: { message: 'why', type: 'NodeNotFound' } };
    const answer = response('functions/declareVoid.js');
    assert.equal(answer({ ...cancelled('None', refused), stash }), 'before', 'the message had been written');
    assert.throws(() => answer({ ...cancelled(refused, 'None'), stash }), { type: 'GroupNotFound' });
    assert.throws(() => answer({ ...cancelled('None', 'None'), stash }), { type: 'NodeNotFound' });
  });
}
