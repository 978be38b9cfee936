// Both benchmarks serve graphql-yoga like this: HTTP, and graphql-ws for subscriptions.
import { createServer } from 'node:http'
import { createYoga } from 'graphql-yoga'
import { useServer } from 'graphql-ws/use/ws'
import { WebSocketServer } from 'ws'

/** Serves the schema until the process is killed; prints the address. */
export function serve(schema) {
  const yoga = createYoga({ schema, logging: false, graphiql: false })
  const server = createServer(yoga)
  const sockets = new WebSocketServer({ server, path: '/graphql' })
  useServer(
    {
      execute: (args) => args.rootValue.execute(args),
      subscribe: (args) => args.rootValue.subscribe(args),
      onSubscribe: async (ctx, _id, params) => {
        const { schema, execute, subscribe, contextFactory, parse, validate } = yoga.getEnveloped({
          ...ctx,
          req: ctx.extra.request,
          socket: ctx.extra.socket,
          params,
        })
        const args = {
          schema,
          operationName: params.operationName,
          document: parse(params.query),
          variableValues: params.variables,
          contextValue: await contextFactory(),
          rootValue: { execute, subscribe },
        }
        const errors = validate(args.schema, args.document)
        return errors.length > 0 ? errors : args
      },
    },
    sockets,
  )

  server.listen(0, '127.0.0.1', () => {
    const { address, port } = server.address()
    console.log(`${address}:${port}`)
  })
}
