//! The item `#feed`: what is known of the feed as a whole, and when it may be read next.
//!
//! The item is replaced under a version, so that of two overlapping runs one wins and the other notices. What the
//! last read showed ([`Snapshot`]) is compressed into the item. If it is too large, it goes into items of its own, which are
//! written before the item that refers to them.

use std::io::{Read, Write};

use aws_sdk_dynamodb::{
    operation::update_item::builders::UpdateItemFluentBuilder, primitives::Blob, types::AttributeValue,
};
use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};
use function::item::{Item, get_bool, get_number, get_text, number, text};
use ichido::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Doubt, Error, Table, met};
use crate::{outside::fetch::Validators, reading::identity::Known};

pub(super) const FEED: &str = "#feed";
/// Largest snapshot that is kept in the feed's own item, which every run reads.
const INLINE: usize = 16 * 1024;
/// Size of each part of a larger snapshot. DynamoDB takes items of up to 400 KB.
const CHUNK: usize = 300 * 1024;
/// Most that is decompressed, in case the item is damaged.
const MAX_SNAPSHOT: u64 = 256 * 1024 * 1024;

/// The entries that the last read showed, and some that had left the feed before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub present: Vec<Known>,
    pub gone: Vec<Known>,
}

impl Snapshot {
    fn pack(&self) -> Vec<u8> {
        let json = serde_json::to_vec(self).unwrap_or_default();
        let mut packer = ZlibEncoder::new(Vec::new(), Compression::default());
        // Writing to memory does not fail.
        let _ = packer.write_all(&json);
        packer.finish().unwrap_or_default()
    }

    fn unpack(bytes: &[u8]) -> Option<Self> {
        let mut json = Vec::new();
        ZlibDecoder::new(bytes).take(MAX_SNAPSHOT).read_to_end(&mut json).ok()?;
        serde_json::from_slice(&json).ok()
    }
}

/// What is known of the feed as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeedState {
    pub validators: Validators,
    /// The digest of the URL that the validators belong to.
    pub url_digest: String,
    /// The digest of the entries that were read last.
    pub content_digest: String,
    /// The feed is not read again before this time.
    pub not_before: Option<Timestamp>,
    /// Whether something was still owed when `not_before` was set.
    pub owed_left: bool,
    /// Since when the feed has asked to be left alone (`Retry-After`), without a read in between.
    pub refused_since: Option<Timestamp>,
    /// When a new entry was last seen.
    pub news_at: Option<Timestamp>,
    /// When a read last contained no entry that we knew.
    pub gap_at: Option<Timestamp>,
    /// When a delivery last became a dead letter, until a run has seen that none is left.
    pub dead_at: Option<Timestamp>,
    /// The digest of the address that answered 410. It is not asked again.
    pub gone: Option<String>,
    /// The digest of the address to which the feed redirects permanently, and when that was first seen.
    pub moved: Option<String>,
    pub moved_at: Option<Timestamp>,
    /// How many readings in a row showed no entry, although there were some before.
    pub empty_readings: u64,
    /// Set when the table was restored, until the feed has been read once.
    pub doubt: Option<Doubt>,
    pub(crate) version: u64,
    /// How many parts the snapshot has, if it is not inline.
    pub(crate) chunks: u64,
    /// The digest of the compressed snapshot.
    pub(crate) chunks_digest: String,
    pub(crate) inline: Option<Vec<u8>>,
}

