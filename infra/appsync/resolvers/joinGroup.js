import { extensions, util } from '@aws-appsync/utils';
/** @import { Ctx } from '../types' */

/** checkBounds, checkGroupExists, readMembership, checkFormer, listMembers, putMember. A node may join again: its membership begins anew. */
export function request() {
  return {};
}

/** @param {Ctx} ctx */
export function response(ctx) {
  const { groupId, domain, nodeId, nodeName } = ctx.args;
  const { group, formerGroupId, formerIsSecured, leftGroupId, memberSecret } = ctx.stash;
  if (formerIsSecured || leftGroupId) {
    // What the node heard before, under an older secret or in another group, ends. AppSync takes at most five of these per request,
    // in which there is no second field: ResolverCountLimit in infra/templates/mesh.yaml.
    const payload = { domain, nodeId, ...(formerIsSecured ? { groupId: formerGroupId } : {}), ...(leftGroupId ? { leftGroupId } : {}) };
    for (const subscriptionField of ['onDataUpdateInGroup', 'onBatchEventInGroup', 'onGroupDissolve', 'onMessageInGroup']) {
      extensions.invalidateSubscriptions({ subscriptionField, payload });
    }
  }
  return {
    id: nodeId,
    name: nodeName ? nodeName : nodeId,
    groupId,
    domain,
    // The end of the group, as clients expect it here. The end of the membership is in the answers to heartbeats.
    expiresAt: util.time.epochMilliSecondsToISO8601(group.expiresAt * 1000),
    heartbeatIntervalSeconds: +ctx.env.MEMBER_HEARTBEAT_SECONDS,
    useWebSocket: group.useWebSocket,
    pollingIntervalSeconds: +ctx.env.POLLING_INTERVAL_SECONDS,
    memberSecret,
  };
}
