// What slack-events is compared with: a handler in Node with the AWS SDK v3. It verifies the signature, marks the event with one
// conditional put, falls back to memory, and hands a new event over. It records no completion, so it makes one store call less.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { DynamoDBDocumentClient, PutCommand } from '@aws-sdk/lib-dynamodb';
import { GetParametersCommand, SSMClient } from '@aws-sdk/client-ssm';

const TTL_HOURS = 6;
const TABLE = process.env.DEDUP_TABLE_NAME;
const documents = DynamoDBDocumentClient.from(new DynamoDBClient({}), { marshallOptions: { removeUndefinedValues: true } });
const lambda = new LambdaClient({});
const secret = signingSecret(); // asked for while the process starts

/** By name from SSM, as ours has it. */
async function signingSecret() {
  const names = [process.env.SLACK_SIGNING_SECRET_PARAMETER];
  const found = await new SSMClient({}).send(new GetParametersCommand({ Names: names, WithDecryption: true }));
  return found.Parameters[0].Value;
}

class HybridDeduplicationService {
  memory = new Map();
  useFallback = false;

  async checkAndMarkProcessed(eventKey, metadata) {
    if (!this.useFallback) {
      try {
        return await this.put(eventKey, metadata);
      } catch (error) {
        console.error(JSON.stringify({ level: 'ERROR', message: 'DynamoDB error, falling back to memory', error: error.name }));
        this.useFallback = true;
        setTimeout(() => { this.useFallback = false; }, 60_000).unref();
      }
    }
    if (this.memory.has(eventKey)) return { isNew: false };
    this.memory.set(eventKey, Date.now());
    return { isNew: true };
  }

  async put(eventKey, metadata) {
    const now = Math.floor(Date.now() / 1000);
    try {
      await documents.send(new PutCommand({
        TableName: TABLE,
        Item: { event_key: eventKey, processed_at: now, ttl: now + TTL_HOURS * 3600, ...metadata },
        ConditionExpression: 'attribute_not_exists(event_key)',
      }));
      return { isNew: true };
    } catch (error) {
      if (error.name === 'ConditionalCheckFailedException') return { isNew: false };
      throw error;
    }
  }
}

const deduplication = new HybridDeduplicationService();

function signed(secret, headers, body) {
  const timestamp = headers['x-slack-request-timestamp'];
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > 300) return false;
  const expected = Buffer.from(`v0=${createHmac('sha256', secret).update(`v0:${timestamp}:${body}`).digest('hex')}`);
  const given = Buffer.from(headers['x-slack-signature'] ?? '');
  return given.length === expected.length && timingSafeEqual(given, expected);
}

export async function handler(event, context) {
  const body = event.isBase64Encoded ? Buffer.from(event.body, 'base64').toString() : event.body;
  if (!signed(await secret, event.headers, body)) return { statusCode: 401 };
  const envelope = JSON.parse(body);
  if (envelope.type === 'url_verification') return { statusCode: 200, body: JSON.stringify({ challenge: envelope.challenge }) };
  const message = envelope.event;
  if (message?.type !== 'message' || message.subtype !== 'file_share') return { statusCode: 200 };
  const fileId = message.files[0].id;
  const eventKey = envelope.event_id || `${fileId}_${message.ts}`;
  const started = performance.now();
  const { isNew } = await deduplication.checkAndMarkProcessed(eventKey, {
    file_id: fileId, channel_id: message.channel, user_id: message.user, lambda_instance_id: context.awsRequestId,
  });
  console.log(JSON.stringify({
    level: 'INFO', message: `checked ${eventKey}: ${isNew ? 'new' : 'duplicate'}`, eventKey, result: isNew ? 'new' : 'duplicate',
    dynamodbLatency: performance.now() - started, fallbackMode: deduplication.useFallback,
  }));
  if (isNew) {
    await lambda.send(new InvokeCommand({
      FunctionName: process.env.SLACK_FILES_FUNCTION, InvocationType: 'Event', Payload: JSON.stringify(message),
    }));
  }
  return { statusCode: 200 };
}
