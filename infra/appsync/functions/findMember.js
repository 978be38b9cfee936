import { runtime, util } from '@aws-appsync/utils';
/** @import { Ctx, Node, Page } from '../types' */

/**
 * Looks for the member that has the secret, page after page: this step is in pipelines several times, before checkSecret, which decides. Leaves in the
 * stash whose secret it is (`reader`), or where to look on (`more`), or that it is nobody's (`isNobodys`). A group that is not secured
 * costs no query. The secret is in no key by which it could be looked up at once: keys are what AWS writes to logs.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { group, reader, more, isNobodys } = ctx.stash;
  const { secret } = ctx.args;
  if (!group || !group.secured || !secret || secret === group.hostSecret || reader || isNobodys) {
    runtime.earlyReturn(ctx.prev.result);
  }
  return {
    operation: 'Query',
    query: {
      expression: 'pk = :pk AND begins_with(sk, :prefix)',
      expressionValues: util.dynamodb.toMapValues({ ':pk': `GROUP#${group.groupId}@${group.domain}`, ':prefix': 'NODE#' }),
    },
    filter: {
      expression: 'memberSecret = :secret AND #ttl > :now',
      expressionNames: { '#ttl': 'ttl' },
      expressionValues: util.dynamodb.toMapValues({ ':secret': secret, ':now': util.time.nowEpochSeconds() }),
    },
    consistentRead: true,
    limit: 1000,
    ...(more ? { nextToken: more } : {}),
  };
}

/** @param {Ctx<Page<Node>>} ctx */
export function response(ctx) {
  if (ctx.error) {
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The members could not be read. Try again.', 'Unavailable');
  }
  const { items, nextToken } = ctx.result;
  if (items.length > 0) {
    ctx.stash.reader = items[0].nodeId;
  } else if (nextToken) {
    ctx.stash.more = nextToken;
  } else {
    ctx.stash.isNobodys = true;
  }
  return ctx.prev.result;
}
