//! The state table of a feed: what is known, what is owed, what was given up on.
//!
//! | item (`entry_id`) | what |
//! |---|---|
//! | the entry's id | the marker: `processed_at`, `entry_data`, `ttl`, and where its deliveries are ([`Marker`]) |
//! | `#feed` | validators, what the last reading showed, `not_before` ([`feed`]) |
//! | `#present#…` | the rest of what the last reading showed, if it is too large for `#feed` |
//! | `#limit` | how long a post may be on the instance |
//! | `DELIVERY#destination#id` | the claim and the outcome of one delivery (`ichido`'s) |
//!
//! **Owed without a scan**: while something is owed, the item has `pending = "owed"` and so stands in the
//! sparse index `pending` (with `pending_order` as its sort key); dead letters (`"dead"`) and what was
//! only rehearsed (`"shadow"`) are found the same way. An index lags: an entry that shows up late is delivered in a
//! later run, one that shows up too long is delivered by nobody, because its deliveries are claimed by the table.
//!
//! **Markers outlive the feed**: an entry in the feed has no `ttl`. When it has left the feed, `left_at` says so, and its
//! [`KEPT`] begin; if it is still owed then, they begin when it is settled.

mod attr;
mod entry_item;
mod feed;

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use aws_sdk_dynamodb::{
    Client,
    error::{DisplayErrorContext, ProvideErrorMetadata, SdkError},
    types::{AttributeValue, KeysAndAttributes},
};
use futures::{StreamExt, TryStreamExt, stream};
use ichido::Timestamp;

use crate::entry::{Entry, EntryId};
use attr::{Item, number, text};
pub(crate) use entry_item::order_after_try;
pub use entry_item::{Delivery, Fate, Marker, Pending};
pub use feed::{FeedState, Snapshot};

