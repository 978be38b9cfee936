//! Stand-ins for outside APIs, one file each, and what they have in common.
//!
//! A [`StandIn`] has a name, answers requests, and marks the answers that had an effect. [`serve`] does the rest: it applies
//! the faults and writes the outbox before the answer is sent. A stand-in is reached at `/standins/NAME`. At the start it gets
//! its accepted requests back, so that it remembers what it accepted before a restart.

pub(crate) mod bigquery;
pub(crate) mod mastodon;
pub(crate) mod pushover;
pub(crate) mod sample_feeds;
pub mod slack;
pub(crate) mod webhook;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use function::BoxFuture;
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Map, Value, json};

use crate::world::faults::{Faults, Mode};
use crate::world::live::Live;
use crate::world::outbox::{Entry, Outbox};

/// How long the fault `hang` keeps a caller waiting.
const HANG: Duration = Duration::from_secs(300);

/// An outside API.
pub trait StandIn: Send + Sync + 'static {
    /// Its name in the outbox and among the faults: `slack`.
    fn name(&self) -> &'static str;

    /// Other paths at which it is reached, for clients whose path cannot be configured: `/bigquery/v2`.
    fn mounts(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Whether this request asks for an effect. If it is refused, the outbox lists it only with `?all=1`.
    fn asks_for_effect(&self, request: &Request) -> bool;

    /// Answers a request. A stand-in with state has its own lock.
    fn answer(&self, request: Request) -> BoxFuture<'_, Answer>;

    /// A refusal with this status, in the words of the real API.
    fn refusal(&self, status: u16) -> Answer {
        Answer::json(status, json!({"error": "refused by a fault switch"}))
    }

    /// Restores its state from the requests that it accepted before a restart, oldest first.
    fn restore(&self, accepted: &[Entry]);
}

/// A request as a stand-in sees it.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    /// The path below the mount, still encoded: `/api/chat.postMessage`.
    pub path: String,
    /// Decoded.
    pub query: Vec<(String, String)>,
    pub headers: HeaderMap,
    /// The body as an object, from JSON or a form; otherwise `{}`.
    pub body: Value,
    /// The body as it came.
    pub raw: Bytes,
    /// When it arrived, in epoch milliseconds.
    pub now_ms: u64,
}

impl Request {
    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The token of `Authorization: Bearer …`.
    pub fn bearer(&self) -> Option<&str> {
        self.header("authorization")?.strip_prefix("Bearer ").map(str::trim)
    }

    /// A parameter from the query or, if it is not there, from the body.
    pub fn parameter(&self, name: &str) -> Option<String> {
        if let Some((_, value)) = self.query.iter().find(|(known, _)| known == name) {
            return Some(value.clone());
        }
        match &self.body[name] {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    /// The decoded parts of the path.
    pub fn segments(&self) -> Vec<String> {
        function::http::segments(&self.path)
    }
}

/// What a stand-in answers.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub content_type: &'static str,
    pub body: Bytes,
    /// Present if the request was accepted and had an effect: what to remember besides the request.
    pub effect: Option<Value>,
}

impl Answer {
    /// An answer in JSON, without an effect.
    pub fn json(status: u16, body: Value) -> Self {
        Self {
            status,
            headers: Vec::new(),
            content_type: "application/json; charset=utf-8",
            body: body.to_string().into(),
            effect: None,
        }
    }

