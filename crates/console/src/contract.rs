//! What each address under `/_console/` answers. `docs/console.md` describes the same for people.
//!
//! Times are RFC 3339 in UTC with milliseconds. Members that are `null` or missing are not known to the back end.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The names of the capabilities.
pub mod capability {
    pub const OVERVIEW: &str = "overview";
    pub const KEYS: &str = "keys";
    pub const DEAD_LETTERS: &str = "deadLetters";
    pub const SCHEDULES: &str = "schedules";
    pub const ALARMS: &str = "alarms";
    pub const METRICS: &str = "metrics";
    pub const ROLLOUTS: &str = "rollouts";
    pub const COST: &str = "cost";
    pub const HISTORY: &str = "history";
    /// The overview can also ask the logs, which takes seconds and costs money.
    pub const INSIGHTS: &str = "insights";
    /// `/_console/events` streams what happens.
    pub const LIVE: &str = "live";
    /// `POST /_console/changes` is allowed.
    pub const CHANGES: &str = "changes";
    /// The local platform: faults can be injected, the time of alarms can be moved (`/_local/*`).
    pub const LOCAL: &str = "local";
}

/// `GET /_console/frame`: what the front end needs to draw itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Frame {
    /// `local`, `dev`, `staging`, `prod`.
    pub environment: String,
    /// What the back end has; see [`capability`].
    pub capabilities: Vec<String>,
    /// The pages, in the order of the menu. Filled in by the router.
    #[serde(default)]
    pub pages: Vec<PageLink>,
    /// Who the changes are made as, and logged as. Only with `changes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Addresses worth knowing, for people.
    #[serde(default)]
    pub addresses: Vec<Address>,
    /// What can be broken on purpose. Only with `local`.
    #[serde(default)]
    pub breakable: Vec<String>,
    /// Pages ask again at most this often, because each question costs something. Without it, as often as they like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_seconds: Option<u32>,
}

/// A page of the menu.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PageLink {
    pub name: String,
    pub title: String,
    /// `/keys/{namespace}/{key}`: parts in braces are parameters.
    pub path: String,
    /// The group of the menu. Empty: not in the menu.
    pub group: String,
}

/// An address worth knowing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Address {
    pub what: String,
    pub url: String,
}

/// One value per step, oldest first. `None`: not known.
pub type Series = Vec<Option<f64>>;

/// `GET /_console/overview?minutes=5`: the last minutes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// When this was measured.
    pub at: String,
    /// When the first step begins.
    pub from: String,
    pub step_seconds: u32,
    pub rates: Rates,
    /// One per function.
    #[serde(default)]
    pub latency: Vec<Latency>,
    #[serde(default)]
    pub store: Option<StoreCalls>,
    /// One per function that has one.
    #[serde(default)]
    pub breakers: Vec<Breaker>,
    /// Faults and outages that overlap with the window.
    #[serde(default)]
    pub outages: Vec<Outage>,
    /// Alarms by state: `ALARM`, `OK`, `INSUFFICIENT_DATA`.
    #[serde(default)]
    pub alarms: BTreeMap<String, u64>,
    #[serde(default)]
    pub dead_letters: Option<u64>,
}

/// How much happened per step.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rates {
    /// Requests.
    #[serde(default)]
    pub arrived: Series,
    /// Keys that were seen for the first time.
    #[serde(default)]
    pub new: Series,
    /// Keys whose effect had been performed before.
    #[serde(default)]
    pub duplicate: Series,
    /// Keys that another worker held.
    #[serde(default)]
    pub in_flight: Series,
    /// Effects that left the system.
    #[serde(default)]
    pub effects: Series,
    /// Invocations that failed.
    #[serde(default)]
    pub failures: Series,
}

/// How long a function took, in milliseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    pub function: String,
    /// How many invocations in the window.
    pub count: u64,
    /// Over the whole window.
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    /// Per step.
    #[serde(default)]
    pub p50_by_step: Series,
    #[serde(default)]
    pub p99_by_step: Series,
}

/// The library's calls to the store.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreCalls {
    /// Per step.
    pub calls: Series,
    pub errors: Series,
    /// In milliseconds, over the whole window.
    pub p50: Option<f64>,
    pub p99: Option<f64>,
}

/// What a function does when the store does not answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Breaker {
    pub function: String,
    /// True: the store failed several times in a row and is not asked for a while.
    pub open: bool,
    /// Since when.
    pub since: Option<String>,
    /// Keys that were admitted or performed without the store and are still to be written to it.
    pub journal: u64,
    /// How often the journal was full.
    pub journal_full: u64,
}

/// A time in which something was broken: injected, or seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outage {
    /// `dynamodb`, `slack`, …
    pub what: String,
    /// `down`, `throttle`, `breaker open`, …
    pub how: String,
    pub from: String,
    /// `None`: it lasts.
    pub to: Option<String>,
}

