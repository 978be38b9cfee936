//! One WebSocket and AppSync's realtime protocol on it.
//!
//! | the client sends | it gets |
//! |---|---|
//! | `connection_init` | `connection_ack`, then `ka` at regular intervals |
//! | `start` | `start_ack`, then `data` for every message |
//! | `stop` | `complete` |
//! | something that is refused | `error` or `connection_error`, with the reason |
//!
//! A client that leaves more than [`Limits::send_queue`] messages unread gets an error and is disconnected.
//!
//! [`Limits::send_queue`]: crate::limits::Limits::send_queue

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::Hub;
use super::hub::{Listener, Outgoing};
use super::plan::plan;
use crate::api::Inner;
use crate::auth::{self, Caller};
use crate::limits::{CLOSE_TIME, CONNECTION_TIMEOUT, MAX_CLIENT_MESSAGE};
use crate::response::Error;

/// How long a client without a valid credential may take for its first message.
const STRANGER_TIME: Duration = Duration::from_secs(10);
/// The longest id of a subscription.
const MAX_ID: usize = 128;

#[derive(Deserialize)]
struct Incoming {
    #[serde(rename = "type")]
    kind: Option<String>,
    id: Option<String>,
    payload: Option<Value>,
}

#[derive(Deserialize)]
struct Operation {
    query: Option<String>,
    variables: Option<Map<String, Value>>,
    #[serde(rename = "operationName")]
    operation_name: Option<String>,
}

/// Why a conversation ended.
enum Ended {
    /// The client left, or cannot be reached.
    Gone,
    /// The client is told the reason, then the WebSocket is closed.
    Closed { last: Value, code: u16, reason: &'static str },
}

/// Counts a WebSocket while it is open.
struct Counted<'a>(&'a Hub);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Hub {
    /// Counts a WebSocket. `None` if `most` are open already.
    fn count(&self, most: usize) -> Option<Counted<'_>> {
        let open = self.connections.fetch_add(1, Ordering::Relaxed);
        let counted = Counted(self);
        (open < most).then_some(counted)
    }
}

/// Talks to a client until one side ends the conversation.
pub(crate) async fn serve(api: Arc<Inner>, mut socket: WebSocket, caller: Caller) {
    let Some(_counted) = api.hub.count(api.limits.connections) else {
        let last = connection_error("LimitExceededError", "Too many connections.");
        close(&mut socket, &last, 4429, "LimitExceededError").await;
        return;
    };
    let (listener, queue) = api.hub.listener(api.limits.send_queue);
    let mut conversation = Conversation { api: &api, caller, listener, ids: HashSet::new(), greeted: false };
    let ended = conversation.run(&mut socket, queue).await;
    // The subscriptions end first, so that no message follows the reason.
    api.hub.leave(conversation.listener.connection);
    if let Ended::Closed { last, code, reason } = ended {
        close(&mut socket, &last, code, reason).await;
    }
}

/// The answers to a client's messages, without a WebSocket. The conversation ends as [`serve`] ends it, or after the last message.
pub(crate) async fn converse(api: &Arc<Inner>, messages: &[&str], caller: Caller) -> Vec<Value> {
    let (listener, _queue) = api.hub.listener(api.limits.send_queue);
    let mut conversation = Conversation { api, caller, listener, ids: HashSet::new(), greeted: false };
    let mut answers = Vec::new();
    for message in messages {
        match conversation.receive(message).await {
            Ok(more) => answers.extend(more),
            Err(Ended::Closed { last, .. }) => {
                answers.push(last);
                break;
            }
            Err(Ended::Gone) => break,
        }
    }
    api.hub.leave(conversation.listener.connection);
    answers
}

async fn close(socket: &mut WebSocket, last: &Value, code: u16, reason: &'static str) {
    let farewell = async {
        let _ = socket.send(Message::Text(last.to_string().into())).await;
        let _ = socket.send(Message::Close(Some(CloseFrame { code, reason: Utf8Bytes::from_static(reason) }))).await;
    };
    // A client that does not read must not keep the WebSocket open.
    let _ = tokio::time::timeout(CLOSE_TIME, farewell).await;
}

fn connection_error(error_type: &str, message: &str) -> Value {
    json!({"type": "connection_error", "payload": {"errors": [{"errorType": error_type, "message": message}]}})
}

