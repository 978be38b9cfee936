import { runtime, util } from '@aws-appsync/utils';

/** Is the group that was asked for (or the status's own) alive, and the node a member of it? The status counts only then. */
export function request(ctx) {
  const { domain, nodeId } = ctx.args;
  const { status } = ctx.stash;
  const groupId = ctx.args.groupId ? ctx.args.groupId : status && status.groupId;
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

export function response(ctx) {
  if (ctx.error) {
    util.error('The status could not be read. Try again.', 'Unavailable');
  }
  const table = ctx.env.TABLE_NAME;
  // What DynamoDB had no time for looks as if it were not there.
  const left = ctx.result.unprocessedKeys ? ctx.result.unprocessedKeys[table] : null;
  if (left && left.length > 0) {
    util.error('The status could not be read. Try again.', 'Unavailable');
  }
  const [group, node] = ctx.result.data[table];
  const now = util.time.nowEpochSeconds();
  if (!group || group.expiresAt <= now || group.hostFreshUntil <= now) {
    if (ctx.args.groupId) {
      util.error('The group does not exist or has ended. Disconnect.', 'GroupNotFound');
    }
    return null;
  }
  const { status } = ctx.stash;
  const isMember = node && node.ttl > now;
  return isMember && status && status.ttl > now && status.groupId === group.groupId ? status : null;
}
