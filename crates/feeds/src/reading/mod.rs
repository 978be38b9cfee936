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
    list::FeedName,
    outside::fetch::{self, Fetched, Fetcher},
    parse::{self, Feed},
    table::{self, FeedState, Marker, Snapshot, Table},
};
use filter::Filter;
use first_run::FirstRun;
use pace::Hints;

/// A feed that had entries is taken for empty if so many readings in a row say so: one alone may be a mistake of the site.
pub const EMPTY_READINGS: u64 = 3;

/// Why a feed could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Table(#[from] table::Error),
    #[error("could not fetch the feed: {0}")]
    Fetch(#[from] fetch::Error),
    #[error("could not read the feed: {0}")]
    Unreadable(#[from] parse::Error),
    #[error(
        "the feed is empty and had {known} entries before; this is reading {reading} of {EMPTY_READINGS} after which that is believed"
    )]
    Emptied { known: usize, reading: u64 },
    #[error(
        "the document is cut short. It is the first of this feed, so nobody knows which entries it leaves out: nothing was recorded"
    )]
    CutShort,
    #[error("could not get the feed's URL: {0}")]
    Url(String),
    #[error(
        "the feed is gone: {host} answered 410. It is not asked again until the feed's address changes; remove the feed from the list"
    )]
    Gone { host: String, url_digest: String },
}

impl Error {
    /// The `errorType` of the invocation: stable, for people and alarms.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Table(_) => "Store",
            Error::Fetch(_) => "Fetch",
            Error::Unreadable(_) | Error::Emptied { .. } | Error::CutShort => "Unreadable",
            Error::Url(_) => "Configuration",
            Error::Gone { .. } => "Gone",
        }
    }

    pub(crate) fn count(&self) {
        match self {
            Error::Fetch(_) | Error::Url(_) | Error::Gone { .. } => metric::FEED_FETCH_FAILURES.add(1),
            Error::Unreadable(_) | Error::Emptied { .. } | Error::CutShort => metric::FEED_UNREADABLE.add(1),
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
    /// The document was cut short or broken: entries after that place were not read.
    pub(crate) cut_short: bool,
    pub(crate) hints: Hints,
    /// The feed says that it has another address from now on.
    pub(crate) moved: Option<Moved>,
    /// What was just recorded as owed. The index may not show it yet.
    pub(crate) owed: Vec<Marker>,
}

/// The address to which a feed redirects permanently. The address itself may contain a token, so only its host is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) host: String,
    pub(crate) digest: String,
}

impl Moved {
    fn to(url: Url) -> Self {
        Moved { host: fetch::host_of(&url), digest: url_digest(&url) }
    }
}

/// What is needed to read a feed.
#[derive(Debug)]
pub struct Reader {
    pub feed: FeedName,
    pub source: Source,
    pub url: secret::Source,
    pub table: Table,
    pub fetcher: Fetcher,
    pub first_run: FirstRun,
    pub filter: Filter,
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
        if feed.is_some_and(|feed| feed.gone.as_ref() == Some(&url_digest)) {
            return Err(Error::Gone { host: fetch::host_of(&url), url_digest });
        }
        // Validators of another URL say nothing about this one.
        let validators = feed.filter(|feed| feed.url_digest == url_digest).map(|feed| feed.validators.clone());
        match self.fetcher.fetch(&url, &validators.unwrap_or_default(), within).await {
            Ok(fetched) => Ok(Answer { url_digest, fetched }),
            Err(fetch::Error::Status { host, status: 410 }) => Err(Error::Gone { host, url_digest }),
            Err(error) => Err(error.into()),
        }
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
            Fetched::Unchanged { fresh_for, moved } => {
                self.not_empty(feed).await?;
                let (hints, moved) = (Hints { fresh_for, ..hints }, moved.map(Moved::to));
                return Ok(Read { unchanged: true, hints, moved, ..Read::default() });
            }
            Fetched::Changed(document) => document,
        };
        let parsed = parse::parse(self.source, &document.body, document.charset.as_deref(), &document.url)?;
        self.report_problems(&parsed);
        let entries = parsed.entries.len();
        let moved = document.moved.map(Moved::to);
        hints.fresh_for = document.fresh_for;
        hints.period = parsed.period;
        let content_digest = content_digest(&parsed);
        if feed.is_some_and(|feed| feed.content_digest == content_digest && !parsed.truncated) {
            self.not_empty(feed).await?;
            return Ok(Read { unchanged: true, entries, hints, moved, ..Read::default() });
        }

        let before = match feed {
            Some(feed) => self.table.snapshot(feed).await?,
            // The rest of the feed would look new to the next read.
            None if parsed.truncated => return Err(Error::CutShort),
            None => Snapshot::default(),
        };
        if parsed.entries.is_empty() && !before.present.is_empty() {
            let reading = feed.map_or(0, |feed| feed.empty_readings) + 1;
            if reading < EMPTY_READINGS {
                self.table.note_empty(reading).await?;
                return Err(Error::Emptied { known: before.present.len(), reading });
            }
        }
        let mut news = self.record(feed, &parsed, &before, now).await?;
        news.cut_short = parsed.truncated;
        // What we know may be in the part that is missing.
        news.gap &= !parsed.truncated;
        if news.new > 0 || feed.is_none() {
            hints.news_at = Some(now);
        }
        let next = FeedState {
            validators: document.validators,
            url_digest,
            content_digest,
            news_at: hints.news_at,
            moved: feed.and_then(|feed| feed.moved.clone()),
            moved_at: feed.and_then(|feed| feed.moved_at),
            gap_at: if news.gap { Some(now) } else { feed.and_then(|feed| feed.gap_at) },
            owed_left: true,
            // The rest of a feed that was cut short may be missing too.
            doubt: feed.and_then(|feed| feed.doubt).filter(|_| parsed.truncated),
            ..FeedState::default()
        };
        remember::remember(&self.table, &self.feed, feed, next, &parsed, before, now).await?;
        Ok(Read { entries, hints, moved, ..news })
    }

    /// The feed shows its entries again, after a reading that showed none.
    async fn not_empty(&self, feed: Option<&FeedState>) -> Result<(), Error> {
        if feed.is_some_and(|feed| feed.empty_readings > 0) {
            self.table.note_empty(0).await?;
        }
        Ok(())
    }

    fn report_problems(&self, parsed: &Feed) {
        let feed = self.feed.as_str();
        for problem in &parsed.problems {
            tracing::warn!(feed, error = %problem, "could not read a part of feed {feed}: {problem}");
        }
        metric::ENTRIES_BROKEN.add(parsed.problems.len() as u64);
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
