import { util } from '@aws-appsync/utils';
/** @import { Ctx, Status, Page } from '../types' */

/**
 * The statuses of the group's living members: one query on the index.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { groupId, domain } = ctx.args;
  return {
    operation: 'Query',
    index: 'GSI1',
    query: {
      expression: 'GSI1PK = :group AND begins_with(GSI1SK, :prefix)',
      expressionValues: util.dynamodb.toMapValues({ ':group': `GROUP#${groupId}@${domain}`, ':prefix': 'STATUS#' }),
    },
    limit: 1000,
  };
}

/** @param {Ctx<Page<Status>>} ctx */
export function response(ctx) {
  if (ctx.error) {
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The statuses could not be read. Try again.', 'Unavailable');
  }
  const now = util.time.nowEpochSeconds();
  const alive = ctx.stash.members.map((member) => member.nodeId);
  return ctx.result.items.filter((status) => status.ttl > now && alive.includes(status.nodeId));
}
