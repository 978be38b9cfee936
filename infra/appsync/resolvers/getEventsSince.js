import { util } from '@aws-appsync/utils';
/** @import { Ctx } from '../types' */

/** How many events one answer has at most. */
const MAX_EVENTS = 100;
/** A number without a message counts as lost when a later message is this old. */
const SETTLED_AFTER_MS = 5000;

/**
 * checkBounds, checkGroupExists, checkSecret, readEvents (several times, because there may be many reports between two events). `since` is the cursor
 * (`SEQUENCE:INDEX`) of an event, after which the answer begins, or a time.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { since } = ctx.args;
  if (util.matches('^[0-9]{12}:[0-9]{3}$', since)) {
    ctx.stash.after = +since.split(':')[0];
    ctx.stash.cursor = since;
  } else if (util.matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-][0-9]{2}:?[0-9]{2})$', since)) {
    ctx.stash.after = 1;
    ctx.stash.since = util.time.parseISO8601ToEpochMilliSeconds(since);
    ctx.stash.cursor = '';
  } else {
    util.error('since must be the cursor of an event, a nextSince, or a time such as 2026-01-01T00:00:00.000Z.', 'ValidationError');
  }
  return {};
}

/** @param {Ctx} ctx */
export function response(ctx) {
  const { read, since, cursor, after } = ctx.stash;
  const now = util.time.nowEpochMilliSeconds();
  // readEvents reads newest first, page after page. (Sorting is not possible: in AppSync `sort` takes no function.)
  const inOrder = (read ? read : []).reverse();
  /** @type {object[]} */
  const events = [];
  let last = cursor ? after : after - 1;
  let open = false;
  for (const item of inOrder) {
    const isKept = item.ttl * 1000 > now && (!since || item.at > since);
    // The numbers in between are missing: their messages are lost, or may still come. An asker that went on would never see the latter.
    if (isKept && item.sequence > last + 1 && item.at + SETTLED_AFTER_MS > now) {
      open = true;
    }
    last = item.sequence;
    if (isKept && !open && item.kind === 'events') {
      const place = `${1000000000000 + item.sequence}`.slice(1);
      item.message.events.forEach((event, index) => {
        const here = `${place}:${`${1000 + index}`.slice(1)}`;
        if (here > cursor && events.length < MAX_EVENTS) {
          events.push({ ...event, cursor: here });
        }
      });
    }
  }
  return events;
}
