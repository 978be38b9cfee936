import { util } from '@aws-appsync/utils';
/** @import { Ctx } from '../types' */

/**
 * checkBounds, checkGroupExists, findMember twice, checkSecret; then readEvents, with seekEvents in between, because there may be many reports before
 * an event. `since` is the cursor (`SEQUENCE:INDEX`) of an event, after which the answer begins, or a time. The answer has the oldest of the
 * events that were asked for. Whoever goes on from its last cursor gets the next ones, until there are none.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { since } = ctx.args;
  if (util.matches('^[0-9]{12}:[0-9]{3}$', since)) {
    const sequence = +since.split(':')[0];
    // The message of the cursor may have more events.
    ctx.stash.from = sequence;
    ctx.stash.seen = sequence;
    ctx.stash.cursor = since;
  } else if (util.matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-][0-9]{2}:?[0-9]{2})$', since)) {
    ctx.stash.from = 1;
    ctx.stash.seen = 0;
    ctx.stash.since = util.time.parseISO8601ToEpochMilliSeconds(since);
    ctx.stash.cursor = '';
  } else {
    util.error('since must be the cursor of an event, a nextSince, or a time such as 2026-01-01T00:00:00.000Z.', 'ValidationError');
  }
  ctx.stash.events = [];
  ctx.stash.seeks = 0;
  return {};
}

/** @param {Ctx} ctx */
export function response(ctx) {
  const { group, events, from, complete } = ctx.stash;
  const last = group.eventSequence ? group.eventSequence : 0;
  if (events.length === 0 && !complete && from <= last) {
    // An empty answer would say that there is nothing.
    util.error('There are too many messages before the next event. Ask again later, or use getMessagesSince.', 'Unavailable');
  }
  return events;
}
