//! The record of a key, in whatever store it is kept.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clock::Timestamp;
use crate::digest::Digests;
use crate::store::Attributes;

/// The format that this version of the crate writes. A record of a newer format is an error.
pub const FORMAT: u64 = 1;

/// The largest outcome whose value is kept, in bytes of JSON. A larger one is recorded without its value. DynamoDB allows
/// 400 KB per item and bills each KB, on every completion and every replay.
pub const MAX_OUTCOME_BYTES: usize = 64 * 1024;

/// The longest reason of a failure that is kept, in bytes.
pub const MAX_REASON_BYTES: usize = 512;

/// Who made a record: a random token, one per call. It tells a lost answer from a duplicate.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Owner(Arc<str>);

impl Owner {
    /// A token of 128 bits that no other call has.
    ///
    /// It is a random seed of this process, xored with the time in nanoseconds and a counter. The operating system is
    /// asked for a new seed at most once per second, because asking takes longer than everything else here.
    ///
    /// - Within a process, the counter makes tokens differ, whatever the clock does.
    /// - Between processes, the seeds do: two tokens are equal with a probability of 2⁻¹²⁸.
    /// - Processes that were copied, by a fork or from a snapshot of the machine, share a seed until they have used it for
    ///   a second. A call in each of them gets the same token only if both have made equally many tokens since, and
    ///   their clocks show the same nanosecond. That would do harm only if both calls had the same key, too.
    pub fn random() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let token = SEEDS.lock().unwrap_or_else(PoisonError::into_inner).next(now as u64);
        let mut text = String::with_capacity(32);
        for byte in token.to_be_bytes() {
            text.extend([byte >> 4, byte & 15].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])));
        }
        Self(text.into())
    }

    /// The token.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

static SEEDS: Mutex<Seeds> = Mutex::new(Seeds { seed: 0, drawn_at: 0, count: 0 });

/// Where tokens come from. See [`Owner::random`].
struct Seeds {
    seed: u128,
    /// In nanoseconds, as `now` below.
    drawn_at: u64,
    /// How many tokens were made. It is not set back, so that no token depends on the seed alone.
    count: u64,
}

/// How long a seed is used.
const SEED_NANOS: u64 = 1_000_000_000;

impl Seeds {
    fn next(&mut self, now: u64) -> u128 {
        // A clock that was set back is no reason to keep a seed.
        if self.count == 0 || now.abs_diff(self.drawn_at) >= SEED_NANOS {
            self.draw();
            self.drawn_at = now;
        }
        self.count += 1;
        self.seed ^ (u128::from(now) << 64 | u128::from(self.count))
    }

    fn draw(&mut self) {
        let mut bytes = [0; 16];
        if getrandom::fill(&mut bytes).is_ok() {
            self.seed = u128::from_ne_bytes(bytes);
        } else if self.count == 0 {
            // No system on which the SDK runs comes here. The standard library has a source of its own.
            let half = || u128::from(RandomState::new().hash_one(0));
            self.seed = half() << 64 | half();
        }
    }
}

impl From<&str> for Owner {
    fn from(token: &str) -> Self {
        Self(token.into())
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({})", self.0)
    }
}

/// What a work returned, as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The value, as JSON.
    Value(Arc<str>),
    /// Done, but the value is not kept: it is larger than [`MAX_OUTCOME_BYTES`], or cannot be written as JSON.
    NotKept,
    /// Done, without a value. A mark has this outcome.
    Nothing,
    /// Done by an earlier system, whose record has a format of its own. A table says with
    /// [`foreign`](crate::dynamodb::Table::foreign) that such items mean this.
    Foreign,
}

impl Outcome {
    /// The outcome with this value.
    pub fn of<T: Serialize>(value: &T) -> Result<Self, Error> {
        let json = serde_json::to_string(value).map_err(Error::Outcome)?;
        Ok(if json.len() > MAX_OUTCOME_BYTES { Self::NotKept } else { Self::Value(json.into()) })
    }

    /// The value, if there is one that can be read as a `T`.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T, NoValue> {
        match self {
            Self::Value(json) => serde_json::from_str(json).map_err(NoValue::Unreadable),
            Self::NotKept => Err(NoValue::NotKept),
            Self::Nothing => Err(NoValue::Nothing),
            Self::Foreign => Err(NoValue::Foreign),
        }
    }
}

