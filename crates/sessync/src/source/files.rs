//! Log files: which there are, whose they are, and what is new in each.
//!
//! **Where they are.** Claude Code keeps a project's logs in a directory whose name is the working directory's
//! path with every character outside `[A-Za-z0-9]` replaced by `-`. Different paths can get the same name, so
//! the `cwd` in the lines decides. Symbolic links are not followed.
//!
//! **What is new.** A file whose size, modification time and inode have not changed is not opened at all. A file
//! that changed is recognised by its first bytes and the last bytes before the offset; then only what follows the
//! offset is read. A file under a new name is compared with the known files in the same way, so a renamed or
//! copied file is recognised too. A file that is not recognised is read from its beginning; its lines are then
//! recognised one by one.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::Kind;
use super::line::{self, hash};
use super::reader::Lines;
use crate::clock::Time;

/// Claude Code cuts directory names at this length and adds a suffix of its own.
const MAX_NAME: usize = 200;

/// How many lines of a file are searched for one with a `cwd`.
const CWD_LINES: usize = 50;

/// A log file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// Below the directory of all logs, with `/` between its parts.
    pub name: String,
    pub path: PathBuf,
    pub stat: Stat,
    /// Who wrote it.
    pub kind: Kind,
}

/// Which logs to find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Those of the project in this working directory.
    Project(PathBuf),
    All,
}

/// What a search for logs found.
#[derive(Debug, Default)]
pub struct Discovery {
    /// Sorted by name.
    pub logs: Vec<Log>,
    /// The directories that were searched, whether they exist or not.
    pub looked: Vec<PathBuf>,
    /// What could not be read.
    pub unreadable: Vec<(PathBuf, io::Error)>,
}

/// The names that Claude Code can give to the directory of a project's logs.
pub fn names(directory: &Path) -> Vec<String> {
    let text = directory.to_string_lossy();
    let dash = |each: char| if each.is_ascii_alphanumeric() { each.to_string() } else { "-".to_owned() };
    let name: String = text.chars().map(dash).collect();
    // JavaScript counts a character outside the basic multilingual plane as two.
    let wide: String = text.chars().map(|each| dash(each).repeat(each.len_utf16())).collect();
    if wide == name { vec![name] } else { vec![name, wide] }
}

/// Finds Claude Code's logs below `root`, the directory of all of its logs.
pub fn find(root: &Path, scope: &Scope) -> Discovery {
    find_as(root, "", scope)
}

/// The same, with this before each name.
pub(super) fn find_as(root: &Path, prefix: &str, scope: &Scope) -> Discovery {
    let mut found = Discovery::default();
    let tree = Tree { root, prefix, kind: Kind::ClaudeCode };
    match scope {
        Scope::All => found.walk(tree, root),
        Scope::Project(directory) => {
            for name in names(directory) {
                if name.len() <= MAX_NAME {
                    found.walk(tree, &root.join(name));
                    continue;
                }
                let start = &name[..MAX_NAME];
                found.looked.push(root.join(format!("{start}*")));
                for entry in fs::read_dir(root).into_iter().flatten().flatten() {
                    if entry.file_name().to_string_lossy().starts_with(start) {
                        found.walk(tree, &entry.path());
                    }
                }
            }
        }
    }
    found.logs.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// A directory of logs.
#[derive(Debug, Clone, Copy)]
struct Tree<'a> {
    root: &'a Path,
    /// Before the name of each log.
    prefix: &'a str,
    kind: Kind,
}

impl Discovery {
    /// Everything below a directory of Codex's.
    pub(super) fn below(root: &Path, prefix: &str) -> Discovery {
        let mut found = Discovery::default();
        found.walk(Tree { root, prefix, kind: Kind::Codex }, root);
        found.logs.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }

    /// Adds what another search found.
    pub(super) fn extend(&mut self, other: Discovery) {
        self.logs.extend(other.logs);
        self.looked.extend(other.looked);
        self.unreadable.extend(other.unreadable);
    }