/// The sparse index of what is pending.
pub const INDEX: &str = "pending";
/// How long a marker is kept once its entry has left the feed.
pub const KEPT: Duration = Duration::from_secs(30 * 24 * 3_600);
/// How long a dead letter is kept once its entry has left the feed.
pub const DEAD_KEPT: Duration = Duration::from_secs(90 * 24 * 3_600);
/// Keys in one `BatchGetItem`.
const BATCH: usize = 100;
/// Writes at a time.
const PARALLEL: usize = 8;
/// How often a write is tried anew that met another run.
const ROUNDS: usize = 5;
/// How often `BatchGetItem` is asked for what it left out.
const BATCH_ROUNDS: usize = 8;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{operation} on the state table failed: {reason}")]
    Store { operation: &'static str, code: String, reason: String },
    #[error("the item {id} in the state table cannot be read: {reason}")]
    Item { id: String, reason: &'static str },
    #[error("another run kept changing the same item: {id}")]
    Contended { id: String },
}

impl Error {
    fn sdk<E, R>(operation: &'static str) -> impl FnOnce(SdkError<E, R>) -> Error
    where
        E: std::error::Error + ProvideErrorMetadata + 'static,
        R: std::fmt::Debug,
    {
        move |error| Error::Store {
            operation,
            code: error.code().unwrap_or("unknown").to_owned(),
            reason: DisplayErrorContext(&error).to_string(),
        }
    }
}

/// The state table of one feed.
#[derive(Debug, Clone)]
pub struct State {
    client: Client,
    table: String,
}

impl State {
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        State { client, table: table.into() }
    }

    /// What is known of these entries; those that are not there, or whose time is over, are not in the answer.
    pub async fn known(&self, ids: &[&EntryId], now: Timestamp) -> Result<HashMap<EntryId, Marker>, Error> {
        let mut found = HashMap::new();
        for batch in ids.chunks(BATCH) {
            let mut keys: Vec<Item> = batch.iter().map(|id| key(id.as_str())).collect();
            for _ in 0..BATCH_ROUNDS {
                let wanted =
                    KeysAndAttributes::builder().set_keys(Some(std::mem::take(&mut keys))).consistent_read(true);
                let wanted = wanted.build().map_err(|_| Error::Item { id: String::new(), reason: "no keys" })?;
                let answer = self
                    .client
                    .batch_get_item()
                    .request_items(&self.table, wanted)
                    .send()
                    .await
                    .map_err(Error::sdk("BatchGetItem"))?;
                for item in answer.responses.unwrap_or_default().remove(&self.table).unwrap_or_default() {
                    let marker = Marker::from_item(&item)?;
                    if !marker.is_over(now) {
                        found.insert(marker.entry.id.clone(), marker);
                    }
                }
                keys = answer
                    .unprocessed_keys
                    .unwrap_or_default()
                    .remove(&self.table)
                    .map(|left| left.keys)
                    .unwrap_or_default();
                if keys.is_empty() {
                    break;
                }
            }
            if !keys.is_empty() {
                return Err(Error::Contended { id: "BatchGetItem leaves keys unprocessed".into() });
            }
        }
        Ok(found)
    }

    /// Records new entries, each with its fate, a few at a time. Returns those that were not there before.
    pub async fn record(&self, entries: &[(&Entry, Fate)], now: Timestamp) -> Result<Vec<Marker>, Error> {
        let markers: Vec<Marker> = entries
            .iter()
            .enumerate()
            .map(|(position, (entry, fate))| Marker::new(entry, fate, position, now))
            .collect();
        let recorded: Vec<Option<Marker>> =
            stream::iter(markers).map(|marker| self.record_one(marker, now)).buffered(PARALLEL).try_collect().await?;
        Ok(recorded.into_iter().flatten().collect())
    }

    async fn record_one(&self, marker: Marker, now: Timestamp) -> Result<Option<Marker>, Error> {
        let put = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(marker.to_item()))
            // Expiry is read, not awaited.
            .condition_expression("attribute_not_exists(entry_id) OR #ttl <= :now")
            .expression_attribute_names("#ttl", "ttl")
            .expression_attribute_values(":now", number(now.as_secs()))
            .send()
            .await;
        match put {
            Ok(_) => Ok(Some(marker)),
            // Another run was first, or our own write's answer was lost. Either way it is there, and owed if it is to be.
            Err(error) if is_condition(&error) => Ok(None),
            Err(error) => Err(Error::sdk("PutItem")(error)),
        }
    }

    /// The entries have left the feed: their time begins.
    pub async fn left(&self, ids: Vec<EntryId>, now: Timestamp) -> Result<(), Error> {
        let leaving = stream::iter(ids).map(|id| async move { self.left_one(&id, now).await });
        leaving.buffer_unordered(PARALLEL).try_collect::<Vec<()>>().await?;
        Ok(())
    }

    async fn left_one(&self, id: &EntryId, now: Timestamp) -> Result<(), Error> {
        let update = || {
            self.client
                .update_item()
                .table_name(&self.table)
                .set_key(Some(key(id.as_str())))
                .expression_attribute_values(":left", number(now.as_secs()))
        };
        for _ in 0..ROUNDS {
            // Settled: the time begins now. Owed: it begins when it is settled, and `left_at` says so.
            let settled = update()
                .update_expression("SET left_at = :left, #ttl = :ttl")
                .condition_expression("attribute_exists(entry_id) AND attribute_not_exists(pending)")
                .expression_attribute_names("#ttl", "ttl")
                .expression_attribute_values(":ttl", number((now + KEPT).as_secs_ceil()))
                .send()
                .await;
            match settled {
                Ok(_) => return Ok(()),
                Err(error) if is_condition(&error) => {}
                Err(error) => return Err(Error::sdk("UpdateItem")(error)),
            }
            let pending = update()
                .update_expression("SET left_at = :left, #ttl = if_not_exists(#ttl, :ttl)")
                .condition_expression("pending = :dead OR pending = :shadow")
                .expression_attribute_names("#ttl", "ttl")
                .expression_attribute_values(":ttl", number((now + DEAD_KEPT).as_secs_ceil()))
                .expression_attribute_values(":dead", text(Pending::Dead.name()))
                .expression_attribute_values(":shadow", text(Pending::Shadow.name()))
                .send()
                .await;
            match pending {
                Ok(_) => return Ok(()),
                Err(error) if is_condition(&error) => {}
                Err(error) => return Err(Error::sdk("UpdateItem")(error)),
            }
            let owed = update()
                .update_expression("SET left_at = :left")
                .condition_expression("pending = :owed")
                .expression_attribute_values(":owed", text(Pending::Owed.name()))
                .send()
                .await;
            match owed {
                Ok(_) => return Ok(()),
                Err(error) if is_condition(&error) => {
                    // Not there at all, or settled a moment ago: look again.
                    if self.marker(id).await?.is_none() {
                        return Ok(());
                    }
                }
                Err(error) => return Err(Error::sdk("UpdateItem")(error)),
            }
        }
        Err(Error::Contended { id: id.to_string() })
    }

    /// An entry that had left is back in the feed: its time stands still. False if it was over.
    pub async fn returned(&self, id: &EntryId, now: Timestamp) -> Result<bool, Error> {
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(key(id.as_str())))
            .update_expression("REMOVE left_at, #ttl")
            .condition_expression("attribute_exists(entry_id) AND (attribute_not_exists(#ttl) OR #ttl > :now)")
            .expression_attribute_names("#ttl", "ttl")
            .expression_attribute_values(":now", number(now.as_secs()))
            .send()
            .await;
        match update {
            Ok(_) => Ok(true),
            Err(error) if is_condition(&error) => Ok(false),
            Err(error) => Err(Error::sdk("UpdateItem")(error)),
        }
    }

    /// One marker, as the table has it now.
    pub async fn marker(&self, id: &EntryId) -> Result<Option<Marker>, Error> {
        match self.get(id.as_str()).await? {
            Some(item) => Marker::from_item(&item).map(Some),
            None => Ok(None),
        }
    }

    /// What is pending, first what was never tried (oldest first), then what was tried longest ago. At most `limit`.
    pub async fn pending(&self, pending: Pending, limit: usize) -> Result<Vec<Marker>, Error> {
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let mut from = None;
        loop {
            let page = self
                .client
                .query()
                .table_name(&self.table)
                .index_name(INDEX)
                .key_condition_expression("pending = :pending")
                .expression_attribute_values(":pending", text(pending.name()))
                .limit(i32::try_from(limit - found.len()).unwrap_or(i32::MAX))
                .set_exclusive_start_key(from)
                .send()
                .await
                .map_err(Error::sdk("Query"))?;
            for item in page.items.unwrap_or_default() {
                match Marker::from_item(&item) {
                    Ok(marker) if seen.insert(marker.entry.id.clone()) => found.push(marker),
                    Ok(_) => {}
                    // One unreadable item must not keep the others from being delivered.
                    Err(error) => {
                        tracing::error!(error = &error as &dyn std::error::Error, "an owed item cannot be read")
                    }
                }
            }
            from = page.last_evaluated_key;
            if from.is_none() || found.len() >= limit {
                return Ok(found);
            }
        }
    }

    /// Writes what became of an entry's deliveries. `change` is applied to the marker as it is known, and again to
    /// the marker as it is if another run was faster. Returns the marker as it was written.
    pub async fn settle(&self, marker: &Marker, now: Timestamp, change: impl Fn(&mut Marker)) -> Result<Marker, Error> {
        let id = &marker.entry.id;
        let mut current = marker.clone();
        for _ in 0..ROUNDS {
            let read_revision = current.revision;
            change(&mut current);
            current.revision = read_revision + 1;
            let update = current.settling(now);
            let written = update
                .onto(self.client.update_item().table_name(&self.table).set_key(Some(key(id.as_str()))))
                .condition_expression("attribute_exists(entry_id) AND revision = :read")
                .expression_attribute_values(":read", number(read_revision))
                .return_values(aws_sdk_dynamodb::types::ReturnValue::AllNew)
                .send()
                .await;
            match written {
                Ok(answer) => {
                    let stored = Marker::from_item(&answer.attributes.unwrap_or_default())?;
                    return self.begin_time(stored, now).await;
                }
                Err(error) if is_condition(&error) => match self.marker(id).await? {
                    Some(marker) => current = marker,
                    // Deleted: nobody waits for it any more.
                    None => return Ok(current),
                },
                Err(error) => return Err(Error::sdk("UpdateItem")(error)),
            }
        }
        Err(Error::Contended { id: id.to_string() })
    }

    /// If the entry had left the feed while it was owed, its time begins now that it is settled.
    async fn begin_time(&self, marker: Marker, now: Timestamp) -> Result<Marker, Error> {
        if marker.left_at.is_some() && marker.ttl.is_none() && marker.pending != Some(Pending::Owed) {
            self.left_one(&marker.entry.id, now).await?;
        }
        Ok(marker)
    }

    async fn get(&self, id: &str) -> Result<Option<Item>, Error> {
        let answer = self
            .client
            .get_item()
            .table_name(&self.table)
            .set_key(Some(key(id)))
            .consistent_read(true)
            .send()
            .await
            .map_err(Error::sdk("GetItem"))?;
        Ok(answer.item)
    }
}

fn key(id: &str) -> Item {
    HashMap::from([("entry_id".to_owned(), AttributeValue::S(id.to_owned()))])
}

fn is_condition<E: ProvideErrorMetadata, R>(error: &SdkError<E, R>) -> bool {
    error.as_service_error().and_then(ProvideErrorMetadata::code) == Some("ConditionalCheckFailedException")
}
