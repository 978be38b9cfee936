//! The table of processed events: one record per event and one per file, the [`limits`] of Slack that were met, the
//! [`history`], which file had a [content](contents) first, and what operators did by hand.
//!
//! The record of an event has the event's id as its key (`Ev08ABC`). The record of a file has the key
//! `FILE#team#channel#ts#file`, so that different envelopes of one upload find the same record.
//!
//! A bot that ran before this one may have left items of its own form here: `{event_key, processed_at, ttl, …}`, without the
//! library's attributes. Each says that its event was handled, until its `ttl`. They are read as such and never changed.
//!
//! The claim on an event is completed or released within seconds. A file that was not completed is remembered for longer than the
//! on-failure queue keeps its event, so that whatever is sent again from there still finds out what was tried.

pub mod contents;
pub mod history;
pub mod limits;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::types::AttributeValue;
use function::operation::Operations;
use ichido::dynamodb::{DynamoDb, Foreign, Table, bounded};
use ichido::{Claim, Clock, MAX_CLOCK_SKEW, Namespace, Observer, Once, Outage, Run, Timestamp, key};
use telemetry::lock;

use crate::event::{File, HandedOver, Upload};
use crate::settings::Fallback;

/// How long an event or a file is known to have been handled.
pub const RETENTION: Duration = Duration::from_secs(6 * 60 * 60);
/// How long a file that was not completed is remembered: one day longer than the 14 days of the on-failure queue.
pub const UNFINISHED_RETENTION: Duration = Duration::from_secs(15 * 24 * 60 * 60);

/// The table's partition key.
const PARTITION_KEY: &str = "event_key";
/// The table's expiry attribute.
const TTL: &str = "ttl";
/// How the keys of items begin that are not records.
const LIMIT_PREFIX: &str = "LIMIT#";
const HISTORY_PREFIX: &str = "HISTORY#";
const CONTENT_PREFIX: &str = "CONTENT#";
const OPERATION_PREFIX: &str = "OPERATION#";
/// Lambda makes its first attempt sooner than this after a hand-over, unless invocations queue up, and repeats a failed one after a minute.
const FIRST_ATTEMPT_WITHIN: Duration = Duration::from_secs(30);
/// The attribute of a file's record that says which envelope it came in.
const ENVELOPE: &str = "envelope";

/// Of how many files an instance remembers under which event it handled them.
const MAX_REMEMBERED: usize = 1_000;

type Item = HashMap<String, AttributeValue>;
/// The wait before the second try of a throttled call. It doubles with every try, with jitter.
const FIRST_BACKOFF: Duration = Duration::from_millis(25);

/// Where the library keeps its records. Items of an earlier bot count as done.
pub fn records(table_name: &str) -> Table {
    Table::new(table_name, PARTITION_KEY).foreign(Foreign::Done)
}

/// What operators did by hand.
pub fn operations(table_name: &str) -> Operations {
    Operations::new(table_name, PARTITION_KEY).prefix(OPERATION_PREFIX)
}

/// Is the item with this key a record of an event or a file? The limits, the history, the contents and what operators did are none.
pub fn is_record(key: &str) -> bool {
    ![LIMIT_PREFIX, HISTORY_PREFIX, CONTENT_PREFIX, OPERATION_PREFIX].iter().any(|prefix| key.starts_with(prefix))
}

/// Whether the outcome of a file was recorded under another event than this one. `first`: the attributes of its record.
pub(crate) fn is_other_envelope(first: &[(String, serde_json::Value)], upload: &Upload) -> bool {
    first.iter().any(|(name, value)| name == ENVELOPE && *value != upload.event_key.as_str())
}

/// How many tries, and how much time in all, one call to the store gets.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    pub attempts: u32,
    pub total: Duration,
}

/// The table of processed events. Each process has one.
#[derive(Debug)]
pub struct ProcessedEvents {
    once: Once,
    events: Namespace,
    files: Namespace,
    /// Which files this instance handled, the last one at the end. The library's local memory, which answers when the table
    /// cannot, knows the outcome of a file and not under which event it came.
    handled: Mutex<VecDeque<Handled>>,
}

/// A file, and the event under which it was handled.
#[derive(Debug, PartialEq, Eq)]
struct Handled {
    team: String,
    channel: String,
    ts: String,
    file: String,
    event_key: String,
}

