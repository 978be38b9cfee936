//! A DynamoDB that is held to its limits.
//!
//! [`Throttled`] stands between the faults and the engine, and is itself a [`Dispatch`]. A call takes its units from the partition of each
//! item, from the table, from the indexes that the item is in and from their partitions. If any of them is short, it is refused in
//! DynamoDB's words and not performed. A call takes time ([`Latency`]), also if it is refused, and a transaction has its items to itself
//! for that time.
//!
//! Units are counted as DynamoDB documents them: one per KB written, one per 4 KB read consistently, half of it otherwise, twice as much in
//! a transaction. A write is counted by the larger of the stored item and the new one, also if its condition fails. What differs:
//! - An update is counted by the stored item or by what its request carries, whichever is larger. DynamoDB counts the item before or
//!   after it.
//! - An update takes no units of an index. A put does.
//! - A read is refused if its key has no unit left, and pays for the size of its answer afterwards. DynamoDB counts what it read, before
//!   a filter or a projection makes the answer smaller.
//! - A batch is refused as a whole. DynamoDB returns the part that it did not process.
//! - A transactional read meets a running transaction. DynamoDB also cancels it for a single write that runs at the same time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use ichido::Clock;
use serde_json::{Map, Value, json};
use template::Table;

use super::{Exceeded, Limit, Limits, aws};
use crate::dynamodb::faults::{Answer, Call, Dispatch, NoFollower};

const WRITE_UNIT: usize = 1_024;
const READ_UNIT: usize = 4_096;
/// DynamoDB's overhead per list or map, and per member of one.
const NESTED: usize = 3;
const MEMBER: usize = 1;

/// How long calls take, on average: each takes between half of it and half as much again, by chance.
#[derive(Debug, Clone, Copy)]
pub struct Latency {
    pub read: Duration,
    pub write: Duration,
    /// A transaction has its items to itself for so long.
    pub transaction: Duration,
}

/// A DynamoDB with limits. Clones are the same.
#[derive(Clone)]
pub struct Throttled(Arc<Inner>);

struct Inner {
    engine: Box<dyn Dispatch>,
    limits: Limits,
    tables: BTreeMap<String, Keys>,
    latency: Latency,
    clock: Arc<dyn Clock>,
    random: Mutex<fastrand::Rng>,
}

/// The names of a table's keys.
#[derive(Debug, Clone)]
struct Keys {
    partition: String,
    sort: Option<String>,
    /// The indexes by name: the attribute that is their partition key.
    indexes: BTreeMap<String, String>,
}

impl fmt::Debug for Throttled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttled").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}

impl Throttled {
    /// Holds `engine`, which has these tables, to `limits`. `seed` decides how long each call takes.
    pub fn new(
        engine: impl Dispatch,
        tables: &[Table],
        limits: Limits,
        latency: Latency,
        clock: impl Clock,
        seed: u64,
    ) -> Self {
        let tables = tables.iter().map(|table| (table.name.clone(), Keys::of(&table.create))).collect();
        let random = Mutex::new(fastrand::Rng::with_seed(seed));
        Self(Arc::new(Inner { engine: Box::new(engine), limits, tables, latency, clock: Arc::new(clock), random }))
    }
}

impl Dispatch for Throttled {
    fn dispatch(&self, call: Call) -> BoxFuture<'static, Answer> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.call(call).await })
    }

    fn follower(&self) -> Result<Box<dyn Dispatch>, NoFollower> {
        self.0.engine.follower()
    }
}

/// What a call does to one item, or to all items of one partition.
#[derive(Debug, Clone, PartialEq)]
struct Access {
    /// The table, or the index that is read: `table/index`. Each has units of its own.
    place: String,
    /// The value of the partition key; `None` for a scan.
    partition: Option<String>,
    /// The whole key; `None` for a query or a scan.
    item: Option<String>,
    /// Units of the place.
    units: f64,
    /// The indexes that are written to.
    indexes: Vec<InIndex>,
    is_write: bool,
    /// The key of what is written.
    key: Value,
    bytes: usize,
}

/// What a write does to one index.
#[derive(Debug, Clone, PartialEq)]
struct InIndex {
    /// `table/index`
    place: String,
    partition: String,
    units: f64,
}

