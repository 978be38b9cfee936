/** packEvents, checkBounds, checkMessageId, takeSequence, writeMessage, declareVoid. */
export function request() {
  return {};
}

export function response(ctx) {
  const { replay } = ctx.stash;
  const { messageId } = ctx.args;
  const batch = replay ? replay : ctx.stash.message;
  const sequence = replay ? replay.sequence : ctx.stash.sequence;
  const { firedByNodeId, groupId, domain, timestamp } = batch;
  const place = `${1000000000000 + sequence}`.slice(1);
  const events = batch.events.map((event, index) => ({ ...event, cursor: `${place}:${`${1000 + index}`.slice(1)}` }));
  return {
    // Without group and domain a message reaches no subscriber: a repeated publish is answered, not delivered again.
    groupId: replay ? null : groupId,
    domain: replay ? null : domain,
    sequence,
    messageId,
    batchEvent: { events, firedByNodeId, groupId, domain, timestamp },
    events,
    firedByNodeId,
    timestamp,
  };
}
