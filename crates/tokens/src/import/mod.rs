//! Takes over what another service leaves behind: accounts with their balances, idempotency keys that were used, and
//! records of the first design that are already in the table, but under a key that is not read.
//!
//! # How
//!
//! 1. [`Import::check`] reads the file once and names everything that is wrong with it, line by line. If nothing is, it
//!    looks at the table: what is imported already, and what is in the way. It writes nothing.
//! 2. [`Import::carry_out`] reads the file again and writes what is missing: an account with its opening balance in one
//!    transaction, a used key in one write. Each can be repeated, so an import that was stopped anywhere is run again.
//! 3. Then it reads the file and the table once more. The balances of the file must be, in sum and one by one, what was
//!    granted.
//!
//! The file is read as often as needed and never held in memory: per line, 40 bytes are kept to find repetitions.

mod file;
mod line;
mod seen;

use std::io;
use std::path::Path;
use std::time::Duration;

use futures::future::join_all;
use ichido::Timestamp;
use serde::Serialize;

use crate::amount::Delta;
use crate::ledger::{self, BUDGET, Imported, Ledger, Looked, Opening, Used};
use crate::settings::Window;
use file::Lines;
use line::Line;
use seen::{Index, MAX_LINES};

/// Lines that are looked at together. DynamoDB returns a hundred items at once, and an account needs two.
const BATCH: usize = 50;

/// Writes that are on their way at the same time.
const TOGETHER: usize = 16;

/// Before this time, no service had idempotency keys: 2010.
const EARLIEST: Timestamp = Timestamp::from_millis(1_262_304_000_000);

/// How far the clock of the other service may be ahead.
const CLOCKS_DIFFER: Duration = Duration::from_secs(3600);

/// Problems that are kept. Whoever has more has one kind of them.
const MOST_PROBLEMS: usize = 50;

/// Why an import could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the file cannot be read")]
    File(#[source] io::Error),
    #[error("the file has more than {MAX_LINES} lines; split it, and import its parts one after another")]
    TooManyLines,
    #[error(
        "the file was changed while it was imported; what was imported so far stays; run the import again with a file that does \
         not change"
    )]
    Changed,
    #[error("line {line}: {what}; what was imported before this line stays, and the import can be run again")]
    InTheWay { line: u64, what: String },
    #[error("{0}; what was imported so far stays, and the import can be run again")]
    RecordInTheWay(String),
    #[error(
        "line {line}: the store gave no clear answer; run the import again, which is safe: it goes on where it stopped"
    )]
    Unresolved { line: u64 },
    #[error(
        "the store gave no clear answer when a record of the first design was rewritten; run the import again, which is safe: it \
         goes on where it stopped"
    )]
    UnresolvedRecord,
    #[error(
        "the file has {balances} in {accounts} accounts and {keys} used keys, but the table has {granted} granted to {opened} of \
         these accounts and {remembered} of these keys; verify the table before anybody uses it"
    )]
    Unproven { accounts: u64, balances: Delta, keys: u64, opened: u64, granted: Delta, remembered: u64 },
    /// It stopped for this reason after it had written this.
    #[error("the import stopped when a part of it was written")]
    Stopped {
        done: Box<Done>,
        #[source]
        cause: Box<Error>,
    },
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
}

/// Something that has to be put right before anything is imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The line of the file. `None`: it is about the table.
    pub line: Option<u64>,
    pub what: String,
}

/// What a check found.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Findings {
    /// In the file, repeated lines counted once.
    pub accounts: u64,
    pub balances: Delta,
    pub keys: u64,
    /// Lines that repeat an earlier one, and are ignored.
    pub repeated_lines: Vec<u64>,
    /// Of the file, what is imported already.
    pub accounts_done: u64,
    pub balances_done: Delta,
    pub keys_done: u64,
    /// Keys that this service would have forgotten by now. They are not imported.
    pub keys_too_old: u64,
    /// Records of the first design in the table, and how many of them are not under the key that is read.
    pub earlier_records: u64,
    pub misplaced: u64,
    pub misplaced_done: u64,
    /// Records of the first design whose sender or key no client can send to this service. They stay as they are.
    pub unreachable: u64,
    /// What has to be put right, at most fifty of them.
    pub problems: Vec<Problem>,
    /// How many there are.
    pub problem_count: u64,
    /// SHA-256 of the file.
    #[serde(skip)]
    digest: [u8; 32],
    #[serde(skip)]
    now: Timestamp,
}

