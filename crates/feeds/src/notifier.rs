//! The notifier: one entry to each of its destinations, each delivery under a claim of its own.
//!
//! Promise: a delivery whose outcome is recorded is not made again; one that may have been made is asked of the
//! destination first, where it can be asked. A failing destination does not keep the other from its delivery.
//! What the deliveries came to is said destination by destination; only a broken request is an error.
//!
//! When it is asked: Mastodon remembers an `Idempotency-Key` for an hour, so within that hour of the first possible
//! attempt (since the entry is owed) posting again *is* asking. After it the account's statuses are read. Pushover
//! cannot be asked; see [`crate::pushover`].

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::{BoxFuture, join_all};
use ichido::{Clock, Namespace, Once, Probed, Store, Timestamp};
use sha2::{Digest, Sha256};
use telemetry::metric;

use crate::{
    destination::Error as DeliveryError,
    entry::{EntryId, Source, hex},
    filter::Pattern,
    github, hatena, html,
    mastodon::{self, KEY_REMEMBERED, LIMIT_KEPT, Mastodon, Posted},
    message::{Outcome, Report, Request, Response},
    pushover::{self, Message, Pushed, Pushover, WhenUnsure},
    state::State,
    text::{Limit, Parts, Template},
};

/// How long the outcome of a delivery is kept. Longer than a delivery can be owed.
const RETENTION: Duration = Duration::from_secs(90 * 24 * 3_600);
/// How long it is remembered that a delivery may have been made: as long as a dead letter may be sent again.
const UNFINISHED: Duration = Duration::from_secs(180 * 24 * 3_600);
/// Longest that a destination's wish to be left alone is honoured in memory.
const MAX_BLOCKED: Duration = Duration::from_secs(3_600);

pub const MASTODON: &str = "mastodon";
pub const PUSHOVER: &str = "pushover";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the event has neither an entryId nor an entryUrl")]
    NoId,
    #[error(transparent)]
    Key(#[from] ichido::key::Error),
}

/// What a notifier is made of.
pub struct Notifier<S> {
    pub source: Source,
    pub once: Once<S>,
    pub state: State,
    pub mastodon: Mastodon,
    pub pushover: Option<Pushover>,
    /// Pushover is only for titles that match.
    pub pushover_title: Pattern,
    pub template: Template,
    /// Rehearse only.
    pub shadow: bool,
    pub clock: Arc<dyn Clock>,
    pub memory: Memory,
}

impl<S> std::fmt::Debug for Notifier<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notifier").field("source", &self.source).field("shadow", &self.shadow).finish_non_exhaustive()
    }
}

/// What an instance remembers between invocations. Held for moments, never across an await.
#[derive(Debug, Default)]
pub struct Memory {
    limit: Mutex<Option<(Limit, Timestamp)>>,
    /// Destinations that asked to be left alone.
    blocked: Mutex<HashMap<&'static str, Timestamp>>,
}

/// One entry on its way.
struct Job {
    id: EntryId,
    title: String,
    link: String,
    parts: Parts,
    owed_since: Option<Timestamp>,
    resend: bool,
    deadline: Timestamp,
}

