//! The subscriber's half of a delivery: invokes the notifier for every owed entry, and writes down what became of it.
//!
//! Promise: an entry stays owed until every one of its deliveries is made, ignored or a dead letter. A run that dies here leaves
//! the entry owed; the next run invokes the notifier again, whose claims tell what was already done.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use ichido::{Clock, Timestamp};
use telemetry::metric;

use super::message::{DeliveryReport, DeliveryResult, Request, Response};
use crate::{
    entry::prefix,
    outside::invoke::{self, Invoke},
    table::{self, Delivery, Marker, Pending, Table, order_after_try},
};

/// A delivery is not begun if less time than this is left.
const SHORTEST_DELIVERY: Duration = Duration::from_secs(2);
pub(crate) const DAY_SECS: u64 = 24 * 3_600;
/// How much is kept of what an invocation failed with, in bytes.
const MAX_REASON: usize = 300;

/// When a delivery is given up.
#[derive(Debug, Clone, Copy)]
pub struct GiveUp {
    /// After so many refusals.
    pub refusals: u32,
    /// After it was owed for so long.
    pub owed_for: Duration,
}

impl Default for GiveUp {
    fn default() -> Self {
        GiveUp { refusals: 5, owed_for: Duration::from_secs(14 * DAY_SECS) }
    }
}

/// How many entries a run settled, and how many it left owed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Entries with no delivery left to make.
    pub(crate) settled: usize,
    /// Those of them that have a dead letter.
    pub(crate) dead: usize,
    pub(crate) owed: usize,
    /// Since when the oldest of those that are still owed is owed.
    pub(crate) oldest: Option<Timestamp>,
}

/// What is needed to deliver owed entries.
pub struct Deliverer {
    pub table: Table,
    pub notifier: Arc<dyn Invoke>,
    /// The feed's entry of the list, for the notifier; null for a feed with functions of its own.
    pub feed: serde_json::Value,
    /// The destinations that are known without the notifier. If it does not answer, they are what is owed, so that giving up reaches them.
    pub destinations: Vec<String>,
    pub give_up: GiveUp,
    /// How many entries are delivered at the same time.
    pub parallel: usize,
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Deliverer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deliverer").field("give_up", &self.give_up).finish_non_exhaustive()
    }
}

impl Deliverer {
    /// Delivers everything that is owed, a few entries at a time, until no time is left. The tally is right also if the table failed.
    pub(crate) async fn deliver_all(&self, owed: Vec<Marker>, until: Timestamp) -> (Tally, Result<(), table::Error>) {
        let total = owed.len();
        let results: Vec<(Option<Timestamp>, _)> = stream::iter(owed)
            .map(|marker| async move {
                let since = marker.owed_since;
                if until.since(self.clock.now()) < SHORTEST_DELIVERY {
                    return (since, Ok(None));
                }
                (since, self.deliver(marker, until).await.map(Some))
            })
            .buffer_unordered(self.parallel.max(1))
            .collect()
            .await;
        let mut tally = Tally::default();
        let mut result = Ok(());
        for (since, delivered) in results {
            match delivered {
                Ok(Some(marker)) if marker.pending != Some(Pending::Owed) => {
                    tally.settled += 1;
                    tally.dead += usize::from(marker.pending == Some(Pending::Dead));
                    continue;
                }
                Ok(_) => {}
                Err(error) => result = Err(error),
            }
            tally.oldest = tally.oldest.into_iter().chain(since).min();
        }
        tally.owed = total - tally.settled;
        (tally, result)
    }

    async fn deliver(&self, marker: Marker, until: Timestamp) -> Result<Marker, table::Error> {
        let request = Request::of(&marker, &self.feed);
        let answer = invoke::invoke(&*self.notifier, &request, &self.clock, until).await;
        let now = self.clock.now();
        let reports = match answer {
            Ok(response) => {
                let gone = marker.owed_but(&response);
                response.deliveries.into_iter().chain(gone).collect()
            }
            Err(error) => {
                let entry_id = marker.entry.id.as_str();
                tracing::warn!(entry_id, error = %error, "could not deliver entry {entry_id}; it stays owed: {error}");
                self.not_answered(&error)
            }
        };
        let give_up = self.give_up;
        let conclude = |marker: &mut Marker| {
            for report in &reports {
                apply(marker, &report.destination, &report.result, give_up, now);
            }
            give_up_old(marker, give_up, now);
            marker.conclude();
            marker.pending_order = order_after_try(now, &marker.pending_order);
            if marker.pending != Some(Pending::Owed) {
                (marker.resent, marker.doubtful) = (false, false);
            }
        };
        // Noted before it is so: a run that dies in between leaves a note too many, not a dead letter that nobody is told of.
        let mut concluded = marker.clone();
        conclude(&mut concluded);
        if concluded.pending == Some(Pending::Dead) {
            self.table.note_dead(now).await?;
        }
        let settled = self.table.settle(&marker, now, conclude).await?;
        report_dead(&marker, &settled);
        Ok(settled)
    }
}

