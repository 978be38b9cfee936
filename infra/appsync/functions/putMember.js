import { util } from '@aws-appsync/utils';
/** @import { AppSyncIdentityIAM } from '@aws-appsync/utils' */
/** @import { Ctx, Reason, Transacted } from '../types' */

/** How many members a group may have. */
const MAX_MEMBERS = 100;
/** How short a secret may be that a node brings along, in characters of any script, as crates/mesh/src/group.rs counts them. */
const SHORTEST_SECRET = 16;
const HEX = '0123456789abcdef';

/**
 * Who counts as one caller. With IPv6 whoever has an address has its whole network, so the first 64 bits count. IPv4 may be written as IPv6.
 * crates/mesh/src/domain.rs makes the same of an address. What is no address of IPv6 is returned as it is.
 * @param {string} address
 */
function network(address) {
  // The last two groups may be written as an IPv4 address.
  const parts = address.toLowerCase().split(':');
  const tail = parts[parts.length - 1];
  const isMixed = tail.includes('.');
  const halves = (isMixed ? [...parts.slice(0, parts.length - 1), '0', '0'].join(':') : parts.join(':')).split('::');
  const [before, after] = halves.map((half) => (half === '' ? [] : half.split(':')));
  const written = before.concat(halves.length === 2 ? after : []);
  const missing = ['0', '0', '0', '0', '0', '0', '0', '0'].slice(written.length);
  const groups = halves.length === 2 ? before.concat(missing, after) : before;
  const isAddress = halves.length <= 2 && groups.length === 8 && groups.every((group) => util.matches('^[0-9a-f]{1,4}$', group));
  if (!isAddress || (halves.length === 2 && missing.length === 0)) {
    return address;
  }
  const full = groups.map((group) => `000${group}`.slice(-4));
  if (full.slice(0, 6).join('') === '00000000000000000000ffff') {
    const digits = full.slice(6).join('');
    /** @param {number} at */
    const byte = (at) => `${16 * HEX.indexOf(digits.slice(at, at + 1)) + HEX.indexOf(digits.slice(at + 1, at + 2))}`;
    return isMixed ? tail : [byte(0), byte(2), byte(4), byte(6)].join('.');
  }
  return `${full.slice(0, 4).join(':')}::/64`;
}

