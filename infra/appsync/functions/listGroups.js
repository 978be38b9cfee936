import { util } from '@aws-appsync/utils';
/** @import { Ctx, Group, Page } from '../types' */

/**
 * The living groups of a domain, oldest first. The index may lag behind for a moment. Groups that ended long ago may still be in the table, so
 * groups that are older than a group can become are not read.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const longest = +ctx.env.MESH_MAX_CONNECTION_TIME_MINUTES * 60 * 1000;
  const oldest = util.time.epochMilliSecondsToISO8601(util.time.nowEpochMilliSeconds() - longest);
  return {
    operation: 'Query',
    index: 'GSI1',
    query: {
      expression: 'GSI1PK = :domain AND GSI1SK BETWEEN :from AND :to',
      expressionValues: util.dynamodb.toMapValues({
        ':domain': `DOMAIN#${ctx.args.domain}`,
        ':from': `GROUP#${oldest}`,
        ':to': 'GROUP#~',
      }),
    },
    limit: 1000,
  };
}

/** @param {Ctx<Page<Group>>} ctx */
export function response(ctx) {
  if (ctx.error) {
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The groups could not be read. Try again.', 'Unavailable');
  }
  const now = util.time.nowEpochSeconds();
  return ctx.result.items.filter((group) => group.expiresAt > now && group.hostFreshUntil > now);
}
