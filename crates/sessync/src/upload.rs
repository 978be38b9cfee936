//! One run: settle what is uncertain, read what is new, send it in batches, remember what became of it.
//!
//! The order of things is the promise. An intent is on the disk before its batch is sent; what became of the
//! batch is on the disk before a file counts as read that far. So a crash between any two steps leaves either
//! a batch that the next run asks the destination about, or lines that the next run reads again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::LocalBoxFuture;
use futures::stream::FuturesUnordered;
use serde_json::json;

use crate::bigquery::{self, BigQuery};
use crate::clock::{Clock, Time};
use crate::deliver::{self, Batch, Delivery, MAX_REQUEST_BYTES, Patience, Undelivered, deliver};
use crate::digest::Key;
use crate::discovery::{self, Log, Scope};
use crate::files::{self, Fingerprint, Mark, Place, Stat};
use crate::journal::disk::Disk;
use crate::journal::record::{Intent, Part, Record};
use crate::journal::{self, Journal};
use crate::line::{self, Line, Reason};
use crate::reader::{Found, Lines};
use crate::redact::{Counts, Redactor};
use crate::row::{Identity, MAX_ROW_BYTES, Origin, Row};
use crate::seen::{Seen, Verdict};
use crate::shared::{self, Shared};
use crate::transport::Transport;

/// How many batches may be on their way at once.
const MAX_FLIGHTS: usize = 4;
/// How many bytes of rows may be on their way at once: what bounds the memory.
const MAX_FLYING_BYTES: usize = 10 * 1024 * 1024;
/// How long one batch is tried for.
const BATCH_PATIENCE: Duration = Duration::from_secs(5 * 60);
/// Where rows go that can never be inserted.
pub const DEAD_LETTERS: &str = "dead-letters.jsonl";
/// How many keys one record of lines that were met again holds.
const MET_KEYS: usize = 10_000;
/// How many examples of anything a summary holds.
const MAX_EXAMPLES: usize = 20;

/// What a run is to do.
#[derive(Debug, Clone)]
pub struct Settings {
    pub batch_rows: usize,
    pub deduplication: bool,
    pub origin: Origin,
    pub scope: Scope,
    /// How old an intent must be before "it is not there" is believed: BigQuery shows streamed rows after moments.
    pub settle: Duration,
    /// How long the run may take as a whole.
    pub patience: Patience,
    pub dry_run: bool,
}

/// What a run did.
#[derive(Debug, Default, Clone, serde::Serialize)]
pub struct Summary {
    pub files: usize,
    pub files_read: usize,
    pub bytes_read: u64,
    pub lines: u64,
    pub uploaded: u64,
    pub batches: u64,
    /// Lines that were left out because they are uploaded already.
    pub duplicates: u64,
    /// Lines with a known uuid and other content: uploaded, and counted here too.
    pub other_content: u64,
    /// Rows that turned out to be at the destination already after an earlier run was cut short.
    pub recovered: u64,
    /// Lines that are no rows, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
    pub skipped_examples: Vec<String>,
    pub set_aside: u64,
    pub set_aside_examples: Vec<String>,
    pub redacted: Counts,
    pub redacted_examples: Vec<String>,
    /// Files of other projects whose directory has the same name.
    pub foreign: u64,
    pub unreadable: Vec<String>,
    /// With `--dry-run`: what would be uploaded, and what is uncertain.
    pub would_upload: u64,
    pub uncertain: u64,
    /// With `--dry-run`: the earliest line that would be uploaded.
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
    #[error("an earlier upload was cut short and BigQuery cannot be asked what became of it: {0}")]
    Unsettled(#[source] bigquery::Error),
    #[error(transparent)]
    Shared(#[from] shared::Error),
    #[error("the time is over; what is left is for the next run")]
    OutOfTime,
}

/// How far a file was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reached {
    Part,
    End,
    /// Not at all: it is another project's.
    Foreign,
}

/// Told how a run goes.
pub trait Progress {
    /// There are this many bytes to read.
    fn total(&mut self, _bytes: u64) {}
    fn read(&mut self, _bytes: u64) {}
    fn uploaded(&mut self, _rows: u64) {}
}

impl Progress for () {}

type Flight<'a> = LocalBoxFuture<'a, (Batch, Result<Delivery, Undelivered>)>;

/// A run.
pub struct Upload<'a, T, C, D> {
    bigquery: &'a BigQuery<T>,
    clock: &'a C,
    journal: &'a mut Journal<D>,
    shared: Option<&'a Shared>,
    redactor: &'a Redactor,
    settings: &'a Settings,
    rng: fastrand::Rng,
    progress: &'a mut dyn Progress,
    summary: Summary,
    /// The batch that is being filled.
    rows: Vec<Row>,
    bytes: usize,
    /// How far files are read, since the last batch.
    marks: BTreeMap<String, Mark>,
    /// Rows in `rows` and on their way.
    flying: Seen,
    flying_bytes: usize,
    flights: FuturesUnordered<Flight<'a>>,
    met: Vec<Key>,
    /// The first thing that went wrong. Nothing new is begun after it.
    failed: Option<Error>,
}

