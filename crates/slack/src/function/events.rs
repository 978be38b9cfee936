//! `slack-events`: verifies a request, reads it, and hands an upload over, each once.
//!
//! Promise: no upload is lost here. An event is acknowledged (200) only if its hand-over was accepted, by this invocation or
//! by an earlier one. Otherwise the answer is an error, and Slack sends the event again. Every answer comes within
//! [`ANSWER_WITHIN`]. A request that is too large (413), that Slack did not sign (401), or that is not an event (400), never reaches the store.
//!
//! `X-Slack-Retry-Num` and `-Reason` are counted and logged. They never decide anything, because a repeat may be the first
//! request that arrives.

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use function::http::{Request, Response};
use function::secret::Source;
use function::{Aws, Context, Env, Handler};
use futures::future::{Either, select};
use ichido::{Clock, Failure, How, NoValue, OnDoubt, SystemClock, Timestamp};
use serde_json::json;
use telemetry::{causes, metric};

use crate::event::{self, HandedOver, Own, Received, Upload};
use crate::outside::hand_over::{self, AsyncInvoke, HandOver};
use crate::settings;
use crate::signature::{self, SIGNATURE_HEADER, TIMESTAMP_HEADER};
use crate::table::history::{History, Tally, What};
use crate::table::{Bound, ProcessedEvents};

/// Slack waits three seconds, including the network. This much of it is ours.
pub const ANSWER_WITHIN: Duration = Duration::from_millis(2_400);
/// A duplicate stops waiting for the first one's outcome this long before its own answer is due. It is longer than the history
/// takes to count it.
const WAIT_MARGIN: Duration = Duration::from_millis(400);
/// One call to the store. Two of them (claim and completion) and the hand-over fit into [`ANSWER_WITHIN`].
pub const STORE: Bound = Bound { attempts: 3, total: Duration::from_millis(700) };

/// The largest body whose signature is computed: what strangers send must not cost more than that. Slack's own events have some
/// kilobytes per file.
pub const MAX_BODY_BYTES: usize = 1024 * 1024;

/// How many times Slack has already sent this event, and why it sends it again.
const RETRY_NUM_HEADER: &str = "x-slack-retry-num";
const RETRY_REASON_HEADER: &str = "x-slack-retry-reason";
/// The longest retry reason that is logged.
const MAX_REASON_CHARS: usize = 32;

/// Connects the parts of `slack-events`.
pub(crate) async fn build(env: Env, aws: Aws) -> Result<Handler, function::Error> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let settings::Events { table, fallback, own, files_function, signing_secrets } =
        settings::Events::read(&env, &aws, &clock).await?;
    let dynamodb = aws.dynamodb();
    let history = History::new(&dynamodb, &table, clock.clone());
    let table = ProcessedEvents::new(&dynamodb, &table, fallback, STORE, clock.clone(), telemetry::Watch);
    let hand_over = Arc::new(AsyncInvoke::new(&aws.invoker(), files_function));
    Ok(handler(Arc::new(SlackEvents { table, history, own, signing_secrets, hand_over, clock })))
}

/// The function's handler: an event of API Gateway in, its answer out.
pub fn handler(events: Arc<SlackEvents>) -> Handler {
    function::handler(move |event| {
        let events = events.clone();
        async move {
            let request = match Request::from_event(&event.payload) {
                Ok(request) => request,
                Err(function::http::Error::Base64) => return Ok(Response::empty(400).into_value()),
                Err(error) => return Err(error.into()),
            };
            let answer = events.answer(&request, &event.context).await;
            answer.map(Response::into_value).map_err(|error| function::Error::failed(error.kind(), error))
        }
    })
}

/// The parts of `slack-events`.
pub struct SlackEvents {
    pub table: ProcessedEvents,
    pub history: History,
    pub own: Own,
    /// See [`signature::secrets`].
    pub signing_secrets: Source,
    pub hand_over: Arc<dyn HandOver>,
    pub clock: Arc<dyn Clock>,
}

