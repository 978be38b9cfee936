import { util } from '@aws-appsync/utils';
/** @import { Ctx } from '../types' */

/** checkBounds, checkGroupExists, extendHost. A heartbeat does not change `expiresAt`. */
export function request() {
  return {};
}

/** @param {Ctx} ctx */
export function response(ctx) {
  const { groupId, domain } = ctx.args;
  const interval = +ctx.env.HOST_HEARTBEAT_SECONDS;
  return {
    groupId,
    domain,
    expiresAt: util.time.epochMilliSecondsToISO8601(ctx.stash.group.expiresAt * 1000),
    intervalSeconds: interval,
    heartbeatIntervalSeconds: interval,
  };
}
