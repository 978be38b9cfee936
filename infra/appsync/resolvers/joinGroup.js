import { util } from '@aws-appsync/utils';

/** The longest id and name of a node, in characters. */
const MAX_ID = 128;
const MAX_NAME = 128;

/** checkGroupExists, readMembership, listMembers, putMember. Joining twice is fine. */
export function request(ctx) {
  const { nodeId, nodeName } = ctx.args;
  if (!nodeId || nodeId.length > MAX_ID) {
    util.error(`nodeId has 1 to ${MAX_ID} characters, not ${nodeId.length}.`, 'ValidationError');
  }
  if (nodeName && nodeName.length > MAX_NAME) {
    util.error(`nodeName has at most ${MAX_NAME} characters, not ${nodeName.length}.`, 'ValidationError');
  }
  return {};
}

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
