import { extensions, util } from '@aws-appsync/utils';
/** @import { AppSyncIdentityIAM } from '@aws-appsync/utils' */
/** @import { Ctx } from '../types' */

/**
 * createDomain, createGroup, leaveGroup, dissolveGroup: the Lambda function mesh-resolver (crates/mesh) does what takes more than a few
 * requests, or a hash.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  // AppSync adds two addresses to what the client sent: the client's own, and that of the edge which it came through.
  /** @type {string | undefined} */
  const forwarded = ctx.request.headers['x-forwarded-for'];
  const addresses = forwarded ? forwarded.split(',') : [''];
  const address = addresses[addresses.length > 1 ? addresses.length - 2 : 0].trim();
  const identity = /** @type {AppSyncIdentityIAM | null} */ (ctx.identity);
  const caller = identity && identity.userArn ? identity.userArn : address;
  return {
    operation: 'Invoke',
    payload: { field: ctx.info.fieldName, arguments: ctx.args, address, caller },
  };
}

/**
 * `ended`: whose subscriptions end, in a secured group.
 * @param {Ctx<{ error?: { message: string, type: string }, value: object | null, ended?: Record<string, string | boolean> | null }>} ctx
 */
export function response(ctx) {
  if (ctx.error) {
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The request could not be carried out. Try again.', 'Unavailable');
  }
  const { error, value, ended } = ctx.result;
  if (error) {
    util.error(error.message, error.type);
  }
  if (ended) {
    // AppSync takes at most five of these per request. There is no second field in it: ResolverCountLimit in infra/templates/mesh.yaml.
    for (const subscriptionField of ['onDataUpdateInGroup', 'onBatchEventInGroup', 'onGroupDissolve', 'onMessageInGroup']) {
      extensions.invalidateSubscriptions({ subscriptionField, payload: ended });
    }
  }
  return value;
}