impl<T, C, D> std::fmt::Debug for Upload<'_, T, C, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upload").field("summary", &self.summary).finish_non_exhaustive()
    }
}

impl<'a, T: Transport, C: Clock, D: Disk> Upload<'a, T, C, D> {
    #[allow(clippy::too_many_arguments, reason = "what a run needs from outside, each of another kind")]
    pub fn new(
        bigquery: &'a BigQuery<T>,
        clock: &'a C,
        journal: &'a mut Journal<D>,
        shared: Option<&'a Shared>,
        redactor: &'a Redactor,
        settings: &'a Settings,
        rng: fastrand::Rng,
        progress: &'a mut dyn Progress,
    ) -> Self {
        Upload {
            bigquery,
            clock,
            journal,
            shared,
            redactor,
            settings,
            rng,
            progress,
            summary: Summary::default(),
            rows: Vec::new(),
            bytes: 0,
            marks: BTreeMap::new(),
            flying: Seen::default(),
            flying_bytes: 0,
            flights: FuturesUnordered::new(),
            met: Vec::new(),
            failed: None,
        }
    }

    /// Does it. What was done is told even if not everything could be.
    pub async fn run(mut self, found: &discovery::Found) -> (Summary, Result<(), Error>) {
        let result = self.steps(found).await;
        (self.summary, result)
    }

    async fn steps(&mut self, found: &discovery::Found) -> Result<(), Error> {
        self.summary.files = found.logs.len();
        self.summary.unreadable =
            found.unreadable.iter().map(|(path, error)| format!("{}: {error}", path.display())).collect();
        if self.settings.dry_run {
            self.summary.uncertain = self.journal.state().pending().map(|intent| intent.keys.len() as u64).sum();
        } else {
            self.recover().await?;
        }
        let plans = self.plan(found);
        if plans.is_empty() {
            return Ok(());
        }
        if !self.settings.dry_run {
            self.journal.append(&Record::Begin { at: self.clock.now() })?;
        }
        self.progress.total(plans.iter().map(|(log, plan)| log.stat.size.saturating_sub(plan.from)).sum());
        for (log, plan) in plans {
            if let Err(error) = self.read(log, &plan).await? {
                self.summary.unreadable.push(format!("{}: {error}", log.path.display()));
            }
            if self.failed.is_some() {
                break;
            }
            if self.settings.patience.is_over(self.clock) {
                self.failed = Some(Error::OutOfTime);
                self.summary.out_of_time = true;
                break;
            }
        }
        if self.settings.dry_run {
            return Ok(());
        }
        if self.failed.is_none() {
            self.dispatch().await?;
        }
        while !self.flights.is_empty() {
            self.land().await?;
        }
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.finish(found)
    }

