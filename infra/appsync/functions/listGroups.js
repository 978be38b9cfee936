import { runtime, util } from '@aws-appsync/utils';
/** @import { Ctx, Group, Page } from '../types' */

/** How often this step is in a pipeline. Groups that have ended are still in the table and fill the pages. */
const PAGES = 3;

/**
 * The living groups of a domain, oldest first. The index may lag behind for a moment. Groups that ended long ago may still be in the table, so
 * groups that are older than a group can become are not read. This step is in a pipeline several times: each one goes on where the one before
 * ended, if there is more.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { groups, moreGroups } = ctx.stash;
  if (groups && !moreGroups) {
    runtime.earlyReturn(groups);
  }
  const longest = +ctx.env.MESH_MAX_CONNECTION_TIME_MINUTES * 60 * 1000;
  const oldest = util.time.epochMilliSecondsToISO8601(util.time.nowEpochMilliSeconds() - longest);
  return {
    operation: 'Query',
    index: 'GSI1',
    query: {
      expression: 'GSI1PK = :domain AND GSI1SK BETWEEN :from AND :to',
      expressionValues: util.dynamodb.toMapValues({
        ':domain': `DOMAIN#${ctx.args.domain}`,
        ':from': `GROUP#${oldest}`,
        ':to': 'GROUP#~',
      }),
    },
    limit: 1000,
    ...(moreGroups ? { nextToken: moreGroups } : {}),
  };
}

/** @param {Ctx<Page<Group>>} ctx */
export function response(ctx) {
  if (ctx.error) {
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The groups could not be read. Try again.', 'Unavailable');
  }
  const now = util.time.nowEpochSeconds();
  const { groups, groupPages } = ctx.stash;
  const { items, nextToken } = ctx.result;
  const pages = (groupPages ? groupPages : 0) + 1;
  if (nextToken && pages >= PAGES) {
    // A part of them would look as if there were no others.
    util.error('Not all groups of the domain could be read. Try again later.', 'Unavailable');
  }
  ctx.stash.groups = (groups ? groups : []).concat(items.filter((group) => group.expiresAt > now && group.hostFreshUntil > now));
  ctx.stash.groupPages = pages;
  ctx.stash.moreGroups = nextToken;
  return ctx.stash.groups;
}
