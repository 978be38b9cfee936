import { util } from '@aws-appsync/utils';
/** @import { Ctx, Group } from '../types' */

/** getGroup (checkBounds, checkGroupExists) and listGroupsByDomain (checkBounds, listGroups): shows what they found as the schema has it. */
export function request() {
  return {};
}

/** @param {Ctx<unknown, Group[]>} ctx */
export function response(ctx) {
  /** @param {Group} item */
  const shown = (item) => ({
    id: item.groupId,
    domain: item.domain,
    fullId: `${item.groupId}@${item.domain}`,
    name: item.name,
    hostId: item.hostId,
    createdAt: item.createdAt,
    expiresAt: util.time.epochMilliSecondsToISO8601(item.expiresAt * 1000),
    heartbeatIntervalSeconds: +ctx.env.HOST_HEARTBEAT_SECONDS,
    useWebSocket: item.useWebSocket,
    pollingIntervalSeconds: +ctx.env.POLLING_INTERVAL_SECONDS,
    secured: item.secured === true,
  });
  const { group } = ctx.stash;
  return group ? shown(group) : ctx.prev.result.map(shown);
}
