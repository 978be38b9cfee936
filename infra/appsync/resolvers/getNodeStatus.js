import { util } from '@aws-appsync/utils';

/** A node's last report, or null. */
export function request(ctx) {
  const { nodeId, domain } = ctx.args;
  return {
    operation: 'GetItem',
    key: util.dynamodb.toMapValues({
      pk: `NODE#${nodeId.split('%').join('%25').split('@').join('%40')}@${domain}`,
      sk: 'STATUS#LATEST',
    }),
    consistentRead: true,
  };
}

export function response(ctx) {
  if (ctx.error) {
    util.error('The status could not be read. Try again.', 'Unavailable');
  }
  const { groupId } = ctx.args;
  const status = ctx.result;
  if (!status || status.ttl <= util.time.nowEpochSeconds() || (groupId && groupId !== status.groupId)) {
    return null;
  }
  return status;
}
