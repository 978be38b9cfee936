//! The notifier's half of a delivery: one entry to each of its destinations, each under a claim of its own.
//!
//! Promise: a delivery whose outcome is recorded is not made again. If a delivery may have been made, the destination is asked
//! first, where it can be asked. A failing destination does not hold up the other one. The answer says what each
//! delivery came to; only a request that makes no sense is an error.
//!
//! Mastodon remembers an `Idempotency-Key` for an hour. In the first 50 minutes after the first possible attempt (which is when the
//! entry became owed) we post again, because that has no second effect. After that the account's statuses are searched. Pushover cannot be asked; see
//! [`crate::outside::pushover`].

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::{BoxFuture, join_all};
use ichido::{Clock, Once, Probed, Timestamp};
use sha2::{Digest, Sha256};
use telemetry::metric;

use super::{
    github,
    message::{DeliveryReport, DeliveryResult, Request, Response},
    text::{Limit, Parts, Template},
};
use crate::{
    entry::{EntryId, Source, digest_part},
    outside::{
        destination::Error as DeliveryError,
        mastodon::{self, KEY_REMEMBERED, LIMIT_KEPT, Mastodon, Posted},
        pushover::{self, Message, Pushed, Pushover, WhenUnsure},
    },
    parse::{hatena, html},
    reading::filter::Pattern,
    table::{Table, delivery_run},
};

/// Longest that a destination is left alone because it asked for it.
const MAX_BLOCKED: Duration = Duration::from_secs(3_600);

pub(crate) const MASTODON: &str = "mastodon";
const PUSHOVER: &str = "pushover";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the event has neither an entryId nor an entryUrl; one of them must name the entry")]
    NoId,
    #[error(transparent)]
    Key(#[from] ichido::key::Error),
}

/// What a notifier is made of.
pub struct Notifier {
    pub source: Source,
    pub once: Once,
    pub table: Table,
    pub mastodon: Mastodon,
    pub pushover: Option<Pushover>,
    /// Only titles that match are pushed.
    pub pushover_title: Pattern,
    pub template: Template,
    /// Whether this is a rehearsal: nothing is posted.
    pub shadow: bool,
    pub clock: Arc<dyn Clock>,
    pub memory: Memory,
}

impl std::fmt::Debug for Notifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notifier").field("source", &self.source).field("shadow", &self.shadow).finish_non_exhaustive()
    }
}

/// What an instance remembers between invocations. The locks are held for a copy, never across an await.
#[derive(Debug, Default)]
pub struct Memory {
    limit: Mutex<Option<(Limit, Timestamp)>>,
    /// Destinations that asked to be left alone, and until when.
    blocked: Mutex<HashMap<&'static str, Timestamp>>,
}

/// An entry that is being delivered.
struct Job {
    id: EntryId,
    title: String,
    link: String,
    parts: Parts,
    owed_since: Option<Timestamp>,
    resend: bool,
    deadline: Timestamp,
}

