//! What this instance remembers, for when the store does not answer.
//!
//! There are two parts, both bounded.
//!
//! - **Known**: what the store last said about each key. Every answer updates it. If it is full, it forgets the least
//!   recently used key.
//! - **Journal**: keys that were admitted or settled without the store. A key is never dropped to make room, because it
//!   could then be admitted twice: if the journal is full, the call is refused. When the store is back, later calls write
//!   the journal to it, a few keys each ([reconciliation](crate::reconcile)), and the keys become known.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;

use crate::clock::Timestamp;
use crate::digest::{Digests, differ};
use crate::key::Key;
use crate::record::{Outcome, Owner, Record, State};
use crate::store::Attributes;

/// How many keys of the store an instance remembers.
pub const DEFAULT_KNOWN_KEYS: usize = 10_000;

/// How many keys an instance admits without the store before it refuses more.
pub const DEFAULT_JOURNAL_KEYS: usize = 10_000;

/// What is remembered of a key.
#[derive(Debug, Clone)]
pub(crate) struct Remembered {
    pub(crate) state: Known,
    /// The fence of the claim of which this is known; 0 if the store does not know of it.
    pub(crate) fence: u64,
    pub(crate) digests: Option<Digests>,
    pub(crate) expires_at: Option<Timestamp>,
}

#[derive(Debug, Clone)]
pub(crate) enum Known {
    /// This instance works on it; its lease ends at `until`.
    InFlight {
        until: Timestamp,
    },
    Completed {
        outcome: Outcome,
    },
    Failed {
        reason: String,
    },
    /// Released after an attempt that may have had its effect.
    Uncertain,
    /// Released after an attempt that had no effect. It is remembered for its digests.
    Free,
}

/// What an entry of the journal means for a call that would ask the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The attempt had no effect: the store may decide.
    Open,
    /// The attempt may have had its effect: the store may decide, but the doubt remains.
    Doubtful,
    /// The attempt is in flight, completed or failed. The store may not know of it and would admit the key again, so it is
    /// not asked.
    Held,
}

impl Known {
    pub(crate) fn standing(&self, now: Timestamp) -> Standing {
        match self {
            Self::InFlight { until } if *until <= now => Standing::Doubtful,
            Self::Uncertain => Standing::Doubtful,
            Self::Free => Standing::Open,
            Self::InFlight { .. } | Self::Completed { .. } | Self::Failed { .. } => Standing::Held,
        }
    }
}

/// An effect that the store does not know yet.
#[derive(Debug, Clone)]
pub(crate) struct Unwritten {
    pub(crate) key: Key,
    /// The token of the write that was not answered. If the store made that write after all, the token shows it.
    pub(crate) owner: Owner,
    pub(crate) remembered: Remembered,
    pub(crate) attributes: Attributes,
}

/// The answer to [`Memory::admit`].
#[derive(Debug)]
pub(crate) enum Admission {
    /// Admitted. `doubt`: an earlier attempt may have had its effect.
    New {
        doubt: bool,
    },
    Known(Remembered),
    /// The journal is full.
    Full,
}

/// The answer to [`Memory::keep`].
#[derive(Debug)]
pub(crate) enum Kept {
    Yes,
    /// The journal is full.
    Full,
    /// Another attempt has taken over the key. Inside, what is known of that attempt.
    TakenOver(Option<Remembered>),
}

pub(crate) struct Memory {
    known: LruCache<Arc<str>, Remembered>,
    journal: HashMap<Arc<str>, Entry>,
    journal_limit: usize,
    line: Line,
}

/// A key of the journal.
#[derive(Debug)]
struct Entry {
    unwritten: Unwritten,
    /// Its place in the line of keys to be written. `None` while it is not settled, or is being written.
    place: Option<i64>,
}

/// The settled keys of the journal, in the order in which they will be written. A journal may be long, and every duplicate
/// during an outage takes its key out of the line, so places are found without a search.
#[derive(Default)]
struct Line(BTreeMap<i64, Arc<str>>);

