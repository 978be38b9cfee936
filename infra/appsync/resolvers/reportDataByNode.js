import { util } from '@aws-appsync/utils';
/** @import { Ctx, StatusMessage } from '../types' */

/** How many values a report may hold, and how long their keys and values may be, in characters. */
const MAX_VALUES = 100;
const MAX_KEY = 128;
const MAX_VALUE = 4096;

/**
 * Makes the message and leaves it in the stash. Then checkBounds, checkMessageId, takeSequence, writeMessage, declareVoid.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { groupId, domain, nodeId, data } = ctx.args;
  /** @param {string} what */
  const refuse = (what) => util.error(what, 'ValidationError');
  if (data.length > MAX_VALUES) {
    refuse(`data must have at most ${MAX_VALUES} values; it has ${data.length}.`);
  }
  for (const { key, value } of data) {
    if (key.length === 0 || key.length > MAX_KEY) {
      refuse(`A key in data must have 1 to ${MAX_KEY} characters; it has ${key.length}.`);
    }
    if (value.length > MAX_VALUE) {
      refuse(`A value in data must have at most ${MAX_VALUE} characters; it has ${value.length}.`);
    }
  }
  ctx.stash.kind = 'status';
  ctx.stash.message = { nodeId, groupId, domain, data, timestamp: util.time.nowISO8601() };
  return {};
}

/** @param {Ctx} ctx */
export function response(ctx) {
  const { replay, message, sequence } = ctx.stash;
  const { messageId } = ctx.args;
  // Without group and domain a message reaches no subscriber: a repeated publish is answered, not delivered again.
  const status = /** @type {StatusMessage} */ (replay ? replay : message);
  const { nodeId, groupId, domain, data, timestamp } = status;
  return {
    groupId: replay ? null : groupId,
    domain: replay ? null : domain,
    sequence: replay ? replay.sequence : sequence,
    messageId,
    nodeStatus: { nodeId, groupId, domain, data, timestamp },
    nodeId,
    data,
    timestamp,
  };
}