fn error(id: Option<&str>, errors: &[Value]) -> Value {
    let mut out = json!({"type": "error", "payload": {"errors": errors}});
    if let Some(id) = id {
        out["id"] = json!(id);
    }
    out
}

fn described(errors: &[Error]) -> Vec<Value> {
    errors
        .iter()
        .map(|error| {
            let mut out =
                json!({"errorType": error.error_type().unwrap_or("ValidationError"), "message": error.message});
            if let Some(info) = error.raised.as_ref().map(|raised| &raised.error_info).filter(|info| !info.is_null()) {
                out["errorInfo"] = info.clone();
            }
            out
        })
        .collect()
}

struct Conversation<'a> {
    api: &'a Arc<Inner>,
    caller: Caller,
    listener: Listener,
    ids: HashSet<String>,
    /// Whether the client has sent anything yet. Keep-alives start after the first answer.
    greeted: bool,
}

impl Conversation<'_> {
    async fn run(&mut self, socket: &mut WebSocket, mut queue: mpsc::Receiver<Outgoing>) -> Ended {
        if let Err(error) = self.api.gate.accept(&self.caller, self.api.host.now_ms()) {
            // As on AppSync, the client gets the error after its first message. It must send that soon.
            let _ = tokio::time::timeout(STRANGER_TIME, socket.recv()).await;
            return refused(&error);
        }
        let every = self.api.limits.keep_alive;
        let mut keep_alive = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
        keep_alive.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let overflow = Arc::clone(&self.listener.overflow);
        let mut closing = self.api.hub.closing.subscribe();
        loop {
            let answers = tokio::select! {
                biased;
                () = overflow.notified() => return slow(),
                _ = closing.changed() => {
                    let last = connection_error("ServiceRestart", "The API was replaced. Please connect again.");
                    return Ended::Closed { last, code: 1012, reason: "ServiceRestart" };
                }
                message = queue.recv() => match message {
                    Some(Outgoing::Text(text)) => vec![text],
                    Some(Outgoing::Ended(id)) => {
                        self.ids.remove(&id);
                        vec![json!({"type": "complete", "id": id}).to_string().into()]
                    }
                    None => return Ended::Gone,
                },
                message = socket.recv() => match message {
                    Some(Ok(Message::Text(text))) => match self.receive(text.as_str()).await {
                        Ok(answers) => answers.into_iter().map(|answer| answer.to_string().into()).collect(),
                        Err(ended) => return ended,
                    },
                    Some(Ok(Message::Binary(_))) => {
                        let last = error(None, &[json!({"errorType": "UnsupportedOperation", "message": "Binary messages are not supported"})]);
                        return Ended::Closed { last, code: 1003, reason: "UnsupportedOperation" };
                    }
                    // The WebSocket library answers pings.
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                    Some(Ok(Message::Close(_))) | None => return Ended::Gone,
                    Some(Err(_)) => return Ended::Gone,
                },
                _ = keep_alive.tick(), if self.greeted => vec![Utf8Bytes::from_static("{\"type\":\"ka\"}")],
            };
            for answer in answers {
                // A client that has stopped reading blocks this send. `overflow` ends the wait once its queue is full.
                tokio::select! {
                    biased;
                    sent = socket.send(Message::Text(answer)) => if sent.is_err() { return Ended::Gone },
                    () = overflow.notified() => return slow(),
                }
            }
        }
    }

    /// Handles one message. Returns the answers.
    async fn receive(&mut self, text: &str) -> Result<Vec<Value>, Ended> {
        self.greeted = true;
        if text.len() > MAX_CLIENT_MESSAGE {
            return Ok(vec![error(
                None,
                &[json!({"errorType": "MessageTooLarge", "message": "The message is too large"})],
            )]);
        }
        let Ok(message) = serde_json::from_str::<Incoming>(text) else {
            return Ok(vec![error(
                None,
                &[
                    json!({"errorType": "BadRequestException", "errorCode": 400, "message": "The message is not JSON in the form of the protocol"}),
                ],
            )]);
        };
        match message.kind.as_deref() {
            Some("connection_init") => self.init(),
            Some("start") => Ok(self.start(message.id, message.payload).await),
            Some("stop") => Ok(self.stop(message.id)),
            Some("connection_terminate") => Err(Ended::Gone),
            other => {
                let kind = other.unwrap_or("unknown");
                let text = format!("{kind} not supported through the realtime channel");
                let unsupported = json!({"errorType": "UnsupportedOperation", "errorCode": 400, "message": text});
                Ok(vec![error(message.id.as_deref(), &[unsupported])])
            }
        }
    }

    fn init(&self) -> Result<Vec<Value>, Ended> {
        match self.api.gate.accept(&self.caller, self.api.host.now_ms()) {
            Ok(_) => {
                let timeout = u64::try_from(CONNECTION_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
                Ok(vec![
                    json!({"type": "connection_ack", "payload": {"connectionTimeoutMs": timeout}}),
                    json!({"type": "ka"}),
                ])
            }
            // The key has expired since the connection was opened.
            Err(error) => Err(refused(&error)),
        }
    }

    async fn start(&mut self, id: Option<String>, payload: Option<Value>) -> Vec<Value> {
        let refuse = |id: Option<&str>, error_type: &str, message: &str| {
            vec![error(id, &[json!({"errorType": error_type, "message": message})])]
        };
        let Some(id) = id.filter(|id| !id.is_empty() && id.len() <= MAX_ID) else {
            return refuse(None, "BadRequestException", "A subscription needs an id of 1 to 128 characters");
        };
        if self.ids.contains(&id) {
            return refuse(
                Some(&id),
                "DuplicatedOperationError",
                "This connection already has a subscription with this id",
            );
        }
        if self.ids.len() >= self.api.limits.subscriptions {
            return refuse(
                Some(&id),
                "MaxSubscriptionsReachedError",
                &format!("Max number of {} subscriptions reached", self.api.limits.subscriptions),
            );
        }
        let payload = payload.unwrap_or(Value::Null);
        let operation =
            payload.get("data").and_then(Value::as_str).and_then(|data| serde_json::from_str::<Operation>(data).ok());
        let Some(Operation { query: Some(query), variables, operation_name }) = operation else {
            return refuse(Some(&id), "BadRequestException", "payload.data must be JSON text with a query");
        };
        let caller = self.caller_of(payload.pointer("/extensions/authorization"));
        match plan(self.api, &query, &variables.unwrap_or_default(), operation_name.as_deref(), &caller).await {
            Ok(plan) => {
                self.api.hub.add(&id, plan, &self.listener);
                self.ids.insert(id.clone());
                vec![json!({"type": "start_ack", "id": id})]
            }
            Err(errors) => vec![error(Some(&id), &described(&errors))],
        }
    }

    /// The caller of a subscription. It may have its own authorisation; otherwise it has that of the connection.
    fn caller_of(&self, authorization: Option<&Value>) -> Caller {
        let Some(Value::Object(given)) = authorization else { return self.caller.clone() };
        let mut headers: BTreeMap<String, String> = self.caller.headers.clone();
        headers.remove("x-api-key");
        headers.remove("authorization");
        for (name, value) in given {
            if let Some(value) = value.as_str() {
                headers.insert(name.to_ascii_lowercase(), value.to_owned());
            }
        }
        Caller { source_ip: self.caller.source_ip.clone(), ..Caller::from_headers(headers) }
    }

    fn stop(&mut self, id: Option<String>) -> Vec<Value> {
        let id = id.unwrap_or_default();
        if !self.ids.remove(&id) {
            return vec![error(
                Some(&id),
                &[
                    json!({"errorType": "UnknownOperationError", "message": "This connection has no subscription with this id"}),
                ],
            )];
        }
        self.api.hub.unsubscribe(self.listener.connection, &id);
        vec![json!({"type": "complete", "id": id})]
    }
}

fn refused(error: &auth::Error) -> Ended {
    let code = if *error == auth::Error::Missing { 4400 } else { 4401 };
    Ended::Closed { last: connection_error(error.error_type(), &error.to_string()), code, reason: "Unauthorized" }
}

fn slow() -> Ended {
    let last = error(
        None,
        &[
            json!({"errorType": "SlowConsumer", "message": "The client did not read its messages in time, so the connection is closed"}),
        ],
    );
    Ended::Closed { last, code: 4408, reason: "SlowConsumer" }
}
