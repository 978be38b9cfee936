//! Which lines are uploaded: a sorted table of 16-byte keys, each with the day on which it was last met.
//!
//! The table answers whether a line is new, known, or has a known uuid with other content. A million keys take
//! 18 MB in memory and on disk. A key that was not met for [`KEPT_DAYS`], and whose file can be gone, is dropped when
//! the table is written. If the line appears in a *new* file after that, it is uploaded again (the view of
//! `sessync schema` hides it).
//!
//! [`Calendar`] counts the days, so that a jump of the clock does no harm.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{self, Read, Write};

use ring::digest::{Context, SHA256};

use crate::source::line::{KEY_BYTES, Key, MAX_UNKNOWN, uuid_half};

/// For how many days a key is kept after its line was last met.
pub(crate) const KEPT_DAYS: u16 = 30;

/// How many days one step of the clock counts at most. A clock that jumps a year ahead must not make every key old at once.
pub(crate) const MAX_LEAP_DAYS: u16 = 7;

/// How many new keys are collected at least before they are merged into the sorted table.
const MERGE_AT: usize = 32 * 1024;
/// A large table collects this part of itself first. A merge moves the whole table. With a fixed number of new keys per merge, the moves
/// would grow with the square of the table; with a part of it, each key is moved about this many times, however many there are. The new
/// keys then take about an eighth of the table's memory.
const MERGE_PART: usize = 16;

const MAGIC: &[u8; 16] = b"sessync seen 1\n\0";
const ENTRY_BYTES: usize = KEY_BYTES + 2;
const CHECKSUM_BYTES: usize = 32;

/// What is wrong with a table on disk.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("it is not a table of keys")]
    Magic,
    #[error("it ends too early")]
    Short,
    #[error("its checksum does not match")]
    Checksum,
    #[error("its keys are not in order")]
    Order,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Whether a line is uploaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Novelty {
    New,
    Known,
    /// The uuid is known, but with other content.
    OtherContent,
}

/// The table.
#[derive(Debug, Default, Clone)]
pub struct Seen {
    /// Sorted, each once.
    keys: Vec<u128>,
    /// The day of each of `keys`.
    days: Vec<u16>,
    /// Keys since the last merge, with their days.
    fresh: BTreeMap<u128, u16>,
    /// How many keys stand for contents that are not known. Nearly always 0; then nothing has to be searched for them.
    unknown: usize,
}

impl Seen {
    /// How many keys are known.
    pub fn len(&self) -> usize {
        // Keys in `fresh` are in `keys` as well only when they were met again.
        self.keys.len() + self.fresh.keys().filter(|key| self.find(**key).is_none()).count()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.fresh.is_empty()
    }

    /// Whether the line with this key is known.
    pub fn look_up(&self, key: Key) -> Novelty {
        let mut same_uuid = false;
        let mut known = false;
        self.of_uuid(key.uuid(), |other| {
            same_uuid = true;
            known |= other == key || other.is_unknown();
        });
        match (known, same_uuid) {
            (true, _) => Novelty::Known,
            (false, true) => Novelty::OtherContent,
            (false, false) => Novelty::New,
        }
    }

    /// Remembers a key. If the uuid has a key without a content, this key takes its place.
    pub fn insert(&mut self, key: Key, day: u16) {
        if self.unknown > 0 && !key.is_unknown() && !self.contains(key) {
            let mut unknown = None;
            self.of_uuid(key.uuid(), |other| {
                if other.is_unknown() {
                    unknown = Some(other);
                }
            });
            if let Some(unknown) = unknown {
                if self.replace(unknown, key, day) {
                    return;
                }
                self.remove(unknown);
            }
        }
        self.set(key, day);
    }

    /// Puts `new` in the place of `old` if the table stays sorted, which is nearly always so. Otherwise each key of a
    /// million without contents would move half of the table.
    fn replace(&mut self, old: Key, new: Key, day: u16) -> bool {
        let Some(at) = self.find(old.0) else { return false };
        let fits = self.keys.get(at + 1).is_none_or(|next| *next > new.0);
        if fits {
            self.keys[at] = new.0;
            self.days[at] = day;
            self.unknown -= 1;
        }
        fits
    }

    /// Remembers one more line of this uuid, whose content is not known.
    pub fn insert_unknown(&mut self, uuid: &str, day: u16) {
        self.insert_unknown_of(uuid_half(uuid), day);
    }

    /// The same, for a uuid that is already hashed.
    pub(crate) fn insert_unknown_of(&mut self, uuid: u64, day: u16) {
        let free = (0..MAX_UNKNOWN).map(|nth| Key::unknown_of(uuid, nth)).find(|key| !self.contains(*key));
        if let Some(key) = free {
            self.set(key, day);
        }
    }

