//! What operators do by hand: one item per operation, in the table of the application that it concerns.
//!
//! Promise: the item is written before the operation begins, so an operation that leaves no trace does not happen. Its end is
//! written afterwards. An operation without an end may have happened: its process died, or the end could not be written.
//!
//! An item has these attributes beside its key and the table's `ttl`: `operation`, `on`, `by`, `reason`, `shown`, `begunAt`, and later
//! `endedAt` and `outcome`. If the table has a sort key, the operations of one month share a partition, which is read with a query.
//! Otherwise the table is scanned.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use ichido::dynamodb::classify;
use ichido::{Timestamp, store};
use serde::Serialize;

use crate::item::{Item, get_text, number, text};

/// How long an operation is kept, except where it stays for ever.
pub const KEPT: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// What stands where somebody gave no reason.
pub const NO_REASON: &str = "no reason given";

/// How the keys of operations begin, except where the table says otherwise.
const PREFIX: &str = "OPERATION#";
const TTL: &str = "ttl";
const OPERATION: &str = "operation";
const ON: &str = "on";
const BY: &str = "by";
const REASON: &str = "reason";
const SHOWN: &str = "shown";
const BEGUN_AT: &str = "begunAt";
const ENDED_AT: &str = "endedAt";
/// What the outcome of an operation begins with if AWS gave no clear answer.
pub const DOUBTFUL: &str = "may have happened: ";
/// What it begins with if one part was done and another was not.
pub const PARTLY: &str = "happened in part: ";
/// What it begins with if nothing was changed.
pub const FAILED: &str = "failed: ";
const OUTCOME: &str = "outcome";

/// What somebody is about to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// What is done: `freeze`.
    pub what: String,
    /// What it is done to: an account, a key, a schedule.
    pub on: String,
    /// Who does it: the ARN of the caller's identity, or the DID of an operator.
    pub by: String,
    pub reason: String,
    /// What the operator saw when it was confirmed.
    pub shown: String,
}

/// An operation that has begun and is in the table: its key.
#[derive(Debug, Clone)]
pub struct Begun(Item);

/// An operation as it is in the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    pub begun_at: String,
    pub operation: String,
    pub on: String,
    pub by: String,
    pub reason: String,
    pub shown: String,
    /// What became of it. `None`: it is under way, or it may have happened. [`DOUBTFUL`], [`PARTLY`] or [`FAILED`] may be in front.
    pub outcome: Option<String>,
    pub ended_at: Option<String>,
}

impl Kept {
    /// Whether somebody has to look at what became of it.
    pub fn is_open(&self) -> bool {
        let open = |outcome: &str| outcome.starts_with(DOUBTFUL) || outcome.starts_with(PARTLY);
        self.outcome.as_deref().is_none_or(open)
    }
}

/// Where the operations of a table are.
#[must_use = "settings return a new value"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operations {
    table: String,
    partition_key: &'static str,
    sort_key: Option<&'static str>,
    prefix: &'static str,
    kept: Option<Duration>,
}

impl Operations {
    /// In a table with this partition key, without a sort key, for [`KEPT`].
    pub fn new(table: &str, partition_key: &'static str) -> Self {
        Operations { table: table.to_owned(), partition_key, sort_key: None, prefix: PREFIX, kept: Some(KEPT) }
    }

    /// The table has this sort key.
    pub fn sort_key(self, name: &'static str) -> Self {
        Operations { sort_key: Some(name), ..self }
    }

    /// The keys begin with this.
    pub fn prefix(self, prefix: &'static str) -> Self {
        Operations { prefix, ..self }
    }

    /// Operations stay for ever.
    pub fn forever(self) -> Self {
        Operations { kept: None, ..self }
    }

    /// Whether an item of the table is an operation.
    pub fn has(&self, item: &Item) -> bool {
        get_text(item, self.partition_key).is_some_and(|key| key.starts_with(self.prefix))
    }

    /// Writes that an operation begins. If this fails, the operation must not be carried out.
    pub async fn begin(&self, client: &Client, operation: &Operation, now: Timestamp) -> Result<Begun, store::Error> {
        let key = self.key(now, RandomState::new().hash_one(()));
        let mut item = key.clone();
        item.extend([
            (OPERATION.to_owned(), text(&operation.what)),
            (ON.to_owned(), text(&operation.on)),
            (BY.to_owned(), text(&operation.by)),
            (REASON.to_owned(), text(&operation.reason)),
            (SHOWN.to_owned(), text(&operation.shown)),
            (BEGUN_AT.to_owned(), text(now.to_string())),
        ]);
        item.extend(self.kept.map(|kept| (TTL.to_owned(), number((now + kept).as_secs_ceil()))));
        // Without a condition: nothing else has this key, and a repeated call writes the same.
        client.put_item().table_name(&self.table).set_item(Some(item)).send().await.map_err(classify)?;
        Ok(Begun(key))
    }

