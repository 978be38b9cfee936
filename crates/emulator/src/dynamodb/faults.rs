//! Faults between a caller and its DynamoDB.
//!
//! [`Faulty`] stands in front of anything that performs DynamoDB operations ([`Dispatch`]). Without rules it only counts the
//! calls. A [`Rule`] says which calls fail and how. Rules can be added and removed at any time through [`Faults`], the handle
//! that a test keeps. One seed decides everything that happens by chance.
//!
//! The embedded engine never reports conflicts between transactions, and its indexes never lag. Two faults make up for that:
//! [`Fault::Conflict`] and [`Faults::lag_indexes`].

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::pending;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use ichido::{Clock, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// One call of the DynamoDB API.
#[derive(Clone, Debug)]
pub struct Call {
    /// `PutItem`, …
    pub operation: String,
    /// The request's JSON.
    pub body: Bytes,
}

/// What DynamoDB answers.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The response's JSON.
    pub body: Bytes,
}

/// Performs DynamoDB operations: the embedded engine, or another endpoint.
pub trait Dispatch: Send + Sync + fmt::Debug + 'static {
    /// Performs one operation, at the latest when the future completes.
    fn dispatch(&self, call: Call) -> BoxFuture<'static, Answer>;

    /// A copy of the present state, to which the same writes are applied later. Lagging indexes read from it.
    ///
    /// # Errors
    /// When the state cannot be copied. Then indexes cannot lag.
    fn follower(&self) -> Result<Box<dyn Dispatch>, NoFollower> {
        Err(NoFollower("this DynamoDB cannot be copied".into()))
    }
}

/// The state could not be copied for lagging indexes.
#[derive(Debug, thiserror::Error)]
#[error("indexes cannot lag, because the tables could not be copied: {0}")]
pub struct NoFollower(pub String);

/// A call that got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// Nobody listens. The call was not performed.
    #[error("connection refused")]
    Refused,
    /// The connection was lost. The caller cannot know whether the call was performed.
    #[error("connection reset while waiting for the answer")]
    Reset,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is refused; the call is not performed.
    Down,
    /// Answered with `ProvisionedThroughputExceededException`; not performed.
    Throttle,
    /// Answered with a 500; not performed.
    Error,
    /// Performed after this long.
    Slow(Duration),
    /// Performed at once, answered after this long.
    Late(Duration),
    /// Performed; the connection is lost before the answer.
    LoseAnswer,
    /// The connection is lost at once, and the call is performed later, when nobody waits for it: before the first call that
    /// comes after this long.
    Straggle(Duration),
    /// Neither answered nor performed. A caller without a timeout waits for ever.
    Hang,
    /// `TransactionConflict`, as if another transaction were running: transactions are cancelled, plain writes are refused,
    /// plain reads succeed.
    Conflict,
    /// The same, but the other transaction has the items that have a text, such as their key, that begins so. Calls that write none of
    /// them are performed.
    ConflictOn(&'static str),
    /// Performed, but a failed condition does not return the old item. Not every DynamoDB returns it.
    NoOldItem,
    /// `AccessDeniedException`: a configuration error, not an outage.
    Denied,
    /// `ResourceNotFoundException`: the table does not exist.
    Missing,
}

/// Which calls fail, and how.
#[derive(Clone, Debug)]
pub struct Rule {
    fault: Fault,
    operation: Option<String>,
    rate: f64,
    calls: Option<RangeInclusive<u64>>,
    /// How many calls of its operation there were since the rule was added.
    seen: u64,
}

impl Rule {
    /// Every call has this fault.
    #[must_use]
    pub fn new(fault: Fault) -> Self {
        Self { fault, operation: None, rate: 1.0, calls: None, seen: 0 }
    }

    /// Only calls of this operation.
    #[must_use]
    pub fn on(mut self, operation: &str) -> Self {
        self.operation = Some(operation.to_owned());
        self
    }

