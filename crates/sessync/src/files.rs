//! How far each log file is uploaded, and how a file is recognised again.
//!
//! A file whose size, time of change and inode are as they were is not opened at all. One that changed is
//! recognised by its first and last bytes before the offset: then only what came after is read. A file
//! under a new name is compared with those known in the same way (a rename, a copy). Whatever is not
//! recognised is read from its beginning, where its lines are known one by one.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::clock::Time;
use crate::digest::hash;

/// How many of the first and of the last bytes before the offset make a fingerprint.
const FINGERPRINT_BYTES: u64 = 4096;

/// What is remembered of a log file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Below the directory of all logs, with `/` between its parts.
    pub path: String,
    pub stat: Stat,
    /// Everything before this is dealt with.
    pub offset: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// Lines before the offset that are to be read once more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<(u64, u64)>,
    /// The log of another project whose directory has the same name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
}

/// What the file system says of a file: unchanged means untouched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stat {
    pub size: u64,
    pub changed_ns: u64,
    pub inode: u64,
}

/// File systems tell changes apart by a clock that ticks only so often.
const TICK_MS: u64 = 2000;

impl Stat {
    /// What to remember of a file that was looked at `now`. If it changed just before, it may change once more
    /// without showing it: then it must not look unchanged.
    pub fn settled(self, now: Time) -> Stat {
        let changed_ms = (self.changed_ns / 1_000_000) as i64;
        let recent = now.0.abs_diff(changed_ms) < TICK_MS;
        Stat { changed_ns: if recent { 0 } else { self.changed_ns }, ..self }
    }

    pub fn of(meta: &Metadata) -> Stat {
        let changed = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        Stat { size: meta.len(), changed_ns: u64::try_from(changed.as_nanos()).unwrap_or(0), inode: inode(meta) }
    }
}

#[cfg(unix)]
fn inode(meta: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(meta)
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
}

/// The bytes around what is uploaded: the first ones of the file, and the last ones before the offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    pub head: u64,
    pub tail: u64,
}

impl Fingerprint {
    /// The fingerprint of the first `offset` bytes; `None` if there are none or not as many.
    pub fn of(file: &File, offset: u64) -> io::Result<Option<Fingerprint>> {
        if offset == 0 {
            return Ok(None);
        }
        let length = offset.min(FINGERPRINT_BYTES);
        let (Some(head), Some(tail)) = (piece(file, 0, length)?, piece(file, offset - length, length)?) else {
            return Ok(None);
        };
        Ok(Some(Fingerprint { head, tail }))
    }
}

fn piece(file: &File, start: u64, length: u64) -> io::Result<Option<u64>> {
    let mut bytes = Vec::with_capacity(length as usize);
    Place::new(file, start).take(length).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 == length).then(|| hash(&bytes)))
}

/// A place in an open file that is read from there on. Whoever else reads the file does not move it: handles of one
/// open file share their position, and a clone of a handle is still the same open file.
#[derive(Debug)]
pub struct Place<'a> {
    file: &'a File,
    offset: u64,
}

impl<'a> Place<'a> {
    pub fn new(file: &'a File, offset: u64) -> Self {
        Place { file, offset }
    }
}

impl Read for Place<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        #[cfg(unix)]
        let read = std::os::unix::fs::FileExt::read_at(self.file, buffer, self.offset)?;
        #[cfg(windows)]
        let read = std::os::windows::fs::FileExt::seek_read(self.file, buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

/// What is to be read of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// From here to the end.
    pub from: u64,
    /// And these parts before it.
    pub again: Vec<(u64, u64)>,
}

/// What is to be read of a file; `None` if nothing is.
pub fn plan(marks: &BTreeMap<String, Mark>, path: &str, stat: Stat, open: &Path) -> io::Result<Option<Plan>> {
    let mark = marks.get(path);
    if let Some(mark) = mark
        && mark.stat == stat
    {
        if mark.foreign || mark.again.is_empty() {
            return Ok(None);
        }
        return Ok(Some(Plan { from: mark.offset, again: mark.again.clone() }));
    }
    let mut file = Candidate { file: File::open(open)?, size: stat.size, heads: BTreeMap::new() };
    if let Some(mark) = mark
        && file.begins_like(mark)?
    {
        return Ok(Some(Plan { from: mark.offset, again: mark.again.clone() }));
    }
    // Renamed or copied: the longest known beginning that this file has too.
    let mut best = 0;
    for mark in marks.values().filter(|mark| mark.path != path && mark.again.is_empty()) {
        if mark.offset > best && file.begins_like(mark)? {
            best = mark.offset;
        }
    }
    Ok(Some(Plan { from: best, again: Vec::new() }))
}

/// A file that is compared with what is known.
struct Candidate {
    file: File,
    size: u64,
    /// Its first bytes' hash by how many they are: nearly always one entry for any number of comparisons.
    heads: BTreeMap<u64, Option<u64>>,
}

impl Candidate {
    fn begins_like(&mut self, mark: &Mark) -> io::Result<bool> {
        let Some(known) = mark.fingerprint else { return Ok(false) };
        if mark.foreign || mark.offset > self.size {
            return Ok(false);
        }
        let length = mark.offset.min(FINGERPRINT_BYTES);
        let head = match self.heads.get(&length) {
            Some(head) => *head,
            None => {
                let head = piece(&self.file, 0, length)?;
                self.heads.insert(length, head);
                head
            }
        };
        if head != Some(known.head) {
            return Ok(false);
        }
        Ok(piece(&self.file, mark.offset - length, length)? == Some(known.tail))
    }
}
