//! The way to DynamoDB: the explorer decides what becomes of each request and of each answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{AsyncSleep, BehaviorVersion, Config, Credentials, Region, Sleep};
use emulator::dynamodb::faults::{Answer, Call, Dispatch, Fault, Faulty, Rule};
use emulator::dynamodb::{Engine, http_client};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use testkit::explore::{Choice, Gate, Lane, Path};
use testkit::{ManualClock, Outside};
use tokens::ledger::ATTEMPT;

use super::{AFTERWARDS, CALLERS, NETWORK, NOBODY, Scenario};

pub(super) const TABLE: &str = "tokens";

/// What a step touches: the store, or only its own caller.
pub(super) const STORE: u64 = 1;

fn only(lane: Lane) -> u64 {
    2 << lane
}

const ARRIVES: Choice = Choice::normal("arrives");
const READ: &[Choice] = &[ARRIVES, Choice::fault("does not arrive, an error")];
const WRITE: &[Choice] = &[
    ARRIVES,
    Choice::fault("does not arrive, an error"),
    Choice::fault("is ON ITS WAY, no answer"),
    Choice::fault("meets a CONFLICT"),
];
const ANSWER: &[Choice] = &[ARRIVES, Choice::fault("is LOST")];
const LATER: &[Choice] = &[Choice::normal("arrives LATE")];

/// The connection of all callers to one database. Clones are the same one.
#[derive(Clone)]
pub(super) struct Wire {
    path: Path,
    engine: Engine,
    /// Makes conflicts, which the engine never reports.
    store: Faulty,
    conflict: Fault,
    meets: &'static [u32],
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// A short name for each random token of a record: who sent it, and the how manieth it is. Only whether two are equal makes
    /// a difference, so paths that differ in nothing else are the same.
    owners: BTreeMap<String, String>,
    owners_of: BTreeMap<Lane, usize>,
    /// How many transactions each caller has sent.
    transactions: BTreeMap<Lane, u32>,
    /// The transactions of each caller's present request.
    sent: BTreeMap<Lane, BTreeSet<String>>,
    /// Those of requests that were refused.
    refused: BTreeSet<String>,
    committed: BTreeSet<String>,
    /// The table, as text. `None` after a write.
    dump: Option<String>,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

impl Wire {
    /// A new database with the items of the scenario. Only the audit reads its index.
    pub(super) fn new(path: &Path, scenario: &Scenario) -> Self {
        let engine = Engine::in_memory().unwrap();
        let attributes = ["PK", "SK", "GSI1PK", "GSI1SK"];
        let keys = |hash: &str, range: &str| json!([{"AttributeName": hash, "KeyType": "HASH"}, {"AttributeName": range, "KeyType": "RANGE"}]);
        let create = json!({
            "TableName": TABLE,
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": attributes.map(|name| json!({"AttributeName": name, "AttributeType": "S"})),
            "KeySchema": keys("PK", "SK"),
            "GlobalSecondaryIndexes": [{
                "IndexName": "GSI1", "KeySchema": keys("GSI1PK", "GSI1SK"), "Projection": {"ProjectionType": "ALL"},
            }],
        });
        engine.call("CreateTable", &create).unwrap();
        for item in &scenario.items {
            engine.call("PutItem", &json!({"TableName": TABLE, "Item": item})).unwrap();
        }
        let store = Faulty::new(engine.clone(), path.clock().clone(), 0);
        Self {
            path: path.clone(),
            engine,
            store,
            conflict: scenario.conflict,
            meets: scenario.meets,
            seen: Arc::default(),
        }
    }

    /// A client whose calls are the explorer's to decide.
    pub(super) fn client(&self) -> Client {
        client(Faulty::new(self.clone(), ManualClock::new(), 0))
    }

    /// A client whose calls always arrive, at once.
    pub(super) fn undisturbed(&self) -> Client {
        client(Faulty::new(self.engine.clone(), ManualClock::new(), 0))
    }

    /// A caller begins another request.
    pub(super) fn begins(&self, lane: Lane) {
        self.seen().sent.remove(&lane);
    }

    /// A caller was told that its present request is refused.
    pub(super) fn refused(&self, lane: Lane) {
        let mut seen = self.seen();
        let sent = seen.sent.remove(&lane).unwrap_or_default();
        seen.refused.extend(sent);
    }

    pub(super) fn refused_is_refused(&self) -> Result<(), String> {
        let seen = self.seen();
        match seen.refused.intersection(&seen.committed).next() {
            None => Ok(()),
            Some(token) => Err(format!("a refused request moved money: transaction {token}")),
        }
    }

    pub(super) fn items(&self) -> Vec<Value> {
        let page = self.engine.call("Scan", &json!({"TableName": TABLE, "ConsistentRead": true})).unwrap();
        page["Items"].as_array().cloned().unwrap_or_default()
    }

