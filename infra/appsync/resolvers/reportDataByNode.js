import { util } from '@aws-appsync/utils';

/** How many values a report may hold, and how long their keys and values may be, in characters. */
const MAX_VALUES = 100;
const MAX_KEY = 128;
const MAX_VALUE = 4096;
/** The longest ids and domain, in characters of any script. */
const MAX_ID = 128;
const MAX_MESSAGE_ID = 100;
const MAX_DOMAIN = 256;
/** The longest message, in bytes: AppSync delivers 240 KB. */
const MAX_MESSAGE_BYTES = 240000;

/** checkMessageId, takeSequence, writeMessage, declareVoid. */
export function request(ctx) {
  const { groupId, domain, nodeId, data, messageId } = ctx.args;
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
  if (data.length > MAX_VALUES) {
    refuse(`data has at most ${MAX_VALUES} values, not ${data.length}.`);
  }
  for (const { key, value } of data) {
    if (key.length === 0 || key.length > MAX_KEY) {
      refuse(`A key of data has 1 to ${MAX_KEY} characters, not ${key.length}.`);
    }
    if (value.length > MAX_VALUE) {
      refuse(`A value of data has at most ${MAX_VALUE} characters, not ${value.length}.`);
    }
  }
  const timestamp = util.time.nowISO8601();
  const message = { nodeId, groupId, domain, data, timestamp };
  // What is delivered is what the publisher selected: nested, flat, or both.
  const selected = (name) => ctx.info.selectionSetList.includes(name);
  const copies = selected('nodeStatus') && selected('data') ? 2 : 1;
  const bytes = copies * (util.base64Encode(JSON.stringify(message)).length / 4) * 3;
  if (bytes > MAX_MESSAGE_BYTES) {
    refuse(`A message has at most ${MAX_MESSAGE_BYTES} bytes as it is delivered, not ${bytes}.`);
  }
  ctx.stash.kind = 'status';
  ctx.stash.message = message;
  return {};
}

export function response(ctx) {
  const { replay, message, sequence } = ctx.stash;
  const { messageId } = ctx.args;
  // Without group and domain a message reaches no subscriber: a repeated publish is answered, not delivered again.
  const status = replay ? replay : message;
  const { nodeId, groupId, domain, data, timestamp } = status;
  return {
    groupId: replay ? null : groupId,
    domain: replay ? null : domain,
    sequence: replay ? replay.sequence : sequence,
    messageId,
    nodeStatus: { nodeId, groupId, domain, data, timestamp },
    nodeId,
    data,
    timestamp,
  };
}