impl Handled {
    fn of(upload: &Upload, file: &File) -> Self {
        Self {
            team: upload.team.clone(),
            channel: upload.channel.clone(),
            ts: upload.ts.clone(),
            file: file.id.clone(),
            event_key: upload.event_key.clone(),
        }
    }
}

impl ProcessedEvents {
    pub fn new(
        client: &Client,
        table: &str,
        fallback: Fallback,
        bound: Bound,
        clock: Arc<dyn Clock>,
        observer: impl Observer,
    ) -> Self {
        let client = bounded(client, bound.attempts, bound.total);
        let retries = RetryConfig::standard().with_max_attempts(bound.attempts).with_initial_backoff(FIRST_BACKOFF);
        let client = Client::from_conf(client.config().to_builder().retry_config(retries).build());
        let once = Once::builder(DynamoDb::new(client, records(table)))
            .clock(clock)
            .observer(observer)
            .outage(Outage::default())
            .build();
        let with_fallback = |namespace: Namespace| match fallback {
            Fallback::Open => namespace.fail_open(),
            Fallback::Closed => namespace.fail_closed(),
        };
        Self {
            once,
            events: with_fallback(Namespace::unprefixed("events").retention(RETENTION)),
            files: with_fallback(Namespace::new("FILE").retention(RETENTION).keep_unfinished(UNFINISHED_RETENTION)),
            handled: Mutex::default(),
        }
    }

    /// May an attempt before this one have replied without leaving a record? It may, if this claim was made without the table. It also may, if
    /// this is the first recorded claim, although the event was handed over long ago or without the table.
    pub(crate) fn may_be_unrecorded(&self, upload: &Upload, claim: &Claim) -> bool {
        let is_repeated = |HandedOver { at, without_table }| {
            without_table || Timestamp::from_secs(at) + FIRST_ATTEMPT_WITHIN < self.once.now()
        };
        match claim.fence() {
            0 => true,
            1 => upload.handed_over.is_some_and(is_repeated),
            _ => false,
        }
    }

    /// Remembers that this instance handled a file under this event.
    pub(crate) fn remember(&self, upload: &Upload, file: &File) {
        let mut handled = lock(&self.handled);
        if handled.len() >= MAX_REMEMBERED {
            handled.pop_front();
        }
        handled.push_back(Handled::of(upload, file));
    }

    /// Did this instance handle a file under this very event? Then the event comes from Lambda again, or from `slack-events`.
    pub(crate) fn remembers(&self, upload: &Upload, file: &File) -> bool {
        lock(&self.handled).contains(&Handled::of(upload, file))
    }

    /// A run under the key of an upload's event.
    pub fn event(&self, upload: &Upload, request_id: &str) -> Result<Run<'_>, key::Error> {
        let key = self.events.key([&upload.event_key])?;
        Ok(with_attributes(self.once.run(&key), upload, upload.files.first(), request_id, self.once.now()))
    }

    /// A run under the key of one file of an upload.
    pub fn file(&self, upload: &Upload, file: &File, request_id: &str) -> Result<Run<'_>, key::Error> {
        let key = self.files.key([&upload.team, &upload.channel, &upload.ts, &file.id])?;
        let now = self.once.now();
        let run = self.once.run(&key).doubtful(may_have_expired(upload, now));
        let run = run.attribute(ENVELOPE, upload.event_key.as_str());
        Ok(with_attributes(run, upload, Some(file), request_id, now))
    }
}

/// Can a record of this upload already have expired? Then its absence proves nothing, and the run asks its probe.
fn may_have_expired(upload: &Upload, now: Timestamp) -> bool {
    upload.posted_at().is_none_or(|posted| posted + RETENTION <= now + MAX_CLOCK_SKEW)
}

/// The attributes beside the library's own.
fn with_attributes<'o>(
    run: Run<'o>,
    upload: &Upload,
    file: Option<&File>,
    request_id: &str,
    now: Timestamp,
) -> Run<'o> {
    run.attribute("processed_at", now.as_secs())
        .attribute("file_id", file.map(|file| file.id.as_str()))
        .attribute("channel_id", upload.channel.as_str())
        .attribute("user_id", upload.user.as_deref())
        .attribute("lambda_instance_id", request_id)
}

fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

fn read_number(item: &Item, name: &str) -> Option<u64> {
    item.get(name)?.as_n().ok()?.parse().ok()
}
