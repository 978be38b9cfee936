//! Recognises an entry that comes back under a new id.
//!
//! Sites move, trackers add queries and feeds are rebuilt, so the id of an entry can change. An entry with an unknown id is *the
//! same as* a known one if
//!
//! 1. both have a title, a link and a date, and all three are equal; or
//! 2. the ids differ only in scheme, host or query, and the known entry is no longer in the feed. If more than the scheme
//!    differs, the title or the date must be equal, too; if both have a query and the queries differ, the title and the date (`item?id=1`
//!    and `item?id=2` also differ only in the query).
//!
//! An entry is compared with those of the last read and with at most [`REMEMBERED_GONE`] that left the feed before. A
//! known entry is recognised under at most one new id per read. In doubt an entry is new, because a repeated post does less harm
//! than a lost one.

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};
use url::Url;

use crate::entry::{Entry, EntryId};

/// How many entries that left the feed are remembered for the comparison.
pub(super) const REMEMBERED_GONE: usize = 200;

/// What is remembered of an entry for the comparison: its id, and digests of the rest.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Known {
    #[serde(rename = "i")]
    pub id: EntryId,
    /// The digest of the title. Absent if the title is empty.
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub title: Option<u64>,
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    pub link: Option<u64>,
    /// In seconds since 1970.
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub date: Option<i64>,
}

impl Known {
    pub(super) fn of(entry: &Entry) -> Self {
        Known {
            id: entry.id.clone(),
            title: digest(&entry.title),
            link: digest(&entry.link),
            date: entry.published.map(|at| at.as_second()),
        }
    }

    /// Title, link and date, if the entry has all of them.
    fn all(&self) -> Option<(u64, u64, i64)> {
        Some((self.title?, self.link?, self.date?))
    }
}

fn digest(text: &str) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let bytes = Sha256::digest(text.as_bytes());
    Some(u64::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]]))
}

/// Which of `new` are known under another id: their position in `new`, and the known id.
///
/// `known` is what is remembered. `present` are the ids in the document that was just read.
pub(super) fn renamed(new: &[&Entry], known: &[Known], present: &HashSet<&EntryId>) -> HashMap<usize, EntryId> {
    let mut by_all: HashMap<(u64, u64, i64), &EntryId> = HashMap::new();
    let mut by_shape: HashMap<String, Vec<&Known>> = HashMap::new();
    for entry in known {
        if let Some(all) = entry.all() {
            by_all.entry(all).or_insert(&entry.id);
        }
        if !present.contains(&entry.id)
            && let Some(shape) = shape(entry.id.as_str())
        {
            by_shape.entry(shape).or_default().push(entry);
        }
    }
    let mut recognised = HashMap::new();
    let mut taken: HashSet<EntryId> = HashSet::new();
    for (position, entry) in new.iter().enumerate() {
        let candidate = Known::of(entry);
        let same = candidate.all().and_then(|all| by_all.get(&all).copied()).or_else(|| {
            let candidates = by_shape.get(&shape(candidate.id.as_str())?)?;
            let same = |known: &&&Known| !taken.contains(&known.id) && agrees(&candidate, known);
            candidates.iter().find(same).map(|known| &known.id)
        });
        if let Some(same) = same
            && taken.insert(same.clone())
        {
            recognised.insert(position, same.clone());
        } else if let Some(all) = candidate.all() {
            // Two entries of one document with the same title, link and date are the same, too.
            by_all.entry(all).or_insert(&entry.id);
        }
    }
    recognised
}

fn agrees(new: &Known, known: &Known) -> bool {
    let only_scheme = match (new.id.as_str().split_once("://"), known.id.as_str().split_once("://")) {
        (Some((_, new)), Some((_, known))) => new == known,
        _ => false,
    };
    let title = new.title.is_some() && new.title == known.title;
    let date = new.date.is_some() && new.date == known.date;
    match (query(new.id.as_str()), query(known.id.as_str())) {
        (Some(new), Some(known)) if new != known => title && date,
        _ => only_scheme || title || date,
    }
}

fn query(id: &str) -> Option<&str> {
    let before_fragment = id.split_once('#').map_or(id, |(rest, _)| rest);
    before_fragment.split_once('?').map(|(_, query)| query)
}

