import { runtime, util } from '@aws-appsync/utils';

/** A number was taken, but its message was refused: says so in the stream, so that nobody waits for it. */
export function request(ctx) {
  if (!ctx.stash.failure) {
    runtime.earlyReturn();
  }
  const { groupId, domain } = ctx.args;
  const { sequence } = ctx.stash;
  return {
    operation: 'PutItem',
    key: util.dynamodb.toMapValues({
      pk: `GROUP#${groupId}@${domain}`,
      sk: `MESSAGE#${`${sequence}`.padStart(12, '0')}`,
    }),
    attributeValues: util.dynamodb.toMapValues({
      kind: 'void',
      sequence,
      at: util.time.nowEpochMilliSeconds(),
      ttl: util.time.nowEpochSeconds() + +ctx.env.MESSAGE_RETENTION_SECONDS,
    }),
    // The transaction may have been committed though its answer was lost.
    condition: { expression: 'attribute_not_exists(pk)' },
  };
}

export function response(ctx) {
  const { failure } = ctx.stash;
  if (failure) {
    util.error(failure.message, failure.type);
  }
  return ctx.prev.result;
}
