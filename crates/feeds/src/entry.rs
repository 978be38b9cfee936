//! An entry of a feed, and the id by which the state table knows it.
//!
//! Promise: whatever a feed uses as an id, [`EntryId`] is a valid key of the table. The same text always
//! gives the same key, and different texts give different keys. No key of an entry is the key of one of the
//! table's other items.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{parse::Content, table::entry_key};

/// Which kind of feed it is: one of the two with functions of their own, or one of the list. This decides the default texts, the
/// destinations, where a comment is found, and what is made of entries that other feeds have and these two do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    Github,
    Hatebu,
    Listed,
}

/// Longest id that is kept as it is, in bytes. DynamoDB takes keys of 2,048 bytes.
const MAX_ID_BYTES: usize = 512;
/// How much of a longer id is kept in front of its digest, so that a person still recognises it.
const KEPT_OF_LONG_ID: usize = 256;

/// The key of an entry in the state table.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryId(String);

impl EntryId {
    /// The key for an id found in a feed. `None` if the id is empty or only white space.
    pub(crate) fn from_feed(raw: &str) -> Option<Self> {
        let raw = raw.trim();
        if raw.is_empty() {
            return None;
        }
        let id = if raw.len() > MAX_ID_BYTES { shortened(raw) } else { raw.to_owned() };
        Some(EntryId(entry_key(id)))
    }

    /// A key that was read back from the table.
    pub fn from_table(key: impl Into<String>) -> Self {
        EntryId(key.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One entry of a feed. Every text is one line of plain text, without markup or entities, and of limited
/// length. A missing part is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub id: EntryId,
    pub title: String,
    pub link: String,
    pub published: Option<Timestamp>,
    pub author: String,
    pub content: Content,
    pub categories: Vec<String>,
    /// The address of the first enclosure, such as the recording of a podcast.
    pub enclosure: String,
}

/// The beginning of an id that is too long, and the digest of all of it.
pub(crate) fn shortened(id: &str) -> String {
    format!("{}~{}", prefix(id, KEPT_OF_LONG_ID), hex::encode(Sha256::digest(id.as_bytes())))
}

/// The longest beginning of `text` that has at most `bytes` bytes and does not split a character.
pub(crate) fn prefix(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Adds a part to a digest, with its length, so that parts cannot run together.
pub(crate) fn digest_part(digest: &mut Sha256, part: &str) {
    digest.update((part.len() as u64).to_be_bytes());
    digest.update(part.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_no_id() {
        assert_eq!(EntryId::from_feed(" \n\t "), None);
    }

    #[test]
    fn an_id_is_kept_as_it_is_but_for_white_space_around_it() {
        let id = EntryId::from_feed(" tag:github.com,2008:PushEvent/1\n").unwrap();
        assert_eq!(id.as_str(), "tag:github.com,2008:PushEvent/1");
    }

    #[test]
    fn long_ids_become_valid_keys_and_stay_different() {
        let one = EntryId::from_feed(&format!("{}1", "あ".repeat(5000))).unwrap();
        let two = EntryId::from_feed(&format!("{}2", "あ".repeat(5000))).unwrap();
        assert!(one.as_str().len() <= MAX_ID_BYTES);
        assert_ne!(one, two);
    }

    #[test]
    fn a_foreign_id_cannot_name_one_of_the_tables_own_items() {
        for id in ["#feed", "DELIVERY#mastodon#1", "entry:#feed"] {
            let id = EntryId::from_feed(id).unwrap();
            assert!(id.as_str().starts_with("entry:"), "{id}");
        }
        assert_ne!(EntryId::from_feed("#feed"), EntryId::from_feed("entry:#feed"));
    }
}
