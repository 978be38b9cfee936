//! The way to DynamoDB, to the feed and to the destinations: the explorer decides what becomes of each request.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{AsyncSleep, BehaviorVersion, Config, Credentials, Region, Sleep};
use emulator::dynamodb::faults::{Answer, Call, Dispatch, Faulty};
use emulator::dynamodb::{Engine, http_client};
use feeds::outside::sender::StandIn;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use testkit::explore::{Choice, Gate, Lane, Path};
use testkit::{ManualClock, Outside};

use super::support::{atom, post_of, push_of};
use super::{AFTERWARDS, LANES_PER_RUN, NOBODY, Run, Scenario, lane_of};

pub(super) const TABLE: &str = "feeds";

/// How long Mastodon remembers a key.
const KEY_HOUR_MS: u64 = 3_600_000;

const READ: &[Choice] = &[Choice::normal(""), Choice::fault("an error")];
const WRITE: &[Choice] = &[
    Choice::normal(""),
    Choice::fault("does not arrive, an error"),
    Choice::fault("arrives, and its answer is LOST"),
    Choice::fault("arrives TWICE"),
];
const FEED: &[Choice] =
    &[Choice::normal("it answers"), Choice::fault("it answers 404"), Choice::fault("the new entries have LEFT it")];
const MASTODON: &[Choice] = &[
    Choice::normal("it accepts"),
    Choice::fault("it REFUSES (422)"),
    Choice::fault("it fails (503)"),
    Choice::fault("it accepts, and its answer is LOST"),
];
const SEARCH: &[Choice] = &[Choice::normal("it answers"), Choice::fault("it fails (503)")];
const PUSHOVER: &[Choice] = &[
    Choice::normal("it accepts"),
    Choice::fault("it REFUSES (400)"),
    Choice::fault("it fails (503)"),
    Choice::fault("it accepts, and its answer is LOST"),
];

/// What a step touches. The lowest bits are the lanes.
const FEED_BIT: u64 = 1 << 8;
const MASTODON_BIT: u64 = 1 << 9;
const PUSHOVER_BIT: u64 = 1 << 10;
const INDEX_BIT: u64 = 1 << 11;

fn only(lane: Lane) -> u64 {
    1 << lane
}

/// The bit of an item. Two items may share one: then the order of two calls is explored although it makes no difference.
fn item_bit(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    1 << (12 + hasher.finish() % 52)
}

/// Everything outside of the two functions, shared by all runs. Clones are the same.
#[derive(Clone)]
pub(super) struct Wire {
    path: Path,
    engine: Engine,
    /// If one thing goes wrong, it goes wrong for the first run: the two are the same but for their names.
    fails_everywhere: bool,
    outside: Arc<Mutex<Everybody>>,
}

/// What everybody outside has.
#[derive(Debug, Default)]
pub(super) struct Everybody {
    /// The entries that the feed shows, newest first.
    pub(super) shown: Vec<usize>,
    /// Mastodon's statuses: the text, and when it was posted.
    pub(super) posts: Vec<(String, u64)>,
    /// Mastodon's keys: the number of the status, and when it was posted.
    keys: BTreeMap<String, (usize, u64)>,
    pub(super) pushes: Vec<String>,
    /// Claims after which the library asked what an earlier attempt had done, by the key of the delivery.
    pub(super) take_overs: BTreeMap<String, usize>,
    /// The table, as text, and when its leases end. `None` after a write.
    dump: Option<(String, Vec<u64>)>,
}

impl Everybody {
    pub(super) fn posts_of(&self, n: usize) -> usize {
        self.posts.iter().filter(|(text, _)| *text == post_of(n)).count()
    }

    pub(super) fn pushes_of(&self, n: usize) -> usize {
        self.pushes.iter().filter(|text| **text == push_of(n)).count()
    }
}

