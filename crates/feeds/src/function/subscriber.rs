//! `github-subscriber` and `hatebu-subscriber`: read the feed, record what is new as owed, and have it delivered.
//!
//! Beside the schedule's event they take `{"command": "dead-letters"}`, `{"command": "resend", "entryId": …}` and
//! `{"command": "drop", "entryId": …}`.
//!
//! A run may die between any two of its steps. If it dies while it reads, the next run reads the same entries again. If it
//! dies while it delivers, the next run finds the entries owed, and the notifier's claims tell what was done. A feed that
//! cannot be read does not hold up what is owed.

use std::{collections::HashSet, sync::Arc, time::Duration};

use function::{Aws, Env, Error, Handler, LambdaEvent, Value, secret};
use ichido::{Clock, SystemClock, Timestamp};
use serde_json::json;
use telemetry::metric;

use super::{command, deadline};
use crate::{
    delivery::{letters, owed::Deliverer},
    entry::{EntryId, Source},
    outside::{
        fetch::{self, Fetcher},
        invoke::Lambda,
    },
    reading::{self, Read, Reader, count, pace::Pace},
    settings::SubscriberSettings,
    table::{Marker, Pending, Table},
};

/// Most entries that one run delivers.
const MAX_OWED_PER_RUN: usize = 200;
/// Time that is kept at the end of an invocation for writing to the table.
const RESERVE: Duration = Duration::from_secs(3);

pub(crate) async fn build(source: Source, env: Env, aws: Aws) -> Result<Handler, Error> {
    let settings = SubscriberSettings::read(source, &env)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let table = Table::new(aws.dynamodb(), settings.table);
    let fetcher = Fetcher::new(settings.policy, clock.clone(), fastrand::f64);
    let subscriber = Arc::new(Subscriber {
        source,
        table: table.clone(),
        reader: Reader {
            source,
            url: secret::Source::named(aws.clone(), settings.url_parameter),
            table: table.clone(),
            fetcher: fetcher.map_err(|error| Error::failed("Start", error))?,
            first_run: settings.first_run,
            ignore: settings.ignore,
        },
        deliverer: Deliverer {
            table,
            notifier: Arc::new(Lambda::new(&aws.lambda(), settings.notifier)),
            give_up: settings.give_up,
            parallel: settings.parallel,
            clock: clock.clone(),
        },
        pace: settings.pace,
        clock,
    });
    Ok(function::handler(move |event| {
        let subscriber = subscriber.clone();
        async move { subscriber.handle(event).await }
    }))
}

/// What a subscriber is made of.
pub struct Subscriber {
    pub source: Source,
    pub table: Table,
    pub reader: Reader,
    pub deliverer: Deliverer,
    pub pace: Pace,
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
pub struct RunReport {
    /// `not due`, `unchanged` or `read`. In the log also `failed`: the feed could not be read.
    pub feed: &'static str,
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
}

impl Subscriber {
    async fn handle(&self, event: LambdaEvent<Value>) -> Result<Value, Error> {
        let failed = |error: letters::Error| Error::failed("DeadLetters", error);
        let id = || EntryId::from_table(event.payload.get("entryId").and_then(Value::as_str).unwrap_or_default());
        let now = self.clock.now();
        let changed = match command(&event) {
            None => {
                let report = self.run(deadline(&event, now)).await;
                return Ok(json!(report.map_err(|error| Error::failed(error.kind(), error))?));
            }
            Some("dead-letters") => {
                return Ok(json!({ "deadLetters": letters::list(&self.table).await.map_err(failed)? }));
            }
            Some("resend") => letters::resend(&self.table, &id(), now).await,
            Some("drop") => letters::drop(&self.table, &id(), now).await,
            Some(other) => return Err(Error::failed("Event", format_args!("there is no command {other}"))),
        };
        let marker = changed.map_err(failed)?;
        Ok(json!({ "entryId": marker.entry.id, "state": marker.state }))
    }

    /// One run, which ends before `deadline`.
    pub async fn run(&self, deadline: Timestamp) -> Result<RunReport, reading::Error> {
        let started = self.clock.now();
        let mut report = RunReport { feed: "failed", ..RunReport::default() };
        let result = self.read_and_deliver(started, deadline.saturating_sub(RESERVE), &mut report).await;
        count(metric::ENTRIES_OWED, report.owed);
        if result.is_ok() {
            // This is counted also if the feed was not due, because an alarm rings when nothing is counted.
            metric::FEED_READS.add(1);
        }
        let feed = self.source.name();
        let RunReport { feed: read, entries, new, settled, owed, dead, .. } = report;
        tracing::info!(
            feed,
            result = read,
            entries,
            new,
            settled,
            owed,
            dead,
            duration_ms = self.clock.now().since(started).as_millis() as u64,
            "run of feed {feed} ({read}): {new} of {entries} entries new; {settled} settled ({dead} dead), {owed} still owed"
        );
        result.map(|()| report)
    }

    /// The steps of a run. `report` is filled as far as the run gets.
    async fn read_and_deliver(
        &self,
        now: Timestamp,
        until: Timestamp,
        report: &mut RunReport,
    ) -> Result<(), reading::Error> {
        // 1. What is known of the feed. If it is not due and nothing is owed, that was all.
        let feed = self.table.feed().await?;
        let due = feed.as_ref().and_then(|feed| feed.not_before).is_none_or(|at| at <= now);
        let maybe_owed = feed.as_ref().is_none_or(|feed| feed.owed_left || feed.not_before.is_none());
        if !due && !maybe_owed {
            report.feed = "not due";
            return Ok(());
        }

        // 2. Fetch the feed and look up what is owed, at the same time.
        let fetching =
            async { if due { self.reader.fetch(feed.as_ref(), until.since(now)).await.map(Some) } else { Ok(None) } };
        let (fetched, owed) = tokio::join!(fetching, self.table.pending(Pending::Owed, MAX_OWED_PER_RUN));
        let mut owed = owed?;

        // 3. Record what is new as owed, and remember what was read.
        let read = match fetched {
            Ok(Some(answer)) => self.reader.take_in(feed.as_ref(), answer, now).await.map(Some),
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
        let not_before = match &read {
            Ok(Some(read)) => self.pace.not_before(now, read.hints),
            Err(reading::Error::Fetch(fetch::Error::Later { wait, .. })) => Some(self.pace.after(now, *wait)),
            Ok(None) | Err(_) => None,
        };
        if let Some(at) = not_before {
            self.table.pause(at, report.owed > 0).await?;
        }
        read.inspect_err(reading::Error::count)?;
        Ok(delivered?)
    }
}

impl RunReport {
    fn read(&mut self, read: Option<&Read>) {
        let Some(&Read { unchanged, entries, new, ignored, renamed, gap, .. }) = read else {
            self.feed = "not due";
            return;
        };
        self.feed = if unchanged { "unchanged" } else { "read" };
        (self.entries, self.new, self.ignored, self.renamed, self.gap) = (entries, new, ignored, renamed, gap);
    }
}

/// Adds what was just recorded to what the index shows, which may or may not have it already.
fn add(owed: &mut Vec<Marker>, recorded: &[Marker]) {
    let indexed: HashSet<EntryId> = owed.iter().map(|marker| marker.entry.id.clone()).collect();
    owed.extend(recorded.iter().filter(|marker| !indexed.contains(&marker.entry.id)).cloned());
    owed.sort_by(|a, b| a.pending_order.cmp(&b.pending_order));
}
