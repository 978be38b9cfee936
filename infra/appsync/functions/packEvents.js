import { util } from '@aws-appsync/utils';

/** How many events a batch may hold, and how long their names and payloads may be, in characters. */
const MAX_EVENTS = 100;
const MAX_NAME = 128;
const MAX_PAYLOAD = 16384;

/** All events of a batch are one message, in their order. Leaves it in the stash. */
export function request(ctx) {
  const { groupId, domain, nodeId, events } = ctx.args;
  const refuse = (what) => util.error(what, 'ValidationError');
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

export function response(ctx) {
  return ctx.prev.result;
}
