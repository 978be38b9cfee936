import { util } from '@aws-appsync/utils';

/** The longest id and name of a node, in characters of any script. */
const MAX_ID = 128;
const MAX_NAME = 128;

/** checkGroupExists, readMembership, listMembers, putMember. Joining twice is fine. */
export function request(ctx) {
  const { nodeId, nodeName } = ctx.args;
  const bounded = (what, text, most) => {
    if (!text || (text.length > most && !util.matches(`^[\\s\\S]{1,${most}}$`, text))) {
      util.error(`${what} has 1 to ${most} characters, not ${text.length}.`, 'ValidationError');
    }
  };
  bounded('nodeId', nodeId, MAX_ID);
  if (nodeName) {
    bounded('nodeName', nodeName, MAX_NAME);
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