/// The query of `GET /_console/keys`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeyQuery {
    /// A part of the key.
    pub text: String,
    /// Only this application's.
    pub application: String,
    /// Only in this state: `claimed`, `completed`, `failed`, `released`.
    pub state: String,
    /// At most this many; the back end has an upper bound.
    pub limit: Option<usize>,
}

/// `GET /_console/keys`: the records that were found, the last changed first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Keys {
    pub keys: Vec<Record>,
    /// How many items were read.
    pub examined: u64,
    /// False: there may be more.
    pub whole: bool,
    /// The applications that can be asked for.
    pub applications: Vec<String>,
    /// Why some tables could not be read: one sentence each.
    #[serde(default)]
    pub unread: Vec<String>,
}

/// The record of a key.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub application: String,
    pub namespace: String,
    pub key: String,
    /// `claimed`, `completed`, `failed`, `released`.
    pub state: String,
    /// What the state means now, in a sentence.
    pub words: String,
    pub owner: Option<String>,
    /// How many claims there were.
    pub fence: Option<u64>,
    pub lease_until: Option<String>,
    pub changed_at: Option<String>,
    pub expires_at: Option<String>,
    #[serde(default)]
    pub expired: bool,
    /// The recorded outcome. A back end may leave it out, because it can contain personal data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Value>,
    pub outcome_bytes: Option<u64>,
    /// What the application keeps with it.
    #[serde(default)]
    pub attributes: Map<String, Value>,
}

/// `GET /_console/keys/NAMESPACE/KEY`: everything that is known about a key.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Life {
    pub namespace: String,
    /// The key as it is stored.
    pub key: String,
    /// When this was read.
    pub at: String,
    /// Its record, in each table that has one.
    pub records: Vec<Record>,
    /// The claims, oldest first.
    pub attempts: Vec<Attempt>,
    /// Calls that were not allowed to perform the effect, oldest first.
    pub duplicates: Vec<Duplicate>,
    /// Every line about the key, oldest first.
    pub moments: Vec<Moment>,
    /// What was broken meanwhile.
    pub outages: Vec<Outage>,
    /// False: there were more lines than are shown, or older ones are gone.
    pub whole: bool,
}

/// A claim, and what became of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Who: the invocation's request id.
    pub worker: String,
    pub function: String,
    /// `run`, `mark`, `join`.
    pub strength: String,
    pub owner: Option<String>,
    /// 0: admitted by the local memory, while the store was down.
    pub fence: Option<u64>,
    pub claimed_at: String,
    /// When its lease ended or ends, renewals included. `None`: it has no lease.
    pub lease_end: Option<String>,
    pub renewals: Vec<Renewal>,
    /// An earlier holder may have performed the effect.
    pub taken_over: bool,
    /// The store was down.
    pub fallback: bool,
    pub probe: Option<Probe>,
    pub work: Option<Work>,
    /// `None`: nothing more was heard of it.
    pub end: Option<End>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Renewal {
    pub at: String,
    pub lease_end: String,
}

/// The destination was asked whether the effect had been performed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    pub asked_at: String,
    pub answered_at: Option<String>,
    /// `None`: no answer.
    pub done: Option<bool>,
}

/// The work. If it is done, the effect happened between `from` and `to`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Work {
    pub from: String,
    pub to: String,
    pub done: bool,
}

/// How a claim ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    pub at: String,
    /// `completed`, `failed`, `released`, `unrecorded` (performed, but not written to the store yet), or `refused`: it came too late.
    pub how: String,
}

/// A call that was told not to perform the effect.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Duplicate {
    pub at: String,
    pub worker: String,
    pub function: String,
    /// `completed`, `in flight`, `failed`, `different payload`, `doubtful`, `tombstone`.
    pub told: String,
    /// In flight: until when.
    pub until: Option<String>,
    /// The local memory decided.
    pub fallback: bool,
}

/// A line about the key.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Moment {
    pub at: String,
    /// `decided`, `doubted`, `probed`, `worked`, `settled`, `fenced`, …; empty for other lines of the application.
    pub what: String,
    pub level: String,
    pub text: String,
    pub worker: String,
    pub function: String,
    pub fence: Option<u64>,
}

/// `GET /_console/dead-letters`
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetters {
    /// Oldest first.
    pub letters: Vec<DeadLetter>,
    /// Why some could not be read: one sentence each.
    pub unread: Vec<String>,
}

/// A delivery that was given up, kept with its reason.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    pub application: String,
    pub id: String,
    /// The queue or the table that holds it.
    pub place: String,
    pub function: String,
    pub at: String,
    pub attempts: Option<u64>,
    pub what: String,
    pub reason: String,
    /// What would be sent again.
    pub payload: Value,
    /// The keys that its lines name.
    pub keys: Vec<KeyName>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeyName {
    pub namespace: String,
    pub key: String,
}

