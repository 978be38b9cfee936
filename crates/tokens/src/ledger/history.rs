//! Histories, newest first, page by page.
//!
//! A page ends at an entry's id, and entries never move. So a reader who follows the cursors sees every entry that was
//! there when the first page was read, exactly once, whatever is written meanwhile. What was sent is read from the ledger
//! itself (consistent reads). What was received is read from the index, which follows the ledger, usually within a second.

use ichido::Timestamp;
use uuid::Uuid;

use super::entry::{Entry, MAX_MILLIS, TransactionId};
use super::{Error, Ledger};
use crate::identity::did::Did;
use crate::table;

/// Which history of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum History {
    Sent,
    Received,
}

/// A part of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub entries: Vec<Entry>,
    /// Whether there are older entries.
    pub more: bool,
}

impl Ledger {
    /// The newest `limit` entries among `places`.
    pub async fn history(
        &self,
        history: History,
        did: &Did,
        places: Option<Places>,
        limit: usize,
    ) -> Result<Page, Error> {
        let mut entries = Vec::new();
        let Some(places) = places else { return Ok(Page { entries, more: false }) };
        let bounds = places.bounds();
        // One more than asked for tells whether there are more.
        let wanted = limit + 1;
        let mut start = None;
        loop {
            let query = table::history(self.0.reader.query(), history, did, &bounds)?
                .table_name(self.table_name())
                .limit(i32::try_from(wanted - entries.len()).unwrap_or(i32::MAX))
                .set_exclusive_start_key(start.take());
            let page = query.send().await.map_err(super::read_error)?;
            for item in page.items.unwrap_or_default() {
                entries.push(table::read_entry(&item)?);
            }
            start = page.last_evaluated_key;
            if entries.len() >= wanted || start.is_none() {
                break;
            }
        }
        let more = entries.len() > limit;
        entries.truncate(limit);
        Ok(Page { entries, more })
    }
}

/// A range of places in a history, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    first: u128,
    last: u128,
}

impl Places {
    /// Entries made at `start` or later, and before `end`.
    pub fn between(start: Option<Timestamp>, end: Option<Timestamp>) -> Option<Self> {
        let first = start.map_or(0, at);
        let last = match end {
            None => u128::MAX,
            Some(end) => at(end).checked_sub(1)?,
        };
        (first <= last).then_some(Places { first, last })
    }

    /// The places that come after `id` in a history that is read newest first.
    pub fn after(self, id: TransactionId) -> Option<Self> {
        let last = self.last.min(id.number().checked_sub(1)?);
        (self.first <= last).then_some(Places { last, ..self })
    }

    /// The ends as texts, which sort as the ids between them do.
    pub fn bounds(self) -> (String, String) {
        (Uuid::from_u128(self.first).to_string(), Uuid::from_u128(self.last).to_string())
    }
}

/// The lowest number of any id made at `instant`.
fn at(instant: Timestamp) -> u128 {
    if instant.as_millis() > MAX_MILLIS { u128::MAX } else { u128::from(instant.as_millis()) << 80 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn holds(places: Option<Places>, id: TransactionId) -> bool {
        let Some(places) = places else { return false };
        let (first, last) = places.bounds();
        // compared as the table compares: as texts
        let text = id.to_string();
        first <= text && text <= last
    }

    // `make soak` finds them by this name.
    mod properties {
        use super::*;

        proptest! {
            #[test]
            fn a_range_holds_exactly_the_ids_of_its_instants(start in 0..50_u64, end in 0..50_u64, at in 0..50_u64, random in any::<[u8; 10]>()) {
                let id = TransactionId::new(Timestamp::from_millis(at), random);
                let places = Places::between(Some(Timestamp::from_millis(start)), Some(Timestamp::from_millis(end)));
                prop_assert_eq!(holds(places, id), start <= at && at < end);
            }

            #[test]
            fn after_an_id_come_exactly_the_smaller_ones(a in 0..3_u64, b in 0..3_u64, ra in any::<[u8; 10]>(), rb in any::<[u8; 10]>()) {
                let (a, b) = (TransactionId::new(Timestamp::from_millis(a), ra), TransactionId::new(Timestamp::from_millis(b), rb));
                let places = Places::between(None, None).and_then(|places| places.after(a));
                prop_assert_eq!(holds(places, b), b < a);
            }
        }
    }
}
