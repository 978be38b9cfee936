//! The subscriber's half of a delivery: invokes the notifier for every owed entry, and writes down what became of it.
//!
//! Promise: an entry stays owed until every one of its deliveries is made, ignored or a dead letter. A run that dies here leaves
//! the entry owed; the next run invokes the notifier again, whose claims tell what was already done.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use ichido::{Clock, Timestamp};
use telemetry::metric;

use super::message::{DeliveryResult, Request};
use crate::{
    outside::invoke::{self, Invoke},
    table::{self, Delivery, Marker, Pending, Table, order_after_try},
};

/// A delivery is not begun if less time than this is left.
const SHORTEST_DELIVERY: Duration = Duration::from_secs(2);
pub(crate) const DAY_SECS: u64 = 24 * 3_600;

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
}

/// What is needed to deliver owed entries.
pub struct Deliverer {
    pub table: Table,
    pub notifier: Arc<dyn Invoke>,
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
        let results: Vec<Result<Option<Marker>, table::Error>> = stream::iter(owed)
            .map(|marker| async move {
                if until.since(self.clock.now()) < SHORTEST_DELIVERY {
                    return Ok(None);
                }
                self.deliver(marker, until).await.map(Some)
            })
            .buffer_unordered(self.parallel.max(1))
            .collect()
            .await;
        let mut tally = Tally::default();
        let mut result = Ok(());
        for delivered in results {
            match delivered {
                Ok(Some(marker)) if marker.pending != Some(Pending::Owed) => {
                    tally.settled += 1;
                    tally.dead += usize::from(marker.pending == Some(Pending::Dead));
                }
                Ok(_) => {}
                Err(error) => result = Err(error),
            }
        }
        tally.owed = total - tally.settled;
        (tally, result)
    }

    async fn deliver(&self, marker: Marker, until: Timestamp) -> Result<Marker, table::Error> {
        let request = Request::of(&marker);
        let answer = invoke::invoke(&*self.notifier, &request, &self.clock, until).await;
        let now = self.clock.now();
        let reports = match answer {
            Ok(response) => response.deliveries,
            Err(error) => {
                let entry_id = marker.entry.id.as_str();
                tracing::warn!(entry_id, error = %error, "could not deliver entry {entry_id}; it stays owed: {error}");
                Vec::new()
            }
        };
        let give_up = self.give_up;
        let settled = self
            .table
            .settle(&marker, now, |marker| {
                for report in &reports {
                    apply(marker, &report.destination, &report.result, give_up, now);
                }
                give_up_old(marker, give_up, now);
                marker.conclude();
                marker.pending_order = order_after_try(now, &marker.pending_order);
                if marker.pending != Some(Pending::Owed) {
                    marker.resent = false;
                }
            })
            .await?;
        report_dead(&marker, &settled);
        Ok(settled)
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
            metric::DEAD_LETTERS.with("Destination", destination.clone()).add(1);
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
        DeliveryResult::Failed { reason, .. } => Delivery::Owed { refusals, reason: reason.clone() },
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
