import { util } from '@aws-appsync/utils';
/** @import { Ctx, Reason, Transacted } from '../types' */

/** How many members a group may have. */
const MAX_MEMBERS = 100;

/**
 * Makes the node a member, in one transaction that checks that the group is alive. A node that was a member of another
 * group of the domain leaves it in the same transaction.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { groupId, domain, nodeId, nodeName } = ctx.args;
  const { group, members, formerGroupId } = ctx.stash;
  const others = members.filter((member) => member.nodeId !== nodeId);
  if (others.length >= MAX_MEMBERS) {
    util.error(`The group already has ${MAX_MEMBERS} members, which is the maximum.`, 'ValidationError');
  }
  const table = ctx.env.TABLE_NAME;
  const now = util.time.nowEpochSeconds();
  const interval = +ctx.env.MEMBER_HEARTBEAT_SECONDS;
  const until = nodeId === group.hostId ? group.expiresAt : now + 5 * interval;
  const ttl = until < group.expiresAt ? until : group.expiresAt;
  const nodeKey = `NODE#${nodeId.split('%').join('%25').split('@').join('%40')}@${domain}`;
  ctx.stash.ttl = ttl;
  /** @type {object[]} */
  const items = [
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
      key: util.dynamodb.toMapValues({ pk: nodeKey, sk: 'MEMBERSHIP' }),
      attributeValues: util.dynamodb.toMapValues({ groupId, domain, nodeId, ttl: group.expiresAt }),
      condition: formerGroupId
        ? {
            expression: 'groupId = :former',
            expressionValues: util.dynamodb.toMapValues({ ':former': formerGroupId }),
          }
        : { expression: 'attribute_not_exists(pk)' },
    },
    {
      table,
      operation: 'PutItem',
      key: util.dynamodb.toMapValues({ pk: `GROUP#${groupId}@${domain}`, sk: `NODE#${nodeId}` }),
      attributeValues: util.dynamodb.toMapValues({
        nodeId,
        name: nodeName ? nodeName : nodeId,
        groupId,
        domain,
        heartbeatIntervalSeconds: interval,
        ttl,
      }),
    },
  ];
  if (formerGroupId && formerGroupId !== groupId) {
    items.push({
      table,
      operation: 'DeleteItem',
      key: util.dynamodb.toMapValues({ pk: `GROUP#${formerGroupId}@${domain}`, sk: `NODE#${nodeId}` }),
    });
    items.push({
      table,
      operation: 'DeleteItem',
      key: util.dynamodb.toMapValues({ pk: nodeKey, sk: 'STATUS#LATEST' }),
    });
  }
  return { operation: 'TransactWriteItems', transactItems: items };
}

/** @param {Ctx<Transacted>} ctx */
export function response(ctx) {
  if (ctx.error) {
    const reasons = ctx.result && ctx.result.cancellationReasons ? ctx.result.cancellationReasons : [];
    // DynamoDB spells it the first way, AppSync's documentation the second.
    /** @param {Reason | undefined} reason */
    const refused = (reason) => reason && (reason.type === 'ConditionalCheckFailed' || reason.type === 'ConditionCheckFailed');
    if (refused(reasons[0])) {
      util.error('The group does not exist or has ended. Disconnect.', 'GroupNotFound');
    }
    if (reasons.some((reason) => refused(reason) || reason.type === 'TransactionConflict')) {
      util.error('Another request changed the same data at the same time. Try again.', 'Conflict');
    }
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The node could not be written. Try again.', 'Unavailable');
  }
  return ctx.prev.result;
}
