import { runtime, util } from '@aws-appsync/utils';
/** @import { Ctx } from '../types' */

/**
 * Which domain is asked about? Without a domain it is that of the group which a node of this id joined last, in any domain; joinGroup writes
 * that down for groups that are not secured. A node that has joined none has no status.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { nodeId, domain } = ctx.args;
  if (domain) {
    ctx.stash.domain = domain;
    runtime.earlyReturn();
  }
  return {
    operation: 'GetItem',
    key: util.dynamodb.toMapValues({ pk: `NODE#${nodeId.split('%').join('%25').split('@').join('%40')}`, sk: 'LATEST' }),
    consistentRead: true,
  };
}

/** @param {Ctx<{ groupId: string, domain: string } | null>} ctx */
export function response(ctx) {
  if (ctx.error) {
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The node could not be looked up. Try again.', 'Unavailable');
  }
  if (!ctx.result) {
    runtime.earlyReturn(null, { skipTo: 'END' });
  }
  ctx.stash.domain = ctx.result.domain;
  ctx.stash.formerGroupId = ctx.result.groupId;
  return ctx.result;
}
