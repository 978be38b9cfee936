//! The items of entries: recorded once, found while something is pending, settled under a revision, kept for a time after
//! the entry has left the feed.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use aws_sdk_dynamodb::types::{KeysAndAttributes, ReturnValue};
use function::item::{Item, number, text};
use futures::{StreamExt, TryStreamExt, stream};
use ichido::Timestamp;

use super::{Doubt, Error, Fate, ID, Marker, Pending, TTL, Table, met};
use crate::entry::{Entry, EntryId};

/// The sparse index of what is pending.
const INDEX: &str = "pending";
/// How long a marker is kept once its entry has left the feed.
pub(super) const KEPT: Duration = Duration::from_secs(30 * 24 * 3_600);
/// How long a dead letter is kept once its entry has left the feed.
const DEAD_KEPT: Duration = Duration::from_secs(90 * 24 * 3_600);
/// Keys per `BatchGetItem`: DynamoDB takes no more.
const BATCH: usize = 100;
/// How many writes are under way at the same time.
const PARALLEL: usize = 8;
/// How often a write is tried that meets another run's.
const ROUNDS: usize = 5;
/// How often `BatchGetItem` is asked for the keys that it left out.
const BATCH_ROUNDS: usize = 8;

impl Table {
    /// Records new entries, a few at a time, each with its fate. Returns those that were not in the table before. `doubt` is what the
    /// table does not know because it was restored.
    pub(crate) async fn record(
        &self,
        entries: &[(&Entry, Fate)],
        doubt: Option<Doubt>,
        now: Timestamp,
    ) -> Result<Vec<Marker>, Error> {
        let mark = |(position, (entry, fate)): (usize, &(&Entry, Fate))| {
            let mut marker = Marker::new(entry, fate, position, now);
            if let Some(doubt) = doubt.filter(|doubt| *fate == Fate::Owed && doubt.concerns(entry)) {
                // The destination is searched back to the time that the copy shows.
                (marker.doubtful, marker.first_owed) = (true, Some(doubt.since));
            }
            marker
        };
        let markers: Vec<Marker> = entries.iter().enumerate().map(mark).collect();
        let recorded: Vec<Option<Marker>> =
            stream::iter(markers).map(|marker| self.record_one(marker, now)).buffered(PARALLEL).try_collect().await?;
        Ok(recorded.into_iter().flatten().collect())
    }

    async fn record_one(&self, marker: Marker, now: Timestamp) -> Result<Option<Marker>, Error> {
        let put = self
            .client
            .put_item()
            .table_name(&self.name)
            .set_item(Some(self.item_of(&marker)))
            // DynamoDB deletes expired items late, so an expired one counts as absent.
            .condition_expression(format!("attribute_not_exists({ID}) OR #ttl <= :now"))
            .expression_attribute_names("#ttl", TTL)
            .expression_attribute_values(":now", number(now.as_secs()));
        // If the condition is not met, another run was first, or the answer to our own write was lost. In both cases the
        // entry is in the table, and owed if it has to be delivered.
        Ok(met(&self.name, "PutItem", put.send().await)?.map(|_| marker))
    }

    fn item_of(&self, marker: &Marker) -> Item {
        let mut item = marker.to_item(|pending| self.own(pending.name()));
        item.extend(self.key(marker.entry.id.as_str()));
        item
    }

    /// What the table has of these entries. Entries that it does not have, or that have expired, are left out.
    pub(crate) async fn known(&self, ids: &[&EntryId], now: Timestamp) -> Result<HashMap<EntryId, Marker>, Error> {
        let mut known = HashMap::new();
        for batch in ids.chunks(BATCH) {
            let mut keys: Vec<Item> = batch.iter().map(|id| self.key(id.as_str())).collect();
            for _ in 0..BATCH_ROUNDS {
                let wanted =
                    KeysAndAttributes::builder().set_keys(Some(std::mem::take(&mut keys))).consistent_read(true);
                let wanted = wanted.build().map_err(|_| Error::Item { id: String::new(), reason: "no keys" })?;
                let answer = self
                    .client
                    .batch_get_item()
                    .request_items(&self.name, wanted)
                    .send()
                    .await
                    .map_err(Error::sdk(&self.name, "BatchGetItem"))?;
                for item in answer.responses.unwrap_or_default().remove(&self.name).unwrap_or_default() {
                    let marker = self.marker_of(&item)?;
                    if !marker.is_over(now) {
                        known.insert(marker.entry.id.clone(), marker);
                    }
                }
                let left = answer.unprocessed_keys.unwrap_or_default().remove(&self.name);
                keys = left.map(|left| left.keys).unwrap_or_default();
                if keys.is_empty() {
                    break;
                }
            }
            if !keys.is_empty() {
                return Err(Error::Unread { table: self.name.clone(), keys: keys.len() });
            }
        }
        Ok(known)
    }

    /// One marker, as the table has it now.
    pub(crate) async fn marker(&self, id: &EntryId) -> Result<Option<Marker>, Error> {
        match self.get(id.as_str()).await? {
            Some(item) => self.marker_of(&item).map(Some),
            None => Ok(None),
        }
    }

