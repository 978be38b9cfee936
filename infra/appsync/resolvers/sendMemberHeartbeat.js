import { util } from '@aws-appsync/utils';

/** The longest id of a node, in characters of any script. */
const MAX_ID = 128;

/** checkGroupExists, updateNodeTTL. */
export function request(ctx) {
  const { nodeId } = ctx.args;
  if (!nodeId || (nodeId.length > MAX_ID && !util.matches(`^[\\s\\S]{1,${MAX_ID}}$`, nodeId))) {
    util.error(`nodeId has 1 to ${MAX_ID} characters, not ${nodeId.length}.`, 'ValidationError');
  }
  return {};
}

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