impl Notifier {
    /// Delivers an entry to every destination that is not settled yet.
    pub async fn notify(&self, request: &Request, deadline: Timestamp) -> Result<Response, Error> {
        let job = self.job(request, deadline)?;
        let open = |name: &str| !request.settled.iter().any(|settled| settled == name);
        let mut deliveries: Vec<BoxFuture<'_, Result<DeliveryReport, Error>>> = Vec::new();
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

    /// What is the same for all deliveries: the pause that a destination asked for, the log line, the metrics.
    async fn deliver(
        &self,
        destination: &'static str,
        job: &Job,
        delivery: impl Future<Output = Result<DeliveryResult, Error>> + Send,
    ) -> Result<DeliveryReport, Error> {
        let started = self.clock.now();
        let result = match self.blocked(destination, started) {
            Some(wait) => DeliveryResult::failed("the destination asked to be left alone for a while", Some(wait)),
            None => delivery.await?,
        };
        let took = self.clock.now().since(started);
        self.leave_alone(destination, &result);
        let counted = match &result {
            DeliveryResult::Delivered { .. } => Some(metric::DELIVERIES),
            DeliveryResult::Failed { .. } | DeliveryResult::Refused { .. } | DeliveryResult::Unsure { .. } => {
                Some(metric::DELIVERY_FAILURES)
            }
            _ => None,
        };
        if let Some(counted) = counted {
            counted.with("Destination", destination).add(1);
            metric::DELIVERY_LATENCY.with("Destination", destination).took(took);
        }
        log(job.id.as_str(), destination, &result, took);
        Ok(DeliveryReport { destination: destination.to_owned(), result })
    }

    async fn to_mastodon(&self, job: &Job) -> Result<DeliveryResult, Error> {
        let limit = self.limit(job.deadline).await;
        let text = match self.template.render(&job.parts, limit) {
            Ok(text) => text,
            Err(error) => return Ok(DeliveryResult::Refused { reason: error.to_string() }),
        };
        if self.shadow {
            return Ok(DeliveryResult::Shadow { text });
        }
        let (text, link) = (text.as_str(), job.link.as_str());
        let idempotency_key = self.idempotency_key(MASTODON, &job.id);
        let idempotency_key = idempotency_key.as_str();
        // Whether an earlier attempt may have posted it.
        let doubted = &AtomicBool::new(false);
        let now = self.clock.now();
        // If it is not known since when the delivery is owed, the search goes back as far as it can.
        let since = job.owed_since.unwrap_or(Timestamp::from_millis(0));
        let key_remembered = !job.resend && now.since(since) < KEY_REMEMBERED;
        let run = delivery_run(&self.once, MASTODON, &job.id)?
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
                    // An earlier attempt may still have posted it: this failure says nothing about that, and Mastodon was not searched.
                    ichido::Failure::Retry(error) if doubted.load(Ordering::Relaxed) && key_remembered => {
                        ichido::Failure::Uncertain(error)
                    }
                    failure => failure,
                })
            });
        Ok(result_of(run.await, |posted: Posted| posted.id))
    }

    async fn to_pushover(&self, job: &Job) -> Result<DeliveryResult, Error> {
        let Some(pushover) = &self.pushover else {
            return Ok(DeliveryResult::Ignored { reason: "Pushover is not configured".into() });
        };
        if !self.pushover_title.is_off() && !self.pushover_title.matches(&job.title) {
            return Ok(DeliveryResult::Ignored { reason: "its title does not match PUSHOVER_TITLE".into() });
        }
        let message = &Message::new(&job.title, &job.link);
        if self.shadow {
            return Ok(DeliveryResult::Shadow { text: pushover::shown(message) });
        }
        // An operator who sends a dead letter again has decided to repeat it.
        let repeat = pushover.when_unsure == WhenUnsure::Repeat || job.resend;
        let run = delivery_run(&self.once, PUSHOVER, &job.id)?
            .lease_until(job.deadline)
            .probe(async |_: ichido::Claim| {
                if repeat {
                    return Ok(Probed::NotDone);
                }
                Err(DeliveryError::Unsure {
                    reason: "an earlier attempt got no answer, and Pushover cannot be asked".into(),
                })
            })
            .work(async |claim: ichido::Claim| {
                pushover.send(message, claim.deadline()).await.map_err(DeliveryError::into_failure)
            });
        let result = result_of(run.await, |pushed: Pushed| pushed.id);
        // With `repeat` a message without an answer is simply sent again.
        Ok(match result {
            DeliveryResult::Unsure { reason } if pushover.when_unsure == WhenUnsure::Repeat => {
                DeliveryResult::failed(reason, None)
            }
            result => result,
        })
    }

    /// The same for every attempt at this delivery, and different for every other delivery.
    fn idempotency_key(&self, destination: &str, id: &EntryId) -> String {
        let mut digest = Sha256::new();
        for part in [self.source.name(), id.as_str(), destination] {
            digest_part(&mut digest, part);
        }
        hex::encode(&digest.finalize()[..16])
    }

    /// How long a post may be: from memory, else from the table, else from the instance, which is asked once per day.
    async fn limit(&self, until: Timestamp) -> Limit {
        let now = self.clock.now();
        let fresh = |known: &(Limit, Timestamp)| now.since(known.1) < LIMIT_KEPT;
        let remembered = *telemetry::lock(&self.memory.limit);
        if let Some((limit, _)) = remembered.filter(fresh) {
            return limit;
        }
        let stored = self.table.limit().await.ok().flatten();
        let known = match stored.filter(fresh) {
            Some(known) => known,
            None => match self.mastodon.limit(until).await {
                Ok(limit) => {
                    if let Err(error) = self.table.save_limit(limit, now).await {
                        tracing::debug!(error = %error, "could not save the limit of the Mastodon instance: {error}");
                    }
                    (limit, now)
                }
                Err(error) => {
                    let limit = stored.or(remembered).map_or(Limit::MASTODON, |(limit, _)| limit);
                    let characters = limit.characters;
                    tracing::warn!(
                        error = %error,
                        characters,
                        "could not read the limit of the Mastodon instance; using {characters} characters: {error}"
                    );
                    return limit;
                }
            },
        };
        *telemetry::lock(&self.memory.limit) = Some(known);
        known.0
    }

    fn blocked(&self, destination: &'static str, now: Timestamp) -> Option<Duration> {
        let blocked = telemetry::lock(&self.memory.blocked);
        blocked.get(destination).map(|until| until.since(now)).filter(|wait| !wait.is_zero())
    }

    fn leave_alone(&self, destination: &'static str, result: &DeliveryResult) {
        if let DeliveryResult::Failed { retry_after_secs: Some(seconds), .. } = result {
            let until = self.clock.now() + Duration::from_secs(*seconds).min(MAX_BLOCKED);
            let mut blocked = telemetry::lock(&self.memory.blocked);
            blocked.insert(destination, until);
        }
    }

    /// The account's statuses since then, to compare a rehearsal with.
    pub async fn statuses(
        &self,
        since: Timestamp,
        until: Timestamp,
    ) -> Result<(Vec<mastodon::Status>, mastodon::Coverage), DeliveryError> {
        let mut statuses = Vec::new();
        let coverage = self
            .mastodon
            .recent(since, until, |status| {
                statuses.push(status.clone());
                false
            })
            .await?;
        Ok((statuses, coverage))
    }
}

