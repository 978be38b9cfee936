//! `github-subscriber`, `hatebu-subscriber` and, for the feeds of the list, `feeds-subscriber` ([`super::listed`]): read the feed, record what is new as owed, and have it delivered.
//!
//! Beside the schedule's event they take `{"command": "dead-letters"}`, `{"command": "resend", "entryId": …}`,
//! `{"command": "drop", "entryId": …}`, `{"command": "rehearsed", "since": milliseconds}` and
//! `{"command": "resend-rehearsed", "entryId": …}`.
//!
//! A run may die between any two of its steps. If it dies while it reads, the next run reads the same entries again. If it
//! dies while it delivers, the next run finds the entries owed, and the notifier's claims tell what was done. A feed that
//! cannot be read does not hold up what is owed. A run that did its work and leaves something for a person to look at
//! ([`Trouble`]) ends in an error.

use std::{collections::HashSet, sync::Arc, time::Duration};

use function::{Aws, Env, Error, Handler, LambdaEvent, Value, secret};
use ichido::{Clock, SystemClock, Timestamp};
use serde_json::json;
use telemetry::metric;

use super::{command, deadline};
use crate::{
    delivery::{letters, notify::MASTODON, owed::Deliverer},
    entry::{EntryId, Source},
    list::FeedName,
    outside::{
        fetch::{self, Fetcher},
        invoke::Lambda,
    },
    reading::{self, Moved, Read, Reader, pace::Pace},
    settings::OwnFeedSettings,
    table::{self, FeedState, Marker, Pending, Table},
    trouble::{Seen, Trouble},
};

/// Most entries that one run delivers.
const MAX_OWED_PER_RUN: usize = 200;
/// The index may lag behind. So long after a dead letter it certainly shows it.
const INDEX_LAG: Duration = Duration::from_secs(600);
/// Time that is kept at the end of an invocation for writing to the table.
const RESERVE: Duration = Duration::from_secs(3);

pub(crate) async fn build(source: Source, env: Env, aws: Aws) -> Result<Handler, Error> {
    let (name, default_period) = if source == Source::Github { ("github", 5) } else { ("hatebu", 15) };
    let OwnFeedSettings { subscriber: settings, url_parameter, filter, period } =
        OwnFeedSettings::read(default_period, &env)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let table = Table::new(aws.dynamodb(), settings.table);
    let fetcher = Fetcher::new(settings.policy, clock.clone(), fastrand::f64);
    let feed = FeedName::built_in(name);
    let subscriber = Arc::new(Subscriber {
        feed: feed.clone(),
        table: table.clone(),
        reader: Reader {
            feed,
            source,
            url: secret::Source::named(aws.clone(), url_parameter),
            table: table.clone(),
            fetcher: fetcher.map_err(|error| Error::failed("Start", error))?,
            first_run: settings.first_run,
            filter,
        },
        deliverer: Deliverer {
            table,
            notifier: Arc::new(Lambda::new(&aws.invoker(), settings.notifier)),
            feed: Value::Null,
            destinations: vec![MASTODON.to_owned()],
            give_up: settings.give_up,
            parallel: settings.parallel,
            clock: clock.clone(),
        },
        pace: Pace { adaptive: settings.adaptive, period, run_every: period, longest: settings.longest },
        told_every: period,
        clock,
    });
    Ok(function::handler(move |event| {
        let subscriber = subscriber.clone();
        async move { subscriber.handle(event).await }
    }))
}

/// What a subscriber is made of.
pub struct Subscriber {
    pub feed: FeedName,
    pub table: Table,
    pub reader: Reader,
    pub deliverer: Deliverer,
    pub pace: Pace,
    /// The period of the alarm on the subscriber's errors.
    pub told_every: Duration,
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscriber").field("feed", &self.feed).finish_non_exhaustive()
    }
}

/// What a run did.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    /// `not due`, `unchanged` or `read`. In the log also `failed`: the feed could not be read.
    #[serde(rename = "feed")]
    pub result: &'static str,
    pub entries: usize,
    pub new: usize,
    pub ignored: usize,
    pub renamed: usize,
    /// Entries that have no delivery left to make.
    pub settled: usize,
    pub dead: usize,
    /// Entries still owed.
    pub owed: usize,
    pub gap: bool,
    /// The document was cut short or broken: what comes after that place was not read.
    pub cut_short: bool,
    /// What a person has to look at.
    #[serde(skip)]
    pub troubles: Vec<Trouble>,
}

