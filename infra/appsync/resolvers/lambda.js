import { util } from '@aws-appsync/utils';
/** @import { Ctx } from '../types' */

/**
 * createGroup, leaveGroup, dissolveGroup: the Lambda function mesh-resolver (crates/mesh) does what takes more than a few requests.
 * @param {Ctx} ctx
 */
export function request(ctx) {
  return {
    operation: 'Invoke',
    payload: { field: ctx.info.fieldName, arguments: ctx.args },
  };
}

/** @param {Ctx<{ error?: { message: string, type: string }, value: object | null }>} ctx */
export function response(ctx) {
  if (ctx.error) {
    console.error(`mesh-unavailable: ${ctx.error.type}: ${ctx.error.message}`);
    util.error('The request could not be carried out. Try again.', 'Unavailable');
  }
  const { error, value } = ctx.result;
  if (error) {
    util.error(error.message, error.type);
  }
  return value;
}
