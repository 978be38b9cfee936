//! The library's observer: seed 1's log line and metrics for every decision, at the moment it happens.

use std::time::Duration;

use ichido::observe::{Decision, Event, Observer};

use crate::metric;

/// Writes down what happens to keys. Give one to `Once::observer`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Watch;

impl Observer for Watch {
    fn observe(&self, event: &Event<'_>) {
        match event {
            Event::Decided { key, strength, decision, reason, store_latency, fallback } => {
                let result = match (decision, *reason) {
                    (Decision::New, _) => "new",
                    (Decision::Duplicate, "in flight") => "in flight",
                    (Decision::Duplicate, _) => "duplicate",
                };
                match result {
                    "new" => metric::NEW_KEYS.add(1),
                    "duplicate" => metric::DUPLICATES.add(1),
                    _ => metric::IN_FLIGHT.add(1),
                }
                match *reason {
                    "taken over" => metric::TAKE_OVERS.add(1),
                    "different payload" => metric::MISMATCHES.add(1),
                    _ => {}
                }
                if *fallback {
                    metric::FALLBACK_ACTIVE.put(1.0);
                }
                asked(*store_latency);
                tracing::info!(
                    event_key = %key,
                    result,
                    reason,
                    strength = strength.name(),
                    dynamodb_latency = store_latency.map(millis),
                    fallback_mode = fallback,
                    "Deduplication check"
                );
            }
            Event::Doubted { key, fence } => {
                tracing::info!(event_key = %key, fence, "an earlier worker may have done this");
            }
            Event::Probed { key, done } => {
                if *done {
                    metric::PROBED.add(1);
                }
                tracing::info!(event_key = %key, done, "the destination was asked");
            }
            Event::Settled { key, state, store_latency } => {
                if *state == "failed" {
                    metric::FAILED_WORK.add(1);
                }
                asked(*store_latency);
                tracing::debug!(event_key = %key, state, dynamodb_latency = store_latency.map(millis), "claim settled");
            }
            Event::Fenced { key, fence } => {
                metric::SUPERSEDED.add(1);
                tracing::warn!(event_key = %key, fence, "a late worker changed nothing: its claim had been taken over");
            }
            Event::StoreFailed { key, operation, error } => {
                metric::STORE_CALLS.add(1);
                metric::STORE_ERRORS.add(1);
                tracing::error!(event_key = %key, operation, kind = error.kind().name(), error = *error as &(dyn std::error::Error + 'static), "the store failed");
            }
            Event::BreakerOpened => {
                metric::FALLBACK_ACTIVE.put(1.0);
                tracing::error!("the store is considered down");
            }
            Event::BreakerClosed => {
                metric::FALLBACK_ACTIVE.put(0.0);
                tracing::info!("the store is back");
            }
            Event::AdmittedWithoutStore { key } => {
                metric::FALLBACK_ADMISSIONS.add(1);
                tracing::warn!(event_key = %key, fallback_mode = true, "admitted without the store");
            }
            Event::Unrecorded { key } => {
                metric::UNRECORDED.add(1);
                tracing::warn!(event_key = %key, "done, but the store could not be told");
            }
            Event::JournalFull { key } => {
                metric::JOURNAL_FULL.add(1);
                tracing::error!(event_key = %key, "there is no room left to remember keys without the store");
            }
            Event::Reconciled { key, conflict } => {
                metric::RECONCILED.add(1);
                if *conflict {
                    metric::DOUBLE_ADMISSIONS.add(1);
                }
                tracing::info!(event_key = %key, conflict, "a key of the outage was brought to the store");
            }
            other => tracing::debug!(event = ?other, "the library reports"),
        }
    }
}

/// A call that the store answered.
fn asked(latency: Option<Duration>) {
    if let Some(latency) = latency {
        metric::STORE_CALLS.add(1);
        metric::STORE_LATENCY.took(latency);
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
