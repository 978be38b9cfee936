import { util } from '@aws-appsync/utils';

/** The living groups of a domain, oldest first. The index may lag a moment behind. */
export function request(ctx) {
  return {
    operation: 'Query',
    index: 'GSI1',
    query: {
      expression: 'GSI1PK = :domain AND begins_with(GSI1SK, :prefix)',
      expressionValues: util.dynamodb.toMapValues({ ':domain': `DOMAIN#${ctx.args.domain}`, ':prefix': 'GROUP#' }),
    },
    limit: 1000,
  };
}

export function response(ctx) {
  if (ctx.error) {
    util.error('The groups could not be read. Try again.', 'Unavailable');
  }
  const now = util.time.nowEpochSeconds();
  return ctx.result.items
    .filter((item) => item.expiresAt > now && item.hostFreshUntil > now)
    .map((item) => ({
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
    }));
}