/// One of `GET /_console/schedules`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    pub name: String,
    /// `rate(5 minutes)`
    pub expression: String,
    pub enabled: bool,
    pub next: Option<String>,
    pub last: Option<String>,
}

/// One of `GET /_console/alarms`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Alarm {
    pub name: String,
    /// `ALARM`, `OK`, `INSUFFICIENT_DATA`.
    pub state: String,
    pub since: Option<String>,
    /// Why it is in this state.
    pub reason: String,
    /// What it means, in a sentence.
    pub meaning: String,
    /// The name of its runbook, for `/_console/runbooks/NAME`.
    pub runbook: Option<String>,
    pub metric: String,
    pub statistic: String,
    pub period_seconds: u64,
    pub evaluation_periods: u32,
    pub datapoints_to_alarm: u32,
    /// `GreaterThanThreshold`, …
    pub comparison: String,
    pub threshold: f64,
    /// One per period, oldest first.
    pub points: Series,
    pub actions_enabled: bool,
}

/// `GET /_console/runbooks/NAME`
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Runbook {
    pub name: String,
    pub path: String,
    pub markdown: String,
}

/// One of `GET /_console/metrics`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metric {
    pub namespace: String,
    pub name: String,
    pub dimensions: BTreeMap<String, String>,
    pub unit: String,
    pub count: u64,
    pub sum: f64,
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    pub max: Option<f64>,
    /// Sums per minute, oldest first.
    #[serde(default)]
    pub minutes: Series,
}

/// `GET /_console/rollouts`: which version of each function is live, and which would be.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollouts {
    /// Those that move first, then those that would move.
    pub functions: Vec<Rollout>,
    /// Why some could not be read: one sentence each.
    pub unread: Vec<String>,
}

/// Where a function stands.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    pub function: String,
    /// `settled`; `moving`: a rollout is under way; `foreign`: somebody moved traffic without a rollout.
    pub state: String,
    /// The version that has the traffic, or the larger part of it.
    pub live: u64,
    /// The version that gets traffic, or would get it. `None`: nothing would move.
    pub to: Option<u64>,
    /// How much of the traffic `to` has.
    pub percent: u8,
    /// The steps in percent, and how long each is watched. Empty: not known.
    #[serde(default)]
    pub steps: Vec<u8>,
    pub bake_seconds: Option<u64>,
    /// Moving: when the rollout last wrote a sign of life.
    pub beat_at: Option<String>,
    /// Moving: the alarms that are watched, and what `to` did in the last quarter of an hour.
    #[serde(default)]
    pub alarms: Vec<WatchedAlarm>,
    pub invocations: Option<u64>,
    pub errors: Option<u64>,
    /// What to know about it, in a sentence.
    pub note: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WatchedAlarm {
    pub name: String,
    /// `None`: there is no such alarm, or nobody looked.
    pub state: Option<String>,
}

/// `GET /_console/cost`: what a month costs by the project's own model (`make cost`).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    pub environment: String,
    pub region: String,
    pub lines: Vec<CostLine>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CostLine {
    pub application: String,
    /// `service`, `observability`, `protection`.
    pub part: String,
    pub resource: String,
    pub what: String,
    pub quantity: f64,
    /// US dollars per month.
    pub dollars: f64,
}

/// `GET /_console/history`: what happened to Slack's events. It is what `ichidoctl slack report --json` prints.
pub type History = Value;

/// `POST /_console/changes`. Each is made only if what was shown is still true.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Change {
    /// Releases a claim whose worker is gone. `fence`: as it was shown. `not_done`: somebody looked, and the effect did not happen.
    ReleaseKey {
        application: String,
        key: String,
        fence: u64,
        reason: String,
        #[serde(default)]
        not_done: bool,
    },
    /// Sends a dead letter again. Here and below, an empty `reason` means that nobody gave one.
    RedriveDeadLetter {
        application: String,
        id: String,
        #[serde(default)]
        reason: String,
    },
    /// Deletes a dead letter.
    DropDeadLetter {
        application: String,
        id: String,
        #[serde(default)]
        reason: String,
    },
    /// Runs a schedule now; answers when it is done.
    RunSchedule { name: String },
    PauseSchedule {
        name: String,
        #[serde(default)]
        reason: String,
    },
    ResumeSchedule {
        name: String,
        #[serde(default)]
        reason: String,
    },
}

/// What a change answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Changed {
    /// What was done, in a sentence.
    pub message: String,
}

/// One message of `GET /_console/events`: `id` and `at`, a `kind`, and what belongs to the kind.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    pub id: u64,
    pub at: String,
    /// `request`, `decision`, `outbox`, `invocation`, `dead-letter`, `schedule`, `faults`, `alarm`, `log`, …
    pub kind: String,
    #[serde(flatten)]
    pub what: Value,
}
