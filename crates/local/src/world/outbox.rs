//! The outbox: every request with an effect that a stand-in received.
//!
//! An entry is on disk before the stand-in answers, so it is still there after kill -9. Stand-ins rebuild their state from
//! the outbox.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::platform::clock::{now_ms, rfc3339};
use crate::platform::journal::{self, Journal};

/// How many entries are kept, and how many bytes of requests. Beyond that the oldest are dropped.
const KEPT: usize = 20_000;
const KEPT_BYTES: usize = 256 * 1024 * 1024;

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub id: u64,
    /// RFC 3339.
    pub at: String,
    /// `slack`, `mastodon`, …
    pub sink: String,
    /// The path below the stand-in's mount: `/api/chat.postMessage`.
    pub path: String,
    /// The body as an object.
    pub request: Value,
    /// The HTTP status of the answer, whether or not it arrived.
    pub status: u16,
    /// False if the request was refused.
    pub accepted: bool,
    /// What the stand-in must remember besides the request: the id that it gave, an idempotency key.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub note: Value,
}

impl Entry {
    /// What `/_local/outbox` shows.
    pub fn public(&self) -> Value {
        json!({"id": self.id, "at": self.at, "sink": self.sink, "request": self.request, "status": self.status})
    }
}

/// All entries.
#[derive(Debug)]
pub struct Outbox {
    journal: Journal,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    /// Oldest first, with their sizes.
    list: VecDeque<(Entry, usize)>,
    bytes: usize,
}

impl Entries {
    fn push(&mut self, entry: Entry) {
        let size = entry.request.to_string().len();
        self.bytes += size;
        self.list.push_back((entry, size));
        while self.list.len() > KEPT || self.bytes > KEPT_BYTES {
            let Some((_, size)) = self.list.pop_front() else { break };
            self.bytes -= size;
        }
    }
}

impl Outbox {
    /// Opens the outbox with the kept entries.
    pub fn open(path: Option<&Path>) -> Result<Self, journal::Error> {
        let last = |all: Vec<Entry>| {
            let mut entries = Entries { next: all.last().map_or(0, |entry| entry.id), ..Entries::default() };
            for entry in all {
                entries.push(entry);
            }
            let kept = entries.list.iter().map(|(entry, _)| entry.clone()).collect();
            (entries, kept)
        };
        let (journal, entries) = Journal::open(path, last)?;
        Ok(Self { journal, entries: Mutex::new(entries) })
    }

    /// Adds an entry. When this has returned, the entry is kept.
    pub fn add(
        &self,
        sink: &str,
        path: &str,
        request: Value,
        status: u16,
        accepted: bool,
        note: Value,
    ) -> Result<Entry, journal::Error> {
        let mut entries = self.lock();
        entries.next += 1;
        let entry = Entry {
            id: entries.next,
            at: rfc3339(now_ms()),
            sink: sink.to_owned(),
            path: path.to_owned(),
            request,
            status,
            accepted,
            note,
        };
        self.journal.append(&entry)?;
        entries.push(entry.clone());
        Ok(entry)
    }

    /// The entries of one stand-in or of all, oldest first.
    pub fn list(&self, sink: Option<&str>, refused_too: bool) -> Vec<Entry> {
        let entries = self.lock();
        let wanted = |entry: &&Entry| (refused_too || entry.accepted) && sink.is_none_or(|sink| entry.sink == sink);
        entries.list.iter().map(|(entry, _)| entry).filter(wanted).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        telemetry::lock(&self.entries)
    }
}
