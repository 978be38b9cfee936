//! The records of the journal, and how a line of it is written and checked.
//!
//! A line is a checksum, a space, the record as JSON, and a newline. The checksum is the first 64 bits of the JSON's
//! SHA-256 in hexadecimal. Times are milliseconds since 1970. Keys are one base64 text ([`keys`]).

use serde::{Deserialize, Serialize};

use super::seen::Calendar;
use crate::clock::Time;
use crate::source::files::Mark;
use crate::source::line::{Key, hash};

/// The version of the format.
pub const VERSION: u32 = 1;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Record {
    /// Everything so far. Always the first line, and only there.
    Snapshot(Box<Snapshot>),
    /// A run begins. Everything that was uncertain is settled.
    Begin { at: Time },
    /// These rows are about to be sent.
    Intent(Intent),
    /// BigQuery has these rows of the intent (`None`: all of them). The others must be read again.
    Settled {
        batch: String,
        at: Time,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        only: Option<Vec<u32>>,
    },
    /// The intent does not go on as it was. Some of its rows are done with; the others are in the parts.
    Replaced {
        batch: String,
        at: Time,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        set_aside: Vec<u32>,
        /// Rows that turned out to be in BigQuery.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        known: Vec<u32>,
        parts: Vec<Part>,
    },
    /// Files that were read without anything to send.
    Files { marks: Vec<Mark>, gone: Vec<String> },
    /// Known lines that were met again: their keys do not grow old.
    Met {
        #[serde(with = "keys")]
        keys: Vec<Key>,
    },
    /// Rows that were set aside without having been in an intent.
    SetAside {
        #[serde(with = "keys")]
        keys: Vec<Key>,
    },
    /// A uuid that must be uploaded again, and the places of its lines: file, start, end.
    Forgotten { uuid: u64, again: Vec<(String, u64, u64)> },
    /// Everything was sent again.
    Resent,
    /// Lines that other machines uploaded, before the number `next` of the shared log.
    Shared {
        next: u64,
        #[serde(with = "keys")]
        keys: Vec<Key>,
    },
}

/// Rows that are about to be sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    /// The rows' `upload_batch_id`, by which BigQuery is asked for them.
    pub batch: String,
    pub at: Time,
    #[serde(with = "keys")]
    pub keys: Vec<Key>,
    /// The earliest and the latest `timestamp` of the rows. They say which partitions to ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<(Time, Time)>,
    /// How far the files are read once these rows are settled.
    pub marks: Vec<Mark>,
}

/// A part of a batch that is sent on its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    pub batch: String,
    /// Its rows, by their numbers in the batch that was split.
    pub rows: Vec<u32>,
}

/// Everything so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    pub version: u32,
    /// The table that the rows go to. Each destination has its own journal.
    pub destination: String,
    /// The number of the table of keys that belongs to this snapshot. `None`: there are no keys yet.
    pub seen: Option<u64>,
    pub calendar: Calendar,
    pub files: Vec<Mark>,
    pub pending: Vec<Intent>,
    /// The pending batches that are settled and only wait for one before them. Their keys are known.
    pub settled: Vec<String>,
    pub blocked: bool,
    pub doubtful: Vec<(String, Time)>,
    pub totals: Totals,
    /// The next number of the shared log that was not read yet.
    #[serde(default)]
    pub shared_next: u64,
    /// The last batch that was settled.
    #[serde(default)]
    pub last_settled: Option<SettledBatch>,
    /// Everything is to be sent again, whatever other machines have sent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resend: bool,
}

/// A batch and those of its rows that BigQuery has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettledBatch {
    pub batch: String,
    #[serde(with = "keys")]
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

/// The line of a record, with its newline.
pub fn write(record: &Record) -> Result<Vec<u8>, serde_json::Error> {
    let text = serde_json::to_string(record)?;
    Ok(format!("{:016x} {text}\n", hash(text.as_bytes())).into_bytes())
}

/// The record of a line, without its newline.
pub fn read(line: &[u8]) -> Result<Record, Error> {
    let (checksum, text) = match line.split_at_checked(16) {
        Some((checksum, [b' ', text @ ..])) => (checksum, text),
        _ => return Err(Error::NoChecksum),
    };
    if format!("{:016x}", hash(text)).as_bytes() != checksum {
        return Err(Error::Checksum);
    }
    serde_json::from_slice(text).map_err(|error| Error::Record(error.to_string()))
}

/// Keys in a serde field: one base64 text.
pub mod keys {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    use crate::source::line::{KEY_BYTES, Key};

    pub fn serialize<S: Serializer>(keys: &[Key], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&encode(keys))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Key>, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        decode(&text).ok_or_else(|| de::Error::custom("not a list of keys"))
    }

    fn encode(keys: &[Key]) -> String {
        let mut bytes = Vec::with_capacity(keys.len() * KEY_BYTES);
        for key in keys {
            bytes.extend_from_slice(&key.0.to_be_bytes());
        }
        BASE64.encode(bytes)
    }

    /// `None`: the text was not written by [`encode`].
    fn decode(text: &str) -> Option<Vec<Key>> {
        let bytes = BASE64.decode(text).ok()?;
        let chunks = bytes.chunks_exact(KEY_BYTES);
        if !chunks.remainder().is_empty() {
            return None;
        }
        Some(chunks.map(|chunk| Key(chunk.iter().fold(0, |sum, byte| (sum << 8) | u128::from(*byte)))).collect())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn keys_survive_their_text() {
            let keys = [Key::new(1, 2), Key::new(u64::MAX, 0), Key::new(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210)];
            assert_eq!(decode(&encode(&keys)).unwrap(), keys);
            assert_eq!(decode("AAAA"), None);
            assert_eq!(decode("*"), None);
        }
    }
}
