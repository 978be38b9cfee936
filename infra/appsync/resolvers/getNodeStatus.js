import { util } from '@aws-appsync/utils';

/** The longest ids and domain, in characters of any script. */
const MAX_ID = 128;
const MAX_DOMAIN = 256;

/** readStatus, checkStanding. A member's last report, or null. */
export function request(ctx) {
  const { nodeId, domain, groupId } = ctx.args;
  const bounded = (what, text, most) => {
    if (!text || (text.length > most && !util.matches(`^[\\s\\S]{1,${most}}$`, text))) {
      util.error(`${what} has 1 to ${most} characters, not ${text.length}.`, 'ValidationError');
    }
  };
  bounded('nodeId', nodeId, MAX_ID);
  bounded('domain', domain, MAX_DOMAIN);
  if (groupId) {
    bounded('groupId', groupId, MAX_ID);
  }
  return {};
}

export function response(ctx) {
  return ctx.prev.result;
}