impl SlackEvents {
    /// Answers a request in time. An error is a 5xx to Slack.
    pub async fn answer(&self, request: &Request, context: &Context) -> Result<Response, Error> {
        let started = self.clock.now();
        let due = (started + ANSWER_WITHIN).min(function::deadline(context).unwrap_or_default());
        // Known as soon as the request is verified and read.
        let event_key = OnceLock::new();
        let handled = pin!(self.handle(request, context, due, &event_key));
        let answer = select(handled, self.clock.sleep(due.since(started))).await;
        match answer {
            Either::Left((answer, _)) => answer,
            // If the event was claimed, the claim ends with its lease.
            Either::Right(_) => Err(Error::Late { event_key: event_key.get().cloned() }),
        }
    }

    async fn handle(
        &self,
        request: &Request,
        context: &Context,
        due: Timestamp,
        event_key: &OnceLock<String>,
    ) -> Result<Response, Error> {
        if request.body.len() > MAX_BODY_BYTES {
            let (bytes, source_ip) = (request.body.len(), request.source_ip.as_str());
            metric::DOOR_REFUSALS.add(1);
            tracing::warn!(bytes, source_ip, "refused a request of {bytes} bytes before its signature was computed");
            return Ok(Response::empty(413));
        }
        let secrets = signature::secrets(&self.signing_secrets.get().await?).unwrap_or_default();
        let (timestamp, signature) = (request.header(TIMESTAMP_HEADER), request.header(SIGNATURE_HEADER));
        if let Err(error) = signature::verify(&secrets, timestamp, signature, &request.body, self.clock.now()) {
            metric::DOOR_REFUSALS.add(1);
            tracing::warn!(reason = %error, source_ip = request.source_ip, "refused a request that Slack did not sign: {error}");
            return Ok(Response::empty(401));
        }
        let received = event::read(&request.body, &self.own);
        if let Some(key) = received.as_ref().ok().and_then(Received::event_key) {
            event_key.get_or_init(|| key.to_owned());
        }
        count_retry(request, event_key.get());
        match received {
            Ok(Received::Upload(upload)) => {
                let (answer, what) = self.accept(&upload, context, due, is_retry(request)).await;
                if let Some(what) = what {
                    self.history.count(&upload.channel, &Tally::of(what)).await;
                }
                answer
            }
            Ok(Received::Challenge(challenge)) => Ok(Response::json(200, &json!({ "challenge": challenge }))),
            Ok(Received::Ignored { why, event_key }) => {
                metric::SLACK_EVENTS_IGNORED.add(1);
                let (reason, name) = (why.name(), name_of(event_key.as_ref()));
                tracing::debug!(event_key, reason, "acknowledged {name}, but did not handle it: {reason}");
                Ok(Response::empty(200))
            }
            Err(error) => {
                metric::DOOR_REFUSALS.add(1);
                tracing::warn!(reason = %error, "refused a signed request that is not an event: {error}");
                Ok(Response::empty(400))
            }
        }
    }

