//! The journal: what is uploaded, what is uncertain, and how far each file is read.
//!
//! Promise: after any crash, a record that was appended is there, and one that was not is not there at all.
//! For every row the journal says whether BigQuery has it, does not have it, or whether that is uncertain. An
//! uncertain row belongs to a batch, and BigQuery can be asked for the rows of that batch.
//!
//! A journal is two files in the state directory. `journal` has one snapshot line and one line per record since then.
//! Each line has a checksum and is synced to the disk before the run goes on. `seen-N` is the table of keys that
//! belongs to the snapshot. It is read only when there is a line to look up, so that a run with nothing new stays
//! quick. Compaction writes a new table, and then replaces the journal by one that names the new table. A crash
//! leaves either the old journal and table or the new ones.
//!
//! Failures: a last line without a newline was cut short by a crash, and is dropped. Any other line that fails its
//! checksum is damage. A damaged journal is never dropped: it is set aside with the reason and rebuilt by asking
//! BigQuery. After a failed write nothing more is appended, and no batch is sent.

pub mod disk;
pub(crate) mod legacy;
pub(crate) mod lock;
pub(crate) mod moved;
pub(crate) mod open;
pub mod record;
pub mod seen;
pub mod state;

use std::io::{self, Read, Write};

use crate::clock::Time;
use crate::source::line::Key;
use disk::Disk;
use record::Record;
use seen::{Novelty, Seen};
use state::{Change, State};

const JOURNAL: &str = "journal";
const SEEN: &str = "seen-";

/// A run that ends with more bytes than this after the snapshot writes a new one. This keeps the next start quick.
const COMPACT_AT_END_BYTES: u64 = 256 * 1024;

/// A run writes a new snapshot whenever there are more bytes than this after it. This keeps file and memory small.
const COMPACT_BYTES: u64 = 4 * 1024 * 1024;

/// What went wrong with the journal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal or its table of keys is not as it was written.
    #[error("the journal is damaged: {0}; `sessync upload` sets it aside and rebuilds it from BigQuery")]
    Damaged(String),
    /// A full or read-only disk, for example.
    #[error("the state cannot be written: {0}; free some space or make the directory writable, and run sessync again")]
    Disk(#[source] io::Error),
    #[error("the state cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// A defect of this program.
    #[error("a record does not fit the journal: {0}; this is a bug in sessync, please report it")]
    Misfit(#[from] state::Error),
    #[error("the journal belongs to {found}, not to {wanted}; move it away, or correct the config")]
    OtherDestination { found: String, wanted: String },
}

/// How a known line was met again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meeting {
    /// It was not met today yet, or its content was not known. A record of it should be written.
    FirstToday,
    /// It was met today before. There is nothing to record.
    AgainToday,
}

/// A journal on a disk.
#[derive(Debug)]
pub struct Journal<D> {
    disk: D,
    state: State,
    /// The number of the table of keys that the snapshot names.
    generation: Option<u64>,
    seen: Keys,
    /// Bytes after the snapshot.
    tail: u64,
    /// Where a line begins that a crash cut short.
    torn: Option<u64>,
    /// A write failed, so the disk and the memory differ.
    broken: bool,
    /// Not on the disk yet.
    new: bool,
}

#[derive(Debug)]
enum Keys {
    /// The table is still on the disk. These changes came after it.
    Unread(Vec<Change>),
    Read(Box<Seen>),
}

impl<D: Disk> Journal<D> {
    /// Reads the journal. A journal that does not exist yet is empty; its first record writes it.
    pub fn open(disk: D, destination: &str) -> Result<Self, (Error, D)> {
        match read(&disk, destination) {
            Ok(Some(replayed)) => Ok(Journal {
                disk,
                state: replayed.state,
                generation: replayed.generation,
                seen: Keys::Unread(replayed.changes),
                tail: replayed.tail,
                torn: replayed.torn,
                broken: false,
                new: false,
            }),
            Ok(None) => Ok(Self::fresh(disk, State::new(destination), Seen::default())),
            Err(error) => Err((error, disk)),
        }
    }

