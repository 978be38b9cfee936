//! `slack-files`: one reply per file, however often an upload is handed over.
//!
//! Promise: an invocation succeeds only if every file of its upload is done. Otherwise it fails, and Lambda retries it. What
//! Lambda gives up on is in the on-failure queue, and sending it again uses the same keys. If an earlier attempt may have
//! replied to a file, its thread is asked first, also where that attempt could not reach the table. If the thread cannot be read,
//! nothing is posted.
//!
//! Where [`same_content`](crate::same_content) is on, a file whose content was handled before gets a link instead of its effect.
//!
//! Files are handled one after another, because Slack takes about one message per second and channel. A file that fails
//! does not keep the others from their replies.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use function::{Aws, Context, Env, Handler};
use ichido::{Claim, Clock, Done, Failure, How, OrFailure as _, Probed, SystemClock, Timestamp};
use serde_json::{Value, json};
use telemetry::{causes, metric};

use crate::effect::{self, Effect, Reply, UploadedFile};
use crate::event::Upload;
use crate::outside::paced::Paced;
use crate::same_content::SameContent;
use crate::settings;
use crate::table::contents::Contents;
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
    let settings::Files { table, fallback, api_url, bot_token, same_content } =
        settings::Files::read(&env, &aws, &clock).await?;
    let dynamodb = aws.dynamodb();
    let slack = WebApi::new(api_url, bot_token).map_err(|error| function::Error::failed("Slack", error))?;
    let limits = Limits::new(&dynamodb, &table, clock.clone());
    let slack: Arc<dyn Slack> = Arc::new(Paced::new(Arc::new(slack), limits, clock.clone()));
    let same_content = same_content.map(|(channels, window)| {
        let contents = Contents::new(&dynamodb, &table, window, STORE, clock.clone());
        SameContent { channels, contents, slack: slack.clone(), reply: Reply::new(slack.clone(), clock.clone()) }
    });
    let history = History::new(&dynamodb, &table, clock.clone());
    let table = ProcessedEvents::new(&dynamodb, &table, fallback, STORE, clock.clone(), telemetry::Watch);
    let effect = effect(slack, clock);
    Ok(handler(Arc::new(SlackFiles { table, history, effect, same_content })))
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
    /// `None`: every file is handled, whatever it contains.
    pub same_content: Option<SameContent>,
}