/**
 * Makes the node a member, in one transaction that checks that the group is alive. A node that was a member of another
 * group of the domain leaves it in the same transaction. Who has a secret can be replaced, or taken out of a living group, only with it.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  const { groupId, domain, nodeId, nodeName } = ctx.args;
  const given = ctx.args.secret ? ctx.args.secret : '';
  const { group, members, formerGroupId, formerIsOver, leftGroupId } = ctx.stash;
  const others = members.filter((member) => member.nodeId !== nodeId);
  if (others.length >= MAX_MEMBERS) {
    util.error(`The group already has ${MAX_MEMBERS} members, which is the maximum.`, 'ValidationError');
  }
  // AppSync adds two addresses to what the client sent: the client's own, and that of the edge which it came through.
  /** @type {string | undefined} */
  const forwarded = ctx.request.headers['x-forwarded-for'];
  const addresses = forwarded ? forwarded.split(',') : [''];
  const identity = /** @type {AppSyncIdentityIAM | null} */ (ctx.identity);
  const address = addresses[addresses.length > 1 ? addresses.length - 2 : 0].trim();
  const caller = identity && identity.userArn ? identity.userArn : network(address);
  const most = +ctx.env.NODES_PER_CALLER;
  if (others.filter((member) => member.caller === caller).length >= most) {
    util.error(`Nodes from your address, or of your identity, are already ${most} members of the group, which is the maximum.`, 'QuotaExceeded');
  }
  const isSecured = group.secured === true;
  if (isSecured && nodeId === group.hostId && given !== group.hostSecret) {
    util.error('Only the host can join under its id: pass the hostSecret.', 'Unauthorized');
  }
  // `length` counts some characters as two.
  if (isSecured && given && !util.matches(`^[\\s\\S]{${SHORTEST_SECRET},}$`, given)) {
    util.error(`secret must have at least ${SHORTEST_SECRET} characters.`, 'ValidationError');
  }
  const memberSecret = given ? given : util.autoId();
  ctx.stash.memberSecret = isSecured ? memberSecret : null;
  const table = ctx.env.TABLE_NAME;
  const now = util.time.nowEpochSeconds();
  const interval = +ctx.env.MEMBER_HEARTBEAT_SECONDS;
  const until = nodeId === group.hostId ? group.expiresAt : now + 5 * interval;
  const ttl = until < group.expiresAt ? until : group.expiresAt;
  const nodeKey = `NODE#${nodeId.split('%').join('%25').split('@').join('%40')}@${domain}`;
  /** @type {object[]} */
  const items = [
    {
      table,
      operation: 'ConditionCheck',
      key: util.dynamodb.toMapValues({ pk: `DOMAIN#${domain}`, sk: `GROUP#${groupId}#METADATA` }),
      condition: {
        expression: 'attribute_exists(pk) AND expiresAt > :now AND hostFreshUntil > :now',
        expressionValues: util.dynamodb.toMapValues({ ':now': now }),
      },
    },
    {
      table,
      operation: 'PutItem',
      key: util.dynamodb.toMapValues({ pk: nodeKey, sk: 'MEMBERSHIP' }),
      attributeValues: util.dynamodb.toMapValues({
        groupId,
        domain,
        nodeId,
        ttl: group.expiresAt,
        ...(isSecured ? { secured: true } : {}),
        ...(leftGroupId ? { leftGroupId } : {}),
      }),
      condition: formerGroupId
        ? {
            expression: 'groupId = :former',
            expressionValues: util.dynamodb.toMapValues({ ':former': formerGroupId }),
          }
        : { expression: 'attribute_not_exists(pk)' },
    },
    {
      table,
      operation: 'PutItem',
      key: util.dynamodb.toMapValues({ pk: `GROUP#${groupId}@${domain}`, sk: `NODE#${nodeId}` }),
      attributeValues: util.dynamodb.toMapValues({
        nodeId,
        name: nodeName ? nodeName : nodeId,
        groupId,
        domain,
        heartbeatIntervalSeconds: interval,
        ttl,
        caller,
        ...(isSecured ? { memberSecret } : {}),
      }),
      ...(isSecured
        ? {
            condition: {
              expression: 'attribute_not_exists(pk) OR #ttl <= :now OR memberSecret = :secret',
              expressionNames: { '#ttl': 'ttl' },
              expressionValues: util.dynamodb.toMapValues({ ':now': now, ':secret': memberSecret }),
            },
          }
        : {}),
    },
  ];
  if (formerGroupId && formerGroupId !== groupId) {
    items.push({
      table,
      operation: 'DeleteItem',
      key: util.dynamodb.toMapValues({ pk: `GROUP#${formerGroupId}@${domain}`, sk: `NODE#${nodeId}` }),
      ...(formerIsOver
        ? {}
        : {
            condition: {
              expression: 'attribute_not_exists(memberSecret) OR #ttl <= :now OR memberSecret = :secret',
              expressionNames: { '#ttl': 'ttl' },
              expressionValues: util.dynamodb.toMapValues({ ':now': now, ':secret': given }),
            },
          }),
    });
    items.push({
      table,
      operation: 'DeleteItem',
      key: util.dynamodb.toMapValues({ pk: nodeKey, sk: 'STATUS#LATEST' }),
    });
  }
  if (!isSecured) {
    // By this, getNodeStatus finds the node if it is asked without a domain.
    items.push({
      table,
      operation: 'PutItem',
      key: util.dynamodb.toMapValues({ pk: `NODE#${nodeId.split('%').join('%25').split('@').join('%40')}`, sk: 'LATEST' }),
      attributeValues: util.dynamodb.toMapValues({ groupId, domain, nodeId, ttl: group.expiresAt }),
    });
  }
  return { operation: 'TransactWriteItems', transactItems: items };
}

/** @param {Ctx<Transacted>} ctx */
export function response(ctx) {
  if (ctx.error) {
    const reasons = ctx.result && ctx.result.cancellationReasons ? ctx.result.cancellationReasons : [];
    // DynamoDB spells it the first way, AppSync's documentation the second.
    /** @param {Reason | undefined} reason */
    const refused = (reason) => reason && (reason.type === 'ConditionalCheckFailed' || reason.type === 'ConditionCheckFailed');
    if (refused(reasons[0])) {
      util.error(`Group not found: ${ctx.args.groupId}@${ctx.args.domain}. The group does not exist or has ended. Disconnect.`, 'GroupNotFound');
    }
    // The node here, and the node in its former group.
    if (refused(reasons[2]) || refused(reasons[3])) {
      util.error('A node of this id is in a secured group of the domain: pass its secret.', 'Unauthorized');
    }
    if (reasons.some((reason) => refused(reason) || reason.type === 'TransactionConflict')) {
      util.error('Another request changed the same data at the same time. Try again.', 'Conflict');
    }
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The node could not be written. Try again.', 'Unavailable');
  }
  return ctx.prev.result;
}
