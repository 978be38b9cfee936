import { util } from '@aws-appsync/utils';
/** @import { Ctx, Group } from '../types' */

/**
 * Reads the group, whether it is alive or not, and leaves it in the stash. Subscribers need not know whether a group has ended: nothing comes
 * of it any more.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { groupId, domain } = ctx.args;
  return {
    operation: 'GetItem',
    key: util.dynamodb.toMapValues({ pk: `DOMAIN#${domain}`, sk: `GROUP#${groupId}#METADATA` }),
    consistentRead: true,
  };
}

/** @param {Ctx<Group | null>} ctx */
export function response(ctx) {
  if (ctx.error) {
    // Without the group nobody knows whether it is secured.
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The group could not be read. Try again.', 'Unavailable');
  }
  if (ctx.result) {
    ctx.stash.group = ctx.result;
  }
  return null;
}
