import { extensions } from '@aws-appsync/utils';
/** @import { Ctx } from '../types' */

/** All subscriptions: checkBounds, readGroup, checkSecret. */
export function request() {
  return {};
}

/**
 * Whoever subscribes to a secured group gets a filter of its own, because AppSync would look for its secret in the messages, and is cut off
 * when its node leaves or joins again, or when the group is dissolved. All other subscriptions are as AppSync makes them: by their arguments.
 * @param {Ctx} ctx
 */
export function response(ctx) {
  const { groupId, domain } = ctx.args;
  const { group, reader } = ctx.stash;
  if (group && group.secured && reader) {
    /**
     * @param {string} fieldName
     * @param {string | boolean} value
     */
    const is = (fieldName, value) => ({ fieldName, operator: /** @type {const} */ ('eq'), value });
    const here = [is('groupId', groupId), is('domain', domain)];
    extensions.setSubscriptionFilter({ filterGroup: [{ filters: here }] });
    extensions.setSubscriptionInvalidationFilter({
      filterGroup: [
        { filters: [...here, is('nodeId', reader)] },
        { filters: [is('leftGroupId', groupId), is('domain', domain), is('nodeId', reader)] },
        { filters: [...here, is('everybody', true)] },
      ],
    });
  }
  return null;
}
