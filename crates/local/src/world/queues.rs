//! The parts of SQS that on-failure queues need: send, receive with a visibility timeout, delete, count.
//!
//! A message is on disk before its sender gets an answer. It stays until it is deleted or its queue's retention is over.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use template::Queue;

use crate::platform::clock::now_ms;
use crate::platform::journal::{self, Journal};

/// The default visibility timeout of SQS.
const VISIBILITY: Duration = Duration::from_secs(30);

/// A message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Message {
    pub queue: String,
    pub id: String,
    pub body: String,
    /// What the sender says about the body, by name.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
    pub sent_ms: u64,
    #[serde(skip)]
    pub received: u32,
    #[serde(skip)]
    pub first_received_ms: u64,
    #[serde(skip)]
    pub visible_ms: u64,
    #[serde(skip)]
    pub receipt: String,
}

#[derive(Serialize, Deserialize)]
enum Record {
    Sent(Message),
    Deleted(String),
}

/// All queues.
#[derive(Debug)]
pub(crate) struct Queues {
    queues: BTreeMap<String, Duration>,
    journal: Journal,
    messages: Mutex<Vec<Message>>,
}

impl Queues {
    /// Opens the queues with their messages.
    pub(crate) fn open(path: Option<&Path>, queues: impl IntoIterator<Item = Queue>) -> Result<Self, journal::Error> {
        let still_there = |records: Vec<Record>| {
            let mut messages: Vec<Message> = Vec::new();
            for record in records {
                match record {
                    Record::Sent(message) => messages.push(message),
                    Record::Deleted(id) => messages.retain(|message| message.id != id),
                }
            }
            (messages.clone(), messages.into_iter().map(Record::Sent).collect())
        };
        let (journal, messages) = Journal::open(path, still_there)?;
        let queues = queues.into_iter().map(|queue| (queue.name, queue.retention)).collect();
        Ok(Self { queues, journal, messages: Mutex::new(messages) })
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.queues.keys().map(String::as_str)
    }

    pub(crate) fn has(&self, queue: &str) -> bool {
        self.queues.contains_key(queue)
    }

    pub(crate) fn retention(&self, queue: &str) -> Option<Duration> {
        self.queues.get(queue).copied()
    }

    /// Adds a message. When this has returned, the message is kept.
    pub(crate) fn send(
        &self,
        queue: &str,
        body: String,
        attributes: BTreeMap<String, String>,
    ) -> Result<String, journal::Error> {
        let id = uuid::Uuid::new_v4().to_string();
        let message = Message {
            queue: queue.to_owned(),
            id: id.clone(),
            body,
            attributes,
            sent_ms: now_ms(),
            received: 0,
            first_received_ms: 0,
            visible_ms: 0,
            receipt: String::new(),
        };
        let mut messages = self.lock();
        self.journal.append(&Record::Sent(message.clone()))?;
        messages.push(message);
        Ok(id)
    }

    /// Takes up to `most` visible messages. They are invisible to others for `visibility`.
    pub(crate) fn receive(&self, queue: &str, most: usize, visibility: Option<Duration>) -> Vec<Message> {
        let now = now_ms();
        let held = ichido::whole_millis(visibility.unwrap_or(VISIBILITY));
        let mut messages = self.lock();
        self.expire(&mut messages, now);
        let free = messages.iter_mut().filter(|message| message.queue == queue && message.visible_ms <= now);
        free.take(most)
            .map(|message| {
                message.received += 1;
                message.visible_ms = now.saturating_add(held);
                message.receipt = uuid::Uuid::new_v4().to_string();
                if message.first_received_ms == 0 {
                    message.first_received_ms = now;
                }
                message.clone()
            })
            .collect()
    }

    /// Deletes the message of a receipt. As in SQS, an old receipt is not an error.
    pub(crate) fn delete(&self, queue: &str, receipt: &str) -> Result<(), journal::Error> {
        let mut messages = self.lock();
        let found = messages
            .iter()
            .position(|message| message.queue == queue && message.receipt == receipt && !receipt.is_empty());
        if let Some(at) = found {
            self.journal.append(&Record::Deleted(messages[at].id.clone()))?;
            messages.remove(at);
        }
        Ok(())
    }

