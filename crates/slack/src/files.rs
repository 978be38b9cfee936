//! `slack-files`: the effect. One reply a file, however often an upload is handed over.
//!
//! Promise: an invocation succeeds only when every file of its upload is done. Otherwise it fails, and Lambda retries
//! it; what it gives up on is in the on-failure queue, and sending it again goes through the same keys. A file whose
//! earlier attempt may have replied is asked about in its thread first; if that cannot be answered, nothing is posted.
//!
//! Files are handled one after another (Slack takes about one message a second and channel), and one that fails does
//! not keep the others from theirs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use function::{Aws, Env, Handler};
use ichido::dynamodb::DynamoDb;
use ichido::{Claim, Clock, Failure, How, MAX_CLOCK_SKEW, Namespace, Once, Probed, SystemClock, Timestamp};
use serde_json::{Value, json};
use telemetry::metric;

use crate::config::{self, Fallback};
use crate::describe;
use crate::door::Asked;
use crate::effect::{self, Effect, Of, Reply, moment};
use crate::event::Upload;
use crate::records::{self, Bound, RETENTION};
use crate::web_api::{Slack, WebApi};

/// One call to the store.
pub const STORE: Bound = Bound { attempts: 4, total: Duration::from_secs(3) };

/// Why a file is not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("another invocation is at it until {0}")]
    InFlight(Timestamp),
    #[error("it failed for good: {0}")]
    Failed(String),
    #[error("{0}")]
    Effect(effect::Error),
    #[error("whether it was done could not be found out: {0}")]
    Probe(effect::Error),
    #[error("the store: {0}")]
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
#[error("{} of {of} files not done: {}", .files.len(), list(.files))]
pub struct Unfinished {
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

/// What is done with files.
pub struct Files {
    once: Once<DynamoDb>,
    files: Namespace,
    effect: Arc<dyn Effect>,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Files {
    pub fn new(once: Once<DynamoDb>, fallback: Fallback, effect: Arc<dyn Effect>, clock: Arc<dyn Clock>) -> Self {
        Self { once, files: records::files(fallback), effect, clock }
    }

    /// Handles every file of an upload and returns their outcomes, in order.
    pub async fn handle(&self, upload: &Upload, asked: Asked<'_>) -> Result<Vec<Value>, Unfinished> {
        let mut done = Vec::with_capacity(upload.files.len());
        let mut unfinished = Vec::new();
        for file in &upload.files {
            match self.handle_file(Of { upload, file }, asked).await {
                Ok(outcome) => done.push(outcome),
                Err(error) => unfinished.push((file.id.clone(), error)),
            }
        }
        let of = upload.files.len();
        if unfinished.is_empty() { Ok(done) } else { Err(Unfinished { files: unfinished, of }) }
    }

    async fn handle_file(&self, of: Of<'_>, asked: Asked<'_>) -> Result<Value, Error> {
        let Of { upload, file } = of;
        let now = self.clock.now();
        let key = records::file_key(&self.files, upload, file).map_err(|error| Error::Failed(error.to_string()))?;
        let mut run = self.once.run(&key).lease_until(asked.deadline).doubtful(may_have_expired(upload, now));
        for (name, value) in records::attributes(upload, Some(file), asked.request_id, now) {
            run = run.attribute(name, value);
        }
        // Without the store the thread is asked by the work itself, not by a probe.
        let found = AtomicBool::new(false);
        let found = &found;
        let done = run
            .probe(|claim| async move { self.find(of, &claim).await })
            .work(|claim| async move { self.perform(of, &claim, found).await })
            .await;
        match done {
            Ok(done) => {
                let how = match done.how {
                    How::Fresh if found.load(Ordering::Relaxed) => "found in its thread",
                    How::Fresh => "replied",
                    How::Replayed => "done before",
                    How::Probed => "found in its thread",
                };
                tracing::info!(event_key = upload.event_key, file_id = file.id, how, "file handled");
                Ok(json!({ "file": file.id, "how": how, "outcome": done.value }))
            }
            Err(ichido::Error::InFlight { until }) => Err(Error::InFlight(until)),
            Err(ichido::Error::Failed { reason }) => Err(Error::Failed(reason)),
            Err(ichido::Error::Work(error)) => Err(Error::Effect(error)),
            Err(ichido::Error::Probe(error)) => Err(Error::Probe(error)),
            Err(ichido::Error::Store(error) | ichido::Error::Unrecorded(error)) => Err(Error::Store(describe(&error))),
            Err(error @ (ichido::Error::Mismatch { .. } | ichido::Error::Superseded)) => {
                Err(Error::Store(error.to_string()))
            }
        }
    }

    async fn find(&self, of: Of<'_>, claim: &Claim) -> Result<Probed<Value>, effect::Error> {
        let found = self.effect.find(of, claim).await;
        if found.is_err() {
            metric::SLACK_PROBE_FAILURES.add(1);
        }
        found
    }

    async fn perform(&self, of: Of<'_>, claim: &Claim, found: &AtomicBool) -> Result<Value, Failure<effect::Error>> {
        // A claim without the store (its fence is 0) says nothing about other instances; the thread does.
        if claim.fence() == 0
            && let Probed::Done(outcome) = self.find(of, claim).await.map_err(Failure::Retry)?
        {
            found.store(true, Ordering::Relaxed);
            return Ok(outcome);
        }
        self.effect.perform(of, claim).await
    }
}

/// Can a record of this upload have come and gone? Then the store's silence means nothing, and the probe is asked.
fn may_have_expired(upload: &Upload, now: Timestamp) -> bool {
    moment(&upload.ts).is_none_or(|posted| posted + RETENTION <= now + MAX_CLOCK_SKEW)
}

/// Wires the default effect up: what `slack-files` is.
pub async fn build(env: Env, aws: Aws) -> Result<Handler, function::Error> {
    build_with(env, aws, |slack, clock| Arc::new(Reply::new(slack, clock))).await
}

/// Wires `slack-files` up with an effect of the caller's.
pub async fn build_with(
    env: Env,
    aws: Aws,
    effect: impl FnOnce(Arc<dyn Slack>, Arc<dyn Clock>) -> Arc<dyn Effect>,
) -> Result<Handler, function::Error> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let (config, ()) = futures::join!(config::Files::read(&env, &aws, &clock), config::warm(&env, &aws));
    let config::Files { table, fallback, api_url, bot_token } = config?;
    let slack = WebApi::new(api_url, bot_token).map_err(|error| function::Error::failed("Slack", error))?;
    let once = records::once(&aws.dynamodb(), &table, STORE, clock.clone(), telemetry::Watch);
    let effect = effect(Arc::new(slack), clock.clone());
    Ok(handler(Arc::new(Files::new(once, fallback, effect, clock))))
}

/// The effect as a function's handler.
pub fn handler(files: Arc<Files>) -> Handler {
    function::handler(move |event| {
        let files = files.clone();
        async move {
            let upload: Upload = serde_json::from_value(event.payload)
                .map_err(|error| function::Error::failed("Event", format_args!("not an upload: {error}")))?;
            let asked = Asked {
                request_id: &event.context.request_id,
                deadline: Timestamp::from_millis(event.context.deadline),
            };
            let done = files.handle(&upload, asked).await;
            let done = done.map_err(|error| function::Error::failed(error.kind(), error))?;
            Ok(json!({ "files": done }))
        }
    })
}
