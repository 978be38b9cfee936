// graphql-yoga with graphql-ws: the same schema, the same two DynamoDB calls per mutation.
import { randomUUID } from 'node:crypto'
import { DynamoDBClient, GetItemCommand, PutItemCommand } from '@aws-sdk/client-dynamodb'
import { createPubSub, createSchema, filter, pipe } from 'graphql-yoga'
import { serve } from './serve.js'

const TableName = 'bench'
const dynamodb = new DynamoDBClient({
  endpoint: process.env.DYNAMODB_ENDPOINT,
  region: 'local',
  credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
})
const pubsub = createPubSub()

const schema = createSchema({
  typeDefs: /* GraphQL */ `
    type Query { a: Int }
    type Mutation { send(groupId: ID!, text: String!): Message }
    type Subscription { onSend(groupId: ID!): Message }
    type Message { groupId: ID! id: ID! text: String! at: String! }
  `,
  resolvers: {
    Mutation: {
      async send(_, { groupId, text }) {
        const group = await dynamodb.send(new GetItemCommand({ TableName, Key: { pk: { S: `GROUP#${groupId}` } } }))
        if (!group.Item) throw new Error('no such group')
        const message = { groupId, text, id: randomUUID(), at: new Date().toISOString() }
        await dynamodb.send(
          new PutItemCommand({
            TableName,
            Item: {
              pk: { S: `MESSAGE#${message.id}` },
              groupId: { S: groupId },
              text: { S: text },
              id: { S: message.id },
              at: { S: message.at },
            },
          }),
        )
        pubsub.publish('message', message)
        return message
      },
    },
    Subscription: {
      onSend: {
        subscribe: (_, { groupId }) => pipe(pubsub.subscribe('message'), filter((message) => message.groupId === groupId)),
        resolve: (message) => message,
      },
    },
  },
})

serve(schema)