impl FeedState {
    fn from_item(item: &Item) -> Self {
        let owned = |name| get_text(item, name).map(str::to_owned);
        FeedState {
            validators: Validators { etag: owned("etag"), last_modified: owned("last_modified") },
            url_digest: owned("url_digest").unwrap_or_default(),
            content_digest: owned("content_digest").unwrap_or_default(),
            not_before: get_number(item, "not_before").map(Timestamp::from_millis),
            owed_left: get_bool(item, "owed_left").unwrap_or(true),
            refused_since: get_number(item, "refused_since").map(Timestamp::from_millis),
            news_at: get_number(item, "news_at").map(Timestamp::from_millis),
            gap_at: get_number(item, "gap_at").map(Timestamp::from_millis),
            dead_at: get_number(item, "dead_at").map(Timestamp::from_millis),
            gone: owned("gone"),
            moved: owned("moved"),
            moved_at: get_number(item, "moved_at").map(Timestamp::from_millis),
            empty_readings: get_number(item, "empty_readings").unwrap_or_default(),
            doubt: Doubt::of_item(item),
            version: get_number(item, "version").unwrap_or_default(),
            chunks: get_number(item, "chunks").unwrap_or_default(),
            chunks_digest: owned("chunks_digest").unwrap_or_default(),
            inline: item.get("present").and_then(|value| value.as_b().ok()).map(|blob| blob.as_ref().to_vec()),
        }
    }

    /// Whether the feed was read at least once. Before that, only a pause or the end of the feed may be known.
    pub fn was_read(&self) -> bool {
        self.version > 0
    }

    fn to_item(&self, mut item: Item) -> Item {
        let mut put = |name: &str, value: Option<AttributeValue>| {
            if let Some(value) = value {
                item.insert(name.to_owned(), value);
            }
        };
        put("etag", self.validators.etag.as_ref().map(text));
        put("last_modified", self.validators.last_modified.as_ref().map(text));
        put("url_digest", Some(text(&self.url_digest)));
        put("content_digest", Some(text(&self.content_digest)));
        put("not_before", self.not_before.map(|at| number(at.as_millis())));
        put("owed_left", Some(AttributeValue::Bool(self.owed_left)));
        put("refused_since", self.refused_since.map(|at| number(at.as_millis())));
        put("news_at", self.news_at.map(|at| number(at.as_millis())));
        put("gap_at", self.gap_at.map(|at| number(at.as_millis())));
        put("dead_at", self.dead_at.map(|at| number(at.as_millis())));
        put("gone", self.gone.as_ref().map(text));
        put("moved", self.moved.as_ref().map(text));
        put("moved_at", self.moved_at.map(|at| number(at.as_millis())));
        put("empty_readings", (self.empty_readings > 0).then(|| number(self.empty_readings)));
        put("version", Some(number(self.version)));
        put("chunks", Some(number(self.chunks)));
        put("chunks_digest", Some(text(&self.chunks_digest)));
        put("present", self.inline.as_ref().map(|bytes| AttributeValue::B(Blob::new(bytes.clone()))));
        if let Some(doubt) = self.doubt {
            doubt.write(&mut item);
        }
        item
    }
}

/// A part is named after the digest of the whole, so that two runs never write different data to the same item.
fn chunk_key(digest: &str, chunk: u64) -> String {
    format!("#present#{digest}#{chunk}")
}

impl Table {
    /// What is known of the feed. `None` until something is.
    pub async fn feed(&self) -> Result<Option<FeedState>, Error> {
        Ok(self.get(FEED).await?.as_ref().map(FeedState::from_item))
    }

    /// What the last read showed. If a part is missing, nothing is known, and the entries are looked up one by one.
    pub async fn snapshot(&self, feed: &FeedState) -> Result<Snapshot, Error> {
        let mut packed = feed.inline.clone().unwrap_or_default();
        for chunk in 0..feed.chunks {
            let item = self.get(&chunk_key(&feed.chunks_digest, chunk)).await?.unwrap_or_default();
            if let Some(bytes) = item.get("present").and_then(|value| value.as_b().ok()) {
                packed.extend_from_slice(bytes.as_ref());
            }
        }
        if packed.is_empty() {
            return Ok(Snapshot::default());
        }
        Ok(Snapshot::unpack(&packed).unwrap_or_else(|| {
            tracing::warn!(
                table = self.name,
                "could not unpack what the last read showed (table {}); looking up every entry instead",
                self.name
            );
            Snapshot::default()
        }))
    }

