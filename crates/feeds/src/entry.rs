//! An entry of a feed, and the id by which the state table knows it.
//!
//! Promise: whatever a feed puts into an id, [`EntryId`] is a valid table key, the same text always
//! gives the same key, different texts give different keys, and none of them can be mistaken for one
//! of the table's own items (see [`RESERVED`]).

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::parse::Content;

/// Which feed: it decides the field mappings, the default texts and the destinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    Github,
    Hatebu,
}

impl Source {
    pub const fn name(self) -> &'static str {
        match self {
            Source::Github => "github",
            Source::Hatebu => "hatebu",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Longest id that is kept as it is. DynamoDB takes keys of 2,048 bytes; the deliveries' keys are this
/// id with something in front, and `#` and `%` in it may be escaped to three bytes each.
pub const MAX_ID_BYTES: usize = 512;
/// What is left of a longer id in front of its digest, so that a person still recognises it.
const KEPT_OF_LONG_ID: usize = 256;

/// Beginnings of the keys that are not entries: the feed's own items and the claims of deliveries.
/// A foreign id that begins like one of them gets `entry:` in front.
pub const RESERVED: [&str; 3] = ["#", "DELIVERY#", "entry:"];

/// The key of an entry in the state table.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryId(String);

impl EntryId {
    /// The key for an id found in a feed; `None` if there is nothing in it but white space.
    pub fn from_feed(raw: &str) -> Option<Self> {
        let raw = raw.trim();
        if raw.is_empty() {
            return None;
        }
        let mut id = if raw.len() > MAX_ID_BYTES {
            format!("{}~{}", prefix(raw, KEPT_OF_LONG_ID), hex(&Sha256::digest(raw.as_bytes())))
        } else {
            raw.to_owned()
        };
        if RESERVED.iter().any(|reserved| id.starts_with(reserved)) {
            id.insert_str(0, "entry:");
        }
        Some(EntryId(id))
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

/// What a feed says about one thing that happened. Every text in it is plain text, one line,
/// without markup or entities, and bounded in length; missing parts are empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub id: EntryId,
    pub title: String,
    pub link: String,
    pub published: Option<Timestamp>,
    pub author: String,
    pub content: Content,
}

/// The longest beginning of `text` that has at most `bytes` bytes and does not split a character.
pub(crate) fn prefix(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
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
