import { util } from '@aws-appsync/utils';

/** One group, while it is alive. */
export function request(ctx) {
  const { groupId, domain } = ctx.args;
  return {
    operation: 'GetItem',
    key: util.dynamodb.toMapValues({ pk: `DOMAIN#${domain}`, sk: `GROUP#${groupId}#METADATA` }),
    consistentRead: true,
  };
}

export function response(ctx) {
  if (ctx.error) {
    util.error('The group could not be read. Try again.', 'Unavailable');
  }
  const item = ctx.result;
  const now = util.time.nowEpochSeconds();
  if (!item || item.expiresAt <= now || item.hostFreshUntil <= now) {
    util.error('The group does not exist or has ended. Disconnect.', 'GroupNotFound');
  }
  return {
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
  };
}
