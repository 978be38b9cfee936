//! An embedded DynamoDB per test, with the tables of given templates. It starts within milliseconds.
//!
//! The client is the real aws-sdk-dynamodb. Only its HTTP connection is replaced: requests go to the engine without a
//! socket, through [`Faulty`], which makes them fail, and [`Outside`], which stops runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region, SharedHttpClient};
use dynoxide::Database;
use emulator::Outside;
use emulator::dynamodb::{Engine, http_client};
use ichido::{Clock as _, Timestamp};
use serde_json::{Value, json};
use template::{Table, Template};

use crate::ManualClock;
use crate::faults::{Calls, Faults, Faulty};

/// An embedded DynamoDB. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Dynamo {
    engine: Engine,
    /// The engine's own clock, by which its sweep decides. Only [`Dynamo::sweep`] moves it.
    engine_clock: dynoxide::storage_backend::ManualClock,
    faulty: Faulty,
    clock: ManualClock,
    outside: Outside,
    tables: BTreeMap<String, String>,
}

impl Dynamo {
    /// A database with the tables of these CloudFormation templates. Paths are relative to the workspace.
    ///
    /// # Panics
    /// If a template cannot be read, or one of its tables cannot be created.
    #[expect(
        clippy::unused_async,
        reason = "so that starting may wait for something later without changing every caller"
    )]
    pub async fn start(templates: &[impl AsRef<Path>]) -> Self {
        let mut dynamo = Self::empty();
        for path in templates {
            dynamo.add_template(path.as_ref());
        }
        dynamo
    }

    /// A database without tables.
    ///
    /// # Panics
    /// If SQLite cannot open a database in memory.
    #[must_use]
    pub fn empty() -> Self {
        let clock = ManualClock::new();
        let engine_clock = dynoxide::storage_backend::ManualClock::new(clock.now().as_secs());
        let database = Database::memory_with_clock(engine_clock.arc()).expect("a database in memory");
        let engine = Engine::new(database);
        let faulty = Faulty::new(engine.clone(), clock.clone(), 0);
        Self { engine, engine_clock, faulty, clock, outside: Outside::new(), tables: BTreeMap::new() }
    }

    /// Reports every call to `outside`, so that a run can be stopped there.
    #[must_use]
    pub fn with_outside(mut self, outside: Outside) -> Self {
        self.outside = outside;
        self
    }

    /// Delays, backoff and timeouts use the time of `clock`.
    #[must_use]
    pub fn with_clock(mut self, clock: &ManualClock) -> Self {
        self.faulty = Faulty::new(self.engine.clone(), clock.clone(), 0);
        self.clock = clock.clone();
        self
    }

    /// The clock that delays, backoff and timeouts use.
    #[must_use]
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// Creates the table of a `CreateTable` request in DynamoDB's JSON. Its logical id is its name.
    ///
    /// # Panics
    /// If DynamoDB refuses it.
    pub fn create_table(&mut self, create: Value, ttl: Option<&str>) {
        let name = create["TableName"].as_str().expect("a TableName").to_owned();
        let ttl = ttl.map(str::to_owned);
        self.add_table(Table { logical_id: name.clone(), name, create, ttl });
    }

    /// Creates a table with string keys, for tests that need no template.
    ///
    /// # Panics
    /// If DynamoDB refuses it.
    pub fn simple_table(&mut self, name: &str, partition_key: &str, sort_key: Option<&str>, ttl: &str) {
        let keys = [Some((partition_key, "HASH")), sort_key.map(|name| (name, "RANGE"))];
        let keys: Vec<_> = keys.into_iter().flatten().collect();
        let create = json!({
            "TableName": name,
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions":
                keys.iter().map(|(name, _)| json!({"AttributeName": name, "AttributeType": "S"})).collect::<Vec<_>>(),
            "KeySchema":
                keys.iter().map(|(name, kind)| json!({"AttributeName": name, "KeyType": kind})).collect::<Vec<_>>(),
        });
        self.create_table(create, Some(ttl));
    }

    fn add_template(&mut self, path: &Path) {
        let file = in_workspace(path);
        let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let parameters = BTreeMap::from([("Environment".to_owned(), json!("local"))]);
        let template = Template::read(&text, &parameters).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        for table in template.tables() {
            self.add_table(table);
        }
    }

    fn add_table(&mut self, table: Table) {
        self.engine.ensure_table(&table).unwrap_or_else(|error| panic!("{}: {error}", table.name));
        self.tables.insert(table.logical_id, table.name);
    }

    /// The name of the table that the templates call `logical_id`.
    ///
    /// # Panics
    /// If there is no such table.
    #[must_use]
    pub fn table(&self, logical_id: &str) -> &str {
        let known = || self.tables.keys().cloned().collect::<Vec<_>>().join(", ");
        self.tables.get(logical_id).unwrap_or_else(|| panic!("no table {logical_id:?}; there are: {}", known()))
    }

    /// A client with the SDK's defaults (three attempts) that uses the time of [`clock`](Self::clock).
    #[must_use]
    pub fn client(&self) -> Client {
        self.client_with(|config| config)
    }

    /// A client that makes one attempt.
    #[must_use]
    pub fn client_without_retries(&self) -> Client {
        self.client_with(|config| config.retry_config(RetryConfig::disabled()))
    }

    /// A client with further configuration.
    pub fn client_with(
        &self,
        configure: impl FnOnce(aws_sdk_dynamodb::config::Builder) -> aws_sdk_dynamodb::config::Builder,
    ) -> Client {
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("ap-northeast-1"))
            .credentials_provider(Credentials::new("local", "local", None, None, "testkit"))
            .sleep_impl(self.clock.clone())
            .http_client(self.http_client());
        Client::from_conf(configure(config).build())
    }

    /// The HTTP client for any DynamoDB client that should talk to this database.
    #[must_use]
    pub fn http_client(&self) -> SharedHttpClient {
        http_client(self.faulty.clone(), self.outside.clone())
    }

    /// The faults of this database.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        self.faulty.faults()
    }

    /// The calls so far.
    #[must_use]
    pub fn calls(&self) -> Calls {
        self.faults().calls()
    }

    /// The calls so far; the count starts again at zero.
    pub fn reset_calls(&self) -> Calls {
        self.faults().reset_calls()
    }

    /// Deletes the items that are expired at `now`, as DynamoDB does hours or days later. Returns how many there were.
    ///
    /// # Panics
    /// If the engine fails.
    pub fn sweep(&self, now: Timestamp) -> usize {
        // The engine deletes what expired before its current second. This deletes what expires in that second too.
        self.engine_clock.set(now.as_secs() + 1);
        self.engine.sweep().expect("a sweep")
    }

    /// All items of a table in DynamoDB's JSON. Faults do not apply, and the call is not counted.
    ///
    /// # Panics
    /// If there is no such table.
    #[must_use]
    pub fn items(&self, table_name: &str) -> Vec<Value> {
        let mut items = Vec::new();
        let mut request = json!({"TableName": table_name, "ConsistentRead": true});
        loop {
            let mut page = self.must("Scan", &request);
            if let Some(Value::Array(found)) = page.get_mut("Items").map(Value::take) {
                items.extend(found);
            }
            match page.get_mut("LastEvaluatedKey").map(Value::take) {
                Some(last @ Value::Object(_)) => request["ExclusiveStartKey"] = last,
                _ => return items,
            }
        }
    }

    /// Performs one operation in DynamoDB's JSON. Faults do not apply, and the call is not counted.
    ///
    /// # Panics
    /// If DynamoDB refuses it.
    pub fn must(&self, operation: &str, request: &Value) -> Value {
        self.engine.call(operation, request).unwrap_or_else(|error| panic!("{error}, asked {request}"))
    }
}

/// A path of the workspace.
fn in_workspace(path: &Path) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}
