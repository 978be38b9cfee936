import { runtime, util } from '@aws-appsync/utils';
/** @import { Ctx, Item } from '../types' */

const DIGITS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
/** How many messages are looked at: as many as DynamoDB takes in one request. */
const SAMPLES = 100;
/** So few messages fit the queries before and after this step, also if each is as large as a message can be: four of them are a megabyte, a page. */
const FEW = 8;
/** Publishes are written within this time after they took their number: by so much later numbers may be older. */
const SETTLED_AFTER_MS = 5000;

/**
 * Finds the next event where there are many messages before it: reports, or messages that are no longer kept and not yet deleted. Every message
 * has the number of the last event before it (`lastEvent`). So a hundred messages, evenly spread, say between which two of them the
 * next event is. Leaves it in `stash.from` and `stash.to`. Does nothing if an event was found, or if only a few are left.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { groupId, domain } = ctx.args;
  const { group, from, to, events, complete } = ctx.stash;
  const last = group.eventSequence ? group.eventSequence : 0;
  const end = to ? to : last;
  if (complete || events.length > 0 || end - from < FEW) {
    runtime.earlyReturn(ctx.prev.result);
  }
  const step = Math.max(1, (end - from) / SAMPLES);
  /** @type {object[]} */
  const keys = [];
  for (const tens of DIGITS) {
    for (const ones of DIGITS) {
      const sequence = from + Math.floor((10 * tens + ones) * step);
      if (sequence <= end) {
        keys.push(util.dynamodb.toMapValues({ pk: `GROUP#${groupId}@${domain}`, sk: `MESSAGE#${`${1000000000000 + sequence}`.slice(1)}` }));
      }
    }
  }
  return {
    operation: 'BatchGetItem',
    tables: {
      [ctx.env.TABLE_NAME]: {
        keys,
        consistentRead: true,
        projection: {
          // With the key, by which AppSync finds out what is missing.
          expression: 'pk, sk, #sequence, lastEvent, #at, #ttl',
          expressionNames: { '#sequence': 'sequence', '#at': 'at', '#ttl': 'ttl' },
        },
      },
    },
  };
}

/** @param {Ctx<{ data: Record<string, (Item | null)[]> }>} ctx What DynamoDB left unprocessed is null: it only makes the search less precise. */
export function response(ctx) {
  if (ctx.error) {
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The events could not be read. Try again.', 'Unavailable');
  }
  const { from, since, seeks } = ctx.stash;
  const now = util.time.nowEpochMilliSeconds();
  // Up to here there is nothing that was asked for.
  let nothing = from - 1;
  let found = 0;
  for (const item of ctx.result.data[ctx.env.TABLE_NAME]) {
    if (item && found === 0) {
      const isOld = item.ttl * 1000 + SETTLED_AFTER_MS <= now || (since && item.at + SETTLED_AFTER_MS <= since);
      // A message of an older version does not say which event was the last.
      const lastEvent = item.lastEvent || item.lastEvent === 0 ? item.lastEvent : -1;
      if (isOld || (lastEvent >= 0 && lastEvent <= nothing)) {
        nothing = item.sequence;
      } else if (lastEvent > nothing) {
        found = item.sequence;
      }
    }
  }
  if (nothing >= from) {
    ctx.stash.from = nothing + 1;
    ctx.stash.seen = nothing;
  }
  ctx.stash.to = found > 0 ? found : ctx.stash.to;
  ctx.stash.seeks = seeks + 1;
  return ctx.prev.result;
}