    /// At most `limit` pending entries: first those that were never tried, oldest first, then those that were tried longest ago.
    pub(crate) async fn pending(&self, pending: Pending, limit: usize) -> Result<Vec<Marker>, Error> {
        let mut markers = Vec::new();
        let mut ids = HashSet::new();
        let mut from = None;
        loop {
            let page = self
                .client
                .query()
                .table_name(&self.name)
                .index_name(INDEX)
                .key_condition_expression("pending = :pending")
                .expression_attribute_values(":pending", text(self.own(pending.name())))
                .limit(i32::try_from(limit - markers.len()).unwrap_or(i32::MAX))
                .set_exclusive_start_key(from)
                .send()
                .await
                .map_err(Error::sdk(&self.name, "Query"))?;
            for item in page.items.unwrap_or_default() {
                match self.marker_of(&item) {
                    Ok(marker) if ids.insert(marker.entry.id.clone()) => markers.push(marker),
                    Ok(_) => {}
                    // One unreadable item must not keep the others from being delivered.
                    Err(error) => {
                        tracing::error!(error = &error as &dyn std::error::Error, "skipped a pending item: {error}");
                    }
                }
            }
            from = page.last_evaluated_key;
            if from.is_none() || markers.len() >= limit {
                return Ok(markers);
            }
        }
    }

    /// Writes what became of an entry's deliveries, and returns the marker as it was written. `change` is applied to the marker that
    /// the caller knows. If another run has changed the item since, it is applied again to what is there now.
    pub(crate) async fn settle(
        &self,
        marker: &Marker,
        now: Timestamp,
        change: impl Fn(&mut Marker),
    ) -> Result<Marker, Error> {
        let id = &marker.entry.id;
        let mut current = marker.clone();
        for _ in 0..ROUNDS {
            let read_revision = current.revision;
            change(&mut current);
            current.revision = read_revision + 1;
            let update = current
                .settling(self.update(id.as_str()), |pending| self.own(pending.name()), now)
                .condition_expression(format!("attribute_exists({ID}) AND revision = :read"))
                .expression_attribute_values(":read", number(read_revision))
                .return_values(ReturnValue::AllNew);
            if let Some(answer) = met(&self.name, "UpdateItem", update.send().await)? {
                let stored = self.marker_of(&answer.attributes.unwrap_or_default())?;
                return self.begin_time(stored, now).await;
            }
            match self.marker(id).await? {
                Some(marker) => current = marker,
                // It was deleted: nobody waits for it any more.
                None => return Ok(current),
            }
        }
        Err(Error::Contended { id: id.to_string() })
    }

    /// If the entry left the feed while it was owed, its remaining time begins now that it is settled.
    async fn begin_time(&self, marker: Marker, now: Timestamp) -> Result<Marker, Error> {
        if marker.left_at.is_some() && marker.ttl.is_none() && marker.pending != Some(Pending::Owed) {
            self.left_one(&marker.entry.id, now).await?;
        }
        Ok(marker)
    }

    /// Notes that these entries have left the feed: their remaining time begins.
    pub(crate) async fn left(&self, ids: Vec<EntryId>, now: Timestamp) -> Result<(), Error> {
        let leaving = stream::iter(ids).map(|id| async move { self.left_one(&id, now).await });
        leaving.buffer_unordered(PARALLEL).try_collect::<Vec<()>>().await?;
        Ok(())
    }

    async fn left_one(&self, id: &EntryId, now: Timestamp) -> Result<(), Error> {
        let update = || self.update(id.as_str()).expression_attribute_values(":left", number(now.as_secs()));
        let pending_as = |pending: Pending| text(self.own(pending.name()));
        for _ in 0..ROUNDS {
            // A settled entry's time begins now. An owed one's begins when it is settled; `left_at` is how that is known.
            let settled = update()
                .update_expression("SET left_at = :left, #ttl = :ttl")
                .condition_expression(format!("attribute_exists({ID}) AND attribute_not_exists(pending)"))
                .expression_attribute_names("#ttl", TTL)
                .expression_attribute_values(":ttl", number((now + KEPT).as_secs_ceil()));
            if met(&self.name, "UpdateItem", settled.send().await)?.is_some() {
                return Ok(());
            }
            let pending = update()
                .update_expression("SET left_at = :left, #ttl = if_not_exists(#ttl, :ttl)")
                .condition_expression("pending = :dead OR pending = :shadow")
                .expression_attribute_names("#ttl", TTL)
                .expression_attribute_values(":ttl", number((now + DEAD_KEPT).as_secs_ceil()))
                .expression_attribute_values(":dead", pending_as(Pending::Dead))
                .expression_attribute_values(":shadow", pending_as(Pending::Shadow));
            if met(&self.name, "UpdateItem", pending.send().await)?.is_some() {
                return Ok(());
            }
            let owed = update()
                .update_expression("SET left_at = :left")
                .condition_expression("pending = :owed")
                .expression_attribute_values(":owed", pending_as(Pending::Owed));
            if met(&self.name, "UpdateItem", owed.send().await)?.is_some() {
                return Ok(());
            }
            // It is not in the table, or it was settled a moment ago: look again.
            if self.marker(id).await?.is_none() {
                return Ok(());
            }
        }
        Err(Error::Contended { id: id.to_string() })
    }

    /// Notes that an entry which had left is back in the feed: it no longer expires. False if it had expired already.
    pub(crate) async fn returned(&self, id: &EntryId, now: Timestamp) -> Result<bool, Error> {
        let update = self
            .update(id.as_str())
            .update_expression("REMOVE left_at, #ttl")
            .condition_expression(format!("attribute_exists({ID}) AND (attribute_not_exists(#ttl) OR #ttl > :now)"))
            .expression_attribute_names("#ttl", TTL)
            .expression_attribute_values(":now", number(now.as_secs()));
        Ok(met(&self.name, "UpdateItem", update.send().await)?.is_some())
    }
}
