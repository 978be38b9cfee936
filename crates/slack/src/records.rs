//! What is kept in the table of processed events: seed 1's attributes, one record an event and one a file.
//!
//! An event's record stands under its id alone (`Ev08ABC`); a file's under `FILE#team#channel#ts#file`, so that
//! different envelopes of one upload meet there.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use ichido::dynamodb::{DynamoDb, Table, bounded};
use ichido::store::Attributes;
use ichido::{Clock, Key, Namespace, Observer, Once, Outage, Timestamp, key};

use crate::config::Fallback;
use crate::event::{File, Upload};

/// How long an event or a file is known to have been handled.
pub const RETENTION: Duration = Duration::from_secs(6 * 60 * 60);
/// How long work that was not completed is remembered: a day longer than the on-failure queue keeps its event (14 days),
/// so that whatever is sent again from there still finds out what was tried.
pub const UNFINISHED_RETENTION: Duration = Duration::from_secs(15 * 24 * 60 * 60);

/// The table's partition key.
const PARTITION_KEY: &str = "event_key";
/// Before the second try of a throttled call; it doubles, with jitter.
const FIRST_BACKOFF: Duration = Duration::from_millis(25);

/// How often, and how long in all, one call to the store may be tried.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    pub attempts: u32,
    pub total: Duration,
}

/// The library over our table. One a process.
pub fn once(
    client: &Client,
    table: &str,
    bound: Bound,
    clock: Arc<dyn Clock>,
    observer: impl Observer,
) -> Once<DynamoDb> {
    let client = bounded(client, bound.attempts, bound.total);
    let retries = RetryConfig::standard().with_max_attempts(bound.attempts).with_initial_backoff(FIRST_BACKOFF);
    let client = Client::from_conf(client.config().to_builder().retry_config(retries).build());
    Once::builder(DynamoDb::new(client, Table::new(table, PARTITION_KEY)))
        .clock(Shared(clock))
        .observer(observer)
        .outage(Outage::default())
        .build()
}

/// Events at the door: given back or completed within seconds.
pub fn events(fallback: Fallback) -> Namespace {
    fallback.apply(Namespace::unprefixed("events").retention(RETENTION))
}

/// Files and their effects.
pub fn files(fallback: Fallback) -> Namespace {
    fallback.apply(Namespace::new("FILE").retention(RETENTION).keep_unfinished(UNFINISHED_RETENTION))
}

/// The key of an event.
pub fn event_key(events: &Namespace, upload: &Upload) -> Result<Key, key::Error> {
    events.key([&upload.event_key])
}

/// The key of a file's effect.
pub fn file_key(files: &Namespace, upload: &Upload, file: &File) -> Result<Key, key::Error> {
    files.key([&upload.team, &upload.channel, &upload.ts, &file.id])
}

/// Seed 1's attributes beside the library's own.
pub fn attributes(upload: &Upload, file: Option<&File>, request_id: &str, now: Timestamp) -> Attributes {
    let file_id = file.or(upload.files.first()).map(|file| file.id.as_str());
    vec![
        ("processed_at".to_owned(), now.as_secs().into()),
        ("file_id".to_owned(), file_id.into()),
        ("channel_id".to_owned(), upload.channel.as_str().into()),
        ("user_id".to_owned(), upload.user.as_deref().into()),
        ("lambda_instance_id".to_owned(), request_id.into()),
    ]
}

/// A clock that others hold too.
struct Shared(Arc<dyn Clock>);

impl Clock for Shared {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn sleep(&self, duration: Duration) -> ichido::Sleep {
        self.0.sleep(duration)
    }
}