impl Line {
    fn add(&mut self, text: Arc<str>, next: bool) -> i64 {
        let place = match (next, self.0.first_key_value(), self.0.last_key_value()) {
            (true, Some((first, _)), _) => first - 1,
            (false, _, Some((last, _))) => last + 1,
            _ => 0,
        };
        self.0.insert(place, text);
        place
    }

    fn leave(&mut self, place: Option<i64>) {
        if let Some(place) = place {
            self.0.remove(&place);
        }
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory")
            .field("known", &self.known.len())
            .field("journal", &self.journal.len())
            .finish_non_exhaustive()
    }
}

impl Memory {
    pub(crate) fn new(known: usize, journal: usize) -> Self {
        Self {
            known: LruCache::new(NonZeroUsize::new(known).unwrap_or(NonZeroUsize::MIN)),
            journal: HashMap::new(),
            journal_limit: journal,
            line: Line::default(),
        }
    }

    pub(crate) fn journal_len(&self) -> usize {
        self.journal.len()
    }

    /// Everything that later decisions depend on, but for the order in which keys are forgotten.
    pub(crate) fn inspect(&self, text: &mut impl fmt::Write) -> fmt::Result {
        let known: BTreeMap<_, _> = self.known.iter().collect();
        let journal: BTreeMap<_, _> = self.journal.iter().collect();
        write!(text, "{known:?}{journal:?}")
    }

    /// When the leases end of which this instance knows.
    pub(crate) fn ends(&self) -> Vec<Timestamp> {
        let journal = self.journal.values().map(|entry| &entry.unwritten.remembered);
        let remembered = self.known.iter().map(|(_, remembered)| remembered).chain(journal);
        let ends = remembered.filter_map(|remembered| match remembered.state {
            Known::InFlight { until } => Some(until),
            _ => None,
        });
        ends.collect()
    }

    /// Remembers what the store said about a key, unless something newer is known: an answer may arrive after that to a later
    /// request. What is settled stays settled, and of two claims the one with the greater fence is newer.
    pub(crate) fn write_through(&mut self, key: &Key, remembered: Remembered, now: Timestamp) {
        if let Some(known) = self.known.peek(key.as_str()).filter(|known| !is_over(known, now)) {
            let newer = is_settled(&known.state) || known.fence > remembered.fence;
            if newer && !is_settled(&remembered.state) {
                return;
            }
        }
        self.known.put(key.text(), remembered);
    }

    /// Remembers what another instance recorded in the store, unless this instance may know better.
    pub(crate) fn note(&mut self, key: &Key, record: &Record, now: Timestamp) {
        let state = match &record.state {
            State::Claimed { .. } => return, // another instance's claim says nothing about this one's
            State::Released { uncertain, .. } => {
                // A claim of this instance may be newer than the release. If it is older, it ends with its lease and leaves doubt.
                match self.known.peek(key.as_str()) {
                    Some(Remembered { state: Known::InFlight { .. }, .. }) => return,
                    _ if *uncertain => Known::Uncertain,
                    _ => return self.release(key, record.fence, record.digests.clone(), record.expires_at, now),
                }
            }
            State::Completed { outcome } => Known::Completed { outcome: outcome.clone() },
            State::Failed { reason } => Known::Failed { reason: reason.clone() },
        };
        // The store now has an end for a key whose attempt without the store has none. A later outage must not find that attempt.
        let unsettled =
            self.journal.get(key.as_str()).is_some_and(|entry| !is_settled(&entry.unwritten.remembered.state));
        if unsettled && is_settled(&state) {
            self.drop_entry(key.as_str());
        }
        let (fence, expires_at) = (record.fence, record.expires_at);
        self.write_through(key, Remembered { state, fence, digests: record.digests.clone(), expires_at }, now);
    }

