import { runtime, util } from '@aws-appsync/utils';
/** @import { Ctx, Node, Page } from '../types' */

/**
 * Lets only the host and living members read or hear what is in a secured group. Leaves in the stash whose secret it was (`reader`). A
 * group that is not secured costs no query.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { group } = ctx.stash;
  const { secret } = ctx.args;
  if (!group || !group.secured) {
    runtime.earlyReturn(ctx.prev.result);
  }
  if (!secret) {
    util.error('The group is secured: pass the secret that createGroup or joinGroup gave you.', 'Unauthorized');
  }
  if (secret === group.hostSecret) {
    ctx.stash.reader = group.hostId;
    runtime.earlyReturn(ctx.prev.result);
  }
  return {
    operation: 'Query',
    query: {
      expression: 'pk = :pk AND begins_with(sk, :prefix)',
      expressionValues: util.dynamodb.toMapValues({ ':pk': `GROUP#${group.groupId}@${group.domain}`, ':prefix': 'NODE#' }),
    },
    filter: {
      expression: 'memberSecret = :secret',
      expressionValues: util.dynamodb.toMapValues({ ':secret': secret }),
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
  const [member] = ctx.result.items.filter((node) => node.ttl > now);
  if (!member && ctx.result.nextToken) {
    // Nodes that have expired are still there and fill the page. A client that hears Unauthorized would give up its place.
    util.error('Not all members could be read. Try again.', 'Unavailable');
  }
  if (!member) {
    util.error('The secret is wrong, or its node is no longer a member. Join again.', 'Unauthorized');
  }
  ctx.stash.reader = member.nodeId;
  return ctx.prev.result;
}
