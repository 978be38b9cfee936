/** packEvents, checkBounds, checkMessageId, takeSequence, writeMessage, declareVoid. */
export function request() {
  return {};
}

export function response(ctx) {
  const { groupId, domain } = ctx.args;
  const { replay } = ctx.stash;
  const batch = replay ? replay : ctx.stash.message;
  const sequence = replay ? replay.sequence : ctx.stash.sequence;
  const last = `${1000 + batch.events.length - 1}`.slice(1);
  return {
    groupId,
    domain,
    recordedCount: batch.events.length,
    nextSince: `${`${1000000000000 + sequence}`.slice(1)}:${last}`,
  };
}