    /// Writes what became of an operation.
    pub async fn end(&self, client: &Client, begun: &Begun, outcome: &str, now: Timestamp) -> Result<(), store::Error> {
        let update = client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(begun.0.clone()))
            .update_expression("SET #outcome = :outcome, #ended = :ended")
            .condition_expression("attribute_exists(#begun)")
            .expression_attribute_names("#outcome", OUTCOME)
            .expression_attribute_names("#ended", ENDED_AT)
            .expression_attribute_names("#begun", BEGUN_AT)
            .expression_attribute_values(":outcome", text(outcome))
            .expression_attribute_values(":ended", text(now.to_string()));
        update.send().await.map_err(classify)?;
        Ok(())
    }

    /// The operations that began between two times, oldest first.
    pub async fn between(
        &self,
        client: &Client,
        since: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<Kept>, store::Error> {
        let mut found = Vec::new();
        match self.sort_key {
            Some(sort_key) => {
                for month in months(since, until) {
                    let query = client
                        .query()
                        .table_name(&self.table)
                        .consistent_read(true)
                        .key_condition_expression("#pk = :pk AND #sk >= :since")
                        .expression_attribute_names("#pk", self.partition_key)
                        .expression_attribute_names("#sk", sort_key)
                        .expression_attribute_values(":pk", text(format!("{}{month}", self.prefix)))
                        .expression_attribute_values(":since", text(format!("{}{since}", self.prefix)));
                    let mut items = query.into_paginator().items().send();
                    while let Some(item) = items.next().await {
                        found.extend(read(&item.map_err(classify)?));
                    }
                }
            }
            None => {
                let scan = client
                    .scan()
                    .table_name(&self.table)
                    .consistent_read(true)
                    .filter_expression("begins_with(#pk, :prefix) AND #begun >= :since")
                    .expression_attribute_names("#pk", self.partition_key)
                    .expression_attribute_names("#begun", BEGUN_AT)
                    .expression_attribute_values(":prefix", text(self.prefix))
                    .expression_attribute_values(":since", text(since.to_string()));
                let mut items = scan.into_paginator().items().send();
                while let Some(item) = items.next().await {
                    found.extend(read(&item.map_err(classify)?));
                }
            }
        }
        let until = until.to_string();
        found.retain(|kept| kept.begun_at <= until);
        found.sort_by(|a, b| a.begun_at.cmp(&b.begun_at));
        Ok(found)
    }

    fn key(&self, now: Timestamp, lot: u64) -> Item {
        let name = text(format!("{}{now}#{lot:016x}", self.prefix));
        match self.sort_key {
            Some(sort_key) => {
                let month = text(format!("{}{}", self.prefix, month(now)));
                Item::from([(self.partition_key.to_owned(), month), (sort_key.to_owned(), name)])
            }
            None => Item::from([(self.partition_key.to_owned(), name)]),
        }
    }
}

/// Reads an operation; `None` if one of its attributes is missing.
pub fn read(item: &Item) -> Option<Kept> {
    let of = |name| get_text(item, name).map(str::to_owned);
    Some(Kept {
        begun_at: of(BEGUN_AT)?,
        operation: of(OPERATION)?,
        on: of(ON)?,
        by: of(BY)?,
        reason: of(REASON)?,
        shown: of(SHOWN)?,
        outcome: of(OUTCOME),
        ended_at: of(ENDED_AT),
    })
}

/// `2026-11`
fn month(at: Timestamp) -> String {
    at.to_string().chars().take(7).collect()
}

/// The months from one time to another.
fn months(since: Timestamp, until: Timestamp) -> Vec<String> {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let (mut at, last) = (since, month(until));
    let mut all = vec![month(since)];
    while at < until && all.last() != Some(&last) {
        at = at + DAY;
        let next = month(at);
        if all.last() != Some(&next) {
            all.push(next);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-17T19:30:00Z
    const NOW: Timestamp = Timestamp::from_secs(1_794_943_800);

    #[test]
    fn the_operations_of_a_month_share_a_partition_where_there_is_a_sort_key() {
        let ledger = Operations::new("t", "PK").sort_key("SK").key(NOW, 1);
        assert_eq!(get_text(&ledger, "PK"), Some("OPERATION#2026-11"));
        assert_eq!(get_text(&ledger, "SK"), Some("OPERATION#2026-11-17T19:30:00.000Z#0000000000000001"));
        let feed = Operations::new("t", "entry_id").prefix("#operation#");
        let key = feed.key(NOW, 1);
        assert_eq!(get_text(&key, "entry_id"), Some("#operation#2026-11-17T19:30:00.000Z#0000000000000001"));
        assert!(feed.has(&key) && !feed.has(&ledger) && !Operations::new("t", "entry_id").has(&key));
    }

    #[test]
    fn every_month_between_two_times_is_read() {
        let days = |days: u64| NOW.saturating_sub(Duration::from_secs(days * 24 * 60 * 60));
        assert_eq!(months(NOW, NOW), ["2026-11"]);
        assert_eq!(months(days(17), NOW), ["2026-10", "2026-11"]);
        assert_eq!(months(days(365), NOW).len(), 13);
        assert_eq!(months(NOW, days(17)), ["2026-11"], "the wrong way round is no endless loop");
    }
}
