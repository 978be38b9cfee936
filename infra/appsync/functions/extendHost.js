import { util } from '@aws-appsync/utils';
/** @import { Ctx, Group } from '../types' */

/**
 * Records the host's heartbeat, which keeps the group alive. Only the host may send it.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { groupId, domain, hostId } = ctx.args;
  if (ctx.stash.group.hostId !== hostId) {
    util.error('Only the host can renew the heartbeat.', 'Unauthorized');
  }
  const now = util.time.nowEpochSeconds();
  const until = now + 5 * +ctx.env.HOST_HEARTBEAT_SECONDS;
  return {
    operation: 'UpdateItem',
    key: util.dynamodb.toMapValues({ pk: `DOMAIN#${domain}`, sk: `GROUP#${groupId}#METADATA` }),
    update: {
      expression: 'SET hostFreshUntil = :until, #ttl = :ttl',
      expressionNames: { '#ttl': 'ttl' },
      expressionValues: util.dynamodb.toMapValues({
        ':until': until,
        ':ttl': until < ctx.stash.group.expiresAt ? until : ctx.stash.group.expiresAt,
      }),
    },
    condition: {
      expression: 'hostId = :hostId AND expiresAt > :now AND hostFreshUntil > :now',
      expressionValues: util.dynamodb.toMapValues({ ':hostId': hostId, ':now': now }),
    },
  };
}

/** @param {Ctx<Group>} ctx */
export function response(ctx) {
  if (ctx.error) {
    if (ctx.error.type === 'DynamoDB:ConditionalCheckFailedException') {
      util.error('The group does not exist or has ended. Disconnect.', 'GroupNotFound');
    }
    if (ctx.error.type === 'DynamoDB:TransactionConflictException') {
      util.error('Another request changed the same data at the same time. Try again.', 'Conflict');
    }
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The heartbeat could not be recorded. Try again.', 'Unavailable');
  }
  ctx.stash.group = ctx.result;
  return ctx.result;
}
