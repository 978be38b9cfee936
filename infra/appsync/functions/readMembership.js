import { util } from '@aws-appsync/utils';

/** Which group of this domain is the node a member of? */
export function request(ctx) {
  const { domain, nodeId } = ctx.args;
  return {
    operation: 'GetItem',
    key: util.dynamodb.toMapValues({
      pk: `NODE#${nodeId.split('%').join('%25').split('@').join('%40')}@${domain}`,
      sk: 'MEMBERSHIP',
    }),
    consistentRead: true,
  };
}

export function response(ctx) {
  if (ctx.error) {
    util.error('The membership could not be read. Try again.', 'Unavailable');
  }
  ctx.stash.formerGroupId = ctx.result ? ctx.result.groupId : null;
  return ctx.result;
}
