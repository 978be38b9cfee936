//! The calls of SQS that on-failure queues and the operator's tool need.

use std::time::Duration;

use axum::response::Response;
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

use super::{plain, protocol};
use crate::platform::Platform;
use crate::world::queues::Message;

/// The most messages that one call returns.
const MAX_BATCH: u64 = 10;

/// One operation.
pub(super) fn call(platform: &Platform, operation: &str, body: &[u8]) -> Response {
    let request = match protocol::request(body) {
        Ok(request) => request,
        Err(refusal) => return refusal,
    };
    if operation == "ListQueues" {
        let prefix = request["QueueNamePrefix"].as_str().unwrap_or_default();
        let names = platform.queues().names().filter(|name| name.starts_with(prefix));
        let urls: Vec<String> = names.map(|name| url(platform, name)).collect();
        return protocol::answer(&json!({ "QueueUrls": urls }));
    }
    let named = match operation {
        "GetQueueUrl" => request["QueueName"].as_str(),
        _ => request["QueueUrl"].as_str().and_then(|url| url.rsplit('/').next()),
    };
    let queues = platform.queues();
    let queue = named.map(plain).unwrap_or_default();
    if !queues.has(queue) {
        return unknown_queue();
    }
    let receipt = request["ReceiptHandle"].as_str().unwrap_or_default();
    let seconds = |name: &str| request[name].as_u64().map(Duration::from_secs);
    let written = match operation {
        "GetQueueUrl" => return protocol::answer(&json!({ "QueueUrl": url(platform, queue) })),
        "GetQueueAttributes" => return protocol::answer(&json!({ "Attributes": attributes(platform, queue) })),
        "ReceiveMessage" => {
            let most = request["MaxNumberOfMessages"].as_u64().unwrap_or(1).clamp(1, MAX_BATCH);
            let received = queues.receive(queue, usize::try_from(most).unwrap_or(1), seconds("VisibilityTimeout"));
            let shown: Vec<Value> = received.iter().map(|message| shown(message, &request)).collect();
            return protocol::answer(&json!({ "Messages": shown }));
        }
        "ChangeMessageVisibility" => {
            queues.hold(queue, receipt, seconds("VisibilityTimeout").unwrap_or_default());
            return protocol::answer(&json!({}));
        }
        "SendMessage" => {
            let body = request["MessageBody"].as_str().unwrap_or_default().to_owned();
            let digest = md5(body.as_bytes());
            let attributes = request["MessageAttributes"].as_object().into_iter().flatten();
            let text =
                |(name, value): (&String, &Value)| Some((name.clone(), value["StringValue"].as_str()?.to_owned()));
            let attributes = attributes.filter_map(text).collect();
            queues.send(queue, body, attributes).map(|id| json!({"MessageId": id, "MD5OfMessageBody": digest}))
        }
        "DeleteMessage" => queues.delete(queue, receipt).map(|()| json!({})),
        "PurgeQueue" => queues.purge(queue).map(|()| json!({})),
        _ => return protocol::refuse(&format!("AmazonSQS.{operation}")),
    };
    match written {
        Ok(body) => protocol::answer(&body),
        Err(error) => protocol::error(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &error.to_string()),
    }
}

/// The error for an unknown queue. Clients recognise it by its name in the old protocol.
fn unknown_queue() -> Response {
    let kind = "com.amazonaws.sqs#QueueDoesNotExist";
    let mut response = protocol::error(StatusCode::BAD_REQUEST, kind, "The specified queue does not exist.");
    let old = HeaderValue::from_static("AWS.SimpleQueueService.NonExistentQueue;Sender");
    response.headers_mut().insert("x-amzn-query-error", old);
    response
}

fn url(platform: &Platform, queue: &str) -> String {
    format!("{}/{}/{queue}", platform.ground().url, template::ACCOUNT)
}

fn attributes(platform: &Platform, queue: &str) -> Value {
    let (free, held) = platform.queues().count(queue);
    let retention = platform.queues().retention(queue).unwrap_or_default();
    json!({
        "QueueArn": template::arn("sqs", queue),
        "ApproximateNumberOfMessages": free.to_string(),
        "ApproximateNumberOfMessagesNotVisible": held.to_string(),
        "ApproximateNumberOfMessagesDelayed": "0",
        "MessageRetentionPeriod": retention.as_secs().to_string(),
        "VisibilityTimeout": "30",
    })
}

fn shown(message: &Message, request: &Value) -> Value {
    let mut shown = json!({
        "MessageId": message.id, "ReceiptHandle": message.receipt, "Body": message.body,
        "MD5OfBody": md5(message.body.as_bytes()),
        "Attributes": {
            "SentTimestamp": message.sent_ms.to_string(),
            "ApproximateReceiveCount": message.received.to_string(),
            "ApproximateFirstReceiveTimestamp": message.first_received_ms.to_string(),
        },
    });
    // As in SQS, only the attributes that the reader asks for.
    let asked: Vec<&str> =
        request["MessageAttributeNames"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let asks = |name: &str| asked.iter().any(|asked| matches!(*asked, "All" | ".*") || *asked == name);
    let attributes = message.attributes.iter().filter(|(name, _)| asks(name));
    let attributes: serde_json::Map<String, Value> =
        attributes.map(|(name, value)| (name.clone(), json!({"DataType": "String", "StringValue": value}))).collect();
    if !attributes.is_empty() {
        shown["MessageAttributes"] = Value::Object(attributes);
    }
    shown
}

/// MD5 (RFC 1321). Clients of SQS check it; nothing else here needs it.
fn md5(input: &[u8]) -> String {
    const SHIFTS: [u32; 16] = [7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21];
    let mut state: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let mut padded = input.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend((input.len() as u64).wrapping_mul(8).to_le_bytes());
    for block in padded.chunks_exact(64) {
        let mut words = [0_u32; 16];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        let [mut a, mut b, mut c, mut d] = state;
        for step in 0..64_usize {
            let (mixed, word) = match step / 16 {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
                2 => (b ^ c ^ d, (3 * step + 5) % 16),
                _ => (c ^ (b | !d), (7 * step) % 16),
            };
            // The constants are defined as digits of the sine, so they are computed.
            let constant = (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
            let sum = a.wrapping_add(mixed).wrapping_add(constant).wrapping_add(words[word]);
            let next = b.wrapping_add(sum.rotate_left(SHIFTS[step / 16 * 4 + step % 4]));
            (a, d, c, b) = (d, c, b, next);
        }
        for (total, part) in state.iter_mut().zip([a, b, c, d]) {
            *total = total.wrapping_add(part);
        }
    }
    hex::encode(state.map(u32::to_le_bytes).concat())
}

#[cfg(test)]
mod tests {
    #[test]
    fn md5_is_rfc_1321s() {
        assert_eq!(super::md5(b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(super::md5(b"message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
        let long = b"12345678901234567890123456789012345678901234567890123456789012345678901234567890";
        assert_eq!(super::md5(long), "57edf4a22be3c955ac49da2e2107b67a");
    }
}