impl Wire {
    /// A new table, a feed and destinations, as the scenario has them.
    pub(super) fn new(path: &Path, scenario: &Scenario) -> Self {
        let engine = Engine::in_memory().unwrap();
        let attributes = ["entry_id", "pending", "pending_order"];
        let key = |name: &str, kind: &str| json!({"AttributeName": name, "KeyType": kind});
        let create = json!({
            "TableName": TABLE,
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": attributes.map(|name| json!({"AttributeName": name, "AttributeType": "S"})),
            "KeySchema": [key("entry_id", "HASH")],
            "GlobalSecondaryIndexes": [{
                "IndexName": "pending",
                "KeySchema": [key("pending", "HASH"), key("pending_order", "RANGE")],
                "Projection": {"ProjectionType": "ALL"},
            }],
        });
        engine.call("CreateTable", &create).unwrap();
        for item in &scenario.items {
            engine.call("PutItem", &json!({"TableName": TABLE, "Item": item})).unwrap();
        }
        let (shown, posts) = (scenario.shown.clone(), scenario.posts.clone());
        let outside = Arc::new(Mutex::new(Everybody { shown, posts, ..Everybody::default() }));
        Self { path: path.clone(), engine, fails_everywhere: scenario.faults > 1, outside }
    }

    pub(super) fn of(&self, run: Run) -> OfRun {
        OfRun { wire: self.clone(), run }
    }

    pub(super) fn outside(&self) -> MutexGuard<'_, Everybody> {
        self.outside.lock().unwrap()
    }

    pub(super) fn items(&self) -> Vec<Value> {
        let page = self.engine.call("Scan", &json!({"TableName": TABLE, "ConsistentRead": true})).unwrap();
        page["Items"].as_array().cloned().unwrap_or_default()
    }

    /// Everything that later calls depend on.
    pub(super) fn fingerprint(&self, mut state: &mut dyn Hasher) {
        format!("{:?}", self.dumped()).hash(&mut state);
    }

    fn dumped(&self) -> MutexGuard<'_, Everybody> {
        let mut outside = self.outside();
        if outside.dump.is_none() {
            let items = self.items();
            let claimed = |item: &&Value| item["ichido_state"]["S"] == "claimed";
            let end = |item: &Value| item["ichido_lease_until"]["N"].as_str()?.parse().ok();
            let ends = items.iter().filter(claimed).filter_map(end).collect();
            outside.dump = Some((Value::from(items).to_string(), ends));
        }
        outside
    }

    /// The next time at which a lease ends.
    pub(super) fn next_lease_end(&self, now_ms: u64) -> Option<u64> {
        let outside = self.dumped();
        outside.dump.iter().flat_map(|(_, ends)| ends).copied().filter(|end| *end > now_ms).min()
    }

    fn perform(&self, call: &Call) -> Answer {
        if !is_read(call) {
            self.outside().dump = None;
        }
        self.engine.perform(&call.operation, &call.body)
    }
}

/// The way of one run.
#[derive(Clone)]
pub(super) struct OfRun {
    wire: Wire,
    run: Run,
}

impl std::fmt::Debug for OfRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OfRun").field("run", &self.run).finish_non_exhaustive()
    }
}

/// A call to DynamoDB, as the explorer sees it.
struct Seen {
    /// Which of the run's lanes makes it.
    part: usize,
    what: &'static str,
    touches: u64,
    choices: &'static [Choice],
}

