import { runtime, util } from '@aws-appsync/utils';
/** @import { Ctx, Group } from '../types' */

/**
 * Takes the group's next number, in a write that checks that the group is alive. In a secured group, nobody without a secret takes one;
 * writeMessage checks the secret itself. The group also remembers the last number that events have taken.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  if (ctx.stash.replay) {
    runtime.earlyReturn();
  }
  const { groupId, domain, secret } = ctx.args;
  const isEvents = ctx.stash.kind === 'events';
  const now = util.time.nowEpochSeconds();
  return {
    operation: 'UpdateItem',
    key: util.dynamodb.toMapValues({ pk: `DOMAIN#${domain}`, sk: `GROUP#${groupId}#METADATA` }),
    update: {
      expression: `SET #sequence = if_not_exists(#sequence, :zero) + :one, #sequencedAt = :nowMs${
        isEvents ? ', #eventSequence = if_not_exists(#sequence, :zero) + :one' : ''
      }`,
      expressionNames: {
        '#sequence': 'sequence',
        '#sequencedAt': 'sequencedAt',
        ...(isEvents ? { '#eventSequence': 'eventSequence' } : {}),
      },
      expressionValues: util.dynamodb.toMapValues({ ':zero': 0, ':one': 1, ':nowMs': util.time.nowEpochMilliSeconds() }),
    },
    condition: {
      expression: `attribute_exists(pk) AND expiresAt > :now AND hostFreshUntil > :now${secret ? '' : ' AND attribute_not_exists(secured)'}`,
      expressionValues: util.dynamodb.toMapValues({ ':now': now }),
    },
  };
}

/** @param {Ctx<Group & { sequence: number }>} ctx If the condition was false, the result is the group as it is. */
export function response(ctx) {
  if (ctx.error) {
    if (ctx.error.type === 'DynamoDB:ConditionalCheckFailedException') {
      const group = ctx.result;
      const now = util.time.nowEpochSeconds();
      if (group && group.secured && group.expiresAt > now && group.hostFreshUntil > now) {
        util.error('The group is secured: pass the secret that createGroup or joinGroup gave you.', 'Unauthorized');
      }
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
    util.error('The message could not be accepted. Try again.', 'Unavailable');
  }
  ctx.stash.group = ctx.result;
  ctx.stash.sequence = ctx.result.sequence;
  return ctx.result;
}
