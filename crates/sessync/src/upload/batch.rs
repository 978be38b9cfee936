//! Step 3: from lines to rows, and from rows to batches.
//!
//! A row gets its batch's columns (`upload_batch_id`, `uploaded_at`) only when the request is built, because it can
//! be sent in another batch than the one it was first put into.

use bytes::Bytes;
use serde_json::Value;

use crate::clock::Time;
use crate::outside::bigquery::{AFTER_ROWS, BEFORE_ROWS};
use crate::redact::{Counts, Redactor, quoted};
use crate::source::line::{Key, Line};

/// A larger row is set aside: BigQuery does not accept it.
pub(super) const MAX_ROW_BYTES: usize = 9 * 1024 * 1024;
/// The size of a request, which stays under BigQuery's 10 MB.
const MAX_REQUEST_BYTES: usize = 9 * 1024 * 1024;
/// BigQuery accepts no longer `insertId`.
const MAX_INSERT_ID: usize = 128;

/// What every row of a run says about where it comes from.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    pub developer_id: String,
    pub hostname: String,
    pub user_email: String,
    pub project_name: String,
}

/// A row that is complete except for its batch.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) key: Key,
    pub(crate) uuid: String,
    /// `None`: BigQuery must not recognise a repetition.
    insert_id: Option<String>,
    pub(crate) time: Option<Time>,
    pub(crate) source_file: String,
    /// A JSON object without its closing brace.
    open: String,
}

/// How BigQuery is to recognise a row that it gets twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Identity {
    Uuid,
    /// There are rows with the same uuid and other content.
    UuidAndContent,
    None,
}

impl Row {
    /// The row of a line, without its secrets.
    pub(super) fn new(
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
        put("timestamp", Some(text(&line.timestamp)));
        put("session_id", Some(text(&line.session_id)));
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
        // Thousands of rows are in memory at once.
        open.shrink_to_fit();
        Row {
            key,
            insert_id: insert_id(&line.uuid, key, identity),
            uuid: line.uuid.clone().into_owned(),
            time: Time::parse(&line.timestamp),
            source_file: source_file.to_owned(),
            open,
        }
    }

    /// Changes how BigQuery is to recognise it.
    pub(super) fn identify(&mut self, identity: Identity) {
        self.insert_id = insert_id(&self.uuid, self.key, identity);
    }

    /// How many bytes it adds to a request.
    pub(crate) fn bytes(&self) -> usize {
        // 320: the batch's columns, the insertId and the commas around them.
        self.open.len() + 320
    }

    /// Adds the row to a request's list of rows.
    fn write(&self, batch: &str, at: Time, to: &mut String) {
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

    /// The row's columns, for the dead letters.
    pub(crate) fn columns(&self, batch: &str, at: Time) -> Value {
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
    // A uuid can be any string. If it is too long, its key takes its place.
    Some(if id.len() <= MAX_INSERT_ID { id } else { format!("{:032x}", key.0) })
}

/// The batch that is being filled.
#[derive(Debug)]
pub(super) struct OpenBatch {
    rows: Vec<Row>,
    bytes: usize,
    max_rows: usize,
}

impl OpenBatch {
    pub(super) fn new(max_rows: usize) -> Self {
        OpenBatch { rows: Vec::new(), bytes: 0, max_rows }
    }

    /// Takes a row, or gives it back because it does not fit any more.
    pub(super) fn offer(&mut self, row: Row) -> Option<Row> {
        if self.rows.len() >= self.max_rows || self.bytes + row.bytes() > MAX_REQUEST_BYTES {
            return Some(row);
        }
        self.bytes += row.bytes();
        self.rows.push(row);
        None
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The batch, under its id. This one is empty afterwards.
    pub(super) fn seal(&mut self, id: String, at: Time) -> Batch {
        self.bytes = 0;
        Batch { id, at, rows: std::mem::take(&mut self.rows) }
    }
}

/// Rows that are sent together.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    pub(crate) id: String,
    pub(crate) at: Time,
    pub(crate) rows: Vec<Row>,
}

impl Batch {
    pub(crate) fn keys(&self) -> Vec<Key> {
        self.rows.iter().map(|row| row.key).collect()
    }

    /// The halves of the keys that come from the uuids.
    pub(super) fn uuids(&self) -> Vec<u64> {
        self.rows.iter().map(|row| row.key.uuid()).collect()
    }

    pub(super) fn bytes(&self) -> usize {
        self.rows.iter().map(Row::bytes).sum()
    }

    /// The timestamps of the earliest and the latest row. `None`: one of the rows has none.
    pub(super) fn span(&self) -> Option<(Time, Time)> {
        let mut span: Option<(Time, Time)> = None;
        for row in &self.rows {
            let time = row.time?;
            span = Some(span.map_or((time, time), |(from, to)| (from.min(time), to.max(time))));
        }
        span
    }

    /// Which rows are not among these.
    pub(super) fn others(&self, these: &[usize]) -> Vec<usize> {
        (0..self.rows.len()).filter(|row| !these.contains(row)).collect()
    }

    /// The request that inserts the rows.
    pub(super) fn request(&self) -> Bytes {
        let mut text = String::with_capacity(BEFORE_ROWS.len() + self.bytes() + AFTER_ROWS.len());
        text.push_str(BEFORE_ROWS);
        for (at, row) in self.rows.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            row.write(&self.id, self.at, &mut text);
        }
        text.push_str(AFTER_ROWS);
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bytes: usize) -> Row {
        Row {
            key: Key::new(1, 100),
            uuid: "u".to_owned(),
            insert_id: None,
            time: None,
            source_file: "a.jsonl".to_owned(),
            open: "x".repeat(bytes),
        }
    }

    #[test]
    fn a_row_that_does_not_fit_is_given_back_and_goes_into_the_next_batch() {
        let mut by_rows = OpenBatch::new(2);
        assert!(by_rows.offer(row(1)).is_none());
        assert!(by_rows.offer(row(1)).is_none());
        let left = by_rows.offer(row(1)).unwrap();
        assert_eq!(by_rows.seal("b".to_owned(), Time(0)).rows.len(), 2);
        assert!(by_rows.is_empty() && by_rows.offer(left).is_none());

        let mut by_bytes = OpenBatch::new(usize::MAX);
        assert!(by_bytes.offer(row(MAX_REQUEST_BYTES - 1000)).is_none());
        assert!(by_bytes.offer(row(1000)).is_some());
    }
}
