//! What Slack sent: an envelope of the Events API.
//!
//! Promise: every JSON object that is not nested more than a hundred times, and whose numbers fit into a double, can be read. Unknown fields and event types, and fields of
//! an unexpected type, never fail. Half of a surrogate pair, as a cut emoji leaves it, is read as U+FFFD. Any other body, or a
//! request for a challenge that has no challenge, is an [`Error`].
//!
//! A file event is a `message` with subtype `file_share`. Slack also sends `file_shared` for the same upload; that event has
//! no message timestamp, so nobody can reply to it. It is [`Ignored`], like everything else.
//!
//! Slack may send one message in several envelopes, each with an `event_id` of its own. What they have in common is the channel,
//! the message's timestamp and the file; [`Upload::team`] is chosen so that they have it in common too.

use ichido::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest name or type of a file that is passed on, in characters. The rest is cut off.
pub const MAX_LABEL_CHARS: usize = 255;
/// Stands for the team if the envelope names none, or if several have the channel.
const NO_TEAM: &str = "-";

/// Why a body is not an envelope.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the body is not JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    #[error("the body is JSON, but not an object")]
    NotAnObject,
    #[error("the URL verification has no challenge")]
    NoChallenge,
}

/// The app's own ids. Its own uploads are not handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// `B…`
    pub bot_id: String,
    /// `U…`
    pub user_id: String,
}

/// What the body of a request is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// Slack asks whether this address is ours. The answer is this text.
    Challenge(String),
    /// A message with files to handle.
    Upload(Upload),
    /// Nothing to handle. The envelope's `event_id`, if it has one.
    Ignored { why: Ignored, event_key: Option<String> },
}

impl Received {
    /// The key of the event, if it has one.
    pub(crate) fn event_key(&self) -> Option<&str> {
        match self {
            Self::Challenge(_) => None,
            Self::Upload(upload) => Some(&upload.event_key),
            Self::Ignored { event_key, .. } => event_key.as_deref(),
        }
    }
}

/// Why an event is acknowledged and not handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// Not a file event.
    Other,
    /// `file_shared`: Slack also sends the `message`.
    FileShared,
    /// The app's own upload.
    Own,
    /// A file event that lacks its channel, its timestamp or its files.
    Incomplete,
}

impl Ignored {
    /// The reason in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Other => "not a file event",
            Self::FileShared => "Slack also sends the message of this file_shared event",
            Self::Own => "the app's own upload",
            Self::Incomplete => "incomplete file event",
        }
    }
}

/// One message with files: what `slack-events` hands over to `slack-files`. Unknown fields are ignored, so that a function can
/// be rolled back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upload {
    /// The envelope's `event_id`, or `{file}_{ts}` if it has none.
    pub event_key: String,
    /// The workspace, the organisation, or `-`: whatever is the same in all envelopes of one message.
    pub team: String,
    pub channel: String,
    /// The message's timestamp, which is its id within the channel.
    pub ts: String,
    /// The first message of the thread, if the message is in a thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_ts: Option<String>,
    /// The app's id. It tells our replies from those of another installation in the same channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Who uploaded it. Bots have no user id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    pub files: Vec<File>,
    /// `None`: nobody said, for example an earlier version of `slack-events`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handed_over: Option<HandedOver>,
}

/// What `slack-files` cannot see in the table: whether there may have been an attempt before this one that left no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedOver {
    /// When, in seconds of Unix time. Lambda's retries and a dead letter that is sent again have the first time.
    pub at: u64,
    /// `slack-events` could not reach the table. Then an attempt that could not either may have replied already.
    #[serde(default)]
    pub without_table: bool,
}

impl Upload {
    /// The first message of the thread to reply in.
    pub fn thread(&self) -> &str {
        self.thread_ts.as_deref().unwrap_or(&self.ts)
    }

    /// When the message was posted, if its timestamp (`1700000000.000100`) says so.
    pub(crate) fn posted_at(&self) -> Option<Timestamp> {
        let seconds = self.ts.split('.').next().unwrap_or(&self.ts);
        seconds.parse().ok().map(Timestamp::from_secs)
    }
}

