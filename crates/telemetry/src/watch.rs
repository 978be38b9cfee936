//! The library's observer: one log line and the numbers for every decision, at the moment of the decision.
//!
//! Do not rename the fields: the console draws the life of a key from them (`crates/console/src/life.rs`), and `ichidoctl trace` reads
//! `eventKey` and `fallbackMode`. `moment` says which event of the library a line is about. `dynamodbLatency` and `workMs` are in
//! milliseconds.

use std::time::Duration;

use ichido::StateKind;
use ichido::observe::{Decision, Event, Observer, Operation, Reason};

use crate::metric::{self, millis};

/// The target of its lines.
pub const TARGET: &str = module_path!();

/// Logs and counts what happens to keys. Pass one to `Builder::observer` of [`ichido::Once`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Watch;

impl Observer for Watch {
    fn observe(&self, event: &Event<'_>) {
        match event {
            Event::Decided { key, strength, decision, reason, store_latency, fallback, attempt, until, .. } => {
                let result = match (decision, reason) {
                    (Decision::New, _) => "new",
                    (Decision::Duplicate, Reason::InFlight) => "in flight",
                    (Decision::Duplicate, _) => "duplicate",
                };
                match result {
                    "new" => metric::NEW_KEYS.add(1),
                    "duplicate" => metric::DUPLICATES.add(1),
                    _ => metric::IN_FLIGHT.add(1),
                }
                match reason {
                    Reason::TakenOver => metric::TAKE_OVERS.add(1),
                    Reason::DifferentPayload => metric::MISMATCHES.add(1),
                    _ => {}
                }
                count_call(*store_latency);
                let reason = reason.name();
                tracing::info!(
                    moment = "decided",
                    event_key = %key,
                    namespace = key.namespace().name(),
                    result,
                    reason,
                    strength = strength.name(),
                    dynamodb_latency = store_latency.map(millis),
                    fallback_mode = fallback,
                    owner = attempt.map(|attempt| attempt.owner.as_str()),
                    fence = attempt.map(|attempt| attempt.fence),
                    lease_end = attempt.map(|attempt| tracing::field::display(attempt.lease_end)),
                    until = until.map(tracing::field::display),
                    "checked {key}: {result} ({reason})"
                );
            }
            Event::Doubted { key, fence, .. } => {
                tracing::info!(moment = "doubted", event_key = %key, fence, "an earlier worker may have performed {key}; this claim has fence {fence}");
            }
            Event::Probed { key, fence, done, .. } => {
                if *done {
                    metric::PROBED.add(1);
                    tracing::info!(moment = "probed", event_key = %key, fence, done, "the destination says that {key} was performed; not repeating it");
                } else {
                    tracing::info!(moment = "probed", event_key = %key, fence, done, "the destination says that {key} was not performed; performing it");
                }
            }
            Event::Renewed { key, attempt, .. } => {
                let (fence, lease_end) = (attempt.fence, attempt.lease_end);
                tracing::debug!(moment = "renewed", event_key = %key, fence, lease_end = %lease_end, "renewed the claim on {key} until {lease_end}");
            }
            Event::Worked { key, fence, done, took, .. } => {
                if *done {
                    tracing::debug!(moment = "worked", event_key = %key, fence, done, work_ms = millis(*took), "performed {key}");
                } else {
                    tracing::debug!(moment = "worked", event_key = %key, fence, done, work_ms = millis(*took), "the work on {key} ended without an outcome; it may have performed {key}");
                }
            }
            Event::Settled { key, fence, state, store_latency, .. } => {
                if *state == StateKind::Failed {
                    metric::FAILED_WORK.add(1);
                }
                count_call(*store_latency);
                let state = state.name();
                tracing::debug!(moment = "settled", event_key = %key, fence, state, dynamodb_latency = store_latency.map(millis), "settled the claim on {key} as {state}");
            }
            Event::Fenced { key, fence, .. } => {
                metric::SUPERSEDED.add(1);
                tracing::warn!(moment = "fenced", event_key = %key, fence, "a late worker tried to settle {key} with fence {fence}; its claim had been taken over, so nothing was changed");
            }
            Event::StoreFailed { key, operation, error, .. } => {
                // The others (renewals, reads, reconciliations) are not counted when they succeed.
                if matches!(
                    operation,
                    Operation::Mark | Operation::Claim | Operation::Complete | Operation::Fail | Operation::Release
                ) {
                    metric::STORE_CALLS.add(1);
                    metric::STORE_ERRORS.add(1);
                }
                let operation = operation.name();
                tracing::error!(moment = "store failed", event_key = %key, operation, kind = error.kind().name(), error = *error as &(dyn std::error::Error + 'static), "the store failed in {operation} for {key}");
            }
            Event::BreakerOpened => {
                tracing::error!(
                    moment = "breaker opened",
                    "calls to DynamoDB failed several times in a row; this instance treats it as down and asks it again from time to time"
                );
            }
            Event::BreakerClosed => {
                tracing::info!(
                    moment = "breaker closed",
                    "DynamoDB answers again; this instance no longer treats it as down"
                );
            }
            Event::AdmittedWithoutStore { key, .. } => {
                metric::FALLBACK_ADMISSIONS.add(1);
                tracing::warn!(moment = "admitted without store", event_key = %key, fallback_mode = true, "admitted {key} without asking the store, because the store is down");
            }
            Event::Unrecorded { key, .. } => {
                metric::UNRECORDED.add(1);
                tracing::warn!(moment = "unrecorded", event_key = %key, "performed {key}, but could not record its outcome in the store");
            }
            Event::JournalFull { key, .. } => {
                metric::JOURNAL_FULL.add(1);
                tracing::error!(moment = "journal full", event_key = %key, "the local memory for outages is full; could not remember {key}");
            }
            Event::Reconciled { key, conflict, .. } => {
                metric::RECONCILED.add(1);
                if *conflict {
                    metric::DOUBLE_ADMISSIONS.add(1);
                    tracing::warn!(moment = "reconciled", event_key = %key, conflict, "{key} was admitted during the outage by this instance and by another one");
                } else {
                    tracing::info!(moment = "reconciled", event_key = %key, conflict, "wrote {key}, which was admitted during the outage, to the store");
                }
            }
            other => tracing::debug!(event = ?other, "the library reported an event that has no message of its own"),
        }
    }
}

/// Counts a call that the store answered.
fn count_call(latency: Option<Duration>) {
    if let Some(latency) = latency {
        metric::STORE_CALLS.add(1);
        metric::STORE_LATENCY.took(latency);
    }
}