    /// A journal that begins with these keys, after an import or a rebuild. Its first record writes it.
    pub fn fresh(disk: D, state: State, seen: Seen) -> Self {
        Journal {
            disk,
            state,
            generation: None,
            seen: Keys::Read(Box::new(seen)),
            tail: 0,
            torn: None,
            broken: false,
            new: true,
        }
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// The disk, for files beside the journal.
    pub fn disk(&mut self) -> &mut D {
        &mut self.disk
    }

    /// Whether there was no journal before.
    pub fn is_new(&self) -> bool {
        self.new
    }

    /// Whether the line with this key is uploaded.
    pub fn look_up(&mut self, key: Key) -> Result<Novelty, Error> {
        Ok(self.seen()?.look_up(key))
    }

    /// Notes in memory that a known line was met again.
    pub fn meet(&mut self, key: Key) -> Result<Meeting, Error> {
        let today = self.state.calendar.today;
        let seen = self.seen()?;
        if seen.day(key) == Some(today) {
            return Ok(Meeting::AgainToday);
        }
        apply(seen, Change::Met(key), today);
        Ok(Meeting::FirstToday)
    }

    /// The table of keys.
    pub fn seen(&mut self) -> Result<&mut Seen, Error> {
        if let Keys::Unread(changes) = &mut self.seen {
            let mut seen = match self.generation {
                None => Seen::default(),
                Some(generation) => load(&self.disk, generation)?,
            };
            for change in changes.drain(..) {
                apply(&mut seen, change, self.state.calendar.today);
            }
            self.seen = Keys::Read(Box::new(seen));
        }
        match &mut self.seen {
            Keys::Read(seen) => Ok(seen),
            Keys::Unread(_) => unreachable!("it was read above"),
        }
    }

    /// Appends a record. When this returns, the record is on the disk.
    pub fn append(&mut self, record: &Record) -> Result<(), Error> {
        if self.new {
            self.compact()?;
        }
        self.writable()?;
        let line = record::write(record).map_err(|error| Error::Disk(error.into()))?;
        // In memory first: a record that does not fit must not reach the disk.
        let mut changes = Vec::new();
        self.state.apply(record, &mut |change| changes.push(change))?;
        if let Err(error) = self.disk.append(JOURNAL, &line) {
            self.broken = true;
            return Err(Error::Disk(error));
        }
        self.tail += line.len() as u64;
        let today = self.state.calendar.today;
        match &mut self.seen {
            Keys::Unread(unread) => unread.append(&mut changes),
            Keys::Read(seen) => changes.into_iter().for_each(|change| apply(seen, change, today)),
        }
        if self.tail > COMPACT_BYTES { self.compact() } else { Ok(()) }
    }

    /// Ends a run. Writes a snapshot if there are many records since the last one.
    pub fn finish(&mut self) -> Result<(), Error> {
        if self.tail > COMPACT_AT_END_BYTES { self.compact() } else { Ok(()) }
    }

    /// Drops old keys, writes the table of keys, and writes a snapshot that names the table.
    pub fn compact(&mut self) -> Result<(), Error> {
        self.writable()?;
        // The lines of a file that is there are never forgotten, however long it has not changed.
        let today = self.state.calendar.today;
        let needed = self.state.files.values().filter(|mark| !mark.foreign).map(|mark| mark.since).min();
        self.seen()?.expire(today, needed.unwrap_or(today));
        let number = next_generation(&self.disk).map_err(Error::Disk)?;
        let Keys::Read(seen) = &mut self.seen else { return Ok(()) };
        let generation = (!seen.is_empty()).then_some(number);
        let snapshot = Record::Snapshot(Box::new(self.state.snapshot(generation)));
        let line = record::write(&snapshot).map_err(|error| Error::Disk(error.into()))?;
        let disk = &mut self.disk;
        let written = (|| {
            if let Some(generation) = generation {
                disk.replace(&format!("{SEEN}{generation}"), &mut |to: &mut dyn Write| seen.write(to))?;
            }
            disk.replace(JOURNAL, &mut |to: &mut dyn Write| to.write_all(&line))
        })();
        if let Err(error) = written {
            self.broken = true;
            return Err(Error::Disk(error));
        }
        self.generation = generation;
        self.tail = 0;
        self.torn = None;
        self.new = false;
        remove_others(&mut self.disk, generation);
        Ok(())
    }

    /// Refuses to go on after a failed write. Cuts off a line that a crash cut short.
    fn writable(&mut self) -> Result<(), Error> {
        if self.broken {
            return Err(Error::Disk(io::Error::other("an earlier write failed")));
        }
        if let Some(length) = self.torn.take()
            && let Err(error) = self.disk.truncate(JOURNAL, length)
        {
            self.broken = true;
            return Err(Error::Disk(error));
        }
        Ok(())
    }
}

/// Copies a damaged journal to another name, with the reason beside it. The damaged journal also stays where it is
/// until the rebuilt one replaces it, so that a crash in between does not make the project look new.
pub fn set_aside<D: Disk>(disk: &mut D, reason: &str, at: Time) -> Result<String, Error> {
    let name = format!("{JOURNAL}.damaged-{}", at.0);
    for file in disk.list().map_err(Error::Unreadable)? {
        if file == JOURNAL {
            disk.copy(&file, &name).map_err(Error::Disk)?;
        } else if is_seen(&file) {
            disk.copy(&file, &format!("{name}.{file}")).map_err(Error::Disk)?;
        }
    }
    let text = format!("{at}: {reason}\n");
    disk.replace(&format!("{name}.reason"), &mut |to: &mut dyn Write| to.write_all(text.as_bytes()))
        .map_err(Error::Disk)?;
    Ok(name)
}

/// What the lines of a journal add up to.
struct Replayed {
    state: State,
    generation: Option<u64>,
    changes: Vec<Change>,
    tail: u64,
    torn: Option<u64>,
}

/// Reads a journal. `None`: there is none.
fn read(disk: &impl Disk, destination: &str) -> Result<Option<Replayed>, Error> {
    let Some(mut file) = disk.open(JOURNAL).map_err(Error::Unreadable)? else {
        let orphaned = disk.list().map_err(Error::Unreadable)?.iter().any(|name| is_seen(name));
        return match orphaned {
            true => Err(Error::Damaged("there is a table of keys, but no journal".to_owned())),
            false => Ok(None),
        };
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(Error::Unreadable)?;
    let replayed = replay(&bytes).map_err(Error::Damaged)?;
    if replayed.state.destination != destination {
        return Err(Error::OtherDestination { found: replayed.state.destination, wanted: destination.to_owned() });
    }
    Ok(Some(replayed))
}

/// Replays the lines of a journal. The error says what is wrong with them.
fn replay(bytes: &[u8]) -> Result<Replayed, String> {
    let whole = memchr::memrchr(b'\n', bytes).map_or(0, |newline| newline + 1);
    let mut lines = bytes[..whole].split_inclusive(|byte| *byte == b'\n');
    let first = lines.next().ok_or("it has no first line")?;
    let snapshot = match record::read(&first[..first.len() - 1]) {
        Ok(Record::Snapshot(snapshot)) => *snapshot,
        Ok(_) => return Err("line 1: it is not a snapshot".to_owned()),
        Err(error) => return Err(format!("line 1: {error}")),
    };
    let generation = snapshot.seen;
    let mut state = State::from_snapshot(snapshot).map_err(|error| format!("line 1: {error}"))?;
    let mut changes = Vec::new();
    for (at, line) in lines.enumerate() {
        let wrong = |error: &dyn std::fmt::Display| format!("line {}: {error}", at + 2);
        let record = record::read(&line[..line.len() - 1]).map_err(|error| wrong(&error))?;
        state.apply(&record, &mut |change| changes.push(change)).map_err(|error| wrong(&error))?;
    }
    Ok(Replayed {
        state,
        generation,
        changes,
        tail: (whole - first.len()) as u64,
        torn: (whole < bytes.len()).then_some(whole as u64),
    })
}

fn load(disk: &impl Disk, generation: u64) -> Result<Seen, Error> {
    let name = format!("{SEEN}{generation}");
    let Some(file) = disk.open(&name).map_err(Error::Unreadable)? else {
        return Err(Error::Damaged(format!("{name} is missing")));
    };
    Seen::read(&mut io::BufReader::with_capacity(64 * 1024, file)).map_err(|error| match error {
        seen::Error::Io(error) => Error::Unreadable(error),
        error => Error::Damaged(format!("{name}: {error}")),
    })
}

fn apply(seen: &mut Seen, change: Change, today: u16) {
    match change {
        Change::Add(key) if key.is_unknown() => seen.insert_unknown_of(key.uuid(), today),
        Change::Add(key) => seen.insert(key, today),
        Change::Met(key) if seen.look_up(key) == Novelty::Known => seen.insert(key, today),
        Change::Met(_) => {}
        Change::Forget(uuid) => {
            seen.forget(uuid);
        }
    }
}

/// A number that no table on the disk has: a table that a journal may name must not be overwritten.
fn next_generation(disk: &impl Disk) -> io::Result<u64> {
    let numbers = disk.list()?.into_iter().filter_map(|name| name.strip_prefix(SEEN)?.parse::<u64>().ok());
    Ok(numbers.max().unwrap_or(0) + 1)
}

/// Removes the tables that the journal does not name any more. If one cannot be removed, it only takes space.
fn remove_others(disk: &mut impl Disk, generation: Option<u64>) {
    let current = generation.map(|generation| format!("{SEEN}{generation}"));
    for name in disk.list().unwrap_or_default() {
        if is_seen(&name) && current.as_ref() != Some(&name) {
            let _ = disk.remove(&name);
        }
    }
}

fn is_seen(name: &str) -> bool {
    name.strip_prefix(SEEN).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}
