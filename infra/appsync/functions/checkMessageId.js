import { runtime, util } from '@aws-appsync/utils';

/** Was this publish accepted before? Without a messageId there is nothing to recognise it by. */
export function request(ctx) {
  const { groupId, domain, nodeId, messageId } = ctx.args;
  if (!messageId) {
    runtime.earlyReturn();
  }
  return {
    operation: 'GetItem',
    key: util.dynamodb.toMapValues({ pk: `GROUP#${groupId}@${domain}`, sk: `PUBLISHED#${messageId}#${nodeId}` }),
    consistentRead: true,
  };
}

export function response(ctx) {
  if (ctx.error) {
    util.error('The message could not be looked up. Try again.', 'Unavailable');
  }
  if (ctx.result && ctx.result.ttl > util.time.nowEpochSeconds()) {
    ctx.stash.replay = JSON.parse(ctx.result.ichido_outcome);
  }
  return ctx.prev.result;
}
