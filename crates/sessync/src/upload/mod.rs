//! One run, step by step, one file each: ask what became of unfinished batches (`recover`), read what is new (`read`),
//! collect rows into batches (`batch`), send them (`send`), write down what became of them (`settle`).
//!
//! The order of the writes keeps the promise. The intent of a batch is on the disk before the batch is sent. What
//! became of the batch is on the disk before a file counts as read that far. So a crash between any two steps
//! leaves either a batch that the next run asks BigQuery about, or lines that the next run reads again.

pub mod batch;
mod dead_letter;
mod patience;
mod read;
mod recover;
mod send;
mod settle;
mod shared;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::clock::{Clock, Time};
use crate::journal::disk::Disk;
use crate::journal::record::Record;
use crate::journal::seen::Seen;
use crate::journal::{self, Journal};
use crate::outside::bigquery::{self, BigQuery};
use crate::outside::shared::{Error as SharedError, Shared};
use crate::outside::transport::Transport;
use crate::redact::{Counts, Redactor};
use crate::source::files::{Discovery, Scope};
use batch::{OpenBatch, Origin};
pub use dead_letter::FILE as DEAD_LETTERS;
pub(crate) use dead_letter::set_aside_uuids;
pub use patience::Patience;
use read::{ReadError, ReadSoFar};
use send::Flights;
pub(crate) use send::{Delivery, Undelivered, ask, deliver};

/// How many examples of one kind a summary has at most.
const MAX_EXAMPLES: usize = 20;

/// How a run is to be made.
#[derive(Debug, Clone)]
pub struct Options {
    pub batch_rows: usize,
    pub deduplication: bool,
    pub origin: Origin,
    pub scope: Scope,
    /// How old an intent must be before BigQuery's "it is not there" is believed. BigQuery shows streamed rows
    /// only after some seconds.
    pub settle: Duration,
    /// How long the whole run may take.
    pub patience: Patience,
    /// Count what would be uploaded, and write and send nothing.
    pub dry_run: bool,
}

/// What a run did.
#[derive(Debug, Default, Clone, Serialize)]
pub struct Summary {
    pub files: usize,
    pub files_read: usize,
    pub bytes_read: u64,
    pub lines: u64,
    pub uploaded: u64,
    pub batches: u64,
    /// Lines that were not sent because they were already uploaded.
    pub duplicates: u64,
    /// Lines with a known uuid and other content. They are uploaded and counted here too.
    pub other_content: u64,
    /// Rows of an interrupted run that BigQuery turned out to have.
    pub recovered: u64,
    /// Lines that cannot be rows, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
    pub skipped_examples: Vec<String>,
    pub set_aside: u64,
    pub set_aside_examples: Vec<String>,
    pub redacted: Counts,
    pub redacted_examples: Vec<String>,
    /// Files of other projects whose log directory has the same name.
    pub foreign: u64,
    pub unreadable: Vec<String>,
    /// Only in a dry run: lines that would be uploaded.
    pub would_upload: u64,
    /// Only in a dry run: rows of an interrupted run that BigQuery would be asked about.
    pub uncertain: u64,
    /// Only in a dry run: the timestamp of the oldest line that would be uploaded.
    pub oldest: Option<Time>,
    /// The time was over before everything was done.
    pub out_of_time: bool,
}

/// Why a run stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Journal(#[from] journal::Error),
    #[error(transparent)]
    BigQuery(#[from] bigquery::Error),
    #[error("an earlier upload was interrupted, and BigQuery cannot be asked which of its rows arrived: {0}")]
    Unsettled(#[source] bigquery::Error),
    #[error(transparent)]
    Shared(#[from] SharedError),
    #[error("the time limit was reached; run `sessync` again to upload the rest")]
    OutOfTime,
}

/// Hears how far a run is.
pub trait Progress {
    /// There are this many bytes to read.
    fn total(&mut self, _bytes: u64) {}
    fn read(&mut self, _bytes: u64) {}
    fn uploaded(&mut self, _rows: u64) {}
}

impl Progress for () {}

/// What a run needs from outside.
pub struct Upload<'a, T, C, D> {
    pub bigquery: &'a BigQuery<T>,
    pub clock: &'a C,
    pub journal: &'a mut Journal<D>,
    /// The log that several machines share, if the config names one.
    pub shared: Option<&'a Shared>,
    pub redactor: &'a Redactor,
    pub options: &'a Options,
    pub rng: fastrand::Rng,
    pub progress: &'a mut dyn Progress,
}

impl<T, C, D> std::fmt::Debug for Upload<'_, T, C, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upload").field("options", self.options).finish_non_exhaustive()
    }
}

impl<T: Transport, C: Clock, D: Disk> Upload<'_, T, C, D> {
    /// Makes the run. The summary says what was done, even if the run did not succeed.
    pub async fn run(self, found: &Discovery) -> (Summary, Result<(), Error>) {
        let mut run = Run {
            open: OpenBatch::new(self.options.batch_rows),
            with: self,
            summary: Summary::default(),
            so_far: ReadSoFar::default(),
            under_way: Seen::default(),
            flights: Flights::default(),
            failed: None,
        };
        let result = run.steps(found).await;
        (run.summary, result)
    }
}

/// A run that has begun.
struct Run<'a, T, C, D> {
    with: Upload<'a, T, C, D>,
    summary: Summary,
    /// The batch that is being filled.
    open: OpenBatch,
    /// What was read since the last batch and is not in the journal yet.
    so_far: ReadSoFar,
    /// The keys of the rows in `open` and in `flights`: a copy of such a line is a duplicate already.
    under_way: Seen,
    flights: Flights<'a>,
    /// The first failure. After it the run begins nothing new, but still waits for what is in flight.
    failed: Option<Error>,
}

impl<T: Transport, C: Clock, D: Disk> Run<'_, T, C, D> {
    async fn steps(&mut self, found: &Discovery) -> Result<(), Error> {
        let dry_run = self.with.options.dry_run;
        self.summary.files = found.logs.len();
        self.summary.unreadable =
            found.unreadable.iter().map(|(path, error)| format!("{}: {error}", path.display())).collect();
        if dry_run {
            self.summary.uncertain = self.with.journal.state().pending().map(|intent| intent.keys.len() as u64).sum();
        } else {
            self.recover().await?;
        }
        let plans = self.plan(found);
        if plans.is_empty() {
            return Ok(());
        }
        if !dry_run {
            self.with.journal.append(&Record::Begin { at: self.with.clock.now() })?;
        }
        self.with.progress.total(plans.iter().map(|(log, plan)| log.stat.size.saturating_sub(plan.from)).sum());
        for (log, plan) in plans {
            match self.read(log, &plan).await {
                Ok(()) => {}
                Err(ReadError::File(error)) => {
                    self.summary.unreadable.push(format!("{}: {error}", log.path.display()));
                }
                Err(ReadError::Run(error)) => return Err(error),
            }
            if self.failed.is_some() {
                break;
            }
            if self.with.options.patience.is_over(self.with.clock) {
                self.failed = Some(Error::OutOfTime);
                self.summary.out_of_time = true;
                break;
            }
        }
        if dry_run {
            return Ok(());
        }
        if self.failed.is_none() {
            self.send_open_batch().await?;
        }
        while self.flights.are_left() {
            self.settle_next().await?;
        }
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.finish(found)
    }
}
