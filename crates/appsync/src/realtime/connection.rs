//! One socket and the protocol on it, message by message.
//!
//! `connection_init` → `connection_ack`; `start` → `start_ack`, then `data`; `stop` → `complete`;
//! `ka` now and then. What is refused gets an `error` (or `connection_error`) that says why. A
//! reader that leaves more than [`Limits::send_queue`] messages unread is told so and dropped.
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

use super::{Hub, Out, Outbox, plan};
use crate::api::Inner;
use crate::auth::{self, Caller};
use crate::limits::{CLOSE_TIME, CONNECTION_TIMEOUT, MAX_CLIENT_MESSAGE};
use crate::response::Error;

/// How long someone without a good credential may take for a first message.
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

/// Why a conversation is over.
enum Over {
    /// The client left, or cannot be reached.
    Gone,
    /// It is told why and closed.
    Refused { last: Value, code: u16, reason: &'static str },
}

/// Counts a socket while it is open.
struct Seat<'a>(&'a Hub);

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Hub {
    fn seat(&self, most: usize) -> Option<Seat<'_>> {
        let taken = self.connections.fetch_add(1, Ordering::Relaxed);
        let seat = Seat(self);
        (taken < most).then_some(seat)
    }
}

/// Talks to a client until one side has enough.
pub(crate) async fn serve(api: Arc<Inner>, mut socket: WebSocket, caller: Caller) {
    let Some(_seat) = api.hub.seat(api.limits.connections) else {
        let last = connection_error("LimitExceededError", "Too many connections.");
        close(&mut socket, &last, 4429, "LimitExceededError").await;
        return;
    };
    let (outbox, queue) = api.hub.outbox(api.limits.send_queue);
    let mut conversation = Conversation { api: &api, caller, outbox, ids: HashSet::new(), greeted: false };
    let over = conversation.run(&mut socket, queue).await;
    // First of all nobody sends here any more, then the client is told.
    api.hub.leave(conversation.outbox.connection);
    if let Over::Refused { last, code, reason } = over {
        close(&mut socket, &last, code, reason).await;
    }
}

async fn close(socket: &mut WebSocket, last: &Value, code: u16, reason: &'static str) {
    let farewell = async {
        let _ = socket.send(Message::Text(last.to_string().into())).await;
        let _ = socket.send(Message::Close(Some(CloseFrame { code, reason: Utf8Bytes::from_static(reason) }))).await;
    };
    // A reader that does not read does not get to hold the socket either.
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
    outbox: Outbox,
    ids: HashSet<String>,
    /// Whether the client has said anything yet: keep-alives come after the first answer.
    greeted: bool,
}

impl Conversation<'_> {
    async fn run(&mut self, socket: &mut WebSocket, mut queue: mpsc::Receiver<Out>) -> Over {
        if let Err(refusal) = self.api.gate.accept(&self.caller, self.api.host.now_ms()) {
            // Told with its first message, whatever that is, as AppSync does; not kept for long without one.
            let _ = tokio::time::timeout(STRANGER_TIME, socket.recv()).await;
            return refused(&refusal);
        }
        let every = self.api.limits.keep_alive;
        let mut keep_alive = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
        keep_alive.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let overflow = Arc::clone(&self.outbox.overflow);
        loop {
            let answers = tokio::select! {
                biased;
                () = overflow.notified() => return slow(),
                message = queue.recv() => match message {
                    Some(Out::Text(text)) => vec![text],
                    Some(Out::Ended(id)) => {
                        self.ids.remove(&id);
                        vec![json!({"type": "complete", "id": id}).to_string().into()]
                    }
                    None => return Over::Gone,
                },
                message = socket.recv() => match message {
                    Some(Ok(Message::Text(text))) => match self.receive(text.as_str()).await {
                        Ok(answers) => answers.into_iter().map(|answer| answer.to_string().into()).collect(),
                        Err(over) => return over,
                    },
                    Some(Ok(Message::Binary(_))) => {
                        let last = error(None, &[json!({"errorType": "UnsupportedOperation", "message": "Binary messages are not supported"})]);
                        return Over::Refused { last, code: 1003, reason: "UnsupportedOperation" };
                    }
                    // The library answers pings by itself.
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                    Some(Ok(Message::Close(_))) | None => return Over::Gone,
                    Some(Err(_)) => return Over::Gone,
                },
                _ = keep_alive.tick(), if self.greeted => vec![Utf8Bytes::from_static("{\"type\":\"ka\"}")],
            };
            for answer in answers {
                // A reader that has stopped reading blocks this send; what fills its queue wakes us.
                tokio::select! {
                    biased;
                    sent = socket.send(Message::Text(answer)) => if sent.is_err() { return Over::Gone },
                    () = overflow.notified() => return slow(),
                }
            }
        }
    }

    /// Answers one message.
    async fn receive(&mut self, text: &str) -> Result<Vec<Value>, Over> {
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
                    json!({"errorType": "BadRequestException", "errorCode": 400, "message": "The message is not JSON of the protocol"}),
                ],
            )]);
        };
        match message.kind.as_deref() {
            Some("connection_init") => self.init(),
            Some("start") => Ok(self.start(message.id, message.payload).await),
            Some("stop") => Ok(self.stop(message.id)),
            Some("connection_terminate") => Err(Over::Gone),
            other => {
                let kind = other.unwrap_or("unknown");
                let text = format!("{kind} not supported through the realtime channel");
                let refusal = json!({"errorType": "UnsupportedOperation", "errorCode": 400, "message": text});
                Ok(vec![error(message.id.as_deref(), &[refusal])])
            }
        }
    }

    fn init(&self) -> Result<Vec<Value>, Over> {
        match self.api.gate.accept(&self.caller, self.api.host.now_ms()) {
            Ok(_) => {
                let timeout = u64::try_from(CONNECTION_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
                Ok(vec![
                    json!({"type": "connection_ack", "payload": {"connectionTimeoutMs": timeout}}),
                    json!({"type": "ka"}),
                ])
            }
            // The key has expired in the meantime.
            Err(refusal) => Err(refused(&refusal)),
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
                "There is a subscription with this id on this connection",
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
                self.api.hub.add(&id, plan, &self.outbox);
                self.ids.insert(id.clone());
                vec![json!({"type": "start_ack", "id": id})]
            }
            Err(errors) => vec![error(Some(&id), &described(&errors))],
        }
    }

    /// Each subscription may bring its own authorisation; without one it has the connection's.
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
                    json!({"errorType": "UnknownOperationError", "message": "There is no subscription with this id on this connection"}),
                ],
            )];
        }
        self.api.hub.unsubscribe(self.outbox.connection, &id);
        vec![json!({"type": "complete", "id": id})]
    }
}

fn refused(refusal: &auth::Error) -> Over {
    let code = if *refusal == auth::Error::Missing { 4400 } else { 4401 };
    Over::Refused { last: connection_error(refusal.error_type(), &refusal.to_string()), code, reason: "Unauthorized" }
}

fn slow() -> Over {
    let last = error(
        None,
        &[json!({"errorType": "SlowConsumer", "message": "Messages were not read in time; the connection is closed"})],
    );
    Over::Refused { last, code: 4408, reason: "SlowConsumer" }
}
