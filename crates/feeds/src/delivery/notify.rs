//! The notifier's half of a delivery: one entry to each of its destinations, each under a claim of its own.
//!
//! Promise: a delivery whose outcome is recorded is not made again. If a delivery may have been made, the destination is asked
//! first, where it can be asked. A failing destination does not hold up the other one. The answer says what each
//! delivery came to. It is an error of the invocation if a request makes no sense, or a delivery was not made.
//!
//! A feed of the list says in the request which destinations it has and what its posts look like; the feeds with functions of their own are
//! configured by variables.
//!
//! Mastodon remembers an `Idempotency-Key` for an hour. In the first 50 minutes after the first possible attempt (which is when the
//! entry became owed) we post again, because that has no second effect. After that the account's statuses are searched, in a list that is
//! at most 40 minutes old: what was posted since it was read has a key that Mastodon remembers. Slack's
//! channel is searched at once. Pushover and a webhook cannot be asked; see [`crate::outside::pushover`] and [`crate::outside::webhook`].

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use function::{Aws, Secret, secret};
use futures::future::join_all;
use ichido::{Clock, Once, Probed, Timestamp};
use sha2::{Digest, Sha256};
use telemetry::metric;

use super::{
    github,
    message::{DeliveryReport, DeliveryResult, Request, Response},
    text::{self, Limit, Parts, Template, TemplateError},
};
use crate::{
    entry::{EntryId, Source, digest_part},
    list::{self, Address, Destination, FeedName, Listed},
    outside::{
        destination::Error as DeliveryError,
        fetch::Policy,
        mastodon::{self, KEY_REMEMBERED, LIMIT_KEPT, LIST_KEPT, Mastodon, Posted, Search},
        pushover::{self, Message, Pushed, Pushover, WhenUnsure},
        slack::{self, Sent, Slack},
        webhook::{self, Accepted, Webhook},
    },
    parse::{hatena, html},
    reading::filter::Pattern,
    table::{Table, delivery_run},
};

/// Longest that a destination is left alone because it asked for it.
const MAX_BLOCKED: Duration = Duration::from_secs(3_600);

