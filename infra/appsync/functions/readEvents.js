import { runtime, util } from '@aws-appsync/utils';
/** @import { Ctx, Page, Item } from '../types' */

/** How many messages one query reads. */
const PAGE = 1000;

/**
 * Reads the messages from the group's last event back to `stash.after`, newest first, into `stash.read`. Stops earlier at a message that is
 * no longer kept or is older than `stash.since`. This step is in a pipeline several times: each one goes on where the one before ended, until
 * `stash.complete`. A group without a new event costs no query.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { groupId, domain } = ctx.args;
  const { after, group, read, complete } = ctx.stash;
  const last = group.eventSequence ? group.eventSequence : 0;
  const to = read && read.length > 0 ? read[read.length - 1].sequence - 1 : last;
  if (complete || to < after) {
    runtime.earlyReturn();
  }
  return {
    operation: 'Query',
    query: {
      expression: 'pk = :pk AND sk BETWEEN :from AND :to',
      expressionValues: util.dynamodb.toMapValues({
        ':pk': `GROUP#${groupId}@${domain}`,
        ':from': `MESSAGE#${`${1000000000000 + after}`.slice(1)}`,
        ':to': `MESSAGE#${`${1000000000000 + to}`.slice(1)}`,
      }),
    },
    scanIndexForward: false,
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
  const { since } = ctx.stash;
  const now = util.time.nowEpochSeconds();
  const { items, nextToken } = ctx.result;
  ctx.stash.read = (ctx.stash.read ? ctx.stash.read : []).concat(items);
  ctx.stash.complete = !nextToken || items.some((item) => item.ttl <= now || (since && item.at <= since));
  return ctx.prev.result;
}
