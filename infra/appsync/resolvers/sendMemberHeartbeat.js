import { util } from '@aws-appsync/utils';
/** @import { Ctx, Node } from '../types' */

/** checkBounds, checkGroupExists, updateNodeTTL. */
export function request() {
  return {};
}

/** @param {Ctx<unknown, Node>} ctx */
export function response(ctx) {
  const { groupId, domain, nodeId } = ctx.args;
  const interval = +ctx.env.MEMBER_HEARTBEAT_SECONDS;
  return {
    nodeId,
    groupId,
    domain,
    expiresAt: util.time.epochMilliSecondsToISO8601(ctx.prev.result.ttl * 1000),
    intervalSeconds: interval,
    heartbeatIntervalSeconds: interval,
  };
}
