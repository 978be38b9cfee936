//! One line of a session log: its fields, and the [`Key`] that it is remembered by.
//!
//! Only what a row needs is taken out of the line; nested values stay JSON text. A line that cannot become a row
//! never fails the run: it has a [`Reason`], and the run counts and reports the lines of each reason.
//!
//! A key has 16 bytes: half from the line's uuid, half from its content. Two lines with the same key are the
//! same line. Two lines that share only the first half have the same uuid and different content. Both are
//! uploaded, because some entries are known to share a uuid. A line is lost to a collision only if all 128 bits
//! are equal. If only the first halves collide, the line looks like other content of a known uuid and is
//! uploaded all the same.

use std::borrow::Cow;
use std::fmt;

use ring::digest::{SHA256, digest};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::redact;

/// The fields of a line that go into a row, borrowed from the line wherever possible.
#[derive(Debug, Clone)]
pub struct Line<'a> {
    pub uuid: Cow<'a, str>,
    pub timestamp: Cow<'a, str>,
    pub session_id: Cow<'a, str>,
    pub kind: Cow<'a, str>,
    /// JSON text.
    pub message: Option<&'a str>,
    /// JSON text.
    pub tool_use_result: Option<&'a str>,
    pub agent_id: Option<Cow<'a, str>>,
    pub is_sidechain: Option<bool>,
    pub parent_uuid: Option<Cow<'a, str>>,
    pub user_type: Option<Cow<'a, str>>,
    pub slug: Option<Cow<'a, str>>,
    pub request_id: Option<Cow<'a, str>>,
    pub cwd: Option<Cow<'a, str>>,
    pub git_branch: Option<Cow<'a, str>>,
    pub version: Option<Cow<'a, str>>,
}

/// What a file says of all of its lines, where the lines do not say it themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    pub session: Option<String>,
    pub cwd: Option<String>,
    pub version: Option<String>,
    pub branch: Option<String>,
}

/// Why a line is not uploaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    NotUtf8,
    NotJson,
    NoUuid,
    NoTimestamp,
    NoSessionId,
    NoType,
    /// Longer than [`super::reader::MAX_LINE_BYTES`].
    TooLong,
}

impl Reason {
    /// The reason's name in JSON output.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::NotUtf8 => "not_utf8",
            Reason::NotJson => "not_json",
            Reason::NoUuid => "no_uuid",
            Reason::NoTimestamp => "no_timestamp",
            Reason::NoSessionId => "no_session_id",
            Reason::NoType => "no_type",
            Reason::TooLong => "too_long",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::NotUtf8 => "not UTF-8",
            Reason::NotJson => "not a JSON object",
            Reason::NoUuid => "no uuid",
            Reason::NoTimestamp => "no timestamp",
            Reason::NoSessionId => "no sessionId",
            Reason::NoType => "no type",
            Reason::TooLong => "longer than a row may be",
        })
    }
}

/// The names that the line uses. Every value is read as JSON text first. A value of an unexpected type then only
/// makes its field absent, not the whole line unreadable.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields<'a> {
    #[serde(borrow, default)]
    uuid: Option<&'a RawValue>,
    #[serde(borrow, default)]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow, default)]
    session_id: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_use_result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    agent_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    is_sidechain: Option<&'a RawValue>,
    #[serde(borrow, default)]
    parent_uuid: Option<&'a RawValue>,
    #[serde(borrow, default)]
    user_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    slug: Option<&'a RawValue>,
    #[serde(borrow, default)]
    request_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    cwd: Option<&'a RawValue>,
    #[serde(borrow, default)]
    git_branch: Option<&'a RawValue>,
    #[serde(borrow, default)]
    version: Option<&'a RawValue>,
}

/// A uuid tells rows apart and is asked for later, so it cannot be redacted like other columns. One that has a secret in
/// it is replaced by another that is made of it.
fn without_secret(uuid: Cow<'_, str>) -> Cow<'_, str> {
    let is_usual = uuid.len() == 36 && uuid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if is_usual || !redact::has_secret(&uuid) {
        return uuid;
    }
    Cow::Owned(uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_URL, uuid.as_bytes()).to_string())
}

/// Reads one line. `line` is without its newline.
pub fn parse(line: &[u8]) -> Result<Line<'_>, Reason> {
    let text = std::str::from_utf8(line).map_err(|_| Reason::NotUtf8)?;
    // serde would read a list as the fields in their order.
    if !text.trim_start().starts_with('{') {
        return Err(Reason::NotJson);
    }
    let fields: Fields<'_> = serde_json::from_str(text).map_err(|_| Reason::NotJson)?;
    Ok(Line {
        uuid: without_secret(required(fields.uuid, Reason::NoUuid)?),
        timestamp: required(fields.timestamp, Reason::NoTimestamp)?,
        session_id: required(fields.session_id, Reason::NoSessionId)?,
        kind: required(fields.kind, Reason::NoType)?,
        message: json(fields.message),
        tool_use_result: json(fields.tool_use_result),
        agent_id: string(fields.agent_id),
        is_sidechain: fields.is_sidechain.and_then(|raw| serde_json::from_str(raw.get()).ok()),
        parent_uuid: string(fields.parent_uuid),
        user_type: string(fields.user_type),
        slug: string(fields.slug),
        request_id: string(fields.request_id),
        cwd: string(fields.cwd),
        git_branch: string(fields.git_branch),
        version: string(fields.version),
    })
}

