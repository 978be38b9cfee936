//! One read of a feed: fetch it, parse it, record what is new, remember what was read.
//!
//! The order of the writes keeps the promise that no entry is lost. Every new entry is recorded, with its content, before the
//! feed's state is replaced. Only after that do a 304 and an equal document mean "nothing new". A run that dies in
//! between reads the same entries again, and finds in the table those that it had recorded.

pub mod filter;
pub mod first_run;
pub mod identity;
mod news;
pub mod pace;
mod remember;

use std::time::Duration;

use function::secret;
use ichido::Timestamp;
use sha2::{Digest, Sha256};
use telemetry::metric;
use url::Url;

use crate::{
    entry::{Source, digest_part},
    outside::fetch::{self, Fetched, Fetcher},
    parse::{self, Feed},
    table::{self, FeedState, Marker, Snapshot, Table},
};
use filter::Ignore;
use first_run::FirstRun;
use pace::Hints;

/// Why a feed could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Table(#[from] table::Error),
    #[error("could not fetch the feed: {0}")]
    Fetch(#[from] fetch::Error),
    #[error("could not read the feed: {0}")]
    Unreadable(#[from] parse::Error),
    #[error("the feed is empty; it had {known} entries at the last read")]
    Emptied { known: usize },
    #[error("could not get the feed's URL: {0}")]
    Url(String),
}

impl Error {
    /// The `errorType` of the invocation: stable, for people and alarms.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Table(_) => "Store",
            Error::Fetch(_) => "Fetch",
            Error::Unreadable(_) | Error::Emptied { .. } => "Unreadable",
            Error::Url(_) => "Configuration",
        }
    }

    pub(crate) fn count(&self) {
        match self {
            Error::Fetch(_) | Error::Url(_) => metric::FEED_FETCH_FAILURES.add(1),
            Error::Unreadable(_) | Error::Emptied { .. } => metric::FEED_UNREADABLE.add(1),
            Error::Table(_) => {}
        }
    }
}

/// What one read of the feed brought.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// The document was the same as before.
    pub(crate) unchanged: bool,
    pub(crate) entries: usize,
    pub(crate) new: usize,
    pub(crate) ignored: usize,
    pub(crate) renamed: usize,
    /// No entry was known: some may have come and gone between two reads. The first read of a feed never counts as a gap.
    pub(crate) gap: bool,
    pub(crate) hints: Hints,
    /// What was just recorded as owed. The index may not show it yet.
    pub(crate) owed: Vec<Marker>,
}

/// What is needed to read a feed.
#[derive(Debug)]
pub struct Reader {
    pub source: Source,
    pub url: secret::Source,
    pub table: Table,
    pub fetcher: Fetcher,
    pub first_run: FirstRun,
    pub ignore: Ignore,
}

/// A feed's answer, and a digest of the URL that was asked.
#[derive(Debug)]
pub(crate) struct Answer {
    url_digest: String,
    fetched: Fetched,
}

impl Reader {
    /// Asks for the feed. `feed` is what is known of it from the last read.
    pub(crate) async fn fetch(&self, feed: Option<&FeedState>, within: Duration) -> Result<Answer, Error> {
        let secret = self.url.get().await.map_err(|error| Error::Url(error.to_string()))?;
        let url: Url = secret.expose().trim().parse().map_err(|_| fetch::Error::Url)?;
        let url_digest = url_digest(&url);
        // Validators of another URL say nothing about this one.
        let validators = feed.filter(|feed| feed.url_digest == url_digest).map(|feed| feed.validators.clone());
        let fetched = self.fetcher.fetch(&url, &validators.unwrap_or_default(), within).await?;
        Ok(Answer { url_digest, fetched })
    }

    /// Reads the answer: records what is new as owed, then remembers what was read.
    pub(crate) async fn take_in(
        &self,
        feed: Option<&FeedState>,
        Answer { url_digest, fetched }: Answer,
        now: Timestamp,
    ) -> Result<Read, Error> {
        let mut hints = Hints { news_at: feed.and_then(|feed| feed.news_at), ..Hints::default() };
        let document = match fetched {
            Fetched::Unchanged { fresh_for } => {
                return Ok(Read { unchanged: true, hints: Hints { fresh_for, ..hints }, ..Read::default() });
            }
            Fetched::Changed(document) => document,
        };
        let parsed = parse::parse(self.source, &document.body, document.charset.as_deref(), &document.url)?;
        self.report_problems(&parsed);
        let entries = parsed.entries.len();
        hints.fresh_for = document.fresh_for;
        hints.period = parsed.period;
        let content_digest = content_digest(&parsed);
        if feed.is_some_and(|feed| feed.content_digest == content_digest && !parsed.truncated) {
            return Ok(Read { unchanged: true, entries, hints, ..Read::default() });
        }

        let before = match feed {
            Some(feed) => self.table.snapshot(feed).await?,
            None => Snapshot::default(),
        };
        if parsed.entries.is_empty() && !before.present.is_empty() {
            return Err(Error::Emptied { known: before.present.len() });
        }
        let news = self.record(feed.is_none(), &parsed, &before, now).await?;
        if news.new > 0 || feed.is_none() {
            hints.news_at = Some(now);
        }
        // A first read that was cut short does not count as the first: the rest of the feed would look new to the next read.
        if feed.is_some() || !parsed.truncated {
            let next = FeedState {
                validators: document.validators,
                url_digest,
                content_digest,
                news_at: hints.news_at,
                owed_left: true,
                ..FeedState::default()
            };
            remember::remember(&self.table, self.source, feed, next, &parsed, before, now).await?;
        }
        Ok(Read { entries, hints, ..news })
    }

    fn report_problems(&self, parsed: &Feed) {
        let feed = self.source.name();
        for problem in &parsed.problems {
            tracing::warn!(feed, error = %problem, "could not read a part of feed {feed}: {problem}");
        }
        count(metric::ENTRIES_BROKEN, parsed.problems.len());
    }
}

/// Counts only what there is. CloudWatch bills a metric for every hour in which it is sent, also if it is zero.
pub(crate) fn count(metric: metric::Metric, n: usize) {
    if n > 0 {
        metric.add(n as u64);
    }
}

/// Tells URLs apart without showing them: a URL may contain a token.
fn url_digest(url: &Url) -> String {
    hex::encode(&Sha256::digest(url.as_str().as_bytes())[..8])
}

/// A digest of the entries only: a feed that changes nothing but its own date has not changed.
fn content_digest(feed: &Feed) -> String {
    let mut digest = Sha256::new();
    for entry in &feed.entries {
        let date = entry.published.map(|at| at.as_millisecond().to_string()).unwrap_or_default();
        for part in [entry.id.as_str(), &entry.title, &entry.link, &date] {
            digest_part(&mut digest, part);
        }
    }
    hex::encode(&digest.finalize()[..16])
}
