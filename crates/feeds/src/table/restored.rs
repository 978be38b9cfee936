//! What it means that items come from a copy of the table that shows an earlier time.
//!
//! The copy knows nothing of what was done after that time. A delivery that it shows as owed may have been made, and an entry
//! that it does not have may have been delivered. So both are *doubtful*: the destination is asked before anything is posted.
//! What the table itself has is newer than the copy, and stays, unless it says only that the entry was there at a first read.

use aws_sdk_dynamodb::types::AttributeValue;
use function::item::{Item, get_number, get_text, number};
use ichido::Timestamp;

use super::{EntryState, Error, Pending, Table, feed, marker::DOUBTFUL, met};
use crate::entry::Entry;

/// The time about which the table knows nothing: from the time that the copy shows to the time of the restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doubt {
    pub since: Timestamp,
    pub until: Timestamp,
}

impl Doubt {
    const SINCE: &str = "doubt_since";
    const UNTIL: &str = "doubt_until";

    pub(super) fn of_item(item: &Item) -> Option<Self> {
        let time = |name| get_number(item, name).map(Timestamp::from_millis);
        Some(Doubt { since: time(Self::SINCE)?, until: time(Self::UNTIL)? })
    }

    pub(super) fn write(self, item: &mut Item) {
        item.insert(Self::SINCE.to_owned(), number(self.since.as_millis()));
        item.insert(Self::UNTIL.to_owned(), number(self.until.as_millis()));
    }

    /// Whether an entry that the table does not have may have been delivered. One that was published later was not: nothing ran.
    pub(crate) fn concerns(self, entry: &Entry) -> bool {
        entry.published.is_none_or(|at| i128::from(at.as_millisecond()) <= i128::from(self.until.as_millis()))
    }
}

/// An item of the copy as it is put into the table.
pub fn restored(mut item: Item) -> Item {
    if get_text(&item, "pending").and_then(Pending::named) == Some(Pending::Owed) {
        item.insert(DOUBTFUL.to_owned(), AttributeValue::Bool(true));
    }
    item
}

/// Whether the copy's item replaces the table's. A run between the damage and the restore took the feed for new, and marked as known
/// what the copy still shows as owed or as a dead letter.
pub fn supersedes(copy: &Item, table: &Item) -> bool {
    get_text(table, "state") == Some(EntryState::Marked.name()) && get_text(copy, "pending").is_some()
}

impl Table {
    /// Notes what the table does not know. The next read looks at every entry of the feed, whatever the last one showed. The copy may have
    /// brought dead letters, so the next run looks for them too. Returns false if nothing is known of the feed at all: then the next
    /// read would be its first, which posts nothing.
    pub async fn doubt(&self, doubt: Doubt) -> Result<bool, Error> {
        let update = self
            .update(feed::FEED)
            .update_expression(format!(
                "SET {} = :since, {} = :until, dead_at = :until, content_digest = :none, owed_left = :owed, \
                 version = version + :one \
                 REMOVE etag, last_modified, not_before",
                Doubt::SINCE,
                Doubt::UNTIL
            ))
            .condition_expression("attribute_exists(version)")
            .expression_attribute_values(":since", number(doubt.since.as_millis()))
            .expression_attribute_values(":until", number(doubt.until.as_millis()))
            .expression_attribute_values(":none", AttributeValue::S(String::new()))
            .expression_attribute_values(":owed", AttributeValue::Bool(true))
            .expression_attribute_values(":one", number(1));
        Ok(met(&self.name, "UpdateItem", update.send().await)?.is_some())
    }
}
