//! Every metric that our functions send, by name. Alarms also watch metrics that AWS sends itself.
//!
//! All are in the namespace `Ichido` with the dimension `FunctionName` (the deployed name, `-ENV` included outside
//! production). A few are also published with a second dimension, by [`Metric::with`]. AWS charges for each metric and each
//! combination of dimensions every month, so add one only if somebody will look at it.

use std::time::Duration;

use crate::emf::Measurement;
use crate::scope;

/// What a value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Count,
    Milliseconds,
    Bytes,
    None,
}

impl Unit {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Count => "Count",
            Self::Milliseconds => "Milliseconds",
            Self::Bytes => "Bytes",
            Self::None => "None",
        }
    }
}

/// A metric. The constants of this module are the only ones.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    name: &'static str,
    unit: Unit,
    /// Written at once instead of at the end of the invocation.
    urgent: bool,
}

/// A second dimension beside the function's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dimension {
    pub(crate) name: &'static str,
    pub(crate) value: String,
}

/// A metric with a second dimension.
#[derive(Clone, Debug)]
pub struct Dimensioned {
    metric: Metric,
    dimension: Dimension,
}

impl Metric {
    const fn count(name: &'static str) -> Self {
        Self { name, unit: Unit::Count, urgent: false }
    }

    const fn millis(name: &'static str) -> Self {
        Self { name, unit: Unit::Milliseconds, urgent: false }
    }

    const fn gauge(name: &'static str) -> Self {
        Self { name, unit: Unit::None, urgent: false }
    }

    const fn urgent(mut self) -> Self {
        self.urgent = true;
        self
    }

    /// The name in CloudWatch.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The unit in CloudWatch.
    pub const fn unit(&self) -> Unit {
        self.unit
    }

    /// Adds `n` to the count.
    pub fn add(self, n: u64) {
        self.put(n as f64);
    }

    /// Records a duration.
    pub fn took(self, duration: Duration) {
        self.put(millis(duration));
    }

    /// Records a value.
    pub fn put(self, value: f64) {
        scope::record(Measurement { metric: self, dimension: None, value }, self.urgent);
    }

    /// The same metric with a second dimension. Use few values: each one is billed.
    pub fn with(self, name: &'static str, value: impl Into<String>) -> Dimensioned {
        Dimensioned { metric: self, dimension: Dimension { name, value: value.into() } }
    }
}

impl Dimensioned {
    /// Adds `n` to the count.
    pub fn add(self, n: u64) {
        self.put(n as f64);
    }

    /// Records a duration.
    pub fn took(self, duration: Duration) {
        self.put(millis(duration));
    }

    /// Records a value.
    pub fn put(self, value: f64) {
        let Self { metric, dimension } = self;
        scope::record(Measurement { metric, dimension: Some(dimension), value }, metric.urgent);
    }
}

/// Milliseconds with three decimals; more would be noise.
pub(crate) fn millis(duration: Duration) -> f64 {
    rounded_millis(duration, 3)
}

/// A duration in milliseconds, rounded to so many decimals.
pub fn rounded_millis(duration: Duration, decimals: u8) -> f64 {
    let scale = 10_f64.powi(i32::from(decimals));
    (duration.as_secs_f64() * (1e3 * scale)).round() / scale
}

// --- the library: what happened to keys -----------------------------------------------------------------------

/// Keys that were seen for the first time. With [`DUPLICATES`] it gives the duplicate rate.
pub const NEW_KEYS: Metric = Metric::count("NewKeys");
/// Keys whose effect had been performed before.
pub const DUPLICATES: Metric = Metric::count("Duplicates");
/// Keys that another worker held.
pub const IN_FLIGHT: Metric = Metric::count("InFlight");
/// Claims that were taken over from a worker whose lease had ended.
pub const TAKE_OVERS: Metric = Metric::count("TakeOvers");
/// Take-overs in which the destination answered that the effect had been performed.
pub const PROBED: Metric = Metric::count("Probed");
/// The same key with another payload.
pub const MISMATCHES: Metric = Metric::count("Mismatches");
/// Work that failed permanently and is recorded as failed.
pub const FAILED_WORK: Metric = Metric::count("FailedWork");
/// Completions and releases that came after the claim had been taken over.
pub const SUPERSEDED: Metric = Metric::count("Superseded");
/// Effects that were performed but whose outcome could not be recorded.
pub const UNRECORDED: Metric = Metric::count("Unrecorded");
/// Calls to the store. With [`STORE_ERRORS`] it gives the store's error rate.
pub const STORE_CALLS: Metric = Metric::count("StoreCalls");
/// Calls to the store that failed.
pub const STORE_ERRORS: Metric = Metric::count("StoreErrors");
/// How long calls to the store took.
pub const STORE_LATENCY: Metric = Metric::millis("StoreLatency");
/// 1 while the store is considered down, 0 when it is back.
pub const FALLBACK_ACTIVE: Metric = Metric::gauge("FallbackActive");
/// Keys admitted by the local memory while the store was down: each could be admitted elsewhere too. Written at once.
pub const FALLBACK_ADMISSIONS: Metric = Metric::count("FallbackAdmissions").urgent();
/// Keys admitted during an outage that were found in the store, or written to it, afterwards.
pub const RECONCILED: Metric = Metric::count("Reconciled");
/// Keys admitted during an outage that another instance had admitted as well.
pub const DOUBLE_ADMISSIONS: Metric = Metric::count("DoubleAdmissions").urgent();
/// Keys refused, or outcomes not kept, because the memory for outages was full.
pub const JOURNAL_FULL: Metric = Metric::count("JournalFull").urgent();
/// Conflicts in the store: two transactions wanted one item.
pub const CONFLICTS: Metric = Metric::count("Conflicts");

