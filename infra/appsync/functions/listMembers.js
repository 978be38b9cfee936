import { util } from '@aws-appsync/utils';
/** @import { Ctx, Node, Page } from '../types' */

/**
 * The living members of the group. Leaves them in the stash. A host that has neither joined nor reported yet is not among them.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { groupId, domain } = ctx.args;
  return {
    operation: 'Query',
    query: {
      expression: 'pk = :pk AND begins_with(sk, :prefix)',
      expressionValues: util.dynamodb.toMapValues({ ':pk': `GROUP#${groupId}@${domain}`, ':prefix': 'NODE#' }),
    },
    consistentRead: true,
    limit: 1000,
  };
}

/** @param {Ctx<Page<Node>>} ctx */
export function response(ctx) {
  if (ctx.error) {
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The members could not be read. Try again.', 'Unavailable');
  }
  const now = util.time.nowEpochSeconds();
  ctx.stash.members = ctx.result.items.filter((node) => node.ttl > now && !node.isHidden);
  return ctx.stash.members;
}