impl Subscriber {
    async fn handle(&self, event: LambdaEvent<Value>) -> Result<Value, Error> {
        match command(&event) {
            Some(name) => obey(name, &self.table, &event, self.clock.now()).await,
            None => self.answer(&event).await,
        }
    }

    /// A run, as the answer to a schedule's event.
    pub(super) async fn answer(&self, event: &LambdaEvent<Value>) -> Result<Value, Error> {
        let report = self.run(deadline(event, self.clock.now())).await;
        let feed = self.feed.as_str();
        let report = report.map_err(|error| Error::failed(error.kind(), format_args!("feed {feed}: {error}")))?;
        let Some(worst) = report.troubles.first() else { return Ok(json!(report)) };
        let all: Vec<String> = report.troubles.iter().map(Trouble::to_string).collect();
        Err(Error::failed(worst.kind(), format_args!("feed {feed}: {}", all.join("; "))))
    }

    /// One run, which ends before `deadline`.
    pub async fn run(&self, deadline: Timestamp) -> Result<RunReport, reading::Error> {
        let started = self.clock.now();
        let mut report = RunReport { result: "failed", ..RunReport::default() };
        let ended = self.read_and_deliver(started, deadline.saturating_sub(RESERVE), &mut report).await;
        metric::ENTRIES_OWED.add(report.owed as u64);
        if ended.is_ok() {
            metric::FEED_READS.add(1);
        }
        let feed = self.feed.as_str();
        let &RunReport { result, entries, new, settled, owed, dead, .. } = &report;
        tracing::info!(
            feed,
            result,
            entries,
            new,
            settled,
            owed,
            dead,
            duration_ms = self.clock.now().since(started).as_millis() as u64,
            "run of feed {feed} ({result}): {new} of {entries} entries new; {settled} settled ({dead} dead), {owed} still owed"
        );
        ended.map(|()| report)
    }

