//! What the records of a journal add up to: a plain function from one state and one record to the next.
//!
//! Two rules carry the promise that no line is lost:
//! - Files count as read up to where a batch ends only when that batch and every one before it are settled.
//! - When a row of a batch turned out not to be at the destination, no later batch of that run moves a
//!   file's mark either, for it may have passed over a copy of that row. Those lines are read again, and
//!   the ones that did arrive are known by their keys.

use std::collections::{BTreeMap, VecDeque};

use super::record::{Intent, Part, Record, SettledBatch, Snapshot, Totals, VERSION};
use crate::clock::Time;
use crate::digest::Key;
use crate::files::Mark;
use crate::seen::Calendar;

/// How long a batch that was not found is still asked for along with later ones: longer than any insert
/// that is still on its way, and than the destination's memory of `insertId`s, by which the rows of a later
/// batch may be those of an earlier one.
pub const DOUBT_MS: i64 = 60 * 60 * 1000;

/// A change to the table of keys that follows from a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// This line is dealt with.
    Add(Key),
    /// This known line was met again.
    Met(Key),
    /// Every line of this uuid is forgotten.
    Forget(u64),
}

/// What a journal says, except for the keys of the lines.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    pub destination: String,
    pub calendar: Calendar,
    pub files: BTreeMap<String, Mark>,
    /// What was sent, or was about to be, without it being known that it arrived. In the order of sending.
    pending: VecDeque<Pending>,
    blocked: bool,
    pub doubtful: Vec<(String, Time)>,
    pub totals: Totals,
    pub shared_next: u64,
    /// The last batch that was settled: a batch of the shared log may turn out to be this one.
    pub last_settled: Option<SettledBatch>,
}

#[derive(Debug, Clone, PartialEq)]
struct Pending {
    intent: Intent,
    settled: bool,
}

/// A record that does not fit what came before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("it speaks of batch {0}, which was never announced")]
    UnknownBatch(String),
    #[error("it speaks of a row that batch {0} does not have")]
    UnknownRow(String),
    #[error("batch {0} is announced twice")]
    Twice(String),
    #[error("a snapshot stands in the middle")]
    Snapshot,
    #[error("its format is version {0}; this is for {VERSION}")]
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
        }
    }

    pub fn from_snapshot(snapshot: Snapshot) -> Result<State, Error> {
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
        }
    }

    /// What is uncertain.
    pub fn pending(&self) -> impl Iterator<Item = &Intent> {
        self.pending.iter().filter(|pending| !pending.settled).map(|pending| &pending.intent)
    }

    /// Takes in one record; tells `change` what follows for the keys.
    pub fn apply(&mut self, record: &Record, change: &mut dyn FnMut(Change)) -> Result<(), Error> {
        match record {
            Record::Snapshot(_) => return Err(Error::Snapshot),
            Record::Begin { at } => {
                self.blocked = false;
                self.calendar = self.calendar.advance(at.day());
                self.doubtful.retain(|(_, since)| at.0.saturating_sub(since.0).abs() < DOUBT_MS);
            }
            Record::Intent(intent) => {
                self.announced_once(&intent.batch)?;
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
                    self.totals.uploaded += keys.len() as u64;
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
                        self.announced_once(batch)?;
                    }
                    // The files are read up to the end once the last part is settled.
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
                self.totals.set_aside += aside.len() as u64;
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
                self.totals.set_aside += keys.len() as u64;
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

    /// Lets go of the batches at the front that are settled.
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

    fn announced_once(&self, batch: &str) -> Result<(), Error> {
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