    /// Replaces what is known of the feed. Returns false, and changes nothing, if another run has replaced it since `read` was read.
    pub async fn save_feed(
        &self,
        read: Option<&FeedState>,
        mut feed: FeedState,
        snapshot: &Snapshot,
    ) -> Result<bool, Error> {
        let read_version = read.map_or(0, |feed| feed.version);
        feed.version = read_version + 1;
        let packed = snapshot.pack();
        if packed.len() <= INLINE {
            (feed.inline, feed.chunks, feed.chunks_digest) = (Some(packed), 0, String::new());
        } else {
            feed.inline = None;
            feed.chunks = 0;
            feed.chunks_digest = hex::encode(Sha256::digest(&packed));
            for bytes in packed.chunks(CHUNK) {
                let mut item = self.key(&chunk_key(&feed.chunks_digest, feed.chunks));
                item.insert("present".into(), AttributeValue::B(Blob::new(bytes)));
                self.put(item).await?;
                feed.chunks += 1;
            }
        }
        let put = self.client.put_item().table_name(&self.name).set_item(Some(feed.to_item(self.key(FEED))));
        let put = match read {
            None => put.condition_expression("attribute_not_exists(version)"),
            Some(_) => {
                put.condition_expression("version = :read").expression_attribute_values(":read", number(read_version))
            }
        };
        if met(&self.name, "PutItem", put.send().await)?.is_none() {
            // Nothing refers to our parts, unless the other run read the very same feed, or was this one and its answer was lost.
            if feed.chunks > 0 {
                let winner = self.feed().await?;
                self.remove_parts(&feed, winner.as_ref()).await?;
            }
            return Ok(false);
        }
        if let Some(old) = read {
            self.remove_parts(old, Some(&feed)).await?;
        }
        Ok(true)
    }

    /// Removes the parts of `old`, unless `now` refers to the same ones. A run that still reads them finds them missing and looks
    /// up the entries one by one.
    async fn remove_parts(&self, old: &FeedState, now: Option<&FeedState>) -> Result<(), Error> {
        if now.is_some_and(|now| now.chunks_digest == old.chunks_digest) {
            return Ok(());
        }
        for chunk in 0..old.chunks {
            let part = self.key(&chunk_key(&old.chunks_digest, chunk));
            let delete = self.client.delete_item().table_name(&self.name).set_key(Some(part));
            delete.send().await.map_err(Error::sdk(&self.name, "DeleteItem"))?;
        }
        Ok(())
    }

    /// Notes when the feed may be read next, whether something is owed until then, and since when it has asked to be left alone. A
    /// feed that was never read can ask for that, too.
    pub(crate) async fn pause(
        &self,
        not_before: Timestamp,
        owed_left: bool,
        refused_since: Option<Timestamp>,
    ) -> Result<(), Error> {
        let update = self
            .update(FEED)
            .expression_attribute_values(":at", number(not_before.as_millis()))
            .expression_attribute_values(":owed", AttributeValue::Bool(owed_left));
        let update = match refused_since {
            Some(since) => update
                .update_expression("SET not_before = :at, owed_left = :owed, refused_since = :since")
                .expression_attribute_values(":since", number(since.as_millis())),
            None => update.update_expression("SET not_before = :at, owed_left = :owed REMOVE refused_since"),
        };
        update.send().await.map_err(Error::sdk(&self.name, "UpdateItem"))?;
        Ok(())
    }

    /// Notes that the address with this digest is gone for ever.
    pub(crate) async fn note_gone(&self, url_digest: &str) -> Result<(), Error> {
        let update = self
            .update(FEED)
            .update_expression("SET gone = :digest")
            .expression_attribute_values(":digest", text(url_digest));
        update.send().await.map_err(Error::sdk(&self.name, "UpdateItem"))?;
        Ok(())
    }