impl Seen {
    /// `None` for what is always the same: the limit of the Mastodon instance.
    fn of(call: &Call) -> Option<Self> {
        let body: Value = serde_json::from_slice(&call.body).ok()?;
        let of_one = body["Key"]["entry_id"]["S"].as_str().or_else(|| body["Item"]["entry_id"]["S"].as_str());
        let dead = body["ExpressionAttributeValues"][":pending"]["S"] == "dead";
        let claims = body["ExpressionAttributeValues"].to_string().contains("lease_until");
        let (part, what, touches) = match (call.operation.as_str(), of_one) {
            ("Query", _) if dead => (2, "looks for dead letters", INDEX_BIT),
            ("Query", _) => (0, "asks what is owed", INDEX_BIT),
            ("BatchGetItem", _) => (0, "looks the new entries up", INDEX_BIT),
            (_, Some("#limit")) => return None,
            ("GetItem", Some(key @ "#feed")) => (0, "reads the feed's state", item_bit(key)),
            (_, Some(key @ "#feed")) => (0, "writes the feed's state", item_bit(key)),
            (_, Some(key)) if key.starts_with("DELIVERY#") => {
                let part = if key.starts_with("DELIVERY#pushover") { 2 } else { 1 };
                let what = match (call.operation.as_str(), claims) {
                    ("GetItem", _) => "reads the claim",
                    (_, true) => "claims the delivery",
                    (_, false) => "settles the claim",
                };
                (part, what, item_bit(key))
            }
            ("GetItem", Some(key)) => (0, "reads the entry", item_bit(key)),
            // What is owed is in the index.
            ("PutItem", Some(key)) => (0, "records the entry", item_bit(key) | INDEX_BIT),
            (_, Some(key)) => (0, "writes the entry", item_bit(key) | INDEX_BIT),
            (other, None) => panic!("{other} is not known here"),
        };
        Some(Self { part, what, touches, choices: if is_read(call) { READ } else { WRITE } })
    }
}

