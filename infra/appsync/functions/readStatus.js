import { util } from '@aws-appsync/utils';

/** A node's last report. */
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
  ctx.stash.status = ctx.result;
  return ctx.result;
}
