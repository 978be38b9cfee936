//! What Slack sent: an envelope of the Events API, read for what matters to us.
//!
//! Promise: any JSON object is read; fields and event types that are unknown, and fields of another type than
//! expected, never fail. Only a body that is no JSON object, or a challenge without a challenge, is an [`Error`].
//!
//! A file event is a `message` with subtype `file_share`. `file_shared`, which Slack sends beside it, has no message
//! timestamp and cannot be replied to: it is [`Ignored`], like everything else.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest name or type of a file that is passed on, in characters; the rest is cut off.
pub const MAX_LABEL_CHARS: usize = 255;
/// Stands for the team where an envelope names none.
const NO_TEAM: &str = "-";

/// Why a body cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the body is not a JSON object")]
    NotAnObject,
    #[error("the request asks for a challenge and has none")]
    NoChallenge,
}

/// Who we are: uploads of ours are not handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// `B…`
    pub bot_id: String,
    /// `U…`
    pub user_id: String,
}

/// What came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// Slack asks whether this address is ours; it wants this text back.
    Challenge(String),
    /// Files to be handled.
    Upload(Upload),
    /// Nothing for us.
    Ignored(Ignored),
}

/// Why something is acknowledged and not handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// Not a file event.
    Other,
    /// `file_shared`: its `message` comes too.
    FileShared,
    /// Our own upload.
    Own,
    /// A file event that lacks its channel, its timestamp or its files.
    Incomplete,
}

impl Ignored {
    /// The word for it in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Other => "not a file event",
            Self::FileShared => "file_shared accompanies the message",
            Self::Own => "our own upload",
            Self::Incomplete => "incomplete file event",
        }
    }
}

/// One message with files: what the door hands over. Unknown fields are ignored, so that a version may be rolled back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upload {
    /// The envelope's `event_id`, or `{file}_{ts}` where it has none.
    pub event_key: String,
    pub team: String,
    pub channel: String,
    /// The message's timestamp, which is its id within the channel.
    pub ts: String,
    /// The thread in which the message stands, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_ts: Option<String>,
    /// Our app's id: tells our replies from those of another installation in the same channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Who uploaded it; bots have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    pub files: Vec<File>,
}

impl Upload {
    /// The message that begins the thread which a reply belongs to.
    pub fn thread(&self) -> &str {
        self.thread_ts.as_deref().unwrap_or(&self.ts)
    }
}

/// One file of an upload. Slack leaves out what it does not want to tell (shared channels): only the id is certain.
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
    let envelope: Value = serde_json::from_slice(body).map_err(|_| Error::NotAnObject)?;
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
    Ok(received.map_or_else(Received::Ignored, Received::Upload))
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
    })
}

/// The workspace; an installation for a whole organisation may name that instead.
fn team(envelope: &Value, event: &Value) -> String {
    let authorization = &envelope["authorizations"][0];
    let named = [
        &envelope["team_id"],
        &event["team"],
        &authorization["team_id"],
        &envelope["enterprise_id"],
        &authorization["enterprise_id"],
    ];
    named.into_iter().find_map(text).unwrap_or_else(|| NO_TEAM.to_owned())
}

fn file(value: &Value) -> Option<File> {
    let label = |value: &Value| text(value).map(|label| label.chars().take(MAX_LABEL_CHARS).collect::<String>());
    Some(File {
        id: text(&value["id"])?,
        name: label(&value["name"]).or_else(|| label(&value["title"])),
        mimetype: label(&value["mimetype"]).or_else(|| label(&value["filetype"])),
        size: value["size"].as_u64(),
    })
}

/// A text that says something.
fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}