    /// Notes where the feed redirects permanently, and since when.
    pub(crate) async fn note_moved(&self, digest: &str, at: Timestamp) -> Result<(), Error> {
        let update = self
            .change_feed()
            .update_expression("SET moved = :digest, moved_at = :at")
            .expression_attribute_values(":digest", text(digest))
            .expression_attribute_values(":at", number(at.as_millis()));
        met(&self.name, "UpdateItem", update.send().await)?;
        Ok(())
    }

    /// Notes that something is owed again, so that runs look for it also while the feed is paused.
    pub(crate) async fn wake(&self) -> Result<(), Error> {
        let update = self.change_feed().update_expression("SET owed_left = :owed");
        let update = update.expression_attribute_values(":owed", AttributeValue::Bool(true));
        met(&self.name, "UpdateItem", update.send().await)?;
        Ok(())
    }

    /// Notes that there may be a dead letter, so that runs look for it. The version changes, so that a run that replaces the item at
    /// the same time does not overwrite the note.
    pub(crate) async fn note_dead(&self, at: Timestamp) -> Result<(), Error> {
        let update = self
            .change_feed()
            .update_expression("SET dead_at = :at, owed_left = :owed ADD version :one")
            .expression_attribute_values(":owed", AttributeValue::Bool(true))
            .expression_attribute_values(":at", number(at.as_millis()))
            .expression_attribute_values(":one", number(1));
        met(&self.name, "UpdateItem", update.send().await)?;
        Ok(())
    }

    /// Notes how many readings in a row showed no entry.
    pub(crate) async fn note_empty(&self, readings: u64) -> Result<(), Error> {
        let update = self
            .change_feed()
            .update_expression("SET empty_readings = :readings")
            .expression_attribute_values(":readings", number(readings));
        met(&self.name, "UpdateItem", update.send().await)?;
        Ok(())
    }

    /// Notes that no dead letter is left, unless there was a new one since `seen`.
    pub(crate) async fn none_dead(&self, seen: Timestamp) -> Result<(), Error> {
        let update = self
            .update(FEED)
            .update_expression("REMOVE dead_at")
            .condition_expression("dead_at = :seen")
            .expression_attribute_values(":seen", number(seen.as_millis()));
        met(&self.name, "UpdateItem", update.send().await)?;
        Ok(())
    }

    /// A change of the item, if there is one. There is none before the first read, and one with only these attributes would look
    /// like the result of a read.
    fn change_feed(&self) -> UpdateItemFluentBuilder {
        self.update(FEED).condition_expression("attribute_exists(version)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::EntryId;

    #[test]
    fn a_snapshot_of_thousands_of_entries_is_packed_small_and_comes_back() {
        let known = |n: u64| Known {
            id: EntryId::from_table(format!("tag:github.com,2008:PushEvent/{}", 40_000_000_000 + n)),
            title: Some(n.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            link: Some(n.wrapping_mul(0xD6E8_FEB8_6659_FD93)),
            date: Some(1_700_000_000 + n as i64),
        };
        let snapshot = Snapshot { present: (0..5_000).map(known).collect(), gone: (0..10).map(known).collect() };
        let packed = snapshot.pack();
        assert!(packed.len() < CHUNK, "{}", packed.len());
        assert_eq!(Snapshot::unpack(&packed), Some(snapshot));
    }

    #[test]
    fn thirty_entries_fit_into_the_feeds_own_item() {
        let known = |n: u64| Known {
            id: EntryId::from_table(format!("https://b.hatena.ne.jp/masutaka/20240101#bookmark-{n}")),
            title: Some(n << 40),
            link: Some(n << 41),
            date: Some(n as i64),
        };
        let snapshot = Snapshot { present: (0..30).map(known).collect(), gone: (0..200).map(known).collect() };
        assert!(snapshot.pack().len() < INLINE);
    }

    #[test]
    fn damaged_snapshots_are_not_believed() {
        assert_eq!(Snapshot::unpack(b"nonsense"), None);
    }
}
