import { util } from '@aws-appsync/utils';

/** createGroup, leaveGroup, dissolveGroup: the Lambda function mesh-resolver (crates/mesh) does what takes more than a few requests. */
export function request(ctx) {
  return {
    operation: 'Invoke',
    payload: { field: ctx.info.fieldName, arguments: ctx.args },
  };
}

export function response(ctx) {
  if (ctx.error) {
    util.error('The request could not be carried out. Try again.', 'Unavailable');
  }
  const { error, value } = ctx.result;
  if (error) {
    util.error(error.message, error.type);
  }
  return value;
}
