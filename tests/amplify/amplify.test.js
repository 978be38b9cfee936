// AWS Amplify's client, unmodified but for the endpoint: it queries, mutates, subscribes and
// receives, and understands the errors. Run by ./run, which starts the server and trusts its
// certificate.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Amplify } from 'aws-amplify'
import { generateClient } from 'aws-amplify/api'
import { CONNECTION_STATE_CHANGE } from 'aws-amplify/api'
import { Hub } from 'aws-amplify/utils'
import WebSocket from 'ws'

// Node 20 has none of its own.
globalThis.WebSocket = WebSocket

const { APPSYNC_URL: endpoint, APPSYNC_API_KEY: apiKey } = process.env
const configure = (key) =>
  Amplify.configure({ API: { GraphQL: { endpoint, region: 'local', defaultAuthMode: 'apiKey', apiKey: key } } })
configure(apiKey)
const client = generateClient()

const ADD = /* GraphQL */ `mutation Add($room: ID!, $text: String!) { addNote(room: $room, text: $text) { id room text at } }`
const ON = /* GraphQL */ `subscription On($room: ID!) { onNote(room: $room) { id room text } }`

/** Resolves once Amplify says that its subscriptions are established. */
function connected() {
  return new Promise((resolve) => {
    const stop = Hub.listen('api', ({ payload }) => {
      if (payload.event === CONNECTION_STATE_CHANGE && payload.data.connectionState === 'Connected') {
        stop()
        resolve()
      }
    })
  })
}

const timeLimit = { timeout: 60_000 }

test('it queries', timeLimit, async () => {
  const { data } = await client.graphql({ query: 'query Get($id: ID!) { note(id: $id) { id text } }', variables: { id: '7' } })
  assert.deepEqual(data.note, { id: '7', text: 'kept' })
})

test('it mutates', timeLimit, async () => {
  const { data } = await client.graphql({ query: ADD, variables: { room: 'r', text: 'hello' } })
  assert.equal(data.addNote.text, 'hello')
  assert.match(data.addNote.id, /^[0-9a-f-]{36}$/)
})

test('it understands errors', timeLimit, async () => {
  await assert.rejects(client.graphql({ query: 'mutation { fail { id } }' }), ({ errors }) => {
    assert.equal(errors[0].errorType, 'RoomNotFound')
    assert.equal(errors[0].message, 'no room')
    assert.deepEqual(errors[0].errorInfo, { retry: false })
    return true
  })
})

test('it subscribes, receives its room only, and unsubscribes', timeLimit, async () => {
  const received = []
  let heard
  const all = new Promise((resolve) => (heard = resolve))
  const ready = connected()
  const subscription = client.graphql({ query: ON, variables: { room: 'blue' } }).subscribe({
    next: ({ data }) => {
      received.push(data.onNote.text)
      if (received.length === 3) heard()
    },
    error: (error) => assert.fail(JSON.stringify(error)),
  })
  after(() => subscription.unsubscribe())
  await ready
  for (const [room, text] of [['blue', 'one'], ['red', 'not yours'], ['blue', 'two'], ['blue', 'three']]) {
    await client.graphql({ query: ADD, variables: { room, text } })
  }
  await all
  assert.deepEqual(received, ['one', 'two', 'three'])
  subscription.unsubscribe()
})

test('it is told that a key is wrong', timeLimit, async () => {
  configure('wrong')
  try {
    await assert.rejects(generateClient().graphql({ query: 'query { note(id: "1") { id } }' }), ({ errors }) => {
      assert.match(JSON.stringify(errors), /Unauthorized|401/)
      return true
    })
  } finally {
    configure(apiKey)
  }
})
