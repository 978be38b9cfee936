//! What happened to events, kept for 90 days: one item per hour and channel in the table of processed events, with a counter per
//! [`What`]. The records themselves are gone after six hours.
//!
//! The history counts; it decides nothing. So it never fails an event and never delays one by more than [`WITHIN`]. What could not
//! be written stays in the instance's memory and is written with the next count. Three things make a number inexact: a write
//! whose answer was lost may be counted twice; what an instance has not written when it is removed is missing; and an instance that
//! counts faster than [`BURST`] and [`PER_SECOND`] allow writes several counts together, later.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata as _;
use aws_sdk_dynamodb::types::AttributeValue;
use futures::future::join_all;
use ichido::dynamodb::{bounded, classify};
use ichido::{Clock, Timestamp, store};
use telemetry::{causes, lock};

use super::{HISTORY_PREFIX, Item, PARTITION_KEY, number, read_number};

/// How long an hour is kept.
pub const KEPT_FOR: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// One write. Nobody waits longer for a count.
const WITHIN: Duration = Duration::from_millis(250);
/// How many writes an instance may make at once, and how many per second after that.
const BURST: u32 = 100;
const PER_SECOND: u32 = 1;
/// How long nothing is written after the table has not answered.
const PAUSE: Duration = Duration::from_secs(10);
/// How many hours and channels wait in memory. More than that are not counted.
const MAX_PENDING: usize = 500;
/// How many of them one event writes, at the same time.
const MAX_AT_ONCE: usize = 3;
const SECONDS_PER_HOUR: u64 = 60 * 60;

const HOUR: &str = "hour";
const CHANNEL: &str = "channel_id";

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A file got its effect.
    Handled,
    /// The effect of a file was found at its destination, after a crash or an outage.
    Found,
    /// The handling of a file failed, counted per attempt. Lambda retries, and then keeps a dead letter.
    Failed,
    /// A delivery could not be accepted. Slack sends it again.
    Refused,
    /// A duplicate: Slack marked the delivery as a retry.
    Retry,
    /// A duplicate: a delivery of the same event that Slack did not mark.
    AtOnce,
    /// A duplicate: a file of another envelope of the same message.
    Envelope,
    /// A duplicate that was recognised without the table, while it could not be reached or afterwards.
    Outage,
    /// A duplicate of what the bot before this one has handled.
    Earlier,
    /// A file got a link to the first one with the same content.
    SameContent,
}

impl What {
    pub const ALL: [Self; 10] = [
        Self::Handled,
        Self::Found,
        Self::Failed,
        Self::Refused,
        Self::Retry,
        Self::AtOnce,
        Self::Envelope,
        Self::Outage,
        Self::Earlier,
        Self::SameContent,
    ];
    /// The duplicates, by their causes.
    pub const DUPLICATES: [Self; 5] = [Self::Retry, Self::AtOnce, Self::Envelope, Self::Outage, Self::Earlier];

    /// The name of its counter, in the table and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Handled => "handled",
            Self::Found => "found",
            Self::Failed => "failedAttempts",
            Self::Refused => "refused",
            Self::Retry => "slackRetry",
            Self::AtOnce => "atOnce",
            Self::Envelope => "anotherEnvelope",
            Self::Outage => "afterOutage",
            Self::Earlier => "earlierBot",
            Self::SameContent => "sameContent",
        }
    }
}

/// A counter per [`What`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally([u64; What::ALL.len()]);

impl Tally {
    #[must_use]
    pub fn of(what: What) -> Self {
        let mut tally = Self::default();
        tally.add(what, 1);
        tally
    }

    pub fn add(&mut self, what: What, n: u64) {
        let counter = &mut self.0[what as usize];
        *counter = counter.saturating_add(n);
    }

    pub fn get(&self, what: What) -> u64 {
        self.0[what as usize]
    }

    pub fn merge(&mut self, other: &Self) {
        for what in What::ALL {
            self.add(what, other.get(what));
        }
    }

    pub fn duplicates(&self) -> u64 {
        self.sum(&What::DUPLICATES)
    }

    /// Files that were done, and duplicates.
    pub fn arrived(&self) -> u64 {
        self.sum(&[What::Handled, What::Found, What::SameContent]).saturating_add(self.duplicates())
    }

