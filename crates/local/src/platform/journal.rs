//! An append-only file of JSON lines. It keeps what was acknowledged through kill -9.
//!
//! Promise: when [`Journal::append`] has returned, the next [`Journal::open`] reads the record back, whatever happens to
//! the process in between. The write has then reached the operating system, so only a power cut can lose it. A last line
//! that was cut short was never acknowledged and is dropped. At each start, records that are no longer needed are removed:
//! the rest is written to a temporary file, which is then renamed.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::platform::data::private_file;

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read or written.
    #[error("the file {} cannot be read or written: {source}; check the disk and the permissions", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// A line in the middle is not a record.
    #[error("line {line} of {} is damaged: {source}; mend or remove the line, or choose another directory with --data", path.display())]
    Damaged { path: PathBuf, line: usize, source: serde_json::Error },
}

/// The open file, or none if nothing is kept.
#[derive(Debug)]
pub(crate) struct Journal {
    /// One whole line at a time.
    file: Option<Mutex<File>>,
    path: PathBuf,
}

impl Journal {
    /// A journal that keeps nothing.
    pub(crate) fn nowhere() -> Self {
        Self { file: None, path: PathBuf::new() }
    }

    /// Reads the records, keeps those that `still_needed` returns, and opens the file for more. Without a path nothing is
    /// kept.
    pub(crate) fn open<T, S>(
        path: Option<&Path>,
        still_needed: impl FnOnce(Vec<T>) -> (S, Vec<T>),
    ) -> Result<(Self, S), Error>
    where
        T: Serialize + DeserializeOwned,
    {
        let Some(path) = path else {
            let (state, _) = still_needed(Vec::new());
            return Ok((Self::nowhere(), state));
        };
        let io = |source| Error::Io { path: path.to_owned(), source };
        let (state, kept) = still_needed(read(path)?);
        let temporary = path.with_extension("new");
        {
            let mut file = io::BufWriter::new(private_file().truncate(true).open(&temporary).map_err(io)?);
            for record in &kept {
                let line = serde_json::to_string(record).map_err(|error| io(error.into()))?;
                writeln!(file, "{line}").map_err(io)?;
            }
            file.flush().map_err(io)?;
            file.get_ref().sync_all().map_err(io)?;
        }
        std::fs::rename(&temporary, path).map_err(io)?;
        let file = OpenOptions::new().append(true).open(path).map_err(io)?;
        Ok((Self { file: Some(Mutex::new(file)), path: path.to_owned() }, state))
    }

    /// Adds a record. When this has returned, kill -9 does not lose it.
    pub(crate) fn append<T: Serialize>(&self, record: &T) -> Result<(), Error> {
        let Some(file) = &self.file else { return Ok(()) };
        let io = |source| Error::Io { path: self.path.clone(), source };
        let mut line = serde_json::to_vec(record).map_err(|error| io(error.into()))?;
        line.push(b'\n');
        telemetry::lock(file).write_all(&line).map_err(io)
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Error> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(Error::Io { path: path.to_owned(), source }),
    };
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = text[..whole].split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty());
    lines
        .map(|(at, line)| {
            serde_json::from_slice(line).map_err(|source| Error::Damaged {
                path: path.to_owned(),
                line: at + 1,
                source,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep_all(records: Vec<u32>) -> (Vec<u32>, Vec<u32>) {
        (records.clone(), records)
    }

    #[test]
    fn what_was_appended_is_read_back_and_a_torn_line_is_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("numbers.jsonl");
        let (journal, before) = Journal::open(Some(&path), keep_all).expect("a journal");
        assert!(before.is_empty());
        journal.append(&1).expect("an append");
        journal.append(&2).expect("an append");
        OpenOptions::new().append(true).open(&path).expect("the file").write_all(b"3").expect("half a line");
        let (journal, after) = Journal::open(Some(&path), keep_all).expect("a journal");
        assert_eq!(after, [1, 2]);
        journal.append(&4).expect("an append");
        let (_, again) = Journal::open(Some(&path), keep_all).expect("a journal");
        assert_eq!(again, [1, 2, 4]);
    }

    #[test]
    fn what_is_no_longer_needed_leaves_the_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("numbers.jsonl");
        let (journal, _) = Journal::open(Some(&path), keep_all).expect("a journal");
        for number in 0..10 {
            journal.append(&number).expect("an append");
        }
        let last = |records: Vec<u32>| ((), records.into_iter().skip(8).collect());
        Journal::open(Some(&path), last).expect("a journal");
        let (_, left) = Journal::open(Some(&path), keep_all).expect("a journal");
        assert_eq!(left, [8, 9]);
    }

    #[test]
    fn damage_in_the_middle_is_named_not_skipped() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("numbers.jsonl");
        std::fs::write(&path, "1\noops\n3\n").expect("a file");
        let error = Journal::open(Some(&path), keep_all).expect_err("damaged");
        assert!(error.to_string().starts_with("line 2 of"), "{error}");
    }
}
