//! The state that several machines share: a log of batches on DynamoDB, one record per batch.
//!
//! The log of a destination is numbered from 0. To send a batch, a machine claims the next number and uploads the
//! rows under the batch id that belongs to that number. The outcome of the claim is the keys of the rows. A machine
//! that finds the number taken learns those keys, leaves out the rows that it has in common with them, and tries the
//! next number. So no two machines send the same line: the numbers are the order in which the machines take turns.
//!
//! If a machine dies while it holds a number, the next one takes the number over when the lease has ended. It asks
//! BigQuery for the rows under the number's batch id, and records what it finds. Records are kept for ever: a machine
//! that is new to the log reads it from its beginning.

use std::time::Duration;

use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use ichido::dynamodb::{DynamoDb, Table};
use ichido::{Failure, Namespace, Once, Probed};
use serde::{Deserialize, Serialize};

use super::bigquery::BigQuery;
use super::transport::Transport;
use crate::clock::Clock;
use crate::journal::record::keys;
use crate::source::line::Key;
use crate::upload::batch::Batch;
use crate::upload::{Delivery, Patience, Undelivered, ask, deliver};

/// The table's partition key, as in the README's `create-table`.
pub const PARTITION_KEY: &str = "event_key";
/// The table's time-to-live attribute. Completed records do not have it: they are kept for ever.
pub const TTL: &str = "ttl";
/// How many rows a batch may have: their keys must fit into one record.
pub(crate) const MAX_ROWS: usize = 2000;
/// How long a batch may take under its claim ...
const BATCH_TIME: Duration = Duration::from_secs(90);
/// ... and how long the claim lasts. It is longer, so that the batch is given up before another machine takes over.
const LEASE: Duration = Duration::from_secs(120);

/// Why the log could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "the shared state in DynamoDB cannot be used: {0}; check the table's name, its region and the AWS credentials"
    )]
    Store(String),
    #[error("another machine is uploading; run sessync again later")]
    Busy,
    #[error("record {0} of the shared state has no keys; was it changed by hand?")]
    Unreadable(u64),
    #[error("the destination cannot be a key in the shared state: {0}")]
    Key(#[from] ichido::key::Error),
}

/// Why a batch was not sent.
#[derive(Debug)]
pub(crate) enum Failed {
    Undelivered(Undelivered),
    Shared(Error),
}

/// Whose batch has the number.
#[derive(Debug)]
pub(crate) enum Appended {
    /// This machine's, and what became of it. The number is taken only if the batch was accepted.
    Ours(Delivery),
    /// Another machine's, with these rows.
    Theirs(Vec<Key>),
}

/// The log.
#[derive(Debug)]
pub struct Shared {
    once: Once,
    namespace: Namespace,
    destination: String,
}

/// The outcome in a number's record.
#[derive(Serialize, Deserialize)]
struct Uploaded {
    #[serde(with = "keys")]
    keys: Vec<Key>,
}

/// Why the batch was not accepted under the claim.
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
    /// The log in this table. Credentials, and the region unless it is given, come from the usual AWS settings.
    pub(crate) async fn connect(table: &str, region: Option<&str>, destination: &str) -> Shared {
        let https =
            aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
        let mut loader = aws_config::defaults(aws_config::BehaviorVersion::latest()).http_client(https);
        if let Some(region) = region {
            loader = loader.region(aws_config::Region::new(region.to_owned()));
        }
        Self::new(aws_sdk_dynamodb::Client::new(&loader.load().await), table, destination)
    }

    pub fn new(client: aws_sdk_dynamodb::Client, table: &str, destination: &str) -> Shared {
        let table = Table::new(table, PARTITION_KEY).ttl(TTL);
        Self::on(Once::new(DynamoDb::new(client, table)), destination)
    }

    /// On a store and a clock of the caller's.
    pub fn on(once: Once, destination: &str) -> Shared {
        Shared {
            once,
            namespace: Namespace::new("SESSYNC").forever().lease(LEASE).fail_closed(),
            destination: destination.to_owned(),
        }
    }

    /// The batch id that belongs to a number.
    pub(crate) fn batch_id(&self, number: u64) -> String {
        let name = format!("sessync:{}:{number}", self.destination);
        uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_URL, name.as_bytes()).to_string()
    }

    /// Uploads a batch under a number, unless the number is taken. The batch must have the number's id.
    pub(crate) async fn append<T: Transport, C: Clock>(
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
                let there = ask(bigquery, clock, &[&batch.id], None, limited, seed)
                    .await
                    .map_err(|error| NotAccepted::Undelivered(Undelivered { error, uncertain: true }))?;
                if there.is_empty() {
                    return Ok(Probed::NotDone);
                }
                // BigQuery says how many rows each uuid has, not their keys.
                let keys = there.iter().flat_map(|(uuid, count)| (0..*count).map(|_| Key::unknown(uuid, 0))).collect();
                Ok(Probed::Done(Uploaded { keys }))
            })
            .work(|_| async move {
                match deliver(bigquery, clock, batch, &[], limited, seed).await {
                    Ok(Delivery::Accepted) => Ok(Uploaded { keys: batch.keys() }),
                    // The rest goes on under the same number and id.
                    Ok(delivery) => Err(Failure::Retry(NotAccepted::Delivery(delivery))),
                    Err(error) if error.uncertain => Err(Failure::Uncertain(NotAccepted::Undelivered(error))),
                    Err(error) => Err(Failure::Retry(NotAccepted::Undelivered(error))),
                }
            })
            .await;
        match done {
            Ok(done) if done.is_fresh() => Ok(Appended::Ours(Delivery::Accepted)),
            Ok(done) => Ok(Appended::Theirs(done.value.keys)),
            Err(ichido::Error::DoneWithoutValue(_)) => Err(Failed::Shared(Error::Unreadable(number))),
            Err(ichido::Error::Work(NotAccepted::Delivery(delivery))) => Ok(Appended::Ours(delivery)),
            Err(ichido::Error::Work(NotAccepted::Undelivered(error))) => Err(Failed::Undelivered(error)),
            Err(ichido::Error::Probe(NotAccepted::Undelivered(error))) => Err(Failed::Undelivered(error)),
            Err(ichido::Error::InFlight { .. }) => Err(Failed::Shared(Error::Busy)),
            // The batch was accepted, but the other machines may not know it yet. The next machine that takes the
            // number over asks BigQuery and finds it.
            Err(ichido::Error::Superseded | ichido::Error::Unrecorded(_)) => Ok(Appended::Ours(Delivery::Accepted)),
            Err(error) => Err(Failed::Shared(Error::Store(error.to_string()))),
        }
    }
}

/// The rows of a batch of the log without those that this machine sent in it (`ours`). A batch whose machine died is
/// known only by its uuids, and that machine may have been this one.
pub(crate) fn unaccounted(theirs: Vec<Key>, ours: &[Key]) -> Vec<Key> {
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
