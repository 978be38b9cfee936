import { runtime, util } from '@aws-appsync/utils';
/** @import { Ctx, Status, Page } from '../types' */

/** How often this step is in a pipeline. DynamoDB returns at most 1 MB per page, and a status may have 240 KB. */
const PAGES = 2;

/**
 * The statuses of the group's living members, from the index. This step is in a pipeline several times: each one goes on where the one before
 * ended, if there is more. What was found goes on as the result, not in the stash: a context that held it twice would be too large.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { groupId, domain } = ctx.args;
  const { statusPages, moreStatuses } = ctx.stash;
  if (statusPages && !moreStatuses) {
    runtime.earlyReturn(ctx.prev.result);
  }
  return {
    operation: 'Query',
    index: 'GSI1',
    query: {
      expression: 'GSI1PK = :group AND begins_with(GSI1SK, :prefix)',
      expressionValues: util.dynamodb.toMapValues({ ':group': `GROUP#${groupId}@${domain}`, ':prefix': 'STATUS#' }),
    },
    limit: 1000,
    ...(moreStatuses ? { nextToken: moreStatuses } : {}),
  };
}

/** @param {Ctx<Page<Status>, Status[]>} ctx */
export function response(ctx) {
  if (ctx.error) {
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The statuses could not be read. Try again.', 'Unavailable');
  }
  const now = util.time.nowEpochSeconds();
  const alive = ctx.stash.members.map((member) => member.nodeId);
  const { statusPages } = ctx.stash;
  const { items, nextToken } = ctx.result;
  const pages = (statusPages ? statusPages : 0) + 1;
  if (nextToken && pages >= PAGES) {
    // A part of them would look as if the others had reported nothing.
    util.error('The statuses of the group are more than one answer can hold. Ask for each node with getNodeStatus.', 'Unavailable');
  }
  const found = items.filter((status) => status.ttl > now && alive.includes(status.nodeId));
  const all = statusPages ? ctx.prev.result.concat(found) : found;
  ctx.stash.statusPages = pages;
  ctx.stash.moreStatuses = nextToken;
  return all;
}