    /// Only this share of the calls, by chance.
    #[must_use]
    pub fn rate(mut self, rate: f64) -> Self {
        self.rate = rate;
        self
    }

    /// Only the `n`-th call (from 1) since the rule was added.
    #[must_use]
    pub fn call(self, n: u64) -> Self {
        self.calls(n..=n)
    }

    /// Only these calls (from 1) since the rule was added.
    #[must_use]
    pub fn calls(mut self, calls: RangeInclusive<u64>) -> Self {
        self.calls = Some(calls);
        self
    }

    fn strikes(&mut self, operation: &str, random: &mut fastrand::Rng) -> bool {
        if self.operation.as_deref().is_some_and(|only| only != operation) {
            return false;
        }
        self.seen += 1;
        let called = self.calls.as_ref().is_none_or(|calls| calls.contains(&self.seen));
        called && (self.rate >= 1.0 || random.f64() < self.rate)
    }
}

/// A rule as people write it: `{"mode": "slow", "ms": 200, "rate": 0.5}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The kind of fault.
    pub mode: Mode,
    /// How many milliseconds a slow call takes, or indexes lag.
    #[serde(default = "Spec::default_ms")]
    pub ms: u64,
    /// The share of the calls that are affected.
    #[serde(default = "Spec::default_rate")]
    pub rate: f64,
}

impl Spec {
    fn default_ms() -> u64 {
        200
    }

    fn default_rate() -> f64 {
        1.0
    }

    /// The rule; `None` for lagging indexes, which do not concern single calls.
    #[must_use]
    pub fn rule(&self) -> Option<Rule> {
        let fault = match self.mode {
            Mode::Down => Fault::Down,
            Mode::Throttle => Fault::Throttle,
            Mode::Error => Fault::Error,
            Mode::Slow => Fault::Slow(Duration::from_millis(self.ms)),
            Mode::LoseAnswers => Fault::LoseAnswer,
            // On every item, because a conflict on an account is what makes its shards.
            Mode::Conflict => Fault::ConflictOn(""),
            Mode::Denied => Fault::Denied,
            Mode::LagIndexes => return None,
        };
        Some(Rule::new(fault).rate(self.rate))
    }
}

/// The faults that people can choose by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// [`Fault::Down`].
    Down,
    /// [`Fault::Throttle`].
    Throttle,
    /// [`Fault::Error`].
    Error,
    /// [`Fault::Slow`].
    Slow,
    /// [`Fault::LoseAnswer`].
    LoseAnswers,
    /// [`Fault::ConflictOn`] every item.
    Conflict,
    /// [`Fault::Denied`].
    Denied,
    /// [`Lag::Time`].
    LagIndexes,
}

/// How far indexes lag behind their table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lag {
    /// An index shows a write after this many further calls.
    Calls(u64),
    /// An index shows a write after this time.
    Time(Duration),
}

/// The handle on the faults. All clones are the same handle.
#[derive(Clone)]
pub struct Faults {
    state: Arc<Mutex<State>>,
}

struct State {
    rules: Vec<Rule>,
    random: fastrand::Rng,
    calls: Calls,
    /// How indexes should lag. [`Faulty`] applies it at its next call, when it can copy the tables.
    lag: Option<Lag>,
}

impl Faults {
    fn new(seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { state: Arc::new(Mutex::new(State { rules: Vec::new(), random, calls: Calls::default(), lag: None })) }
    }

    /// Adds a rule. The first rule that applies to a call decides.
    pub fn put(&self, rule: Rule) {
        self.lock().rules.push(rule);
    }

    /// Replaces all rules with this one.
    pub fn only(&self, rule: Rule) {
        self.lock().rules = vec![rule];
    }

    /// Removes all faults; indexes no longer lag.
    pub fn heal(&self) {
        let mut state = self.lock();
        state.rules.clear();
        state.lag = None;
    }

    /// Starts the random numbers again from `seed`.
    pub fn seed(&self, seed: u64) {
        self.lock().random = fastrand::Rng::with_seed(seed);
    }