impl Findings {
    /// The SHA-256 of the file that was read, as `sha256sum` prints it.
    pub fn sha256(&self) -> String {
        self.digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// What is to be written.
    pub fn missing(&self) -> Missing {
        Missing {
            accounts: self.accounts - self.accounts_done,
            balances: Delta(self.balances.0 - self.balances_done.0),
            keys: self.keys - self.keys_done - self.keys_too_old,
            records: self.misplaced - self.misplaced_done,
        }
    }

    fn problem(&mut self, line: Option<u64>, what: impl Into<String>) {
        self.problem_count += 1;
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(Problem { line, what: what.into() });
        }
    }
}

/// What is not in the table yet.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Missing {
    pub accounts: u64,
    pub balances: Delta,
    pub keys: u64,
    /// Copies of records of the first design.
    pub records: u64,
}

/// What an import did, proved by reading it back.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    /// Opened by this run, and what was granted to them.
    pub accounts: u64,
    pub balances: Delta,
    /// Remembered by this run.
    pub keys: u64,
    /// Written by this run under the key that is read.
    pub rewritten: u64,
    /// In the table now, of what the file has.
    pub accounts_proved: u64,
    pub balances_proved: Delta,
    pub keys_proved: u64,
    /// Whether the table may have something of this run that is not counted: its first answer was lost, and what it met then was there.
    #[serde(skip)]
    more: bool,
}

impl Done {
    /// Whether the table may have something that this run has written.
    fn is_something(&self) -> bool {
        self.accounts + self.keys + self.rewritten > 0 || self.more
    }
}

/// What an import is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    ReadingFile,
    LookingAtTable,
    Writing,
    Proving,
}

/// Is told how far an import is: in lines of the file.
pub type Watch<'a> = &'a mut (dyn FnMut(Phase, u64) + Send);

/// An import.
#[derive(Debug)]
pub struct Import<'a> {
    pub ledger: &'a Ledger,
    pub file: &'a Path,
    /// Of the grants that open the accounts. Their owners can read it.
    pub reason: &'a str,
    /// How long a key is remembered after its transfer.
    pub window: Window,
}

/// Some lines of the file.
#[derive(Default)]
struct Batch {
    openings: Vec<Opening>,
    opening_lines: Vec<u64>,
    used: Vec<Used>,
    used_lines: Vec<u64>,
}

