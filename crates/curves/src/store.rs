//! The embedded DynamoDB, on a thread of its own: its CPU can be told from that of the code that is measured. It counts the calls
//! and, as DynamoDB would charge them, the request units.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, mpsc};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region, StalledStreamProtectionConfig};
use bytes::Bytes;
use dynoxide::{Database, ImportOptions};
use emulator::Outside;
use emulator::dynamodb::faults::{Answer, Call, Dispatch, Faults, Faulty};
use emulator::dynamodb::{Engine, http_client};
use futures::future::BoxFuture;
use ichido::SystemClock;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use template::{Table, Template};
use testkit::usage::Thread;
use tokio::sync::oneshot;

use crate::{Result, workspace};

/// Items that are imported at once: enough to be quick, few enough to take little memory.
const CHUNK: usize = 20_000;

/// What was asked of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Asked {
    pub(crate) calls: u64,
    /// Read request units.
    pub(crate) reads: f64,
    /// Write request units.
    pub(crate) writes: f64,
}

impl Asked {
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            calls: self.calls - earlier.calls,
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
        }
    }
}

/// An embedded DynamoDB in memory.
pub(crate) struct Store {
    database: Database,
    faulty: Faulty,
    asked: Arc<Mutex<Asked>>,
    thread: Thread,
}

impl Store {
    /// Without tables.
    pub(crate) fn empty() -> Result<Self> {
        let database = Database::memory()?;
        let asked = Arc::new(Mutex::new(Asked::default()));
        let (sender, requests) = mpsc::channel();
        let (engine, counted) = (Engine::new(database.clone()), Arc::clone(&asked));
        let (started, starting) = mpsc::channel();
        std::thread::Builder::new().name("store".to_owned()).spawn(move || {
            let _ = started.send(Thread::current());
            serve(&engine, &requests, &counted);
        })?;
        let thread = starting.recv()?;
        let faulty = Faulty::new(OnThread { requests: sender }, SystemClock, 0);
        Ok(Self { database, faulty, asked, thread })
    }

    /// With the tables of a template, whose path begins at the root of the project. Returns their names by logical id, too.
    pub(crate) fn of_template(path: &str) -> Result<(Self, BTreeMap<String, String>)> {
        let text = std::fs::read_to_string(workspace().join(path)).map_err(|error| format!("{path}: {error}"))?;
        let template = Template::read(&text, &BTreeMap::from([("Environment".to_owned(), json!("local"))]))?;
        let store = Self::empty()?;
        let engine = Engine::new(store.database.clone());
        let mut names = BTreeMap::new();
        for table in template.tables() {
            engine.ensure_table(&table)?;
            names.insert(table.logical_id, table.name);
        }
        Ok((store, names))
    }

    /// Creates a table with one string key.
    pub(crate) fn create_table(&self, name: &str, key: &str) -> Result<()> {
        let create = json!({
            "TableName": name, "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": key, "KeyType": "HASH"}],
        });
        let table = Table { logical_id: name.to_owned(), name: name.to_owned(), create, ttl: Some("ttl".to_owned()) };
        Ok(Engine::new(self.database.clone()).ensure_table(&table)?)
    }

    /// A client as our functions have it (crates/function), without a network.
    pub(crate) fn client(&self) -> Client {
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(crate::prices::REGION))
            .credentials_provider(Credentials::new("local", "local", None, None, "curves"))
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .http_client(http_client(self.faulty.clone(), Outside::new()));
        Client::from_conf(config.build())
    }

    pub(crate) fn faults(&self) -> &Faults {
        self.faulty.faults()
    }

    /// What was asked so far.
    pub(crate) fn asked(&self) -> Asked {
        *telemetry::lock(&self.asked)
    }

    /// The thread that the store runs on.
    pub(crate) fn thread(&self) -> &Thread {
        &self.thread
    }

    /// All items of a small table, each as DynamoDB's JSON.
    pub(crate) fn items(&self, table: &str) -> Result<Vec<String>> {
        let scanned = Engine::new(self.database.clone()).call("Scan", &json!({"TableName": table}))?;
        Ok(scanned["Items"].as_array().into_iter().flatten().map(Value::to_string).collect())
    }

    /// Puts items into a table, quickly. Each is DynamoDB's JSON.
    pub(crate) fn import(&self, table: &str, items: impl Iterator<Item = String>) -> Result<()> {
        let mut items = items.peekable();
        while items.peek().is_some() {
            let chunk = items.by_ref().take(CHUNK).map(|item| serde_json::from_str(&item));
            self.database.import_items(
                table,
                chunk.collect::<std::result::Result<_, _>>()?,
                ImportOptions::default(),
            )?;
        }
        Ok(())
    }
}

