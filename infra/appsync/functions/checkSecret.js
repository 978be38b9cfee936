import { util } from '@aws-appsync/utils';
/** @import { Ctx } from '../types' */

/**
 * Lets only the host and living members read or hear what is in a secured group: those whom findMember found. Leaves in the stash whose secret it
 * was (`reader`).
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { group, reader, more, isNobodys } = ctx.stash;
  const { secret } = ctx.args;
  if (group && group.secured) {
    if (!secret) {
      util.error('The group is secured: pass the secret that createGroup or joinGroup gave you.', 'Unauthorized');
    }
    if (secret === group.hostSecret) {
      ctx.stash.reader = group.hostId;
    } else if (!reader && more && !isNobodys) {
      // Nodes that have expired are still there and fill the pages. A client that hears Unauthorized would give up its place.
      util.error('Not all members could be read. Try again.', 'Unavailable');
    } else if (!reader) {
      util.error('The secret is wrong, or its node is no longer a member. Join again.', 'Unauthorized');
    }
  }
  return {};
}

/** @param {Ctx} ctx */
export function response(ctx) {
  return ctx.prev.result;
}