impl Inner {
    async fn call(&self, call: Call) -> Answer {
        let request: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        let mut accesses = self.accesses(&call.operation, &request);
        let is_transaction = call.operation.starts_with("Transact");
        if let Err(answer) = self.check_sizes(&accesses, is_transaction) {
            return answer;
        }
        self.meter_stored(&mut accesses, if is_transaction { 2.0 } else { 1.0 }).await;
        let latency = self.latency(&accesses, is_transaction);
        let mut held = Vec::new();
        let mut reasons = vec![None; accesses.len()];
        for (access, reason) in accesses.iter().zip(&mut reasons) {
            let Some(item) = &access.item else { continue };
            let limit = &aws::DYNAMODB_TRANSACTION_CONFLICT;
            if call.operation == "TransactWriteItems" {
                match self.limits.enter(limit, item) {
                    Ok(permit) => held.push(permit),
                    Err(_) => *reason = Some(limit),
                }
            } else if (access.is_write || is_transaction) && self.limits.under_way(limit, item) > 0 {
                self.limits.refuse(&Exceeded { limit, of: item.clone() }, self.clock.now());
                *reason = Some(limit);
            }
        }
        if reasons.iter().all(Option::is_none) {
            reasons = self.take(&accesses);
        }
        if let Some(limit) = reasons.iter().flatten().next() {
            drop(held);
            self.clock.sleep(latency).await;
            return if is_transaction { canceled(&reasons) } else { refusal(limit) };
        }
        self.clock.sleep(latency / 2).await;
        let answer = self.engine.dispatch(call).await;
        self.charge_reads(&accesses, &answer);
        self.clock.sleep(latency / 2).await;
        drop(held);
        answer
    }

    fn check_sizes(&self, accesses: &[Access], is_transaction: bool) -> Result<(), Answer> {
        let place = accesses.first().map_or("", |access| access.place.as_str());
        let check = |limit, size| self.limits.fits(limit, place, size).map_err(|exceeded| refusal(exceeded.limit));
        for access in accesses {
            check(&aws::DYNAMODB_ITEM_SIZE, access.bytes)?;
        }
        if is_transaction {
            check(&aws::DYNAMODB_TRANSACTION_ACTIONS, accesses.len())?;
            check(&aws::DYNAMODB_TRANSACTION_SIZE, accesses.iter().map(|access| access.bytes).sum())?;
        }
        Ok(())
    }

    /// Counts each write by the stored item, if that is larger than the new one. It costs as much if the condition fails.
    async fn meter_stored(&self, accesses: &mut [Access], factor: f64) {
        for access in accesses.iter_mut().filter(|access| access.is_write) {
            let get = json!({"TableName": access.place, "Key": access.key, "ConsistentRead": true});
            let call = Call { operation: "GetItem".to_owned(), body: Bytes::from(get.to_string()) };
            let answer: Value = serde_json::from_slice(&self.engine.dispatch(call).await.body).unwrap_or_default();
            let stored = answer["Item"].as_object().map_or(0, item_size);
            access.units = access.units.max(write_units(stored) * factor);
        }
    }

