// graphql-yoga with graphql-ws: the schema of the mesh, and for each publish the same DynamoDB calls as the resolvers in infra/appsync.
import { readFileSync } from 'node:fs'
import { randomUUID } from 'node:crypto'
import { DynamoDBClient, PutItemCommand, TransactWriteItemsCommand, UpdateItemCommand } from '@aws-sdk/client-dynamodb'
import { createPubSub, createSchema } from 'graphql-yoga'
import { serve } from './serve.js'

const TableName = process.env.TABLE_NAME
const dynamodb = new DynamoDBClient({
  endpoint: process.env.DYNAMODB_ENDPOINT,
  region: 'local',
  credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
})
const pubsub = createPubSub()

/** A value as DynamoDB takes it. */
const typed = (value) => {
  if (value === null || value === undefined) return { NULL: true }
  if (typeof value === 'string') return { S: value }
  if (typeof value === 'number') return { N: String(value) }
  if (typeof value === 'boolean') return { BOOL: value }
  if (Array.isArray(value)) return { L: value.map(typed) }
  return { M: fields(value) }
}
const fields = (object) => Object.fromEntries(Object.entries(object).map(([name, value]) => [name, typed(value)]))
const seconds = () => Math.floor(Date.now() / 1000)
const later = () => seconds() + 3600
const number = (sequence) => String(sequence).padStart(12, '0')
const partition = ({ groupId, domain }) => `GROUP#${groupId}@${domain}`

/** Takes the group's next number, if the group is alive (takeSequence.js). */
async function takeSequence({ groupId, domain }, kind) {
  const answer = await dynamodb.send(
    new UpdateItemCommand({
      TableName,
      Key: fields({ pk: `DOMAIN#${domain}`, sk: `GROUP#${groupId}#METADATA` }),
      UpdateExpression: `SET #sequence = if_not_exists(#sequence, :zero) + :one, sequencedAt = :nowMs${
        kind === 'events' ? ', eventSequence = if_not_exists(#sequence, :zero) + :one' : ''
      }`,
      ConditionExpression: 'attribute_exists(pk) AND expiresAt > :now AND hostFreshUntil > :now',
      ExpressionAttributeNames: { '#sequence': 'sequence' },
      ExpressionAttributeValues: fields({ ':zero': 0, ':one': 1, ':now': seconds(), ':nowMs': Date.now() }),
      ReturnValues: 'ALL_NEW',
    }),
  )
  return { sequence: +answer.Attributes.sequence.N, hostId: answer.Attributes.hostId.S }
}

/** Writes the message, if the node is a member (writeMessage.js). */
async function publish(args, kind, message) {
  const { sequence, hostId } = await takeSequence(args, kind)
  const { groupId, domain, nodeId } = args
  const member = {
    TableName,
    Key: fields({ pk: partition(args), sk: `NODE#${nodeId}` }),
    ConditionExpression: 'attribute_exists(pk) AND #ttl > :now',
    ExpressionAttributeNames: { '#ttl': 'ttl' },
    ExpressionAttributeValues: fields({ ':now': seconds() }),
  }
  const shows = kind === 'status' && nodeId === hostId
  const items = [
    shows ? { Update: { ...member, UpdateExpression: 'REMOVE isHidden' } } : { ConditionCheck: member },
    {
      Put: {
        TableName,
        Item: fields({
          pk: partition(args), sk: `MESSAGE#${number(sequence)}`, kind, sequence, nodeId, message, messageId: null, at: Date.now(), ttl: seconds() + 120,
        }),
        ConditionExpression: 'attribute_not_exists(pk)',
      },
    },
  ]
  if (kind === 'status') {
    const { data, timestamp } = message
    items.push({
      Put: {
        TableName,
        Item: fields({
          pk: `NODE#${nodeId}@${domain}`, sk: 'STATUS#LATEST', GSI1PK: partition(args), GSI1SK: `STATUS#${nodeId}`,
          nodeId, groupId, domain, data, timestamp, ttl: later(),
        }),
      },
    })
  }
  await dynamodb.send(new TransactWriteItemsCommand({ TransactItems: items }))
  const told = kind === 'status' ? { nodeStatus: message, ...message } : { batchEvent: message, ...message }
  const answer = { ...told, groupId, domain, sequence }
  pubsub.publish('message', partition(args), answer)
  return answer
}

const directives = ['aws_api_key', 'aws_iam'].map((name) => `directive @${name} on OBJECT | FIELD_DEFINITION`).join('\n')
const typeDefs = `scalar AWSDateTime
${directives}
directive @aws_subscribe(mutations: [String!]!) on FIELD_DEFINITION
${readFileSync(new URL('../../infra/appsync/schema.graphql', import.meta.url), 'utf8')}`

const schema = createSchema({
  typeDefs,
  resolvers: {
    Mutation: {
      async createGroup(_, { name, hostId, domain }) {
        const id = randomUUID()
        const group = { groupId: id, domain, name, hostId, expiresAt: later(), hostFreshUntil: later(), sequence: 0 }
        await dynamodb.send(new PutItemCommand({ TableName, Item: fields({ pk: `DOMAIN#${domain}`, sk: `GROUP#${id}#METADATA`, ...group }) }))
        await dynamodb.send(new PutItemCommand({ TableName, Item: fields({ pk: partition(group), sk: `NODE#${hostId}`, nodeId: hostId, ttl: later() }) }))
        return { id, domain, name, hostId }
      },
      async joinGroup(_, args) {
        const { nodeId } = args
        await dynamodb.send(new PutItemCommand({ TableName, Item: fields({ pk: partition(args), sk: `NODE#${nodeId}`, nodeId, ttl: later() }) }))
        return { id: nodeId, name: nodeId }
      },
      reportDataByNode(_, args) {
        const { groupId, domain, nodeId, data } = args
        return publish(args, 'status', { nodeId, groupId, domain, data, timestamp: new Date().toISOString() })
      },
      fireEventsByNode(_, args) {
        const { groupId, domain, nodeId } = args
        const events = args.events.map(({ eventName, payload, firedAt }) => ({
          name: eventName, firedByNodeId: nodeId, groupId, domain, payload, timestamp: firedAt,
        }))
        return publish(args, 'events', { firedByNodeId: nodeId, groupId, domain, timestamp: new Date().toISOString(), events })
      },
    },
    Subscription: {
      onMessageInGroup: { subscribe: (_, args) => pubsub.subscribe('message', partition(args)), resolve: (message) => message },
    },
  },
})

serve(schema)