    /// Everything that later calls depend on.
    pub(super) fn dump(&self) -> String {
        let mut seen = self.seen();
        if seen.dump.is_none() {
            let items = seen.renamed(&Value::from(self.items()).to_string());
            seen.dump = Some(format!("{items} {:?} {:?}", seen.committed, seen.refused));
        }
        format!("{:?} {:?} {:?} {:?}", seen.dump, seen.sent, seen.refused, seen.transactions)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    async fn perform(&self, call: Call) -> Answer {
        let token = token(&call);
        let answer = self.store.call(call).await.unwrap_or_else(|_| no_answer());
        let mut seen = self.seen();
        seen.dump = None;
        if answer.status == 200 {
            seen.committed.extend(token);
        }
        answer
    }

    async fn pass(self, call: Call) -> Answer {
        let path = &self.path;
        let (lane, group) = (path.lane().unwrap_or(AFTERWARDS), path.group().unwrap_or(NOBODY));
        self.seen().meet(lane, &call);
        let (what, choices) = match call.operation.as_str() {
            "TransactWriteItems" => ("its transaction", WRITE),
            "PutItem" => ("its tombstone", WRITE),
            _ => ("its read", READ),
        };
        let gate = Gate { group, lane, what, touches: STORE | only(lane), mortal: false };
        let count = self.seen().count(lane, &call);
        match path.gate_with(gate, choices).await {
            0 if lane == 0 && self.meets.contains(&count) => self.store.faults().only(Rule::new(self.conflict)),
            0 => {}
            1 => return no_answer(),
            2 => {
                self.arrives_late(lane, call);
                return no_answer();
            }
            _ => self.store.faults().only(Rule::new(self.conflict)),
        }
        let answer = self.perform(call).await;
        self.store.faults().heal();
        let told = self.seen().renamed(&String::from_utf8_lossy(&answer.body));
        path.note(lane, || format!("… {} {}", answer.status, told.chars().take(60).collect::<String>()));
        path.told(lane, &told);
        let gate = Gate { group, lane, what: "the answer", touches: only(lane), mortal: true };
        match path.gate_with(gate, ANSWER).await {
            0 => answer,
            _ => no_answer(),
        }
    }

    /// The caller waits no longer, and the call arrives at any later time.
    fn arrives_late(&self, lane: Lane, call: Call) {
        let (wire, lane) = (self.clone(), lane % CALLERS + CALLERS);
        self.path.told(lane, &self.seen().renamed(&String::from_utf8_lossy(&call.body)));
        self.path.spawn_optional(lane, NETWORK, async move {
            wire.path.gate(lane, "a call", STORE | only(lane), LATER).await;
            let answer = wire.perform(call).await;
            wire.path.note(lane, || format!("… {}", answer.status));
        });
    }
}

impl Dispatch for Wire {
    fn dispatch(&self, call: Call) -> BoxFuture<'static, Answer> {
        Box::pin(self.clone().pass(call))
    }
}

impl Seen {
    fn meet(&mut self, lane: Lane, call: &Call) {
        self.sent.entry(lane).or_default().extend(token(call));
        let text = String::from_utf8_lossy(&call.body);
        for rest in text.split(r#""ichido_owner":{"S":""#).skip(1) {
            let owner = rest.split('"').next().unwrap_or_default();
            if !self.owners.contains_key(owner) {
                let count = self.owners_of.entry(lane).or_default();
                *count += 1;
                self.owners.insert(owner.to_owned(), format!("owner {lane}.{count}"));
            }
        }
    }

    /// The how manieth transaction of a caller it is. 0: it is no transaction.
    fn count(&mut self, lane: Lane, call: &Call) -> u32 {
        if call.operation != "TransactWriteItems" {
            return 0;
        }
        let count = self.transactions.entry(lane).or_default();
        *count += 1;
        *count
    }

    fn renamed(&self, text: &str) -> String {
        self.owners.iter().fold(text.to_owned(), |text, (owner, name)| text.replace(owner, name))
    }
}

/// The client token of a transaction that moves money: it writes an entry.
fn token(call: &Call) -> Option<String> {
    let body: Value = serde_json::from_slice(&call.body).ok()?;
    let mut items = body["TransactItems"].as_array()?.iter();
    items.find(|item| item["Put"]["Item"]["postings"].is_object())?;
    body["ClientRequestToken"].as_str().map(str::to_owned)
}

/// To the ledger it makes no difference whether there is no answer or one that says nothing.
fn no_answer() -> Answer {
    let body = json!({"__type": "com.amazonaws.dynamodb.v20120810#InternalServerError", "message": "no answer"});
    Answer { status: 500, body: body.to_string().into() }
}

fn client(store: Faulty) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("ap-northeast-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "explored"))
        .sleep_impl(Timeless)
        .http_client(http_client(store, Outside::new()));
    Client::from_conf(config.build())
}

/// The SDK's time. Its timeouts never end, because a call that takes too long is one of the explorer's choices. Its pauses, whose
/// length is random, take no time.
#[derive(Debug)]
struct Timeless;

impl AsyncSleep for Timeless {
    fn sleep(&self, duration: std::time::Duration) -> Sleep {
        if duration.as_nanos().is_multiple_of(ATTEMPT.as_nanos()) {
            Sleep::new(std::future::pending())
        } else {
            Sleep::new(std::future::ready(()))
        }
    }
}
