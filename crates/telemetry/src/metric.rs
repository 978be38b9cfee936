//! Every number that our functions report, by name.
//!
//! All numbers of an invocation are fields of one log line, which costs next to nothing: the dashboard asks CloudWatch Logs
//! Insights for them. Only the few that an alarm watches ([`Metric::alarmed`]) also become metrics of CloudWatch, in the namespace
//! `Ichido` with the dimension `FunctionName` (the deployed name, `-ENV` included outside production). AWS charges for each of them
//! in every hour in which it is sent, so they are sent only when something is wrong. Prefer an alarm on a metric that AWS sends itself.

use std::time::Duration;

use crate::scope;

/// A number. The constants of this module are the only ones.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    name: &'static str,
    /// Also sent to CloudWatch, because an alarm watches it.
    alarmed: bool,
    /// Written at once instead of at the end of the invocation.
    urgent: bool,
}

impl Metric {
    const fn count(name: &'static str) -> Self {
        Self { name, alarmed: false, urgent: false }
    }

    /// Milliseconds.
    const fn millis(name: &'static str) -> Self {
        Self::count(name)
    }

    const fn alarmed(mut self) -> Self {
        self.alarmed = true;
        self
    }

    const fn urgent(mut self) -> Self {
        self.urgent = true;
        self
    }

    /// The name in the log, and in CloudWatch.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Whether CloudWatch gets it as a metric.
    pub const fn is_alarmed(&self) -> bool {
        self.alarmed
    }

    pub(crate) const fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// Adds `n`. Nothing is reported of a sum that is zero.
    pub fn add(self, n: u64) {
        scope::record(self, n as f64);
    }

    /// Adds a duration.
    pub fn took(self, duration: Duration) {
        scope::record(self, millis(duration));
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
/// Calls to the store that claim or settle a key: every one of them, and no others. With [`STORE_ERRORS`] it gives the store's error
/// rate.
pub const STORE_CALLS: Metric = Metric::count("StoreCalls");
/// Those of [`STORE_CALLS`] that failed.
pub const STORE_ERRORS: Metric = Metric::count("StoreErrors");
/// How long those of [`STORE_CALLS`] that succeeded took, together.
pub const STORE_LATENCY: Metric = Metric::millis("StoreLatency");
/// Keys admitted by the local memory while the store was down: each could be admitted elsewhere too. Written at once.
pub const FALLBACK_ADMISSIONS: Metric = Metric::count("FallbackAdmissions").alarmed().urgent();
/// Keys admitted during an outage that were found in the store, or written to it, afterwards.
pub const RECONCILED: Metric = Metric::count("Reconciled");
/// Keys admitted during an outage that another instance had admitted as well.
pub const DOUBLE_ADMISSIONS: Metric = Metric::count("DoubleAdmissions").urgent();
/// Keys refused, or outcomes not kept, because the memory for outages was full.
pub const JOURNAL_FULL: Metric = Metric::count("JournalFull").urgent();
/// Conflicts in the store: two transactions wanted one item.
pub const CONFLICTS: Metric = Metric::count("Conflicts");

// --- functions behind HTTPS -----------------------------------------------------------------------------------

/// Requests that were answered with 500, because something is wrong with the function or its table.
pub const FAILURES: Metric = Metric::count("Failures").alarmed();
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

/// Feeds that were read, also if unchanged or not due.
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
pub const ENTRIES_OWED: Metric = Metric::count("EntriesOwed");
/// Deliveries made. The line about each delivery names its destination.
pub const DELIVERIES: Metric = Metric::count("Deliveries");
/// Deliveries that failed and will be tried again.
pub const DELIVERY_FAILURES: Metric = Metric::count("DeliveryFailures");
/// Deliveries that became dead letters.
pub const DEAD_LETTERS: Metric = Metric::count("DeadLetters");

// --- tokens ---------------------------------------------------------------------------------------------------

/// Transfers committed.
pub const TRANSFERS: Metric = Metric::count("Transfers");
/// Transfers answered from their record.
pub const TRANSFER_REPLAYS: Metric = Metric::count("TransferReplays");
/// Requests that used the idempotency key of a different transfer.
pub const TRANSFER_MISMATCHES: Metric = Metric::count("TransferMismatches");
/// Transfers refused. The line about each names the code.
pub const TRANSFER_REFUSALS: Metric = Metric::count("TransferRefusals");
/// Transfers that met a conflict in the store and were sent again.
pub const TRANSFER_CONFLICTS: Metric = Metric::count("TransferConflicts").alarmed();
/// Transfers whose result could not be determined in time; they were answered with 503.
pub const TRANSFERS_UNRESOLVED: Metric = Metric::count("TransfersUnresolved").alarmed();
/// How long a transfer took.
pub const TRANSFER_LATENCY: Metric = Metric::millis("TransferLatency");
/// Accounts opened; each got its initial grant.
pub const ACCOUNTS_OPENED: Metric = Metric::count("AccountsOpened");

// --- mesh -----------------------------------------------------------------------------------------------------

/// Groups created.
pub const GROUPS_CREATED: Metric = Metric::count("GroupsCreated");
/// Groups dissolved.
pub const GROUPS_DISSOLVED: Metric = Metric::count("GroupsDissolved");
/// Requests refused. The line about each names the error.
pub const MESH_REFUSALS: Metric = Metric::count("MeshRefusals");
/// How long a mesh operation took.
pub const MESH_LATENCY: Metric = Metric::millis("MeshLatency");
