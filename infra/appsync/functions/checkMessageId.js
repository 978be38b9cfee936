import { runtime, util } from '@aws-appsync/utils';

/** Was this publish accepted before? Without a messageId there is nothing to recognise it by. */
export function request(ctx) {
  const { groupId, domain, nodeId, messageId } = ctx.args;
  if (!messageId) {
    runtime.earlyReturn();
  }
  const node = nodeId.split('%').join('%25').split('#').join('%23');
  return {
    operation: 'GetItem',
    key: util.dynamodb.toMapValues({ pk: `GROUP#${groupId}@${domain}`, sk: `PUBLISHED#${node}#${messageId}` }),
    consistentRead: true,
  };
}

export function response(ctx) {
  if (ctx.error) {
    util.error('The message could not be looked up. Try again.', 'Unavailable');
  }
  if (ctx.result && ctx.result.ttl > util.time.nowEpochSeconds()) {
    const { kind, message } = ctx.stash;
    const replay = JSON.parse(ctx.result.ichido_outcome);
    const content = (one) => JSON.stringify(kind === 'status' ? one.data : one.events);
    if (replay.kind !== kind || content(replay) !== content(message)) {
      util.error('messageId was used before, for another message.', 'ValidationError');
    }
    ctx.stash.replay = replay;
  }
  return ctx.prev.result;
}
