//! One batch to the destination: sent until it is known what became of it.
//!
//! Promise: rows are sent again only when the destination said that they are not there. A refusal is a
//! refusal; a failure that leaves it uncertain whether the rows were accepted is followed by the question.
//!
//! The question can come too early: BigQuery shows streamed rows after moments, not at once. Within those
//! moments it still remembers the `insertId`s, and a batch that is sent again is sent with the same ones.

use std::time::Duration;

use crate::bigquery::{BigQuery, Effect, Error, Inserted, Rows};
use crate::clock::{Clock, Time};
use crate::digest::Key;
use crate::row::Row;
use crate::transport::Transport;

/// A request stays under BigQuery's 10 MB.
pub const MAX_REQUEST_BYTES: usize = 9 * 1024 * 1024;
/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The first wait before another attempt is at most this, then twice that, ...
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
/// ... up to this.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Rows that are sent together.
#[derive(Debug, Clone)]
pub struct Batch {
    pub id: String,
    pub at: Time,
    pub rows: Vec<Row>,
}

impl Batch {
    pub fn keys(&self) -> Vec<Key> {
        self.rows.iter().map(|row| row.key).collect()
    }

    pub fn bytes(&self) -> usize {
        self.rows.iter().map(Row::bytes).sum()
    }

    /// From the earliest to the latest row; `None` if one of them does not say when it was.
    pub fn span(&self) -> Option<(Time, Time)> {
        let mut span: Option<(Time, Time)> = None;
        for row in &self.rows {
            let time = row.time?;
            span = Some(span.map_or((time, time), |(from, to)| (from.min(time), to.max(time))));
        }
        span
    }

    fn request(&self) -> String {
        let mut text = String::with_capacity(self.bytes() + 2);
        text.push('[');
        for (at, row) in self.rows.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            row.write(&self.id, self.at, &mut text);
        }
        text.push(']');
        text
    }
}

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// Every row is there.
    Accepted,
    /// Some rows are there: these.
    Partly(Vec<usize>),
    /// No row is there. These can never be; the others can.
    Invalid(Vec<(usize, String)>),
    /// No row is there; fewer at a time may be taken.
    TooLarge,
    /// No row is there. The request was refused as a whole, and BigQuery does not say because of which row.
    Refused(String),
}

/// A batch that could not be delivered.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Undelivered {
    #[source]
    pub error: Error,
    /// Whether its rows may be there all the same.
    pub uncertain: bool,
}

/// How long to go on.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// By [`Clock::elapsed`].
    pub until: Duration,
}

impl Patience {
    /// What is left for one request.
    fn request<C: Clock>(self, clock: &C) -> Duration {
        self.left(clock).min(REQUEST_TIMEOUT)
    }

    pub fn left<C: Clock>(self, clock: &C) -> Duration {
        self.until.saturating_sub(clock.elapsed())
    }

    pub fn is_over<C: Clock>(self, clock: &C) -> bool {
        self.left(clock).is_zero()
    }
}

/// Waits between attempts: doubling, with jitter, and as long as the other side asks.
#[derive(Debug)]
struct Backoff {
    attempt: u32,
    rng: fastrand::Rng,
}

impl Backoff {
    /// The next wait.
    fn next(&mut self, asked: Option<Duration>) -> Duration {
        let most = FIRST_BACKOFF.saturating_mul(1 << self.attempt.min(10)).min(MAX_BACKOFF);
        self.attempt += 1;
        let jittered = most.mul_f64(0.5 + self.rng.f64() / 2.0);
        asked.map_or(jittered, |asked| asked.max(jittered))
    }

    /// Waits; false if there is no time left for it.
    async fn wait<C: Clock>(&mut self, asked: Option<Duration>, patience: Patience, clock: &C) -> bool {
        let time = self.next(asked);
        if time >= patience.left(clock) {
            return false;
        }
        clock.sleep(time).await;
        true
    }
}

