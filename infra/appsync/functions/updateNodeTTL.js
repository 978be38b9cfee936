import { util } from '@aws-appsync/utils';
/** @import { Ctx, Node } from '../types' */

/**
 * Records a member's heartbeat.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { groupId, domain, nodeId, secret } = ctx.args;
  const { group } = ctx.stash;
  const now = util.time.nowEpochSeconds();
  const until = nodeId === group.hostId ? group.expiresAt : now + 5 * +ctx.env.MEMBER_HEARTBEAT_SECONDS;
  return {
    operation: 'UpdateItem',
    key: util.dynamodb.toMapValues({ pk: `GROUP#${groupId}@${domain}`, sk: `NODE#${nodeId}` }),
    update: {
      expression: 'SET #ttl = :until',
      expressionNames: { '#ttl': 'ttl' },
      expressionValues: util.dynamodb.toMapValues({ ':until': until < group.expiresAt ? until : group.expiresAt }),
    },
    condition: {
      expression: 'attribute_exists(pk) AND #ttl > :now AND (attribute_not_exists(memberSecret) OR memberSecret = :secret)',
      expressionNames: { '#ttl': 'ttl' },
      expressionValues: util.dynamodb.toMapValues({ ':now': now, ':secret': secret ? secret : '' }),
    },
  };
}

/** @param {Ctx<Node>} ctx If the condition was false, the result is the node as it is. */
export function response(ctx) {
  if (ctx.error) {
    if (ctx.error.type === 'DynamoDB:ConditionalCheckFailedException') {
      if (ctx.result && ctx.result.ttl > util.time.nowEpochSeconds()) {
        util.error('The secret is wrong, or it is missing: pass the memberSecret of the node.', 'Unauthorized');
      }
      util.error('Node not found: it is not a member of the group, or its membership has expired. Join again.', 'NodeNotFound');
    }
    if (ctx.error.type === 'DynamoDB:TransactionConflictException') {
      util.error('Another request changed the same data at the same time. Try again.', 'Conflict');
    }
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The heartbeat could not be recorded. Try again.', 'Unavailable');
  }
  return ctx.result;
}
