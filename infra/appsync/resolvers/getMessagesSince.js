import { util } from '@aws-appsync/utils';
/** @import { Ctx, Item } from '../types' */

/**
 * checkBounds, checkGroupExists, checkSecret, readMessages.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  if (ctx.args.sequence < 0) {
    util.error('sequence must be 0 or greater.', 'ValidationError');
  }
  ctx.stash.after = ctx.args.sequence;
  return {};
}

/** @param {Ctx} ctx */
export function response(ctx) {
  const { groupId, domain } = ctx.args;
  const { next, head } = ctx.stash;
  const read = /** @type {Item[]} */ (ctx.stash.read);
  /** @type {object[]} */
  const messages = [];
  for (const item of read.filter((entry) => entry.kind !== 'void')) {
    const { kind, sequence, messageId, message } = item;
    const place = `${1000000000000 + sequence}`.slice(1);
    if (kind === 'status') {
      const { nodeId, data, timestamp } = message;
      messages.push({ groupId, domain, sequence, messageId, nodeStatus: message, nodeId, data, timestamp });
    } else {
      const { firedByNodeId, timestamp } = message;
      const events = message.events.map((event, index) => ({
        ...event,
        cursor: `${place}:${`${1000 + index}`.slice(1)}`,
      }));
      const batchEvent = { ...message, events };
      messages.push({ groupId, domain, sequence, messageId, batchEvent, events, firedByNodeId, timestamp });
    }
  }
  const voids = read.filter((item) => item.kind === 'void').map((item) => item.sequence);
  return { groupId, domain, messages, voids, next, head };
}
