//! The subscriber: reads the feed, records what is new as owed, and has it delivered.
//!
//! One run, in this order, because it may die between any two of its steps:
//!
//! 1. read the feed's state; if it is not to be read yet and nothing is owed, that was all;
//! 2. fetch (unless unchanged) and, at the same time, look up what is owed;
//! 3. record every new entry *with its content* as owed, marked, ignored or the same as another;
//! 4. begin the time of the entries that left, then write down what was read ([`FeedState`]): only now would a 304
//!    or an equal document mean "nothing new";
//! 5. have everything that is owed delivered: the untried first, oldest first, a few at a time, until the deadline;
//! 6. write each entry's deliveries down: delivered, still owed, or a dead letter.
//!
//! A run that dies in 3 or 4 reads the same entries again; one that dies in 5 or 6 finds them owed again, and
//! the notifier's claims say what was done. A feed that cannot be read does not keep what is owed from its destination.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use ichido::{Clock, Timestamp};
use sha2::{Digest, Sha256};
use telemetry::metric;
use url::Url;

use crate::{
    destination::Credential,
    entry::{Entry, EntryId, Source, hex},
    fetch::{self, Document, Fetched, Fetcher, Validators},
    filter::Ignore,
    first_run::{FirstRun, oldest_first},
    identity::{self, Known, REMEMBERED_GONE},
    invoke::{self, Invoke},
    message::{Outcome, Request},
    pace::{Pace, Reading},
    parse::{self, Feed},
    state::{self, Delivery, Fate, FeedState, Marker, Pending, Snapshot, State},
};

/// Most entries that one run has delivered.
pub const MAX_OWED_A_RUN: usize = 200;
/// Kept at the end of an invocation for writing things down.
const RESERVE: Duration = Duration::from_secs(3);
/// A delivery is not begun with less time than this left.
const SHORTEST_DELIVERY: Duration = Duration::from_secs(2);
/// How often the feed's state is written anew when another run was faster.
const ROUNDS: usize = 3;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    State(#[from] state::Error),
    #[error("the feed could not be fetched: {0}")]
    Fetch(#[from] fetch::Error),
    #[error("the feed could not be read: {0}")]
    Unreadable(#[from] parse::Error),
    #[error("the feed holds no entry any more, where there were {known}")]
    Emptied { known: usize },
    #[error("the feed's URL could not be had: {0}")]
    Url(String),
}

impl Error {
    /// Stable, for alarms and people.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::State(_) => "Store",
            Error::Fetch(_) => "Fetch",
            Error::Unreadable(_) | Error::Emptied { .. } => "Unreadable",
            Error::Url(_) => "Configuration",
        }
    }
}

/// When a delivery is given up.
#[derive(Debug, Clone, Copy)]
pub struct GiveUp {
    /// After so many refusals.
    pub refusals: u32,
    /// After it was owed for so long.
    pub owed_for: Duration,
}

impl Default for GiveUp {
    fn default() -> Self {
        GiveUp { refusals: 5, owed_for: Duration::from_secs(14 * 24 * 3_600) }
    }
}

/// What a subscriber is made of.
pub struct Subscriber {
    pub source: Source,
    pub url: Credential,
    pub state: State,
    pub fetcher: Fetcher,
    pub notifier: Arc<dyn Invoke>,
    pub first_run: FirstRun,
    pub ignore: Ignore,
    pub pace: Pace,
    pub give_up: GiveUp,
    /// Deliveries at a time.
    pub parallel: usize,
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscriber").field("source", &self.source).finish_non_exhaustive()
    }
}

/// What a run did.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// `not due`, `unchanged` or `read`.
    pub feed: &'static str,
    pub entries: usize,
    pub new: usize,
    pub ignored: usize,
    pub renamed: usize,
    /// Entries whose every delivery was settled in this run.
    pub settled: usize,
    pub dead: usize,
    /// Entries still owed.
    pub owed: usize,
    pub gap: bool,
}

/// What reading the feed brought.
#[derive(Default)]
struct News {
    reading: Reading,
    /// Recorded as owed just now: the index may not know them yet.
    owed: Vec<Marker>,
}