    fn walk(&mut self, tree: Tree<'_>, directory: &Path) {
        self.looked.push(directory.to_owned());
        let mut open = vec![directory.to_owned()];
        while let Some(directory) = open.pop() {
            let entries = match fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    self.unreadable.push((directory, error));
                    continue;
                }
            };
            for entry in entries.flatten() {
                let path = entry.path();
                // The type of the entry itself: a symbolic link is neither a directory nor a file here.
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() {
                    open.push(path);
                } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "jsonl") {
                    match entry.metadata() {
                        Ok(meta) => {
                            let name = format!("{}{}", tree.prefix, name(tree.root, &path));
                            self.logs.push(Log { name, stat: Stat::of(&meta), path, kind: tree.kind });
                        }
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        Err(error) => self.unreadable.push((path, error)),
                    }
                }
            }
        }
    }
}

fn name(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    below.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// Whether a log belongs to another project whose log directory has the same name. The first line with a `cwd`
/// decides. A log without one counts as this project's.
pub(crate) fn is_foreign(log: &Log, scope: &Scope) -> io::Result<bool> {
    let Scope::Project(directory) = scope else { return Ok(false) };
    let mut lines = Lines::new(File::open(&log.path)?, 0, log.stat.size);
    for _ in 0..CWD_LINES {
        let Some(raw) = lines.next_line()? else { break };
        if let Some(cwd) = raw.text.and_then(line::cwd) {
            let cwd = Path::new(&cwd);
            if cwd == directory {
                return Ok(false);
            }
            let ours = names(directory);
            let same_name = names(cwd).iter().any(|name| ours.contains(name));
            // Many directories share a cut name: accept only this project's directory and those in it.
            let cut = ours.iter().any(|name| name.len() > MAX_NAME);
            return Ok(same_name || (cut && !cwd.starts_with(directory)));
        }
    }
    Ok(false)
}

/// How many bytes at the beginning, and how many before the offset, make a fingerprint.
const FINGERPRINT_BYTES: u64 = 4096;

/// What the journal remembers of a log file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Below the directory of all logs, with `/` between its parts.
    pub path: String,
    pub stat: Stat,
    /// Everything before this is uploaded, skipped or set aside.
    pub offset: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// Lines before the offset that must be read again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<(u64, u64)>,
    /// The day on which its first line was read. No key of its lines is older, so none that is younger may be dropped
    /// while the file is there. 0: an earlier version did not write it down.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub since: u16,
    /// It belongs to another project whose log directory has the same name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
}

fn is_zero(number: &u16) -> bool {
    *number == 0
}

/// What the file system says of a file. While it stays the same, the file has not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stat {
    pub size: u64,
    pub changed_ns: u64,
    pub inode: u64,
}

/// Some file systems keep modification times only to two seconds.
const TICK_MS: u64 = 2000;

impl Stat {
    /// What to remember of a file that was looked at `now`. A file that changed just before can change again under
    /// the same modification time. It must not look unchanged to the next run.
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

/// Hashes of the first bytes of a file and of the last bytes before the offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    pub head: u64,
    pub tail: u64,
}

impl Fingerprint {
    /// The fingerprint of the first `offset` bytes. `None`: the offset is 0, or the file is shorter.
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

/// Reads an open file from an offset of its own. Clones of a file handle share one position, so reading through
/// one of them would move the others; this does not.
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

/// Which parts of a file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// From here to the end.
    pub from: u64,
    /// And these parts before it, each from its start to its end.
    pub again: Vec<(u64, u64)>,
    /// The day on which what is before `from` was first read. `None`: nothing is.
    pub since: Option<u16>,
}