type Request = (Call, oneshot::Sender<Answer>);

#[derive(Debug)]
struct OnThread {
    requests: mpsc::Sender<Request>,
}

impl Dispatch for OnThread {
    fn dispatch(&self, call: Call) -> BoxFuture<'static, Answer> {
        let (sender, answer) = oneshot::channel();
        let sent = self.requests.send((call, sender));
        Box::pin(async move {
            let gone =
                || Answer { status: 500, body: Bytes::from_static(b"{\"message\":\"the store's thread has ended\"}") };
            match sent {
                Ok(()) => answer.await.unwrap_or_else(|_| gone()),
                Err(_) => gone(),
            }
        })
    }
}

/// Answers until nobody can ask any more.
fn serve(engine: &Engine, requests: &mpsc::Receiver<Request>, counted: &Mutex<Asked>) {
    for (call, sender) in requests {
        let answer = engine.perform(&call.operation, &charged(&call.body));
        let mut asked = telemetry::lock(counted);
        asked.calls += 1;
        match units(&call, &answer) {
            Units::Read(units) => asked.reads += units,
            Units::Write(units) => asked.writes += units,
        }
        drop(asked);
        let _ = sender.send(answer);
    }
}

/// The request with the wish to be told what it costs.
fn charged(body: &Bytes) -> Bytes {
    match body.strip_suffix(b"}") {
        Some(rest) if rest.len() > 1 => [rest, br#","ReturnConsumedCapacity":"TOTAL"}"#].concat().into(),
        _ => body.clone(),
    }
}

enum Units {
    Read(f64),
    Write(f64),
}

/// What DynamoDB charges for a call. It says so, except of refused writes: those cost as much as if they wrote small items.
fn units(call: &Call, answer: &Answer) -> Units {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Charged {
        consumed_capacity: OneOrMany,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(Capacity),
        Many(Vec<Capacity>),
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Capacity {
        capacity_units: f64,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Transaction {
        transact_items: Vec<IgnoredAny>,
    }
    let units = match serde_json::from_slice(&answer.body) {
        Ok(Charged { consumed_capacity: OneOrMany::One(capacity) }) => capacity.capacity_units,
        Ok(Charged { consumed_capacity: OneOrMany::Many(all) }) => all.iter().map(|one| one.capacity_units).sum(),
        Err(_) => match serde_json::from_slice::<Transaction>(&call.body) {
            Ok(transaction) => 2.0 * transaction.transact_items.len() as f64,
            Err(_) => 1.0,
        },
    };
    match call.operation.as_str() {
        "GetItem" | "BatchGetItem" | "TransactGetItems" | "Query" | "Scan" => Units::Read(units),
        _ => Units::Write(units),
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;

    use super::*;

    #[tokio::test]
    async fn calls_and_request_units_are_counted_as_dynamodb_charges_them() {
        let store = Store::empty().unwrap();
        store.create_table("things", "id").unwrap();
        let client = store.client();
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let put = || client.put_item().table_name("things").item("id", text("a"));
        put().item("text", text(&"x".repeat(1_500))).send().await.unwrap();
        assert_eq!(store.asked(), Asked { calls: 1, reads: 0.0, writes: 2.0 });
        put().condition_expression("attribute_not_exists(id)").send().await.unwrap_err();
        assert_eq!(store.asked(), Asked { calls: 2, reads: 0.0, writes: 3.0 });
        client.get_item().table_name("things").key("id", text("a")).consistent_read(true).send().await.unwrap();
        client.scan().table_name("things").send().await.unwrap();
        assert_eq!(store.asked(), Asked { calls: 4, reads: 1.5, writes: 3.0 });
    }

    #[test]
    fn imported_items_are_there() {
        let store = Store::empty().unwrap();
        store.create_table("things", "id").unwrap();
        let item = |n: usize| format!(r#"{{"id":{{"S":"{n}"}}}}"#);
        store.import("things", (0..CHUNK / 200 + 1).map(item)).unwrap();
        assert_eq!(store.items("things").unwrap().len(), CHUNK / 200 + 1);
        assert_eq!(store.asked(), Asked::default(), "nothing was asked by the code that is measured");
    }
}