    /// The key is free again, after an attempt without an effect. Its digests stay: another payload may not use the key.
    pub(crate) fn release(
        &mut self,
        key: &Key,
        fence: u64,
        digests: Option<Digests>,
        expires_at: Option<Timestamp>,
        now: Timestamp,
    ) {
        self.write_through(key, Remembered { state: Known::Free, fence, digests, expires_at }, now);
    }

    /// An attempt of this instance was dropped, and its effect may have happened. If the key has an outcome already, that
    /// counts.
    pub(crate) fn doubt(
        &mut self,
        key: &Key,
        fence: u64,
        digests: Option<Digests>,
        expires_at: Option<Timestamp>,
        now: Timestamp,
    ) {
        self.write_through(key, Remembered { state: Known::Uncertain, fence, digests, expires_at }, now);
    }

    /// What the journal holds about a key: an admission or an outcome that the store does not know.
    pub(crate) fn unwritten(&mut self, key: &Key, now: Timestamp) -> Option<Unwritten> {
        let Entry { unwritten, .. } = self.journal.get(key.as_str())?;
        if is_over(&unwritten.remembered, now) {
            self.drop_entry(key.as_str());
            return None;
        }
        Some(unwritten.clone())
    }

    /// What this instance knows about a key; the journal comes first.
    pub(crate) fn recall(&mut self, key: &Key, now: Timestamp) -> Option<Remembered> {
        let found = match self.journal.get(key.as_str()) {
            Some(entry) => Some(entry.unwritten.remembered.clone()),
            None => self.known.get(key.as_str()).cloned(),
        };
        found.filter(|remembered| !is_over(remembered, now))
    }

    /// Decides without the store. An admission becomes an entry of the journal. `refuses_doubt`: a key whose effect may have
    /// happened is not admitted.
    pub(crate) fn admit(&mut self, unwritten: Unwritten, refuses_doubt: bool, now: Timestamp) -> Admission {
        let text = unwritten.key.text();
        let mut doubt = false;
        if let Some(remembered) = self.recall(&unwritten.key, now) {
            let other_payload = differ(unwritten.remembered.digests.as_ref(), remembered.digests.as_ref());
            match (&remembered.state, remembered.state.standing(now)) {
                (_, Standing::Doubtful) if !other_payload && !refuses_doubt => doubt = true,
                (Known::Free, _) if !other_payload => {}
                _ => return Admission::Known(remembered),
            }
        }
        if !self.journal.contains_key(&text) && self.journal.len() >= self.journal_limit {
            return Admission::Full;
        }
        self.drop_entry(&text);
        self.insert(unwritten);
        Admission::New { doubt }
    }

    /// Puts into the journal how an attempt ended, if the store could not record it. `admitted_here`: this memory admitted
    /// the attempt, so it counts only while its entry is here.
    pub(crate) fn keep(&mut self, unwritten: Unwritten, admitted_here: bool) -> Kept {
        let text = unwritten.key.text();
        match self.journal.get(&text) {
            // The attempt outlived its lease, and another one took over. The store would refuse it by its fence; this does the same.
            Some(Entry { unwritten: other, .. }) if other.owner != unwritten.owner => {
                return Kept::TakenOver(Some(other.remembered.clone()));
            }
            None if admitted_here => return Kept::TakenOver(None),
            None if self.journal.len() >= self.journal_limit => return Kept::Full,
            _ => {}
        }
        self.drop_entry(&text);
        self.known.pop(&text);
        self.insert(unwritten);
        Kept::Yes
    }

    fn insert(&mut self, unwritten: Unwritten) {
        let text = unwritten.key.text();
        let settled = is_settled(&unwritten.remembered.state);
        let place = settled.then(|| self.line.add(text.clone(), false));
        self.journal.insert(text, Entry { unwritten, place });
    }

    /// Takes the next settled entry out of the line, to be written. It stays in the journal until it is
    /// [`written`](Self::written), because a duplicate that comes meanwhile must find it.
    pub(crate) fn next_settled(&mut self, now: Timestamp) -> Option<Unwritten> {
        while let Some((_, text)) = self.line.0.pop_first() {
            match self.journal.get_mut(&text) {
                Some(entry) if is_over(&entry.unwritten.remembered, now) => drop(self.journal.remove(&text)),
                Some(entry) => {
                    entry.place = None;
                    return Some(entry.unwritten.clone());
                }
                None => {}
            }
        }
        None
    }

