import { util } from '@aws-appsync/utils';
/** @import { Ctx, Group } from '../types' */

/**
 * Records the host's heartbeat, which keeps the group alive. Only the host may send it.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { groupId, domain, hostId, secret } = ctx.args;
  const { hostSecret } = ctx.stash.group;
  if (ctx.stash.group.hostId !== hostId || (hostSecret && hostSecret !== secret)) {
    util.error(`Only the host can renew the heartbeat.${hostSecret ? ' Pass the hostSecret.' : ''}`, 'Unauthorized');
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
      expression:
        'hostId = :hostId AND expiresAt > :now AND hostFreshUntil > :now AND (attribute_not_exists(hostSecret) OR hostSecret = :secret)',
      expressionValues: util.dynamodb.toMapValues({ ':hostId': hostId, ':now': now, ':secret': secret ? secret : '' }),
    },
  };
}

/** @param {Ctx<Group>} ctx If the condition was false, the result is the group as it is. */
export function response(ctx) {
  if (ctx.error) {
    if (ctx.error.type === 'DynamoDB:ConditionalCheckFailedException') {
      const group = ctx.result;
      const now = util.time.nowEpochSeconds();
      // Clients look for the words before the full stop.
      const name = `${ctx.args.groupId}@${ctx.args.domain}`;
      let words = `Group not found: ${name}`;
      if (group && !group.dissolvedAt) {
        words = group.expiresAt <= now ? `Group expired: ${name}` : `Group not found: ${name} (heartbeat expired)`;
      }
      util.error(`${words}. The group does not exist or has ended. Disconnect.`, 'GroupNotFound');
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
