import { runtime, util } from '@aws-appsync/utils';
/** @import { Ctx, Reason, StatusMessage, Transacted } from '../types' */

/** Readers count a number without a message as lost after five seconds. A publish that is later than this gives its number up before that. */
const LATEST_MS = 4000;

/**
 * Writes the message, in one transaction that checks that the node is a member and, in a secured group, that the secret is the node's. With a messageId the transaction also writes the
 * record by which checkMessageId recognises a repeated publish, in the library's format, so that the operator's tool can read it.
 *
 * The check of the node also keeps a dissolved group empty: dissolving expires the nodes before it deletes the messages.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  if (ctx.stash.replay) {
    runtime.earlyReturn();
  }
  const { groupId, domain, nodeId, messageId, secret } = ctx.args;
  const { message, kind, group, sequence, record } = ctx.stash;
  if (util.time.nowEpochMilliSeconds() - group.sequencedAt > LATEST_MS) {
    console.error(`mesh-unavailable: the number of the message was taken more than ${LATEST_MS} ms ago`);
    ctx.stash.failure = { message: 'The message could not be written in time. Try again.', type: 'Unavailable' };
    runtime.earlyReturn();
  }
  const table = ctx.env.TABLE_NAME;
  const now = util.time.nowEpochSeconds();
  const kept = now + +ctx.env.MESSAGE_RETENTION_SECONDS;
  const pk = `GROUP#${groupId}@${domain}`;
  // Its first report makes the host visible as a node.
  const shows = kind === 'status' && nodeId === group.hostId;
  /** @type {object[]} */
  const items = [
    {
      table,
      operation: shows ? 'UpdateItem' : 'ConditionCheck',
      key: util.dynamodb.toMapValues({ pk, sk: `NODE#${nodeId}` }),
      ...(shows ? { update: { expression: 'REMOVE isHidden' } } : {}),
      condition: {
        expression: 'attribute_exists(pk) AND #ttl > :now AND (attribute_not_exists(memberSecret) OR memberSecret = :secret)',
        expressionNames: { '#ttl': 'ttl' },
        expressionValues: util.dynamodb.toMapValues({ ':now': now, ':secret': secret ? secret : '' }),
        // The node as it is tells a wrong secret from a node that is no member.
        returnValuesOnConditionCheckFailure: true,
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
        // By it seekEvents finds the next event.
        lastEvent: group.eventSequence ? group.eventSequence : 0,
      }),
      // A number that was declared void stays void.
      condition: { expression: 'attribute_not_exists(pk)' },
    },
  ];
  if (kind === 'status') {
    const { data, timestamp } = /** @type {StatusMessage} */ (message);
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
        data,
        timestamp,
        ttl: group.expiresAt,
      }),
    });
  }
  if (messageId) {
    items.push({
      table,
      operation: 'PutItem',
      key: util.dynamodb.toMapValues(record.key),
      attributeValues: util.dynamodb.toMapValues({
        [record.names.format]: 1,
        [record.names.state]: 'completed',
        [record.names.owner]: util.autoId(),
        [record.names.fence]: 1,
        [record.names.updatedAt]: util.time.nowEpochMilliSeconds(),
        [record.names.outcome]: JSON.stringify({ ...message, kind, sequence }),
        ttl: kept,
        // A repeat has to know it.
        ...(group.secured ? { memberSecret: secret } : {}),
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

/** @param {Ctx<Transacted>} ctx */
export function response(ctx) {
  if (ctx.error) {
    // declareVoid tells the client, after it has declared the number void.
    const reasons = ctx.result && ctx.result.cancellationReasons ? ctx.result.cancellationReasons : [];
    // DynamoDB spells it the first way, AppSync's documentation the second.
    /** @param {Reason | undefined} reason */
    const refused = (reason) => reason && (reason.type === 'ConditionalCheckFailed' || reason.type === 'ConditionCheckFailed');
    if (refused(reasons[0]) && reasons[0].item && reasons[0].item.ttl > util.time.nowEpochSeconds()) {
      ctx.stash.failure = { message: 'The secret is wrong, or it is missing: pass the memberSecret of the node.', type: 'Unauthorized' };
    } else if (refused(reasons[0])) {
      ctx.stash.failure = { message: 'Node not found: it is not a member of the group, or its membership has expired. Join again.', type: 'NodeNotFound' };
    } else if (reasons.some((reason) => refused(reason) || reason.type === 'TransactionConflict')) {
      ctx.stash.failure = { message: 'Another request changed the same data at the same time. Try again.', type: 'Conflict' };
    } else {
      console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
      ctx.stash.failure = { message: 'The message could not be written. Try again.', type: 'Unavailable' };
    }
  }
  return ctx.prev.result;
}
