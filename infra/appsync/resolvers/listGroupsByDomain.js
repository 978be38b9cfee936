import { util } from '@aws-appsync/utils';

/** The longest domain, in characters of any script. */
const MAX_DOMAIN = 256;

/**
 * The living groups of a domain, oldest first. The index may lag a moment behind. Groups that ended long ago may still lie in the table:
 * what is older than the longest life of a group is not read.
 */
export function request(ctx) {
  const { domain } = ctx.args;
  if (!domain || (domain.length > MAX_DOMAIN && !util.matches(`^[\\s\\S]{1,${MAX_DOMAIN}}$`, domain))) {
    util.error(`domain has 1 to ${MAX_DOMAIN} characters, not ${domain.length}.`, 'ValidationError');
  }
  const longest = +ctx.env.MESH_MAX_CONNECTION_TIME_MINUTES * 60 * 1000;
  const oldest = util.time.epochMilliSecondsToISO8601(util.time.nowEpochMilliSeconds() - longest);
  return {
    operation: 'Query',
    index: 'GSI1',
    query: {
      expression: 'GSI1PK = :domain AND GSI1SK BETWEEN :from AND :to',
      expressionValues: util.dynamodb.toMapValues({
        ':domain': `DOMAIN#${domain}`,
        ':from': `GROUP#${oldest}`,
        ':to': 'GROUP#~',
      }),
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
