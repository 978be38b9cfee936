//! What the records of a journal add up to: each record changes the state, and nothing else does.
//!
//! Two rules keep the promise that no line is lost:
//! - A file counts as read up to the end of a batch only when that batch and every one before it are settled.
//! - If BigQuery turns out not to have a row of a batch, no later batch of that run moves the mark of a file. A later
//!   batch may have left out a copy of that row as a duplicate. The next run reads those lines again and
//!   recognises by their keys the ones that did arrive.

use std::collections::{BTreeMap, VecDeque};

use super::record::{Intent, Part, Record, SettledBatch, Snapshot, Totals, VERSION};
use super::seen::Calendar;
use crate::clock::Time;
use crate::source::files::Mark;
use crate::source::line::Key;

/// How long a batch that was not found is still asked for together with later ones. It is longer than any insert can
/// be on its way, and longer than BigQuery remembers `insertId`s: while it does, a row that is sent again in a later
/// batch can stay in BigQuery under the earlier batch.
pub(crate) const DOUBT_MS: i64 = 60 * 60 * 1000;

/// A change to the table of keys that follows from a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// This line is uploaded or set aside.
    Add(Key),
    /// This known line was met again.
    Met(Key),
    /// Every line of this uuid is forgotten.
    Forget(u64),
}

/// What a journal says, except for the table of keys.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    pub destination: String,
    pub calendar: Calendar,
    pub files: BTreeMap<String, Mark>,
    /// Batches that are not known to have arrived, or that wait for one before them. In the order of sending.
    pending: VecDeque<Pending>,
    /// A row did not arrive: no mark is moved until the next run begins.
    blocked: bool,
    /// Batches that were not found whole, and when. Their rows may still arrive.
    pub doubtful: Vec<(String, Time)>,
    pub totals: Totals,
    pub shared_next: u64,
    /// The last batch that was settled. A batch of the shared log can turn out to be this one.
    pub last_settled: Option<SettledBatch>,
    /// Since a reset: everything is to be sent again, whatever other machines have sent.
    pub resend: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Pending {
    intent: Intent,
    settled: bool,
}

/// A record that does not fit what came before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("it speaks of batch {0}, which has no intent")]
    UnknownBatch(String),
    #[error("it speaks of a row that batch {0} does not have")]
    UnknownRow(String),
    #[error("batch {0} has two intents")]
    Twice(String),
    #[error("there is a snapshot after the first line")]
    Snapshot,
    #[error("its format is version {0}, but this sessync reads version {VERSION}")]
    Version(u32),
}

impl State {
    /// A journal in which nothing has happened.
    pub fn new(destination: &str) -> State {
        State {
            destination: destination.to_owned(),
            calendar: Calendar::default(),
            files: BTreeMap::new(),
            pending: VecDeque::new(),
            blocked: false,
            doubtful: Vec::new(),
            totals: Totals::default(),
            shared_next: 0,
            last_settled: None,
            resend: false,
        }
    }

    pub(crate) fn from_snapshot(snapshot: Snapshot) -> Result<State, Error> {
        if snapshot.version != VERSION {
            return Err(Error::Version(snapshot.version));
        }
        Ok(State {
            destination: snapshot.destination,
            calendar: snapshot.calendar,
            files: snapshot.files.into_iter().map(|mark| (mark.path.clone(), mark)).collect(),
            pending: snapshot
                .pending
                .into_iter()
                .map(|intent| Pending { settled: snapshot.settled.contains(&intent.batch), intent })
                .collect(),
            blocked: snapshot.blocked,
            doubtful: snapshot.doubtful,
            totals: snapshot.totals,
            shared_next: snapshot.shared_next,
            last_settled: snapshot.last_settled,
            resend: snapshot.resend,
        })
    }

    /// The state as a snapshot that goes with the table of keys number `seen`.
    pub fn snapshot(&self, seen: Option<u64>) -> Snapshot {
        Snapshot {
            version: VERSION,
            destination: self.destination.clone(),
            seen,
            calendar: self.calendar,
            files: self.files.values().cloned().collect(),
            pending: self.pending.iter().map(|pending| pending.intent.clone()).collect(),
            settled: self
                .pending
                .iter()
                .filter(|pending| pending.settled)
                .map(|pending| pending.intent.batch.clone())
                .collect(),
            blocked: self.blocked,
            doubtful: self.doubtful.clone(),
            totals: self.totals.clone(),
            shared_next: self.shared_next,
            last_settled: self.last_settled.clone(),
            resend: self.resend,
        }
    }

    /// The batches that are uncertain.
    pub fn pending(&self) -> impl Iterator<Item = &Intent> {
        self.pending.iter().filter(|pending| !pending.settled).map(|pending| &pending.intent)
    }

