//! What is happening now: the console's stream of events, its rates, and the last log lines of the functions and of the mesh API.
//!
//! All are bounded. A reader of the stream that falls too far behind misses the oldest events, and the stream says how many.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::platform::clock::{now_ms, rfc3339};
use crate::world::rates::Rates;

/// Past events that are kept for a console that connects.
const KEPT_EVENTS: usize = 500;
/// How many events a slow reader may be behind.
const BEHIND: usize = 1_024;
/// Bytes of log lines that are kept for `/_local/log` and `FilterLogEvents`.
const KEPT_LOG_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of lines with numbers that are kept for Logs Insights.
const KEPT_NUMBER_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of lines about keys that are kept for the lives of keys.
const KEPT_KEY_BYTES: usize = 16 * 1024 * 1024;

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
    rates: Rates,
}

#[derive(Debug, Default)]
struct Kept {
    next: u64,
    events: VecDeque<Event>,
    lines: VecDeque<Line>,
    next_line: u64,
    line_bytes: usize,
    /// Lines with the numbers of an invocation. On AWS they are in the same log; here they are kept apart, so that whoever
    /// reads the log is not shown them.
    numbers: VecDeque<Line>,
    number_bytes: usize,
    /// Lines that name a key, oldest first.
    about_keys: VecDeque<AboutKey>,
    key_bytes: usize,
    /// Lines about keys were removed to make room. Of which keys is not known any more.
    forgot_keys: bool,
}

#[derive(Debug)]
struct AboutKey {
    key: String,
    request: String,
    text: String,
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
        Self { kept: Mutex::default(), sender: broadcast::channel(BEHIND).0, rates: Rates::default() }
    }
}

impl Live {
    /// Sends an event to every reader; `what` is an object.
    pub fn tell(&self, kind: &'static str, what: Value) {
        self.rates.event(kind, &what);
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

    /// The last minutes.
    pub(crate) fn rates(&self) -> &Rates {
        &self.rates
    }

    /// Keeps a line of the library's observer, or any other that names a key, for the life of that key.
    pub(crate) fn about_key(&self, line: &str, read: &Value) {
        self.rates.line(read);
        let Some(key) = read["eventKey"].as_str() else { return };
        let request = read["requestId"].as_str().unwrap_or_default().to_owned();
        let mut kept = self.lock();
        kept.key_bytes += line.len();
        kept.about_keys.push_back(AboutKey { key: key.to_owned(), request, text: line.to_owned() });
        while kept.key_bytes > KEPT_KEY_BYTES {
            let Some(oldest) = kept.about_keys.pop_front() else { break };
            kept.key_bytes -= oldest.text.len();
            kept.forgot_keys = true;
        }
    }

    /// The lines about a key, oldest first.
    pub(crate) fn lines_of_key(&self, key: &str) -> Vec<Value> {
        let kept = self.lock();
        let of_key = kept.about_keys.iter().filter(|line| line.key == key);
        of_key.filter_map(|line| serde_json::from_str(&line.text).ok()).collect()
    }

    /// Are all lines about keys kept? If not, some of the oldest are missing.
    pub(crate) fn has_all_lines(&self) -> bool {
        !self.lock().forgot_keys
    }

    /// The lines about keys of an invocation, oldest first.
    pub(crate) fn lines_of_request(&self, request: &str) -> Vec<Value> {
        let kept = self.lock();
        let of_request = kept.about_keys.iter().filter(|line| line.request == request);
        of_request.filter_map(|line| serde_json::from_str(&line.text).ok()).collect()
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
                    "key": key, "namespace": of("namespace"), "result": of("result"), "reason": of("reason"), "function": of("function"),
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

    /// Keeps a line with the numbers of an invocation, for Logs Insights.
    pub(crate) fn numbers(&self, group: String, line: &str) {
        let mut kept = self.lock();
        kept.number_bytes += line.len();
        kept.numbers.push_back(Line { id: 0, at_ms: now_ms(), group, text: line.to_owned() });
        while kept.number_bytes > KEPT_NUMBER_BYTES {
            let Some(oldest) = kept.numbers.pop_front() else { break };
            kept.number_bytes -= oldest.text.len();
        }
    }

    /// The lines with numbers that match, oldest first.
    pub(crate) fn find_numbers(&self, matches: impl Fn(&Line) -> bool) -> Vec<Line> {
        self.lock().numbers.iter().filter(|line| matches(line)).cloned().collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_that_lines_about_keys_were_removed() {
        let live = Live::default();
        let line = json!({"eventKey": "Ev1", "moment": "decided", "timestamp": "2026-11-17T12:00:00.000Z"});
        live.about_key(&line.to_string(), &line);
        assert_eq!((live.lines_of_key("Ev1").len(), live.has_all_lines()), (1, true));
        let long = json!({"eventKey": "Ev2", "message": "m".repeat(KEPT_KEY_BYTES)});
        live.about_key(&long.to_string(), &long);
        assert_eq!((live.lines_of_key("Ev1").len(), live.has_all_lines()), (0, false));
    }
}
