//! Brings the answers to mutations to their subscribers.

use std::sync::{Arc, Weak};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::filter;
use super::hub::Outgoing;
use crate::api::Inner;
use crate::engine::Invalidation;
use crate::execute::Publication;
use crate::limits::MAX_SUBSCRIPTION_PAYLOAD;
use crate::lock::lock;

/// What a mutation did that concerns subscribers.
pub(super) enum Event {
    Publish(Publication),
    Invalidate(Invalidation),
}

/// Hands what a mutation did to the task that serves subscribers. It waits only if [`PUBLISH_QUEUE`] publications wait already.
///
/// [`PUBLISH_QUEUE`]: crate::limits::PUBLISH_QUEUE
pub(crate) async fn publish(api: &Arc<Inner>, publications: Vec<Publication>, invalidations: Vec<Invalidation>) {
    if publications.is_empty() && invalidations.is_empty() {
        return;
    }
    let queue = api.hub.queue(api);
    let events = publications.into_iter().map(Event::Publish).chain(invalidations.into_iter().map(Event::Invalidate));
    for event in events {
        // The task ends only together with the API, and then nobody listens any more.
        let _ = queue.send(event).await;
    }
}

/// Serves subscribers until the API is dropped.
pub(super) async fn dispatch(api: Weak<Inner>, mut events: mpsc::Receiver<Event>) {
    while let Some(event) = events.recv().await {
        let Some(api) = api.upgrade() else { return };
        match event {
            Event::Publish(publication) => deliver(&api, &publication),
            Event::Invalidate(invalidation) => invalidate(&api, &invalidation),
        }
    }
}

fn deliver(api: &Inner, publication: &Publication) {
    let mut slow = Vec::new();
    {
        let register = lock(&api.hub.register);
        for group in register.wanting(&publication.subscription, &publication.data) {
            let payload = group.plan.payload(api, &publication.data);
            for ((_, id), listener) in &group.members {
                let id = Value::String(id.clone());
                let text = if let Some(payload) = &payload {
                    format!("{{\"id\":{id},\"type\":\"data\",\"payload\":{payload}}}")
                } else {
                    let message = format!("The message is larger than {MAX_SUBSCRIPTION_PAYLOAD} bytes.");
                    json!({"id": id, "type": "error", "payload": {"errors": [{"errorType": "PayloadSizeLimitExceeded", "message": message}]}})
                        .to_string()
                };
                if let Err(mpsc::error::TrySendError::Full(_)) = listener.queue.try_send(Outgoing::Text(text.into())) {
                    listener.overflow.notify_one();
                    slow.push(listener.connection);
                }
            }
        }
    }
    for connection in slow {
        api.hub.leave(connection);
    }
}

fn invalidate(api: &Inner, invalidation: &Invalidation) {
    let data = filter::plain_object(&invalidation.payload);
    let ended = lock(&api.hub.register).end(&invalidation.subscription_field, |plan| {
        plan.invalidation.as_ref().is_some_and(|filter| filter.matches(&data))
    });
    for (id, listener) in ended {
        let _ = listener.queue.try_send(Outgoing::Ended(id));
    }
}