    /// Takes the units of all accesses, or says which of them are refused, and by which limit.
    fn take(&self, accesses: &[Access]) -> Vec<Option<&'static Limit>> {
        let wanted: Vec<_> = accesses.iter().flat_map(Access::takes).collect();
        let Err(short) = self.limits.take_all(&wanted) else { return vec![None; accesses.len()] };
        let by = |access: &Access| {
            let takes = access.takes();
            let is_short =
                |short: &&Exceeded| takes.iter().any(|(limit, of, _)| (*limit, of) == (short.limit, &short.of));
            short.iter().find(is_short).map(|short| short.limit)
        };
        accesses.iter().map(by).collect()
    }

    /// The part of a read that only its answer tells.
    fn charge_reads(&self, accesses: &[Access], answer: &Answer) {
        if accesses.first().is_none_or(|access| access.is_write) {
            return;
        }
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        for (access, bytes) in accesses.iter().zip(self.sizes(accesses, &body)) {
            // What was taken before is the price of the first 4 KB.
            let more = bytes.div_ceil(READ_UNIT).saturating_sub(1) as f64 * access.units;
            for (limit, of, _) in access.takes() {
                self.limits.charge(limit, &of, more);
            }
        }
    }

    /// How many bytes each access found.
    fn sizes(&self, accesses: &[Access], body: &Value) -> Vec<usize> {
        let of = |value: &Value| value.as_object().map_or(0, item_size);
        match &body["Responses"] {
            // TransactGetItems answers in the order of the request.
            Value::Array(answers) => answers.iter().map(|one| of(&one["Item"])).collect(),
            // BatchGetItem answers by table, in any order.
            Value::Object(tables) => {
                let mut found = BTreeMap::new();
                for (table, items) in tables {
                    let Some(keys) = self.tables.get(table) else { continue };
                    for item in list(items).iter().filter_map(Value::as_object) {
                        found.insert(keys.item_of(table, item), item_size(item));
                    }
                }
                accesses.iter().map(|access| found.get(&access.item).copied().unwrap_or_default()).collect()
            }
            _ => vec![of(&body["Item"]) + list(&body["Items"]).iter().map(of).sum::<usize>()],
        }
    }

    fn latency(&self, accesses: &[Access], is_transaction: bool) -> Duration {
        let average = match accesses.first() {
            _ if is_transaction => self.latency.transaction,
            Some(access) if access.is_write => self.latency.write,
            _ => self.latency.read,
        };
        average.mul_f64(0.5 + telemetry::lock(&self.random).f64())
    }

    fn accesses(&self, operation: &str, request: &Value) -> Vec<Access> {
        let is_consistent = request["ConsistentRead"] == true;
        match operation {
            "PutItem" | "UpdateItem" | "DeleteItem" => self.write(request, 1.0).into_iter().collect(),
            "GetItem" => self.get(request, unit(is_consistent)).into_iter().collect(),
            "Query" | "Scan" => self.query(request, unit(is_consistent)).into_iter().collect(),
            "TransactWriteItems" => {
                let actions = list(&request["TransactItems"]);
                actions.iter().filter_map(|action| self.write(action.as_object()?.values().next()?, 2.0)).collect()
            }
            "TransactGetItems" => {
                let actions = list(&request["TransactItems"]);
                actions.iter().filter_map(|action| self.get(&action["Get"], 2.0)).collect()
            }
            "BatchWriteItem" => {
                let tables = request["RequestItems"].as_object().into_iter().flatten();
                let actions =
                    tables.flat_map(|(table, actions)| list(actions).iter().map(move |action| (table, action)));
                actions
                    .filter_map(|(table, action)| {
                        let mut action = action.as_object()?.values().next()?.clone();
                        action["TableName"] = json!(table);
                        self.write(&action, 1.0)
                    })
                    .collect()
            }
            "BatchGetItem" => {
                let tables = request["RequestItems"].as_object().into_iter().flatten();
                let keys = tables.flat_map(|(table, of)| {
                    let units = unit(of["ConsistentRead"] == true);
                    list(&of["Keys"]).iter().map(move |key| (json!({"TableName": table, "Key": key}), units))
                });
                keys.filter_map(|(get, units)| self.get(&get, units)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// A put, an update, a delete, or the check of a condition.
    fn write(&self, action: &Value, factor: f64) -> Option<Access> {
        let table = action["TableName"].as_str()?;
        let keys = self.tables.get(table)?;
        let put = action["Item"].as_object();
        let item = put.or_else(|| action["Key"].as_object())?;
        let carried = action["ExpressionAttributeValues"].as_object().filter(|_| put.is_none());
        let bytes = item_size(item) + carried.map_or(0, item_size);
        let units = write_units(bytes);
        let in_index = |(index, attribute): (&String, &String)| {
            let value = put?.get(attribute)?;
            let place = format!("{table}/{index}");
            Some(InIndex { partition: format!("{place} {}", text(value)), place, units })
        };
        Some(Access {
            place: table.to_owned(),
            partition: Some(keys.partition_of(table, item)?),
            item: Some(keys.item_of(table, item)?),
            units: units * factor,
            indexes: keys.indexes.iter().filter_map(in_index).collect(),
            is_write: true,
            key: keys.key_of(item),
            bytes,
        })
    }

    fn get(&self, action: &Value, units: f64) -> Option<Access> {
        let table = action["TableName"].as_str()?;
        let keys = self.tables.get(table)?;
        let key = action["Key"].as_object()?;
        Some(Access {
            place: table.to_owned(),
            partition: Some(keys.partition_of(table, key)?),
            item: Some(keys.item_of(table, key)?),
            units,
            indexes: Vec::new(),
            is_write: false,
            key: Value::Null,
            bytes: 0,
        })
    }

    fn query(&self, request: &Value, units: f64) -> Option<Access> {
        let table = request["TableName"].as_str()?;
        let keys = self.tables.get(table)?;
        let index = request["IndexName"].as_str();
        let (place, attribute) = match index {
            Some(index) => (format!("{table}/{index}"), keys.indexes.get(index)?),
            None => (table.to_owned(), &keys.partition),
        };
        let value = asked_for(request, attribute);
        Some(Access {
            partition: value.map(|value| format!("{place} {}", text(value))),
            place,
            item: None,
            units,
            indexes: Vec::new(),
            is_write: false,
            key: Value::Null,
            bytes: 0,
        })
    }
}

impl Access {
    /// What it takes from which limits.
    fn takes(&self) -> Vec<(&'static Limit, String, f64)> {
        let (of_partition, of_table): (&'static Limit, &'static Limit) = if self.is_write {
            (&aws::DYNAMODB_PARTITION_WRITES, &aws::DYNAMODB_TABLE_WRITES)
        } else {
            (&aws::DYNAMODB_PARTITION_READS, &aws::DYNAMODB_TABLE_READS)
        };
        let kind = if self.is_write { "writes" } else { "reads" };
        let of_place = |place: &str, units: f64| {
            let quota: &'static Limit = &aws::DYNAMODB_TABLE_QUOTA;
            [(of_table, place.to_owned(), units), (quota, format!("{place} {kind}"), units)]
        };
        let mut takes: Vec<(&'static Limit, String, f64)> = Vec::new();
        takes.extend(self.partition.iter().map(|partition| (of_partition, partition.clone(), self.units)));
        takes.extend(of_place(&self.place, self.units));
        for index in &self.indexes {
            takes.push((of_partition, index.partition.clone(), index.units));
            takes.extend(of_place(&index.place, index.units));
        }
        takes
    }
}

impl Keys {
    fn of(create: &Value) -> Self {
        let key = |schema: &Value, kind: &str| {
            let found = list(schema).iter().find(|key| key["KeyType"] == kind);
            found.and_then(|key| key["AttributeName"].as_str()).map(str::to_owned)
        };
        let schema = &create["KeySchema"];
        let indexes = list(&create["GlobalSecondaryIndexes"]).iter();
        let indexes = indexes
            .filter_map(|index| Some((index["IndexName"].as_str()?.to_owned(), key(&index["KeySchema"], "HASH")?)));
        Self {
            partition: key(schema, "HASH").unwrap_or_default(),
            sort: key(schema, "RANGE"),
            indexes: indexes.collect(),
        }
    }

    fn key_of(&self, item: &Map<String, Value>) -> Value {
        let names = std::iter::once(&self.partition).chain(&self.sort);
        names.filter_map(|name| Some((name.clone(), item.get(name)?.clone()))).collect::<Map<_, _>>().into()
    }

    fn partition_of(&self, table: &str, item: &Map<String, Value>) -> Option<String> {
        Some(format!("{table} {}", text(item.get(&self.partition)?)))
    }

    fn item_of(&self, table: &str, item: &Map<String, Value>) -> Option<String> {
        let sort = self.sort.as_ref().and_then(|sort| item.get(sort)).map(text).unwrap_or_default();
        Some(format!("{} {sort}", self.partition_of(table, item)?))
    }
}

fn write_units(bytes: usize) -> f64 {
    bytes.div_ceil(WRITE_UNIT).max(1) as f64
}

fn unit(is_consistent: bool) -> f64 {
    if is_consistent { 1.0 } else { 0.5 }
}

/// The value that a query asks its partition key to have.
fn asked_for<'a>(request: &'a Value, attribute: &str) -> Option<&'a Value> {
    let names = &request["ExpressionAttributeNames"];
    let spaced = request["KeyConditionExpression"].as_str()?.replace('=', " = ").replace(['(', ')'], " ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let is_it = |word: &str| word == attribute || names[word] == attribute;
    let at = words.windows(3).find(|three| three[1] == "=" && is_it(three[0]))?;
    request["ExpressionAttributeValues"].get(at[2])
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The text of a value of DynamoDB's JSON, as far as a key needs it.
fn text(value: &Value) -> String {
    let inner = value.as_object().and_then(|typed| typed.values().next());
    inner.map_or_else(String::new, |inner| inner.as_str().map_or_else(|| inner.to_string(), str::to_owned))
}

/// The size of an item by which DynamoDB counts units: names and values of its attributes.
#[must_use]
pub fn item_size(item: &Map<String, Value>) -> usize {
    item.iter().map(|(name, value)| name.len() + value_size(value)).sum()
}

fn value_size(value: &Value) -> usize {
    let Some((kind, inner)) = value.as_object().and_then(|typed| typed.iter().next()) else { return 0 };
    let texts = || list(inner).iter().filter_map(Value::as_str);
    match kind.as_str() {
        "S" => inner.as_str().map_or(0, str::len),
        // Two digits take about one byte, and the number one more.
        "N" => inner.as_str().map_or(0, |digits| digits.len().div_ceil(2) + 1),
        "B" => inner.as_str().map_or(0, |base64| base64.len() * 3 / 4),
        "SS" | "NS" | "BS" => texts().map(str::len).sum(),
        "L" => NESTED + list(inner).iter().map(|member| MEMBER + value_size(member)).sum::<usize>(),
        "M" => {
            let members = inner.as_object().into_iter().flatten();
            NESTED + members.map(|(name, member)| MEMBER + name.len() + value_size(member)).sum::<usize>()
        }
        _ => 1,
    }
}

fn refusal(limit: &Limit) -> Answer {
    let super::Answer { status, code, message } = limit.answer;
    let body = json!({"__type": format!("com.amazonaws.dynamodb.v20120810#{code}"), "message": message});
    Answer { status, body: Bytes::from(body.to_string()) }
}

/// The codes that a cancellation has for what a call alone would be refused with. All tables are on demand, so a hot key has the same code
/// as a table that grows (`TransactionCanceledException` in the API reference).
fn canceled(reasons: &[Option<&'static Limit>]) -> Answer {
    let code = |limit: &Limit| match limit.answer.code {
        "TransactionConflictException" => "TransactionConflict",
        _ => "ThrottlingError",
    };
    let shown = |reason: &Option<&'static Limit>| match reason {
        None => json!({"Code": "None"}),
        Some(limit) => json!({"Code": code(limit), "Message": limit.answer.message}),
    };
    let codes: Vec<&str> = reasons.iter().map(|reason| reason.map_or("None", code)).collect();
    let body = json!({
        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "Message": format!(
            "Transaction cancelled, please refer cancellation reasons for specific reasons [{}]",
            codes.join(", ")
        ),
        "CancellationReasons": reasons.iter().map(shown).collect::<Vec<_>>(),
    });
    Answer { status: 400, body: Bytes::from(body.to_string()) }
}

#[cfg(test)]
mod tests {
    use ichido_testkit::ManualClock;

    use super::*;
    use crate::dynamodb::Engine;
    use crate::limits::Bound;

    const LATENCY: Latency = Latency {
        read: Duration::from_millis(4),
        write: Duration::from_millis(5),
        transaction: Duration::from_millis(10),
    };

    struct Store {
        throttled: Throttled,
        limits: Limits,
        clock: ManualClock,
    }

    impl Store {
        fn new() -> Self {
            let key = |name: &str, kind: &str| json!({"AttributeName": name, "KeyType": kind});
            let attributes = ["pk", "sk", "owner"];
            let create = json!({
                "TableName": "things", "BillingMode": "PAY_PER_REQUEST",
                "AttributeDefinitions": attributes.map(|name| json!({"AttributeName": name, "AttributeType": "S"})),
                "KeySchema": [key("pk", "HASH"), key("sk", "RANGE")],
                "GlobalSecondaryIndexes": [{
                    "IndexName": "owners", "KeySchema": [key("owner", "HASH")], "Projection": {"ProjectionType": "ALL"},
                }],
            });
            let table = Table { logical_id: "T".into(), name: "things".into(), create, ttl: None };
            let engine = Engine::in_memory().expect("an engine");
            engine.ensure_table(&table).expect("a table");
            let clock = ManualClock::new();
            let limits = Limits::new(clock.clone());
            let throttled = Throttled::new(engine, &[table], limits.clone(), LATENCY, clock.clone(), 1);
            Self { throttled, limits, clock }
        }

        async fn call(&self, operation: &str, request: Value) -> (u16, Value) {
            let call = Call { operation: operation.to_owned(), body: Bytes::from(request.to_string()) };
            let answer = self.throttled.dispatch(call).await;
            (answer.status, serde_json::from_slice(&answer.body).expect("JSON"))
        }

        async fn put(&self, pk: &str, sk: &str, bytes: usize) -> (u16, Value) {
            self.call("PutItem", json!({"TableName": "things", "Item": item(pk, sk, bytes)})).await
        }

        fn lower(&self, limit: &'static Limit, per_second: f64) {
            self.limits.set(limit, Bound::Rate { per_second, burst: per_second });
        }
    }

    fn item(pk: &str, sk: &str, bytes: usize) -> Value {
        json!({"pk": {"S": pk}, "sk": {"S": sk}, "text": {"S": "x".repeat(bytes)}})
    }

    fn put_action(pk: &str, sk: &str) -> Value {
        json!({"Put": {"TableName": "things", "Item": item(pk, sk, 1)}})
    }

    #[tokio::test]
    async fn a_partition_refuses_what_exceeds_its_units_and_the_other_partitions_do_not_notice() {
        let store = Store::new();
        store.lower(&aws::DYNAMODB_PARTITION_WRITES, 4.0);
        assert_eq!(store.put("hot", "1", 3_000).await.0, 200, "three units");
        let (status, answer) = store.put("hot", "2", 3_000).await;
        assert_eq!(status, 400);
        assert!(answer["__type"].as_str().is_some_and(|kind| kind.ends_with("ProvisionedThroughputExceededException")));
        assert_eq!(store.put("cold", "1", 3_000).await.0, 200);
        store.clock.advance(Duration::from_secs(1));
        assert_eq!(store.put("hot", "2", 3_000).await.0, 200, "a second later");
        let first = store.limits.first().expect("a refusal");
        assert_eq!((first.limit.name, first.of.as_str(), first.count), ("dynamodb-partition-writes", "things hot", 1));
    }

    #[tokio::test]
    async fn a_table_and_an_index_have_units_of_their_own() {
        let store = Store::new();
        store.lower(&aws::DYNAMODB_TABLE_WRITES, 2.0);
        assert_eq!(store.put("a", "1", 1).await.0, 200);
        assert_eq!(store.put("b", "1", 1).await.0, 200);
        let (status, answer) = store.put("c", "1", 1).await;
        assert_eq!(status, 400, "the table");
        assert!(answer["__type"].as_str().is_some_and(|kind| kind.ends_with("#ThrottlingException")), "{answer}");

        let store = Store::new();
        store.lower(&aws::DYNAMODB_PARTITION_WRITES, 2.0);
        for (n, expected) in [("a", 200), ("b", 200), ("c", 400)] {
            let mut item = item(n, "1", 1);
            item["owner"] = json!({"S": "everybody's"});
            let (status, _) = store.call("PutItem", json!({"TableName": "things", "Item": item})).await;
            assert_eq!(status, expected, "{n}: its own partition is free, that of the index is not");
        }
        assert_eq!(store.limits.first().expect("a refusal").of, "things/owners everybody's");
    }

    #[tokio::test]
    async fn a_write_pays_for_the_item_that_was_there_also_if_its_condition_fails() {
        let small = |condition: Option<&str>| json!({"TableName": "things", "Item": item("a", "1", 1), "ConditionExpression": condition});
        let key = json!({"pk": {"S": "a"}, "sk": {"S": "1"}});
        let update = json!({
            "TableName": "things", "Key": key, "UpdateExpression": "SET seen = :s",
            "ExpressionAttributeValues": {":s": {"N": "1"}},
        });
        let delete = json!({"TableName": "things", "Key": key});
        let refused = small(Some("attribute_not_exists(pk)"));
        let mut plain = small(None);
        plain.as_object_mut().expect("an object").remove("ConditionExpression");
        for (operation, request, expected) in [
            ("PutItem", refused, 400),
            ("PutItem", plain, 200),
            ("UpdateItem", update, 200),
            ("DeleteItem", delete, 200),
        ] {
            let store = Store::new();
            assert_eq!(store.put("a", "1", 3_000).await.0, 200);
            store.lower(&aws::DYNAMODB_PARTITION_WRITES, 4.0);
            let (status, answer) = store.call(operation, request).await;
            assert_eq!(status, expected, "{operation}: {answer}");
            assert!(!answer.to_string().contains("ThroughputExceeded"), "{operation} has three units: {answer}");
            assert_eq!(store.put("a", "2", 1_500).await.0, 400, "{operation} took three of four units");
            assert_eq!(store.put("a", "2", 1).await.0, 200, "{operation} left one");
        }
    }

    #[tokio::test]
    async fn an_index_has_a_table_level_of_its_own() {
        let owned = |pk: &str, owner: &str| {
            let mut item = item(pk, "1", 1);
            item["owner"] = json!({"S": owner});
            json!({"TableName": "things", "Item": item})
        };
        let store = Store::new();
        store.limits.set_for(&aws::DYNAMODB_TABLE_WRITES, "things/owners", Bound::Rate { per_second: 2.0, burst: 2.0 });
        for (n, expected) in [("a", 200), ("b", 200), ("c", 400)] {
            assert_eq!(store.call("PutItem", owned(n, n)).await.0, expected, "{n}");
        }
        assert_eq!(store.limits.first().expect("a refusal").of, "things/owners");
        assert_eq!(store.put("d", "1", 1).await.0, 200, "it is not in the index");

        let store = Store::new();
        store.lower(&aws::DYNAMODB_TABLE_READS, 1.0);
        let of_index = json!({
            "TableName": "things", "IndexName": "owners", "KeyConditionExpression": "#o = :o",
            "ExpressionAttributeNames": {"#o": "owner"}, "ExpressionAttributeValues": {":o": {"S": "a"}},
        });
        assert_eq!(store.call("Query", of_index.clone()).await.0, 200);
        assert_eq!(store.call("Query", of_index.clone()).await.0, 200);
        assert_eq!(store.call("Query", of_index).await.0, 400, "half a unit each");
        let get = json!({"TableName": "things", "Key": {"pk": {"S": "a"}, "sk": {"S": "1"}}, "ConsistentRead": true});
        assert_eq!(store.call("GetItem", get).await.0, 200, "the table has its own units");
    }

    #[tokio::test]
    async fn a_refused_call_takes_its_time() {
        let store = Store::new();
        store.lower(&aws::DYNAMODB_PARTITION_WRITES, 1.0);
        assert_eq!(store.put("a", "1", 1).await.0, 200);
        let begun = store.clock.now_ms();
        assert_eq!(store.put("a", "1", 1).await.0, 400);
        assert!(store.clock.now_ms() > begun);
    }

    #[tokio::test]
    async fn a_read_pays_for_its_answer() {
        let store = Store::new();
        assert_eq!(store.put("a", "1", 40_000).await.0, 200);
        store.lower(&aws::DYNAMODB_PARTITION_READS, 5.0);
        let get = json!({"TableName": "things", "Key": {"pk": {"S": "a"}, "sk": {"S": "1"}}, "ConsistentRead": true});
        assert_eq!(store.call("GetItem", get.clone()).await.0, 200, "ten units, of which one is there");
        assert_eq!(store.call("GetItem", get.clone()).await.0, 400);
        store.clock.advance(Duration::from_secs(2));
        assert_eq!(store.call("GetItem", get).await.0, 200);
        let query = json!({
            "TableName": "things", "KeyConditionExpression": "#p = :p AND begins_with(sk, :s)",
            "ExpressionAttributeNames": {"#p": "pk"}, "ExpressionAttributeValues": {":p": {"S": "a"}, ":s": {"S": "1"}},
        });
        assert_eq!(store.call("Query", query).await.0, 400, "the same partition");
    }

    #[tokio::test]
    async fn each_key_of_a_batch_and_of_a_transaction_pays_for_its_own_item() {
        let key = |pk: &str| json!({"pk": {"S": pk}, "sk": {"S": "1"}});
        let batch = json!({"RequestItems": {"things": {"ConsistentRead": true, "Keys": [key("small"), key("large")]}}});
        let get = |pk: &str| json!({"Get": {"TableName": "things", "Key": key(pk)}});
        let transaction = json!({"TransactItems": [get("small"), get("large")]});
        for (operation, request) in [("BatchGetItem", batch), ("TransactGetItems", transaction)] {
            let store = Store::new();
            assert_eq!(store.put("small", "1", 1).await.0, 200);
            assert_eq!(store.put("large", "1", 40_000).await.0, 200);
            store.lower(&aws::DYNAMODB_PARTITION_READS, 5.0);
            assert_eq!(store.call(operation, request).await.0, 200);
            let read = |pk: &str| json!({"TableName": "things", "Key": key(pk), "ConsistentRead": true});
            assert_eq!(store.call("GetItem", read("small")).await.0, 200, "{operation}");
            assert_eq!(store.call("GetItem", read("large")).await.0, 400, "{operation}");
        }
    }

    #[tokio::test]
    async fn transactions_cost_twice_and_say_which_item_was_throttled() {
        let store = Store::new();
        store.lower(&aws::DYNAMODB_PARTITION_WRITES, 3.0);
        let both = json!({"TransactItems": [put_action("a", "1"), put_action("b", "1")]});
        assert_eq!(store.call("TransactWriteItems", both).await.0, 200);
        let again = json!({"TransactItems": [put_action("c", "1"), put_action("a", "2")]});
        let (status, answer) = store.call("TransactWriteItems", again).await;
        assert_eq!(status, 400);
        let codes: Vec<&str> =
            list(&answer["CancellationReasons"]).iter().filter_map(|reason| reason["Code"].as_str()).collect();
        assert_eq!(codes, ["None", "ThrottlingError"]);
        store.limits.lift(&aws::DYNAMODB_PARTITION_WRITES);
        store.lower(&aws::DYNAMODB_TABLE_WRITES, 1.0);
        store.clock.advance(Duration::from_secs(10));
        let one = json!({"TransactItems": [put_action("d", "1"), put_action("e", "1")]});
        assert_eq!(store.call("TransactWriteItems", one.clone()).await.0, 200, "larger than the bucket, which is full");
        let (_, answer) = store.call("TransactWriteItems", one).await;
        assert_eq!(answer["CancellationReasons"][0]["Code"], "ThrottlingError");
    }

    #[tokio::test]
    async fn a_transaction_has_its_items_to_itself_while_it_runs() {
        let store = Store::new();
        let transaction = |sk: &str| json!({"TransactItems": [put_action("a", "1"), put_action("a", sk)]});
        let (first, second, plain, other) = tokio::join!(
            store.call("TransactWriteItems", transaction("2")),
            store.call("TransactWriteItems", transaction("3")),
            store.put("a", "1", 1),
            store.put("a", "4", 1),
        );
        assert_eq!((first.0, other.0), (200, 200));
        let codes: Vec<&str> =
            list(&second.1["CancellationReasons"]).iter().filter_map(|reason| reason["Code"].as_str()).collect();
        assert_eq!(codes, ["TransactionConflict", "None"]);
        assert!(plain.1["__type"].as_str().is_some_and(|kind| kind.ends_with("TransactionConflictException")));
        assert_eq!(store.call("TransactWriteItems", transaction("3")).await.0, 200, "afterwards");
        assert!(store.limits.first().is_none(), "a conflict is no quota");
        assert_eq!(store.limits.refusals()[0].count, 2);
    }

    #[tokio::test]
    async fn items_and_transactions_that_are_too_large_are_refused() {
        let store = Store::new();
        assert_eq!(store.put("a", "1", 399 * 1_024).await.0, 200);
        store.clock.advance(Duration::from_secs(10));
        assert_eq!(store.put("a", "1", 400 * 1_024).await.0, 400);
        let many: Vec<Value> = (0..101).map(|n| put_action("a", &n.to_string())).collect();
        assert_eq!(store.call("TransactWriteItems", json!({ "TransactItems": many })).await.0, 400);
        let large =
            (0..11).map(|n| json!({"Put": {"TableName": "things", "Item": item("b", &n.to_string(), 390 * 1_024)}}));
        assert_eq!(
            store.call("TransactWriteItems", json!({ "TransactItems": large.collect::<Vec<_>>() })).await.0,
            400
        );
        let names: Vec<&str> = store.limits.refusals().iter().map(|refusals| refusals.limit.name).collect();
        assert_eq!(names, ["dynamodb-item-size", "dynamodb-transaction-actions", "dynamodb-transaction-size"]);
    }

    #[tokio::test]
    async fn calls_take_their_time_and_the_seed_decides_how_much() {
        let store = Store::new();
        let begun = store.clock.now_ms();
        store.put("a", "1", 1).await;
        let took = store.clock.now_ms() - begun;
        assert!((2..=8).contains(&took), "{took} ms");
        let again = Store::new();
        let begun = again.clock.now_ms();
        again.put("a", "1", 1).await;
        assert_eq!(again.clock.now_ms() - begun, took);
    }
}