pub(crate) const MASTODON: &str = Destination::Mastodon.name();
/// Of an entry without a title, so many characters of its content are its title.
const TITLE_OF_CONTENT: Limit = Limit { characters: 100, url: 23 };

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the event has neither an entryId nor an entryUrl; one of them must name the entry")]
    NoId,
    #[error(transparent)]
    Key(#[from] ichido::key::Error),
    #[error("the event's feed is not right: {0}")]
    Feed(#[from] list::Error),
    #[error("the template of the event's feed is not right: {0}")]
    Template(#[from] TemplateError),
}

/// What a notifier is made of. A destination without a token is not there.
pub struct Notifier {
    pub source: Source,
    pub once: Once,
    pub table: Table,
    pub mastodon: Option<Mastodon>,
    pub pushover: Option<Pushover>,
    pub slack: Option<Slack>,
    pub webhook: Option<Webhook>,
    /// Where the addresses of webhooks are that are secrets.
    pub secrets: Secrets,
    /// Only titles that match are pushed.
    pub pushover_title: Pattern,
    /// The template of a feed that is not of the list.
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
    blocked: Mutex<HashMap<String, Timestamp>>,
}

/// An entry that is being delivered.
struct Job {
    id: EntryId,
    /// The name of the feed.
    feed: FeedName,
    /// The state of the feed.
    table: Table,
    template: Template,
    destinations: Vec<Destination>,
    channel: String,
    webhook: Option<secret::Source>,
    title: String,
    link: String,
    parts: Parts,
    categories: Vec<String>,
    published: String,
    owed_since: Option<Timestamp>,
    resend: bool,
    doubtful: bool,
    deadline: Timestamp,
}

impl Notifier {
    /// Delivers an entry to every destination that is not settled yet.
    pub async fn notify(&self, request: &Request, deadline: Timestamp) -> Result<Response, Error> {
        let job = self.job(request, deadline)?;
        let open = |name: &str| !request.settled.iter().any(|settled| settled == name);
        let wanted = job.destinations.iter().copied().filter(|destination| open(destination.name()));
        let deliveries = wanted.map(|destination| self.deliver(destination, &job));
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
            Source::Hatebu | Source::Listed => None,
        };
        let link = link.unwrap_or_else(|| request.entry_url.trim().to_owned());
        let author = html::one_line(&request.entry_author);
        let (categories, enclosure) = (&request.entry_categories, &request.entry_enclosure);
        let parts = match self.source {
            Source::Listed => listed_parts(&title, &link, &author, &content, categories, enclosure),
            _ => Parts { title, link: link.clone(), author, content, ..Parts::default() },
        };
        let owed_since = request.owed_since.map(Timestamp::from_millis);
        let Request { resend, doubtful, .. } = *request;
        let feed = self.feed(request)?;
        Ok(Job {
            id,
            feed: feed.name,
            table: feed.table,
            template: feed.template,
            destinations: feed.destinations,
            channel: feed.channel,
            webhook: feed.webhook,
            title: parts.title.clone(),
            link,
            parts,
            categories: request.entry_categories.clone(),
            published: request.entry_published.clone(),
            owed_since,
            resend,
            doubtful,
            deadline,
        })
    }

    /// The feed that a request is about, with its destinations.
    fn feed(&self, request: &Request) -> Result<Feed, Error> {
        let built_in = |name, destinations: &[Destination]| Feed {
            name: FeedName::built_in(name),
            table: self.table.clone(),
            template: self.template.clone(),
            destinations: destinations.to_vec(),
            channel: String::new(),
            webhook: None,
        };
        Ok(match self.source {
            // Without a token there is no Pushover.
            Source::Github if self.pushover.is_some() => {
                built_in("github", &[Destination::Mastodon, Destination::Pushover])
            }
            Source::Github => built_in("github", &[Destination::Mastodon]),
            Source::Hatebu => built_in("hatebu", &[Destination::Mastodon]),
            Source::Listed => {
                let listed = Listed::of_entry(request.feed.clone(), &self.secrets.policy)?;
                Feed {
                    table: self.table.of_feed(listed.name.clone()),
                    name: listed.name,
                    template: Template::parse(&listed.text)?,
                    destinations: listed.destinations,
                    channel: listed.channel.unwrap_or_default(),
                    webhook: listed.webhook.map(|address| self.secrets.address(&address)),
                }
            }
        })
    }

    /// What is the same for all deliveries: the pause that a destination asked for, the log line, the numbers.
    async fn deliver(&self, destination: Destination, job: &Job) -> Result<DeliveryReport, Error> {
        let started = self.clock.now();
        let whom = whom(destination, job);
        let result = match self.blocked(&whom, started) {
            Some(wait) => DeliveryResult::failed("the destination asked to be left alone for a while", Some(wait)),
            None => match destination {
                Destination::Mastodon => self.to_mastodon(job).await?,
                Destination::Pushover => self.to_pushover(job).await?,
                Destination::Slack => self.to_slack(job).await?,
                Destination::Webhook => self.to_webhook(job).await?,
            },
        };
        let destination = destination.name();
        let took = self.clock.now().since(started);
        self.leave_alone(whom, &result);
        let counted = match &result {
            DeliveryResult::Delivered { .. } => Some(metric::DELIVERIES),
            DeliveryResult::Failed { .. }
            | DeliveryResult::Misconfigured { .. }
            | DeliveryResult::Refused { .. }
            | DeliveryResult::Unsure { .. } => Some(metric::DELIVERY_FAILURES),
            _ => None,
        };
        if let Some(counted) = counted {
            counted.add(1);
        }
        log(job.id.as_str(), destination, &result, took);
        Ok(DeliveryReport { destination: destination.to_owned(), result })
    }

    async fn to_mastodon(&self, job: &Job) -> Result<DeliveryResult, Error> {
        let Some(mastodon) = &self.mastodon else { return Ok(not_there(Destination::Mastodon)) };
        let limit = self.limit(mastodon, job.deadline).await;
        let text = match job.template.render(&job.parts, limit) {
            Ok(text) => text,
            Err(error) => return Ok(DeliveryResult::Refused { reason: error.to_string() }),
        };
        if self.shadow {
            return Ok(DeliveryResult::Shadow { text });
        }
        let (text, link) = (text.as_str(), job.link.as_str());
        let idempotency_key = idempotency_key(MASTODON, job);
        let idempotency_key = idempotency_key.as_str();
        // Whether an earlier attempt may have posted it, and only Mastodon's memory of keys keeps it from being posted again.
        let relies_on_key = &AtomicBool::new(false);
        let now = self.clock.now();
        // If it is not known since when the delivery is owed, the search goes back as far as it can.
        let since = job.owed_since.unwrap_or(Timestamp::from_millis(0));
        let must_ask = job.resend || job.doubtful;
        let key_remembered = !must_ask && now.since(since) < KEY_REMEMBERED;
        let run = delivery_run(&self.once, job.table.feed_name(), MASTODON, &job.id)?
            .lease_until(job.deadline)
            .doubtful(must_ask)
            .probe(async |claim: ichido::Claim| {
                if key_remembered {
                    relies_on_key.store(true, Ordering::Relaxed);
                    return Ok(Probed::NotDone);
                }
                // Whoever had the claim before may have posted until now, and not later.
                let now = self.clock.now();
                let not_before = if must_ask { now } else { now.saturating_sub(LIST_KEPT) };
                Ok(match mastodon.find(text, link, since, not_before, claim.deadline()).await? {
                    Search::Found(posted) => Probed::Done(posted),
                    Search::NotThere { read_at } => {
                        relies_on_key.store(read_at < now, Ordering::Relaxed);
                        Probed::NotDone
                    }
                })
            })
            .work(async |claim: ichido::Claim| {
                let posted = mastodon.post(text, idempotency_key, claim.deadline()).await;
                posted.map_err(|error| match error.into_failure() {
                    // An earlier attempt may still have posted it: this failure says nothing about that, and no search could have seen it.
                    ichido::Failure::Retry(error) if relies_on_key.load(Ordering::Relaxed) => {
                        ichido::Failure::Uncertain(error)
                    }
                    failure => failure,
                })
            });
        Ok(result_of(run.await, |posted: Posted| posted.id))
    }

    async fn to_pushover(&self, job: &Job) -> Result<DeliveryResult, Error> {
        let Some(pushover) = &self.pushover else { return Ok(not_there(Destination::Pushover)) };
        if !self.pushover_title.is_off() && !self.pushover_title.matches(&job.title) {
            return Ok(DeliveryResult::Ignored { reason: "its title does not match PUSHOVER_TITLE".into() });
        }
        let message = match self.source {
            Source::Github | Source::Hatebu => Message::new(&job.title, &job.link),
            Source::Listed => match job.template.render_plain(&job.parts, pushover::LIMIT) {
                Ok(text) => Message::new(&text, &job.link),
                Err(error) => return Ok(DeliveryResult::Refused { reason: error.to_string() }),
            },
        };
        let message = &message;
        if self.shadow {
            return Ok(DeliveryResult::Shadow { text: pushover::shown(message) });
        }
        // `PUSHOVER_WHEN_UNSURE=repeat` is meant for a lost answer. After a restore it would repeat everything that is in the feed.
        let repeats = pushover.when_unsure == WhenUnsure::Repeat && !job.doubtful;
        // An operator who sends a dead letter again has decided to repeat it.
        let repeat = repeats || job.resend;
        let run = delivery_run(&self.once, job.table.feed_name(), Destination::Pushover.name(), &job.id)?
            .lease_until(job.deadline)
            .doubtful(job.doubtful)
            .probe(async |_: ichido::Claim| {
                if repeat {
                    return Ok(Probed::NotDone);
                }
                let why = if job.doubtful { "the table was restored" } else { "an earlier attempt got no answer" };
                Err(DeliveryError::Unsure { reason: format!("{why}, and Pushover cannot be asked") })
            })
            .work(async |claim: ichido::Claim| {
                pushover.send(message, claim.deadline()).await.map_err(DeliveryError::into_failure)
            });
        let result = result_of(run.await, |pushed: Pushed| pushed.id);
        // With `repeat` a message without an answer is simply sent again.
        Ok(match result {
            DeliveryResult::Unsure { reason } if repeats => DeliveryResult::failed(reason, None),
            result => result,
        })
    }

    async fn to_slack(&self, job: &Job) -> Result<DeliveryResult, Error> {
        let Some(slack) = &self.slack else { return Ok(not_there(Destination::Slack)) };
        let text = match job.template.render_plain(&job.parts, slack::LIMIT) {
            Ok(text) => text,
            Err(error) => return Ok(DeliveryResult::Refused { reason: error.to_string() }),
        };
        if self.shadow {
            return Ok(DeliveryResult::Shadow { text });
        }
        let name = Destination::Slack.name();
        let (text, key) = (text.as_str(), idempotency_key(name, job));
        let key = key.as_str();
        let since = job.owed_since.unwrap_or(Timestamp::from_millis(0));
        let run = delivery_run(&self.once, job.table.feed_name(), name, &job.id)?
            .lease_until(job.deadline)
            .doubtful(job.resend || job.doubtful)
            .probe(async |claim: ichido::Claim| match slack.find(&job.channel, key, since, claim.deadline()).await? {
                Some(sent) => Ok(Probed::Done(sent)),
                None => Ok(Probed::NotDone),
            })
            .work(async |claim: ichido::Claim| {
                let sent = slack.post(&job.channel, text, key, claim.deadline()).await;
                sent.map_err(DeliveryError::into_failure)
            });
        Ok(result_of(run.await, |sent: Sent| sent.ts))
    }

    async fn to_webhook(&self, job: &Job) -> Result<DeliveryResult, Error> {
        let (Some(webhook), Some(url)) = (&self.webhook, &job.webhook) else {
            return Ok(not_there(Destination::Webhook));
        };
        let text = match job.template.render_plain(&job.parts, webhook::LIMIT) {
            Ok(text) => text,
            Err(error) => return Ok(DeliveryResult::Refused { reason: error.to_string() }),
        };
        if self.shadow {
            return Ok(DeliveryResult::Shadow { text });
        }
        let body = &webhook::Body {
            feed: job.feed.as_str(),
            id: job.id.as_str(),
            title: &job.title,
            link: &job.link,
            author: &job.parts.author,
            content: &job.parts.content,
            categories: &job.categories,
            enclosure: &job.parts.enclosure,
            published: &job.published,
            text: &text,
        };
        let name = Destination::Webhook.name();
        let key = idempotency_key(name, job);
        let key = key.as_str();
        // A lost answer is repeated with the same key. After a restore that would repeat everything that is in the feed, long after
        // receivers have forgotten their keys. An operator who sends a dead letter again has decided to repeat it.
        let repeats = !job.doubtful;
        let repeat = repeats || job.resend;
        let run = delivery_run(&self.once, job.table.feed_name(), name, &job.id)?
            .lease_until(job.deadline)
            .doubtful(job.doubtful)
            .probe(async |_: ichido::Claim| {
                if repeat {
                    return Ok(Probed::NotDone);
                }
                let reason = "the table was restored, and a webhook cannot be asked".to_owned();
                Err(DeliveryError::Unsure { reason })
            })
            .work(async |claim: ichido::Claim| {
                let accepted = webhook.post(url, body, key, claim.deadline()).await;
                accepted.map_err(DeliveryError::into_failure)
            });
        Ok(match result_of(run.await, |accepted: Accepted| accepted.id) {
            DeliveryResult::Unsure { reason } if repeats => DeliveryResult::failed(reason, None),
            result => result,
        })
    }

    /// How long a post may be: from memory, else from the table, else from the instance, which is asked once per day.
    async fn limit(&self, mastodon: &Mastodon, until: Timestamp) -> Limit {
        let now = self.clock.now();
        let fresh = |known: &(Limit, Timestamp)| now.since(known.1) < LIMIT_KEPT;
        let remembered = *telemetry::lock(&self.memory.limit);
        if let Some((limit, _)) = remembered.filter(fresh) {
            return limit;
        }
        let stored = self.table.limit().await.ok().flatten();
        let known = match stored.filter(fresh) {
            Some(known) => known,
            None => match mastodon.limit(until).await {
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

    fn blocked(&self, whom: &str, now: Timestamp) -> Option<Duration> {
        let blocked = telemetry::lock(&self.memory.blocked);
        blocked.get(whom).map(|until| until.since(now)).filter(|wait| !wait.is_zero())
    }

    fn leave_alone(&self, whom: String, result: &DeliveryResult) {
        if let DeliveryResult::Failed { retry_after_secs: Some(seconds), .. } = result {
            let until = self.clock.now() + Duration::from_secs(*seconds).min(MAX_BLOCKED);
            let mut blocked = telemetry::lock(&self.memory.blocked);
            // One address per feed; those whose time is over are forgotten.
            let now = self.clock.now();
            blocked.retain(|_, until| *until > now);
            blocked.insert(whom, until);
        }
    }

    /// The account's statuses since then, to compare a rehearsal with.
    pub async fn statuses(
        &self,
        since: Timestamp,
        until: Timestamp,
    ) -> Result<(Vec<mastodon::Status>, mastodon::Coverage), DeliveryError> {
        let Some(mastodon) = &self.mastodon else {
            return Err(DeliveryError::Misconfigured { reason: "there is no token for Mastodon".to_owned() });
        };
        let mut statuses = Vec::new();
        let coverage = mastodon.recent(since, until, |status| statuses.push(status.clone())).await?;
        Ok((statuses, coverage))
    }
}

/// The texts of an entry of a feed of the list. An entry without a title has the beginning of its content for one.
pub(super) fn listed_parts(
    title: &str,
    link: &str,
    author: &str,
    content: &str,
    categories: &[String],
    enclosure: &str,
) -> Parts {
    let title = match title {
        "" => text::shorten(content, TITLE_OF_CONTENT.characters, TITLE_OF_CONTENT),
        title => title.to_owned(),
    };
    Parts {
        title,
        link: link.to_owned(),
        author: author.to_owned(),
        content: content.to_owned(),
        categories: categories.join(", "),
        enclosure: enclosure.to_owned(),
    }
}

/// A feed, as far as the delivery of an entry needs it.
struct Feed {
    name: FeedName,
    table: Table,
    template: Template,
    destinations: Vec<Destination>,
    channel: String,
    webhook: Option<secret::Source>,
}

/// Where the addresses of the list's feeds come from.
#[derive(Debug, Clone)]
pub struct Secrets {
    /// Which addresses may be used.
    pub policy: Policy,
    /// The client that reads secrets, and what stands before their names. `None`: there are none.
    pub named: Option<(Aws, String)>,
}

impl Secrets {
    pub(crate) fn address(&self, address: &Address) -> secret::Source {
        match (address, &self.named) {
            (Address::Secret(name), Some((aws, prefix))) => {
                secret::Source::named(aws.clone(), format!("{prefix}{name}"))
            }
            // It is not a URL, and the error says so.
            (Address::Secret(_), None) => secret::Source::Fixed(Secret::new("")),
            (Address::Url(url), _) => secret::Source::Fixed(Secret::new(url.as_str())),
        }
    }
}

/// Who asks to be left alone: Mastodon and Pushover are the same for all feeds, a channel and a webhook are not.
fn whom(destination: Destination, job: &Job) -> String {
    match destination {
        Destination::Mastodon | Destination::Pushover => destination.name().to_owned(),
        Destination::Slack => format!("slack {}", job.channel),
        Destination::Webhook => format!("webhook {}", job.feed),
    }
}

/// A feed names a destination that the function has no token for.
fn not_there(destination: Destination) -> DeliveryResult {
    let name = destination.name();
    DeliveryResult::Misconfigured { reason: format!("the feed names {name}, and the notifier has no token for it") }
}

/// The same for every attempt at this delivery, and different for every other delivery.
fn idempotency_key(destination: &str, job: &Job) -> String {
    let mut digest = Sha256::new();
    for part in [job.feed.as_str(), job.id.as_str(), destination] {
        digest_part(&mut digest, part);
    }
    hex::encode(&digest.finalize()[..16])
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
            error @ DeliveryError::Unsure { .. } => DeliveryResult::failed(error.to_string(), None),
            error @ DeliveryError::Misconfigured { .. } => DeliveryResult::Misconfigured { reason: error.to_string() },
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
        | DeliveryResult::Misconfigured { reason }
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
