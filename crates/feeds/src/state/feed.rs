//! The feed's own item: what we have of it, and when it may be read next.
//!
//! The item is replaced under a version, so that of two overlapping runs one wins and the other sees it. What the
//! last reading showed ([`Snapshot`]) is packed into the item, or, if it is large, into items of its own that are
//! written before the item that refers to them.

use std::io::{Read, Write};

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};
use ichido::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{
    Error, State,
    attr::{Item, get_number, get_text, number, text},
    is_condition, key,
};
use crate::{entry::hex, fetch::Validators, identity::Known, text::Limit};

const FEED: &str = "#feed";
const LIMIT: &str = "#limit";
/// How much of a snapshot stands in the feed's own item, which every run reads.
const INLINE: usize = 16 * 1024;
/// How much of it stands in one item of its own; DynamoDB takes 400 KB.
const CHUNK: usize = 300 * 1024;
/// Largest snapshot unpacked: a bound against a damaged item.
const MAX_SNAPSHOT: u64 = 256 * 1024 * 1024;

/// The entries that the last reading showed, and a few that had left before.
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
    /// Of the URL that the validators belong to.
    pub url_digest: String,
    /// Of the entries that were read last.
    pub content_digest: String,
    pub not_before: Option<Timestamp>,
    /// Was something still owed when `not_before` was set?
    pub owed_left: bool,
    /// When something new was last seen.
    pub news_at: Option<Timestamp>,
    pub(crate) version: u64,
    pub(crate) chunks: u64,
    /// Of the packed snapshot.
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
            owed_left: item.get("owed_left").and_then(|value| value.as_bool().ok()).copied().unwrap_or(true),
            news_at: get_number(item, "news_at").map(Timestamp::from_millis),
            version: get_number(item, "version").unwrap_or_default(),
            chunks: get_number(item, "chunks").unwrap_or_default(),
            chunks_digest: owned("chunks_digest").unwrap_or_default(),
            inline: item.get("present").and_then(|value| value.as_b().ok()).map(|blob| blob.as_ref().to_vec()),
        }
    }

    fn to_item(&self) -> Item {
        let mut item = key(FEED);
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
        put("news_at", self.news_at.map(|at| number(at.as_millis())));
        put("version", Some(number(self.version)));
        put("chunks", Some(number(self.chunks)));
        put("chunks_digest", Some(text(&self.chunks_digest)));
        put("present", self.inline.as_ref().map(|bytes| AttributeValue::B(Blob::new(bytes.clone()))));
        item
    }
}

/// Named for what is in them, so that two runs never write different things to one place.
fn chunk_key(digest: &str, chunk: u64) -> String {
    format!("#present#{digest}#{chunk}")
}

impl State {
    /// What is known of the feed; `None` before the first reading is complete.
    pub async fn feed(&self) -> Result<Option<FeedState>, Error> {
        Ok(self.get(FEED).await?.as_ref().map(FeedState::from_item))
    }

    /// What the last reading showed. A part that is missing is a part that is not known: entries in it are looked up one by one.
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
            tracing::warn!("what the last reading showed cannot be unpacked; entries are looked up one by one");
            Snapshot::default()
        }))
    }

    /// Replaces what is known of the feed, if nobody else has since `read` was read. False: somebody has.
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
            feed.chunks_digest = hex(&Sha256::digest(&packed));
            for bytes in packed.chunks(CHUNK) {
                let mut item = key(&chunk_key(&feed.chunks_digest, feed.chunks));
                item.insert("present".into(), AttributeValue::B(Blob::new(bytes)));
                let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
                put.send().await.map_err(Error::sdk("PutItem"))?;
                feed.chunks += 1;
            }
        }
        let put = self.client.put_item().table_name(&self.table).set_item(Some(feed.to_item()));
        let put = match read {
            None => put.condition_expression("attribute_not_exists(entry_id)"),
            Some(_) => {
                put.condition_expression("version = :read").expression_attribute_values(":read", number(read_version))
            }
        };
        match put.send().await {
            Ok(_) => {}
            Err(error) if is_condition(&error) => {
                // Nobody refers to our parts, unless the other run has read the very same (or is this one, whose answer was lost).
                if feed.chunks > 0 {
                    let winner = self.feed().await?;
                    self.remove_parts(&feed, winner.as_ref()).await?;
                }
                return Ok(false);
            }
            Err(error) => return Err(Error::sdk("PutItem")(error)),
        }
        if let Some(old) = read {
            self.remove_parts(old, Some(&feed)).await?;
        }
        Ok(true)
    }

    /// Removes the parts of `old`, unless `now` refers to the same. Whoever still reads them finds them missing, and looks
    /// entries up one by one.
    async fn remove_parts(&self, old: &FeedState, now: Option<&FeedState>) -> Result<(), Error> {
        if now.is_some_and(|now| now.chunks_digest == old.chunks_digest) {
            return Ok(());
        }
        for chunk in 0..old.chunks {
            let part = key(&chunk_key(&old.chunks_digest, chunk));
            let delete = self.client.delete_item().table_name(&self.table).set_key(Some(part));
            delete.send().await.map_err(Error::sdk("DeleteItem"))?;
        }
        Ok(())
    }

    /// When the feed may be read next, and whether something is owed until then.
    pub async fn pause(&self, not_before: Timestamp, owed_left: bool) -> Result<(), Error> {
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(key(FEED)))
            .update_expression("SET not_before = :at, owed_left = :owed")
            // Before the first reading there is no item, and an item of this alone would look like one.
            .condition_expression("attribute_exists(version)")
            .expression_attribute_values(":at", number(not_before.as_millis()))
            .expression_attribute_values(":owed", AttributeValue::Bool(owed_left));
        match update.send().await {
            Ok(_) => Ok(()),
            Err(error) if is_condition(&error) => Ok(()),
            Err(error) => Err(Error::sdk("UpdateItem")(error)),
        }
    }

    /// Something is owed again: runs must look.
    pub async fn wake(&self) -> Result<(), Error> {
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(key(FEED)))
            .update_expression("SET owed_left = :owed")
            .condition_expression("attribute_exists(version)")
            .expression_attribute_values(":owed", AttributeValue::Bool(true));
        match update.send().await {
            Ok(_) => Ok(()),
            Err(error) if is_condition(&error) => Ok(()),
            Err(error) => Err(Error::sdk("UpdateItem")(error)),
        }
    }

    /// How long a post may be, as the instance said, and when it said so.
    pub async fn limit(&self) -> Result<Option<(Limit, Timestamp)>, Error> {
        let Some(item) = self.get(LIMIT).await? else { return Ok(None) };
        let size = |name| get_number(&item, name).and_then(|n| usize::try_from(n).ok());
        let at = get_number(&item, "read_at").map(Timestamp::from_millis);
        Ok(size("characters").zip(size("url")).zip(at).map(|((characters, url), at)| (Limit { characters, url }, at)))
    }

    pub async fn save_limit(&self, limit: Limit, now: Timestamp) -> Result<(), Error> {
        let mut item = key(LIMIT);
        item.insert("characters".into(), number(limit.characters as u64));
        item.insert("url".into(), number(limit.url as u64));
        item.insert("read_at".into(), number(now.as_millis()));
        let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
        put.send().await.map_err(Error::sdk("PutItem"))?;
        Ok(())
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
