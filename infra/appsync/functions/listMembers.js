import { runtime, util } from '@aws-appsync/utils';
/** @import { Ctx, Node, Page } from '../types' */

/** How often this step is in a pipeline. Nodes that have expired are still in the table and fill the pages. */
const PAGES = 2;

/**
 * The living members of the group. Leaves them in the stash. A host that has neither joined nor reported yet is not among them. This step is in
 * a pipeline several times: each one goes on where the one before ended, if there is more.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { groupId, domain } = ctx.args;
  const { members, moreMembers } = ctx.stash;
  if (members && !moreMembers) {
    runtime.earlyReturn(members);
  }
  return {
    operation: 'Query',
    query: {
      expression: 'pk = :pk AND begins_with(sk, :prefix)',
      expressionValues: util.dynamodb.toMapValues({ ':pk': `GROUP#${groupId}@${domain}`, ':prefix': 'NODE#' }),
    },
    filter: {
      expression: '#ttl > :now',
      expressionNames: { '#ttl': 'ttl' },
      expressionValues: util.dynamodb.toMapValues({ ':now': util.time.nowEpochSeconds() }),
    },
    consistentRead: true,
    limit: 1000,
    ...(moreMembers ? { nextToken: moreMembers } : {}),
  };
}

/** @param {Ctx<Page<Node>>} ctx */
export function response(ctx) {
  if (ctx.error) {
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The members could not be read. Try again.', 'Unavailable');
  }
  const { members, memberPages } = ctx.stash;
  const { items, nextToken } = ctx.result;
  const pages = (memberPages ? memberPages : 0) + 1;
  if (nextToken && pages >= PAGES) {
    util.error('Not all members could be read. Try again.', 'Unavailable');
  }
  ctx.stash.members = (members ? members : []).concat(items.filter((node) => !node.isHidden));
  ctx.stash.memberPages = pages;
  ctx.stash.moreMembers = nextToken;
  return ctx.stash.members;
}
