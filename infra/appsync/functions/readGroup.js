import { util } from '@aws-appsync/utils';
/** @import { Ctx, Group } from '../types' */

/**
 * Reads the group for a subscriber, and leaves it in the stash. Whoever asks for a secured group that does not exist or has ended is refused, as
 * queries are: a group that is secured, or a secret is given. Other subscribers are never asked whether their group exists: nothing comes of it.
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
  const group = ctx.result;
  const now = util.time.nowEpochSeconds();
  const isOver = !group || group.expiresAt <= now || group.hostFreshUntil <= now;
  if (isOver && (group ? group.secured : ctx.args.secret)) {
    // Clients look for the words before the full stop.
    const name = `${ctx.args.groupId}@${ctx.args.domain}`;
    let words = `Group not found: ${name}`;
    if (group && !group.dissolvedAt) {
      words = group.expiresAt <= now ? `Group expired: ${name}` : `Group not found: ${name} (heartbeat expired)`;
    }
    util.error(`${words}. The group does not exist or has ended. Disconnect.`, 'GroupNotFound');
  }
  if (group) {
    ctx.stash.group = group;
  }
  return null;
}