/// Sends a batch. `doubtful` are earlier batches in which its rows may have been accepted.
pub async fn deliver<T: Transport, C: Clock>(
    bigquery: &BigQuery<T>,
    clock: &C,
    batch: &Batch,
    doubtful: &[String],
    patience: Patience,
    seed: u64,
) -> Result<Delivery, Undelivered> {
    let mut backoff = Backoff { attempt: 0, rng: fastrand::Rng::with_seed(seed) };
    let request = batch.request();
    let mut uncertain = false;
    loop {
        let error = match bigquery.insert(&request, clock.now(), patience.request(clock)).await {
            Ok(Inserted::All) => return Ok(Delivery::Accepted),
            Ok(Inserted::Refused(refusals)) => {
                let invalid: Vec<(usize, String)> = refusals
                    .into_iter()
                    .filter(|refusal| refusal.invalid && refusal.row < batch.rows.len())
                    .map(|refusal| (refusal.row, refusal.why))
                    .collect();
                if !invalid.is_empty() {
                    return Ok(Delivery::Invalid(invalid));
                }
                // All stopped, none invalid: a passing failure.
                Error::Throttled { message: "the rows were stopped".to_owned(), after: None }
            }
            Err(Error::TooLarge) => return Ok(Delivery::TooLarge),
            Err(Error::Refused(why)) => return Ok(Delivery::Refused(why)),
            Err(error) => error,
        };
        let effect = error.effect();
        uncertain |= effect == Effect::Uncertain;
        if effect == Effect::None || !backoff.wait(error.retry_after(), patience, clock).await {
            return Err(Undelivered { error, uncertain });
        }
        if uncertain {
            let mut batches = vec![batch.id.as_str()];
            batches.extend(doubtful.iter().map(String::as_str));
            let there = ask(bigquery, clock, &batches, batch.span(), patience, backoff.rng.u64(..))
                .await
                .map_err(|error| Undelivered { error, uncertain: true })?;
            let found = found(&batch.keys_and_uuids(), there);
            if found.len() == batch.rows.len() {
                return Ok(Delivery::Accepted);
            }
            if !found.is_empty() {
                return Ok(Delivery::Partly(found));
            }
            uncertain = false;
        }
    }
}

impl Batch {
    fn keys_and_uuids(&self) -> Vec<u64> {
        self.rows.iter().map(|row| row.key.uuid()).collect()
    }
}

/// Asks which rows of these batches are there, trying again while that may help.
pub async fn ask<T: Transport, C: Clock>(
    bigquery: &BigQuery<T>,
    clock: &C,
    batches: &[&str],
    span: Option<(Time, Time)>,
    patience: Patience,
    seed: u64,
) -> Result<Rows, Error> {
    let mut backoff = Backoff { attempt: 0, rng: fastrand::Rng::with_seed(seed) };
    loop {
        match bigquery.rows_of_batches(batches, span, clock.now(), patience.request(clock)).await {
            Ok(rows) => return Ok(rows),
            // A question has no effect: asking again is always safe.
            Err(error) if error.effect() == Effect::None => return Err(error),
            Err(error) => {
                if !backoff.wait(error.retry_after(), patience, clock).await {
                    return Err(error);
                }
            }
        }
    }
}

/// Which of the rows, given by the halves of their keys that come from uuids, are among those found.
pub fn found(uuids: &[u64], there: Rows) -> Vec<usize> {
    let mut left = std::collections::HashMap::<u64, u64>::new();
    for (uuid, count) in there {
        *left.entry(crate::digest::uuid_half(&uuid)).or_default() += count;
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
    fn waits_double_with_jitter_and_are_never_shorter_than_asked() {
        let mut backoff = Backoff { attempt: 0, rng: fastrand::Rng::with_seed(1) };
        let waits: Vec<Duration> = (0..12).map(|_| backoff.next(None)).collect();
        for (at, wait) in waits.iter().enumerate() {
            let most = FIRST_BACKOFF.saturating_mul(1 << at.min(10)).min(MAX_BACKOFF);
            assert!(*wait <= most && *wait >= most / 2, "{at}: {wait:?}");
        }
        assert_eq!(backoff.next(Some(Duration::from_secs(99))), Duration::from_secs(99));
    }

    #[test]
    fn two_rows_with_one_uuid_are_found_only_as_often_as_they_are_there() {
        let uuid = crate::digest::uuid_half("a");
        let there = Rows::from([("a".to_owned(), 1)]);
        assert_eq!(found(&[uuid, 7, uuid], there), [0]);
    }
}
