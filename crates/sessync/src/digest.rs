//! What a line is remembered by: 16 bytes, the first half from its uuid, the second from its content.
//!
//! Two lines with the same key are the same line. Two lines that share only the first half have the same
//! uuid and different content: both are kept, because uuids are known not to be unique for some entries.
//! Losing a line to a collision takes 128 equal bits; a collision of the first halves only makes a line
//! look like a second version of another, and it is kept all the same.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use ring::digest::{SHA256, digest};

use crate::line::Line;

/// How many contents of one uuid may be known without being known by content (see [`Key::unknown`]).
pub const MAX_UNKNOWN: u64 = 16;

/// How many bytes a key takes wherever it is stored.
pub const KEY_BYTES: usize = 16;

/// The 16 bytes a line is remembered by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u128);

impl Key {
    /// The key of a line: its uuid, and of its content what a resumed session repeats unchanged.
    ///
    /// A resumed session copies lines into a new file under a new session id, so the envelope
    /// (session, directory, branch, version) is no part of the content.
    pub fn of(line: &Line<'_>) -> Key {
        let mut content = ring::digest::Context::new(&SHA256);
        let parts = [&*line.kind, &*line.timestamp, line.message.unwrap_or(""), line.tool_use_result.unwrap_or("")];
        for part in parts {
            content.update(&(part.len() as u64).to_be_bytes());
            content.update(part.as_bytes());
        }
        let content = first_eight(content.finish().as_ref());
        Key::new(uuid_half(&line.uuid), content.max(MAX_UNKNOWN))
    }

    /// A key from its two halves.
    pub const fn new(uuid: u64, content: u64) -> Key {
        Key(((uuid as u128) << 64) | content as u128)
    }

    /// A line that is known to be uploaded, but not with which content: what a list of uuids says.
    /// The first content that turns up takes its place.
    pub fn unknown(uuid: &str, nth: u64) -> Key {
        Key::unknown_of(uuid_half(uuid), nth)
    }

    /// The same for the half of a key that comes from a uuid.
    pub const fn unknown_of(uuid: u64, nth: u64) -> Key {
        Key::new(uuid, if nth < MAX_UNKNOWN { nth } else { MAX_UNKNOWN - 1 })
    }

    /// Whether this key stands for an unknown content.
    pub const fn is_unknown(self) -> bool {
        self.content() < MAX_UNKNOWN
    }

    /// The half that comes from the uuid.
    pub const fn uuid(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// The half that comes from the content.
    pub const fn content(self) -> u64 {
        self.0 as u64
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:032x})", self.0)
    }
}

/// The half of a key that comes from the uuid.
pub fn uuid_half(uuid: &str) -> u64 {
    hash(uuid.as_bytes())
}

/// 64 bits of SHA-256: fingerprints and checksums.
pub fn hash(bytes: &[u8]) -> u64 {
    first_eight(digest(&SHA256, bytes).as_ref())
}

fn first_eight(digest: &[u8]) -> u64 {
    digest.iter().take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

/// Keys as one text: how the journal writes them.
pub fn encode(keys: &[Key]) -> String {
    let mut bytes = Vec::with_capacity(keys.len() * KEY_BYTES);
    for key in keys {
        bytes.extend_from_slice(&key.0.to_be_bytes());
    }
    BASE64.encode(bytes)
}

/// The keys of a text written by [`encode`]; `None` if it is not one.
pub fn decode(text: &str) -> Option<Vec<Key>> {
    let bytes = BASE64.decode(text).ok()?;
    let chunks = bytes.chunks_exact(KEY_BYTES);
    if !chunks.remainder().is_empty() {
        return None;
    }
    Some(chunks.map(|chunk| Key(chunk.iter().fold(0, |sum, byte| (sum << 8) | u128::from(*byte)))).collect())
}

/// Keys in a serde field.
pub mod text {
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    use super::Key;

    pub fn serialize<S: Serializer>(keys: &[Key], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::encode(keys))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Key>, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        super::decode(&text).ok_or_else(|| de::Error::custom("not a list of keys"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::parse;

    fn key(line: &str) -> Key {
        Key::of(&parse(line.as_bytes()).unwrap())
    }

    const LINE: &str =
        r#"{"uuid":"u1","timestamp":"2026-11-01T00:00:00Z","sessionId":"s1","type":"user","message":{"a":1}}"#;

    #[test]
    fn a_line_copied_by_a_resumed_session_has_the_same_key() {
        assert_eq!(key(LINE), key(&LINE.replace("\"s1\"", "\"s2\"")));
    }

    #[test]
    fn another_message_under_the_same_uuid_shares_only_the_first_half() {
        let (a, b) = (key(LINE), key(&LINE.replace(":1}", ":2}")));
        assert_eq!(a.uuid(), b.uuid());
        assert_ne!(a, b);
    }

    #[test]
    fn keys_survive_their_text() {
        let keys = [Key::new(1, 2), Key::new(u64::MAX, 0), key(LINE)];
        assert_eq!(decode(&encode(&keys)).unwrap(), keys);
        assert_eq!(decode("AAAA"), None);
        assert_eq!(decode("*"), None);
    }
}