    /// Asks the destination about every batch whose end is not known.
    async fn recover(&mut self) -> Result<(), Error> {
        let pending: Vec<Intent> = self.journal.state().pending().cloned().collect();
        for intent in pending {
            let uuids: Vec<u64> = intent.keys.iter().map(|key| key.uuid()).collect();
            let doubtful: Vec<String> = self.journal.state().doubtful.iter().map(|(batch, _)| batch.clone()).collect();
            let found = loop {
                let mut batches = vec![intent.batch.as_str()];
                batches.extend(doubtful.iter().map(String::as_str));
                let patience = self.batch_patience();
                let seed = self.rng.u64(..);
                let there = deliver::ask(self.bigquery, self.clock, &batches, intent.span, patience, seed)
                    .await
                    .map_err(Error::Unsettled)?;
                let found = deliver::found(&uuids, there);
                // A clock that went back makes no intent older: then the whole time is waited once.
                let age = self.clock.now().since(intent.at);
                let wait = self.settings.settle.saturating_sub(age);
                if found.len() == uuids.len() || wait.is_zero() {
                    break found;
                }
                if wait >= patience.left(self.clock) {
                    return Err(Error::OutOfTime);
                }
                self.clock.sleep(wait).await;
                if self.clock.now().since(intent.at) < self.settings.settle {
                    break found;
                }
            };
            self.summary.recovered += found.len() as u64;
            let only = (found.len() < uuids.len()).then(|| found.into_iter().map(|row| row as u32).collect());
            self.journal.append(&Record::Settled { batch: intent.batch, at: self.clock.now(), only })?;
        }
        Ok(())
    }

