import { util } from '@aws-appsync/utils';
/** @import { Ctx } from '../types' */

/**
 * Which group of this domain is the node a member of?
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { domain, nodeId } = ctx.args;
  return {
    operation: 'GetItem',
    key: util.dynamodb.toMapValues({
      pk: `NODE#${nodeId.split('%').join('%25').split('@').join('%40')}@${domain}`,
      sk: 'MEMBERSHIP',
    }),
    consistentRead: true,
  };
}

/** @param {Ctx<{ groupId: string, secured?: boolean } | null>} ctx */
export function response(ctx) {
  if (ctx.error) {
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The membership could not be read. Try again.', 'Unavailable');
  }
  ctx.stash.formerGroupId = ctx.result ? ctx.result.groupId : null;
  ctx.stash.formerIsSecured = ctx.result ? ctx.result.secured === true : false;
  return ctx.result;
}
