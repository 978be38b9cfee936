import { runtime, util } from '@aws-appsync/utils';
/** @import { Ctx, Group, Node } from '../types' */

/**
 * Leaves the group in the stash, if it is alive. Returns the status only if its group is alive and the node is a member of it. The group is the one that was asked for, or else the status's own.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { nodeId } = ctx.args;
  const { domain, status, formerGroupId } = ctx.stash;
  // Without a domain it is the group that the node joined last.
  const own = ctx.args.domain ? status && status.groupId : formerGroupId;
  const groupId = ctx.args.groupId ? ctx.args.groupId : own;
  if (!groupId) {
    runtime.earlyReturn(null);
  }
  return {
    operation: 'BatchGetItem',
    tables: {
      [ctx.env.TABLE_NAME]: {
        keys: [
          util.dynamodb.toMapValues({ pk: `DOMAIN#${domain}`, sk: `GROUP#${groupId}#METADATA` }),
          util.dynamodb.toMapValues({ pk: `GROUP#${groupId}@${domain}`, sk: `NODE#${nodeId}` }),
        ],
        consistentRead: true,
      },
    },
  };
}

/** @param {Ctx<{ data: Record<string, [Group | null, Node | null]>, unprocessedKeys?: Record<string, object[]> }>} ctx */
export function response(ctx) {
  if (ctx.error) {
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The status could not be read. Try again.', 'Unavailable');
  }
  const table = ctx.env.TABLE_NAME;
  // A key that DynamoDB did not process looks as if its item did not exist.
  const left = ctx.result.unprocessedKeys ? ctx.result.unprocessedKeys[table] : null;
  if (left && left.length > 0) {
    console.error(`mesh-unavailable: DynamoDB left ${left.length} keys of a batch unprocessed`);
    util.error('The status could not be read. Try again.', 'Unavailable');
  }
  const [group, node] = ctx.result.data[table];
  const now = util.time.nowEpochSeconds();
  if (!group || group.expiresAt <= now || group.hostFreshUntil <= now) {
    if (ctx.args.groupId && ctx.args.domain) {
      // Clients look for the words before the full stop.
      const name = `${ctx.args.groupId}@${ctx.args.domain}`;
      let words = `Group not found: ${name}`;
      if (group && !group.dissolvedAt) {
        words = group.expiresAt <= now ? `Group expired: ${name}` : `Group not found: ${name} (heartbeat expired)`;
      }
      util.error(`${words}. The group does not exist or has ended. Disconnect.`, 'GroupNotFound');
    }
    return null;
  }
  ctx.stash.group = group;
  const { status } = ctx.stash;
  const isMember = node && node.ttl > now;
  return isMember && status && status.ttl > now && status.groupId === group.groupId ? status : null;
}