    /// DynamoDB is down.
    pub fn down(&self) {
        self.only(Rule::new(Fault::Down));
    }

    /// DynamoDB throttles every call.
    pub fn throttle(&self) {
        self.only(Rule::new(Fault::Throttle));
    }

    /// DynamoDB answers every call with a 500.
    pub fn error(&self) {
        self.only(Rule::new(Fault::Error));
    }

    /// Every call takes this long.
    pub fn slow(&self, by: Duration) {
        self.only(Rule::new(Fault::Slow(by)));
    }

    /// DynamoDB performs every call and loses every answer.
    pub fn lose_answers(&self) {
        self.only(Rule::new(Fault::LoseAnswer));
    }

    /// Every write conflicts with another transaction.
    pub fn conflict(&self) {
        self.only(Rule::new(Fault::Conflict));
    }

    /// Lets indexes lag; with `None` they catch up.
    pub fn lag_indexes(&self, lag: Option<Lag>) {
        self.lock().lag = lag;
    }

    /// The calls so far.
    #[must_use]
    pub fn calls(&self) -> Calls {
        self.lock().calls.clone()
    }

    /// Starts counting from zero, and returns the calls so far.
    pub fn reset_calls(&self) -> Calls {
        std::mem::take(&mut self.lock().calls)
    }

    /// Counts a call, and decides which fault it meets.
    fn next(&self, operation: &str) -> (Option<Fault>, Option<Lag>) {
        let mut state = self.lock();
        let State { rules, random, calls, lag } = &mut *state;
        *calls.0.entry(operation.to_owned()).or_default() += 1;
        let fault = rules.iter_mut().find_map(|rule| rule.strikes(operation, random).then_some(rule.fault));
        (fault, *lag)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        telemetry::lock(&self.state)
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Faults").field("rules", &state.rules).field("lag", &state.lag).finish_non_exhaustive()
    }
}

/// How often each operation was called. Retries of the SDK are calls too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls(BTreeMap<String, u64>);

impl Calls {
    /// Calls of one operation.
    #[must_use]
    pub fn of(&self, operation: &str) -> u64 {
        self.0.get(operation).copied().unwrap_or(0)
    }

    /// All calls.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Each operation that was called, with the number of its calls.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(operation, count)| (operation.as_str(), *count))
    }
}

/// A DynamoDB with faults. All clones are the same.
#[derive(Clone)]
pub struct Faulty {
    inner: Arc<dyn Dispatch>,
    faults: Faults,
    clock: Arc<dyn Clock>,
    /// Locked while an operation is performed and recorded for the lagging indexes, so that both see the same order.
    behind: Arc<tokio::sync::Mutex<Behind>>,
    /// Calls that arrive later, and when.
    stragglers: Arc<Mutex<Vec<(Timestamp, Call)>>>,
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty").field("inner", &self.inner).field("faults", &self.faults).finish_non_exhaustive()
    }
}

/// The state that lagging indexes show.
#[derive(Debug, Default)]
struct Behind {
    follower: Option<Box<dyn Dispatch>>,
    /// Writes not yet applied to the follower.
    owed: VecDeque<Owed>,
    calls: u64,
}

#[derive(Debug)]
struct Owed {
    call: Call,
    number: u64,
    at: Timestamp,
}

impl Faulty {
    /// Stands in front of `inner`. `seed` decides everything that happens by chance.
    pub fn new(inner: impl Dispatch, clock: impl Clock, seed: u64) -> Self {
        Self {
            inner: Arc::new(inner),
            faults: Faults::new(seed),
            clock: Arc::new(clock),
            behind: Arc::default(),
            stragglers: Arc::default(),
        }
    }

    /// Another access to the same DynamoDB, with its own faults. The faults of one do not affect the other.
    #[must_use]
    pub fn beside(&self, seed: u64) -> Self {
        Self { faults: Faults::new(seed), behind: Arc::default(), ..self.clone() }
    }

