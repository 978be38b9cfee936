import { util } from '@aws-appsync/utils';

/** The events of one answer. */
const MAX_EVENTS = 100;

/**
 * checkGroupExists, readMessages (three times: a time may be far back). `since` is a cursor, `SEQUENCE:INDEX`, after whose event
 * the answer begins, or a time.
 */
export function request(ctx) {
  const { since } = ctx.args;
  if (util.matches('^[0-9]{12}:[0-9]{3}$', since)) {
    const sequence = +since.split(':')[0];
    ctx.stash.after = sequence > 0 ? sequence - 1 : 0;
    ctx.stash.cursor = since;
  } else if (util.matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+-][0-9]{2}:?[0-9]{2})$', since)) {
    ctx.stash.after = 0;
    ctx.stash.since = util.time.parseISO8601ToEpochMilliSeconds(since);
    ctx.stash.cursor = '';
  } else {
    util.error('since is the cursor of an event, a nextSince, or a time such as 2026-01-01T00:00:00.000Z.', 'ValidationError');
  }
  return {};
}

export function response(ctx) {
  const { read, since, cursor } = ctx.stash;
  const events = [];
  for (const item of read.filter((entry) => entry.kind === 'events' && (!since || entry.at > since))) {
    const place = `${item.sequence}`.padStart(12, '0');
    item.message.events.forEach((event, index) => {
      const here = `${place}:${`${index}`.padStart(3, '0')}`;
      if (here > cursor && events.length < MAX_EVENTS) {
        events.push({ ...event, cursor: here });
      }
    });
  }
  return events;
}