impl Deliverer {
    /// What is known of the deliveries if the notifier did not answer: each is owed, for this reason.
    fn not_answered(&self, error: &invoke::Error) -> Vec<DeliveryReport> {
        let error = error.to_string();
        let result = DeliveryResult::failed(prefix(&error, MAX_REASON), None);
        let report = |destination: &String| DeliveryReport { destination: destination.clone(), result: result.clone() };
        self.destinations.iter().map(report).collect()
    }
}

impl Marker {
    /// The owed deliveries that an answer does not mention. The notifier mentions every destination that it has, so these are no
    /// destinations any more.
    fn owed_but(&self, answer: &Response) -> Vec<DeliveryReport> {
        let mentioned = |destination: &str| answer.deliveries.iter().any(|report| report.destination == destination);
        let owed =
            self.deliveries.iter().filter(|(destination, delivery)| delivery.is_owed() && !mentioned(destination));
        let reason = "it is no longer a destination of this feed";
        let ignored = || DeliveryResult::Ignored { reason: reason.to_owned() };
        owed.map(|(destination, _)| DeliveryReport { destination: destination.clone(), result: ignored() }).collect()
    }
}

/// Counts and logs the deliveries that became dead letters.
fn report_dead(before: &Marker, after: &Marker) {
    let entry_id = after.entry.id.as_str();
    for (destination, delivery) in &after.deliveries {
        let was_dead = matches!(before.deliveries.get(destination), Some(Delivery::Dead { .. }));
        if let Delivery::Dead { reason, .. } = delivery
            && !was_dead
        {
            metric::DEAD_LETTERS.add(1);
            tracing::error!(
                entry_id,
                destination,
                result = "dead",
                error = reason,
                "gave up the delivery of entry {entry_id} to {destination}; it is a dead letter now: {reason}"
            );
        }
    }
}

/// Writes one result into the marker. What is settled stays settled.
fn apply(marker: &mut Marker, destination: &str, result: &DeliveryResult, give_up: GiveUp, now: Timestamp) {
    let (refusals, last) = match marker.deliveries.get(destination) {
        Some(Delivery::Owed { refusals, reason }) => (*refusals, reason.clone()),
        Some(_) => return,
        None => (0, String::new()),
    };
    let delivery = match result {
        DeliveryResult::Delivered { id } => Delivery::Delivered { at: now, id: id.clone() },
        DeliveryResult::Ignored { reason } => Delivery::Ignored { reason: reason.clone() },
        DeliveryResult::Shadow { text } => Delivery::Shadow { at: now, text: text.clone() },
        DeliveryResult::Unsure { reason } => Delivery::Dead { at: now, reason: reason.clone() },
        DeliveryResult::Refused { reason } if refusals + 1 >= give_up.refusals => {
            Delivery::Dead { at: now, reason: format!("refused {} times: {reason}", refusals + 1) }
        }
        DeliveryResult::Refused { reason } => Delivery::Owed { refusals: refusals + 1, reason: reason.clone() },
        DeliveryResult::Failed { reason, .. } | DeliveryResult::Misconfigured { reason } => {
            Delivery::Owed { refusals, reason: reason.clone() }
        }
        DeliveryResult::InFlight => Delivery::Owed { refusals, reason: last },
    };
    marker.deliveries.insert(destination.to_owned(), delivery);
}

/// Gives up what was owed for too long, so that a person looks at it.
fn give_up_old(marker: &mut Marker, give_up: GiveUp, now: Timestamp) {
    let owed_for = marker.owed_since.map_or(Duration::ZERO, |since| now.since(since));
    if owed_for < give_up.owed_for {
        return;
    }
    let days = owed_for.as_secs() / DAY_SECS;
    for delivery in marker.deliveries.values_mut() {
        if let Delivery::Owed { reason, .. } = delivery {
            *delivery = Delivery::Dead { at: now, reason: format!("given up after {days} days: {reason}") };
        }
    }
}
