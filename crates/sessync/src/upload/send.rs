//! Step 4: send batches, a few at a time, each until it is known what became of it.
//!
//! Promise: rows are sent again only after BigQuery said that they are not there. A refusal has no effect. After a
//! failure that may have had an effect, BigQuery is asked.
//!
//! BigQuery can be asked too early: it shows streamed rows only after some seconds. For about a minute it still
//! remembers their `insertId`s, and a batch that is sent again is sent with the same ones.

use std::time::Duration;

use futures::StreamExt as _;
use futures::future::LocalBoxFuture;
use futures::stream::FuturesUnordered;

use super::batch::Batch;
use super::patience::{Backoff, Patience};
use super::{Error, Run};
use crate::clock::{Clock, Time};
use crate::journal::disk::Disk;
use crate::journal::record::{Intent, Record};
use crate::outside::bigquery::{self, BigQuery, Effect, Inserted, Rows};
use crate::outside::transport::Transport;
use crate::source::line::uuid_half;

/// How many batches may be in flight at once.
const MAX_FLIGHTS: usize = 4;
/// How many bytes of rows may be in flight at once. This bounds the memory.
const MAX_FLYING_BYTES: usize = 10 * 1024 * 1024;
/// How long one batch is tried.
const BATCH_PATIENCE: Duration = Duration::from_secs(5 * 60);

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// BigQuery has every row.
    Accepted,
    /// BigQuery has only these rows.
    Partly(Vec<usize>),
    /// BigQuery has no row. These rows can never be inserted; the others can.
    Invalid(Vec<(usize, String)>),
    /// BigQuery has no row. It may accept fewer at a time.
    TooLarge,
    /// BigQuery has no row. It refused the whole request and does not say because of which row.
    Refused(String),
}

/// A batch that could not be delivered.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub(crate) struct Undelivered {
    #[source]
    pub(crate) error: bigquery::Error,
    /// Whether BigQuery may have its rows all the same.
    pub(crate) uncertain: bool,
}

type Flight<'a> = LocalBoxFuture<'a, (Batch, Result<Delivery, Undelivered>)>;

/// The batches that are in flight.
#[derive(Default)]
pub(super) struct Flights<'a> {
    batches: FuturesUnordered<Flight<'a>>,
    bytes: usize,
}

impl<'a> Flights<'a> {
    pub(super) fn are_left(&self) -> bool {
        !self.batches.is_empty()
    }

    fn have_room_for(&self, bytes: usize, most: usize) -> bool {
        self.batches.is_empty() || (self.batches.len() < most && self.bytes + bytes <= MAX_FLYING_BYTES)
    }

    fn add(&mut self, bytes: usize, flight: Flight<'a>) {
        self.bytes += bytes;
        self.batches.push(flight);
    }

    /// Waits for one batch to arrive.
    pub(super) async fn next(&mut self) -> Option<(Batch, Result<Delivery, Undelivered>)> {
        let (batch, delivery) = self.batches.next().await?;
        self.bytes -= batch.bytes();
        Some((batch, delivery))
    }
}

impl<T: Transport, C: Clock, D: Disk> Run<'_, T, C, D> {
    /// Sends the batch that is being filled, as soon as there is room for it.
    pub(super) async fn send_open_batch(&mut self) -> Result<(), Error> {
        if self.open.is_empty() {
            return Ok(());
        }
        let most = if self.with.shared.is_some() { 1 } else { MAX_FLIGHTS };
        while !self.flights.have_room_for(self.open.bytes(), most) {
            self.settle_next().await?;
        }
        if self.failed.is_some() {
            return Ok(());
        }
        // Written first: the intent's marks say that the lines that were met again are read.
        self.write_met()?;
        let id = self.new_id();
        let batch = self.open.seal(id, self.with.clock.now());
        let marks = std::mem::take(&mut self.so_far.marks).into_values().collect();
        self.with.journal.append(&Record::Intent(Intent {
            batch: batch.id.clone(),
            at: batch.at,
            keys: batch.keys(),
            span: batch.span(),
            marks,
        }))?;
        self.send(batch).await
    }

    /// Sends a batch whose intent is in the journal.
    pub(super) async fn send(&mut self, batch: Batch) -> Result<(), Error> {
        if self.failed.is_some() {
            // Its intent stays: the next run will find that BigQuery has none of its rows.
            return Ok(());
        }
        if let Some(shared) = self.with.shared {
            return Box::pin(self.send_shared(shared, batch)).await;
        }
        let (bigquery, clock, patience) = (self.with.bigquery, self.with.clock, self.batch_patience());
        let (bytes, doubtful) = (batch.bytes(), self.doubtful());
        let seed = self.with.rng.u64(..);
        let flight = async move {
            let delivery = deliver(bigquery, clock, &batch, &doubtful, patience, seed).await;
            (batch, delivery)
        };
        self.flights.add(bytes, Box::pin(flight));
        Ok(())
    }

    /// Batches that were not found, but whose rows may still arrive.
    pub(super) fn doubtful(&self) -> Vec<String> {
        self.with.journal.state().doubtful.iter().map(|(batch, _)| batch.clone()).collect()
    }

    pub(super) fn batch_patience(&self) -> Patience {
        Patience { until: self.with.options.patience.until.min(self.with.clock.elapsed() + BATCH_PATIENCE) }
    }

    pub(super) fn new_id(&mut self) -> String {
        uuid::Builder::from_random_bytes(self.with.rng.u128(..).to_be_bytes()).into_uuid().to_string()
    }
}

