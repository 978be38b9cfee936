//! Subscriptions in this process.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{Notify, mpsc};

use super::hub::{ConnectionId, Outgoing};
use super::plan::Plan;
use crate::api::Inner;
use crate::response::Error;

/// Why a subscription was refused: what a WebSocket client would have got instead of `start_ack`.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the subscription was refused: {}", errors.first().map_or("no reason given", |error| error.message.as_str()))]
pub struct SubscribeError {
    /// The reasons.
    pub errors: Vec<Error>,
}

/// A subscription in this process, for programs that embed an API and for tests.
#[derive(Debug)]
pub struct Subscription {
    api: Arc<Inner>,
    connection: ConnectionId,
    receiver: mpsc::Receiver<Outgoing>,
    overflow: Arc<Notify>,
}

impl Subscription {
    pub(crate) fn start(api: &Arc<Inner>, plan: Plan) -> Self {
        let (listener, receiver) = api.hub.listener(api.limits.send_queue);
        api.hub.add("in-process", plan, &listener);
        Self {
            api: Arc::clone(api),
            connection: listener.connection,
            receiver,
            overflow: Arc::clone(&listener.overflow),
        }
    }

    /// The next message (`{"data": …}`). `None` once the subscription has ended.
    pub async fn next(&mut self) -> Option<Value> {
        tokio::select! {
            biased;
            message = self.receiver.recv() => match message? {
                Outgoing::Text(text) => {
                    let message: Value = serde_json::from_str(text.as_str()).ok()?;
                    message.get("payload").cloned()
                }
                Outgoing::Ended(_) => None,
            },
            () = self.overflow.notified() => None,
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.api.hub.leave(self.connection);
    }
}
