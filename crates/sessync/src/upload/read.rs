//! Step 2: read what is new in each file, line by line, and make a row of each line that is not uploaded yet.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use super::batch::{Identity, MAX_ROW_BYTES, Row};
use super::{Error, MAX_EXAMPLES, Run};
use crate::clock::{Clock, Time};
use crate::journal::Meeting;
use crate::journal::disk::Disk;
use crate::journal::record::Record;
use crate::journal::seen::Novelty;
use crate::outside::transport::Transport;
use crate::redact::Counts;
use crate::source::Kind;
use crate::source::files::{self, Discovery, Fingerprint, Log, Mark, Place, Plan, Stat};
use crate::source::line::{Head, Key, Reason};
use crate::source::reader::{Lines, RawLine};

/// How many keys one record of lines that were met again has at most.
const MAX_MET_KEYS: usize = 10_000;
/// How many bytes are read between two reports of progress.
const REPORT_BYTES: u64 = 8 * 1024 * 1024;

/// What was read and is not in the journal yet. The intent of the next batch takes it along.
#[derive(Debug, Default)]
pub(super) struct ReadSoFar {
    /// How far each file is read.
    pub(super) marks: BTreeMap<String, Mark>,
    /// Known lines that were met again.
    pub(super) met: Vec<Key>,
}

/// Why a file was not read to its end.
#[derive(Debug)]
pub(super) enum ReadError {
    /// It concerns this file only: the run goes on with the next one.
    File(io::Error),
    /// The run ends.
    Run(Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        ReadError::File(error)
    }
}

impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        ReadError::Run(error)
    }
}

/// How far a file was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reached {
    Part,
    End,
    /// Not at all: it belongs to another project.
    Foreign,
}