impl Subscriber {
    /// One run, which ends before `deadline`.
    pub async fn run(&self, deadline: Timestamp) -> Result<Report, Error> {
        let started = self.clock.now();
        let mut report = Report::default();
        let outcome = self.read_and_deliver(started, deadline, &mut report).await;
        let took = self.clock.now().since(started);
        count(metric::ENTRIES_OWED, report.owed);
        if outcome.is_ok() {
            // Also when the feed was not due: that is not silence.
            metric::FEED_READS.add(1);
        }
        tracing::info!(
            feed = self.source.name(),
            result = report.feed,
            entries = report.entries,
            new = report.new,
            settled = report.settled,
            owed = report.owed,
            dead = report.dead,
            duration_ms = took.as_millis() as u64,
            "run"
        );
        outcome.map(|()| report)
    }

    async fn read_and_deliver(&self, now: Timestamp, deadline: Timestamp, report: &mut Report) -> Result<(), Error> {
        let until = deadline.saturating_sub(RESERVE);
        let feed = self.state.feed().await?;
        let due = feed.as_ref().and_then(|feed| feed.not_before).is_none_or(|at| at <= now);
        let maybe_owed = feed.as_ref().is_none_or(|feed| feed.owed_left || feed.not_before.is_none());
        report.feed = "not due";
        if !due && !maybe_owed {
            return Ok(());
        }
        let fetching = async { if due { self.fetch(feed.as_ref(), now, until).await.map(Some) } else { Ok(None) } };
        let (fetched, owed) = tokio::join!(fetching, self.state.pending(Pending::Owed, MAX_OWED_A_RUN));
        let mut owed = owed?;

        let news = match fetched {
            Ok(Some(fetched)) => self.take_in(feed.as_ref(), fetched, now, report).await,
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        if let Ok(Some(news)) = &news {
            let known: HashSet<EntryId> = owed.iter().map(|marker| marker.entry.id.clone()).collect();
            owed.extend(news.owed.iter().filter(|marker| !known.contains(&marker.entry.id)).cloned());
            owed.sort_by(|a, b| a.pending_order.cmp(&b.pending_order));
        }
        let delivered = self.deliver_all(owed, until, report).await;

        // Only now is it known whether something is left.
        match &news {
            Ok(Some(news)) => {
                if let Some(at) = self.pace.not_before(now, news.reading) {
                    self.state.pause(at, report.owed > 0).await?;
                }
            }
            Err(Error::Fetch(fetch::Error::Later { wait, .. })) => {
                self.state.pause(self.pace.after(now, *wait), report.owed > 0).await?;
            }
            _ => {}
        }
        match &news {
            Err(Error::Fetch(_) | Error::Url(_)) => metric::FEED_FETCH_FAILURES.add(1),
            Err(Error::Unreadable(_) | Error::Emptied { .. }) => metric::FEED_UNREADABLE.add(1),
            _ => {}
        }
        news?;
        delivered
    }

    async fn fetch(&self, feed: Option<&FeedState>, now: Timestamp, until: Timestamp) -> Result<(Url, Fetched), Error> {
        let secret = self.url.get().await.map_err(|error| Error::Url(error.to_string()))?;
        let url: Url = secret.expose().trim().parse().map_err(|_| fetch::Error::Url)?;
        // Validators of another URL say nothing about this one.
        let validators = feed.filter(|feed| feed.url_digest == url_digest(&url)).map(|feed| feed.validators.clone());
        let fetched = self.fetcher.fetch(&url, &validators.unwrap_or_default(), until.since(now)).await?;
        Ok((url, fetched))
    }

    /// Takes in what was fetched: records what is new, and writes down what was read.
    async fn take_in(
        &self,
        feed: Option<&FeedState>,
        (url, fetched): (Url, Fetched),
        now: Timestamp,
        report: &mut Report,
    ) -> Result<Option<News>, Error> {
        let news_at = feed.and_then(|feed| feed.news_at);
        let document = match fetched {
            Fetched::Unchanged { fresh_for } => {
                report.feed = "unchanged";
                let reading = Reading { news_at, fresh_for, period: None };
                return Ok(Some(News { reading, owed: Vec::new() }));
            }
            Fetched::Changed(document) => document,
        };
        report.feed = "read";
        let parsed = parse::parse(self.source, &document.body, document.charset.as_deref(), &document.url)?;
        for problem in &parsed.problems {
            tracing::warn!(feed = self.source.name(), error = %problem, "a part of the feed could not be read");
        }
        count(metric::ENTRIES_BROKEN, parsed.problems.len());
        report.entries = parsed.entries.len();

        let digest = content_digest(&parsed);
        let mut reading = Reading { news_at, fresh_for: document.fresh_for, period: parsed.period };
        if feed.is_some_and(|feed| feed.content_digest == digest && !parsed.truncated) {
            report.feed = "unchanged";
            return Ok(Some(News { reading, owed: Vec::new() }));
        }
        let snapshot = match feed {
            Some(feed) => self.state.snapshot(feed).await?,
            None => Snapshot::default(),
        };
        if parsed.entries.is_empty() && !snapshot.present.is_empty() {
            return Err(Error::Emptied { known: snapshot.present.len() });
        }
        let recorded = self.record(feed.is_none(), &parsed, &snapshot, now, report).await?;
        if report.new > 0 || feed.is_none() {
            reading.news_at = Some(now);
        }
        let next = FeedState {
            validators: document.validators.clone(),
            url_digest: url_digest(&url),
            content_digest: digest,
            news_at: reading.news_at,
            owed_left: true,
            ..FeedState::default()
        };
        // A first reading that broke off is not the first reading: the rest of the feed would come as news.
        if feed.is_some() || !parsed.truncated {
            self.write_down(feed, next, &document, &parsed, snapshot, now).await?;
        }
        Ok(Some(News { reading, owed: recorded }))
    }

    /// Records what is new, and returns what is owed of it.
    async fn record(
        &self,
        first: bool,
        parsed: &Feed,
        snapshot: &Snapshot,
        now: Timestamp,
        report: &mut Report,
    ) -> Result<Vec<Marker>, Error> {
        let shown: HashSet<&EntryId> = snapshot.present.iter().map(|known| &known.id).collect();
        let ordered: Vec<&Entry> = oldest_first(&parsed.entries).into_iter().map(|at| &parsed.entries[at]).collect();
        let unseen: Vec<&Entry> = ordered.iter().copied().filter(|entry| !shown.contains(&entry.id)).collect();
        let ids: Vec<&EntryId> = unseen.iter().map(|entry| &entry.id).collect();
        let known = self.state.known(&ids, now).await?;
        let mut new: Vec<&Entry> = Vec::new();
        for entry in &unseen {
            match known.get(&entry.id) {
                // Back in the feed, or recorded by a run that did not get to write the feed's state.
                Some(marker) if marker.ttl.is_none() && marker.left_at.is_none() => {}
                Some(_) if self.state.returned(&entry.id, now).await? => {}
                _ => new.push(entry),
            }
        }
        let present: HashSet<&EntryId> = parsed.entries.iter().map(|entry| &entry.id).collect();
        let remembered: Vec<Known> = snapshot.present.iter().chain(&snapshot.gone).cloned().collect();
        let renamed = identity::renamed(&new, &remembered, &present);
        let marked = if first { self.first_run.marked(ordered.len()) } else { 0 };
        let marked: HashSet<&EntryId> = ordered[..marked].iter().map(|entry| &entry.id).collect();
        let fates: Vec<(&Entry, Fate)> = new
            .iter()
            .enumerate()
            .map(|(position, entry)| {
                let fate = if let Some(as_) = renamed.get(&position) {
                    Fate::Same { as_: as_.clone() }
                } else if marked.contains(&entry.id) {
                    Fate::Marked
                } else if let Some(reason) = self.ignore.reason(entry) {
                    Fate::Ignored { reason: reason.to_owned() }
                } else {
                    Fate::Owed
                };
                (*entry, fate)
            })
            .collect();
        let recorded = self.state.record(&fates, now).await?;

        let nothing_known = !parsed.entries.is_empty() && new.len() - renamed.len() == parsed.entries.len();
        report.gap = nothing_known && !snapshot.present.is_empty();
        report.new = recorded.iter().filter(|marker| marker.state != "same").count();
        report.ignored = recorded.iter().filter(|marker| marker.state == "ignored").count();
        report.renamed = recorded.iter().filter(|marker| marker.state == "same").count();
        count(metric::FEED_GAPS, usize::from(report.gap));
        count(metric::ENTRIES_NEW, report.new);
        count(metric::ENTRIES_IGNORED, report.ignored);
        count(metric::ENTRIES_RENAMED, report.renamed);
        if report.gap {
            tracing::warn!(
                feed = self.source.name(),
                entries = parsed.entries.len(),
                "no entry was seen before: some may have been missed"
            );
        }
        Ok(recorded.into_iter().filter(|marker| marker.pending == Some(Pending::Owed)).collect())
    }

    /// Begins the time of what has left, and writes down what was read.
    async fn write_down(
        &self,
        read: Option<&FeedState>,
        mut next: FeedState,
        document: &Document,
        parsed: &Feed,
        before: Snapshot,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut read = read.cloned();
        let mut before = before;
        for round in 0..=ROUNDS {
            let present: HashSet<&EntryId> = parsed.entries.iter().map(|entry| &entry.id).collect();
            let (mut kept, left): (Vec<Known>, Vec<Known>) = if parsed.truncated || round > 0 {
                // What a broken document does not show may still be there; and so may what another run has seen.
                (before.present.iter().filter(|known| !present.contains(&known.id)).cloned().collect(), Vec::new())
            } else {
                (Vec::new(), before.present.iter().filter(|known| !present.contains(&known.id)).cloned().collect())
            };
            if parsed.truncated || round > 0 {
                // The next run is to look at the whole document again.
                next.validators = Validators::default();
                next.content_digest = String::new();
            }
            self.state.left(left.iter().map(|known| known.id.clone()).collect(), now).await?;
            let mut gone: Vec<Known> =
                left.into_iter().chain(before.gone).filter(|known| !present.contains(&known.id)).collect();
            gone.truncate(REMEMBERED_GONE);
            kept.extend(parsed.entries.iter().map(Known::of));
            let snapshot = Snapshot { present: kept, gone };
            if self.state.save_feed(read.as_ref(), next.clone(), &snapshot).await? {
                return Ok(());
            }
            tracing::debug!(
                feed = self.source.name(),
                bytes = document.body.len(),
                "another run has read the feed meanwhile"
            );
            read = self.state.feed().await?;
            before = match &read {
                Some(feed) => self.state.snapshot(feed).await?,
                None => Snapshot::default(),
            };
        }
        // Everything new is recorded; only what was read is not written down, so the next run reads it again.
        Ok(())
    }

    /// Has everything delivered that is owed, a few at a time, until there is no time left.
    async fn deliver_all(&self, owed: Vec<Marker>, until: Timestamp, report: &mut Report) -> Result<(), Error> {
        let total = owed.len();
        let results: Vec<Result<Option<Marker>, Error>> = stream::iter(owed)
            .map(|marker| async move {
                if until.since(self.clock.now()) < SHORTEST_DELIVERY {
                    return Ok(None);
                }
                self.deliver(marker, until).await.map(Some)
            })
            .buffer_unordered(self.parallel.max(1))
            .collect()
            .await;
        let mut failure = None;
        for result in results {
            match result {
                Ok(Some(marker)) if marker.pending != Some(Pending::Owed) => {
                    report.settled += 1;
                    report.dead += usize::from(marker.pending == Some(Pending::Dead));
                }
                Ok(_) => {}
                Err(error) => failure = Some(error),
            }
        }
        report.owed = total - report.settled;
        failure.map_or(Ok(()), Err)
    }

    async fn deliver(&self, marker: Marker, until: Timestamp) -> Result<Marker, Error> {
        let request = Request::of(&marker);
        let answer = invoke::invoke(&*self.notifier, &request, &self.clock, until).await;
        let now = self.clock.now();
        let reports: Vec<(String, Outcome)> = match answer {
            Ok(response) => response.deliveries.into_iter().map(|report| (report.destination, report.result)).collect(),
            Err(error) => {
                tracing::warn!(entry_id = marker.entry.id.as_str(), error = %error, "the entry was not delivered");
                Vec::new()
            }
        };
        let give_up = self.give_up;
        let settled = self
            .state
            .settle(&marker, now, |marker| {
                for (destination, outcome) in &reports {
                    apply(marker, destination, outcome, give_up, now);
                }
                give_up_old(marker, give_up, now);
                marker.conclude();
                marker.pending_order = state::order_after_try(now, &marker.pending_order);
                if marker.pending != Some(Pending::Owed) {
                    marker.resent = false;
                }
            })
            .await?;
        for (destination, delivery) in &settled.deliveries {
            let before = marker.deliveries.get(destination);
            if let Delivery::Dead { reason, .. } = delivery
                && !matches!(before, Some(Delivery::Dead { .. }))
            {
                metric::DEAD_LETTERS.add(1);
                metric::DEAD_LETTERS.with("Destination", destination.clone()).add(1);
                tracing::error!(
                    entry_id = settled.entry.id.as_str(),
                    destination,
                    result = "dead",
                    error = reason,
                    "a delivery was given up on"
                );
            }
        }
        Ok(settled)
    }
}

/// Writes one report into the marker. What is settled stays settled.
fn apply(marker: &mut Marker, destination: &str, outcome: &Outcome, give_up: GiveUp, now: Timestamp) {
    let (refusals, last) = match marker.deliveries.get(destination) {
        Some(Delivery::Owed { refusals, reason }) => (*refusals, reason.clone()),
        Some(_) => return,
        None => (0, String::new()),
    };
    let delivery = match outcome {
        Outcome::Delivered { id } => Delivery::Delivered { at: now, id: id.clone() },
        Outcome::Ignored { reason } => Delivery::Ignored { reason: reason.clone() },
        Outcome::Shadow { text } => Delivery::Shadow { at: now, text: text.clone() },
        Outcome::Unsure { reason } => Delivery::Dead { at: now, reason: reason.clone() },
        Outcome::Refused { reason } if refusals + 1 >= give_up.refusals => {
            Delivery::Dead { at: now, reason: format!("refused {} times: {reason}", refusals + 1) }
        }
        Outcome::Refused { reason } => Delivery::Owed { refusals: refusals + 1, reason: reason.clone() },
        Outcome::Failed { reason, .. } => Delivery::Owed { refusals, reason: reason.clone() },
        Outcome::InFlight => Delivery::Owed { refusals, reason: last },
    };
    marker.deliveries.insert(destination.to_owned(), delivery);
}

/// What was owed for too long is given up, so that it is looked at.
fn give_up_old(marker: &mut Marker, give_up: GiveUp, now: Timestamp) {
    let owed_for = marker.owed_since.map_or(Duration::ZERO, |since| now.since(since));
    if owed_for < give_up.owed_for {
        return;
    }
    let days = owed_for.as_secs() / 86_400;
    for delivery in marker.deliveries.values_mut() {
        if let Delivery::Owed { reason, .. } = delivery {
            *delivery = Delivery::Dead { at: now, reason: format!("given up after {days} days: {reason}") };
        }
    }
}

/// A metric is paid for by the hour in which it is sent: zeros would cost as much as news.
fn count(metric: metric::Metric, n: usize) {
    if n > 0 {
        metric.add(n as u64);
    }
}

/// Which URL it was, without saying so: it may hold a token.
fn url_digest(url: &Url) -> String {
    hex(&Sha256::digest(url.as_str().as_bytes())[..8])
}

/// Of everything in the entries: a feed that only changes its own date has not changed.
fn content_digest(feed: &Feed) -> String {
    let mut digest = Sha256::new();
    for entry in &feed.entries {
        let date = entry.published.map(|at| at.as_millisecond().to_string()).unwrap_or_default();
        for part in [entry.id.as_str(), &entry.title, &entry.link, &date] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part.as_bytes());
        }
    }
    hex(&digest.finalize()[..16])
}
