//! What is happening now: the console's stream of events, and the last log lines of the functions and of the mesh API.
//!
//! Both are bounded. A reader of the stream that falls too far behind misses the oldest events, and the stream says how many.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::platform::clock::{now_ms, rfc3339};

/// Past events that are kept for a console that connects.
const KEPT_EVENTS: usize = 500;
/// How many events a slow reader may be behind.
const BEHIND: usize = 1_024;
/// Bytes of log lines that are kept for `/_local/log` and `FilterLogEvents`.
const KEPT_LOG_BYTES: usize = 4 * 1024 * 1024;

/// Something that happened.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    pub id: u64,
    /// RFC 3339.
    pub at: String,
    /// `request`, `invocation`, `decision`, `outbox`, `hang`, `dead-letter`, `schedule`, `faults`, `alarm`, `log`, or a
    /// tenant's own kind.
    pub kind: &'static str,
    #[serde(flatten)]
    pub what: Value,
}

/// The stream and the log lines.
#[derive(Debug)]
pub struct Live {
    kept: Mutex<Kept>,
    sender: broadcast::Sender<Event>,
}

#[derive(Debug, Default)]
struct Kept {
    next: u64,
    events: VecDeque<Event>,
    lines: VecDeque<Line>,
    next_line: u64,
    line_bytes: usize,
}

/// The log group of a function is this and its name.
pub(crate) const LAMBDA_LOGS: &str = "/aws/lambda/";

/// A log line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its number, from 1.
    pub id: u64,
    /// When it was written, in epoch milliseconds.
    pub at_ms: u64,
    pub group: String,
    pub text: String,
}

impl Default for Live {
    fn default() -> Self {
        Self { kept: Mutex::default(), sender: broadcast::channel(BEHIND).0 }
    }
}

impl Live {
    /// Sends an event to every reader; `what` is an object.
    pub fn tell(&self, kind: &'static str, what: Value) {
        let mut kept = self.lock();
        kept.next += 1;
        let event = Event { id: kept.next, at: rfc3339(now_ms()), kind, what };
        if kept.events.len() == KEPT_EVENTS {
            kept.events.pop_front();
        }
        kept.events.push_back(event.clone());
        // Sent under the lock, so that readers see ids in order. An error means that nobody listens.
        let _ = self.sender.send(event);
    }

    /// The kept events after an id, and a receiver for all later ones. No event between the two is missed.
    pub fn follow(&self, after: u64) -> (Vec<Event>, broadcast::Receiver<Event>) {
        let kept = self.lock();
        // A larger id is from before a restart, when ids were counted anew.
        let after = if after > kept.next { 0 } else { after };
        let past = kept.events.iter().filter(|event| event.id > after).cloned().collect();
        (past, self.sender.subscribe())
    }

    /// Keeps a log line of a group. Decisions of the library, warnings and errors of functions also become events.
    pub fn line(&self, group: &str, line: &str, read: &Value) {
        {
            let mut kept = self.lock();
            kept.line_bytes += line.len();
            kept.next_line += 1;
            let id = kept.next_line;
            kept.lines.push_back(Line { id, at_ms: now_ms(), group: group.to_owned(), text: line.to_owned() });
            while kept.line_bytes > KEPT_LOG_BYTES {
                let Some(oldest) = kept.lines.pop_front() else { break };
                kept.line_bytes -= oldest.text.len();
            }
        }
        let of = |name: &str| read[name].clone();
        if let (Some(key), Some(_)) = (read["eventKey"].as_str(), read["result"].as_str()) {
            self.tell(
                "decision",
                json!({
                    "key": key, "result": of("result"), "reason": of("reason"), "function": of("function"),
                    "fallback": of("fallbackMode"), "traceId": of("traceId"),
                }),
            );
        } else if matches!(read["level"].as_str(), Some("WARN" | "ERROR")) {
            self.tell(
                "log",
                json!({
                    "level": of("level"), "message": of("message"), "error": of("error"), "function": of("function"),
                    "key": of("eventKey"), "traceId": of("traceId"),
                }),
            );
        }
    }

    /// The log lines that contain `text`, oldest first.
    pub fn lines(&self, text: &str) -> Vec<Value> {
        let kept = self.lock();
        let matching = kept.lines.iter().filter(|line| line.text.contains(text));
        matching.filter_map(|line| serde_json::from_str(&line.text).ok()).collect()
    }

    /// The first `most` log lines that match, oldest first.
    pub fn find_lines(&self, matches: impl Fn(&Line) -> bool, most: usize) -> Vec<Line> {
        self.lock().lines.iter().filter(|line| matches(line)).take(most).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        telemetry::lock(&self.kept)
    }
}