    /// An answer with another kind of body, without an effect.
    pub fn of(status: u16, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { status, headers: Vec::new(), content_type, body: body.into(), effect: None }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Says that the request had an effect. [`StandIn::restore`] gets `note` back.
    #[must_use]
    pub fn with_effect(mut self, note: Value) -> Self {
        self.effect = Some(note);
        self
    }
}

/// Marks a response that must not arrive. The listener closes the connection instead.
#[derive(Clone, Copy, Debug)]
pub struct LoseAnswer;

/// All stand-ins by name.
#[derive(Clone, Default)]
pub struct StandIns(BTreeMap<&'static str, Arc<dyn StandIn>>);

impl std::fmt::Debug for StandIns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl StandIns {
    /// All stand-ins of the tenants. Of several with the same name, only the last is kept.
    pub fn new(modules: impl IntoIterator<Item = Arc<dyn StandIn>>) -> Self {
        Self(modules.into_iter().map(|module| (module.name(), module)).collect())
    }

    pub fn names(&self) -> Vec<&'static str> {
        self.0.keys().copied().collect()
    }

    /// Gives every stand-in its accepted requests back.
    pub fn restore(&self, outbox: &Outbox) {
        for (name, module) in &self.0 {
            module.restore(&outbox.list(Some(name), false));
        }
    }

    /// The stand-in that answers a path, and the path below its mount.
    pub fn find<'a>(&self, path: &'a str) -> Option<(Arc<dyn StandIn>, &'a str)> {
        if let Some(rest) = path.strip_prefix("/standins/") {
            let (name, below) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            return self.0.get(name).map(|module| (module.clone(), if below.is_empty() { "/" } else { below }));
        }
        // A mount of its own is part of the real API's path, so the stand-in sees the whole path.
        let mounted = |module: &&Arc<dyn StandIn>| {
            let below =
                |mount: &&str| path.strip_prefix(*mount).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            module.mounts().iter().any(below)
        };
        self.0.values().find(mounted).map(|module| (module.clone(), path))
    }
}

/// Lets a stand-in answer a request, with its faults, the outbox and the live events.
pub async fn serve(
    module: Arc<dyn StandIn>,
    request: Request,
    faults: &Faults,
    outbox: &Outbox,
    live: &Live,
) -> Response {
    let name = module.name();
    let fault = faults.strike(name);
    let (path, body) = (request.path.clone(), request.body.clone());
    let asks = module.asks_for_effect(&request);
    let answer = match fault.as_ref().map(|fault| fault.mode) {
        Some(Mode::Refuse) => module.refusal(fault.as_ref().map_or(503, |fault| fault.status)),
        Some(Mode::Hang) => {
            live.tell("hang", json!({"sink": name, "path": path}));
            tokio::time::sleep(HANG).await;
            return (StatusCode::GATEWAY_TIMEOUT, "").into_response();
        }
        Some(Mode::Slow) => {
            tokio::time::sleep(Duration::from_millis(fault.as_ref().map_or(0, |fault| fault.ms))).await;
            module.answer(request).await
        }
        Some(Mode::AcceptThenLose) | None => module.answer(request).await,
    };
    let lost = fault.as_ref().is_some_and(|fault| fault.mode == Mode::AcceptThenLose);
    if asks || answer.effect.is_some() {
        let accepted = answer.effect.is_some();
        let note = answer.effect.clone().unwrap_or_default();
        // A repeat that the stand-in recognised is neither accepted again nor refused, so it is not listed.
        let repeat = !accepted && answer.status < 300 && is_ok(&answer);
        if !repeat {
            match outbox.add(name, &path, body, answer.status, accepted, note) {
                Ok(entry) => live.tell(
                    "outbox",
                    json!({"sink": name, "path": path, "request": preview(&entry.request), "status": answer.status, "accepted": accepted, "lost": lost}),
                ),
                Err(error) => {
                    tracing::error!(stand_in = name, path, error = %error, "could not write {name}'s request to the outbox");
                    return (StatusCode::INTERNAL_SERVER_ERROR, "could not write the outbox").into_response();
                }
            }
        }
    }
    let mut response = Response::builder().status(answer.status).header("content-type", answer.content_type);
    for (name, value) in &answer.headers {
        response = response.header(*name, value);
    }
    let mut response = response
        .body(axum::body::Body::from(answer.body))
        .unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response());
    if lost {
        response.extensions_mut().insert(LoseAnswer);
    }
    response
}

/// False for a refusal of Slack, which has status 200 and says `ok: false`.
fn is_ok(answer: &Answer) -> bool {
    serde_json::from_slice::<Value>(&answer.body).map_or(true, |body| body["ok"] != false)
}

/// A request as the console shows it: a large one is cut.
fn preview(request: &Value) -> Value {
    const SHOWN: usize = 4_096;
    let text = request.to_string();
    if text.len() <= SHOWN {
        return request.clone();
    }
    json!({"bytes": text.len(), "start": text.chars().take(200).collect::<String>()})
}

/// A text as HTML or XML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Reads a body as an object: JSON, or a form.
pub fn read_body(headers: &HeaderMap, raw: &[u8]) -> Value {
    let kind = headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.starts_with("application/x-www-form-urlencoded") {
        let text = String::from_utf8_lossy(raw);
        let pairs = url::form_urlencoded::parse(text.as_bytes());
        return Value::Object(
            pairs.map(|(name, value)| (name.into_owned(), Value::from(value.into_owned()))).collect::<Map<_, _>>(),
        );
    }
    if kind.starts_with("multipart/form-data") {
        return multipart(kind, raw);
    }
    match serde_json::from_slice(raw) {
        Ok(value @ Value::Object(_)) => value,
        Ok(other) => json!({"value": other}),
        Err(_) => json!({}),
    }
}

/// The fields of a multipart form as text.
fn multipart(kind: &str, raw: &[u8]) -> Value {
    let Some((_, boundary)) = kind.split_once("boundary=") else { return json!({}) };
    let boundary = format!("--{}", boundary.trim_matches('"'));
    let text = String::from_utf8_lossy(raw);
    let mut fields = Map::new();
    for part in text.split(boundary.as_str()) {
        let Some((head, body)) = part.split_once("\r\n\r\n") else { continue };
        let Some((_, name)) = head.split_once("name=\"") else { continue };
        let name = name.split('"').next().unwrap_or_default();
        fields.insert(name.to_owned(), Value::from(body.trim_end_matches("\r\n")));
    }
    Value::Object(fields)
}