impl Import<'_> {
    /// Reads the file and the table, and writes nothing.
    pub async fn check(&self, watch: Watch<'_>) -> Result<Findings, Error> {
        let mut findings = self.read_file(watch)?;
        if findings.problem_count == 0 {
            self.look_at_table(&mut findings, watch).await?;
        }
        Ok(findings)
    }

    /// Writes what `findings` say is missing, and proves that it is there. An error after something was written is [`Error::Stopped`].
    pub async fn carry_out(&self, findings: &Findings, watch: Watch<'_>) -> Result<Done, Error> {
        let mut done = Done::default();
        match self.write_all(findings, &mut done, watch).await {
            Ok(()) => Ok(done),
            Err(cause) if done.is_something() => Err(Error::Stopped { done: Box::new(done), cause: Box::new(cause) }),
            Err(error) => Err(error),
        }
    }

    async fn write_all(&self, findings: &Findings, done: &mut Done, watch: Watch<'_>) -> Result<(), Error> {
        self.read_unchanged(findings)?;
        self.rewrite(done).await?;
        let mut lines = self.open()?;
        while let Some(batch) = self.next_batch(&mut lines, findings)? {
            self.write(batch, findings, done).await?;
            watch(Phase::Writing, lines.number());
        }
        self.unchanged(lines, findings)?;
        self.prove(findings, done, watch).await
    }

    fn open(&self) -> Result<Lines<'_>, Error> {
        Lines::open(self.file, &self.ledger.rules().treasury).map_err(Error::File)
    }

    /// Everything that can be said of the file alone.
    fn read_file(&self, watch: Watch<'_>) -> Result<Findings, Error> {
        let mut findings = Findings { now: self.ledger.now(), ..Findings::default() };
        let mut index = Index::default();
        let mut lines = self.open()?;
        while let Some((number, line)) = lines.next().map_err(Error::File)? {
            match line {
                Ok(_) if index.lines() == MAX_LINES => return Err(Error::TooManyLines),
                Ok(Line::Used(used)) if !is_plausible(used.created_at, findings.now) => findings.problem(
                    Some(number),
                    format!(
                        "createdAt is {}, when no transfer was made; a number counts the milliseconds since 1970",
                        used.created_at
                    ),
                ),
                Ok(line) => index.add(number, &line),
                Err(what) => findings.problem(Some(number), what),
            }
            if number % 10_000 == 0 {
                watch(Phase::ReadingFile, number);
            }
        }
        // A header alone says that there is nothing to import but what the table itself has.
        if index.lines() == 0 && findings.problem_count == 0 && !lines.have_a_header() {
            findings.problem(None, "the file has no account and no key");
        }
        findings.digest = lines.digest();
        let totals = index.totals();
        for (number, first) in totals.contradictions {
            findings.problem(Some(number), format!("it contradicts line {first}, which has the same account or key"));
        }
        findings.problems.sort_by_key(|problem| problem.line);
        (findings.accounts, findings.balances) = (totals.accounts, totals.balances);
        (findings.keys, findings.repeated_lines) = (totals.used, totals.repeated);
        Ok(findings)
    }

    async fn look_at_table(&self, findings: &mut Findings, watch: Watch<'_>) -> Result<(), Error> {
        let mut lines = self.open()?;
        while let Some(batch) = self.next_batch(&mut lines, findings)? {
            let looked = self.ledger.look_at_openings(&batch.openings, self.reason).await?;
            for ((looked, granted), number) in looked.into_iter().zip(&batch.opening_lines) {
                match looked {
                    Looked::Absent => {}
                    Looked::Done => {
                        findings.accounts_done += 1;
                        findings.balances_done += Delta::credit(granted);
                    }
                    Looked::InTheWay(what) => findings.problem(Some(*number), what),
                }
            }
            let looked = self.ledger.look_at_used(&batch.used, self.window).await?;
            for ((looked, used), number) in looked.into_iter().zip(&batch.used).zip(&batch.used_lines) {
                match looked {
                    Looked::Done => findings.keys_done += 1,
                    Looked::Absent if self.is_too_old(used, findings) => findings.keys_too_old += 1,
                    Looked::Absent => {}
                    Looked::InTheWay(what) => findings.problem(Some(*number), what),
                }
            }
            watch(Phase::LookingAtTable, lines.number());
        }
        self.unchanged(lines, findings)?;
        let mut start = None;
        loop {
            let page = self.ledger.earlier_records(start).await?;
            findings.earlier_records += page.records;
            findings.misplaced += page.misplaced.len() as u64;
            findings.unreachable += page.unreachable.len() as u64;
            for error in page.broken {
                findings.problem(None, format!("{error}; delete it, or add what is missing"));
            }
            for looked in self.ledger.look_at_misplaced(&page.misplaced).await? {
                match looked {
                    Looked::Absent => {}
                    Looked::Done => findings.misplaced_done += 1,
                    Looked::InTheWay(what) => findings.problem(None, what),
                }
            }
            start = page.next;
            if start.is_none() {
                return Ok(());
            }
        }
    }

    /// Copies records of the first design to the key that is read. The old ones stay: the service before this one reads them.
    async fn rewrite(&self, done: &mut Done) -> Result<(), Error> {
        let mut start = None;
        loop {
            let page = self.ledger.earlier_records(start).await?;
            let looked = self.ledger.look_at_misplaced(&page.misplaced).await?;
            for (misplaced, looked) in page.misplaced.iter().zip(looked) {
                let mut looked = looked;
                if looked == Looked::Absent {
                    let written = self.ledger.import_misplaced(misplaced).await.map_err(at_record)?;
                    if written {
                        done.rewritten += 1;
                        continue;
                    }
                    done.more = true;
                    // Somebody was faster. Was it this record?
                    let again = self.ledger.look_at_misplaced(std::slice::from_ref(misplaced)).await?;
                    looked = again.into_iter().next().unwrap_or(looked);
                }
                if let Looked::InTheWay(what) = looked {
                    return Err(Error::RecordInTheWay(what));
                }
            }
            start = page.next;
            if start.is_none() {
                return Ok(());
            }
        }
    }

    /// Writes what is missing of a batch.
    async fn write(&self, batch: Batch, findings: &Findings, done: &mut Done) -> Result<(), Error> {
        let looked = self.ledger.look_at_openings(&batch.openings, self.reason).await?;
        let mut missing = Vec::new();
        for ((opening, line), (looked, _)) in batch.openings.iter().zip(batch.opening_lines).zip(looked) {
            match looked {
                Looked::Done => {}
                Looked::Absent => missing.push((opening, line)),
                Looked::InTheWay(what) => return Err(Error::InTheWay { line, what }),
            }
        }
        for together in missing.chunks(TOGETHER) {
            let written = together.iter().map(|(opening, line)| self.open_account(opening, *line));
            let mut stopped = None;
            for (opened, (opening, _)) in join_all(written).await.into_iter().zip(together) {
                match opened {
                    Ok(true) => {
                        done.accounts += 1;
                        done.balances += Delta::credit(opening.balance);
                    }
                    Ok(false) => {}
                    Err(error) => stopped = worse(stopped, error),
                }
            }
            stopped.map_or(Ok(()), Err)?;
        }
        let looked = self.ledger.look_at_used(&batch.used, self.window).await?;
        let mut missing = Vec::new();
        for ((used, line), looked) in batch.used.iter().zip(batch.used_lines).zip(looked) {
            match looked {
                Looked::Done => {}
                Looked::Absent if self.is_too_old(used, findings) => {}
                Looked::Absent => missing.push((used, line)),
                Looked::InTheWay(what) => return Err(Error::InTheWay { line, what }),
            }
        }
        for together in missing.chunks(TOGETHER) {
            let written = together.iter().map(|(used, line)| self.remember(used, *line));
            let mut stopped = None;
            for written in join_all(written).await {
                match written {
                    Ok(true) => done.keys += 1,
                    Ok(false) => done.more = true,
                    Err(error) => stopped = worse(stopped, error),
                }
            }
            stopped.map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    async fn open_account(&self, opening: &Opening, line: u64) -> Result<bool, Error> {
        let until = self.ledger.now() + BUDGET;
        match self.ledger.import_account(opening, self.reason, until).await {
            Ok(Imported::Now) => Ok(true),
            Ok(Imported::Before) => Ok(false),
            Ok(Imported::InTheWay) => {
                Err(Error::InTheWay { line, what: "there is an account of this DID that no import has opened".into() })
            }
            Err(error) => Err(at(line, error)),
        }
    }

    async fn remember(&self, used: &Used, line: u64) -> Result<bool, Error> {
        if self.ledger.import_used(used, self.window).await.map_err(|error| at(line, error))? {
            return Ok(true);
        }
        // Somebody was faster, or an attempt of this call whose answer was lost. Is it this key?
        match self.ledger.look_at_used(std::slice::from_ref(used), self.window).await {
            Ok(looked) => match looked.into_iter().next() {
                Some(Looked::InTheWay(what)) => Err(Error::InTheWay { line, what }),
                _ => Ok(false),
            },
            Err(_) => Err(Error::Unresolved { line }),
        }
    }

    /// Reads the file and the table again: what the file has must be what was granted.
    async fn prove(&self, findings: &Findings, done: &mut Done, watch: Watch<'_>) -> Result<(), Error> {
        let mut lines = self.open()?;
        while let Some(batch) = self.next_batch(&mut lines, findings)? {
            for (looked, granted) in self.ledger.look_at_openings(&batch.openings, self.reason).await? {
                done.accounts_proved += u64::from(looked == Looked::Done);
                done.balances_proved += Delta::credit(granted);
            }
            for (looked, used) in self.ledger.look_at_used(&batch.used, self.window).await?.into_iter().zip(&batch.used)
            {
                // A key that has expired since the import began was remembered as long as it should be.
                let expired = self.is_over_at(used, self.ledger.now()) && !self.is_too_old(used, findings);
                done.keys_proved += u64::from(looked == Looked::Done || (looked == Looked::Absent && expired));
            }
            watch(Phase::Proving, lines.number());
        }
        self.unchanged(lines, findings)?;
        let keys = findings.keys - findings.keys_too_old;
        let proved = (done.accounts_proved, done.balances_proved, done.keys_proved);
        if proved == (findings.accounts, findings.balances, keys) {
            return Ok(());
        }
        Err(Error::Unproven {
            accounts: findings.accounts,
            balances: findings.balances,
            keys,
            opened: done.accounts_proved,
            granted: done.balances_proved,
            remembered: done.keys_proved,
        })
    }

    /// The next lines that are not repetitions.
    fn next_batch(&self, lines: &mut Lines<'_>, findings: &Findings) -> Result<Option<Batch>, Error> {
        let mut batch = Batch::default();
        while batch.openings.len() + batch.used.len() < BATCH {
            let Some((number, line)) = lines.next().map_err(Error::File)? else { break };
            if findings.repeated_lines.binary_search(&number).is_ok() {
                continue;
            }
            match line {
                Ok(Line::Account(opening)) => {
                    batch.openings.push(opening);
                    batch.opening_lines.push(number);
                }
                Ok(Line::Used(used)) => {
                    batch.used.push(used);
                    batch.used_lines.push(number);
                }
                // It was read without a problem before.
                Err(_) => return Err(Error::Changed),
            }
        }
        Ok(Some(batch).filter(|batch| !batch.openings.is_empty() || !batch.used.is_empty()))
    }

    /// Reads the file before anything is written: it may have been changed since the check, while somebody thought about it.
    fn read_unchanged(&self, findings: &Findings) -> Result<(), Error> {
        let mut lines = self.open()?;
        while lines.next().map_err(Error::File)?.is_some() {}
        self.unchanged(lines, findings)
    }

    fn unchanged(&self, lines: Lines<'_>, findings: &Findings) -> Result<(), Error> {
        if lines.digest() == findings.digest { Ok(()) } else { Err(Error::Changed) }
    }

    /// Whether this service would have forgotten the key when the import began. It counts from there, so that the figures of
    /// one run agree with each other.
    fn is_too_old(&self, used: &Used, findings: &Findings) -> bool {
        self.is_over_at(used, findings.now)
    }

    fn is_over_at(&self, used: &Used, now: Timestamp) -> bool {
        used.expires_at(self.window).is_some_and(|expires_at| expires_at <= now)
    }
}

/// Whether a transfer can have been made at this time. Seconds instead of milliseconds are in January of 1970.
fn is_plausible(created_at: Timestamp, now: Timestamp) -> bool {
    (EARLIEST..=now + CLOCKS_DIFFER).contains(&created_at)
}

/// The error that is kept of several: one that leaves open what was written, or else the first.
fn worse(kept: Option<Error>, error: Error) -> Option<Error> {
    match kept {
        Some(kept) if !matches!(error, Error::Unresolved { .. }) => Some(kept),
        _ => Some(error),
    }
}

fn at_record(error: ledger::Error) -> Error {
    match error {
        ledger::Error::Unresolved => Error::UnresolvedRecord,
        other => Error::Ledger(other),
    }
}

fn at(line: u64, error: ledger::Error) -> Error {
    match error {
        ledger::Error::Unresolved => Error::Unresolved { line },
        ledger::Error::Mismatch { fields } => Error::InTheWay {
            line,
            what: format!("the account was imported before with another {}", fields.join(", ")),
        },
        other => Error::Ledger(other),
    }
}
