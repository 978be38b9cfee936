import { util } from '@aws-appsync/utils';

/** How many events a batch may hold, and how long their names and payloads may be, in characters. */
const MAX_EVENTS = 100;
const MAX_NAME = 128;
const MAX_PAYLOAD = 16384;
/** The longest id of a message, in characters. */
const MAX_ID = 128;
/** The longest message, in characters: AppSync delivers 240 KB, and a character may take three bytes. */
const MAX_MESSAGE = 80000;

/** checkMessageId, takeSequence, writeMessage, declareVoid. All events of a batch are one message, in their order. */
export function request(ctx) {
  const { groupId, domain, nodeId, events, messageId } = ctx.args;
  const refuse = (what) => util.error(what, 'ValidationError');
  if (messageId && messageId.length > MAX_ID) {
    refuse(`messageId has at most ${MAX_ID} characters, not ${messageId.length}.`);
  }
  if (events.length === 0 || events.length > MAX_EVENTS) {
    refuse(`events has 1 to ${MAX_EVENTS} events, not ${events.length}.`);
  }
  for (const { eventName, payload } of events) {
    if (eventName.length === 0 || eventName.length > MAX_NAME) {
      refuse(`eventName has 1 to ${MAX_NAME} characters, not ${eventName.length}.`);
    }
    if (payload && payload.length > MAX_PAYLOAD) {
      refuse(`payload has at most ${MAX_PAYLOAD} characters, not ${payload.length}.`);
    }
  }
  const message = {
    firedByNodeId: nodeId,
    groupId,
    domain,
    timestamp: util.time.nowISO8601(),
    events: events.map((event) => ({
      name: event.eventName,
      firedByNodeId: nodeId,
      groupId,
      domain,
      payload: event.payload,
      timestamp: event.firedAt,
    })),
  };
  const size = JSON.stringify(message).length;
  if (size > MAX_MESSAGE) {
    refuse(`A message has at most ${MAX_MESSAGE} characters, not ${size}.`);
  }
  ctx.stash.kind = 'events';
  ctx.stash.message = message;
  return {};
}

export function response(ctx) {
  const { replay } = ctx.stash;
  const { messageId } = ctx.args;
  const batch = replay ? replay : ctx.stash.message;
  const sequence = replay ? replay.sequence : ctx.stash.sequence;
  const { firedByNodeId, groupId, domain, timestamp } = batch;
  const place = `${sequence}`.padStart(12, '0');
  const events = batch.events.map((event, index) => ({ ...event, cursor: `${place}:${`${index}`.padStart(3, '0')}` }));
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
