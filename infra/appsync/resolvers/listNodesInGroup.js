import { util } from '@aws-appsync/utils';
/** @import { Ctx } from '../types' */

/** checkBounds, checkGroupExists, listMembers. */
export function request() {
  return {};
}

/** @param {Ctx} ctx */
export function response(ctx) {
  const { group, members } = ctx.stash;
  return members.map((node) => ({
    id: node.nodeId,
    name: node.name,
    groupId: node.groupId,
    domain: node.domain,
    expiresAt: util.time.epochMilliSecondsToISO8601(node.ttl * 1000),
    heartbeatIntervalSeconds: +ctx.env.MEMBER_HEARTBEAT_SECONDS,
    useWebSocket: group.useWebSocket,
    pollingIntervalSeconds: +ctx.env.POLLING_INTERVAL_SECONDS,
  }));
}