/// The working directory that a line names, if it names one.
pub fn cwd(line: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Cwd {
        cwd: Option<String>,
    }
    serde_json::from_slice::<Cwd>(line).ok()?.cwd
}

pub(super) fn required(raw: Option<&RawValue>, missing: Reason) -> Result<Cow<'_, str>, Reason> {
    string(raw).filter(|text| !text.is_empty()).ok_or(missing)
}

pub(super) fn string(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    let raw = raw?.get();
    // Almost no string has an escape; then the text between the quotes is the value.
    match raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(plain) if memchr::memchr(b'\\', plain.as_bytes()).is_none() => Some(Cow::Borrowed(plain)),
        Some(_) => serde_json::from_str::<String>(raw).ok().map(Cow::Owned),
        None => None,
    }
}

pub(super) fn json(raw: Option<&RawValue>) -> Option<&str> {
    raw.map(RawValue::get).filter(|text| *text != "null")
}

/// How many contents of one uuid can be recorded as uploaded without the content being known (see [`Key::unknown`]).
pub(crate) const MAX_UNKNOWN: u64 = 16;

/// The size of a stored key.
pub(crate) const KEY_BYTES: usize = 16;

/// The 16 bytes a line is remembered by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u128);

impl Key {
    /// The key of a line.
    ///
    /// A resumed session copies lines into a new file under a new session id. So session, directory, branch and
    /// version do not count as content.
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

    /// The key of a line of which only the uuid is known, because a list of uuids names it as uploaded.
    /// The first content that is read under this uuid takes its place.
    pub fn unknown(uuid: &str, nth: u64) -> Key {
        Key::unknown_of(uuid_half(uuid), nth)
    }

    /// The same, for a uuid that is already hashed by [`uuid_half`].
    pub(crate) const fn unknown_of(uuid: u64, nth: u64) -> Key {
        Key::new(uuid, if nth < MAX_UNKNOWN { nth } else { MAX_UNKNOWN - 1 })
    }

    /// Whether this key stands for a content that is not known.
    pub(crate) const fn is_unknown(self) -> bool {
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
pub(crate) fn uuid_half(uuid: &str) -> u64 {
    hash(uuid.as_bytes())
}

/// The first 64 bits of the SHA-256: for keys, fingerprints and checksums.
pub fn hash(bytes: &[u8]) -> u64 {
    first_eight(digest(&SHA256, bytes).as_ref())
}

fn first_eight(digest: &[u8]) -> u64 {
    digest.iter().take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(line: &[u8]) -> Reason {
        parse(line).map(|line| line.uuid.into_owned()).unwrap_err()
    }

    #[test]
    fn each_way_of_being_no_row_has_its_reason() {
        assert_eq!(reason(b"\xff{}"), Reason::NotUtf8);
        assert_eq!(reason(b"not json"), Reason::NotJson);
        assert_eq!(reason(b"[1]"), Reason::NotJson);
        assert_eq!(reason(br#"{"uuid":"u""#), Reason::NotJson);
        assert_eq!(reason(br#"{"type":"summary","leafUuid":"x"}"#), Reason::NoUuid);
        assert_eq!(reason(br#"{"uuid":7}"#), Reason::NoUuid);
        assert_eq!(reason(br#"{"uuid":"u"}"#), Reason::NoTimestamp);
        assert_eq!(reason(br#"{"uuid":"u","timestamp":"t"}"#), Reason::NoSessionId);
        assert_eq!(reason(br#"{"uuid":"u","timestamp":"t","sessionId":"s"}"#), Reason::NoType);
    }

    #[test]
    fn a_line_without_a_message_is_a_line() {
        let line = parse(br#"{"uuid":"u","timestamp":"t","sessionId":"s","type":"system"}"#).unwrap();
        assert_eq!(line.message, None);
        assert_eq!(line.is_sidechain, None);
    }

    #[test]
    fn an_optional_field_of_an_unexpected_type_is_absent_and_the_line_stays() {
        let line = parse(
            br#"{"uuid":"\u0075","timestamp":"t","sessionId":"s","type":"user","cwd":["x"],"isSidechain":"yes","slug":null,"message":null}"#,
        )
        .unwrap();
        assert_eq!(line.uuid, "u");
        assert_eq!((line.cwd, line.is_sidechain, line.slug, line.message), (None, None, None, None));
    }

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
}