    /// Takes this key's settled entry out of the line, to be written. `None` if another call is writing it.
    pub(crate) fn take_settled(&mut self, key: &Key) -> Option<Unwritten> {
        let entry = self.journal.get_mut(key.as_str())?;
        self.line.leave(Some(entry.place.take()?));
        Some(entry.unwritten.clone())
    }

    /// The store has this entry now, or will never accept it.
    pub(crate) fn written(&mut self, key: &Key, owner: &Owner) {
        self.drop_entry_of(key, owner);
    }

    /// This entry could not be written. It goes back into the line: to the front if `next`, else to the end.
    pub(crate) fn not_written(&mut self, key: &Key, owner: &Owner, next: bool) {
        if let Some(entry) = self.journal.get_mut(key.as_str())
            && entry.unwritten.owner == *owner
            && is_settled(&entry.unwritten.remembered.state)
            && entry.place.is_none()
        {
            entry.place = Some(self.line.add(key.text(), next));
        }
    }

    fn drop_entry(&mut self, text: &str) -> Option<Unwritten> {
        let Entry { unwritten, place } = self.journal.remove(text)?;
        self.line.leave(place);
        Some(unwritten)
    }

    /// Drops the entry, unless another attempt has the key.
    fn drop_entry_of(&mut self, key: &Key, owner: &Owner) -> Option<Unwritten> {
        let owned = self.journal.get(key.as_str()).is_some_and(|entry| entry.unwritten.owner == *owner);
        if owned { self.drop_entry(key.as_str()) } else { None }
    }

    /// Renews the lease of an attempt in the journal. Returns when it ends; `None` if the attempt is not in flight under
    /// this token.
    pub(crate) fn lengthen(
        &mut self,
        key: &Key,
        owner: &Owner,
        end: Timestamp,
        expiry: Option<Timestamp>,
    ) -> Option<Timestamp> {
        match self.journal.get_mut(key.as_str()).map(|entry| &mut entry.unwritten) {
            Some(Unwritten {
                owner: holder,
                remembered: Remembered { state: Known::InFlight { until }, expires_at, .. },
                ..
            }) if holder == owner => {
                *expires_at = expiry.max(*expires_at);
                *until = end.max(*until);
                Some(*until)
            }
            _ => None,
        }
    }

    /// The store has a claim on this key now, so the entry no longer counts.
    pub(crate) fn withdraw(&mut self, key: &Key) {
        self.drop_entry(key.as_str());
    }

    /// The store decides about this key from now on, so its doubt leaves the journal. It stays known, for the next outage.
    pub(crate) fn withdraw_doubt(&mut self, key: &Key, now: Timestamp) {
        let entry = self.journal.get(key.as_str());
        if entry.is_none_or(|entry| entry.unwritten.remembered.state.standing(now) != Standing::Doubtful) {
            return;
        }
        let withdrawn = self.drop_entry(key.as_str());
        if let Some(Unwritten { remembered, .. }) = withdrawn {
            // The attempt had no fence. It may be newer than what the store said last.
            let fence = self.known.peek(key.as_str()).map_or(0, |known| known.fence);
            self.write_through(key, Remembered { state: Known::Uncertain, fence, ..remembered }, now);
        }
    }

    /// An attempt without the store ended without an effect. The key is free again, unless another attempt has it.
    pub(crate) fn give_back(&mut self, key: &Key, owner: &Owner, now: Timestamp) {
        if let Some(Unwritten { remembered, .. }) = self.drop_entry_of(key, owner) {
            self.release(key, remembered.fence, remembered.digests, remembered.expires_at, now);
        }
    }
}

fn is_settled(state: &Known) -> bool {
    matches!(state, Known::Completed { .. } | Known::Failed { .. })
}