// --- every function -------------------------------------------------------------------------------------------

/// Invocations that ended in an error which the handler returned.
pub const FAILURES: Metric = Metric::count("Failures");
/// How long an HTTPS function took to answer a request.
pub const DOOR_LATENCY: Metric = Metric::millis("DoorLatency");
/// Requests that an HTTPS function refused: bad signature, token or form.
pub const DOOR_REFUSALS: Metric = Metric::count("DoorRefusals");

// --- slack ----------------------------------------------------------------------------------------------------

/// Deliveries that Slack marked as a repeat.
pub const SLACK_RETRIES: Metric = Metric::count("SlackRetries");
/// Events acknowledged without an effect: not file events, or our own.
pub const SLACK_EVENTS_IGNORED: Metric = Metric::count("SlackEventsIgnored");
/// Events that were handed over to be handled.
pub const SLACK_HAND_OVERS: Metric = Metric::count("SlackHandOvers");
/// Hand-overs that Lambda did not accept; Slack is asked to send the event again.
pub const SLACK_HAND_OVER_FAILURES: Metric = Metric::count("SlackHandOverFailures");
/// Replies posted.
pub const SLACK_REPLIES: Metric = Metric::count("SlackReplies");
/// Calls that Slack refused because of its rate limit.
pub const SLACK_RATE_LIMITED: Metric = Metric::count("SlackRateLimited");
/// Slack could not say whether a reply was there; nothing was posted.
pub const SLACK_PROBE_FAILURES: Metric = Metric::count("SlackProbeFailures");

// --- feeds ----------------------------------------------------------------------------------------------------

/// Feeds that were read, also if unchanged. An alarm rings if no feed was read for three periods.
pub const FEED_READS: Metric = Metric::count("FeedReads");
/// Feeds that could not be fetched.
pub const FEED_FETCH_FAILURES: Metric = Metric::count("FeedFetchFailures");
/// Feeds that were fetched but could not be read.
pub const FEED_UNREADABLE: Metric = Metric::count("FeedUnreadable");
/// Reads in which no entry was known, so some entries may have been missed.
pub const FEED_GAPS: Metric = Metric::count("FeedGaps");
/// Entries skipped because they were broken.
pub const ENTRIES_BROKEN: Metric = Metric::count("EntriesBroken");
/// Entries seen for the first time.
pub const ENTRIES_NEW: Metric = Metric::count("EntriesNew");
/// Entries that a filter left out.
pub const ENTRIES_IGNORED: Metric = Metric::count("EntriesIgnored");
/// Entries recognised as known under a new id.
pub const ENTRIES_RENAMED: Metric = Metric::count("EntriesRenamed");
/// Entries still owed when a run ended.
pub const ENTRIES_OWED: Metric = Metric::gauge("EntriesOwed");
/// Deliveries made; also by `Destination`.
pub const DELIVERIES: Metric = Metric::count("Deliveries");
/// Deliveries that failed and will be tried again; also by `Destination`.
pub const DELIVERY_FAILURES: Metric = Metric::count("DeliveryFailures");
/// How long a destination took; also by `Destination`.
pub const DELIVERY_LATENCY: Metric = Metric::millis("DeliveryLatency");
/// Deliveries that became dead letters; also by `Destination`.
pub const DEAD_LETTERS: Metric = Metric::count("DeadLetters");
/// How long a run of a subscriber took.
pub const RUN_DURATION: Metric = Metric::millis("RunDuration");

// --- tokens ---------------------------------------------------------------------------------------------------

/// Transfers committed.
pub const TRANSFERS: Metric = Metric::count("Transfers");
/// Transfers answered from their record.
pub const TRANSFER_REPLAYS: Metric = Metric::count("TransferReplays");
/// Requests that used the idempotency key of a different transfer.
pub const TRANSFER_MISMATCHES: Metric = Metric::count("TransferMismatches");
/// Transfers refused; also by `Code`.
pub const TRANSFER_REFUSALS: Metric = Metric::count("TransferRefusals");
/// Transfers that met a conflict in the store and were sent again.
pub const TRANSFER_CONFLICTS: Metric = Metric::count("TransferConflicts");
/// Transfers whose result could not be determined in time; they were answered with 503.
pub const TRANSFERS_UNRESOLVED: Metric = Metric::count("TransfersUnresolved");
/// How long a transfer took.
pub const TRANSFER_LATENCY: Metric = Metric::millis("TransferLatency");
/// Accounts opened; each got its initial grant.
pub const ACCOUNTS_OPENED: Metric = Metric::count("AccountsOpened");

// --- mesh -----------------------------------------------------------------------------------------------------

/// Groups created.
pub const GROUPS_CREATED: Metric = Metric::count("GroupsCreated");
/// Groups dissolved.
pub const GROUPS_DISSOLVED: Metric = Metric::count("GroupsDissolved");
/// Requests refused; also by `ErrorType`.
pub const MESH_REFUSALS: Metric = Metric::count("MeshRefusals");
/// Days until the API key of the mesh ends.
pub const MESH_API_KEY_DAYS_LEFT: Metric = Metric::gauge("MeshApiKeyDaysLeft");
/// How long a mesh operation took; also by `Operation`.
pub const MESH_LATENCY: Metric = Metric::millis("MeshLatency");
