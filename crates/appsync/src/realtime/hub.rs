//! What connects the mutations of an API with its subscribers.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::ws::Utf8Bytes;
use tokio::sync::{Notify, mpsc, watch};

use super::plan::Plan;
use super::publish::{Event, dispatch};
use super::register::Register;
use crate::api::Inner;
use crate::limits::PUBLISH_QUEUE;
use crate::lock::lock;

/// Tells one listener from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ConnectionId(u64);

/// A WebSocket, or a [`Subscription`](super::Subscription) in this process.
#[derive(Clone)]
pub(super) struct Listener {
    pub(super) connection: ConnectionId,
    pub(super) queue: mpsc::Sender<Outgoing>,
    /// Notified when the queue is full: the reader is too slow.
    pub(super) overflow: Arc<Notify>,
}

/// What a listener is told.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// A message in the realtime protocol.
    Text(Utf8Bytes),
    /// An invalidation ended the subscription with this id.
    Ended(String),
}

/// The subscriptions of an API, and the way to them.
#[derive(Default)]
pub(crate) struct Hub {
    /// This is a plain mutex because it is held only for lookups and for filling queues, never across an await.
    pub(super) register: Mutex<Register>,
    /// To the task that serves the groups. The first publication starts that task.
    queue: Mutex<Option<mpsc::Sender<Event>>>,
    pub(super) connections: AtomicUsize,
    /// Tells the WebSockets to end.
    pub(super) closing: watch::Sender<()>,
    /// The next [`ConnectionId`].
    next: AtomicU64,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("connections", &self.connections).finish_non_exhaustive()
    }
}

impl Hub {
    /// Whether a field of the subscription type has subscribers.
    pub(crate) fn has_subscribers(&self, field: &str) -> bool {
        lock(&self.register).has(field)
    }

    /// How many sockets are open.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Ends the WebSockets that are open.
    pub(crate) fn close(&self) {
        self.closing.send_replace(());
    }

    /// How many subscriptions there are.
    pub(crate) fn subscriptions(&self) -> usize {
        lock(&self.register).len()
    }

    pub(super) fn listener(&self, capacity: usize) -> (Listener, mpsc::Receiver<Outgoing>) {
        let (queue, receiver) = mpsc::channel(capacity);
        let connection = ConnectionId(self.next.fetch_add(1, Ordering::Relaxed));
        (Listener { connection, queue, overflow: Arc::new(Notify::new()) }, receiver)
    }

    pub(super) fn add(&self, id: &str, plan: Plan, listener: &Listener) {
        lock(&self.register).add(id, plan, listener);
    }

    /// Removes all subscriptions of a listener.
    pub(super) fn leave(&self, connection: ConnectionId) {
        lock(&self.register).leave(connection);
    }

    /// Removes one subscription of a listener.
    pub(super) fn unsubscribe(&self, connection: ConnectionId, id: &str) {
        lock(&self.register).unsubscribe(connection, id);
    }

    /// The queue of the task that serves the groups. Starts the task if it does not run.
    pub(super) fn queue(&self, api: &Arc<Inner>) -> mpsc::Sender<Event> {
        let mut queue = lock(&self.queue);
        if let Some(queue) = queue.as_ref().filter(|queue| !queue.is_closed()) {
            return queue.clone();
        }
        let (sender, receiver) = mpsc::channel(PUBLISH_QUEUE);
        tokio::spawn(dispatch(Arc::downgrade(api), receiver));
        *queue = Some(sender.clone());
        sender
    }
}