    /// The handle on the faults.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Performs `call`, unless a fault prevents it.
    ///
    /// # Errors
    /// When a fault leaves the caller without an answer.
    pub async fn call(&self, call: Call) -> Result<Answer, Broken> {
        let (fault, lag) = self.faults.next(&call.operation);
        for straggler in self.due() {
            self.perform(straggler, lag).await;
        }
        match fault {
            None => Ok(self.perform(call, lag).await),
            Some(Fault::Down) => Err(Broken::Refused),
            Some(Fault::Throttle) => Ok(refusal(
                400,
                "ProvisionedThroughputExceededException",
                "The level of configured provisioned throughput for the table was exceeded.",
            )),
            Some(Fault::Error) => Ok(refusal(500, "InternalServerError", "Internal server error")),
            Some(Fault::Slow(by)) => {
                self.clock.sleep(by).await;
                Ok(self.perform(call, lag).await)
            }
            Some(Fault::Late(by)) => {
                let answer = self.perform(call, lag).await;
                self.clock.sleep(by).await;
                Ok(answer)
            }
            Some(Fault::LoseAnswer) => {
                self.perform(call, lag).await;
                Err(Broken::Reset)
            }
            Some(Fault::Straggle(by)) => {
                self.lock_stragglers().push((self.clock.now() + by, call));
                Err(Broken::Reset)
            }
            Some(Fault::Hang) => pending().await,
            Some(Fault::Conflict) => match conflict(&call, None) {
                Some(answer) => Ok(answer),
                None => Ok(self.perform(call, lag).await),
            },
            Some(Fault::ConflictOn(prefix)) => match conflict(&call, Some(prefix)) {
                Some(answer) => Ok(answer),
                None => Ok(self.perform(call, lag).await),
            },
            Some(Fault::NoOldItem) => Ok(without_item(self.perform(call, lag).await)),
            Some(Fault::Denied) => {
                Ok(refusal(400, "AccessDeniedException", "not authorized to perform this operation"))
            }
            Some(Fault::Missing) => Ok(refusal(400, "ResourceNotFoundException", "Requested resource not found")),
        }
    }

    /// The delayed calls that have arrived by now, in the order of their arrival.
    fn due(&self) -> Vec<Call> {
        let mut stragglers = self.lock_stragglers();
        if stragglers.is_empty() {
            return Vec::new();
        }
        let now = self.clock.now();
        let (mut due, left): (Vec<_>, Vec<_>) = stragglers.drain(..).partition(|(at, _)| *at <= now);
        *stragglers = left;
        due.sort_by_key(|(at, _)| *at);
        due.into_iter().map(|(_, call)| call).collect()
    }

    fn lock_stragglers(&self) -> MutexGuard<'_, Vec<(Timestamp, Call)>> {
        telemetry::lock(&self.stragglers)
    }

    async fn perform(&self, call: Call, lag: Option<Lag>) -> Answer {
        let Some(lag) = lag else {
            let mut behind = self.behind.lock().await;
            if behind.follower.is_some() {
                *behind = Behind::default();
            }
            drop(behind);
            return self.inner.dispatch(call).await;
        };
        let mut behind = self.behind.lock().await;
        behind.calls += 1;
        if behind.follower.is_none() {
            match self.inner.follower() {
                Ok(follower) => behind.follower = Some(follower),
                Err(error) => return refusal(500, "InternalServerError", &error.to_string()),
            }
        }
        let now = self.clock.now();
        behind.catch_up(lag, now).await;
        if reads_index(&call)
            && let Some(follower) = &behind.follower
        {
            return follower.dispatch(call).await;
        }
        let answer = self.inner.dispatch(call.clone()).await;
        if answer.status == 200 && changes_something(&call.operation) {
            let number = behind.calls;
            behind.owed.push_back(Owed { call, number, at: now });
        }
        answer
    }
}

