//! Which entries the first read of a feed delivers, and the order in which entries are delivered.

use std::str::FromStr;

use jiff::Timestamp;

use crate::entry::Entry;

/// What happens to the entries that are in a feed when it is read for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FirstRun {
    /// All are recorded as seen, and none is delivered.
    #[default]
    Mark,
    /// The newest ones, so many, are delivered. The others are recorded as seen.
    Last(usize),
    /// All are delivered.
    All,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not one of mark, last:N and all")]
pub struct Error(String);

impl FromStr for FirstRun {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.trim() {
            "mark" => Ok(FirstRun::Mark),
            "all" => Ok(FirstRun::All),
            other => match other.strip_prefix("last:").map(str::parse) {
                Some(Ok(n)) => Ok(FirstRun::Last(n)),
                _ => Err(Error(text.to_owned())),
            },
        }
    }
}

impl FirstRun {
    /// How many of so many entries, from the oldest on, are only recorded as seen.
    pub(super) fn marked(self, entries: usize) -> usize {
        match self {
            FirstRun::Mark => entries,
            FirstRun::Last(n) => entries.saturating_sub(n),
            FirstRun::All => 0,
        }
    }
}

/// The positions of `entries` from the oldest to the newest. By custom a document has the newest first.
///
/// An entry without a date counts as old as the entry above it.
pub(super) fn oldest_first(entries: &[Entry]) -> Vec<usize> {
    let mut date = entries.iter().find_map(|entry| entry.published);
    let dates: Vec<Option<Timestamp>> = entries
        .iter()
        .map(|entry| {
            date = entry.published.or(date);
            date
        })
        .collect();
    let mut positions: Vec<usize> = (0..entries.len()).rev().collect();
    positions.sort_by_key(|position| dates[*position]);
    positions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::EntryId;

    fn entry(id: usize, date: Option<&str>) -> Entry {
        Entry {
            id: EntryId::from_table(id.to_string()),
            title: String::new(),
            link: String::new(),
            published: date.map(|date| date.parse().unwrap()),
            author: String::new(),
            content: "".into(),
            categories: vec![],
            enclosure: String::new(),
        }
    }

    #[test]
    fn the_three_words_are_read_and_others_refused() {
        assert_eq!("mark".parse(), Ok(FirstRun::Mark));
        assert_eq!("last:3".parse(), Ok(FirstRun::Last(3)));
        assert_eq!(" all ".parse(), Ok(FirstRun::All));
        for text in ["", "last", "last:", "last:-1", "everything"] {
            assert!(text.parse::<FirstRun>().is_err(), "{text}");
        }
    }

    #[test]
    fn last_n_marks_all_but_the_newest_n() {
        assert_eq!(FirstRun::Last(3).marked(30), 27);
        assert_eq!(FirstRun::Last(30).marked(3), 0);
        assert_eq!(FirstRun::Mark.marked(30), 30);
        assert_eq!(FirstRun::All.marked(30), 0);
    }

    #[test]
    fn the_oldest_comes_first_and_dates_count_more_than_places() {
        let entries = [
            entry(0, Some("2026-01-03T00:00:00Z")),
            entry(1, None),
            entry(2, Some("2026-01-01T00:00:00Z")),
            entry(3, Some("2026-01-02T00:00:00Z")),
        ];
        assert_eq!(oldest_first(&entries), [2, 3, 1, 0]);
    }

    #[test]
    fn without_any_date_the_last_in_the_document_is_the_oldest() {
        assert_eq!(oldest_first(&[entry(0, None), entry(1, None), entry(2, None)]), [2, 1, 0]);
    }
}
