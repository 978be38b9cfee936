import { runtime, util } from '@aws-appsync/utils';
/** @import { Ctx, Page, Item } from '../types' */

/** How many messages one query reads, and how many events one answer has at most. */
const PAGE = 1000;
const MAX_EVENTS = 100;
/** A number without a message counts as lost when a later message is this old. */
const SETTLED_AFTER_MS = 5000;

/**
 * Reads messages from `stash.from` on, oldest first, and adds their events to `stash.events`. Stops at a number whose message may still come,
 * and at the group's last event (`stash.complete`). This step is in a pipeline several times: each one goes on where the one before ended. A
 * group without events costs no query, a reader who has the last one a query of one item. Where a thousand messages would not do, seekEvents looks
 * first.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { groupId, domain } = ctx.args;
  const { group, from, to, since, seeks, events, complete } = ctx.stash;
  const last = group.eventSequence ? group.eventSequence : 0;
  const isFar = (to ? to : last) - from >= PAGE;
  // From a time on, it is not known where to begin. From a cursor on, the next event is most often near.
  const seeksFirst = isFar && (seeks === 1 || (seeks === 0 && since));
  if (complete || from > last || events.length >= MAX_EVENTS || seeksFirst) {
    runtime.earlyReturn(ctx.prev.result);
  }
  return {
    operation: 'Query',
    query: {
      expression: 'pk = :pk AND sk BETWEEN :from AND :to',
      expressionValues: util.dynamodb.toMapValues({
        ':pk': `GROUP#${groupId}@${domain}`,
        ':from': `MESSAGE#${`${1000000000000 + from}`.slice(1)}`,
        ':to': `MESSAGE#${`${1000000000000 + last}`.slice(1)}`,
      }),
    },
    consistentRead: true,
    limit: PAGE,
  };
}

/** @param {Ctx<Page<Item>>} ctx */
export function response(ctx) {
  if (ctx.error) {
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The events could not be read. Try again.', 'Unavailable');
  }
  const { since, cursor, events } = ctx.stash;
  const now = util.time.nowEpochMilliSeconds();
  let { seen } = ctx.stash;
  let open = false;
  for (const item of ctx.result.items) {
    const isThere = item.ttl * 1000 > now;
    const isKept = isThere && (!since || item.at > since);
    // The numbers in between are missing: their messages are lost, or may still come. An asker that went on would never see the latter.
    if (isThere && item.sequence > seen + 1 && item.at + SETTLED_AFTER_MS > now) {
      open = true;
    }
    if (!open) {
      seen = item.sequence;
      if (isKept && item.kind === 'events') {
        const place = `${1000000000000 + item.sequence}`.slice(1);
        item.message.events.forEach((event, index) => {
          const here = `${place}:${`${1000 + index}`.slice(1)}`;
          if (here > cursor && events.length < MAX_EVENTS) {
            events.push({ ...event, cursor: here });
          }
        });
      }
    }
  }
  ctx.stash.events = events;
  ctx.stash.seen = seen;
  ctx.stash.from = seen + 1;
  ctx.stash.to = null;
  ctx.stash.complete = open || !ctx.result.nextToken;
  return ctx.prev.result;
}
