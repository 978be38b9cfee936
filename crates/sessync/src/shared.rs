//! What several machines know together: a log of batches on DynamoDB, a record a batch.
//!
//! The log of a destination is numbered from 0. To send a batch is to claim the next number and to upload the
//! rows under the batch id that belongs to it; the claim's outcome is the rows' keys. Whoever finds the number
//! taken learns those keys, leaves out what it has in common with them, and tries the next one. So no two
//! machines send one line: the numbers are the order in which they take turns.
//!
//! A machine that dies with a number claimed leaves it to the next one when its lease is over. That one
//! asks the destination for the rows under the number's batch id, and records what it finds.
//! Records are kept for good: a machine that is new to the log reads it from its beginning.

use std::time::Duration;

use ichido::dynamodb::{DynamoDb, Table};
use ichido::{Failure, Namespace, Once, Probed};
use serde::{Deserialize, Serialize};

use crate::bigquery::BigQuery;
use crate::clock::Clock;
use crate::deliver::{self, Batch, Delivery, Patience, Undelivered, deliver};
use crate::digest::{self, Key};
use crate::transport::Transport;

/// The table's partition key and its time to live, as everywhere in this workspace.
pub const PARTITION_KEY: &str = "event_key";
pub const TTL: &str = "ttl";
/// Rows in a batch at most: their keys must fit into a record.
pub const MAX_ROWS: usize = 2000;
/// How long a batch may take while its number is claimed ...
const BATCH_TIME: Duration = Duration::from_secs(90);
/// ... and how long the claim lasts: longer, so that a batch that is given up is known to be.
const LEASE: Duration = Duration::from_secs(120);

/// Why the log could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the shared state cannot be reached: {0}")]
    Store(String),
    #[error("another machine is uploading; try again later")]
    Busy,
    #[error("the record of batch {0} in the shared state holds no keys")]
    Unreadable(u64),
    #[error("the shared state cannot be asked about this destination: {0}")]
    Key(#[from] ichido::key::Error),
}

/// Why a batch was not sent.
#[derive(Debug)]
pub enum Failed {
    Undelivered(Undelivered),
    Shared(Error),
}

/// Whose batch has the number.
#[derive(Debug)]
pub enum Appended {
    /// This one, and what became of it. The number is taken only if it was accepted.
    Ours(Delivery),
    /// Another one, with these rows.
    Theirs(Vec<Key>),
}

/// The log.
#[derive(Debug)]
pub struct Shared {
    once: Once<DynamoDb>,
    namespace: Namespace,
    destination: String,
}

/// What a number's record holds.
#[derive(Serialize, Deserialize)]
struct Uploaded {
    #[serde(with = "digest::text")]
    keys: Vec<Key>,
}

/// Why the work under a claim did not end in an acceptance.
#[derive(Debug)]
enum NotAccepted {
    Delivery(Delivery),
    Undelivered(Undelivered),
}

impl std::fmt::Display for NotAccepted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NotAccepted::Delivery(_) => f.write_str("the batch is split"),
            NotAccepted::Undelivered(error) => error.fmt(f),
        }
    }
}

impl Shared {
    pub fn new(client: aws_sdk_dynamodb::Client, table: &str, destination: &str) -> Shared {
        let table = Table::new(table, PARTITION_KEY).ttl(TTL);
        Self::on(Once::new(DynamoDb::new(client, table)), destination)
    }

    /// On a store and a clock of the caller's.
    pub fn on(once: Once<DynamoDb>, destination: &str) -> Shared {
        Shared {
            once,
            namespace: Namespace::new("SESSYNC").forever().lease(LEASE).fail_closed(),
            destination: destination.to_owned(),
        }
    }

    /// The batch id that belongs to a number.
    pub fn batch_id(&self, number: u64) -> String {
        let name = format!("sessync:{}:{number}", self.destination);
        uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_URL, name.as_bytes()).to_string()
    }

    /// Uploads a batch under a number, unless the number is taken. The batch must bear the number's id.
    pub async fn append<T: Transport, C: Clock>(
        &self,
        number: u64,
        bigquery: &BigQuery<T>,
        clock: &C,
        batch: &Batch,
        patience: Patience,
        seed: u64,
    ) -> Result<Appended, Failed> {
        let key = self
            .namespace
            .key([self.destination.as_str(), &number.to_string()])
            .map_err(|error| Failed::Shared(error.into()))?;
        let left = patience.left(clock);
        let limited = Patience { until: (clock.elapsed() + BATCH_TIME).min(patience.until) };
        let done = self
            .once
            .run(&key)
            .attribute("batch_id", batch.id.as_str())
            .wait_until(self.once.now() + left)
            .probe(|_| async move {
                let there = deliver::ask(bigquery, clock, &[&batch.id], None, limited, seed)
                    .await
                    .map_err(|error| NotAccepted::Undelivered(Undelivered { error, uncertain: true }))?;
                if there.is_empty() {
                    return Ok(Probed::NotDone);
                }
                // The destination knows uuids and how many rows each has, not their keys.
                let keys = there.iter().flat_map(|(uuid, count)| (0..*count).map(|_| Key::unknown(uuid, 0))).collect();
                Ok(Probed::Done(Uploaded { keys }))
            })
            .work(|_| async move {
                match deliver(bigquery, clock, batch, &[], limited, seed).await {
                    Ok(Delivery::Accepted) => Ok(Uploaded { keys: batch.keys() }),
                    // What is there of it stays under this id; the rest goes on under the same number.
                    Ok(delivery) => Err(Failure::Retry(NotAccepted::Delivery(delivery))),
                    Err(error) if error.uncertain => Err(Failure::Uncertain(NotAccepted::Undelivered(error))),
                    Err(error) => Err(Failure::Retry(NotAccepted::Undelivered(error))),
                }
            })
            .await;
        match done {
            Ok(done) if done.is_fresh() => Ok(Appended::Ours(Delivery::Accepted)),
            Ok(done) => match done.value {
                Some(uploaded) => Ok(Appended::Theirs(uploaded.keys)),
                None => Err(Failed::Shared(Error::Unreadable(number))),
            },
            Err(ichido::Error::Work(NotAccepted::Delivery(delivery))) => Ok(Appended::Ours(delivery)),
            Err(ichido::Error::Work(NotAccepted::Undelivered(error))) => Err(Failed::Undelivered(error)),
            Err(ichido::Error::Probe(NotAccepted::Undelivered(error))) => Err(Failed::Undelivered(error)),
            Err(ichido::Error::InFlight { .. }) => Err(Failed::Shared(Error::Busy)),
            // Sent and accepted, though nobody else may know of it yet: ours all the same. The next run that
            // takes the number over asks the destination and finds it.
            Err(ichido::Error::Superseded | ichido::Error::Unrecorded(_)) => Ok(Appended::Ours(Delivery::Accepted)),
            Err(error) => Err(Failed::Shared(Error::Store(error.to_string()))),
        }
    }
}

/// Of the rows of a batch of the log, those that `ours`, rows of the same batch that are known by their keys, do not
/// account for. A batch whose machine died is known by its uuids alone; it may have been this machine.
pub fn news(theirs: Vec<Key>, ours: &[Key]) -> Vec<Key> {
    let mut accounted = std::collections::HashMap::<u64, u64>::new();
    for key in ours {
        *accounted.entry(key.uuid()).or_default() += 1;
    }
    theirs
        .into_iter()
        .filter(|key| match accounted.get_mut(&key.uuid()) {
            Some(count) if key.is_unknown() && *count > 0 => {
                *count -= 1;
                false
            }
            _ => true,
        })
        .collect()
}