    /// Makes a received message visible again after `visibility` from now.
    pub(crate) fn hold(&self, queue: &str, receipt: &str, visibility: Duration) {
        let until = now_ms().saturating_add(ichido::whole_millis(visibility));
        for message in self.lock().iter_mut() {
            if message.queue == queue && message.receipt == receipt {
                message.visible_ms = until;
            }
        }
    }

    /// Deletes all messages of a queue.
    pub(crate) fn purge(&self, queue: &str) -> Result<(), journal::Error> {
        let mut messages = self.lock();
        for message in messages.iter().filter(|message| message.queue == queue) {
            self.journal.append(&Record::Deleted(message.id.clone()))?;
        }
        messages.retain(|message| message.queue != queue);
        Ok(())
    }

    /// All messages, oldest first. Reading them here hides them from nobody.
    pub(crate) fn peek(&self) -> Vec<Message> {
        let mut messages = self.lock();
        self.expire(&mut messages, now_ms());
        messages.clone()
    }

    /// Deletes a message by its id; false if it is gone.
    pub(crate) fn remove(&self, id: &str) -> Result<bool, journal::Error> {
        let mut messages = self.lock();
        let Some(at) = messages.iter().position(|message| message.id == id) else { return Ok(false) };
        self.journal.append(&Record::Deleted(id.to_owned()))?;
        messages.remove(at);
        Ok(true)
    }

    /// How many messages are visible, and how many were received and are invisible.
    pub(crate) fn count(&self, queue: &str) -> (usize, usize) {
        let now = now_ms();
        let mut messages = self.lock();
        self.expire(&mut messages, now);
        let of_queue = messages.iter().filter(|message| message.queue == queue);
        let (free, held): (Vec<_>, Vec<_>) = of_queue.partition(|message| message.visible_ms <= now);
        (free.len(), held.len())
    }

    fn expire(&self, messages: &mut Vec<Message>, now: u64) {
        messages.retain(|message| {
            let kept = self.queues.get(&message.queue).map_or(u64::MAX, |kept| ichido::whole_millis(*kept));
            message.sent_ms.saturating_add(kept) > now
        });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Message>> {
        telemetry::lock(&self.messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue {
        Queue { logical_id: "Q".into(), name: "q".into(), retention: Duration::from_secs(60) }
    }

    #[test]
    fn a_message_is_there_until_it_is_deleted_also_after_a_restart() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("messages.jsonl");
        let messages = Queues::open(Some(&path), [queue()]).expect("queues");
        messages.send("q", "one".into(), BTreeMap::new()).expect("sent");
        messages.send("q", "two".into(), BTreeMap::new()).expect("sent");
        let held = messages.receive("q", 1, None);
        assert_eq!(held[0].body, "one");
        assert_eq!(messages.count("q"), (1, 1));
        messages.delete("q", &held[0].receipt).expect("deleted");
        let messages = Queues::open(Some(&path), [queue()]).expect("queues");
        let left: Vec<String> = messages.receive("q", 10, None).into_iter().map(|message| message.body).collect();
        assert_eq!(left, ["two"]);
    }

    #[test]
    fn a_held_message_is_free_again_after_its_time_with_another_receipt() {
        let messages = Queues::open(None, [queue()]).expect("queues");
        messages.send("q", "one".into(), BTreeMap::new()).expect("sent");
        let first = messages.receive("q", 1, Some(Duration::ZERO));
        let again = messages.receive("q", 1, Some(Duration::from_secs(60)));
        assert_eq!(again[0].received, 2);
        assert!(messages.receive("q", 1, None).is_empty());
        messages.delete("q", &first[0].receipt).expect("an old receipt is no error");
        assert_eq!(messages.count("q"), (0, 1));
    }
}