impl<T: Transport, C: Clock, D: Disk> Run<'_, T, C, D> {
    /// Which parts of which files to read.
    pub(super) fn plan<'f>(&mut self, found: &'f Discovery) -> Vec<(&'f Log, Plan)> {
        let mut plans = Vec::new();
        for log in &found.logs {
            let plan = if self.with.options.deduplication {
                files::plan(&self.with.journal.state().files, &log.name, log.stat, &log.path)
            } else {
                Ok(Some(Plan { from: 0, again: Vec::new(), since: None }))
            };
            match plan {
                Ok(Some(plan)) => plans.push((log, plan)),
                Ok(None) => {}
                Err(error) => self.summary.unreadable.push(format!("{}: {error}", log.path.display())),
            }
        }
        plans
    }

    /// Reads what is new in a file, and sends a batch whenever one is full.
    pub(super) async fn read(&mut self, log: &Log, plan: &Plan) -> Result<(), ReadError> {
        let marks = &self.with.journal.state().files;
        let is_known = marks.get(&log.name).is_some_and(|mark| !mark.foreign && mark.offset > 0);
        let source = log.kind.source();
        if !is_known && source.is_foreign(log, &self.with.options.scope)? {
            // Codex keeps all projects in one directory: most of its files are another's.
            self.summary.foreign += u64::from(log.kind == Kind::ClaudeCode);
            self.mark(log, plan, 0, None, Reached::Foreign);
            return Ok(());
        }
        let file = File::open(&log.path)?;
        let head = source.head(log)?;
        self.summary.files_read += 1;
        let size = log.stat.size;
        for (start, end) in plan.again.iter().copied().chain([(plan.from, size)]) {
            let is_last = end == size && start == plan.from;
            // `fingerprint` reads the same file meanwhile.
            let mut lines = Lines::new(Place::new(&file, start), start, end);
            let mut reported = start;
            while let Some(raw) = lines.next_line()? {
                let (begin, after) = (raw.start, raw.end);
                let row = self.row(log, &head, &raw)?;
                let did_not_fit = row.and_then(|row| self.offer(row));
                if did_not_fit.is_some() || after - reported > REPORT_BYTES {
                    self.count_bytes(after - reported);
                    reported = after;
                }
                let Some(row) = did_not_fit else { continue };
                if is_last {
                    // The row is not in the batch: once the batch is settled, the file is read up to the row's line.
                    let fingerprint = self.fingerprint(&file, begin)?;
                    self.mark(log, plan, begin, fingerprint, Reached::Part);
                }
                self.send_open_batch().await?;
                if self.failed.is_some() {
                    return Ok(());
                }
                if let Some(row) = self.looked_up_again(row)? {
                    // The batch is empty now, and an empty batch takes any row.
                    self.offer(row);
                }
                if self.with.options.patience.is_over(self.with.clock) {
                    return Ok(());
                }
            }
            self.count_bytes(lines.offset() - reported);
            if is_last {
                let fingerprint = self.fingerprint(&file, lines.offset())?;
                self.mark(log, plan, lines.offset(), fingerprint, Reached::End);
            }
        }
        Ok(())
    }

    /// The row of a line. `None`: nothing is to be sent, because the line cannot be a row, is uploaded already, or
    /// is only counted.
    fn row(&mut self, log: &Log, head: &Head, raw: &RawLine<'_>) -> Result<Option<Row>, Error> {
        self.summary.lines += 1;
        let Some(text) = raw.text else {
            self.skip(log, raw, Reason::TooLong);
            return Ok(None);
        };
        if text.is_empty() {
            return Ok(None);
        }
        let line = match log.kind.source().line(head, text) {
            Ok(line) => line,
            Err(reason) => {
                self.skip(log, raw, reason);
                return Ok(None);
            }
        };
        let key = Key::of(&line);
        let Some(identity) = self.identity(key)? else {
            self.summary.duplicates += 1;
            return Ok(None);
        };
        let (redactor, options) = (self.with.redactor, self.with.options);
        if options.dry_run && redactor.is_none() {
            // Only counted: there is no need to build the row.
            self.would_upload(key, Time::parse(&line.timestamp));
            return Ok(None);
        }
        let mut redacted = Counts::new();
        let row = Row::new(&line, key, identity, &log.name, &options.origin, redactor, &mut redacted);
        self.count_redacted(log, raw, redacted);
        if options.dry_run {
            self.would_upload(key, row.time);
            return Ok(None);
        }
        if row.bytes() > MAX_ROW_BYTES {
            let why = format!("the row has {} bytes; BigQuery accepts at most {MAX_ROW_BYTES}", row.bytes());
            self.dead_letter("", self.with.clock.now(), &row, &why)?;
            self.with.journal.append(&Record::SetAside { keys: vec![key] })?;
            return Ok(None);
        }
        Ok(Some(row))
    }

    /// How BigQuery is to recognise the line's row. `None`: the line is uploaded or on its way.
    fn identity(&mut self, key: Key) -> Result<Option<Identity>, Error> {
        if !self.with.options.deduplication {
            return Ok(Some(Identity::None));
        }
        let under_way = self.under_way.look_up(key);
        if under_way == Novelty::Known {
            return Ok(None);
        }
        match self.with.journal.look_up(key)? {
            Novelty::Known => {
                self.meet(key)?;
                Ok(None)
            }
            Novelty::New if under_way == Novelty::New => Ok(Some(Identity::Uuid)),
            Novelty::New | Novelty::OtherContent => {
                self.summary.other_content += 1;
                Ok(Some(Identity::UuidAndContent))
            }
        }
    }

    /// The row of a line that did not fit into the last batch, if it is still to be sent. While that batch was sent,
    /// the journal may have learned that another machine has uploaded the line.
    fn looked_up_again(&mut self, mut row: Row) -> Result<Option<Row>, Error> {
        if !self.with.options.deduplication {
            return Ok(Some(row));
        }
        match self.with.journal.look_up(row.key)? {
            Novelty::Known => {
                self.meet(row.key)?;
                self.summary.duplicates += 1;
                return Ok(None);
            }
            Novelty::OtherContent => row.identify(Identity::UuidAndContent),
            Novelty::New => {}
        }
        Ok(Some(row))
    }

    /// Remembers that a known line was met again, so that its key does not grow old.
    fn meet(&mut self, key: Key) -> Result<(), Error> {
        if self.with.journal.meet(key)? == Meeting::FirstToday && !self.with.options.dry_run {
            self.so_far.met.push(key);
            if self.so_far.met.len() >= MAX_MET_KEYS {
                self.write_met()?;
            }
        }
        Ok(())
    }

    /// Puts a row into the open batch, or gives it back because it does not fit any more.
    fn offer(&mut self, row: Row) -> Option<Row> {
        let key = row.key;
        let did_not_fit = self.open.offer(row);
        if did_not_fit.is_none() {
            self.under_way.insert(key, 0);
        }
        did_not_fit
    }

    fn fingerprint(&self, file: &File, offset: u64) -> io::Result<Option<Fingerprint>> {
        if self.with.options.dry_run { Ok(None) } else { Fingerprint::of(file, offset) }
    }

    fn mark(&mut self, log: &Log, plan: &Plan, offset: u64, fingerprint: Option<Fingerprint>, reached: Reached) {
        let path = log.name.clone();
        // A file that is not read to its end must never look unchanged to the next run.
        let stat = if reached == Reached::Part { Stat::default() } else { log.stat.settled(self.with.clock.now()) };
        let foreign = reached == Reached::Foreign;
        let since = plan.since.unwrap_or(self.with.journal.state().calendar.today);
        let mark = Mark { path: path.clone(), stat, offset, fingerprint, again: Vec::new(), since, foreign };
        self.so_far.marks.insert(path, mark);
    }

    fn count_bytes(&mut self, bytes: u64) {
        self.with.progress.read(bytes);
        self.summary.bytes_read += bytes;
    }

    fn skip(&mut self, log: &Log, raw: &RawLine<'_>, reason: Reason) {
        *self.summary.skipped.entry(reason.name()).or_default() += 1;
        if self.summary.skipped_examples.len() < MAX_EXAMPLES {
            self.summary.skipped_examples.push(format!("{} at {}: {reason}", log.name, raw.start));
        }
    }

    fn count_redacted(&mut self, log: &Log, raw: &RawLine<'_>, redacted: Counts) {
        if !redacted.is_empty() && self.summary.redacted_examples.len() < MAX_EXAMPLES {
            let kinds: Vec<&str> = redacted.keys().map(String::as_str).collect();
            self.summary.redacted_examples.push(format!("{} at {}: {}", log.name, raw.start, kinds.join(", ")));
        }
        for (kind, count) in redacted {
            *self.summary.redacted.entry(kind).or_default() += count;
        }
    }

    fn would_upload(&mut self, key: Key, time: Option<Time>) {
        self.summary.would_upload += 1;
        self.summary.oldest = match (self.summary.oldest, time) {
            (Some(oldest), Some(time)) => Some(oldest.min(time)),
            (oldest, time) => oldest.or(time),
        };
        self.under_way.insert(key, 0);
    }
}
