//! What the journal says, and how a line of it is written and checked.
//!
//! A line is the first 64 bits of the SHA-256 of its text in hexadecimal, a space, the record as JSON, a newline.

use serde::{Deserialize, Serialize};

use crate::clock::Time;
use crate::digest::{self, Key};
use crate::files::Mark;
use crate::seen::Calendar;

/// The version of the format.
pub const VERSION: u32 = 1;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Record {
    /// Everything so far, in one. Always the first line, and only that.
    Snapshot(Box<Snapshot>),
    /// A run begins: everything that was uncertain is settled.
    Begin { at: Time },
    /// These rows are about to be sent.
    Intent(Intent),
    /// Of the intent's rows these are at the destination; the others are not, and are to be read again.
    Settled {
        batch: String,
        at: Time,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        only: Option<Vec<u32>>,
    },
    /// The intent was refused as it was. Some rows are dealt with otherwise, the others stand in new intents.
    Replaced {
        batch: String,
        at: Time,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        set_aside: Vec<u32>,
        /// Rows that another machine has uploaded meanwhile.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        known: Vec<u32>,
        parts: Vec<Part>,
    },
    /// Files that were read without anything to send.
    Files { marks: Vec<Mark>, gone: Vec<String> },
    /// Known lines that turned up again: their keys stay for another while.
    Met {
        #[serde(with = "digest::text")]
        keys: Vec<Key>,
    },
    /// Rows set aside without having been in an intent.
    SetAside {
        #[serde(with = "digest::text")]
        keys: Vec<Key>,
    },
    /// A uuid that is to be uploaded again, and where its lines stand.
    Forgotten { uuid: u64, again: Vec<(String, u64, u64)> },
    /// Lines that other machines uploaded, up to this number of the shared log.
    Shared {
        next: u64,
        #[serde(with = "digest::text")]
        keys: Vec<Key>,
    },
}

/// Rows that are about to be sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    /// The rows' `upload_batch_id`: what the destination is asked for.
    pub batch: String,
    pub at: Time,
    #[serde(with = "digest::text")]
    pub keys: Vec<Key>,
    /// The earliest and the latest `timestamp` of the rows: which partitions to ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<(Time, Time)>,
    /// How far the files are dealt with once these rows are.
    pub marks: Vec<Mark>,
}

/// A part of a batch that is sent on its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    pub batch: String,
    /// Which rows of the batch that it is a part of.
    pub rows: Vec<u32>,
}

/// Everything so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    pub version: u32,
    /// Where the rows go. Another destination has another journal.
    pub destination: String,
    /// Which table of keys belongs to this snapshot; `None` while there are no keys.
    pub seen: Option<u64>,
    pub calendar: Calendar,
    pub files: Vec<Mark>,
    pub pending: Vec<Intent>,
    /// Those of the pending batches that only wait for one before them: their keys are among the known ones.
    pub settled: Vec<String>,
    pub blocked: bool,
    pub doubtful: Vec<(String, Time)>,
    pub totals: Totals,
    /// The next number of the shared log that was not read yet.
    #[serde(default)]
    pub shared_next: u64,
    /// The last batch that was settled and its rows that are at the destination.
    #[serde(default)]
    pub last_settled: Option<SettledBatch>,
}

/// A batch and its rows that are at the destination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettledBatch {
    pub batch: String,
    #[serde(with = "digest::text")]
    pub keys: Vec<Key>,
}

/// Counts over the whole life of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    pub uploaded: u64,
    pub set_aside: u64,
    pub last_upload: Option<Time>,
    pub last_batch: Option<String>,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("it has no checksum")]
    NoChecksum,
    #[error("its checksum does not match")]
    Checksum,
    #[error("it is not a record: {0}")]
    Record(String),
}

/// A record as a line, with its newline.
pub fn write(record: &Record) -> Result<Vec<u8>, serde_json::Error> {
    let text = serde_json::to_string(record)?;
    Ok(format!("{:016x} {text}\n", digest::hash(text.as_bytes())).into_bytes())
}

/// The record of a line, without its newline.
pub fn read(line: &[u8]) -> Result<Record, Error> {
    let (checksum, text) = match line.split_at_checked(16) {
        Some((checksum, [b' ', text @ ..])) => (checksum, text),
        _ => return Err(Error::NoChecksum),
    };
    if format!("{:016x}", digest::hash(text)).as_bytes() != checksum {
        return Err(Error::Checksum);
    }
    serde_json::from_slice(text).map_err(|error| Error::Record(error.to_string()))
}
