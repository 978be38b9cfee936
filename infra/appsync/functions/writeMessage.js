import { runtime, util } from '@aws-appsync/utils';

/** Readers of the stream count a number without a message as lost after five seconds: whoever is later than this gives it up. */
const LATEST_MS = 4000;

/**
 * Writes the message, in one transaction that checks the membership. With a messageId the transaction also holds the
 * record by which a repeated publish is recognised (the library's format, so that the operator's tool can read it).
 *
 * The check of the membership is also what keeps a dissolved group empty: dissolving removes the nodes first.
 */
export function request(ctx) {
  if (ctx.stash.replay) {
    runtime.earlyReturn();
  }
  const { groupId, domain, nodeId, messageId } = ctx.args;
  const { message, kind, group, sequence } = ctx.stash;
  if (util.time.nowEpochMilliSeconds() - group.sequencedAt > LATEST_MS) {
    ctx.stash.failure = { message: 'The message could not be written in time. Try again.', type: 'Unavailable' };
    runtime.earlyReturn();
  }
  const table = ctx.env.TABLE_NAME;
  const now = util.time.nowEpochSeconds();
  const kept = now + +ctx.env.MESSAGE_RETENTION_SECONDS;
  const pk = `GROUP#${groupId}@${domain}`;
  const items = [
    {
      table,
      operation: 'ConditionCheck',
      key: util.dynamodb.toMapValues({ pk, sk: `NODE#${nodeId}` }),
      condition: {
        expression: 'attribute_exists(pk) AND #ttl > :now',
        expressionNames: { '#ttl': 'ttl' },
        expressionValues: util.dynamodb.toMapValues({ ':now': now }),
      },
    },
    {
      table,
      operation: 'PutItem',
      key: util.dynamodb.toMapValues({ pk, sk: `MESSAGE#${`${1000000000000 + sequence}`.slice(1)}` }),
      attributeValues: util.dynamodb.toMapValues({
        kind,
        sequence,
        nodeId,
        message,
        messageId: messageId ? messageId : null,
        at: util.time.nowEpochMilliSeconds(),
        ttl: kept,
      }),
      // A number that was declared void stays so.
      condition: { expression: 'attribute_not_exists(pk)' },
    },
  ];
  if (kind === 'status') {
    items.push({
      table,
      operation: 'PutItem',
      key: util.dynamodb.toMapValues({
        pk: `NODE#${nodeId.split('%').join('%25').split('@').join('%40')}@${domain}`,
        sk: 'STATUS#LATEST',
      }),
      attributeValues: util.dynamodb.toMapValues({
        GSI1PK: pk,
        GSI1SK: `STATUS#${nodeId}`,
        nodeId,
        groupId,
        domain,
        data: message.data,
        timestamp: message.timestamp,
        ttl: group.expiresAt,
      }),
    });
  }
  if (messageId) {
    items.push({
      table,
      operation: 'PutItem',
      key: util.dynamodb.toMapValues({
        pk,
        sk: `PUBLISHED#${nodeId.split('%').join('%25').split('#').join('%23')}#${messageId}`,
      }),
      attributeValues: util.dynamodb.toMapValues({
        ichido_format: 1,
        ichido_state: 'completed',
        ichido_owner: util.autoId(),
        ichido_fence: 1,
        ichido_updated_at: util.time.nowEpochMilliSeconds(),
        ichido_outcome: JSON.stringify({ ...message, kind, sequence }),
        ttl: kept,
      }),
      condition: {
        expression: 'attribute_not_exists(pk) OR #ttl <= :now',
        expressionNames: { '#ttl': 'ttl' },
        expressionValues: util.dynamodb.toMapValues({ ':now': now }),
      },
    });
  }
  return { operation: 'TransactWriteItems', transactItems: items };
}

export function response(ctx) {
  if (ctx.error) {
    // Told after the number has been declared void.
    const reasons = ctx.result && ctx.result.cancellationReasons ? ctx.result.cancellationReasons : [];
    const refused = (reason) => reason && reason.type === 'ConditionalCheckFailed';
    if (refused(reasons[0])) {
      ctx.stash.failure = { message: 'The node is not a member of the group, or has expired.', type: 'NodeNotFound' };
    } else if (reasons.some((reason) => refused(reason) || reason.type === 'TransactionConflict')) {
      ctx.stash.failure = { message: 'Other requests were faster. Try again.', type: 'Conflict' };
    } else {
      ctx.stash.failure = { message: 'The message could not be written. Try again.', type: 'Unavailable' };
    }
  }
  return ctx.prev.result;
}
