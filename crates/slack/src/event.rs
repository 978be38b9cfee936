//! What Slack sent: an envelope of the Events API.
//!
//! Promise: every JSON object can be read. Unknown fields and event types, and fields of an unexpected type, never fail. Only
//! a body that is not a JSON object, or a request for a challenge that has no challenge, is an [`Error`].
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
    #[error("the body is not a JSON object")]
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
    let label = |value: &Value| text(value).map(|label| label.chars().take(MAX_LABEL_CHARS).collect::<String>());
    Some(File {
        id: text(&value["id"])?,
        name: label(&value["name"]).or_else(|| label(&value["title"])),
        mimetype: label(&value["mimetype"]).or_else(|| label(&value["filetype"])),
        size: value["size"].as_u64(),
    })
}

/// A text that is not empty.
fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            };
            upload.posted_at()
        };
        assert_eq!(posted_at("1700000000.000100"), Some(Timestamp::from_secs(1_700_000_000)));
        assert_eq!(posted_at("1700000000"), Some(Timestamp::from_secs(1_700_000_000)));
        assert_eq!(posted_at("yesterday"), None);
    }
}
