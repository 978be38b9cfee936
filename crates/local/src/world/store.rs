//! The store: an embedded DynamoDB with the tables of the templates. Handlers reach it through faults, tools directly.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use emulator::dynamodb::faults::{Answer, Call, Dispatch, Faulty, NoFollower};
use emulator::dynamodb::{self, Engine};
use function::BoxFuture;
use template::Table;

use crate::platform::data::Data;

/// How often expired items are removed. DynamoDB also removes them late.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the database cannot be opened: {0}; choose another directory with --data, or start with --memory")]
    Open(dynamodb::Error),
    #[error("the table {table} cannot be created: {source}")]
    Table { table: String, source: dynamodb::Error },
}

/// The embedded DynamoDB. All clones are the same database.
#[derive(Clone, Debug)]
pub struct Store {
    engine: Engine,
    faulty: Faulty,
    /// The tables of the templates, by name.
    declared: Arc<Mutex<BTreeSet<String>>>,
}

impl Store {
    /// Opens the database of the data directory, or one in memory.
    pub fn open(data: &Data) -> Result<Self, Error> {
        let opened = match data.file("dynamodb.db") {
            Some(path) => Engine::open(&path),
            None => Engine::in_memory(),
        };
        let engine = opened.map_err(Error::Open)?;
        let faulty = Faulty::new(OnBlockingThread(engine.clone()), ichido::SystemClock, fastrand::u64(..));
        Ok(Self { engine, faulty, declared: Arc::default() })
    }

    /// Creates a table as its template says, unless it exists. An existing table keeps its keys, which cannot change on AWS
    /// either.
    pub fn make(&self, table: &Table) -> Result<(), Error> {
        telemetry::lock(&self.declared).insert(table.name.clone());
        self.engine.ensure_table(table).map_err(|source| Error::Table { table: table.name.clone(), source })
    }

    /// Whether a template declares this table.
    pub(crate) fn declares(&self, table: &str) -> bool {
        telemetry::lock(&self.declared).contains(table)
    }

    /// Performs one operation for a tool, without faults.
    pub async fn call(&self, operation: String, body: Bytes) -> Answer {
        OnBlockingThread(self.engine.clone()).dispatch(Call { operation, body }).await
    }

    /// The store as handlers reach it: with faults.
    pub fn faulty(&self) -> &Faulty {
        &self.faulty
    }

    /// Removes expired items every minute; never returns.
    pub async fn sweep(self) {
        loop {
            tokio::time::sleep(SWEEP_EVERY).await;
            self.sweep_once().await;
        }
    }

    /// Removes expired items and returns how many there were.
    async fn sweep_once(&self) -> usize {
        let engine = self.engine.clone();
        let swept = tokio::task::spawn_blocking(move || engine.sweep()).await;
        match swept {
            Ok(Ok(count)) => count,
            Ok(Err(error)) => {
                tracing::warn!(error = %error, "could not remove expired items from the store; trying again in a minute");
                0
            }
            Err(_) => 0,
        }
    }
}

/// Runs the engine on a thread for blocking work: SQLite waits for the disk, and other requests should not wait for SQLite.
#[derive(Clone, Debug)]
struct OnBlockingThread(Engine);

impl Dispatch for OnBlockingThread {
    fn dispatch(&self, call: Call) -> BoxFuture<'static, Answer> {
        let engine = self.0.clone();
        Box::pin(async move {
            let performed = tokio::task::spawn_blocking(move || engine.perform(&call.operation, &call.body)).await;
            performed.unwrap_or_else(|_| Answer {
                status: 500,
                body: Bytes::from_static(br#"{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError"}"#),
            })
        })
    }

    fn follower(&self) -> Result<Box<dyn Dispatch>, NoFollower> {
        self.0.follower()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn table(ttl: Option<&str>) -> Table {
        Table {
            logical_id: "T".into(),
            name: "things".into(),
            create: json!({
                "TableName": "things",
                "BillingMode": "PAY_PER_REQUEST",
                "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
                "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
            }),
            ttl: ttl.map(str::to_owned),
        }
    }

    #[tokio::test]
    async fn expired_items_are_removed_and_others_are_not() {
        let store = Store::open(&Data::in_memory().expect("data")).expect("a store");
        store.make(&table(Some("ttl"))).expect("a table");
        for (id, ttl) in [("expired", "1"), ("fresh", "99999999999")] {
            let item = json!({"id": {"S": id}, "ttl": {"N": ttl}});
            store.engine.call("PutItem", &json!({"TableName": "things", "Item": item})).expect("written");
        }
        assert_eq!(store.sweep_once().await, 1);
        let left = store.engine.call("Scan", &json!({"TableName": "things"})).expect("a scan");
        assert_eq!((&left["Count"], &left["Items"][0]["id"]["S"]), (&json!(1), &json!("fresh")));
    }

    #[test]
    fn a_table_that_is_there_is_left_as_it_is_and_gets_its_ttl() {
        let directory = tempfile::tempdir().expect("a directory");
        {
            let store = Store::open(&Data::open(directory.path()).expect("data")).expect("a store");
            store.make(&table(None)).expect("a table");
            let item = json!({"TableName": "things", "Item": {"id": {"S": "kept"}}});
            store.engine.call("PutItem", &item).expect("written");
        }
        let store = Store::open(&Data::open(directory.path()).expect("data")).expect("a store");
        store.make(&table(Some("ttl"))).expect("the same table");
        let left = store.engine.call("Scan", &json!({"TableName": "things"})).expect("a scan");
        assert_eq!(left["Count"], 1);
        let ttl = store.engine.call("DescribeTimeToLive", &json!({"TableName": "things"})).expect("an answer");
        assert_eq!(ttl["TimeToLiveDescription"]["AttributeName"], "ttl");
    }
}
