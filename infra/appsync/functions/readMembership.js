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

/** @param {Ctx<{ groupId: string, secured?: boolean, leftGroupId?: string } | null>} ctx */
export function response(ctx) {
  if (ctx.error) {
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The membership could not be read. Try again.', 'Unavailable');
  }
  ctx.stash.formerGroupId = ctx.result ? ctx.result.groupId : null;
  ctx.stash.formerIsSecured = ctx.result ? ctx.result.secured === true : false;
  // Kept with the membership: if the answer to the join that left it is lost, the next join ends what the node still hears there.
  if (ctx.result && ctx.stash.formerIsSecured && ctx.result.groupId !== ctx.args.groupId) {
    ctx.stash.leftGroupId = ctx.result.groupId;
  } else if (ctx.result && ctx.result.leftGroupId) {
    ctx.stash.leftGroupId = ctx.result.leftGroupId;
  }
  return ctx.result;
}
