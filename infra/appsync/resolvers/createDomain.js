import { util } from '@aws-appsync/utils';

/** The longest domain, in characters. */
const MAX_DOMAIN = 256;

/** Uses the caller's address as a domain: classmates behind one router find each other. */
export function request(ctx) {
  const forwarded = ctx.request.headers['x-forwarded-for'];
  const peer = ctx.identity && ctx.identity.sourceIp ? ctx.identity.sourceIp[0] : '';
  const address = (forwarded ? forwarded.split(',')[0] : peer).trim();
  if (!address || address.length > MAX_DOMAIN) {
    util.error('The caller has no address that could be a domain.', 'ValidationError');
  }
  return { payload: address };
}

export function response(ctx) {
  return ctx.result;
}
