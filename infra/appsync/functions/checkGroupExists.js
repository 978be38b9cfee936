import { util } from '@aws-appsync/utils';
/** @import { Ctx, Group } from '../types' */

/**
 * Reads the group, consistently, and ends the request if it is not alive. Leaves it in the stash.
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
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The group could not be read. Try again.', 'Unavailable');
  }
  const group = ctx.result;
  const now = util.time.nowEpochSeconds();
  if (!group || group.expiresAt <= now || group.hostFreshUntil <= now) {
    // Clients look for the words before the full stop.
    const name = `${ctx.args.groupId}@${ctx.args.domain}`;
    let words = `Group not found: ${name}`;
    if (group && !group.dissolvedAt) {
      words = group.expiresAt <= now ? `Group expired: ${name}` : `Group not found: ${name} (heartbeat expired)`;
    }
    util.error(`${words}. The group does not exist or has ended. Disconnect.`, 'GroupNotFound');
  }
  ctx.stash.group = group;
  return group;
}
