import { util } from '@aws-appsync/utils';
/** @import { Ctx } from '../types' */

/** checkBounds, checkGroupExists, readMembership, listMembers, putMember. A node may join again: its membership begins anew. */
export function request() {
  return {};
}

/** @param {Ctx} ctx */
export function response(ctx) {
  const { groupId, domain, nodeId, nodeName } = ctx.args;
  const { group, ttl } = ctx.stash;
  return {
    id: nodeId,
    name: nodeName ? nodeName : nodeId,
    groupId,
    domain,
    expiresAt: util.time.epochMilliSecondsToISO8601(ttl * 1000),
    heartbeatIntervalSeconds: +ctx.env.MEMBER_HEARTBEAT_SECONDS,
    useWebSocket: group.useWebSocket,
    pollingIntervalSeconds: +ctx.env.POLLING_INTERVAL_SECONDS,
  };
}