impl<S: Store> Notifier<S> {
    /// Delivers an entry to every destination that is not settled yet.
    pub async fn notify(&self, request: &Request, deadline: Timestamp) -> Result<Response, Error> {
        let job = self.job(request, deadline)?;
        let open = |name: &str| !request.settled.iter().any(|settled| settled == name);
        let mut deliveries: Vec<BoxFuture<'_, Result<Report, Error>>> = Vec::new();
        if open(MASTODON) {
            deliveries.push(Box::pin(self.deliver(MASTODON, &job, self.to_mastodon(&job))));
        }
        if open(PUSHOVER) && self.pushover.is_some() {
            deliveries.push(Box::pin(self.deliver(PUSHOVER, &job, self.to_pushover(&job))));
        }
        let deliveries = join_all(deliveries).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Response { deliveries })
    }

    fn job(&self, request: &Request, deadline: Timestamp) -> Result<Job, Error> {
        let id = request.id().ok_or(Error::NoId)?;
        let content = if request.is_text {
            request.entry_content.clone()
        } else {
            let comment = (self.source == Source::Hatebu).then(|| hatena::comment(&request.entry_content)).flatten();
            comment.unwrap_or_else(|| html::to_text(&request.entry_content))
        };
        let title = html::one_line(&request.entry_title);
        let link = match self.source {
            Source::Github => github::follower(&title, &request.entry_url),
            Source::Hatebu => None,
        };
        let link = link.unwrap_or_else(|| request.entry_url.trim().to_owned());
        let parts = Parts {
            title: title.clone(),
            link: link.clone(),
            author: html::one_line(&request.entry_author),
            comment: content,
        };
        let owed_since = request.owed_since.map(Timestamp::from_millis);
        Ok(Job { id, title, link, parts, owed_since, resend: request.resend, deadline })
    }

    /// Wraps one delivery with what is the same for all: the destination's own pause, the log line, the metrics.
    async fn deliver(
        &self,
        destination: &'static str,
        job: &Job,
        delivery: impl Future<Output = Result<Outcome, Error>> + Send,
    ) -> Result<Report, Error> {
        let started = self.clock.now();
        let result = match self.blocked(destination, started) {
            Some(wait) => Outcome::failed("the destination asked to be left alone", Some(wait)),
            None => delivery.await?,
        };
        let took = self.clock.now().since(started);
        self.note(destination, &result);
        let counted = match &result {
            Outcome::Delivered { .. } => Some(metric::DELIVERIES),
            Outcome::Failed { .. } | Outcome::Refused { .. } | Outcome::Unsure { .. } => {
                Some(metric::DELIVERY_FAILURES)
            }
            _ => None,
        };
        if let Some(counted) = counted {
            counted.with("Destination", destination).add(1);
            metric::DELIVERY_LATENCY.with("Destination", destination).took(took);
        }
        let (entry_id, name, duration_ms) = (job.id.as_str(), result.name(), took.as_millis() as u64);
        match result.reason() {
            Some(reason) if !matches!(result, Outcome::Ignored { .. }) => {
                tracing::warn!(
                    entry_id,
                    destination,
                    result = name,
                    duration_ms,
                    error = reason,
                    "the delivery was not made"
                );
            }
            _ => tracing::info!(entry_id, destination, result = name, duration_ms, "delivery"),
        }
        Ok(Report { destination: destination.to_owned(), result })
    }

    async fn to_mastodon(&self, job: &Job) -> Result<Outcome, Error> {
        let limit = self.limit(job.deadline).await;
        let text = match self.template.render(&job.parts, limit) {
            Ok(text) => text,
            Err(error) => return Ok(Outcome::Refused { reason: error.to_string() }),
        };
        if self.shadow {
            return Ok(Outcome::Shadow { text });
        }
        let (text, link) = (text.as_str(), job.link.as_str());
        let idempotency_key = self.idempotency_key(MASTODON, &job.id);
        let idempotency_key = idempotency_key.as_str();
        let doubted = &AtomicBool::new(false);
        let now = self.clock.now();
        // Without a time to go back to, all that the search reads is looked at.
        let since = job.owed_since.unwrap_or(Timestamp::from_millis(0));
        let key_remembered = !job.resend && now.since(since) < KEY_REMEMBERED;
        let run = self
            .once
            .run(&self.key(MASTODON, &job.id)?)
            .attribute("destination", MASTODON)
            .lease_until(job.deadline)
            .doubtful(job.resend)
            .probe(async |claim: ichido::Claim| {
                doubted.store(true, Ordering::Relaxed);
                if key_remembered {
                    return Ok(Probed::NotDone);
                }
                match self.mastodon.find(text, link, since, claim.deadline()).await? {
                    Some(posted) => Ok(Probed::Done(posted)),
                    None => Ok(Probed::NotDone),
                }
            })
            .work(async |claim: ichido::Claim| {
                let posted = self.mastodon.post(text, idempotency_key, claim.deadline()).await;
                posted.map_err(|error| match error.into_failure() {
                    // The doubt of before is not lifted by a failure: Mastodon was not asked.
                    ichido::Failure::Retry(error) if doubted.load(Ordering::Relaxed) && key_remembered => {
                        ichido::Failure::Uncertain(error)
                    }
                    failure => failure,
                })
            });
        Ok(outcome(run.await, |posted: Posted| posted.id))
    }

    async fn to_pushover(&self, job: &Job) -> Result<Outcome, Error> {
        let Some(pushover) = &self.pushover else {
            return Ok(Outcome::Ignored { reason: "there is no Pushover here".into() });
        };
        if !self.pushover_title.is_off() && !self.pushover_title.matches(&job.title) {
            return Ok(Outcome::Ignored { reason: "its title does not match PUSHOVER_TITLE".into() });
        }
        let message = &Message::new(&job.title, &job.link);
        if self.shadow {
            return Ok(Outcome::Shadow { text: pushover::shown(message) });
        }
        // A person who sends a dead letter again has decided.
        let repeat = pushover.when_unsure == WhenUnsure::Repeat || job.resend;
        let run = self
            .once
            .run(&self.key(PUSHOVER, &job.id)?)
            .attribute("destination", PUSHOVER)
            .lease_until(job.deadline)
            .probe(async |_: ichido::Claim| {
                if repeat {
                    return Ok(Probed::NotDone);
                }
                Err(DeliveryError::Unsure {
                    reason: "an earlier attempt was not answered, and Pushover cannot be asked".into(),
                })
            })
            .work(async |claim: ichido::Claim| {
                pushover.send(message, claim.deadline()).await.map_err(DeliveryError::into_failure)
            });
        let result = outcome(run.await, |pushed: Pushed| pushed.id);
        // With `repeat` an unanswered message is simply to be sent again.
        Ok(match result {
            Outcome::Unsure { reason } if pushover.when_unsure == WhenUnsure::Repeat => Outcome::failed(reason, None),
            result => result,
        })
    }

    fn key(&self, destination: &str, id: &EntryId) -> Result<ichido::Key, Error> {
        let namespace = Namespace::new("DELIVERY").retention(RETENTION).keep_unfinished(UNFINISHED).fail_closed();
        Ok(namespace.key([destination, id.as_str()])?)
    }

    /// The same for every attempt at this delivery, and for no other.
    fn idempotency_key(&self, destination: &str, id: &EntryId) -> String {
        let mut digest = Sha256::new();
        for part in [self.source.name(), id.as_str(), destination] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part.as_bytes());
        }
        hex(&digest.finalize()[..16])
    }

    /// How long a post may be: from memory, from the table, from the instance, in this order; read once a day.
    async fn limit(&self, until: Timestamp) -> Limit {
        let now = self.clock.now();
        let fresh = |known: &(Limit, Timestamp)| now.since(known.1) < LIMIT_KEPT;
        let remembered = *self.memory.limit.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((limit, _)) = remembered.filter(fresh) {
            return limit;
        }
        let stored = self.state.limit().await.ok().flatten();
        let known = match stored.filter(fresh) {
            Some(known) => known,
            None => match self.mastodon.limit(until).await {
                Ok(limit) => {
                    if let Err(error) = self.state.save_limit(limit, now).await {
                        tracing::debug!(error = %error, "the limit was not kept");
                    }
                    (limit, now)
                }
                Err(error) => {
                    let limit = stored.or(remembered).map_or(Limit::MASTODON, |(limit, _)| limit);
                    tracing::warn!(error = %error, characters = limit.characters, "the instance's limit could not be read");
                    return limit;
                }
            },
        };
        *self.memory.limit.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        known.0
    }

    fn blocked(&self, destination: &'static str, now: Timestamp) -> Option<Duration> {
        let blocked = self.memory.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        blocked.get(destination).map(|until| until.since(now)).filter(|wait| !wait.is_zero())
    }

    fn note(&self, destination: &'static str, result: &Outcome) {
        if let Outcome::Failed { retry_after_secs: Some(seconds), .. } = result {
            let until = self.clock.now() + Duration::from_secs(*seconds).min(MAX_BLOCKED);
            let mut blocked = self.memory.blocked.lock().unwrap_or_else(PoisonError::into_inner);
            blocked.insert(destination, until);
        }
    }

    /// The account's statuses since then, for the comparison with a rehearsal.
    pub async fn statuses(
        &self,
        since: Timestamp,
        until: Timestamp,
    ) -> Result<(Vec<mastodon::Status>, bool), DeliveryError> {
        let mut statuses = Vec::new();
        let complete = self
            .mastodon
            .recent(since, until, |status| {
                statuses.push(status.clone());
                false
            })
            .await?;
        Ok((statuses, complete))
    }
}

/// What a run came to, in the words of the report.
fn outcome<T>(run: Result<ichido::Done<T>, ichido::Error<DeliveryError>>, id: impl Fn(T) -> String) -> Outcome {
    let error = match run {
        Ok(done) => return Outcome::Delivered { id: done.value.map(id).unwrap_or_default() },
        Err(error) => error,
    };
    match error {
        ichido::Error::InFlight { .. } => Outcome::InFlight,
        ichido::Error::Probe(error @ DeliveryError::Unsure { .. }) => Outcome::Unsure { reason: error.to_string() },
        ichido::Error::Work(error) | ichido::Error::Probe(error) => match error {
            DeliveryError::Refused { reason } => Outcome::Refused { reason },
            DeliveryError::NotNow { reason, retry_after } => Outcome::failed(reason, retry_after),
            error @ (DeliveryError::Unsure { .. } | DeliveryError::Misconfigured { .. }) => {
                Outcome::failed(error.to_string(), None)
            }
        },
        other => Outcome::failed(other.to_string(), None),
    }
}
