import { util } from '@aws-appsync/utils';

/** How many events a batch may hold, and how long their names and payloads may be, in characters. */
const MAX_EVENTS = 100;
const MAX_NAME = 128;
const MAX_PAYLOAD = 16384;
/** The longest ids and domain, in characters of any script. */
const MAX_ID = 128;
const MAX_MESSAGE_ID = 100;
const MAX_DOMAIN = 256;
/** The longest message, in bytes: AppSync delivers 240 KB. */
const MAX_MESSAGE_BYTES = 240000;

/** checkMessageId, takeSequence, writeMessage, declareVoid. All events of a batch are one message, in their order. */
export function request(ctx) {
  const { groupId, domain, nodeId, events, messageId } = ctx.args;
  const refuse = (what) => util.error(what, 'ValidationError');
  const bounded = (what, text, most) => {
    if (!text || (text.length > most && !util.matches(`^[\\s\\S]{1,${most}}$`, text))) {
      refuse(`${what} has 1 to ${most} characters, not ${text.length}.`);
    }
  };
  bounded('groupId', groupId, MAX_ID);
  bounded('domain', domain, MAX_DOMAIN);
  bounded('nodeId', nodeId, MAX_ID);
  if (messageId) {
    bounded('messageId', messageId, MAX_MESSAGE_ID);
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
  const bytes = (util.base64Encode(JSON.stringify(message)).length / 4) * 3;
  if (bytes > MAX_MESSAGE_BYTES) {
    refuse(`A message has at most ${MAX_MESSAGE_BYTES} bytes as it is delivered, not ${bytes}.`);
  }
  ctx.stash.kind = 'events';
  ctx.stash.message = message;
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
