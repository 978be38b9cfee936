//! The embedded DynamoDB, on a thread of its own: its CPU can be told from that of the code that is measured. It counts the calls
//! and, as DynamoDB would charge them, the request units.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, mpsc};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region, StalledStreamProtectionConfig};
use bytes::Bytes;
use dynoxide::types::{item_size, write_capacity_units};
use dynoxide::{Database, ImportOptions};
use emulator::Outside;
use emulator::dynamodb::faults::{Answer, Call, Dispatch, Faults, Faulty};
use emulator::dynamodb::{Engine, http_client};
use futures::future::BoxFuture;
use ichido::SystemClock;
use serde::Deserialize;
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
        // What it costs is found out after the answer, so that it takes none of the caller's time. Whoever asks how much was
        // asked waits for it.
        let mut asked = telemetry::lock(counted);
        let _ = sender.send(answer.clone());
        asked.calls += 1;
        match units(engine, &call, &answer) {
            Units::Read(units) => asked.reads += units,
            Units::Write(units) => asked.writes += units,
        }
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

/// What DynamoDB charges for a call. It says so, except of refused writes.
fn units(engine: &Engine, call: &Call, answer: &Answer) -> Units {
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
    let units = match serde_json::from_slice(&answer.body) {
        Ok(Charged { consumed_capacity: OneOrMany::One(capacity) }) => capacity.capacity_units,
        Ok(Charged { consumed_capacity: OneOrMany::Many(all) }) => all.iter().map(|one| one.capacity_units).sum(),
        Err(_) => refused(engine, call),
    };
    match call.operation.as_str() {
        "GetItem" | "BatchGetItem" | "TransactGetItems" | "Query" | "Scan" => Units::Read(units),
        _ => Units::Write(units),
    }
}

/// What a refused write costs. DynamoDB charges for the larger of the stored item and the one that was to be written; of an
/// update, only the stored one is known. In a transaction, each item costs twice as much.
fn refused(engine: &Engine, call: &Call) -> f64 {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Transaction {
        transact_items: Vec<BTreeMap<String, Write>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Write {
        table_name: String,
        /// The item of a put.
        item: Option<Value>,
        /// The key of everything else.
        key: Option<Value>,
    }
    let one = |Write { table_name, item, key }: &Write| {
        let key = key.clone().or_else(|| key_of(engine, table_name, item.as_ref()?));
        let stored = key.and_then(|key| {
            engine.call("GetItem", &json!({"TableName": table_name, "Key": key})).ok()?.get("Item").cloned()
        });
        let larger = stored.as_ref().into_iter().chain(item).map(size).max();
        write_capacity_units(larger.unwrap_or_default())
    };
    match serde_json::from_slice(&call.body) {
        Ok(Transaction { transact_items }) => {
            2.0 * transact_items.iter().flat_map(BTreeMap::values).map(one).sum::<f64>()
        }
        Err(_) => serde_json::from_slice(&call.body).map_or(1.0, |write| one(&write)),
    }
}

/// The key of an item of a table.
fn key_of(engine: &Engine, table: &str, item: &Value) -> Option<Value> {
    let described = engine.call("DescribeTable", &json!({"TableName": table})).ok()?;
    let names = described["Table"]["KeySchema"].as_array()?.iter().filter_map(|key| key["AttributeName"].as_str());
    Some(names.map(|name| (name.to_owned(), item[name].clone())).collect())
}

/// The bytes of an item, as DynamoDB counts them.
fn size(item: &Value) -> usize {
    serde_json::from_value(item.clone()).map_or(0, |item| item_size(&item))
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
    use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, Put, TransactWriteItem};

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
        client.get_item().table_name("things").key("id", text("a")).consistent_read(true).send().await.unwrap();
        client.scan().table_name("things").send().await.unwrap();
        assert_eq!(store.asked(), Asked { calls: 3, reads: 1.5, writes: 2.0 });
    }

    #[tokio::test]
    async fn a_refused_write_costs_as_much_as_the_larger_of_the_stored_item_and_its_own() {
        let store = Store::empty().unwrap();
        store.create_table("things", "id").unwrap();
        let client = store.client();
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let put = |id: &str, bytes: usize| {
            let put = client.put_item().table_name("things").item("id", text(id));
            put.item("text", text(&"x".repeat(bytes)))
        };
        put("small", 1).send().await.unwrap();
        put("large", 1_500).send().await.unwrap();
        let refused = async |put: PutItemFluentBuilder| {
            let before = store.asked();
            put.condition_expression("attribute_not_exists(id)").send().await.unwrap_err();
            store.asked().since(before)
        };
        let writes = |writes: f64| Asked { calls: 1, reads: 0.0, writes };
        assert_eq!(refused(put("small", 2)).await, writes(1.0));
        assert_eq!(refused(put("large", 2)).await, writes(2.0), "the stored item is larger");
        assert_eq!(refused(put("small", 2_500)).await, writes(3.0), "its own item is larger");

        let before = store.asked();
        let update = client.update_item().table_name("things").key("id", text("large")).update_expression("SET n = :n");
        let update = update.expression_attribute_values(":n", text("1")).condition_expression("attribute_exists(n)");
        update.send().await.unwrap_err();
        assert_eq!(store.asked().since(before), writes(2.0));

        let before = store.asked();
        let check = ConditionCheck::builder().table_name("things").key("id", text("large"));
        let check = check.condition_expression("attribute_not_exists(id)").build().unwrap();
        let new = Put::builder().table_name("things").item("id", text("new")).build().unwrap();
        let items = [
            TransactWriteItem::builder().condition_check(check).build(),
            TransactWriteItem::builder().put(new).build(),
        ];
        client.transact_write_items().set_transact_items(Some(items.into())).send().await.unwrap_err();
        assert_eq!(store.asked().since(before), writes(6.0), "two items, of two units and one, each charged twice");
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