    /// The steps of a run. `report` is filled as far as the run gets.
    async fn read_and_deliver(
        &self,
        now: Timestamp,
        until: Timestamp,
        report: &mut RunReport,
    ) -> Result<(), reading::Error> {
        // 1. What is known of the feed. If it is not due and nothing is owed, that was all.
        let state = self.table.feed().await?;
        if state.is_none() {
            self.table.note_feed().await?;
        }
        let feed = state.as_ref().filter(|feed| feed.was_read());
        let due = state.as_ref().and_then(|feed| feed.not_before).is_none_or(|at| at <= now);
        let maybe_owed = state.as_ref().is_none_or(|feed| feed.owed_left || feed.not_before.is_none());
        let (gap_at, moved_at) = (feed.and_then(|feed| feed.gap_at), feed.and_then(|feed| feed.moved_at));
        let looking = self.any_dead(feed.and_then(|feed| feed.dead_at), now);
        let seen = Seen {
            refused_since: state.as_ref().and_then(|feed| feed.refused_since),
            gap_at,
            moved_at,
            ..Seen::default()
        };
        if !due && !maybe_owed {
            report.result = "not due";
            let seen = Seen { dead_letters: looking.await?, ..seen };
            report.troubles = seen.troubles(now, self.told_every);
            return Ok(());
        }

        // 2. Fetch the feed, and look up what is owed and whether something is dead, at the same time.
        let fetching =
            async { if due { self.reader.fetch(state.as_ref(), until.since(now)).await.map(Some) } else { Ok(None) } };
        let (fetched, owed, dead) =
            tokio::join!(fetching, self.table.pending(Pending::Owed, MAX_OWED_PER_RUN), looking);
        let (mut owed, dead) = (owed?, dead?);

        // 3. Record what is new as owed, and remember what was read.
        let read = match fetched {
            Ok(Some(answer)) => self.reader.take_in(feed, answer, now).await.map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        if let Ok(read) = &read {
            report.read(read.as_ref());
            add(&mut owed, read.as_ref().map_or(&[], |read| &read.owed));
        }

        // 4. Deliver what is owed, also if the feed could not be read.
        let (tally, delivered) = self.deliverer.deliver_all(owed, until).await;
        (report.settled, report.dead, report.owed) = (tally.settled, tally.dead, tally.owed);

        // 5. Say when to read next. Only now is it known whether something is still owed until then.
        let mut refused_since = state.as_ref().and_then(|feed| feed.refused_since);
        let not_before = match &read {
            // The next run looks whether the rest is there.
            Ok(Some(read)) if read.cut_short => None,
            Ok(Some(read)) => {
                // Without a pause of its own, a read ends the one that was asked for.
                let over = refused_since.take().map(|_| now);
                self.pace.not_before(now, read.hints).or(over)
            }
            Err(reading::Error::Fetch(fetch::Error::Later { wait, .. })) => {
                refused_since.get_or_insert(now);
                Some(self.pace.after(now, *wait))
            }
            Ok(None) | Err(_) => None,
        };
        if let Some(at) = not_before {
            self.table.pause(at, report.owed > 0, refused_since).await?;
        }
        if let Err(reading::Error::Gone { url_digest, .. }) = &read {
            self.table.note_gone(url_digest).await?;
        }
        let moved_at = match read.as_ref().ok().and_then(Option::as_ref).and_then(|read| read.moved.as_ref()) {
            Some(moved) => self.note_moved(feed, moved, now).await?,
            None => moved_at,
        };
        read.inspect_err(reading::Error::count)?;
        delivered?;

        // 6. Say what a person has to look at.
        let seen = Seen {
            dead_letters: report.dead > 0 || dead,
            oldest_owed: tally.oldest,
            cut_short: report.cut_short,
            refused_since,
            gap_at: if report.gap { Some(now) } else { gap_at },
            moved_at,
        };
        report.troubles = seen.troubles(now, self.told_every);
        Ok(())
    }

    /// Notes that the feed redirects permanently, once per address. Returns since when.
    async fn note_moved(
        &self,
        state: Option<&FeedState>,
        moved: &Moved,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, table::Error> {
        if let Some(known) = state.filter(|state| state.moved.as_ref() == Some(&moved.digest)) {
            return Ok(known.moved_at);
        }
        let (feed, host) = (self.feed.as_str(), moved.host.as_str());
        tracing::warn!(
            feed,
            host,
            "feed {feed} redirects permanently to another address on {host}; change its address"
        );
        self.table.note_moved(&moved.digest, now).await?;
        Ok(Some(now))
    }

    /// Whether there is a dead letter. Without a note that there may be one, nothing is asked.
    async fn any_dead(&self, noted_at: Option<Timestamp>, now: Timestamp) -> Result<bool, table::Error> {
        let Some(noted_at) = noted_at else { return Ok(false) };
        let any = !self.table.pending(Pending::Dead, 1).await?.is_empty();
        if !any && now.since(noted_at) > INDEX_LAG {
            self.table.none_dead(noted_at).await?;
        }
        Ok(any)
    }
}

/// A command of an operator, about one feed.
pub(super) async fn obey(
    name: &str,
    table: &Table,
    event: &LambdaEvent<Value>,
    now: Timestamp,
) -> Result<Value, Error> {
    let failed = |error: letters::Error| Error::failed(error.kind(), error);
    let id = EntryId::from_table(event.payload.get("entryId").and_then(Value::as_str).unwrap_or_default());
    let changed = match name {
        "dead-letters" => return Ok(json!({ "deadLetters": letters::list(table).await.map_err(failed)? })),
        "rehearsed" => {
            let since = event.payload.get("since").and_then(Value::as_u64).unwrap_or_default();
            let rehearsed = letters::rehearsed(table, Timestamp::from_millis(since)).await.map_err(failed)?;
            return Ok(json!({ "rehearsed": rehearsed }));
        }
        "resend" => letters::resend(table, &id, now).await,
        "resend-rehearsed" => letters::resend_rehearsed(table, &id, now).await,
        "drop" => letters::drop(table, &id, now).await,
        other => return Err(Error::failed("Event", format_args!("there is no command {other}"))),
    };
    let marker = changed.map_err(failed)?;
    Ok(json!({ "entryId": marker.entry.id, "state": marker.state }))
}

impl RunReport {
    fn read(&mut self, read: Option<&Read>) {
        let Some(&Read { unchanged, entries, new, ignored, renamed, gap, cut_short, .. }) = read else {
            self.result = "not due";
            return;
        };
        self.result = if unchanged { "unchanged" } else { "read" };
        (self.entries, self.new, self.ignored, self.renamed) = (entries, new, ignored, renamed);
        (self.gap, self.cut_short) = (gap, cut_short);
    }
}

/// Adds what was just recorded to what the index shows, which may or may not have it already.
fn add(owed: &mut Vec<Marker>, recorded: &[Marker]) {
    let indexed: HashSet<EntryId> = owed.iter().map(|marker| marker.entry.id.clone()).collect();
    owed.extend(recorded.iter().filter(|marker| !indexed.contains(&marker.entry.id)).cloned());
    owed.sort_by(|a, b| a.pending_order.cmp(&b.pending_order));
}
