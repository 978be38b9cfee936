//! From a line to a row of the destination.
//!
//! The batch's own columns (`upload_batch_id`, `uploaded_at`) are put in when a request is built, because the
//! same row may be sent in another batch than the one it was first put into.

use serde_json::Value;

use crate::clock::Time;
use crate::digest::Key;
use crate::line::Line;
use crate::redact::{Counts, Redactor, quoted};

/// BigQuery takes no larger row.
pub const MAX_ROW_BYTES: usize = 9 * 1024 * 1024;

/// BigQuery takes no longer `insertId`.
const MAX_INSERT_ID: usize = 128;

/// What every row of a run has in common.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    pub developer_id: String,
    pub hostname: String,
    pub user_email: String,
    pub project_name: String,
}

/// A row that is ready but for its batch.
#[derive(Debug, Clone)]
pub struct Row {
    pub key: Key,
    pub uuid: String,
    /// `None`: BigQuery is not to recognise it.
    pub insert_id: Option<String>,
    pub time: Option<Time>,
    pub source_file: String,
    /// A JSON object without its closing brace.
    open: String,
}

/// How BigQuery is to recognise a row that it is sent twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    Uuid,
    /// The uuid has other content too.
    UuidAndContent,
    None,
}

impl Row {
    /// The row of a line, without its secrets.
    pub fn new(
        line: &Line<'_>,
        key: Key,
        identity: Identity,
        source_file: &str,
        origin: &Origin,
        redactor: &Redactor,
        counts: &mut Counts,
    ) -> Row {
        let mut text = |value: &str| quoted(&redactor.text(value, counts));
        let mut open = String::with_capacity(512 + line.message.map_or(0, |json| json.len() * 5 / 4));
        let mut put = |name: &str, value: Option<String>| {
            open.push(if open.is_empty() { '{' } else { ',' });
            open.push('"');
            open.push_str(name);
            open.push_str("\":");
            open.push_str(value.as_deref().unwrap_or("null"));
        };
        put("uuid", Some(quoted(&line.uuid)));
        put("timestamp", Some(quoted(&line.timestamp)));
        put("session_id", Some(quoted(&line.session_id)));
        put("agent_id", line.agent_id.as_deref().map(&mut text));
        put("is_sidechain", line.is_sidechain.map(|value| value.to_string()));
        put("parent_uuid", line.parent_uuid.as_deref().map(&mut text));
        put("user_type", line.user_type.as_deref().map(&mut text));
        put("type", Some(text(&line.kind)));
        put("slug", line.slug.as_deref().map(&mut text));
        put("request_id", line.request_id.as_deref().map(&mut text));
        put("cwd", line.cwd.as_deref().map(&mut text));
        put("git_branch", line.git_branch.as_deref().map(&mut text));
        put("version", line.version.as_deref().map(&mut text));
        // insertAll takes a JSON column as a string that holds the JSON.
        let mut json = |value: Option<&str>| value.map(|json| quoted(&redactor.json(json, counts)));
        put("message", json(line.message));
        put("tool_use_result", json(line.tool_use_result));
        put("developer_id", Some(quoted(&origin.developer_id)));
        put("hostname", Some(quoted(&origin.hostname)));
        put("user_email", Some(quoted(&origin.user_email)));
        put("project_name", Some(quoted(&origin.project_name)));
        put("source_file", Some(quoted(source_file)));
        Row {
            key,
            insert_id: insert_id(&line.uuid, key, identity),
            uuid: line.uuid.clone().into_owned(),
            time: Time::parse(&line.timestamp),
            source_file: source_file.to_owned(),
            open,
        }
    }

    /// How many bytes it adds to a request.
    pub fn bytes(&self) -> usize {
        // The batch's columns, the insertId and the commas around them.
        self.open.len() + 320
    }

    /// Adds the row to a request's list of rows.
    pub fn write(&self, batch: &str, at: Time, to: &mut String) {
        to.push('{');
        if let Some(id) = &self.insert_id {
            to.push_str("\"insertId\":");
            to.push_str(&quoted(id));
            to.push(',');
        }
        to.push_str("\"json\":");
        self.write_columns(batch, at, to);
        to.push('}');
    }

    /// The row with its columns, for the dead letters.
    pub fn columns(&self, batch: &str, at: Time) -> Value {
        let mut text = String::new();
        self.write_columns(batch, at, &mut text);
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    fn write_columns(&self, batch: &str, at: Time, to: &mut String) {
        to.push_str(&self.open);
        to.push_str(",\"upload_batch_id\":");
        to.push_str(&quoted(batch));
        to.push_str(",\"uploaded_at\":\"");
        to.push_str(&at.to_string());
        to.push_str("\"}");
    }
}

fn insert_id(uuid: &str, key: Key, identity: Identity) -> Option<String> {
    let id = match identity {
        Identity::None => return None,
        Identity::Uuid => uuid.to_owned(),
        Identity::UuidAndContent => format!("{uuid}-{:016x}", key.content()),
    };
    // A uuid may be any string; one that is too long is told apart by its key.
    Some(if id.len() <= MAX_INSERT_ID { id } else { format!("{:032x}", key.0) })
}
