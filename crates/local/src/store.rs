//! The store: an embedded DynamoDB with the templates' tables, a way in for handlers with faults in it, and one for tools without.

use std::time::Duration;

use bytes::Bytes;
use dynoxide::Database;
use function::BoxFuture;
use serde_json::{Value, json};
use template::Table;
use testkit::engine::Engine;
use testkit::faults::{Answer, Call, Dispatch, Faulty, NoFollower};

use crate::data::Data;

/// How often expired items are removed. DynamoDB takes its time too.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Why the store cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the store cannot be opened: {0}")]
    Open(String),
    #[error("the table {table} cannot be made: {reason}")]
    Table { table: String, reason: String },
}

/// The embedded DynamoDB. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Store {
    engine: Engine,
    faulty: Faulty,
}

impl Store {
    /// Opens the database of the data directory, or one that forgets.
    pub fn open(data: &Data) -> Result<Self, Error> {
        let opened = match data.file("dynamodb.db") {
            Some(path) => Database::new(&path.to_string_lossy()),
            None => Database::memory(),
        };
        let engine = Engine::new(opened.map_err(|error| Error::Open(error.to_string()))?);
        let faulty = Faulty::new(Elsewhere(engine.clone()), ichido::SystemClock, fastrand::u64(..));
        Ok(Self { engine, faulty })
    }

    /// Makes a table as its template says, unless it is there. One that is there keeps its keys: they cannot change on AWS either.
    pub fn make(&self, table: &Table) -> Result<(), Error> {
        let failed = |answer: &Answer| Error::Table {
            table: table.name.clone(),
            reason: String::from_utf8_lossy(&answer.body).into_owned(),
        };
        let there = self.perform("DescribeTable", &json!({"TableName": table.name}));
        if there.status != 200 {
            let made = self.perform("CreateTable", &table.create);
            if made.status != 200 {
                return Err(failed(&made));
            }
        }
        if let Some(attribute) = &table.ttl {
            let now = self.perform("DescribeTimeToLive", &json!({"TableName": table.name}));
            let now: Value = serde_json::from_slice(&now.body).unwrap_or_default();
            if now["TimeToLiveDescription"]["AttributeName"] != attribute.as_str() {
                let specification = json!({"AttributeName": attribute, "Enabled": true});
                let request = json!({"TableName": table.name, "TimeToLiveSpecification": specification});
                let set = self.perform("UpdateTimeToLive", &request);
                if set.status != 200 {
                    return Err(failed(&set));
                }
            }
        }
        Ok(())
    }

    fn perform(&self, operation: &str, request: &Value) -> Answer {
        self.engine.perform(operation, request.to_string().as_bytes())
    }

    /// One operation for a tool: no faults.
    pub async fn call(&self, operation: String, body: Bytes) -> Answer {
        Elsewhere(self.engine.clone()).dispatch(Call { operation, body }).await
    }

    /// The way in for handlers, and what goes wrong on it.
    pub fn faulty(&self) -> &Faulty {
        &self.faulty
    }

    /// Removes expired items now and then, for ever.
    pub async fn sweep(self) {
        loop {
            tokio::time::sleep(SWEEP_EVERY).await;
            self.sweep_once().await;
        }
    }

    /// Removes what is expired; answers how many items that were.
    async fn sweep_once(&self) -> usize {
        let engine = self.engine.clone();
        let swept = tokio::task::spawn_blocking(move || engine.database().sweep_ttl()).await;
        match swept {
            Ok(Ok(count)) => count,
            Ok(Err(error)) => {
                tracing::warn!(error = %error, "expired items could not be removed");
                0
            }
            Err(_) => 0,
        }
    }
}

/// The engine on a thread for blocking work: SQLite waits for the disk, and requests should not wait for SQLite.
#[derive(Clone, Debug)]
struct Elsewhere(Engine);

impl Dispatch for Elsewhere {
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
            assert_eq!(store.perform("PutItem", &json!({"TableName": "things", "Item": item})).status, 200);
        }
        assert_eq!(store.sweep_once().await, 1);
        let left: Value =
            serde_json::from_slice(&store.perform("Scan", &json!({"TableName": "things"})).body).expect("JSON");
        assert_eq!((&left["Count"], &left["Items"][0]["id"]["S"]), (&json!(1), &json!("fresh")));
    }

    #[test]
    fn a_table_that_is_there_is_left_as_it_is_and_gets_its_ttl() {
        let directory = tempfile::tempdir().expect("a directory");
        {
            let store = Store::open(&Data::open(directory.path()).expect("data")).expect("a store");
            store.make(&table(None)).expect("a table");
            let item = json!({"TableName": "things", "Item": {"id": {"S": "kept"}}});
            assert_eq!(store.perform("PutItem", &item).status, 200);
        }
        let store = Store::open(&Data::open(directory.path()).expect("data")).expect("a store");
        store.make(&table(Some("ttl"))).expect("the same table");
        let left: Value =
            serde_json::from_slice(&store.perform("Scan", &json!({"TableName": "things"})).body).expect("JSON");
        assert_eq!(left["Count"], 1);
        let ttl = store.perform("DescribeTimeToLive", &json!({"TableName": "things"}));
        assert!(String::from_utf8_lossy(&ttl.body).contains("\"ttl\""));
    }
}