impl OfRun {
    pub(super) fn client(&self) -> Client {
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("ap-northeast-1"))
            .credentials_provider(Credentials::new("local", "local", None, None, "explored"))
            .retry_config(RetryConfig::disabled())
            .sleep_impl(Timeless)
            .http_client(http_client(Faulty::new(self.clone(), ManualClock::new(), 0), Outside::new()));
        Client::from_conf(config.build())
    }

    fn lane(&self, part: usize) -> Lane {
        if self.run == AFTERWARDS { lane_of(AFTERWARDS) } else { lane_of(self.run) + part % LANES_PER_RUN }
    }

    async fn gate(&self, lane: Lane, what: &'static str, touches: u64, choices: &'static [Choice]) -> usize {
        let group = self.wire.path.group().unwrap_or(NOBODY);
        let spared = self.run > 0 && !self.wire.fails_everywhere;
        let gate = Gate { group, lane, what, touches: touches | only(lane), mortal: !spared };
        self.wire.path.gate_with(gate, if spared { &choices[..1] } else { choices }).await
    }

    async fn pass(self, call: Call) -> Answer {
        let Some(seen) = Seen::of(&call) else { return self.wire.perform(&call) };
        let lane = self.lane(seen.part);
        let answer = match self.gate(lane, seen.what, seen.touches, seen.choices).await {
            0 => self.wire.perform(&call),
            1 => no_answer(),
            2 => {
                self.wire.perform(&call);
                no_answer()
            }
            // The answer to the first one was lost, and the SDK has sent it again.
            _ => {
                self.wire.perform(&call);
                self.wire.perform(&call)
            }
        };
        // As a value, because the engine writes the attributes of an item in any order.
        let told = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default().to_string();
        self.wire.path.note(lane, || format!("… {} {}", answer.status, told.chars().take(50).collect::<String>()));
        self.wire.path.told(lane, &told);
        answer
    }

    async fn request(self, request: reqwest::Request) -> Result<reqwest::Response, reqwest::Error> {
        let (answer, is_lost) = self.decide(request).await;
        if is_lost {
            // Any error that does not say that the request never left.
            return Err(answer.json::<Value>().await.err().expect("its body is empty"));
        }
        Ok(answer)
    }

    /// Performs a request as the explorer decides. Returns the answer, and whether it is lost.
    async fn decide(&self, request: reqwest::Request) -> (reqwest::Response, bool) {
        let body: Value =
            request.body().and_then(|body| serde_json::from_slice(body.as_bytes()?).ok()).unwrap_or_default();
        let key = request.headers().get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or_default();
        let path = request.url().path().to_owned();
        let (part, what, touches, choices) = match path.as_str() {
            "/feed" => (1, "asks for the feed", FEED_BIT, FEED),
            "/api/v1/statuses" => (1, "posts to Mastodon", MASTODON_BIT, MASTODON),
            "/1/messages.json" => (2, "sends to Pushover", PUSHOVER_BIT, PUSHOVER),
            "/api/v1/accounts/7/statuses" => (1, "searches Mastodon", MASTODON_BIT, SEARCH),
            "/api/v1/accounts/verify_credentials" => return (answer(200, json!({"id": "7"}).to_string()), false),
            other => panic!("nobody knows {other}"),
        };
        let lane = self.lane(part);
        let chosen = self.gate(lane, what, touches, choices).await;
        let now = self.wire.path.clock().now_ms();
        let mut outside = self.wire.outside();
        let name = choices[chosen].name;
        let answered = match (path.as_str(), name) {
            (_, "it fails (503)") => answer(503, String::new()),
            (_, "it REFUSES (422)") => answer(422, String::new()),
            (_, "it REFUSES (400)") => answer(400, String::new()),
            (_, "it answers 404") => answer(404, String::new()),
            ("/feed", name) => {
                if name.contains("LEFT") {
                    outside.shown = vec![1];
                }
                self.wire.path.told(lane, &outside.shown);
                answer(200, atom(&outside.shown))
            }
            ("/api/v1/statuses", _) => {
                let known = outside.keys.get(key).copied().filter(|(_, at)| now - at < KEY_HOUR_MS);
                let number = known.map_or(outside.posts.len(), |(number, _)| number);
                if known.is_none() {
                    outside.posts.push((body["status"].as_str().unwrap_or_default().to_owned(), now));
                    outside.keys.insert(key.to_owned(), (number, now));
                }
                self.wire.path.told(lane, &number);
                answer(200, json!({"id": number.to_string()}).to_string())
            }
            ("/1/messages.json", _) => {
                outside.pushes.push(body["message"].as_str().unwrap_or_default().to_owned());
                let number = outside.pushes.len();
                self.wire.path.told(lane, &number);
                answer(200, json!({"status": 1, "request": format!("r{number}")}).to_string())
            }
            // The search: one page has all.
            _ if request.url().query().is_some_and(|query| query.contains("max_id")) => answer(200, "[]".to_owned()),
            _ => {
                let page = outside.posts.iter().enumerate().rev().map(|(number, (text, at))| {
                    let at = jiff::Timestamp::from_millisecond(at.cast_signed()).unwrap();
                    json!({"id": number.to_string(), "created_at": at.to_string(), "content": format!("<p>{text}</p>")})
                });
                let page = Value::from(page.collect::<Vec<_>>()).to_string();
                self.wire.path.told(lane, &page);
                answer(200, page)
            }
        };
        let is_lost = name.contains("LOST");
        (if is_lost { answer(200, String::new()) } else { answered }, is_lost)
    }
}

impl Dispatch for OfRun {
    fn dispatch(&self, call: Call) -> BoxFuture<'static, Answer> {
        Box::pin(self.clone().pass(call))
    }
}

impl StandIn for OfRun {
    fn answer(&self, request: reqwest::Request) -> BoxFuture<'static, Result<reqwest::Response, reqwest::Error>> {
        Box::pin(self.clone().request(request))
    }
}

fn is_read(call: &Call) -> bool {
    matches!(call.operation.as_str(), "Query" | "BatchGetItem" | "GetItem")
}

fn answer(status: u16, body: String) -> reqwest::Response {
    axum::http::Response::builder().status(status).body(body).unwrap().into()
}

fn no_answer() -> Answer {
    let body = json!({"__type": "com.amazonaws.dynamodb.v20120810#InternalServerError", "message": "no answer"});
    Answer { status: 500, body: body.to_string().into() }
}

/// The SDK's time. Its timeouts never end, because a call that takes too long is one of the explorer's choices.
#[derive(Debug)]
struct Timeless;

impl AsyncSleep for Timeless {
    fn sleep(&self, _: Duration) -> Sleep {
        Sleep::new(std::future::pending())
    }
}