/// An id without its scheme, host and query: the path and the fragment, as they are written. `None` if they do not tell
/// entries apart. The host of a `tag:` URI is its authority (`github.com,2008`).
fn shape(id: &str) -> Option<String> {
    if let Some(tag) = id.strip_prefix("tag:") {
        return tag.split_once(':').map(|(_, specific)| specific.to_owned()).filter(|specific| !specific.is_empty());
    }
    let after_scheme = id.split_once("://").filter(|(scheme, _)| scheme.bytes().all(|b| b.is_ascii_alphanumeric()))?.1;
    Url::parse(id).ok()?;
    let (rest, fragment) = after_scheme.split_once('#').map_or((after_scheme, ""), |(rest, fragment)| (rest, fragment));
    let path = &rest[rest.find('/')?..];
    let path = &path[..path.find('?').unwrap_or(path.len())];
    (path.len() > 1 || !fragment.is_empty()).then(|| format!("{path}#{fragment}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, title: &str, link: &str, date: &str) -> Entry {
        Entry {
            id: EntryId::from_feed(id).unwrap(),
            title: title.into(),
            link: link.into(),
            published: date.parse().ok(),
            author: String::new(),
            content: "".into(),
            categories: vec![],
            enclosure: String::new(),
        }
    }

    const DAY: &str = "2026-01-01T00:00:00Z";
    const NEXT: &str = "2026-01-02T00:00:00Z";

    /// Is `new` recognised as `old`, which is still in the feed or not?
    fn same(old: &Entry, new: &Entry, old_is_present: bool) -> bool {
        let mut present = HashSet::from([&new.id]);
        if old_is_present {
            present.insert(&old.id);
        }
        renamed(&[new], &[Known::of(old)], &present).get(&0) == Some(&old.id)
    }

    #[test]
    fn another_scheme_is_the_same_thing_whatever_else_changed() {
        let old = entry("http://example.com/a#1", "Old", "http://example.com/a", DAY);
        let new = entry("https://example.com/a#1", "New", "https://example.com/a", NEXT);
        assert!(same(&old, &new, false));
    }

    #[test]
    fn another_host_or_query_is_the_same_thing_if_title_or_date_agree() {
        let old = entry("https://old.example/a/1", "T", "https://old.example/a/1", DAY);
        assert!(same(&old, &entry("https://new.example/a/1", "T", "https://new.example/a/1", NEXT), false));
        assert!(same(&old, &entry("https://old.example/a/1?utm_source=rss", "T (edited)", "l", DAY), false));
        let anchored = entry("https://b.example/m/20260101#bookmark-1", "T", "x", DAY);
        assert!(same(&anchored, &entry("https://b.example/m/20260101?v=2#bookmark-1", "T", "y", NEXT), false));
        assert!(!same(&anchored, &entry("https://b.example/m/20260101#bookmark-2", "T", "y", NEXT), false));
        assert!(!same(&old, &entry("https://new.example/a/1", "Other", "https://new.example/a/1", NEXT), false));
        assert!(!same(&old, &entry("https://old.example/a/2", "T", "https://old.example/a/2", NEXT), false));
    }

    #[test]
    fn pages_told_apart_by_their_query_stay_apart() {
        let old = entry("https://news.example/item?id=1", "One", "https://news.example/item?id=1", DAY);
        let new = entry("https://news.example/item?id=2", "Two", "https://news.example/item?id=2", NEXT);
        assert!(!same(&old, &new, false));
        let posted_the_same_day =
            entry("https://news.example/item?id=3", "Three", "https://news.example/item?id=3", DAY);
        assert!(!same(&old, &posted_the_same_day, false));
        let reply = entry("https://news.example/item?id=4", "One", "https://news.example/item?id=4", NEXT);
        assert!(!same(&old, &reply, false), "the title of a reply");
        assert!(same(&old, &entry("https://news.example/item?id=1&utm=rss", "One", "elsewhere", DAY), false));
    }

    #[test]
    fn an_entry_that_is_still_there_was_not_renamed() {
        let old = entry("https://old.example/a/1", "T", "x", DAY);
        let new = entry("https://new.example/a/1", "T", "y", NEXT);
        assert!(!same(&old, &new, true));
    }

    #[test]
    fn equal_title_link_and_date_are_the_same_thing_under_any_id() {
        let old = entry("tag:github.com,2008:PushEvent/1", "T", "https://x/", DAY);
        assert!(same(&old, &entry("urn:uuid:2", "T", "https://x/", DAY), true));
        assert!(!same(&old, &entry("urn:uuid:2", "T", "https://x/", "nonsense"), false));
    }

    #[test]
    fn bare_hosts_are_not_the_same_page() {
        let old = entry("https://one.example/", "Home", "https://one.example/", DAY);
        let new = entry("https://two.example/", "Home", "https://two.example/", NEXT);
        assert!(!same(&old, &new, false));
    }

    #[test]
    fn a_known_entry_is_recognised_under_one_new_id_only() {
        let old = entry("https://x.example/item?id=1", "Same title", "a", DAY);
        let two = entry("https://x.example/item?id=2", "Same title", "b", DAY);
        let three = entry("https://x.example/item?id=3", "Same title", "c", DAY);
        let present = HashSet::from([&two.id, &three.id]);
        assert_eq!(renamed(&[&two, &three], &[Known::of(&old)], &present).len(), 1);
    }

    #[test]
    fn one_thing_twice_in_a_document_is_one_thing() {
        let one = entry("urn:1", "T", "https://x/", DAY);
        let two = entry("urn:2", "T", "https://x/", DAY);
        let present = HashSet::from([&one.id, &two.id]);
        assert_eq!(renamed(&[&one, &two], &[], &present), HashMap::from([(1, one.id.clone())]));
    }
}