impl Behind {
    async fn catch_up(&mut self, lag: Lag, now: Timestamp) {
        while let Some(first) = self.owed.front() {
            let due = match lag {
                Lag::Calls(calls) => self.calls > first.number.saturating_add(calls),
                Lag::Time(time) => now >= first.at + time,
            };
            // A change of a table takes effect at once; only the contents lag.
            let of_a_table = first.call.operation.ends_with("Table") || first.call.operation == "UpdateTimeToLive";
            if !due && !of_a_table {
                return;
            }
            if let (Some(owed), Some(follower)) = (self.owed.pop_front(), &self.follower) {
                follower.dispatch(owed.call).await;
            }
        }
    }
}

fn reads_index(call: &Call) -> bool {
    if !matches!(call.operation.as_str(), "Query" | "Scan") {
        return false;
    }
    let request: Value = serde_json::from_slice(&call.body).unwrap_or_default();
    request.get("IndexName").is_some() && request.get("ConsistentRead") != Some(&Value::Bool(true))
}

fn changes_something(operation: &str) -> bool {
    is_plain_write(operation)
        || matches!(
            operation,
            "TransactWriteItems"
                | "ExecuteStatement"
                | "ExecuteTransaction"
                | "BatchExecuteStatement"
                | "CreateTable"
                | "UpdateTable"
                | "DeleteTable"
                | "UpdateTimeToLive"
        )
}

fn is_plain_write(operation: &str) -> bool {
    matches!(operation, "PutItem" | "UpdateItem" | "DeleteItem" | "BatchWriteItem")
}

/// The answer to a call when another transaction holds its first item, or those with a text that begins with `prefix`; `None` if
/// the call cannot conflict.
fn conflict(call: &Call, prefix: Option<&str>) -> Option<Answer> {
    const TEXT: &str = "Transaction is ongoing for the item";
    let request: Value = serde_json::from_slice(&call.body).ok()?;
    let held = |action: &Value| {
        let keys = action.get("Key").or_else(|| action.get("Item")).and_then(Value::as_object);
        let texts = keys.into_iter().flatten().filter_map(|(_, value)| value.get("S")?.as_str());
        prefix.is_some_and(|prefix| texts.into_iter().any(|text| text.starts_with(prefix)))
    };
    if is_plain_write(&call.operation) {
        let conflicts = prefix.is_none() || held(&request);
        return conflicts.then(|| refusal(400, "TransactionConflictException", TEXT));
    }
    if !matches!(call.operation.as_str(), "TransactWriteItems" | "TransactGetItems") {
        return None;
    }
    let items = request.get("TransactItems")?.as_array()?.iter().enumerate();
    let held: Vec<bool> = items
        .map(|(n, item)| match prefix {
            None => n == 0,
            Some(_) => item.as_object().into_iter().flatten().any(|(_, action)| held(action)),
        })
        .collect();
    if !held.contains(&true) {
        return None;
    }
    let code = |held: &bool| if *held { "TransactionConflict" } else { "None" };
    let reasons: Vec<Value> = held
        .iter()
        .map(|held| if *held { json!({"Code": code(held), "Message": TEXT}) } else { json!({"Code": code(held)}) })
        .collect();
    let codes: Vec<&str> = held.iter().map(code).collect();
    let body = json!({
        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "Message": format!(
            "Transaction cancelled, please refer cancellation reasons for specific reasons [{}]",
            codes.join(", ")
        ),
        "CancellationReasons": reasons,
    });
    Some(Answer { status: 400, body: body.to_string().into() })
}

fn without_item(answer: Answer) -> Answer {
    let Ok(Value::Object(mut body)) = serde_json::from_slice(&answer.body) else { return answer };
    if answer.status == 200 || body.remove("Item").is_none() {
        return answer;
    }
    Answer { status: answer.status, body: Value::Object(body).to_string().into() }
}

fn refusal(status: u16, exception: &str, message: &str) -> Answer {
    let body = json!({"__type": format!("com.amazonaws.dynamodb.v20120810#{exception}"), "message": message});
    Answer { status, body: body.to_string().into() }
}
