import { util } from '@aws-appsync/utils'
import { put } from '@aws-appsync/utils/dynamodb'

export function request(ctx) {
  if (ctx.args.text === '') util.error('A note needs a text', 'ValidationError')
  return put({ key: { id: util.autoId() }, item: { text: ctx.args.text, at: util.time.nowISO8601() } })
}

export function response(ctx) {
  if (ctx.error) util.error(ctx.error.message, ctx.error.type)
  return ctx.result
}