/// One file of an upload. Only the id is certain: for files in shared channels Slack leaves the rest out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `image/png`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mimetype: Option<String>,
    /// In bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// Reads a body whose signature was verified.
pub fn read(body: &[u8], own: &Own) -> Result<Received, Error> {
    let envelope: Value = serde_json::from_slice(body).or_else(|error| match without_half_pairs(body) {
        Some(body) => serde_json::from_slice(&body),
        None => Err(error),
    })?;
    if !envelope.is_object() {
        return Err(Error::NotAnObject);
    }
    if envelope["type"] == "url_verification" {
        let challenge = text(&envelope["challenge"]).ok_or(Error::NoChallenge)?;
        return Ok(Received::Challenge(challenge));
    }
    let event = &envelope["event"];
    let received = match (envelope["type"].as_str(), event["type"].as_str(), event["subtype"].as_str()) {
        (Some("event_callback"), Some("message"), Some("file_share")) => file_share(&envelope, event, own),
        (Some("event_callback"), Some("file_shared"), _) => Err(Ignored::FileShared),
        _ => Err(Ignored::Other),
    };
    Ok(match received {
        Ok(upload) => Received::Upload(upload),
        Err(why) => Received::Ignored { why, event_key: text(&envelope["event_id"]) },
    })
}

fn file_share(envelope: &Value, event: &Value, own: &Own) -> Result<Upload, Ignored> {
    if event["bot_id"] == own.bot_id.as_str() || event["user"] == own.user_id.as_str() {
        return Err(Ignored::Own);
    }
    let channel = text(&event["channel"]).ok_or(Ignored::Incomplete)?;
    let ts = text(&event["ts"]).ok_or(Ignored::Incomplete)?;
    let mut files: Vec<File> = Vec::new();
    for file in event["files"].as_array().into_iter().flatten().filter_map(file) {
        if !files.iter().any(|known| known.id == file.id) {
            files.push(file);
        }
    }
    let first = files.first().ok_or(Ignored::Incomplete)?;
    let event_key = text(&envelope["event_id"]).unwrap_or_else(|| format!("{}_{ts}", first.id));
    Ok(Upload {
        event_key,
        team: team(envelope, event),
        thread_ts: text(&event["thread_ts"]),
        app: text(&envelope["api_app_id"]),
        user: text(&event["user"]),
        channel,
        ts,
        files,
        handed_over: None,
    })
}

/// Whose channel it is. Envelopes of one message may name different workspaces: those of a channel that companies share (Slack
/// Connect), and those of one organisation. Slack gives such a channel one id, so the workspace is not needed to tell it apart.
fn team(envelope: &Value, event: &Value) -> String {
    if envelope["is_ext_shared_channel"] == true {
        return NO_TEAM.to_owned();
    }
    let authorization = &envelope["authorizations"][0];
    let named = [
        &envelope["enterprise_id"],
        &envelope["context_enterprise_id"],
        &authorization["enterprise_id"],
        &envelope["team_id"],
        &event["team"],
        &authorization["team_id"],
    ];
    named.into_iter().find_map(text).unwrap_or_else(|| NO_TEAM.to_owned())
}

fn file(value: &Value) -> Option<File> {
    // A label of which nothing is seen is none.
    let label = |value: &Value| {
        let label: String = text(value)?.chars().take(MAX_LABEL_CHARS).map(shown).collect();
        (!label.trim().is_empty()).then_some(label)
    };
    Some(File {
        id: text(&value["id"])?,
        name: label(&value["name"]).or_else(|| label(&value["title"])),
        mimetype: label(&value["mimetype"]).or_else(|| label(&value["filetype"])),
        size: value["size"].as_u64(),
    })
}