/// Sends a batch until it is known what became of it. `doubtful` are earlier batches in which its rows may have been
/// accepted.
pub(crate) async fn deliver<T: Transport, C: Clock>(
    bigquery: &BigQuery<T>,
    clock: &C,
    batch: &Batch,
    doubtful: &[String],
    patience: Patience,
    seed: u64,
) -> Result<Delivery, Undelivered> {
    let mut backoff = Backoff::new(seed);
    let request = batch.request();
    let mut uncertain = false;
    loop {
        let error = match bigquery.insert(request.clone(), clock.now(), patience.request(clock)).await {
            Ok(Inserted::All) => return Ok(Delivery::Accepted),
            Ok(Inserted::None(errors)) => {
                let invalid: Vec<(usize, String)> = errors
                    .into_iter()
                    .filter(|error| error.invalid && error.row < batch.rows.len())
                    .map(|error| (error.row, error.why))
                    .collect();
                if !invalid.is_empty() {
                    return Ok(Delivery::Invalid(invalid));
                }
                // All were stopped and none is invalid: that passes.
                bigquery::Error::Throttled { message: "the rows were stopped".to_owned(), after: None }
            }
            Err(bigquery::Error::TooLarge) => return Ok(Delivery::TooLarge),
            Err(bigquery::Error::Refused(why)) => return Ok(Delivery::Refused(why)),
            Err(error) => error,
        };
        let effect = error.effect();
        uncertain |= effect == Effect::Uncertain;
        if error.is_final() || !backoff.wait(error.retry_after(), patience, clock).await {
            return Err(Undelivered { error, uncertain });
        }
        if uncertain {
            let mut batches = vec![batch.id.as_str()];
            batches.extend(doubtful.iter().map(String::as_str));
            let there = ask(bigquery, clock, &batches, batch.span(), patience, backoff.rng.u64(..))
                .await
                .map_err(|error| Undelivered { error, uncertain: true })?;
            let present = present(&batch.uuids(), there);
            if present.len() == batch.rows.len() {
                return Ok(Delivery::Accepted);
            }
            if !present.is_empty() {
                return Ok(Delivery::Partly(present));
            }
            uncertain = false;
        }
    }
}

/// Asks BigQuery which rows of these batches it has, again and again while that can help.
pub(crate) async fn ask<T: Transport, C: Clock>(
    bigquery: &BigQuery<T>,
    clock: &C,
    batches: &[&str],
    span: Option<(Time, Time)>,
    patience: Patience,
    seed: u64,
) -> Result<Rows, bigquery::Error> {
    let mut backoff = Backoff::new(seed);
    loop {
        match bigquery.rows_of_batches(batches, span, clock.now(), patience.request(clock)).await {
            Ok(rows) => return Ok(rows),
            // A question has no effect, so it may always be asked again. Here that would not help.
            Err(error) if error.is_final() => return Err(error),
            Err(error) => {
                if !backoff.wait(error.retry_after(), patience, clock).await {
                    return Err(error);
                }
            }
        }
    }
}

/// Which rows, given by the halves of their keys that come from uuids, are among those that BigQuery has.
pub(super) fn present(uuids: &[u64], there: Rows) -> Vec<usize> {
    let mut left = std::collections::HashMap::<u64, u64>::new();
    for (uuid, count) in there {
        *left.entry(uuid_half(&uuid)).or_default() += count;
    }
    let mut rows = Vec::new();
    for (at, uuid) in uuids.iter().enumerate() {
        if let Some(count) = left.get_mut(uuid).filter(|count| **count > 0) {
            *count -= 1;
            rows.push(at);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rows_with_one_uuid_are_found_only_as_often_as_they_are_there() {
        let uuid = uuid_half("a");
        let there = Rows::from([("a".to_owned(), 1)]);
        assert_eq!(present(&[uuid, 7, uuid], there), [0]);
    }
}