    /// Whether any content of a uuid is known.
    pub(crate) fn knows_uuid(&self, uuid: u64) -> bool {
        let mut known = false;
        self.of_uuid(uuid, |_| known = true);
        known
    }

    /// How many contents of a uuid were read. Those that are only counted are not among them.
    pub(crate) fn known_contents(&self, uuid: u64) -> u64 {
        let mut contents = 0;
        self.of_uuid(uuid, |key| contents += u64::from(!key.is_unknown()));
        contents
    }

    /// The day on which a known key was last met.
    pub fn day(&self, key: Key) -> Option<u16> {
        self.fresh.get(&key.0).copied().or_else(|| self.find(key.0).map(|at| self.days[at]))
    }

    /// Forgets every key of a uuid. Returns how many there were.
    pub fn forget(&mut self, uuid: u64) -> usize {
        let mut keys = Vec::new();
        self.of_uuid(uuid, |key| keys.push(key));
        keys.sort_unstable();
        keys.dedup();
        for key in &keys {
            self.remove(*key);
        }
        keys.len()
    }

    fn contains(&self, key: Key) -> bool {
        self.fresh.contains_key(&key.0) || self.find(key.0).is_some()
    }

    fn set(&mut self, key: Key, day: u16) {
        if let Some(at) = self.find(key.0) {
            self.days[at] = self.days[at].max(day);
            return;
        }
        match self.fresh.entry(key.0) {
            Entry::Occupied(mut entry) => *entry.get_mut() = day.max(*entry.get()),
            Entry::Vacant(entry) => {
                entry.insert(day);
                self.unknown += usize::from(key.is_unknown());
            }
        }
        if self.fresh.len() >= MERGE_AT.max(self.keys.len() / MERGE_PART) {
            self.merge();
        }
    }

    /// Forgets one key.
    pub fn remove(&mut self, key: Key) {
        let mut removed = self.fresh.remove(&key.0).is_some();
        if let Some(at) = self.find(key.0) {
            self.keys.remove(at);
            self.days.remove(at);
            removed = true;
        }
        self.unknown -= usize::from(removed && key.is_unknown());
    }

    /// Calls `each` with every key of a uuid.
    fn of_uuid(&self, uuid: u64, mut each: impl FnMut(Key)) {
        let (first, last) = (Key::new(uuid, 0).0, Key::new(uuid, u64::MAX).0);
        for key in self.keys[self.lower_bound(first)..].iter().take_while(|key| **key <= last) {
            each(Key(*key));
        }
        for key in self.fresh.range(first..=last) {
            each(Key(*key.0));
        }
    }

    fn find(&self, key: u128) -> Option<usize> {
        let at = self.lower_bound(key);
        (self.keys.get(at) == Some(&key)).then_some(at)
    }

    /// The first index whose key is not below `key`.
    ///
    /// Keys are hashes, so they are spread evenly. A guess by proportion is only a few entries off, and widening the
    /// window from there touches far less memory than a binary search of the whole table.
    fn lower_bound(&self, key: u128) -> usize {
        let len = self.keys.len();
        let guess = (((key >> 64) * len as u128) >> 64) as usize;
        let (mut low, mut high, mut step) = (guess, guess, 16);
        while low > 0 && self.keys[low - 1] >= key {
            low = low.saturating_sub(step);
            step *= 2;
        }
        step = 16;
        while high < len && self.keys[high] < key {
            high = (high + step).min(len);
            step *= 2;
        }
        low + self.keys[low..high].partition_point(|other| *other < key)
    }

    /// Merges the new keys into the table, from the back and in place, so that there is no second table in memory.
    fn merge(&mut self) {
        let fresh = std::mem::take(&mut self.fresh);
        let mut read = self.keys.len();
        let total = read + fresh.len();
        // Exactly: a table that has doubled its memory would waste half of it. Merges are rare enough for a copy each.
        self.keys.reserve_exact(fresh.len());
        self.days.reserve_exact(fresh.len());
        self.keys.resize(total, 0);
        self.days.resize(total, 0);
        let mut write = total;
        for (key, day) in fresh.into_iter().rev() {
            while read > 0 && self.keys[read - 1] > key {
                (read, write) = (read - 1, write - 1);
                self.keys[write] = self.keys[read];
                self.days[write] = self.days[read];
            }
            write -= 1;
            self.keys[write] = key;
            self.days[write] = day;
        }
    }