/// Why an effect that was performed has no value to return.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoValue {
    /// It was too large, or could not be written as JSON.
    #[error("its value was not kept: it was larger than {MAX_OUTCOME_BYTES} bytes, or could not be written as JSON")]
    NotKept,
    /// The type of the value has changed since it was recorded.
    #[error("its recorded value cannot be read as the type that the caller expects")]
    Unreadable(#[source] serde_json::Error),
    /// A mark, or a `join` without an outcome, made the record.
    #[error("it was recorded without a value")]
    Nothing,
    /// The item under the key is not a record of this library.
    #[error("its record was written by another system, so its value is not known")]
    Foreign,
}

/// What became of the effect of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum State {
    /// A worker holds the claim. From `lease_until` on, another call may take over.
    Claimed { lease_until: Timestamp },
    /// The effect was performed.
    Completed { outcome: Outcome },
    /// The effect did not happen, and trying again would not help.
    Failed { reason: String },
    /// The claim was given back, so that another call may try. `uncertain`: the effect may have happened, so the next holder
    /// asks its probe first. In a table that `join` uses, this is a [tombstone](crate::dynamodb::Join::tombstone).
    Released { reason: String, uncertain: bool },
}

impl State {
    /// The state without its details.
    pub fn kind(&self) -> StateKind {
        match self {
            Self::Claimed { .. } => StateKind::Claimed,
            Self::Completed { .. } => StateKind::Completed,
            Self::Failed { .. } => StateKind::Failed,
            Self::Released { .. } => StateKind::Released,
        }
    }

    /// The [name](StateKind::name) of its kind.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }
}

/// A [`State`] without its details.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateKind {
    /// [`State::Claimed`]
    Claimed,
    /// [`State::Completed`]
    Completed,
    /// [`State::Failed`]
    Failed,
    /// [`State::Released`]
    Released,
}

impl StateKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Claimed, Self::Completed, Self::Failed, Self::Released];

    /// The word for it in the store, in logs and in the operator's tool.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Released => "released",
        }
    }

    /// The kind with this [name](Self::name).
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// What the store knows about a key. Made by [`Record::new`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// What became of the effect.
    pub state: State,
    /// The token of the call that wrote the state.
    pub owner: Owner,
    /// Counts the claims while the record exists, so it is also the number of the attempt.
    pub fence: u64,
    /// When the state last changed.
    pub updated_at: Timestamp,
    /// From this time on, the record counts as absent. `None`: never.
    pub expires_at: Option<Timestamp>,
    /// The digests of the payload, if its caller gave them.
    pub digests: Option<Digests>,
    /// The attributes that the caller stored beside the library's, in alphabetical order.
    pub attributes: Attributes,
}

impl Record {
    /// A record that never expires and has neither digests nor attributes. Set these fields if it has them.
    #[must_use]
    pub fn new(state: State, owner: Owner, fence: u64, updated_at: Timestamp) -> Self {
        Self { state, owner, fence, updated_at, expires_at: None, digests: None, attributes: Vec::new() }
    }

    /// Does the record count as absent at this time?
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expiry| expiry <= now)
    }

    /// May another call claim the key now? Stores check this condition with every claim.
    pub fn is_claimable(&self, now: Timestamp) -> bool {
        self.is_expired(now)
            || match &self.state {
                State::Claimed { lease_until } => *lease_until <= now,
                State::Released { .. } => true,
                State::Completed { .. } | State::Failed { .. } => false,
            }
    }

    /// May an earlier holder have performed the effect without recording it?
    pub(crate) fn leaves_doubt(&self, now: Timestamp) -> bool {
        match &self.state {
            State::Claimed { .. } => !self.is_expired(now),
            State::Released { uncertain, .. } => *uncertain && !self.is_expired(now),
            State::Completed { .. } | State::Failed { .. } => false,
        }
    }
}

/// The text of an error, cut to [`MAX_REASON_BYTES`] at a character boundary.
pub(crate) fn reason(error: &dyn fmt::Display) -> String {
    let mut text = error.to_string();
    if text.len() > MAX_REASON_BYTES {
        text.truncate(text.floor_char_boundary(MAX_REASON_BYTES - '…'.len_utf8()));
        text.push('…');
    }
    text
}

