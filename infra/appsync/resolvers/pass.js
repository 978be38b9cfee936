/** getNodeStatus, listGroupStatuses: the result of the last step is the answer. */
export function request() {
  return {};
}

export function response(ctx) {
  return ctx.prev.result;
}