    /// Attempts that failed, and deliveries that could not be accepted.
    pub fn failures(&self) -> u64 {
        self.sum(&[What::Failed, What::Refused])
    }

    /// Everything that is counted: each failure as an arrival of its own.
    pub fn arrived_or_failed(&self) -> u64 {
        self.sum(&What::ALL)
    }

    fn sum(&self, of: &[What]) -> u64 {
        of.iter().fold(0, |sum: u64, what| sum.saturating_add(self.get(*what)))
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// An hour, counted from the Unix epoch. It displays as `2026-11-17T13`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hour(pub u64);

impl Hour {
    pub fn of(at: Timestamp) -> Self {
        Self(at.as_secs() / SECONDS_PER_HOUR)
    }

    pub fn begin(self) -> Timestamp {
        Timestamp::from_secs(self.0 * SECONDS_PER_HOUR)
    }

    /// `2026-11-17`
    pub fn day(self) -> String {
        self.begin().to_string().chars().take("2026-11-17".len()).collect()
    }
}

impl fmt::Display for Hour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.begin().to_string();
        f.write_str(at.get(.."2026-11-17T13".len()).unwrap_or(&at))
    }
}

/// One hour of one channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub hour: Hour,
    pub channel: String,
    pub tally: Tally,
}

/// Writes the history. Each process has one.
pub struct History {
    client: Client,
    table: String,
    clock: Arc<dyn Clock>,
    pending: Mutex<Pending>,
}

#[derive(Debug)]
struct Pending {
    tallies: BTreeMap<(Hour, String), Tally>,
    /// How many writes may be made now, and when that was computed.
    writes: u32,
    since: Timestamp,
    /// Nothing is written before this time.
    paused_until: Timestamp,
}

impl History {
    pub fn new(client: &Client, table: &str, clock: Arc<dyn Clock>) -> Self {
        let since = clock.now();
        let pending = Pending { tallies: BTreeMap::new(), writes: BURST, since, paused_until: Timestamp::default() };
        Self { client: bounded(client, 1, WITHIN), table: table.to_owned(), clock, pending: Mutex::new(pending) }
    }

    /// Counts what happened to a delivery or an upload of this channel.
    pub async fn count(&self, channel: &str, tally: &Tally) {
        if tally.is_empty() {
            return;
        }
        let now = self.clock.now();
        let due = self.add(now, channel, tally);
        // Together, so that three of them delay the event no longer than one.
        let written = join_all(due.iter().map(|((hour, channel), tally)| self.write(*hour, channel, tally))).await;
        for (((hour, channel), tally), written) in due.into_iter().zip(written) {
            match written {
                Ok(()) => {}
                Err(NotWritten::Refused(reason)) => {
                    tracing::error!(
                        reason,
                        "the table refuses the history of hour {hour} for a channel, so it is not counted: {reason}"
                    );
                }
                Err(NotWritten::Unknown(reason)) => {
                    let mut pending = lock(&self.pending);
                    pending.paused_until = now + PAUSE;
                    pending.merge(hour, channel, &tally);
                    drop(pending);
                    tracing::warn!(
                        reason,
                        "could not write the history of hour {hour}; it is kept in memory: {reason}"
                    );
                }
            }
        }
    }

    /// Adds to what is pending, and takes out what is to be written now.
    fn add(&self, now: Timestamp, channel: &str, tally: &Tally) -> Vec<((Hour, String), Tally)> {
        let mut pending = lock(&self.pending);
        pending.merge(Hour::of(now), channel.to_owned(), tally);
        let seconds = now.since(pending.since).as_secs();
        if seconds > 0 {
            let earned = PER_SECOND.saturating_mul(u32::try_from(seconds).unwrap_or(BURST));
            pending.writes = pending.writes.saturating_add(earned).min(BURST);
            pending.since = now;
        }
        if now < pending.paused_until {
            return Vec::new();
        }
        let count = MAX_AT_ONCE.min(pending.writes as usize).min(pending.tallies.len());
        pending.writes -= count as u32;
        // The oldest first. What was just added is the only one, unless something is left over.
        (0..count).filter_map(|_| pending.tallies.pop_first()).collect()
    }

