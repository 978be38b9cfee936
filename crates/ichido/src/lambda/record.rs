//! The records of SQS, Kinesis and DynamoDB Streams, as Lambda delivers them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::BoxError;
use crate::key::{self, Key, Namespace};

/// A batch of records, as Lambda delivers it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event<R> {
    /// The records, in the order of their queue or shard.
    #[serde(rename = "Records")]
    pub records: Vec<R>,
}

/// An event of an SQS queue.
pub type SqsEvent = Event<SqsMessage>;
/// An event of a Kinesis stream.
pub type KinesisEvent = Event<KinesisRecord>;
/// An event of a DynamoDB stream.
pub type DynamoDbEvent = Event<DynamoDbRecord>;

/// How the records of a source depend on each other.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order<'r> {
    /// On nothing. Each failed record is delivered again by itself.
    Free,
    /// Records of the same group go in order: after a failure, the rest of the group must come again. Other groups go on.
    Group(Cow<'r, str>),
    /// A shard of a stream: everything from the lowest failed sequence number on is delivered again. Records with the same
    /// key go in order.
    Stream(Cow<'r, str>),
}

/// A record of a batch.
pub trait Record: Send + Sync {
    /// How the response names the record: the message id or the sequence number. Empty if the source sent none: Lambda then
    /// takes the whole batch as failed.
    fn identifier(&self) -> &str;

    /// What must be done before it.
    fn order(&self) -> Order<'_>;
}

/// A message of an SQS queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SqsMessage {
    /// The same on each delivery of the message.
    #[serde(default)]
    pub message_id: String,
    /// What was sent.
    #[serde(default)]
    pub body: String,
    /// What SQS says of the message, for example `ApproximateReceiveCount`.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
    /// The queue.
    #[serde(default, rename = "eventSourceARN")]
    pub event_source_arn: String,
    /// All other fields, as they came.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl SqsMessage {
    /// The key made of the message id. It protects from redelivery of the message only: a sender that repeats itself sends a
    /// message with another id. An id of the business in the body, such as an order number, protects from both.
    pub fn key(&self, namespace: &Namespace) -> Result<Key, key::Error> {
        namespace.key([&self.message_id])
    }

    /// The body, read as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.body)
    }

    /// How often SQS has delivered the message, this time included. SQS calls this number approximate.
    pub fn receive_count(&self) -> Option<u32> {
        self.attributes.get("ApproximateReceiveCount")?.parse().ok()
    }

    /// The message group. Messages of a standard queue may have one too, for fair queues; it does not order them.
    pub fn group(&self) -> Option<&str> {
        self.attributes.get("MessageGroupId").map(String::as_str)
    }

    /// Does it come from a FIFO queue?
    pub fn is_fifo(&self) -> bool {
        self.event_source_arn.ends_with(".fifo")
    }
}

impl Record for SqsMessage {
    fn identifier(&self) -> &str {
        &self.message_id
    }

    fn order(&self) -> Order<'_> {
        if self.is_fifo() { Order::Group(self.group().unwrap_or_default().into()) } else { Order::Free }
    }
}

/// A record of a Kinesis stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct KinesisRecord {
    /// The shard and the sequence number: unique in the stream.
    #[serde(default, rename = "eventID")]
    pub event_id: String,
    /// What the producer put.
    pub kinesis: KinesisData,
    /// The stream.
    #[serde(default, rename = "eventSourceARN")]
    pub event_source_arn: String,
    /// All other fields, as they came.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// What a producer put into a Kinesis stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct KinesisData {
    /// A decimal number that grows along the shard.
    #[serde(default)]
    pub sequence_number: String,
    /// Records with the same partition key are in the same shard.
    #[serde(default)]
    pub partition_key: String,
    /// The data in base64. See [`KinesisRecord::bytes`].
    #[serde(default)]
    pub data: String,
    /// All other fields, as they came.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl KinesisRecord {
    /// The key made of the event id. It protects from redelivery of the record only: a producer that repeats itself puts a
    /// record with another sequence number. An id of the business in the data protects from both.
    pub fn key(&self, namespace: &Namespace) -> Result<Key, key::Error> {
        namespace.key([&self.event_id])
    }

    /// The data.
    pub fn bytes(&self) -> Result<Vec<u8>, Undecodable> {
        BASE64_STANDARD.decode(&self.kinesis.data).map_err(|error| Undecodable::Base64(error.into()))
    }

    /// The data, read as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Undecodable> {
        serde_json::from_slice(&self.bytes()?).map_err(Undecodable::Json)
    }
}

/// Why the data of a Kinesis record cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Undecodable {
    /// Kinesis always sends base64.
    #[error("the data of the record is not base64: {0}")]
    Base64(#[source] BoxError),
    /// The producer put something else.
    #[error("the data of the record is not the expected JSON: {0}")]
    Json(#[source] serde_json::Error),
}

impl Record for KinesisRecord {
    fn identifier(&self) -> &str {
        &self.kinesis.sequence_number
    }

    fn order(&self) -> Order<'_> {
        Order::Stream(self.kinesis.partition_key.as_str().into())
    }
}

/// A record of a DynamoDB stream: one change of one item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DynamoDbRecord {
    /// Unique among all records of DynamoDB.
    #[serde(default, rename = "eventID")]
    pub event_id: String,
    /// `INSERT`, `MODIFY` or `REMOVE`.
    #[serde(default)]
    pub event_name: String,
    /// The change.
    pub dynamodb: Change,
    /// The stream.
    #[serde(default, rename = "eventSourceARN")]
    pub event_source_arn: String,
    /// All other fields, as they came.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// What changed in a DynamoDB table, in DynamoDB's JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[non_exhaustive]
pub struct Change {
    /// A decimal number that grows along the shard.
    #[serde(default)]
    pub sequence_number: String,
    /// The item's key.
    #[serde(default)]
    pub keys: BTreeMap<String, Value>,
    /// The item after the change, if the stream has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_image: Option<Map<String, Value>>,
    /// The item before the change, if the stream has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_image: Option<Map<String, Value>>,
    /// All other fields, as they came.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl DynamoDbRecord {
    /// The key made of the event id. It protects from redelivery of the record only.
    pub fn key(&self, namespace: &Namespace) -> Result<Key, key::Error> {
        namespace.key([&self.event_id])
    }
}

impl Record for DynamoDbRecord {
    fn identifier(&self) -> &str {
        &self.dynamodb.sequence_number
    }

    fn order(&self) -> Order<'_> {
        // The text of a map with sorted names is the same for the same key.
        let item: Vec<String> = self.dynamodb.keys.iter().map(|(name, value)| format!("{name:?}:{value}")).collect();
        Order::Stream(item.join(",").into())
    }
}
