//! Which entries of a document are new, and what happens to each of them. They are recorded before anything else happens.

use std::collections::HashSet;

use ichido::Timestamp;
use telemetry::metric;

use super::{
    Error, Read, Reader, count,
    filter::Ignore,
    first_run::oldest_first,
    identity::{self, Known},
};
use crate::{
    entry::{Entry, EntryId},
    parse::Feed,
    table::{EntryState, Fate, Pending, Snapshot},
};

impl Reader {
    /// Records every new entry with its fate: owed, marked, ignored, or the same as a known one.
    pub(super) async fn record(
        &self,
        is_first: bool,
        parsed: &Feed,
        before: &Snapshot,
        now: Timestamp,
    ) -> Result<Read, Error> {
        let ordered: Vec<&Entry> = oldest_first(&parsed.entries).into_iter().map(|at| &parsed.entries[at]).collect();
        let new = self.unknown(&ordered, before, now).await?;
        let marked = if is_first { self.first_run.marked(ordered.len()) } else { 0 };
        let fates = fates(&new, &ordered[..marked], &self.ignore, parsed, before);
        let renamed = fates.iter().filter(|(_, fate)| matches!(fate, Fate::Same { .. })).count();
        let recorded = self.table.record(&fates, now).await?;

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

    /// The entries that the table does not have.
    async fn unknown<'e>(
        &self,
        ordered: &[&'e Entry],
        before: &Snapshot,
        now: Timestamp,
    ) -> Result<Vec<&'e Entry>, Error> {
        let shown: HashSet<&EntryId> = before.present.iter().map(|known| &known.id).collect();
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
        count(metric::FEED_GAPS, usize::from(read.gap));
        count(metric::ENTRIES_NEW, read.new);
        count(metric::ENTRIES_IGNORED, read.ignored);
        count(metric::ENTRIES_RENAMED, read.renamed);
        if read.gap {
            let feed = self.source.name();
            tracing::warn!(feed, entries, "all {entries} entries of feed {feed} are new: some may have been missed");
        }
    }
}

/// What happens to each new entry.
fn fates<'e>(
    new: &[&'e Entry],
    marked: &[&Entry],
    ignore: &Ignore,
    parsed: &Feed,
    before: &Snapshot,
) -> Vec<(&'e Entry, Fate)> {
    let present: HashSet<&EntryId> = parsed.entries.iter().map(|entry| &entry.id).collect();
    let remembered: Vec<Known> = before.present.iter().chain(&before.gone).cloned().collect();
    let renamed = identity::renamed(new, &remembered, &present);
    let marked: HashSet<&EntryId> = marked.iter().map(|entry| &entry.id).collect();
    let fate = |(position, entry): (usize, &&'e Entry)| {
        let fate = if let Some(as_) = renamed.get(&position) {
            Fate::Same { as_: as_.clone() }
        } else if marked.contains(&entry.id) {
            Fate::Marked
        } else if let Some(reason) = ignore.reason(entry) {
            Fate::Ignored { reason: reason.to_owned() }
        } else {
            Fate::Owed
        };
        (*entry, fate)
    };
    new.iter().enumerate().map(fate).collect()
}
