//! Which entries of a document are new, and what happens to each of them. They are recorded before anything else happens.

use std::collections::HashSet;

use ichido::Timestamp;
use telemetry::metric;

use super::{
    Error, Read, Reader,
    filter::Filter,
    first_run::oldest_first,
    identity::{self, Known},
};
use crate::{
    entry::{Entry, EntryId},
    parse::Feed,
    table::{EntryState, Fate, FeedState, Pending, Snapshot},
};

impl Reader {
    /// Records every new entry with its fate: owed, marked, ignored, or the same as a known one.
    pub(super) async fn record(
        &self,
        feed: Option<&FeedState>,
        parsed: &Feed,
        before: &Snapshot,
        now: Timestamp,
    ) -> Result<Read, Error> {
        let ordered: Vec<&Entry> = oldest_first(&parsed.entries).into_iter().map(|at| &parsed.entries[at]).collect();
        let doubt = feed.and_then(|feed| feed.doubt);
        let new = self.unknown(&ordered, before, doubt.is_some(), now).await?;
        let marked = if feed.is_none() { self.first_run.marked(ordered.len()) } else { 0 };
        let fates = fates(&new, &ordered[..marked], &self.filter, parsed, before, doubt.is_some());
        let renamed = fates.iter().filter(|(_, fate)| matches!(fate, Fate::Same { .. })).count();
        let recorded = self.table.record(&fates, doubt, now).await?;

        let nothing_known = !parsed.entries.is_empty() && new.len() - renamed == parsed.entries.len();
        let state = |wanted| recorded.iter().filter(|marker| marker.state == wanted).count();
        let renamed = state(EntryState::Same);
        let read = Read {
            new: recorded.len() - renamed,
            ignored: state(EntryState::Ignored),
            renamed,
            gap: nothing_known && !before.present.is_empty(),
            owed: recorded.into_iter().filter(|marker| marker.pending == Some(Pending::Owed)).collect(),
            ..Read::default()
        };
        self.report(&read, parsed.entries.len());
        Ok(read)
    }

    /// The entries that the table does not have. With `doubt` it was restored, so that even those that the last read showed may be missing.
    async fn unknown<'e>(
        &self,
        ordered: &[&'e Entry],
        before: &Snapshot,
        doubt: bool,
        now: Timestamp,
    ) -> Result<Vec<&'e Entry>, Error> {
        let shown = before.present.iter().filter(|_| !doubt);
        let shown: HashSet<&EntryId> = shown.map(|known| &known.id).collect();
        let unseen: Vec<&Entry> = ordered.iter().copied().filter(|entry| !shown.contains(&entry.id)).collect();
        let ids: Vec<&EntryId> = unseen.iter().map(|entry| &entry.id).collect();
        let known = self.table.known(&ids, now).await?;
        let mut unknown = Vec::new();
        for entry in unseen {
            match known.get(&entry.id) {
                // It was recorded by a run that died before it could remember what it had read.
                Some(marker) if marker.ttl.is_none() && marker.left_at.is_none() => {}
                // It had left the feed and is back.
                Some(_) if self.table.returned(&entry.id, now).await? => {}
                _ => unknown.push(entry),
            }
        }
        Ok(unknown)
    }

    fn report(&self, read: &Read, entries: usize) {
        metric::FEED_GAPS.add(u64::from(read.gap));
        metric::ENTRIES_NEW.add(read.new as u64);
        metric::ENTRIES_IGNORED.add(read.ignored as u64);
        metric::ENTRIES_RENAMED.add(read.renamed as u64);
        if read.gap {
            let feed = self.feed.as_str();
            tracing::warn!(feed, entries, "all {entries} entries of feed {feed} are new: some may have been missed");
        }
    }
}

/// What happens to each new entry.
fn fates<'e>(
    new: &[&'e Entry],
    marked: &[&Entry],
    filter: &Filter,
    parsed: &Feed,
    before: &Snapshot,
    doubt: bool,
) -> Vec<(&'e Entry, Fate)> {
    let present: HashSet<&EntryId> = parsed.entries.iter().map(|entry| &entry.id).collect();
    let remembered = before.present.iter().chain(&before.gone);
    // An entry whose marker was lost is remembered, but it is not another name of itself.
    let lost: HashSet<&EntryId> = new.iter().filter(|_| doubt).map(|entry| &entry.id).collect();
    let remembered: Vec<Known> = remembered.filter(|known| !lost.contains(&known.id)).cloned().collect();
    let renamed = identity::renamed(new, &remembered, &present);
    let marked: HashSet<&EntryId> = marked.iter().map(|entry| &entry.id).collect();
    let fate = |(position, entry): (usize, &&'e Entry)| {
        let fate = if let Some(as_) = renamed.get(&position) {
            Fate::Same { as_: as_.clone() }
        } else if marked.contains(&entry.id) {
            Fate::Marked
        } else if let Some(reason) = filter.reason(entry) {
            Fate::Ignored { reason: reason.to_owned() }
        } else {
            Fate::Owed
        };
        (*entry, fate)
    };
    new.iter().enumerate().map(fate).collect()
}