fn is_over(remembered: &Remembered, now: Timestamp) -> bool {
    remembered.expires_at.is_some_and(|expiry| expiry <= now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Namespace;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn key(name: &str) -> Key {
        Namespace::new("N").key([name]).unwrap()
    }

    fn entry(name: &str, state: Known) -> Unwritten {
        let remembered = Remembered { state, fence: 0, digests: None, expires_at: Some(at(1000)) };
        Unwritten { key: key(name), owner: Owner::from(name), remembered, attributes: Vec::new() }
    }

    fn flying(name: &str) -> Unwritten {
        entry(name, Known::InFlight { until: at(10) })
    }

    fn done(name: &str) -> Unwritten {
        entry(name, Known::Completed { outcome: Outcome::Nothing })
    }

    #[test]
    fn a_key_is_admitted_once() {
        let mut memory = Memory::new(4, 4);
        assert!(matches!(memory.admit(flying("a"), false, at(0)), Admission::New { doubt: false }));
        assert!(matches!(memory.admit(flying("a"), false, at(0)), Admission::Known(_)));
        assert!(matches!(memory.keep(done("a"), true), Kept::Yes));
        assert!(matches!(memory.admit(flying("a"), false, at(500)), Admission::Known(_)));
        assert!(matches!(memory.admit(flying("a"), false, at(1000)), Admission::New { doubt: false }), "it expired");
    }

    #[test]
    fn a_lapsed_attempt_may_be_repeated_but_leaves_doubt() {
        let mut memory = Memory::new(4, 4);
        memory.admit(flying("a"), false, at(0));
        assert!(matches!(memory.admit(flying("a"), false, at(10)), Admission::New { doubt: true }));
    }

    #[test]
    fn a_late_attempt_cannot_overwrite_its_successor() {
        let mut memory = Memory::new(4, 4);
        let late = flying("a");
        memory.admit(late.clone(), false, at(0));
        let successor = Unwritten { owner: Owner::from("successor"), ..flying("a") };
        memory.admit(successor, false, at(10));
        let late = Unwritten { remembered: done("a").remembered, ..late };
        assert!(matches!(memory.keep(late.clone(), true), Kept::TakenOver(Some(_))));
        memory.give_back(&key("a"), &late.owner, at(0));
        assert!(matches!(memory.admit(flying("a"), false, at(0)), Admission::Known(_)));
    }

    #[test]
    fn a_full_journal_refuses_rather_than_forgets() {
        let mut memory = Memory::new(1, 2);
        memory.admit(done("a"), false, at(0));
        memory.admit(done("b"), false, at(0));
        assert!(matches!(memory.admit(flying("c"), false, at(0)), Admission::Full));
        assert!(matches!(memory.admit(flying("a"), false, at(0)), Admission::Known(_)));
    }

    #[test]
    fn the_least_recently_used_known_key_is_forgotten_first() {
        let mut memory = Memory::new(2, 4);
        for name in ["a", "b"] {
            memory.write_through(&key(name), done(name).remembered, at(0));
        }
        assert!(matches!(memory.admit(flying("a"), false, at(0)), Admission::Known(_)));
        memory.write_through(&key("c"), done("c").remembered, at(0));
        assert!(matches!(memory.admit(flying("b"), false, at(0)), Admission::New { .. }));
        assert!(matches!(memory.admit(flying("a"), false, at(0)), Admission::Known(_)));
    }

    #[test]
    fn settled_entries_are_taken_oldest_first_and_put_back_in_front() {
        let mut memory = Memory::new(4, 4);
        memory.keep(done("a"), false);
        memory.admit(flying("x"), false, at(0));
        memory.keep(done("b"), false);
        let first = memory.next_settled(at(0)).unwrap();
        assert_eq!(first.key.as_str(), "N#a");
        assert!(memory.unwritten(&first.key, at(0)).is_some(), "a duplicate that comes meanwhile finds it");
        memory.not_written(&first.key, &first.owner, true);
        for name in ["N#a", "N#b"] {
            let entry = memory.next_settled(at(0)).unwrap();
            assert_eq!(entry.key.as_str(), name);
            memory.written(&entry.key, &entry.owner);
        }
        assert!(memory.next_settled(at(0)).is_none(), "x is still in flight");
        assert_eq!(memory.journal_len(), 1);
    }

    #[test]
    fn an_entry_that_is_being_written_is_given_to_nobody_else() {
        let mut memory = Memory::new(4, 4);
        for name in ["a", "b"] {
            memory.keep(done(name), false);
        }
        let taken = memory.take_settled(&key("a")).unwrap();
        assert!(memory.take_settled(&key("a")).is_none());
        assert_eq!(memory.next_settled(at(0)).unwrap().key.as_str(), "N#b");
        assert!(memory.next_settled(at(0)).is_none());
        // An entry goes back into the line once, at the end, and only with its own token.
        memory.not_written(&key("b"), &Owner::from("b"), false);
        memory.not_written(&taken.key, &Owner::from("somebody"), true);
        assert_eq!(memory.next_settled(at(0)).unwrap().key.as_str(), "N#b");
        assert!(memory.next_settled(at(0)).is_none());
        memory.not_written(&key("b"), &Owner::from("b"), false);
        memory.not_written(&taken.key, &taken.owner, false);
        memory.not_written(&taken.key, &taken.owner, true);
        for name in ["N#b", "N#a"] {
            assert_eq!(memory.next_settled(at(0)).unwrap().key.as_str(), name);
        }
        assert!(memory.next_settled(at(0)).is_none());
    }

    #[test]
    fn an_attempt_that_is_still_in_flight_is_not_in_line() {
        let mut memory = Memory::new(4, 4);
        memory.admit(flying("a"), false, at(0));
        memory.not_written(&key("a"), &Owner::from("a"), true);
        assert!(memory.next_settled(at(0)).is_none() && memory.take_settled(&key("a")).is_none());
        assert_eq!(memory.journal_len(), 1);
    }

    #[test]
    fn what_has_expired_is_neither_told_nor_written() {
        let mut memory = Memory::new(4, 4);
        memory.keep(done("a"), false);
        memory.keep(done("b"), false);
        assert!(memory.unwritten(&key("a"), at(999)).is_some() && memory.unwritten(&key("a"), at(1000)).is_none());
        assert!(memory.next_settled(at(1000)).is_none());
        assert_eq!(memory.journal_len(), 0);
        memory.write_through(&key("c"), done("c").remembered, at(0));
        assert!(memory.recall(&key("c"), at(999)).is_some() && memory.recall(&key("c"), at(1000)).is_none());
    }

    #[test]
    fn only_the_holder_of_an_attempt_lengthens_it() {
        let mut memory = Memory::new(4, 4);
        memory.admit(flying("a"), false, at(0));
        assert_eq!(memory.lengthen(&key("a"), &Owner::from("somebody"), at(30), None), None);
        assert_eq!(memory.lengthen(&key("b"), &Owner::from("b"), at(30), None), None);
        assert!(matches!(memory.admit(flying("a"), false, at(10)), Admission::New { doubt: true }));
        assert_eq!(memory.lengthen(&key("a"), &Owner::from("a"), at(30), None), Some(at(30)));
        assert_eq!(
            memory.lengthen(&key("a"), &Owner::from("a"), at(20), None),
            Some(at(30)),
            "a lease gets no shorter"
        );
        assert!(matches!(memory.admit(flying("a"), false, at(29)), Admission::Known(_)));
        memory.keep(done("a"), true);
        assert_eq!(memory.lengthen(&key("a"), &Owner::from("a"), at(60), None), None, "it is done");
    }

    #[test]
    fn an_outcome_that_was_not_admitted_here_needs_room_and_one_that_was_needs_its_entry() {
        let mut memory = Memory::new(4, 1);
        assert!(matches!(memory.keep(done("a"), true), Kept::TakenOver(None)));
        assert!(matches!(memory.keep(done("a"), false), Kept::Yes));
        assert!(matches!(memory.keep(done("a"), false), Kept::Yes), "again: no more room than before");
        assert!(matches!(memory.keep(done("b"), false), Kept::Full));
    }

    #[test]
    fn what_the_store_says_of_a_key_replaces_what_came_to_no_end_here() {
        let record =
            |state| Record { expires_at: Some(at(1000)), ..Record::new(state, Owner::from("elsewhere"), 1, at(0)) };
        let completed = record(State::Completed { outcome: Outcome::Nothing });
        let released = record(State::Released { reason: String::new(), uncertain: false });
        let uncertain = record(State::Released { reason: String::new(), uncertain: true });
        let claimed = record(State::Claimed { lease_until: at(10) });
        let mut memory = Memory::new(4, 4);

        memory.admit(flying("a"), false, at(0));
        memory.note(&key("a"), &claimed, at(0));
        assert_eq!(memory.journal_len(), 1, "another instance's claim says nothing about ours");
        memory.note(&key("a"), &uncertain, at(0));
        assert_eq!(memory.journal_len(), 1, "nor does what was given back");
        memory.note(&key("a"), &completed, at(0));
        assert_eq!(memory.journal_len(), 0);
        assert!(matches!(memory.recall(&key("a"), at(20)), Some(Remembered { state: Known::Completed { .. }, .. })));

        memory.note(&key("c"), &uncertain, at(0));
        assert!(matches!(memory.recall(&key("c"), at(20)), Some(Remembered { state: Known::Uncertain, .. })));
        memory.note(&key("c"), &released, at(0));
        assert!(matches!(memory.recall(&key("c"), at(20)), Some(Remembered { state: Known::Free, .. })));
        memory.write_through(&key("d"), flying("d").remembered, at(0));
        for given_back in [&released, &uncertain] {
            memory.note(&key("d"), given_back, at(0));
            let known = memory.recall(&key("d"), at(5));
            assert!(matches!(known, Some(Remembered { state: Known::InFlight { .. }, .. })), "it may be newer");
        }

        memory.keep(done("b"), false);
        memory.note(&key("b"), &completed, at(0));
        assert_eq!(memory.journal_len(), 1, "what was done here is still to be told");
        memory.withdraw(&key("b"));
        assert!(memory.next_settled(at(0)).is_none());
    }

    #[test]
    fn an_answer_that_arrives_late_does_not_hide_what_is_known_since() {
        let known = |state, fence| Remembered { state, fence, digests: None, expires_at: Some(at(1000)) };
        let completed = Known::Completed { outcome: Outcome::Nothing };
        let mut memory = Memory::new(4, 4);

        memory.write_through(&key("a"), known(completed, 2), at(0));
        memory.release(&key("a"), 1, None, Some(at(1000)), at(0));
        memory.doubt(&key("a"), 1, None, Some(at(1000)), at(0));
        memory.write_through(&key("a"), known(Known::InFlight { until: at(10) }, 2), at(0));
        assert!(matches!(memory.recall(&key("a"), at(20)), Some(Remembered { state: Known::Completed { .. }, .. })));

        memory.write_through(&key("b"), known(Known::Uncertain, 2), at(0));
        memory.release(&key("b"), 1, None, Some(at(1000)), at(0));
        assert!(matches!(memory.recall(&key("b"), at(20)), Some(Remembered { state: Known::Uncertain, .. })));
        memory.release(&key("b"), 2, None, Some(at(1000)), at(0));
        assert!(matches!(memory.recall(&key("b"), at(20)), Some(Remembered { state: Known::Free, .. })));

        // What has expired is no longer newer.
        memory.write_through(&key("a"), known(Known::Uncertain, 1), at(1000));
        assert!(matches!(memory.recall(&key("a"), at(20)), Some(Remembered { state: Known::Uncertain, .. })));
    }
}
