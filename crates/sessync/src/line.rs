//! One line of a session log, and why a line may not be uploadable.
//!
//! Only what a row needs is taken out of the line; nested values stay the text they were. A line that
//! cannot be a row is never an error of the run: it has a [`Reason`], is counted by it and reported.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

/// The fields of a line that go into a row. Borrowed from the line wherever possible.
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

/// Why a line is not uploaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    NotUtf8,
    NotJson,
    NoUuid,
    NoTimestamp,
    NoSessionId,
    NoType,
    /// Longer than [`crate::reader::MAX_LINE_BYTES`].
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

/// The line's own names. Every value is kept as its text first, so that one of an unexpected type makes
/// that field absent instead of making the whole line unreadable.
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

/// Reads one line, without its newline.
pub fn parse(line: &[u8]) -> Result<Line<'_>, Reason> {
    let text = std::str::from_utf8(line).map_err(|_| Reason::NotUtf8)?;
    // serde would take a list for an object with its fields in order.
    if !text.trim_start().starts_with('{') {
        return Err(Reason::NotJson);
    }
    let fields: Fields<'_> = serde_json::from_str(text).map_err(|_| Reason::NotJson)?;
    Ok(Line {
        uuid: required(fields.uuid, Reason::NoUuid)?,
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

/// The working directory that a line names, if it names one: all that discovery needs.
pub fn cwd(line: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Cwd {
        cwd: Option<String>,
    }
    serde_json::from_slice::<Cwd>(line).ok()?.cwd
}

fn required(raw: Option<&RawValue>, missing: Reason) -> Result<Cow<'_, str>, Reason> {
    string(raw).filter(|text| !text.is_empty()).ok_or(missing)
}

fn string(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    let raw = raw?.get();
    // Almost every string is without escapes: then it is what stands between the quotes.
    match raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(plain) if memchr::memchr(b'\\', plain.as_bytes()).is_none() => Some(Cow::Borrowed(plain)),
        Some(_) => serde_json::from_str::<String>(raw).ok().map(Cow::Owned),
        None => None,
    }
}

fn json(raw: Option<&RawValue>) -> Option<&str> {
    raw.map(RawValue::get).filter(|text| *text != "null")
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
}
