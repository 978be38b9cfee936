import { util } from '@aws-appsync/utils';
/** @import { Ctx, Status } from '../types' */

/**
 * A node's last report.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { nodeId } = ctx.args;
  const { domain } = ctx.stash;
  return {
    operation: 'GetItem',
    key: util.dynamodb.toMapValues({
      pk: `NODE#${nodeId.split('%').join('%25').split('@').join('%40')}@${domain}`,
      sk: 'STATUS#LATEST',
    }),
    consistentRead: true,
  };
}

/** @param {Ctx<Status | null>} ctx */
export function response(ctx) {
  if (ctx.error) {
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The status could not be read. Try again.', 'Unavailable');
  }
  ctx.stash.status = ctx.result;
  return ctx.result;
}
