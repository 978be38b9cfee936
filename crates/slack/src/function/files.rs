//! `slack-files`: one reply per file, however often an upload is handed over.
//!
//! Promise: an invocation succeeds only if every file of its upload is done. Otherwise it fails, and Lambda retries it. What
//! Lambda gives up on is in the on-failure queue, and sending it again uses the same keys. If an earlier attempt may have
//! replied to a file, its thread is asked first. If the thread cannot be read, nothing is posted.
//!
//! Files are handled one after another, because Slack takes about one message per second and channel. A file that fails
//! does not keep the others from their replies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use function::{Aws, Context, Env, Handler};
use ichido::{Claim, Clock, Failure, How, Probed, SystemClock, Timestamp};
use serde_json::{Value, json};
use telemetry::{causes, metric};

use crate::effect::{self, Effect, Reply, UploadedFile};
use crate::event::Upload;
use crate::outside::paced::Paced;
use crate::settings;
use crate::table::history::{History, Tally, What};
use crate::table::limits::Limits;
use crate::table::{self, Bound, ProcessedEvents};
use slack_api::{Slack, WebApi};

/// One call to the store.
pub const STORE: Bound = Bound { attempts: 4, total: Duration::from_secs(3) };

/// Connects the parts of `slack-files` with the default effect, a reply.
pub(crate) async fn build(env: Env, aws: Aws) -> Result<Handler, function::Error> {
    build_with(env, aws, |slack, clock| Arc::new(Reply::new(slack, clock))).await
}

/// Connects the parts of `slack-files` with an effect of your own.
pub async fn build_with(
    env: Env,
    aws: Aws,
    effect: impl FnOnce(Arc<dyn Slack>, Arc<dyn Clock>) -> Arc<dyn Effect>,
) -> Result<Handler, function::Error> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let settings::Files { table, fallback, api_url, bot_token } = settings::Files::read(&env, &aws, &clock).await?;
    let dynamodb = aws.dynamodb();
    let slack = WebApi::new(api_url, bot_token).map_err(|error| function::Error::failed("Slack", error))?;
    let slack = Paced::new(Arc::new(slack), Limits::new(&dynamodb, &table, clock.clone()), clock.clone());
    let history = History::new(&dynamodb, &table, clock.clone());
    let table = ProcessedEvents::new(&dynamodb, &table, fallback, STORE, clock.clone(), telemetry::Watch);
    let effect = effect(Arc::new(slack), clock);
    Ok(handler(Arc::new(SlackFiles { table, history, effect })))
}

/// The function's handler: an [`Upload`] in, what was done with its files out.
pub fn handler(files: Arc<SlackFiles>) -> Handler {
    function::handler(move |event| {
        let files = files.clone();
        async move {
            let upload: Upload = serde_json::from_value(event.payload).map_err(|error| {
                function::Error::failed("Event", format_args!("the event is not an upload: {error}"))
            })?;
            let done = files.handle(&upload, &event.context).await;
            let done = done.map_err(|error| function::Error::failed(error.kind(), error))?;
            Ok(json!({ "files": done }))
        }
    })
}

/// The parts of `slack-files`.
pub struct SlackFiles {
    pub table: ProcessedEvents,
    pub history: History,
    pub effect: Arc<dyn Effect>,
}

impl SlackFiles {
    /// Handles every file of an upload and returns what was done with each, in order.
    pub async fn handle(&self, upload: &Upload, context: &Context) -> Result<Vec<Value>, Unfinished> {
        let mut done = Vec::with_capacity(upload.files.len());
        let mut unfinished = Vec::new();
        let mut tally = Tally::default();
        for file in &upload.files {
            match self.handle_file(UploadedFile { upload, file }, context, &mut tally).await {
                Ok(handled) => done.push(handled),
                // Nothing happened to it here. Whoever works on it counts it.
                Err(error @ Error::InFlight(_)) => unfinished.push((file.id.clone(), error)),
                Err(error) => {
                    tally.add(What::Failed, 1);
                    unfinished.push((file.id.clone(), error));
                }
            }
        }
        self.history.count(&upload.channel, &tally).await;
        if unfinished.is_empty() {
            return Ok(done);
        }
        Err(Unfinished { event_key: upload.event_key.clone(), files: unfinished, of: upload.files.len() })
    }

