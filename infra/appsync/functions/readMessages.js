import { util } from '@aws-appsync/utils';
/** @import { Ctx, Page, Item } from '../types' */

/** How many messages one query reads. */
const PAGE = 1000;
/** A number without a message counts as lost when a later message, or the last number that was taken, is this old. */
const SETTLED_AFTER_MS = 5000;

/**
 * Reads what is kept of the stream after `stash.after`, in order, up to the first number whose message may still come. Leaves the messages
 * in `stash.read`, in `stash.next` the number up to which they reach, and in `stash.head` the last number that the group has given out.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { groupId, domain } = ctx.args;
  return {
    operation: 'Query',
    query: {
      expression: 'pk = :pk AND sk BETWEEN :from AND :to',
      expressionValues: util.dynamodb.toMapValues({
        ':pk': `GROUP#${groupId}@${domain}`,
        ':from': `MESSAGE#${`${1000000000000 + ctx.stash.after + 1}`.slice(1)}`,
        ':to': 'MESSAGE#999999999999',
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
    util.error('The messages could not be read. Try again.', 'Unavailable');
  }
  const { after, group } = ctx.stash;
  const nowMs = util.time.nowEpochMilliSeconds();
  /** @param {number} at */
  const settled = (at) => at + SETTLED_AFTER_MS <= nowMs;
  const head = group.sequence ? group.sequence : 0;
  const read = [];
  let next = after;
  let open = false;
  for (const item of ctx.result.items) {
    // The numbers in between are missing: their messages are lost, or may still come.
    if (item.sequence > next + 1 && !settled(item.at)) {
      open = true;
    }
    if (!open) {
      next = item.sequence;
      if (item.ttl * 1000 > nowMs) {
        read.push(item);
      }
    }
  }
  if (!open && !ctx.result.nextToken && next < head && settled(group.sequencedAt)) {
    next = head;
  }
  ctx.stash.read = read;
  ctx.stash.next = next;
  // Whoever asks from beyond the head learns the head and nothing else.
  const last = read.length > 0 ? read[read.length - 1].sequence : 0;
  ctx.stash.head = head > last ? head : last;
  return read;
}
