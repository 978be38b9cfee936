//! The rehearsal. With `SHADOW=on` nothing is posted, and the texts that would have been posted are kept. This compares them with
//! what the account has posted by other means, such as IFTTT during a migration.

use ichido::Timestamp;
use serde::Serialize;

use super::notify::MASTODON;
use crate::{
    outside::mastodon::{Coverage, Status, normalised},
    table::{self, Delivery, Marker, Pending, Table},
};

/// Most rehearsed entries that are compared.
const MAX_COMPARED: usize = 1_000;

/// What would have been posted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rehearsed {
    pub entry_id: String,
    pub text: String,
    #[serde(skip)]
    pub link: String,
    /// When the entry was found, in milliseconds since 1970.
    pub at: u64,
}

/// What the account has posted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct There {
    pub id: String,
    pub text: String,
    pub at: Option<u64>,
}

/// A rehearsed text and a status about the same thing. The texts may differ, because another program wrote the status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pair {
    pub here: Rehearsed,
    pub there: There,
    /// Whether the texts are equal, apart from white space.
    pub equal: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    pub both: Vec<Pair>,
    pub only_there: Vec<There>,
    pub only_here: Vec<Rehearsed>,
    /// False if there are more statuses, or more rehearsed entries, than were read. Then `onlyHere` and `onlyThere` may be wrong.
    pub complete: bool,
}

/// What was rehearsed so far, oldest first, and whether that is all.
pub async fn rehearsed(table: &Table) -> Result<(Vec<Rehearsed>, Coverage), table::Error> {
    let mut markers = table.pending(Pending::Shadow, MAX_COMPARED + 1).await?;
    let coverage = if markers.len() > MAX_COMPARED { Coverage::CutShort } else { Coverage::Complete };
    markers.truncate(MAX_COMPARED);
    let mut rehearsed: Vec<Rehearsed> = markers.iter().filter_map(of_marker).collect();
    rehearsed.sort_by_key(|rehearsed| rehearsed.at);
    Ok((rehearsed, coverage))
}

fn of_marker(marker: &Marker) -> Option<Rehearsed> {
    match marker.deliveries.get(MASTODON)? {
        Delivery::Shadow { at, text } => Some(Rehearsed {
            entry_id: marker.entry.id.to_string(),
            text: text.clone(),
            link: marker.entry.link.clone(),
            at: marker.owed_since.unwrap_or(*at).as_millis(),
        }),
        _ => None,
    }
}

/// The time from which on statuses are compared.
pub fn since(rehearsed: &[Rehearsed]) -> Option<Timestamp> {
    rehearsed.iter().map(|rehearsed| Timestamp::from_millis(rehearsed.at)).min()
}

/// Pairs what would have been posted with what was posted: by text, else by link.
pub fn compare(
    (rehearsed, ours): (Vec<Rehearsed>, Coverage),
    (statuses, theirs): (Vec<Status>, Coverage),
) -> Comparison {
    let mut left: Vec<Option<Status>> = statuses.into_iter().map(Some).collect();
    let mut comparison =
        Comparison { complete: (ours, theirs) == (Coverage::Complete, Coverage::Complete), ..Comparison::default() };
    let mut unpaired = Vec::new();
    for here in rehearsed {
        let wanted = normalised(&here.text);
        let found = left.iter_mut().find(|there| there.as_ref().is_some_and(|there| normalised(&there.text) == wanted));
        match found.and_then(Option::take) {
            Some(there) => comparison.both.push(Pair { here, there: there.into(), equal: true }),
            None => unpaired.push(here),
        }
    }
    for here in unpaired {
        let same_link = |there: &Status| !here.link.is_empty() && there.has_link(&here.link);
        let found = left.iter_mut().find(|there| there.as_ref().is_some_and(same_link));
        match found.and_then(Option::take) {
            Some(there) => comparison.both.push(Pair { here, there: there.into(), equal: false }),
            None => comparison.only_here.push(here),
        }
    }
    comparison.only_there = left.into_iter().flatten().map(There::from).collect();
    comparison
}

impl From<Status> for There {
    fn from(status: Status) -> Self {
        There { id: status.id, text: status.text, at: status.created_at.map(Timestamp::as_millis) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(text: &str, link: &str) -> Rehearsed {
        Rehearsed { entry_id: link.into(), text: text.into(), link: link.into(), at: 1 }
    }

    fn there(id: &str, text: &str, link: &str) -> Status {
        Status { id: id.into(), url: None, created_at: None, text: text.into(), links: [link.to_owned()].into() }
    }

    #[test]
    fn what_is_in_both_only_there_and_only_here_is_told_apart() {
        let ours = vec![
            here("[GH] one https://x/1", "https://x/1"),
            here("[GH] two https://x/2", "https://x/2"),
            here("[GH] three https://x/3", "https://x/3"),
        ];
        let theirs = vec![
            there("a", "[GH] one https://x/1", "https://x/1"),
            there("b", "IFTTT says two https://x/2", "https://x/2"),
            there("c", "good morning", ""),
        ];
        let comparison = compare((ours, Coverage::Complete), (theirs, Coverage::Complete));
        assert!(comparison.complete);
        let both: Vec<_> = comparison.both.iter().map(|pair| (pair.there.id.as_str(), pair.equal)).collect();
        assert_eq!(both, [("a", true), ("b", false)]);
        assert_eq!(comparison.only_here, [here("[GH] three https://x/3", "https://x/3")]);
        assert_eq!(comparison.only_there.iter().map(|there| there.id.as_str()).collect::<Vec<_>>(), ["c"]);
    }

    #[test]
    fn a_comparison_of_only_a_part_says_so() {
        use Coverage::{Complete, CutShort};
        let complete = |ours, theirs| compare((vec![], ours), (vec![], theirs)).complete;
        assert_eq!([complete(Complete, CutShort), complete(CutShort, Complete)], [false, false]);
    }
}