    async fn write(&self, hour: Hour, channel: &str, tally: &Tally) -> Result<(), NotWritten> {
        let key = AttributeValue::S(format!("{HISTORY_PREFIX}{hour}#{channel}"));
        let ttl = (hour.begin() + KEPT_FOR).as_secs();
        let mut update = self
            .client
            .update_item()
            .table_name(&self.table)
            .key(PARTITION_KEY, key)
            .expression_attribute_names("#ttl", super::TTL)
            .expression_attribute_names("#hour", HOUR)
            .expression_attribute_names("#channel", CHANNEL)
            .expression_attribute_values(":ttl", number(ttl))
            .expression_attribute_values(":hour", number(hour.0))
            .expression_attribute_values(":channel", AttributeValue::S(channel.to_owned()));
        let mut counters = Vec::new();
        for (index, what) in What::ALL.into_iter().enumerate().filter(|(_, what)| tally.get(*what) > 0) {
            counters.push(format!("#c{index} :c{index}"));
            update = update
                .expression_attribute_names(format!("#c{index}"), what.name())
                .expression_attribute_values(format!(":c{index}"), number(tally.get(what)));
        }
        let expression = format!("SET #ttl = :ttl, #hour = :hour, #channel = :channel ADD {}", counters.join(", "));
        let sent = update.update_expression(expression).send().await;
        sent.map(drop).map_err(|error| {
            // It would be refused again and again, and everything that is younger would wait behind it.
            let is_refused = error.code() == Some("ValidationException");
            let reason = causes(&classify(error));
            if is_refused { NotWritten::Refused(reason) } else { NotWritten::Unknown(reason) }
        })
    }
}

/// Why a count is not in the table.
enum NotWritten {
    /// The table will never accept it.
    Refused(String),
    /// It may work later.
    Unknown(String),
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").field("table", &self.table).finish_non_exhaustive()
    }
}

impl Pending {
    fn merge(&mut self, hour: Hour, channel: String, tally: &Tally) {
        let key = (hour, channel);
        if self.tallies.len() >= MAX_PENDING && !self.tallies.contains_key(&key) {
            tracing::error!("too many hours and channels wait to be written to the history; one was not counted");
            return;
        }
        self.tallies.entry(key).or_default().merge(tally);
    }
}

/// Reads the history from an hour on. It reads the whole table, page by page: some cents per million items.
pub async fn read(client: &Client, table: &str, from: Hour) -> Result<Vec<Entry>, store::Error> {
    let pages = client
        .scan()
        .table_name(table)
        .filter_expression("begins_with(#pk, :prefix) AND #hour >= :from")
        .expression_attribute_names("#pk", PARTITION_KEY)
        .expression_attribute_names("#hour", HOUR)
        .expression_attribute_values(":prefix", AttributeValue::S(HISTORY_PREFIX.to_owned()))
        .expression_attribute_values(":from", number(from.0))
        .into_paginator()
        .items()
        .send();
    let items: Result<Vec<Item>, _> = pages.collect().await;
    let mut entries: Vec<Entry> = items.map_err(classify)?.iter().filter_map(entry).collect();
    entries.sort_by(|one, other| (one.hour, &one.channel).cmp(&(other.hour, &other.channel)));
    Ok(entries)
}

/// Has the table the key of processed events? Only one item is read, and no permission but that of [`read`] is needed.
pub async fn is_kept_in(client: &Client, table: &str) -> Result<bool, store::Error> {
    // A scan cannot begin at a key of another form.
    let key = AttributeValue::S(HISTORY_PREFIX.to_owned());
    let scan = client.scan().table_name(table).limit(1).exclusive_start_key(PARTITION_KEY, key);
    match scan.send().await.map_err(classify) {
        Ok(_) => Ok(true),
        Err(store::Error::Request(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

fn entry(item: &Item) -> Option<Entry> {
    let hour = Hour(read_number(item, HOUR)?);
    let channel = item.get(CHANNEL)?.as_s().ok()?.clone();
    let mut tally = Tally::default();
    for what in What::ALL {
        tally.add(what, read_number(item, what.name()).unwrap_or_default());
    }
    Some(Entry { hour, channel, tally })
}