/// Why a record could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    /// The item is not a record.
    #[error("the item has no attribute {0:?}, so it is not a record of this library")]
    Missing(&'static str),
    /// An attribute of the library has another type than it writes.
    #[error("attribute {name:?} of the record is not {expected}")]
    Malformed { name: String, expected: &'static str },
    /// A later version of the library wrote it.
    #[error(
        "the record has format {found}, but this version of the library knows only formats up to {FORMAT}; update the library"
    )]
    NewerFormat { found: u64 },
    /// The caller's attribute has a name of the library or of the table.
    #[error("attribute {0:?} is reserved for the library or the table; choose another name")]
    ReservedAttribute(String),
    /// The outcome is not JSON.
    #[error("the outcome cannot be converted to or from JSON of the expected type")]
    Outcome(#[source] serde_json::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_above_the_limit_is_kept_without_its_value() {
        // exactly 64 KB with the quotes of JSON
        let fits = "x".repeat(65_534);
        assert_eq!(Outcome::of(&fits).unwrap().value::<String>().unwrap(), fits);
        let large = "x".repeat(65_535);
        assert_eq!(Outcome::of(&large).unwrap(), Outcome::NotKept);
        assert!(matches!(Outcome::NotKept.value::<String>(), Err(NoValue::NotKept)));
    }

    #[test]
    fn no_two_calls_have_the_same_token() {
        let threads: Vec<_> =
            (0..4).map(|_| std::thread::spawn(|| (0..5_000).map(|_| Owner::random()).collect::<Vec<_>>())).collect();
        let tokens: std::collections::HashSet<Owner> =
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(tokens.len(), 20_000);
        assert!(tokens.iter().all(|token| token.as_str().len() == 32));
    }

    #[test]
    fn tokens_differ_although_the_clock_stands_still_or_is_set_back() {
        let mut seeds = Seeds { seed: 0, drawn_at: 0, count: 0 };
        let at = [5, 5, 5, 4, 5 + SEED_NANOS, 5, 0];
        let tokens: std::collections::HashSet<u128> = at.into_iter().map(|now| seeds.next(now)).collect();
        assert_eq!(tokens.len(), at.len());
    }

    #[test]
    fn a_copy_of_the_process_makes_other_tokens() {
        let mut original = Seeds { seed: 0, drawn_at: 0, count: 0 };
        original.next(1_000);
        let copied = || Seeds { ..original };
        // Within the second, the clock tells them apart; after it, the seed does.
        assert_ne!(copied().next(2_000), copied().next(2_001));
        assert_ne!(copied().next(1_000 + SEED_NANOS), copied().next(1_000 + SEED_NANOS));
    }

    #[test]
    fn a_seed_is_used_for_a_second() {
        let mut seeds = Seeds { seed: 0, drawn_at: 0, count: 0 };
        seeds.next(7);
        let seed = seeds.seed;
        assert_ne!(seed, 0);
        seeds.next(6 + SEED_NANOS);
        assert_eq!(seeds.seed, seed);
        seeds.next(7 + SEED_NANOS);
        assert_ne!(seeds.seed, seed);
    }

    #[test]
    fn every_kind_of_state_is_found_by_its_name_and_nothing_else_is() {
        for kind in StateKind::ALL {
            assert_eq!(StateKind::named(kind.name()), Some(kind));
        }
        assert_eq!(StateKind::named("Claimed"), None);
        assert_eq!(StateKind::named(""), None);
    }

    #[test]
    fn a_long_reason_is_cut_at_a_character() {
        let cut = reason(&"あ".repeat(400));
        assert!(cut.len() <= MAX_REASON_BYTES && cut.ends_with('…'));
        let longest = "x".repeat(MAX_REASON_BYTES);
        assert_eq!(reason(&longest), longest);
        assert_eq!(reason(&"x".repeat(MAX_REASON_BYTES + 1)), format!("{}…", "x".repeat(MAX_REASON_BYTES - 3)));
    }

    #[test]
    fn expiry_and_leases_end_exactly_at_their_time() {
        let at = Timestamp::from_secs;
        let record = |state, expires_at| Record { expires_at, ..Record::new(state, "o".into(), 1, at(0)) };
        let done = record(State::Completed { outcome: Outcome::Nothing }, Some(at(10)));
        assert!(!done.is_claimable(at(9)) && done.is_claimable(at(10)));
        let claimed = record(State::Claimed { lease_until: at(5) }, Some(at(10)));
        assert!(!claimed.is_claimable(at(4)) && claimed.is_claimable(at(5)));
        assert!(claimed.leaves_doubt(at(5)) && !claimed.leaves_doubt(at(10)));
        let released = |uncertain| record(State::Released { reason: String::new(), uncertain }, Some(at(10)));
        assert!(released(true).leaves_doubt(at(9)) && !released(true).leaves_doubt(at(10)));
        assert!(!released(false).leaves_doubt(at(9)));
        assert!(!record(State::Completed { outcome: Outcome::Nothing }, None).is_expired(at(u64::MAX / 2000)));
    }
}
