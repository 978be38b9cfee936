//! The embedded store with the delays and the conflicts of AWS.
//!
//! A transaction holds its items for as long as it takes. Another write to one of them meanwhile is cancelled with
//! `TransactionConflict`. The engine itself never reports such a conflict.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region, SharedHttpClient};
use emulator::dynamodb::{Engine, http_client};
use futures::future::BoxFuture;
use ichido::SystemClock;
use serde_json::{Value, json};
use testkit::Outside;
use testkit::faults::{Answer, Call, Dispatch, Faulty};

pub(crate) const TABLE: &str = "tokens-ledger";
pub(crate) const READ: Duration = Duration::from_millis(3);
pub(crate) const WRITE: Duration = Duration::from_millis(4);
pub(crate) const TRANSACTION: Duration = Duration::from_millis(8);

#[derive(Clone, Debug)]
pub(crate) struct Aws {
    engine: Engine,
    held: Arc<Mutex<HashSet<String>>>,
    calls: Arc<AtomicU64>,
    conflicts: Arc<AtomicU64>,
}

impl Aws {
    pub(crate) fn new() -> Self {
        let engine = Engine::new(dynoxide::Database::memory().expect("a database in memory"));
        let table = json!({
            "TableName": TABLE, "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": (["PK", "SK", "GSI1PK", "GSI1SK"]).map(|name| json!({ "AttributeName": name, "AttributeType": "S" })),
            "KeySchema": [{ "AttributeName": "PK", "KeyType": "HASH" }, { "AttributeName": "SK", "KeyType": "RANGE" }],
            "GlobalSecondaryIndexes": [{
                "IndexName": "GSI1", "Projection": { "ProjectionType": "ALL" },
                "KeySchema": [{ "AttributeName": "GSI1PK", "KeyType": "HASH" }, { "AttributeName": "GSI1SK", "KeyType": "RANGE" }],
            }],
        });
        assert_eq!(engine.perform("CreateTable", table.to_string().as_bytes()).status, 200);
        Aws { engine, held: Arc::default(), calls: Arc::default(), conflicts: Arc::default() }
    }

    /// A client at AWS's speed.
    pub(crate) fn client(&self) -> aws_sdk_dynamodb::Client {
        client_over(http_client(Faulty::new(self.clone(), SystemClock, 0), Outside::new()))
    }

    /// A client without delays, to set things up.
    pub(crate) fn quick_client(&self) -> aws_sdk_dynamodb::Client {
        client_over(http_client(Faulty::new(self.engine.clone(), SystemClock, 0), Outside::new()))
    }

    pub(crate) fn reset(&self) {
        self.calls.store(0, Ordering::Relaxed);
        self.conflicts.store(0, Ordering::Relaxed);
    }

    /// Calls and conflicts.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.calls.load(Ordering::Relaxed), self.conflicts.load(Ordering::Relaxed))
    }

    /// Takes the items, or says which of them somebody has.
    fn hold(&self, keys: &[String]) -> Result<(), Vec<bool>> {
        let mut held = telemetry::lock(&self.held);
        let taken: Vec<bool> = keys.iter().map(|key| held.contains(key)).collect();
        if taken.contains(&true) {
            self.conflicts.fetch_add(1, Ordering::Relaxed);
            return Err(taken);
        }
        held.extend(keys.iter().cloned());
        Ok(())
    }

    fn release(&self, keys: &[String]) {
        let mut held = telemetry::lock(&self.held);
        for key in keys {
            held.remove(key);
        }
    }
}

impl Dispatch for Aws {
    fn dispatch(&self, call: Call) -> BoxFuture<'static, Answer> {
        let aws = self.clone();
        aws.calls.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let request: Value = serde_json::from_slice(&call.body).unwrap_or_default();
            let delay = match call.operation.as_str() {
                "TransactWriteItems" => TRANSACTION,
                "PutItem" | "UpdateItem" | "DeleteItem" => WRITE,
                _ => READ,
            };
            let keys = keys(&call.operation, &request);
            match aws.hold(&keys) {
                Ok(()) => {
                    tokio::time::sleep(delay).await;
                    let answer = aws.engine.perform(&call.operation, &call.body);
                    aws.release(&keys);
                    answer
                }
                Err(taken) => {
                    tokio::time::sleep(delay / 2).await;
                    conflict(&taken)
                }
            }
        })
    }
}

/// The items that a call writes.
fn keys(operation: &str, request: &Value) -> Vec<String> {
    let of = |item: &Value| format!("{}|{}", item["PK"]["S"], item["SK"]["S"]);
    match operation {
        "TransactWriteItems" => {
            let items = request["TransactItems"].as_array().into_iter().flatten();
            items
                .map(|item| of(if item["Put"].is_object() { &item["Put"]["Item"] } else { &item["Update"]["Key"] }))
                .collect()
        }
        "UpdateItem" => vec![of(&request["Key"])],
        "PutItem" => vec![of(&request["Item"])],
        _ => Vec::new(),
    }
}

fn conflict(taken: &[bool]) -> Answer {
    let reasons: Vec<Value> =
        taken.iter().map(|taken| json!({ "Code": if *taken { "TransactionConflict" } else { "None" } })).collect();
    let body = json!({
        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "Message": "Transaction cancelled", "CancellationReasons": reasons,
    });
    Answer { status: 400, body: body.to_string().into() }
}

/// A store that agrees to everything at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instant;

impl Dispatch for Instant {
    fn dispatch(&self, _: Call) -> BoxFuture<'static, Answer> {
        Box::pin(async { Answer { status: 200, body: "{}".into() } })
    }
}

pub(crate) fn client_over(http: SharedHttpClient) -> aws_sdk_dynamodb::Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("ap-northeast-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "bench"))
        .http_client(http);
    aws_sdk_dynamodb::Client::from_conf(config.build())
}
