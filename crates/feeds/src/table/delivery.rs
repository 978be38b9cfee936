//! The record of one delivery: the library's claim and outcome, under a key of ours.

use std::time::Duration;

use ichido::{Key, Namespace, Once, Run, key};

use crate::{
    entry::{EntryId, shortened},
    list::FeedName,
};

/// How long the outcome of a delivery is kept. It is longer than a delivery can be owed.
const RETENTION: Duration = Duration::from_secs(90 * 24 * 3_600);
/// How long it is remembered that a delivery may have been made: as long as a dead letter can be sent again.
const UNFINISHED: Duration = Duration::from_secs(180 * 24 * 3_600);

/// The attribute that names the destination, for people who look at the record.
const DESTINATION: &str = "destination";

/// The key of the claim on delivering an entry to a destination. If the store is down, nothing is delivered: it stays owed.
///
/// `feed` is the name of a feed that shares its table. In a key each `#` and `%` of the id takes three bytes. An id that becomes too long is
/// shortened to its beginning and its digest.
pub fn claim_key(feed: Option<&FeedName>, destination: &str, id: &EntryId) -> Result<Key, key::Error> {
    let namespace = Namespace::new("DELIVERY").retention(RETENTION).keep_unfinished(UNFINISHED).fail_closed();
    let key = |id: &str| namespace.key(feed.map(FeedName::as_str).into_iter().chain([destination, id]));
    match key(id.as_str()) {
        Err(key::Error::TooLong { .. }) => key(&shortened(id.as_str())),
        key => key,
    }
}

/// A run under the key of one delivery.
pub(crate) fn delivery_run<'o>(
    once: &'o Once,
    feed: Option<&FeedName>,
    destination: &str,
    id: &EntryId,
) -> Result<Run<'o>, key::Error> {
    Ok(once.run(&claim_key(feed, destination, id)?).attribute(DESTINATION, destination))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DESTINATION: &str = "mastodon";
    /// What is left for the id in a key of 1,024 bytes after `DELIVERY#mastodon#`.
    const ROOM: usize = 1_024 - 18;

    fn stored(id: &str) -> String {
        let id = EntryId::from_feed(id).unwrap();
        claim_key(None, DESTINATION, &id).unwrap().to_string()
    }

    #[test]
    fn an_id_of_signs_that_a_key_escapes_has_a_key_at_the_edge_and_beyond_it() {
        // Each sign takes three bytes: this one just fits, and keeps the key that it always had.
        let fits = format!("a{}", "#".repeat((ROOM - 1) / 3));
        assert_eq!(stored(&fits), format!("DELIVERY#mastodon#a{}", "%23".repeat((ROOM - 1) / 3)));
        let mut keys = std::collections::HashSet::new();
        for sign in ["#", "%"] {
            for signs in [(ROOM - 1) / 3 + 1, 400, 511] {
                let key = stored(&format!("a{}", sign.repeat(signs)));
                assert!(key.len() <= 1_024, "{signs} times {sign}: {} bytes", key.len());
                assert!(keys.insert(key), "{signs} times {sign}");
            }
        }
        assert!(stored(&"#".repeat(5_000)).len() <= 1_024);
        let feed = FeedName::listed(&"f".repeat(32));
        let id = EntryId::from_feed(&"#".repeat(512)).unwrap();
        assert!(claim_key(feed.as_ref(), "mastodon", &id).is_ok(), "the longest name, too");
    }
}
