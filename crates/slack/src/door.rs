//! `slack-events`: the door. Verifies, reads, and hands file events over, each once.
//!
//! Promise: nothing is lost here. An event is acknowledged (200) only when its hand-over was accepted, by this call or
//! by an earlier one; otherwise the answer is an error, and Slack's repeat gets through. An answer comes within
//! [`ANSWER_WITHIN`], always. What is not Slack's (401) or cannot be read (400) never touches the store.
//!
//! `X-Slack-Retry-Num` and `-Reason` are measured, never used to drop: a repeat may be the first that arrives.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use function::http::{Request, Response};
use function::{Aws, Env, Handler};
use futures::future::{Either, select};
use ichido::dynamodb::DynamoDb;
use ichido::{Clock, Failure, How, Namespace, Once, SystemClock, Timestamp};
use serde_json::json;
use telemetry::metric;

use crate::config::{self, Fallback};
use crate::describe;
use crate::event::{self, Own, Received, Upload};
use crate::hand_over::{self, HandOver, Invocation};
use crate::records::{self, Bound};
use crate::secrets::{self, Source};
use crate::signature::{self, SIGNATURE_HEADER, TIMESTAMP_HEADER};

/// Slack waits three seconds, network included; this much is ours.
pub const ANSWER_WITHIN: Duration = Duration::from_millis(2_400);
/// A duplicate waits for the first one's outcome until this long before its own answer is due.
const WAIT_MARGIN: Duration = Duration::from_millis(400);
/// One call to the store: two of them (claim, completion) and the hand-over fit into [`ANSWER_WITHIN`].
pub const STORE: Bound = Bound { attempts: 3, total: Duration::from_millis(700) };

/// Slack says how often it has tried before, and why it tries again.
const RETRY_NUM_HEADER: &str = "x-slack-retry-num";
const RETRY_REASON_HEADER: &str = "x-slack-retry-reason";
/// The longest retry reason that is logged.
const MAX_REASON_CHARS: usize = 32;

/// Why an event could not be accepted: Slack is to send it again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the event was not handed over: {0}")]
    HandOver(#[from] hand_over::Error),
    #[error("the event could not be claimed: {0}")]
    Store(String),
    #[error("there was no time left to accept the event")]
    Late,
}

impl Error {
    /// What Lambda reports as `errorType`.
    fn kind(&self) -> &'static str {
        match self {
            Self::HandOver(_) => "HandOver",
            Self::Store(_) => "Store",
            Self::Late => "Late",
        }
    }
}

/// What a door is made of.
pub struct Parts {
    pub once: Once<DynamoDb>,
    pub fallback: Fallback,
    pub own: Own,
    pub signing_secrets: Source,
    pub hand_over: Arc<dyn HandOver>,
    pub clock: Arc<dyn Clock>,
}

/// The door.
pub struct Door {
    parts: Parts,
    events: Namespace,
}

/// An invocation, as far as it matters here.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub request_id: &'a str,
    /// When Lambda ends the invocation.
    pub deadline: Timestamp,
}

impl Door {
    pub fn new(parts: Parts) -> Self {
        let events = records::events(parts.fallback);
        Self { parts, events }
    }

    /// Answers a request. An error is a 5xx to Slack.
    pub async fn answer(&self, request: &Request, asked: Asked<'_>) -> Result<Response, Error> {
        let started = self.parts.clock.now();
        let due = (started + ANSWER_WITHIN).min(asked.deadline);
        let judged = pin!(self.judge(request, asked, due));
        let answer = select(judged, self.parts.clock.sleep(due.since(started))).await;
        metric::DOOR_LATENCY.took(self.parts.clock.now().since(started));
        match answer {
            Either::Left((answer, _)) => answer,
            // The claim, if there is one, ends with its lease.
            Either::Right(_) => Err(Error::Late),
        }
    }

    async fn judge(&self, request: &Request, asked: Asked<'_>, due: Timestamp) -> Result<Response, Error> {
        let signing_secrets = self.parts.signing_secrets.get().await;
        let signing_secrets = secrets::signing_secrets(&signing_secrets).unwrap_or_default();
        let (timestamp, signature) = (request.header(TIMESTAMP_HEADER), request.header(SIGNATURE_HEADER));
        if let Err(refusal) =
            signature::verify(&signing_secrets, timestamp, signature, &request.body, self.parts.clock.now())
        {
            metric::DOOR_REFUSALS.add(1);
            tracing::warn!(reason = %refusal, source_ip = request.source_ip, "refused: not signed by Slack");
            return Ok(Response::empty(401));
        }
        self.note_retry(request);
        match event::read(&request.body, &self.parts.own) {
            Err(refusal) => {
                metric::DOOR_REFUSALS.add(1);
                tracing::warn!(reason = %refusal, "refused: not an event");
                Ok(Response::empty(400))
            }
            Ok(Received::Challenge(challenge)) => Ok(Response::json(200, &json!({ "challenge": challenge }))),
            Ok(Received::Ignored(why)) => {
                metric::SLACK_EVENTS_IGNORED.add(1);
                tracing::debug!(reason = why.name(), "acknowledged, not handled");
                Ok(Response::empty(200))
            }
            Ok(Received::Upload(upload)) => self.accept(&upload, asked, due).await,
        }
    }

