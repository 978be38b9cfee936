import { runtime, util } from '@aws-appsync/utils';
/** @import { Ctx, Failure, Reason, Transacted } from '../types' */

/**
 * If a number was taken but its message was refused, writes into the stream that the number is void, so that nobody waits for it. The
 * transaction checks that the group is alive, so that nothing is written after its end.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  if (!ctx.stash.failure) {
    runtime.earlyReturn();
  }
  const { groupId, domain } = ctx.args;
  const { sequence, group } = ctx.stash;
  const table = ctx.env.TABLE_NAME;
  const now = util.time.nowEpochSeconds();
  return {
    operation: 'TransactWriteItems',
    transactItems: [
      {
        table,
        operation: 'ConditionCheck',
        key: util.dynamodb.toMapValues({ pk: `DOMAIN#${domain}`, sk: `GROUP#${groupId}#METADATA` }),
        condition: {
          expression: 'attribute_exists(pk) AND expiresAt > :now AND hostFreshUntil > :now',
          expressionValues: util.dynamodb.toMapValues({ ':now': now }),
        },
      },
      {
        table,
        operation: 'PutItem',
        key: util.dynamodb.toMapValues({
          pk: `GROUP#${groupId}@${domain}`,
          sk: `MESSAGE#${`${1000000000000 + sequence}`.slice(1)}`,
        }),
        attributeValues: util.dynamodb.toMapValues({
          kind: 'void',
          sequence,
          at: util.time.nowEpochMilliSeconds(),
          ttl: now + +ctx.env.MESSAGE_RETENTION_SECONDS,
          lastEvent: group.eventSequence ? group.eventSequence : 0,
        }),
        condition: { expression: 'attribute_not_exists(pk)' },
      },
    ],
  };
}

/** @param {Ctx<Transacted>} ctx */
export function response(ctx) {
  const reasons = ctx.error && ctx.result && ctx.result.cancellationReasons ? ctx.result.cancellationReasons : [];
  // DynamoDB spells it the first way, AppSync's documentation the second.
  /** @param {Reason | undefined} reason */
  const refused = (reason) => reason && (reason.type === 'ConditionalCheckFailed' || reason.type === 'ConditionCheckFailed');
  if (refused(reasons[1])) {
    // Only this request writes under this number. So its message is there, and only the answer was lost.
    return ctx.prev.result;
  }
  if (refused(reasons[0])) {
    util.error(`Group not found: ${ctx.args.groupId}@${ctx.args.domain}. The group does not exist or has ended. Disconnect.`, 'GroupNotFound');
  }
  if (ctx.error && !reasons.some((reason) => reason && reason.type === 'TransactionConflict')) {
    // The number stays open; after five seconds it counts as lost.
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
  }
  const { message, type } = /** @type {Failure} */ (ctx.stash.failure);
  util.error(message, type);
}