    /// What is to be read of each file.
    fn plan<'f>(&mut self, found: &'f discovery::Found) -> Vec<(&'f Log, files::Plan)> {
        let mut plans = Vec::new();
        for log in &found.logs {
            let plan = if self.settings.deduplication {
                files::plan(&self.journal.state().files, &log.name, log.stat, &log.path)
            } else {
                Ok(Some(files::Plan { from: 0, again: Vec::new() }))
            };
            match plan {
                Ok(Some(plan)) => plans.push((log, plan)),
                Ok(None) => {}
                Err(error) => self.summary.unreadable.push(format!("{}: {error}", log.path.display())),
            }
        }
        plans
    }

    /// Reads what is new in a file. The inner error is the file's alone.
    async fn read(&mut self, log: &Log, plan: &files::Plan) -> Result<io::Result<()>, Error> {
        let known = self.journal.state().files.get(&log.name).is_some_and(|mark| !mark.foreign && mark.offset > 0);
        if !known {
            match discovery::is_foreign(log, &self.settings.scope) {
                Err(error) => return Ok(Err(error)),
                Ok(false) => {}
                Ok(true) => {
                    self.summary.foreign += 1;
                    self.mark(log, 0, None, Reached::Foreign);
                    return Ok(Ok(()));
                }
            }
        }
        let file = match File::open(&log.path) {
            Ok(file) => file,
            Err(error) => return Ok(Err(error)),
        };
        self.summary.files_read += 1;
        let size = log.stat.size;
        for (start, end) in plan.again.iter().copied().chain([(plan.from, size)]) {
            let last = end == size && start == plan.from;
            // Fingerprints are taken of the same file meanwhile.
            let mut lines = Lines::new(Place::new(&file, start), start, end);
            let mut reported = start;
            loop {
                let found = match lines.next_line() {
                    Ok(Some(found)) => found,
                    Ok(None) => break,
                    Err(error) => return Ok(Err(error)),
                };
                let (begin, after) = (found.start, found.end);
                let full = self.line(log, &found)?;
                if full || after - reported > 8 * 1024 * 1024 {
                    self.progress.read(after - reported);
                    self.summary.bytes_read += after - reported;
                    reported = after;
                }
                if full {
                    // The row that did not fit is not in the batch: the file is read up to before its line.
                    let held = self.rows.pop();
                    if last {
                        match self.fingerprint(&file, begin) {
                            Ok(fingerprint) => self.mark(log, begin, fingerprint, Reached::Part),
                            Err(error) => return Ok(Err(error)),
                        }
                    }
                    self.dispatch().await?;
                    if let Some(row) = held {
                        self.hold(row);
                    }
                }
                if self.failed.is_some() || (full && self.settings.patience.is_over(self.clock)) {
                    return Ok(Ok(()));
                }
            }
            self.progress.read(lines.offset() - reported);
            self.summary.bytes_read += lines.offset() - reported;
            if last {
                match self.fingerprint(&file, lines.offset()) {
                    Ok(fingerprint) => self.mark(log, lines.offset(), fingerprint, Reached::End),
                    Err(error) => return Ok(Err(error)),
                }
            }
        }
        Ok(Ok(()))
    }

    fn fingerprint(&self, file: &File, offset: u64) -> io::Result<Option<Fingerprint>> {
        if self.settings.dry_run { Ok(None) } else { Fingerprint::of(file, offset) }
    }

    fn mark(&mut self, log: &Log, offset: u64, fingerprint: Option<Fingerprint>, reached: Reached) {
        let path = log.name.clone();
        // A file that is not read to its end must never look unchanged to the next run.
        let stat = if reached == Reached::Part { Stat::default() } else { log.stat.settled(self.clock.now()) };
        let foreign = reached == Reached::Foreign;
        let mark = Mark { path: path.clone(), stat, offset, fingerprint, again: Vec::new(), foreign };
        self.marks.insert(path, mark);
    }

    /// Looks at one line. True if its row did not fit into the batch any more (it is the last of `rows` then).
    fn line(&mut self, log: &Log, found: &Found<'_>) -> Result<bool, Error> {
        self.summary.lines += 1;
        let Some(text) = found.text else {
            self.skip(log, found, Reason::TooLong);
            return Ok(false);
        };
        if text.is_empty() {
            return Ok(false);
        }
        let line = match line::parse(text) {
            Ok(line) => line,
            Err(reason) => {
                self.skip(log, found, reason);
                return Ok(false);
            }
        };
        let key = Key::of(&line);
        let identity = if self.settings.deduplication {
            match self.verdict(key)? {
                Verdict::Known => {
                    self.summary.duplicates += 1;
                    return Ok(false);
                }
                Verdict::New => Identity::Uuid,
                Verdict::OtherContent => {
                    self.summary.other_content += 1;
                    Identity::UuidAndContent
                }
            }
        } else {
            Identity::None
        };
        self.row(log, found, &line, key, identity)
    }

    fn verdict(&mut self, key: Key) -> Result<Verdict, Error> {
        let flying = self.flying.verdict(key);
        if flying == Verdict::Known {
            return Ok(Verdict::Known);
        }
        let known = self.journal.verdict(key)?;
        if known == Verdict::Known && self.journal.meet(key)? && !self.settings.dry_run {
            self.met.push(key);
            if self.met.len() >= MET_KEYS {
                self.write_met()?;
            }
        }
        Ok(if known == Verdict::New { flying } else { known })
    }

    fn row(
        &mut self,
        log: &Log,
        found: &Found<'_>,
        line: &Line<'_>,
        key: Key,
        identity: Identity,
    ) -> Result<bool, Error> {
        if self.settings.dry_run && self.redactor.is_none() {
            // Only counted: what the row would be does not matter.
            self.would_upload(key, Time::parse(&line.timestamp));
            return Ok(false);
        }
        let mut counts = Counts::new();
        let row = Row::new(line, key, identity, &log.name, &self.settings.origin, self.redactor, &mut counts);
        if !counts.is_empty() && self.summary.redacted_examples.len() < MAX_EXAMPLES {
            let kinds: Vec<&str> = counts.keys().map(String::as_str).collect();
            self.summary.redacted_examples.push(format!("{} at {}: {}", log.name, found.start, kinds.join(", ")));
        }
        for (kind, count) in counts {
            *self.summary.redacted.entry(kind).or_default() += count;
        }
        if self.settings.dry_run {
            self.would_upload(key, row.time);
            return Ok(false);
        }
        if row.bytes() > MAX_ROW_BYTES {
            let why = format!("the row has {} bytes; BigQuery takes {MAX_ROW_BYTES}", row.bytes());
            self.dead_letter("", self.clock.now(), &row, &why)?;
            self.journal.append(&Record::SetAside { keys: vec![key] })?;
            return Ok(false);
        }
        let full = self.rows.len() >= self.settings.batch_rows || self.bytes + row.bytes() > MAX_REQUEST_BYTES;
        if full {
            self.rows.push(row);
        } else {
            self.hold(row);
        }
        Ok(full)
    }

    fn would_upload(&mut self, key: Key, time: Option<Time>) {
        self.summary.would_upload += 1;
        self.summary.oldest = match (self.summary.oldest, time) {
            (Some(oldest), Some(time)) => Some(oldest.min(time)),
            (oldest, time) => oldest.or(time),
        };
        self.flying.insert(key, 0);
    }

    /// Puts a row into the batch that is being filled.
    fn hold(&mut self, row: Row) {
        self.bytes += row.bytes();
        self.flying.insert(row.key, 0);
        self.rows.push(row);
    }

    fn skip(&mut self, log: &Log, found: &Found<'_>, reason: Reason) {
        *self.summary.skipped.entry(reason.name()).or_default() += 1;
        if self.summary.skipped_examples.len() < MAX_EXAMPLES {
            self.summary.skipped_examples.push(format!("{} at {}: {reason}", log.name, found.start));
        }
    }

    /// Sends the batch that is being filled, waiting until there is room for it.
    async fn dispatch(&mut self) -> Result<(), Error> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let most = if self.shared.is_some() { 1 } else { MAX_FLIGHTS };
        while self.flights.len() >= most
            || (!self.flights.is_empty() && self.flying_bytes + self.bytes > MAX_FLYING_BYTES)
        {
            self.land().await?;
        }
        if self.failed.is_some() {
            return Ok(());
        }
        // Before the files count as read beyond the lines that were met in them.
        self.write_met()?;
        let batch = Batch { id: self.new_id(), at: self.clock.now(), rows: std::mem::take(&mut self.rows) };
        self.bytes = 0;
        let marks = std::mem::take(&mut self.marks).into_values().collect();
        self.journal.append(&Record::Intent(Intent {
            batch: batch.id.clone(),
            at: batch.at,
            keys: batch.keys(),
            span: batch.span(),
            marks,
        }))?;
        self.send(batch).await
    }

    /// Puts a batch whose intent is written on its way.
    async fn send(&mut self, batch: Batch) -> Result<(), Error> {
        if self.failed.is_some() {
            // Its intent stays: the next run will find that nothing of it is there.
            return Ok(());
        }
        if let Some(shared) = self.shared {
            return Box::pin(self.send_shared(shared, batch)).await;
        }
        self.flying_bytes += batch.bytes();
        self.launch(batch);
        Ok(())
    }

    fn launch(&mut self, batch: Batch) {
        let (bigquery, clock, patience) = (self.bigquery, self.clock, self.batch_patience());
        let doubtful: Vec<String> = self.journal.state().doubtful.iter().map(|(batch, _)| batch.clone()).collect();
        let seed = self.rng.u64(..);
        self.flights.push(Box::pin(async move {
            let delivery = deliver(bigquery, clock, &batch, &doubtful, patience, seed).await;
            (batch, delivery)
        }));
    }

    /// Waits for one batch to arrive, and writes down what became of it.
    async fn land(&mut self) -> Result<(), Error> {
        let Some((batch, delivery)) = self.flights.next().await else { return Ok(()) };
        self.flying_bytes -= batch.bytes();
        self.landed(batch, delivery).await
    }

    async fn landed(&mut self, batch: Batch, delivery: Result<Delivery, Undelivered>) -> Result<(), Error> {
        let at = self.clock.now();
        match delivery {
            Ok(Delivery::Accepted) => {
                self.journal.append(&Record::Settled { batch: batch.id.clone(), at, only: None })?;
                self.count(&batch, batch.rows.len());
                Ok(())
            }
            Ok(Delivery::Partly(found)) => {
                self.count(&batch, found.len());
                let rest = others(&batch, &found);
                self.replace(batch, Vec::new(), found, vec![rest]).await
            }
            Ok(Delivery::Invalid(invalid)) => {
                for (row, why) in &invalid {
                    self.dead_letter(&batch.id, batch.at, &batch.rows[*row], why)?;
                }
                let invalid: Vec<usize> = invalid.into_iter().map(|(row, _)| row).collect();
                let rest = others(&batch, &invalid);
                self.replace(batch, invalid, Vec::new(), vec![rest]).await
            }
            Ok(Delivery::TooLarge) if batch.rows.len() == 1 => {
                self.dead_letter(&batch.id, batch.at, &batch.rows[0], "too large for BigQuery")?;
                self.replace(batch, vec![0], Vec::new(), Vec::new()).await
            }
            // A row is the culprit only where other rows are taken; else it is the table.
            Ok(Delivery::Refused(why)) if batch.rows.len() == 1 && self.summary.uploaded > 0 => {
                self.dead_letter(&batch.id, batch.at, &batch.rows[0], &why)?;
                self.replace(batch, vec![0], Vec::new(), Vec::new()).await
            }
            Ok(Delivery::Refused(why)) if batch.rows.len() == 1 => {
                self.journal.append(&Record::Settled { batch: batch.id.clone(), at, only: Some(Vec::new()) })?;
                self.failed.get_or_insert(Error::BigQuery(bigquery::Error::Refused(why)));
                Ok(())
            }
            Ok(Delivery::TooLarge | Delivery::Refused(_)) => {
                let middle = batch.rows.len() / 2;
                let halves = vec![(0..middle).collect(), (middle..batch.rows.len()).collect()];
                self.replace(batch, Vec::new(), Vec::new(), halves).await
            }
            Err(Undelivered { error, uncertain }) => {
                if !uncertain {
                    // Certainly not there: the next run need not ask.
                    self.journal.append(&Record::Settled { batch: batch.id.clone(), at, only: Some(Vec::new()) })?;
                }
                self.failed.get_or_insert(Error::BigQuery(error));
                Ok(())
            }
        }
    }

    /// Writes down that a batch goes on in parts, and puts those on their way.
    async fn replace(
        &mut self,
        batch: Batch,
        set_aside: Vec<usize>,
        known: Vec<usize>,
        parts: Vec<Vec<usize>>,
    ) -> Result<(), Error> {
        let parts: Vec<(String, Vec<usize>)> =
            parts.into_iter().filter(|rows| !rows.is_empty()).map(|rows| (self.new_id(), rows)).collect();
        let numbers = |rows: &[usize]| rows.iter().map(|row| *row as u32).collect::<Vec<u32>>();
        self.journal.append(&Record::Replaced {
            batch: batch.id.clone(),
            at: self.clock.now(),
            set_aside: numbers(&set_aside),
            known: numbers(&known),
            parts: parts.iter().map(|(batch, rows)| Part { batch: batch.clone(), rows: numbers(rows) }).collect(),
        })?;
        let mut rows: Vec<Option<Row>> = batch.rows.into_iter().map(Some).collect();
        for dealt_with in set_aside.iter().chain(&known) {
            if let Some(row) = rows[*dealt_with].take() {
                self.flying.remove(row.key);
            }
        }
        for (id, numbers) in parts {
            let rows = numbers.into_iter().filter_map(|row| rows[row].take()).collect();
            let part = Batch { id, at: batch.at, rows };
            Box::pin(self.send(part)).await?;
        }
        Ok(())
    }

    /// Sends a batch under the next free number of the log that machines share.
    async fn send_shared(&mut self, shared: &Shared, mut batch: Batch) -> Result<(), Error> {
        loop {
            if self.failed.is_some() || batch.rows.is_empty() {
                return Ok(());
            }
            let number = self.journal.state().shared_next;
            let id = shared.batch_id(number);
            let all: Vec<u32> = (0..batch.rows.len() as u32).collect();
            self.journal.append(&Record::Replaced {
                batch: batch.id.clone(),
                at: self.clock.now(),
                set_aside: Vec::new(),
                known: Vec::new(),
                parts: vec![Part { batch: id.clone(), rows: all }],
            })?;
            batch.id = id;
            let seed = self.rng.u64(..);
            let appended = shared.append(number, self.bigquery, self.clock, &batch, self.settings.patience, seed);
            match Box::pin(appended).await {
                Ok(shared::Appended::Ours(delivery)) => {
                    let taken = delivery == Delivery::Accepted;
                    self.landed(batch, Ok(delivery)).await?;
                    if taken {
                        self.journal.append(&Record::Shared { next: number + 1, keys: Vec::new() })?;
                    }
                    return Ok(());
                }
                Ok(shared::Appended::Theirs(keys)) => {
                    let settled = self.journal.state().last_settled.as_ref();
                    let ours = settled.filter(|settled| settled.batch == batch.id);
                    let keys = shared::news(keys, ours.map_or(&[], |settled| &settled.keys));
                    self.journal.append(&Record::Shared { next: number + 1, keys })?;
                    let mut known = Vec::new();
                    for (at, row) in batch.rows.iter().enumerate() {
                        if self.journal.verdict(row.key)? == Verdict::Known {
                            // One that is known without its content stands for one row only.
                            self.journal.meet(row.key)?;
                            known.push(at);
                        }
                    }
                    if known.is_empty() {
                        continue;
                    }
                    self.summary.duplicates += known.len() as u64;
                    let rest = others(&batch, &known);
                    return self.replace(batch, Vec::new(), known, vec![rest]).await;
                }
                Err(shared::Failed::Undelivered(error)) => return self.landed(batch, Err(error)).await,
                Err(shared::Failed::Shared(error)) => {
                    self.failed.get_or_insert(Error::Shared(error));
                    return Ok(());
                }
            }
        }
    }

    fn count(&mut self, batch: &Batch, uploaded: usize) {
        self.summary.uploaded += uploaded as u64;
        self.summary.batches += 1;
        self.progress.uploaded(uploaded as u64);
        if uploaded == batch.rows.len() {
            batch.rows.iter().for_each(|row| self.flying.remove(row.key));
        }
    }

    /// Keeps a row that can never be inserted, with the reason.
    fn dead_letter(&mut self, batch: &str, at: Time, row: &Row, why: &str) -> Result<(), Error> {
        self.summary.set_aside += 1;
        if self.summary.set_aside_examples.len() < MAX_EXAMPLES {
            self.summary.set_aside_examples.push(format!("{} in {}: {why}", row.uuid, row.source_file));
        }
        let letter = json!({
            "at": at.to_string(), "uuid": row.uuid, "source_file": row.source_file, "reason": why,
            "row": row.columns(batch, at),
        });
        let line = format!("{letter}\n");
        self.journal.disk().append(DEAD_LETTERS, line.as_bytes()).map_err(journal::Error::Disk)?;
        Ok(())
    }

    fn write_met(&mut self) -> Result<(), Error> {
        let keys = std::mem::take(&mut self.met);
        if !keys.is_empty() {
            self.journal.append(&Record::Met { keys })?;
        }
        Ok(())
    }

    /// Writes down which files were read without anything to send, and which are gone.
    fn finish(&mut self, found: &discovery::Found) -> Result<(), Error> {
        self.write_met()?;
        let marks: Vec<Mark> = std::mem::take(&mut self.marks).into_values().collect();
        let there: std::collections::BTreeSet<&str> = found.logs.iter().map(|log| log.name.as_str()).collect();
        let looked_into = |path: &str| match &self.settings.scope {
            Scope::All => true,
            Scope::Project(directory) => {
                let top = path.split('/').next().unwrap_or_default();
                discovery::names(directory).iter().any(|name| name == top)
            }
        };
        let gone: Vec<String> = self
            .journal
            .state()
            .files
            .keys()
            .filter(|path| !there.contains(path.as_str()) && looked_into(path))
            .cloned()
            .collect();
        if !marks.is_empty() || !gone.is_empty() {
            self.journal.append(&Record::Files { marks, gone })?;
        }
        self.journal.finish()?;
        Ok(())
    }

    fn batch_patience(&self) -> Patience {
        Patience { until: self.settings.patience.until.min(self.clock.elapsed() + BATCH_PATIENCE) }
    }

    fn new_id(&mut self) -> String {
        uuid::Builder::from_random_bytes(self.rng.u128(..).to_be_bytes()).into_uuid().to_string()
    }
}

/// The rows that are not among these.
fn others(batch: &Batch, these: &[usize]) -> Vec<usize> {
    (0..batch.rows.len()).filter(|row| !these.contains(row)).collect()
}