    /// Drops the keys that were not met in the last [`KEPT_DAYS`] days, but none that was met on the day `needed` or
    /// later. Returns how many.
    pub fn expire(&mut self, today: u16, needed: u16) -> usize {
        self.merge();
        let before = self.keys.len();
        let mut kept = 0;
        for at in 0..before {
            if today.saturating_sub(self.days[at]) <= KEPT_DAYS || self.days[at] >= needed {
                self.keys[kept] = self.keys[at];
                self.days[kept] = self.days[at];
                kept += 1;
            }
        }
        self.keys.truncate(kept);
        self.days.truncate(kept);
        self.unknown = self.keys.iter().filter(|key| Key(**key).is_unknown()).count();
        before - kept
    }

    /// Writes the table with its checksum.
    pub fn write(&mut self, to: &mut dyn Write) -> io::Result<()> {
        self.merge();
        let mut checksum = Context::new(&SHA256);
        let mut put = |bytes: &[u8]| {
            checksum.update(bytes);
            to.write_all(bytes)
        };
        put(MAGIC)?;
        put(&(self.keys.len() as u64).to_be_bytes())?;
        let mut chunk = Vec::with_capacity(4096 * ENTRY_BYTES);
        for (keys, days) in self.keys.chunks(4096).zip(self.days.chunks(4096)) {
            chunk.clear();
            for (key, day) in keys.iter().zip(days) {
                chunk.extend_from_slice(&key.to_be_bytes());
                chunk.extend_from_slice(&day.to_be_bytes());
            }
            put(&chunk)?;
        }
        to.write_all(checksum.finish().as_ref())
    }

    /// Reads a table that [`Seen::write`] wrote, and nothing else.
    pub fn read(from: &mut dyn Read) -> Result<Seen, Error> {
        let mut checksum = Context::new(&SHA256);
        let mut head = [0; MAGIC.len() + 8];
        exactly(from, &mut head)?;
        checksum.update(&head);
        let (magic, count) = head.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(Error::Magic);
        }
        let mut left = number(count) as u64;
        let mut seen = Seen::default();
        let mut chunk = vec![0; 4096 * ENTRY_BYTES];
        while left > 0 {
            // In chunks: a wrong count must not allocate more memory than the file has bytes.
            let entries = usize::try_from(left).unwrap_or(usize::MAX).min(4096);
            let bytes = &mut chunk[..entries * ENTRY_BYTES];
            exactly(from, bytes)?;
            checksum.update(bytes);
            for entry in bytes.chunks_exact(ENTRY_BYTES) {
                let (key, day) = entry.split_at(KEY_BYTES);
                let key = number(key);
                if seen.keys.last().is_some_and(|last| *last >= key) {
                    return Err(Error::Order);
                }
                seen.unknown += usize::from(Key(key).is_unknown());
                seen.keys.push(key);
                seen.days.push(number(day) as u16);
            }
            left -= entries as u64;
        }
        let mut stored = [0; CHECKSUM_BYTES];
        exactly(from, &mut stored)?;
        if checksum.finish().as_ref() != stored {
            return Err(Error::Checksum);
        }
        Ok(seen)
    }
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |sum, byte| (sum << 8) | u128::from(*byte))
}

fn exactly(from: &mut dyn Read, bytes: &mut [u8]) -> Result<(), Error> {
    from.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::Short,
        _ => Error::Io(error),
    })
}

/// Counts the days by which keys grow old. It follows the clock, but never goes back and advances at most
/// [`MAX_LEAP_DAYS`] per run, so that no jump of the clock makes sessync forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Calendar {
    /// The day by this count.
    pub today: u16,
    /// The latest day that the clock has shown, in days since 1970.
    pub clock: u32,
}

