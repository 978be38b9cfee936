import { util } from '@aws-appsync/utils';
/** @import { Ctx, EventsMessage } from '../types' */

/** How many events a batch may hold, and how long their names and payloads may be, in characters. */
const MAX_EVENTS = 100;
const MAX_NAME = 128;
const MAX_PAYLOAD = 16384;

/**
 * fireEventsByNode, recordEventsByNode: all events of a batch become one message, in their order. It is left in the stash.
 * Then checkBounds, checkMessageId, takeSequence, writeMessage, declareVoid.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { groupId, domain, nodeId, events } = ctx.args;
  /** @param {string} what */
  const refuse = (what) => util.error(what, 'ValidationError');
  if (events.length === 0 || events.length > MAX_EVENTS) {
    refuse(`events must have 1 to ${MAX_EVENTS} entries; it has ${events.length}.`);
  }
  for (const { eventName, payload } of events) {
    if (eventName.length === 0 || eventName.length > MAX_NAME) {
      refuse(`eventName must have 1 to ${MAX_NAME} characters; it has ${eventName.length}.`);
    }
    if (payload && payload.length > MAX_PAYLOAD) {
      refuse(`payload must have at most ${MAX_PAYLOAD} characters; it has ${payload.length}.`);
    }
  }
  ctx.stash.kind = 'events';
  ctx.stash.message = {
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
  return {};
}

/** @param {Ctx} ctx */
export function response(ctx) {
  const { replay } = ctx.stash;
  const batch = /** @type {EventsMessage} */ (replay ? replay : ctx.stash.message);
  const sequence = replay ? replay.sequence : ctx.stash.sequence;
  const place = `${1000000000000 + sequence}`.slice(1);
  const events = batch.events.map((event, index) => ({ ...event, cursor: `${place}:${`${1000 + index}`.slice(1)}` }));
  if (ctx.info.fieldName === 'recordEventsByNode') {
    const { groupId, domain } = ctx.args;
    return { groupId, domain, recordedCount: events.length, nextSince: events[events.length - 1].cursor };
  }
  const { firedByNodeId, groupId, domain, timestamp } = batch;
  return {
    // Without group and domain a message reaches no subscriber: a repeated publish is answered, not delivered again.
    groupId: replay ? null : groupId,
    domain: replay ? null : domain,
    sequence,
    messageId: ctx.args.messageId,
    batchEvent: { events, firedByNodeId, groupId, domain, timestamp },
    events,
    firedByNodeId,
    timestamp,
  };
}