    /// Applies one record. Calls `change` with what follows for the table of keys.
    pub fn apply(&mut self, record: &Record, change: &mut dyn FnMut(Change)) -> Result<(), Error> {
        match record {
            Record::Snapshot(_) => return Err(Error::Snapshot),
            Record::Begin { at } => {
                self.blocked = false;
                self.calendar = self.calendar.advance(at.day());
                self.doubtful.retain(|(_, since)| at.0.saturating_sub(since.0).abs() < DOUBT_MS);
            }
            Record::Intent(intent) => {
                self.check_is_new(&intent.batch)?;
                self.pending.push_back(Pending { intent: intent.clone(), settled: false });
            }
            Record::Settled { batch, at, only } => {
                let index = self.index(batch)?;
                let intent = &self.pending[index].intent;
                let keys = match only {
                    None => intent.keys.clone(),
                    Some(rows) => rows_of(intent, rows)?,
                };
                if keys.len() < intent.keys.len() {
                    self.blocked = true;
                    self.doubtful.push((batch.clone(), *at));
                }
                self.pending[index].settled = true;
                if !keys.is_empty() {
                    self.totals.uploaded = self.totals.uploaded.saturating_add(keys.len() as u64);
                    self.totals.last_upload = self.totals.last_upload.max(Some(*at));
                    self.totals.last_batch = Some(batch.clone());
                }
                keys.iter().for_each(|key| change(Change::Add(*key)));
                self.last_settled = Some(SettledBatch { batch: batch.clone(), keys });
                self.move_on();
            }
            Record::Replaced { batch, at: _, set_aside, known, parts } => {
                let index = self.index(batch)?;
                let intent = self.pending[index].intent.clone();
                let aside = rows_of(&intent, set_aside)?;
                let known = rows_of(&intent, known)?;
                let mut replacements = Vec::with_capacity(parts.len());
                for (nth, Part { batch, rows }) in parts.iter().enumerate() {
                    if *batch != intent.batch {
                        self.check_is_new(batch)?;
                    }
                    // The files count as read once the last part is settled.
                    let marks = if nth + 1 == parts.len() { intent.marks.clone() } else { Vec::new() };
                    replacements.push(Pending {
                        intent: Intent {
                            batch: batch.clone(),
                            at: intent.at,
                            keys: rows_of(&intent, rows)?,
                            span: intent.span,
                            marks,
                        },
                        settled: false,
                    });
                }
                if replacements.is_empty() {
                    self.pending[index].settled = true;
                } else {
                    let mut rest = self.pending.split_off(index);
                    rest.pop_front();
                    self.pending.extend(replacements);
                    self.pending.append(&mut rest);
                }
                self.totals.set_aside = self.totals.set_aside.saturating_add(aside.len() as u64);
                aside.into_iter().chain(known).for_each(|key| change(Change::Add(key)));
                self.move_on();
            }
            Record::Files { marks, gone } => {
                self.mark(marks);
                for path in gone {
                    self.files.remove(path);
                }
            }
            Record::Met { keys } => keys.iter().for_each(|key| change(Change::Met(*key))),
            Record::SetAside { keys } => {
                self.totals.set_aside = self.totals.set_aside.saturating_add(keys.len() as u64);
                keys.iter().for_each(|key| change(Change::Add(*key)));
            }
            Record::Forgotten { uuid, again } => {
                change(Change::Forget(*uuid));
                for (path, start, end) in again {
                    if let Some(mark) = self.files.get_mut(path) {
                        mark.again.push((*start, *end));
                    }
                }
            }
            Record::Resent => self.resend = false,
            Record::Shared { next, keys } => {
                self.shared_next = self.shared_next.max(*next);
                keys.iter().for_each(|key| change(Change::Add(*key)));
            }
        }
        Ok(())
    }

    fn mark(&mut self, marks: &[Mark]) {
        for mark in marks {
            self.files.insert(mark.path.clone(), mark.clone());
        }
    }

    /// Removes the settled batches at the front and moves the marks of their files.
    fn move_on(&mut self) {
        while let Some(front) = self.pending.pop_front_if(|front| front.settled) {
            if !self.blocked {
                self.mark(&front.intent.marks);
            }
        }
    }

    fn index(&self, batch: &str) -> Result<usize, Error> {
        self.pending
            .iter()
            .position(|pending| pending.intent.batch == batch && !pending.settled)
            .ok_or_else(|| Error::UnknownBatch(batch.to_owned()))
    }

    fn check_is_new(&self, batch: &str) -> Result<(), Error> {
        match self.pending.iter().any(|pending| pending.intent.batch == batch) {
            true => Err(Error::Twice(batch.to_owned())),
            false => Ok(()),
        }
    }
}

fn rows_of(intent: &Intent, rows: &[u32]) -> Result<Vec<Key>, Error> {
    rows.iter()
        .map(|row| intent.keys.get(*row as usize).copied())
        .collect::<Option<_>>()
        .ok_or_else(|| Error::UnknownRow(intent.batch.clone()))
}