impl Calendar {
    /// The calendar after the clock showed `day` (days since 1970).
    pub fn advance(self, day: u32) -> Calendar {
        if self.clock == 0 {
            return Calendar { today: 1, clock: day };
        }
        let leap = day.saturating_sub(self.clock).min(u32::from(MAX_LEAP_DAYS)) as u16;
        // The clock was set back by more than a week, so it was wrong before: continue from the day that it shows now.
        let clock = if day.saturating_add(MAX_LEAP_DAYS.into()) < self.clock { day } else { self.clock.max(day) };
        Calendar { today: self.today.saturating_add(leap), clock }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn round(seen: &mut Seen) -> Seen {
        let mut bytes = Vec::new();
        seen.write(&mut bytes).unwrap();
        Seen::read(&mut bytes.as_slice()).unwrap()
    }

    #[test]
    fn it_says_the_same_as_plain_sets_whatever_is_put_in() {
        for seed in 0..30 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut seen = Seen::default();
            // A uuid's contents, and how many of its contents are unknown.
            let mut model: BTreeMap<u64, (BTreeSet<Key>, u64)> = BTreeMap::new();
            for step in 0..3000 {
                // Few uuids and contents, so that they meet; some tables skewed, so that guesses are wrong.
                let uuid = if seed % 2 == 0 { rng.u64(..) >> 56 << 50 } else { rng.u64(0..300) };
                let key = Key::new(uuid, MAX_UNKNOWN + rng.u64(0..3));
                let expected = match model.get(&uuid) {
                    Some((contents, unknown)) if *unknown > 0 || contents.contains(&key) => Novelty::Known,
                    Some((contents, _)) if !contents.is_empty() => Novelty::OtherContent,
                    _ => Novelty::New,
                };
                assert_eq!(seen.look_up(key), expected, "seed {seed} step {step}");
                match rng.u8(0..20) {
                    0 => seen.merge(),
                    1 => seen = round(&mut seen),
                    2 => {
                        seen.forget(uuid);
                        model.remove(&uuid);
                    }
                    3..=8 => {
                        seen.insert(key, 1);
                        let (contents, unknown) = model.entry(uuid).or_default();
                        if contents.insert(key) {
                            *unknown = unknown.saturating_sub(1);
                        }
                    }
                    // In a third of the tables from time to time, so that there are often none to look for.
                    9 if seed % 3 == 0 && step / 500 % 2 == 0 => {
                        seen.insert_unknown_of(uuid, 1);
                        let (_, unknown) = model.entry(uuid).or_default();
                        *unknown = MAX_UNKNOWN.min(*unknown + 1);
                    }
                    10 if step % 10 == 0 => assert_eq!(seen.expire(1, 1), 0, "seed {seed} step {step}"),
                    _ => {}
                }
                if step % 100 == 0 {
                    let unknown: u64 = model.values().map(|(_, unknown)| unknown).sum();
                    assert_eq!(seen.unknown as u64, unknown, "seed {seed} step {step}");
                }
            }
            let keys: u64 = model.values().map(|(contents, unknown)| contents.len() as u64 + unknown).sum();
            assert_eq!(seen.len() as u64, keys, "seed {seed}");
        }
    }

    #[test]
    fn a_large_table_is_merged_only_when_a_part_of_it_is_new() {
        let known = 2 * MERGE_PART * MERGE_AT;
        let spread = 128 - known.ilog2();
        let keys = (0..known as u128).map(|n| n << spread).collect();
        let mut seen = Seen { keys, days: vec![1; known], ..Seen::default() };
        let mut rng = fastrand::Rng::with_seed(1);
        let mut new = 0;
        while seen.keys.len() == known {
            seen.set(Key::new(rng.u64(..), MAX_UNKNOWN), 1);
            new += 1;
        }
        assert_eq!(new, known / MERGE_PART);
        assert!(seen.keys.is_sorted());
    }

    #[test]
    fn an_unknown_content_is_taken_by_the_first_that_turns_up_and_by_no_second() {
        let uuid = "a";
        let of = |content| Key::new(uuid_half(uuid), content);
        let mut seen = Seen::default();
        seen.insert_unknown(uuid, 1);
        assert_eq!(seen.look_up(of(100)), Novelty::Known);
        seen.insert(of(100), 1);
        assert_eq!(seen.look_up(of(100)), Novelty::Known);
        assert_eq!(seen.look_up(of(200)), Novelty::OtherContent);
    }

    #[test]
    fn a_key_is_dropped_after_thirty_days_without_being_met_and_not_before() {
        let mut seen = Seen::default();
        seen.insert(Key::new(1, 100), 1);
        seen.insert(Key::new(2, 100), 1);
        seen.insert(Key::new(2, 100), 5);
        assert_eq!(seen.expire(31, 31), 0);
        assert_eq!(seen.clone().expire(32, 1), 0, "a file that was first read on day 1 is still there");
        assert_eq!(seen.expire(32, 32), 1);
        assert_eq!(seen.look_up(Key::new(2, 100)), Novelty::Known);
    }

    #[test]
    fn a_damaged_table_is_refused_whichever_byte_is_wrong() {
        let mut seen = Seen::default();
        for uuid in 0..20 {
            seen.insert(Key::new(uuid << 40, 99), 3);
        }
        let mut bytes = Vec::new();
        seen.write(&mut bytes).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(Seen::read(&mut damaged.as_slice()).is_err(), "byte {at}");
            assert!(Seen::read(&mut &bytes[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn no_jump_of_the_clock_makes_a_month_of_keys_old() {
        let start = Calendar::default().advance(20_000);
        let jumped = start.advance(20_365);
        assert_eq!(jumped.today - start.today, MAX_LEAP_DAYS);
        let back = jumped.advance(20_001);
        assert_eq!(back.today, jumped.today);
        assert_eq!(back.advance(20_002).today, jumped.today + 1);
        assert_eq!(start.advance(0).today, start.today);
    }
}