/// What a work did instead of its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instead {
    /// It found the effect: after an outage of the table, or during one, the work itself asks the thread.
    Found,
    /// It linked the first file with the same content.
    Linked,
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
                Err(error @ (Error::InFlight(_) | Error::Effect(effect::Error::SameContent(_)))) => {
                    unfinished.push((file.id.clone(), error))
                }
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
        let instead = OnceLock::new();
        let instead = &instead;
        let done = run
            .lease_until(function::deadline(context).unwrap_or_default())
            .probe(|claim| async move { self.find(uploaded, &claim).await })
            .work(|claim| async move { self.perform(uploaded, &claim, context, instead).await })
            .await;
        if let Ok(Done { how: How::Fresh | How::Probed, .. }) | Err(ichido::Error::Unrecorded(_)) = &done {
            self.table.remember(upload, file);
        }
        match done {
            Ok(done) => {
                let (how, what) = match done.how {
                    How::Fresh => match instead.get() {
                        None => ("replied", Some(What::Handled)),
                        Some(Instead::Found) => ("found in its thread", Some(What::Outage)),
                        Some(Instead::Linked) => {
                            ("linked the first file with the same content", Some(What::SameContent))
                        }
                    },
                    // Without attributes, this instance's memory answered. It does not say whose repeat this is.
                    How::Replayed if done.first.is_empty() && !self.table.remembers(upload, file) => {
                        ("done before", Some(What::Outage))
                    }
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
        let found = match (self.effect.find(uploaded, claim).await, self.same_content(uploaded)) {
            // It may have got a link.
            (Ok(Probed::NotDone), Some(same)) => same.reply.find(uploaded, claim).await,
            (found, _) => found,
        };
        if found.is_err() {
            metric::SLACK_PROBE_FAILURES.add(1);
        }
        found
    }

    async fn perform(
        &self,
        uploaded: UploadedFile<'_>,
        claim: &Claim,
        context: &Context,
        instead: &OnceLock<Instead>,
    ) -> Result<Value, Failure<effect::Error>> {
        // Then the claim says nothing about other instances; the thread does.
        if self.table.may_be_unrecorded(uploaded.upload, claim)
            && let Probed::Done(outcome) = self.find(uploaded, claim).await.map_err(Failure::Retry)?
        {
            let _ = instead.set(Instead::Found);
            return Ok(outcome);
        }
        if claim.fence() > 0
            && let Some(same) = self.same_content(uploaded)
            && let Some(content) = same.identify(uploaded, claim).await?
            // In a box: it has a run of its own, which would double the size of this one.
            && let Some(address) = Box::pin(self.handled_before(same, &content, uploaded, claim, context)).await?
        {
            let _ = instead.set(Instead::Linked);
            return same.reply.say(uploaded, &format!("The same content was handled before: {address}"), claim).await;
        }
        self.effect.perform(uploaded, claim).await
    }

    /// What recognises contents, if that is on in the channel of an upload.
    fn same_content(&self, uploaded: UploadedFile<'_>) -> Option<&SameContent> {
        self.same_content.as_ref().filter(|same| same.channels.contains(&uploaded.upload.channel))
    }

    /// The address of the message whose file was handled with this content. `None`: there is none, and this file is now the first
    /// one with it.
    async fn handled_before(
        &self,
        same: &SameContent,
        content: &str,
        uploaded: UploadedFile<'_>,
        claim: &Claim,
        context: &Context,
    ) -> Result<Option<String>, Failure<effect::Error>> {
        let first = same.contents.first(content, uploaded).await.or_retry()?;
        let Some(first) = first else { return Ok(None) };
        match Box::pin(self.look_at_first(same, content, &first, uploaded, claim, context))
            .await
            .map_err(Failure::Retry)?
        {
            First::Done => match same.address(&first, claim).await? {
                Some(address) => Ok(Some(address)),
                None => take_place(same, content, &first, uploaded, claim).await.map(|()| None),
            },
            First::Failed => take_place(same, content, &first, uploaded, claim).await.map(|()| None),
            First::Replaced => Ok(None),
        }
    }

    /// Finds out what became of the first file with a content, by a run under the key of that file. If nothing became of it, the
    /// run gives its place to `uploaded`: as long as it holds the claim, nobody else handles the first file.
    async fn look_at_first(
        &self,
        same: &SameContent,
        content: &str,
        first: &Upload,
        uploaded: UploadedFile<'_>,
        claim: &Claim,
        context: &Context,
    ) -> Result<First, effect::Error> {
        let Some(file) = first.files.first() else { return Ok(First::Failed) };
        let run = self.table.file(first, file, &context.request_id);
        let run = run.map_err(|error| effect::Error::Other(error.to_string()))?;
        let looked = run
            .lease_until(claim.deadline())
            .probe(|claim| async move {
                self.find(UploadedFile { upload: first, file }, &claim).await.map_err(NotDone::Unknown)
            })
            .work(|_| async move {
                let replaced = same.contents.replace(content, first, uploaded).await;
                Err::<Value, _>(Failure::Retry(match replaced {
                    Ok(true) => NotDone::Replaced,
                    Ok(false) => NotDone::Unknown(effect::Error::SameContent(claim.deadline())),
                    Err(error) => NotDone::Unknown(error.into()),
                }))
            })
            .await;
        match looked {
            Ok(_) | Err(ichido::Error::DoneWithoutValue(_)) => Ok(First::Done),
            Err(ichido::Error::Failed { .. }) => Ok(First::Failed),
            Err(ichido::Error::Work(NotDone::Replaced)) => Ok(First::Replaced),
            Err(ichido::Error::InFlight { until }) => Err(effect::Error::SameContent(until)),
            Err(ichido::Error::Probe(NotDone::Unknown(error))) if is_gone(&error) => Ok(First::Failed),
            Err(ichido::Error::Work(NotDone::Unknown(error)) | ichido::Error::Probe(NotDone::Unknown(error))) => {
                Err(error)
            }
            Err(error) => {
                Err(effect::Error::Other(format!("could not look at the first file with the same content: {error}")))
            }
        }
    }
}

/// What became of the first file with a content.
enum First {
    /// It was handled.
    Done,
    /// It was not handled and never will be.
    Failed,
    /// It was not handled, and another file is the first one now.
    Replaced,
}

/// Why a run under the key of the first file has no outcome.
#[derive(Debug, thiserror::Error)]
enum NotDone {
    #[error("another file with the same content takes its place")]
    Replaced,
    #[error(transparent)]
    Unknown(effect::Error),
}

/// Makes a file the first one with its content in the place of one that is never handled again.
async fn take_place(
    same: &SameContent,
    content: &str,
    first: &Upload,
    uploaded: UploadedFile<'_>,
    claim: &Claim,
) -> Result<(), Failure<effect::Error>> {
    if same.contents.replace(content, first, uploaded).await.or_retry()? {
        return Ok(());
    }
    Err(Failure::Retry(effect::Error::SameContent(claim.deadline())))
}

/// Was the message deleted, together with its thread?
fn is_gone(error: &effect::Error) -> bool {
    matches!(error, effect::Error::Slack(slack_api::Error::Refused { code }) if code == "thread_not_found")
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
            Self::InFlight(_) | Self::Effect(effect::Error::SameContent(_)) => "InFlight",
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
