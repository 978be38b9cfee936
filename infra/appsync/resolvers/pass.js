/** @import { Ctx } from '../types' */

/** getNodeStatus, listGroupStatuses: the result of the last step is the answer. */
export function request() {
  return {};
}

/** @param {Ctx} ctx */
export function response(ctx) {
  return ctx.prev.result;
}