    async fn handle_file(
        &self,
        uploaded: UploadedFile<'_>,
        context: &Context,
        tally: &mut Tally,
    ) -> Result<Value, Error> {
        let UploadedFile { upload, file } = uploaded;
        let run = self.table.file(upload, file, &context.request_id);
        let run = run.map_err(|error| Error::Failed(error.to_string()))?;
        // Set if the work itself found the reply: without the store it asks the thread, not the probe.
        let found = AtomicBool::new(false);
        let found = &found;
        let done = run
            .lease_until(function::deadline(context).unwrap_or_default())
            .probe(|claim| async move { self.find(uploaded, &claim).await })
            .work(|claim| async move { self.perform(uploaded, &claim, found).await })
            .await;
        match done {
            Ok(done) => {
                let (how, what) = match done.how {
                    // Only without the table.
                    How::Fresh if found.load(Ordering::Relaxed) => ("found in its thread", Some(What::Outage)),
                    How::Fresh => ("replied", Some(What::Handled)),
                    How::Replayed if done.first.is_empty() => ("done before", Some(What::Outage)),
                    How::Replayed if table::is_other_envelope(&done.first, upload) => {
                        ("done before", Some(What::Envelope))
                    }
                    // Lambda's own retry, or a second hand-over: no duplicate of Slack's.
                    How::Replayed => ("done before", None),
                    How::Probed => ("found in its thread", Some(What::Found)),
                };
                if let Some(what) = what {
                    tally.add(what, 1);
                }
                let (event_key, file_id) = (upload.event_key.as_str(), file.id.as_str());
                tracing::info!(event_key, file_id, how, "handled file {file_id} of event {event_key}: {how}");
                Ok(json!({ "file": file.id, "how": how, "outcome": done.value }))
            }
            Err(ichido::Error::InFlight { until }) => Err(Error::InFlight(until)),
            Err(ichido::Error::Failed { reason }) => Err(Error::Failed(reason)),
            Err(ichido::Error::Work(error)) => Err(Error::Effect(error)),
            Err(ichido::Error::Probe(error)) => Err(Error::Probe(error)),
            Err(ichido::Error::Store(error) | ichido::Error::Unrecorded(error)) => Err(Error::Store(causes(&error))),
            // It was done, and that is what matters here.
            Err(ichido::Error::DoneWithoutValue(_)) => Ok(json!({ "file": file.id, "how": "done before" })),
            Err(error) => Err(Error::Store(error.to_string())),
        }
    }

    async fn find(&self, uploaded: UploadedFile<'_>, claim: &Claim) -> Result<Probed<Value>, effect::Error> {
        let found = self.effect.find(uploaded, claim).await;
        if found.is_err() {
            metric::SLACK_PROBE_FAILURES.add(1);
        }
        found
    }

    async fn perform(
        &self,
        uploaded: UploadedFile<'_>,
        claim: &Claim,
        found: &AtomicBool,
    ) -> Result<Value, Failure<effect::Error>> {
        // A claim without the store (its fence is 0) says nothing about other instances; the thread does.
        if claim.fence() == 0
            && let Probed::Done(outcome) = self.find(uploaded, claim).await.map_err(Failure::Retry)?
        {
            found.store(true, Ordering::Relaxed);
            return Ok(outcome);
        }
        self.effect.perform(uploaded, claim).await
    }
}

impl std::fmt::Debug for SlackFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SlackFiles").field("table", &self.table).finish_non_exhaustive()
    }
}

/// Why a file is not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("another invocation is working on it; its lease ends at {0}")]
    InFlight(Timestamp),
    #[error("it failed permanently, and trying again does not help: {0}")]
    Failed(String),
    #[error("{0}")]
    Effect(effect::Error),
    #[error("could not find out whether it was done: {0}")]
    Probe(effect::Error),
    #[error("could not claim it or record its outcome in the table of processed events: {0}")]
    Store(String),
}

impl Error {
    /// What Lambda reports as `errorType`.
    fn kind(&self) -> &'static str {
        match self {
            Self::InFlight(_) => "InFlight",
            Self::Failed(_) => "Failed",
            Self::Effect(_) => "Slack",
            Self::Probe(_) => "Probe",
            Self::Store(_) => "Store",
        }
    }
}

/// Some files of an upload are not done.
#[derive(Debug, thiserror::Error)]
#[error("{} of {of} files of event {event_key} are not done: {}", .files.len(), list(.files))]
pub struct Unfinished {
    event_key: String,
    /// Never empty.
    files: Vec<(String, Error)>,
    of: usize,
}

impl Unfinished {
    /// By file id.
    pub fn files(&self) -> &[(String, Error)] {
        &self.files
    }

    fn kind(&self) -> &'static str {
        self.files.first().map_or("Slack", |(_, error)| error.kind())
    }
}

fn list(files: &[(String, Error)]) -> String {
    files.iter().map(|(id, error)| format!("{id}: {error}")).collect::<Vec<_>>().join("; ")
}
