import { util } from '@aws-appsync/utils';
/** @import { AppSyncIdentityIAM } from '@aws-appsync/utils' */
/** @import { Ctx } from '../types' */

/** The longest domain, in characters. */
const MAX_DOMAIN = 256;

/**
 * Uses the caller's address as a domain: classmates behind one router find each other.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  /** @type {string | undefined} */
  const forwarded = ctx.request.headers['x-forwarded-for'];
  const identity = /** @type {AppSyncIdentityIAM | null} */ (ctx.identity);
  const peer = identity && identity.sourceIp ? identity.sourceIp[0] : '';
  const address = (forwarded ? forwarded.split(',')[0] : peer).trim();
  if (!address || address.length > MAX_DOMAIN) {
    util.error('The caller has no address that could be a domain.', 'ValidationError');
  }
  return { payload: address };
}

/** @param {Ctx<string>} ctx */
export function response(ctx) {
  return ctx.result;
}
