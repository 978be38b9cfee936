import { util } from '@aws-appsync/utils';
/** @import { Ctx } from '../types' */

/**
 * How long ids, names and the domain may be, in characters of any script.
 * @type {Record<string, number>}
 */
const LONGEST = { groupId: 128, domain: 256, nodeId: 128, nodeName: 128, messageId: 100, secret: 128 };
/** Of these an empty one counts as not given. */
const OPTIONAL = ['nodeName', 'messageId', 'secret'];
/** How large a message may be, in bytes: AppSync delivers at most 240 KB. */
const MAX_MESSAGE_BYTES = 240000;

/**
 * Checks the bounds that all operations share: of their arguments, and of the message that they are about to publish, if there is one.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  /** @param {string} what */
  const refuse = (what) => util.error(what, 'ValidationError');
  const args = /** @type {Record<string, string | null | undefined>} */ (/** @type {unknown} */ (ctx.args));
  for (const name of Object.keys(LONGEST)) {
    const text = args[name];
    const most = LONGEST[name];
    const isGiven = text || (text === '' && !OPTIONAL.includes(name));
    // `length` counts some characters as two, of which the second is one of these.
    if (isGiven && (text === '' || (text.length > most && !util.matches(`^[\\s\\S]{1,${most}}$`, text)))) {
      const characters = text.split('').filter((unit) => unit < '\udc00' || unit > '\udfff');
      refuse(`${name} must have 1 to ${most} characters; it has ${characters.length}.`);
    }
  }
  const { kind, message } = ctx.stash;
  if (message) {
    // AppSync delivers the fields that the publisher selected: nested, flat, or both.
    const forms = kind === 'events' ? ['batchEvent', 'events'] : ['nodeStatus', 'data'];
    const copies = forms.every((form) => ctx.info.selectionSetList.includes(form)) ? 2 : 1;
    const bytes = copies * (util.base64Encode(JSON.stringify(message)).length / 4) * 3;
    if (bytes > MAX_MESSAGE_BYTES) {
      refuse(`A message must have at most ${MAX_MESSAGE_BYTES} bytes when it is delivered; this one has ${bytes}.`);
    }
  }
  return {};
}

/** @param {Ctx} ctx */
export function response(ctx) {
  return ctx.prev.result;
}