/// What a run of the library came to, for the report.
fn result_of<T>(
    run: Result<ichido::Done<T>, ichido::Error<DeliveryError>>,
    id: impl Fn(T) -> String,
) -> DeliveryResult {
    let error = match run {
        Ok(done) => return DeliveryResult::Delivered { id: id(done.value) },
        Err(error) => error,
    };
    match error {
        ichido::Error::InFlight { .. } => DeliveryResult::InFlight,
        ichido::Error::DoneWithoutValue(_) => DeliveryResult::Delivered { id: String::new() },
        ichido::Error::Probe(error @ DeliveryError::Unsure { .. }) => {
            DeliveryResult::Unsure { reason: error.to_string() }
        }
        ichido::Error::Work(error) | ichido::Error::Probe(error) => match error {
            DeliveryError::Refused { reason } => DeliveryResult::Refused { reason },
            DeliveryError::NotNow { reason, retry_after } => DeliveryResult::failed(reason, retry_after),
            error @ (DeliveryError::Unsure { .. } | DeliveryError::Misconfigured { .. }) => {
                DeliveryResult::failed(error.to_string(), None)
            }
        },
        other => DeliveryResult::failed(other.to_string(), None),
    }
}

fn log(entry_id: &str, destination: &str, delivery: &DeliveryResult, took: Duration) {
    let (result, duration_ms) = (delivery.name(), took.as_millis() as u64);
    let what = match delivery {
        DeliveryResult::Delivered { .. } => "delivered entry",
        DeliveryResult::Shadow { .. } => "rehearsed the delivery of entry",
        DeliveryResult::InFlight => "another attempt is delivering entry",
        DeliveryResult::Ignored { reason } => {
            tracing::info!(
                entry_id,
                destination,
                result,
                duration_ms,
                "entry {entry_id} is not for {destination}: {reason}"
            );
            return;
        }
        DeliveryResult::Failed { reason, .. }
        | DeliveryResult::Refused { reason }
        | DeliveryResult::Unsure { reason } => {
            tracing::warn!(
                entry_id,
                destination,
                result,
                duration_ms,
                error = reason,
                "could not deliver entry {entry_id} to {destination}: {reason}"
            );
            return;
        }
    };
    tracing::info!(entry_id, destination, result, duration_ms, "{what} {entry_id} to {destination}");
}
