//! What a read leaves behind: the entries that left the feed begin to expire, and the feed's state is replaced.

use std::collections::HashSet;

use ichido::Timestamp;

use super::{
    Error,
    identity::{Known, REMEMBERED_GONE},
};
use crate::{
    entry::EntryId,
    list::FeedName,
    outside::fetch::Validators,
    parse::Feed,
    table::{FeedState, Snapshot, Table},
};

/// How often the feed's state is written again after another run was faster.
const ROUNDS: usize = 3;

/// Writes down what was read. `read` is the state that this run began with, `before` what it showed.
///
/// If other runs are faster every time, nothing is written. Every new entry is recorded by then, so the next run only reads the
/// feed again.
pub(super) async fn remember(
    table: &Table,
    name: &FeedName,
    read: Option<&FeedState>,
    mut next: FeedState,
    parsed: &Feed,
    mut before: Snapshot,
    now: Timestamp,
) -> Result<(), Error> {
    let present: HashSet<&EntryId> = parsed.entries.iter().map(|entry| &entry.id).collect();
    let mut read = read.cloned();
    for round in 0..=ROUNDS {
        next.dead_at = read.as_ref().and_then(|feed| feed.dead_at);
        let absent: Vec<Known> = before.present.iter().filter(|known| !present.contains(&known.id)).cloned().collect();
        // A truncated document does not show all entries, and another run may have read a newer document than this one. In both
        // cases an absent entry may still be in the feed, and the next run must look at the whole document again.
        let (mut kept, left) = if parsed.truncated || round > 0 {
            next.validators = Validators::default();
            next.content_digest = String::new();
            (absent, Vec::new())
        } else {
            (Vec::new(), absent)
        };
        table.left(left.iter().map(|known| known.id.clone()).collect(), now).await?;
        let mut gone: Vec<Known> =
            left.into_iter().chain(before.gone).filter(|known| !present.contains(&known.id)).collect();
        gone.truncate(REMEMBERED_GONE);
        kept.extend(parsed.entries.iter().map(Known::of));
        let snapshot = Snapshot { present: kept, gone };
        if table.save_feed(read.as_ref(), next.clone(), &snapshot).await? {
            return Ok(());
        }
        let feed = name.as_str();
        tracing::debug!(feed, round, "another run has read feed {feed} meanwhile; writing its state again");
        read = table.feed().await?.filter(FeedState::was_read);
        before = match &read {
            Some(feed) => table.snapshot(feed).await?,
            None => Snapshot::default(),
        };
    }
    Ok(())
}