    /// Hands an upload over, unless that was done before. Also returns what the history counts: nothing if it was handed over,
    /// because `slack-files` counts what becomes of it.
    async fn accept(
        &self,
        upload: &Upload,
        context: &Context,
        due: Timestamp,
        is_retry: bool,
    ) -> (Result<Response, Error>, Option<What>) {
        let run = match self.table.event(upload, &context.request_id) {
            Ok(run) => run,
            Err(error) => {
                metric::DOOR_REFUSALS.add(1);
                tracing::warn!(reason = %error, "refused an event whose id cannot be a key: {error}");
                return (Ok(Response::empty(400)), None);
            }
        };
        let done = run
            .lease_until(function::deadline(context).unwrap_or_default())
            .wait_until(due.saturating_sub(WAIT_MARGIN))
            // Lambda cannot be asked whether it has the upload. Handing it over again does no harm: each file has its own claim.
            .on_doubt(OnDoubt::Repeat)
            .work(|claim| async move {
                let handed_over = HandedOver { at: self.clock.now().as_secs(), without_table: claim.fence() == 0 };
                let upload = Upload { handed_over: Some(handed_over), ..upload.clone() };
                self.hand_over.hand_over(&upload).await.map_err(|error| match error {
                    hand_over::Error::Refused(_) => Failure::Retry(error),
                    hand_over::Error::Unanswered(_) => Failure::Uncertain(error),
                })
            })
            .await;
        let (event_key, files) = (upload.event_key.as_str(), upload.files.len());
        let duplicate = if is_retry { What::Retry } else { What::AtOnce };
        match done {
            Ok(done) => {
                let what = match done.how {
                    How::Fresh => {
                        metric::SLACK_HAND_OVERS.add(1);
                        tracing::info!(
                            event_key,
                            files,
                            "handed over event {event_key} to slack-files (files: {files})"
                        );
                        None
                    }
                    // A record in the table has attributes. Without any, this instance's memory answered.
                    _ if done.first.is_empty() => Some(What::Outage),
                    _ => Some(duplicate),
                };
                (Ok(Response::empty(200)), what)
            }
            // The hand-over was accepted, which is what Slack wants to know. If a repeat hands it over again, each file's
            // own claim prevents a second reply.
            Err(ichido::Error::Unrecorded(_) | ichido::Error::Superseded) => {
                metric::SLACK_HAND_OVERS.add(1);
                (Ok(Response::empty(200)), None)
            }
            // An earlier bot handled it, before this one took its table over.
            Err(ichido::Error::DoneWithoutValue(NoValue::Foreign)) => {
                tracing::info!(event_key, "acknowledged event {event_key}: the bot before this one has handled it");
                (Ok(Response::empty(200)), Some(What::Earlier))
            }
            // It was handed over before.
            Err(ichido::Error::DoneWithoutValue(_)) => (Ok(Response::empty(200)), Some(duplicate)),
            // Another invocation is working on it and may still fail, so Slack must not forget the event. This is not an
            // error of ours.
            Err(ichido::Error::InFlight { .. }) => {
                (Ok(Response::empty(503).header("retry-after", "1")), Some(duplicate))
            }
            Err(ichido::Error::Work(error) | ichido::Error::Probe(error)) => {
                metric::SLACK_HAND_OVER_FAILURES.add(1);
                (Err(Error::HandOver { event_key: event_key.to_owned(), error }), Some(What::Refused))
            }
            Err(ichido::Error::Store(error)) => {
                let reason = causes(&error);
                (Err(Error::Store { event_key: event_key.to_owned(), reason }), Some(What::Refused))
            }
            Err(error) => {
                let reason = error.to_string();
                (Err(Error::Store { event_key: event_key.to_owned(), reason }), Some(What::Refused))
            }
        }
    }
}

/// Did Slack mark the request as a repeat?
fn is_retry(request: &Request) -> bool {
    request.header(RETRY_NUM_HEADER).is_some()
}

/// The event, as messages name it.
fn name_of(event_key: Option<&String>) -> String {
    event_key.map_or_else(|| "an event without an id".to_owned(), |key| format!("event {key}"))
}

/// Counts and logs a request that Slack marks as a repeat.
fn count_retry(request: &Request, event_key: Option<&String>) {
    if let Some(number) = request.header(RETRY_NUM_HEADER).and_then(|number| number.parse::<u32>().ok()) {
        let reason: String = request
            .header(RETRY_REASON_HEADER)
            .unwrap_or_default()
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || *c == '_')
            .take(MAX_REASON_CHARS)
            .collect();
        metric::SLACK_RETRIES.add(1);
        let name = name_of(event_key);
        tracing::info!(
            event_key,
            retry_num = number,
            retry_reason = reason,
            "Slack sent {name} again (retry {number}, reason: {reason})"
        );
    }
}

impl std::fmt::Debug for SlackEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SlackEvents").field("table", &self.table).field("own", &self.own).finish_non_exhaustive()
    }
}

/// Why an event could not be accepted. Slack sends it again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not hand over event {event_key} to slack-files: {error}")]
    HandOver { event_key: String, error: hand_over::Error },
    #[error("could not claim event {event_key} in the table of processed events: {reason}")]
    Store { event_key: String, reason: String },
    /// Without a key, the time was over before the request was read.
    #[error("could not accept {} within {} ms", name_of(event_key.as_ref()), ANSWER_WITHIN.as_millis())]
    Late { event_key: Option<String> },
    #[error(transparent)]
    Secret(#[from] function::aws::Error),
}

impl Error {
    /// What Lambda reports as `errorType`.
    fn kind(&self) -> &'static str {
        match self {
            Self::HandOver { .. } => "HandOver",
            Self::Store { .. } => "Store",
            Self::Late { .. } => "Late",
            Self::Secret(_) => "Aws",
        }
    }
}
