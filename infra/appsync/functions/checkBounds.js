import { util } from '@aws-appsync/utils';

/** The longest ids, names and domain, in characters of any script. */
const LONGEST = { groupId: 128, domain: 256, nodeId: 128, nodeName: 128, messageId: 100 };
/** Of these, empty is the same as not given. */
const OPTIONAL = ['nodeName', 'messageId'];
/** The longest message, in bytes: AppSync delivers 240 KB. */
const MAX_MESSAGE_BYTES = 240000;

/** The bounds that all operations share: of their arguments, and of the message that they are about to publish, if any. */
export function request(ctx) {
  const refuse = (what) => util.error(what, 'ValidationError');
  for (const name of Object.keys(LONGEST)) {
    const text = ctx.args[name];
    const most = LONGEST[name];
    const isGiven = text || (text === '' && !OPTIONAL.includes(name));
    // A character may be two of what `length` counts.
    if (isGiven && (text === '' || (text.length > most && !util.matches(`^[\\s\\S]{1,${most}}$`, text)))) {
      refuse(`${name} has 1 to ${most} characters, not ${text.length}.`);
    }
  }
  const { kind, message } = ctx.stash;
  if (message) {
    // What is delivered is what the publisher selected: nested, flat, or both.
    const forms = kind === 'events' ? ['batchEvent', 'events'] : ['nodeStatus', 'data'];
    const copies = forms.every((form) => ctx.info.selectionSetList.includes(form)) ? 2 : 1;
    const bytes = copies * (util.base64Encode(JSON.stringify(message)).length / 4) * 3;
    if (bytes > MAX_MESSAGE_BYTES) {
      refuse(`A message has at most ${MAX_MESSAGE_BYTES} bytes as it is delivered, not ${bytes}.`);
    }
  }
  return {};
}

export function response(ctx) {
  return ctx.prev.result;
}
