import { runtime, util } from '@aws-appsync/utils';
/** @import { Ctx, Event, Replay, SensorData } from '../types' */

/**
 * What the library calls the attributes of a record (crates/ichido/src/dynamodb/item.rs). This is the only file here that names them:
 * files of APPSYNC_JS cannot import each other, so writeMessage finds the names in the stash. crates/mesh/tests/resolvers.rs
 * compares them with the library's.
 */
const NAMES = /** @type {const} */ ({
  format: 'ichido_format',
  state: 'ichido_state',
  owner: 'ichido_owner',
  fence: 'ichido_fence',
  updatedAt: 'ichido_updated_at',
  outcome: 'ichido_outcome',
});

/**
 * Was this publish accepted before? Without a messageId it cannot be recognised. Leaves in the stash where the record of the publish is,
 * and what it returned if there is one (`replay`).
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { groupId, domain, nodeId, messageId } = ctx.args;
  if (!messageId) {
    runtime.earlyReturn();
  }
  const node = nodeId.split('%').join('%25').split('#').join('%23');
  const key = { pk: `GROUP#${groupId}@${domain}`, sk: `PUBLISHED#${node}#${messageId}` };
  ctx.stash.record = { key, names: NAMES };
  return { operation: 'GetItem', key: util.dynamodb.toMapValues(key), consistentRead: true };
}

/** @param {Ctx<{ ttl: number, ichido_outcome: string, memberSecret?: string } | null>} ctx */
export function response(ctx) {
  if (ctx.error) {
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The message could not be looked up. Try again.', 'Unavailable');
  }
  if (ctx.result && ctx.result.ttl > util.time.nowEpochSeconds()) {
    if (ctx.result.memberSecret && ctx.result.memberSecret !== ctx.args.secret) {
      util.error('The secret is wrong, or it is missing: pass the memberSecret of the node.', 'Unauthorized');
    }
    const { kind, message } = ctx.stash;
    /** @type {Replay} */
    const replay = JSON.parse(ctx.result[NAMES.outcome]);
    /** @param {{ data?: SensorData[], events?: Event[] }} one */
    const content = (one) => JSON.stringify(kind === 'status' ? one.data : one.events);
    if (replay.kind !== kind || content(replay) !== content(message)) {
      util.error('This messageId was used before for another message. Use a new one.', 'ValidationError');
    }
    ctx.stash.replay = replay;
  }
  return ctx.prev.result;
}