/// Which parts of a file are new. `None`: nothing is.
pub fn plan(marks: &BTreeMap<String, Mark>, path: &str, stat: Stat, open: &Path) -> io::Result<Option<Plan>> {
    let mark = marks.get(path);
    if let Some(mark) = mark
        && mark.stat == stat
    {
        if mark.foreign || mark.again.is_empty() {
            return Ok(None);
        }
        return Ok(Some(Plan { from: mark.offset, again: mark.again.clone(), since: Some(mark.since) }));
    }
    let mut file = Candidate { file: File::open(open)?, size: stat.size, heads: BTreeMap::new() };
    if let Some(mark) = mark
        && file.begins_like(mark)?
    {
        return Ok(Some(Plan { from: mark.offset, again: mark.again.clone(), since: Some(mark.since) }));
    }
    // Renamed or copied: continue after the longest known beginning that this file has too.
    let mut best = Plan { from: 0, again: Vec::new(), since: None };
    for mark in marks.values().filter(|mark| mark.path != path && mark.again.is_empty()) {
        if mark.offset > best.from && file.begins_like(mark)? {
            best.from = mark.offset;
            best.since = Some(mark.since);
        }
    }
    Ok(Some(best))
}

/// A file that is compared with the known files.
struct Candidate {
    file: File,
    size: u64,
    /// The hash of its first bytes, by their number. Nearly all comparisons need the same one.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn project(at: &str) -> Scope {
        Scope::Project(PathBuf::from(at))
    }

    #[test]
    fn every_character_that_is_not_a_letter_or_a_digit_becomes_a_dash() {
        assert_eq!(names(Path::new("/home/me/a_b.c é")), ["-home-me-a-b-c--"]);
        assert_eq!(names(Path::new("/\u{1F600}")), ["--", "---"]);
    }

    #[test]
    fn logs_are_found_in_subdirectories_and_links_lead_nowhere() {
        let root = tempfile::tempdir().unwrap();
        let logs = root.path().join("-src-x");
        fs::create_dir_all(logs.join("sub/agents")).unwrap();
        for name in ["b.jsonl", "a.jsonl", "note.txt", "sub/agents/c.jsonl"] {
            fs::write(logs.join(name), "{}\n").unwrap();
        }
        #[cfg(unix)]
        {
            fs::create_dir(root.path().join("elsewhere")).unwrap();
            fs::write(root.path().join("elsewhere/d.jsonl"), "{}\n").unwrap();
            std::os::unix::fs::symlink(root.path().join("elsewhere"), logs.join("link")).unwrap();
            std::os::unix::fs::symlink(root.path().join("elsewhere/d.jsonl"), logs.join("e.jsonl")).unwrap();
        }
        let found = find(root.path(), &project("/src/x"));
        let names: Vec<_> = found.logs.iter().map(|log| log.name.as_str()).collect();
        assert_eq!(names, ["-src-x/a.jsonl", "-src-x/b.jsonl", "-src-x/sub/agents/c.jsonl"]);
    }

    #[test]
    fn nothing_found_says_where_it_looked() {
        let root = tempfile::tempdir().unwrap();
        let found = find(root.path(), &project("/src/x"));
        assert!(found.logs.is_empty());
        assert_eq!(found.looked, [root.path().join("-src-x")]);
    }

    #[test]
    fn a_log_of_another_directory_with_the_same_name_is_told_by_its_lines() {
        let root = tempfile::tempdir().unwrap();
        let logs = root.path().join("-src-a-b");
        fs::create_dir_all(&logs).unwrap();
        fs::write(logs.join("1.jsonl"), "junk\n{\"cwd\":\"/src/a/b\"}\n").unwrap();
        fs::write(logs.join("2.jsonl"), "{\"type\":\"summary\"}\n{\"cwd\":\"/src/a-b\"}\n").unwrap();
        fs::write(logs.join("3.jsonl"), "{\"cwd\":\"/src/a/b/inner\"}\n").unwrap();
        fs::write(logs.join("4.jsonl"), "{}\n").unwrap();
        let scope = project("/src/a/b");
        let foreign: Vec<bool> =
            find(root.path(), &scope).logs.iter().map(|log| is_foreign(log, &scope).unwrap()).collect();
        assert_eq!(foreign, [false, true, false, false]);
    }
}