/// A character of a name, as a reply shows it. A name cannot begin a new line or turn the direction of the text, which would
/// disguise its ending.
pub(crate) fn shown(character: char) -> char {
    let turns =
        matches!(character, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let breaks = character.is_control() || matches!(character, '\u{2028}' | '\u{2029}');
    if turns || breaks { ' ' } else { character }
}

/// The body with `\ufffd` in place of every half of a surrogate pair. `None`: it has no such half.
fn without_half_pairs(body: &[u8]) -> Option<Vec<u8>> {
    let unit = |at: usize| {
        let digits = body.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let (mut mended, mut at, mut changed) = (body.to_vec(), 0, false);
    while let Some(found) = body[at..].iter().position(|byte| *byte == b'\\') {
        at += found;
        match (unit(at), unit(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => at += 12,
            (Some(0xd800..=0xdfff), _) => {
                mended[at + 2..at + 6].copy_from_slice(b"fffd");
                changed = true;
                at += 6;
            }
            // The next byte is escaped, and may be a backslash itself.
            _ => at = (at + 2).min(body.len()),
        }
    }
    changed.then_some(mended)
}

/// A text that is not empty.
fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of(escaped: &str) -> Option<String> {
        let body = format!(
            r#"{{"type":"event_callback","event_id":"Ev1","event":{{"type":"message","subtype":"file_share","channel":"C1","ts":"1.0","files":[{{"id":"F1","name":"{escaped}"}}]}}}}"#
        );
        match read(body.as_bytes(), &Own { bot_id: "B1".into(), user_id: "U1".into() }) {
            Ok(Received::Upload(upload)) => upload.files[0].name.clone(),
            other => panic!("{escaped}: {other:?}"),
        }
    }

    #[test]
    fn half_of_an_emoji_in_a_name_does_not_lose_the_file() {
        let cases = [
            (r"a\ud83d.pdf", "a\u{fffd}.pdf"),
            (r"a\ude00.pdf", "a\u{fffd}.pdf"),
            (r"\ud83d\ud83d\ude00", "\u{fffd}\u{1f600}"),
            (r"\ud83d\n\ud83d", "\u{fffd} \u{fffd}"),
            (r"\\ud83d\ud83d", "\\ud83d\u{fffd}"),
            (r"\ud83d\ude00", "\u{1f600}"),
        ];
        for (escaped, name) in cases {
            assert_eq!(name_of(escaped).as_deref(), Some(name), "{escaped}");
        }
    }

    #[test]
    fn a_name_stays_on_its_line_and_keeps_its_direction() {
        assert_eq!(name_of(r"a.pdf\nReceived b.pdf\u2028c").as_deref(), Some("a.pdf Received b.pdf c"));
        assert_eq!(name_of(r"rtl\u202egnp.exe\u2066\u001b[31m").as_deref(), Some("rtl gnp.exe  [31m"));
    }

    #[test]
    fn a_name_of_which_nothing_is_seen_is_none() {
        for blank in ["   ", r"\u0007\u001b", r" \n\t\u202e"] {
            assert_eq!(name_of(blank), None, "{blank}");
        }
        let named = file(&serde_json::json!({"id": "F1", "name": " ", "title": "Report"})).and_then(|file| file.name);
        assert_eq!(named.as_deref(), Some("Report"));
    }

    #[test]
    fn what_is_no_envelope_says_why() {
        let read = |body: &str| read(body.as_bytes(), &Own { bot_id: "B".into(), user_id: "U".into() });
        let why = |body: &str| read(body).unwrap_err().to_string();
        assert_eq!(why("[]"), "the body is JSON, but not an object");
        assert!(why("{\"a\":").starts_with("the body is not JSON: "), "{}", why("{\"a\":"));
        assert!(why(r#"{"a":"\ud83d"#).starts_with("the body is not JSON: "));
    }

    #[test]
    fn a_timestamp_is_a_moment() {
        let posted_at = |ts: &str| {
            let upload = Upload {
                event_key: "Ev1".into(),
                team: "T1".into(),
                channel: "C1".into(),
                ts: ts.into(),
                thread_ts: None,
                app: None,
                user: None,
                files: Vec::new(),
                handed_over: None,
            };
            upload.posted_at()
        };
        assert_eq!(posted_at("1700000000.000100"), Some(Timestamp::from_secs(1_700_000_000)));
        assert_eq!(posted_at("1700000000"), Some(Timestamp::from_secs(1_700_000_000)));
        assert_eq!(posted_at("yesterday"), None);
    }
}