    fn note_retry(&self, request: &Request) {
        if let Some(number) = request.header(RETRY_NUM_HEADER).and_then(|number| number.parse::<u32>().ok()) {
            let reason: String = request
                .header(RETRY_REASON_HEADER)
                .unwrap_or_default()
                .chars()
                .filter(|c| c.is_ascii_alphanumeric() || *c == '_')
                .take(MAX_REASON_CHARS)
                .collect();
            metric::SLACK_RETRIES.add(1);
            tracing::info!(retry_num = number, retry_reason = reason, "Slack repeats");
        }
    }

    /// Hands an upload over, unless that was done.
    async fn accept(&self, upload: &Upload, asked: Asked<'_>, due: Timestamp) -> Result<Response, Error> {
        let now = self.parts.clock.now();
        let key = match records::event_key(&self.events, upload) {
            Ok(key) => key,
            Err(error) => {
                metric::DOOR_REFUSALS.add(1);
                tracing::warn!(reason = %error, "refused: not an event id");
                return Ok(Response::empty(400));
            }
        };
        let mut run = self.parts.once.run(&key).lease_until(asked.deadline).wait_until(due.saturating_sub(WAIT_MARGIN));
        for (name, value) in records::attributes(upload, None, asked.request_id, now) {
            run = run.attribute(name, value);
        }
        let hand_over = &self.parts.hand_over;
        let done = run
            .work(|_claim| async move {
                hand_over.hand_over(upload).await.map_err(|error| match error {
                    hand_over::Error::Refused(_) => Failure::Retry(error),
                    hand_over::Error::Unanswered(_) => Failure::Uncertain(error),
                })
            })
            .await;
        match done {
            Ok(done) => {
                if done.how == How::Fresh {
                    metric::SLACK_HAND_OVERS.add(1);
                    tracing::info!(event_key = upload.event_key, files = upload.files.len(), "handed over");
                }
                Ok(Response::empty(200))
            }
            // The hand-over was accepted, which is what Slack wants to know. If a repeat hands it over again, the
            // files' own keys recognise it.
            Err(ichido::Error::Unrecorded(_) | ichido::Error::Superseded) => {
                metric::SLACK_HAND_OVERS.add(1);
                Ok(Response::empty(200))
            }
            // Somebody else is at it and may yet fail: Slack must not forget the event. No error of ours, though.
            Err(ichido::Error::InFlight { .. }) => Ok(Response::empty(503).header("retry-after", "1")),
            Err(ichido::Error::Work(error) | ichido::Error::Probe(error)) => {
                metric::SLACK_HAND_OVER_FAILURES.add(1);
                Err(error.into())
            }
            Err(ichido::Error::Store(error)) => Err(Error::Store(describe(&error))),
            Err(error @ (ichido::Error::Failed { .. } | ichido::Error::Mismatch { .. })) => {
                Err(Error::Store(error.to_string()))
            }
        }
    }
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").field("events", &self.events).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("fallback", &self.fallback).field("own", &self.own).finish_non_exhaustive()
    }
}

/// Wires the door up: what `slack-events` is.
pub async fn build(env: Env, aws: Aws) -> Result<Handler, function::Error> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let (config, ()) = futures::join!(config::Events::read(&env, &aws, &clock), config::warm(&env, &aws));
    let config::Events { table, fallback, own, files_function, signing_secrets } = config?;
    let door = Arc::new(Door::new(Parts {
        once: records::once(&aws.dynamodb(), &table, STORE, clock.clone(), telemetry::Watch),
        fallback,
        own,
        signing_secrets,
        hand_over: Arc::new(Invocation::new(&aws.lambda(), files_function)),
        clock,
    }));
    Ok(handler(door))
}

/// The door as a function's handler.
pub fn handler(door: Arc<Door>) -> Handler {
    function::handler(move |event| {
        let door = door.clone();
        async move {
            let request = match Request::from_event(&event.payload) {
                Ok(request) => request,
                Err(function::http::Error::Base64) => return Ok(Response::empty(400).into_value()),
                Err(error) => return Err(error.into()),
            };
            let asked = Asked {
                request_id: &event.context.request_id,
                deadline: Timestamp::from_millis(event.context.deadline),
            };
            let answer = door.answer(&request, asked).await;
            answer.map(Response::into_value).map_err(|error| function::Error::failed(error.kind(), error))
        }
    })
}
