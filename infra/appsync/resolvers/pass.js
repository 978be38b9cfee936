/** A pipeline that only needs its functions: the last one's result is the answer. */
export function request() {
  return {};
}

export function response(ctx) {
  return ctx.prev.result;
}
