//! Transaction ids, and the order of a history.
//!
//! An id is a UUID of version 7: 48 bits of time, then chance. Its text sorts as its number does, so an id is
//! at once an entry's name, its time and its place in the history: a range of instants is a range of ids, and
//! a page ends at an id. No two entries share a place, so no page can skip one or show it twice.

use std::fmt;
use std::str::FromStr;

use ichido::Timestamp;
use serde::{Serialize, Serializer};
use uuid::Uuid;

/// The last instant that fits an id: 48 bits of milliseconds (the year 10889).
pub const MAX_MILLIS: u64 = (1 << 48) - 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(Uuid);

/// Why a text is not a transaction id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a transaction id is a UUID in lower case")]
pub struct Error;

impl TransactionId {
    pub fn new(now: Timestamp, random: [u8; 10]) -> Self {
        TransactionId(uuid::Builder::from_unix_timestamp_millis(now.as_millis().min(MAX_MILLIS), &random).into_uuid())
    }

    /// When the transaction was made.
    pub fn created_at(self) -> Timestamp {
        let millis = self.0.as_u128() >> 80;
        Timestamp::from_millis(u64::try_from(millis).unwrap_or(MAX_MILLIS))
    }

    /// A number that is as good as random: what chooses the treasury's shard.
    pub fn lot(self) -> u64 {
        self.0.as_u64_pair().1
    }

    fn number(self) -> u128 {
        self.0.as_u128()
    }

    pub(crate) fn number_be(self) -> [u8; 16] {
        self.0.into_bytes()
    }
}

impl FromStr for TransactionId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let id = Uuid::try_parse(text).map_err(|_| Error)?;
        // one spelling only, and of the right kind: the text is a key in the table
        if id.hyphenated().to_string() == text && id.get_version_num() == 7 {
            Ok(TransactionId(id))
        } else {
            Err(Error)
        }
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl Serialize for TransactionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

// Ranges of a history

/// Places in a history, both ends included: what is asked of the table.
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

    /// Those of them that come after `id` in a history that is read newest first.
    pub fn after(self, id: TransactionId) -> Option<Self> {
        let last = self.last.min(id.number().checked_sub(1)?);
        (self.first <= last).then_some(Places { last, ..self })
    }

    /// The ends as texts: they sort as the ids between them do.
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

    // `make fuzz` finds them by this name.
    mod properties {
        use super::*;

        proptest! {
            #[test]
            fn an_id_knows_its_time_and_survives_its_text(millis in 0..=MAX_MILLIS, random in any::<[u8; 10]>()) {
                let id = TransactionId::new(Timestamp::from_millis(millis), random);
                prop_assert_eq!(id.created_at().as_millis(), millis);
                prop_assert_eq!(id.to_string().parse(), Ok(id));
            }

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

            #[test]
            fn any_text_is_an_id_or_an_error(text in "\\PC{0,40}|[0-9a-fA-F-]{30,40}") {
                if let Ok(id) = text.parse::<TransactionId>() {
                    prop_assert_eq!(id.to_string(), text);
                }
            }
        }
    }

    #[test]
    fn only_lower_case_version_7_is_an_id() {
        let id = TransactionId::new(Timestamp::from_millis(1_700_000_000_000), [7; 10]).to_string();
        assert!(id.parse::<TransactionId>().is_ok());
        assert!(id.to_uppercase().parse::<TransactionId>().is_err());
        assert!(id.replace('-', "").parse::<TransactionId>().is_err());
        assert!(Uuid::from_u128(0).to_string().parse::<TransactionId>().is_err());
    }
}
