import { runtime, util } from '@aws-appsync/utils';
/** @import { Ctx, Group } from '../types' */

/**
 * Is the secured group over that the node was in before? Then its secret counts no longer, and the id is free. A node's own end does not say it: that
 * of a host is the end of its group, also if the host crashed long before. Groups that are over stay over, so this may be read before the write.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { groupId, domain } = ctx.args;
  const { formerGroupId, formerIsSecured } = ctx.stash;
  if (!formerIsSecured || formerGroupId === groupId) {
    runtime.earlyReturn(ctx.prev.result);
  }
  return {
    operation: 'GetItem',
    key: util.dynamodb.toMapValues({ pk: `DOMAIN#${domain}`, sk: `GROUP#${formerGroupId}#METADATA` }),
    consistentRead: true,
  };
}

/** @param {Ctx<Group | null>} ctx */
export function response(ctx) {
  if (ctx.error) {
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The group that the node is in could not be read. Try again.', 'Unavailable');
  }
  const former = ctx.result;
  const now = util.time.nowEpochSeconds();
  ctx.stash.formerIsOver = !former || former.expiresAt <= now || former.hostFreshUntil <= now;
  return ctx.prev.result;
}
