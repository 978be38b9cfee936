//! The journal compared with a model of it, and with random or damaged bytes.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use proptest::prelude::*;
use sessync::clock::Time;
use sessync::journal::record::{Intent, Part, Record};
use sessync::journal::seen::{Novelty, Seen};
use sessync::journal::{self, Journal};
use sessync::source::files::{Mark, Stat};
use sessync::source::line::Key;
use support::{DESTINATION, MemoryDisk, dying};
use testkit::Outside;

/// Id, keys, mark, settled.
type Batch = (String, Vec<Key>, Option<(String, u64)>, bool);

/// What a journal promises, in the simplest form: which keys are known, how far files are read, what is uncertain.
#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    known: BTreeSet<Key>,
    offsets: BTreeMap<String, u64>,
    /// In order.
    batches: Vec<Batch>,
    blocked: bool,
    uploaded: u64,
}

impl Model {
    fn pending(&self) -> Vec<String> {
        self.batches.iter().filter(|batch| !batch.3).map(|batch| batch.0.clone()).collect()
    }

    fn move_on(&mut self) {
        while self.batches.first().is_some_and(|batch| batch.3) {
            let (_, _, mark, _) = self.batches.remove(0);
            if let (Some((path, offset)), false) = (mark, self.blocked) {
                self.offsets.insert(path, offset);
            }
        }
    }

    fn apply(&mut self, record: &Record) {
        match record {
            Record::Begin { .. } => self.blocked = false,
            Record::Intent(intent) => {
                let mark = intent.marks.first().map(|mark| (mark.path.clone(), mark.offset));
                self.batches.push((intent.batch.clone(), intent.keys.clone(), mark, false));
            }
            Record::Settled { batch, only, .. } => {
                let found = self.batches.iter_mut().find(|other| other.0 == *batch).unwrap();
                let rows: Vec<usize> = match only {
                    None => (0..found.1.len()).collect(),
                    Some(rows) => rows.iter().map(|row| *row as usize).collect(),
                };
                found.3 = true;
                self.blocked |= rows.len() < found.1.len();
                self.uploaded += rows.len() as u64;
                self.known.extend(rows.into_iter().map(|row| found.1[row]));
                self.move_on();
            }
            Record::Replaced { batch, set_aside, parts, .. } => {
                let at = self.batches.iter().position(|other| other.0 == *batch).unwrap();
                let (_, keys, mark, _) = self.batches.remove(at);
                self.known.extend(set_aside.iter().map(|row| keys[*row as usize]));
                let last = parts.len();
                for (nth, part) in parts.iter().enumerate() {
                    let rows = part.rows.iter().map(|row| keys[*row as usize]).collect();
                    let mark = if nth + 1 == last { mark.clone() } else { None };
                    self.batches.insert(at + nth, (part.batch.clone(), rows, mark, false));
                }
                if parts.is_empty() {
                    self.batches.insert(at, (batch.clone(), Vec::new(), mark, true));
                }
                self.move_on();
            }
            Record::Files { marks, gone } => {
                self.offsets.extend(marks.iter().map(|mark| (mark.path.clone(), mark.offset)));
                self.offsets.retain(|path, _| !gone.contains(path));
            }
            Record::Forgotten { uuid, .. } => self.known.retain(|key| key.uuid() != *uuid),
            _ => {}
        }
    }

    /// In what the journal differs from the model.
    fn differs(&self, journal: &mut Journal<MemoryDisk>) -> Option<String> {
        let state = journal.state();
        let offsets: BTreeMap<String, u64> =
            state.files.values().map(|mark| (mark.path.clone(), mark.offset)).collect();
        let pending: Vec<String> = state.pending().map(|intent| intent.batch.clone()).collect();
        if offsets != self.offsets {
            return Some(format!("offsets {offsets:?}, not {:?}", self.offsets));
        }
        if pending != self.pending() {
            return Some(format!("pending {pending:?}, not {:?}", self.pending()));
        }
        if state.snapshot(None).blocked != self.blocked {
            return Some(format!("blocked, not {}", self.blocked));
        }
        if state.totals.uploaded != self.uploaded {
            return Some(format!("uploaded {}, not {}", state.totals.uploaded, self.uploaded));
        }
        let keys = (0..40).flat_map(|uuid| (100..103).map(move |content| Key::new(uuid, content)));
        for key in keys {
            let known = journal.look_up(key).unwrap() == Novelty::Known;
            if known != self.known.contains(&key) {
                return Some(format!("{key:?}: {known}"));
            }
        }
        None
    }
}

fn mark(rng: &mut Rng) -> Mark {
    Mark {
        path: format!("file-{}", rng.u8(0..4)),
        stat: Stat::default(),
        offset: rng.u64(0..1000),
        fingerprint: None,
        again: Vec::new(),
        since: 0,
        foreign: false,
    }
}

/// A record that may follow.
fn record(rng: &mut Rng, model: &Model, step: u64) -> Record {
    let at = Time(1_790_000_000_000 + step as i64 * 1000);
    let pending: Vec<_> = model.batches.iter().filter(|batch| !batch.3).collect();
    let some = (!pending.is_empty()).then(|| pending[rng.usize(0..pending.len())]);
    match (rng.u8(0..10), some) {
        (0..4, Some((batch, ..))) => Record::Settled { batch: batch.clone(), at, only: None },
        (4, Some((batch, keys, ..))) => {
            let only = (0..keys.len() as u32).filter(|_| rng.bool()).collect();
            Record::Settled { batch: batch.clone(), at, only: Some(only) }
        }
        (5, Some((batch, keys, ..))) => {
            let (mut set_aside, mut parts) = (Vec::new(), [Vec::new(), Vec::new()]);
            for row in 0..keys.len() as u32 {
                match rng.u8(0..3) {
                    0 => set_aside.push(row),
                    part => parts[part as usize - 1].push(row),
                }
            }
            let parts = parts.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty());
            let parts = parts.map(|(nth, rows)| Part { batch: format!("part-{step}-{nth}"), rows }).collect();
            Record::Replaced { batch: batch.clone(), at, set_aside, known: Vec::new(), parts }
        }
        (6, None) => Record::Begin { at },
        (7, _) => Record::Files { marks: vec![mark(rng)], gone: vec![format!("file-{}", rng.u8(0..4))] },
        (8, _) => Record::Forgotten { uuid: rng.u64(0..40), again: Vec::new() },
        _ => Record::Intent(Intent {
            batch: format!("batch-{step}"),
            at,
            keys: (0..rng.usize(1..5)).map(|_| Key::new(rng.u64(0..40), rng.u64(100..103))).collect(),
            span: None,
            marks: vec![mark(rng)],
        }),
    }
}

fn open(disk: &MemoryDisk, outside: &Outside) -> Journal<MemoryDisk> {
    Journal::open(disk.with_outside(outside), DESTINATION).map_err(|(error, _)| error).unwrap()
}

#[test]
fn whatever_happens_it_says_what_its_model_says_also_after_a_crash() {
    for seed in 0..60 {
        let mut rng = Rng::with_seed(seed);
        let disk = MemoryDisk::new();
        let mut model = Model::default();
        let mut journal = open(&disk, &Outside::new());
        for step in 0..120 {
            let mut what = format!("seed {seed}, step {step}");
            match rng.u8(0..12) {
                0 => journal = open(&disk, &Outside::new()),
                1 => journal.compact().unwrap(),
                2 => {
                    // After a crash the record is either there whole or not at all.
                    let stopped = dying(rng.u64(1..5), rng.u64(..));
                    let mut killed = open(&disk, &stopped);
                    let record = record(&mut rng, &model, step);
                    what = format!("{what}, killed at {record:?}");
                    let compacted = if rng.bool() { killed.compact() } else { Ok(()) };
                    let appended = compacted.and_then(|()| killed.append(&record));
                    let mut with = model.clone();
                    with.apply(&record);
                    journal = open(&disk, &Outside::new());
                    if appended.is_ok() || with.differs(&mut journal).is_none() {
                        model = with;
                    }
                }
                _ => {
                    let record = record(&mut rng, &model, step);
                    what = format!("{what}, {record:?}");
                    journal.append(&record).unwrap();
                    model.apply(&record);
                }
            }
            assert_eq!(model.differs(&mut journal), None, "{what}");
        }
    }
}

/// A journal with records of many kinds.
fn sample() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let mut rng = Rng::with_seed(7);
    let mut model = Model::default();
    let mut journal = open(&disk, &Outside::new());
    for step in 0..30 {
        let record = record(&mut rng, &model, step);
        journal.append(&record).unwrap();
        model.apply(&record);
        if step == 15 {
            journal.compact().unwrap();
        }
    }
    disk
}

#[test]
fn damage_is_noticed_wherever_it_is() {
    let disk = sample();
    let whole = disk.files.lock().unwrap()["journal"].clone();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x20;
        // A damaged newline joins two lines. At the very end it looks like a write that was cut short.
        let last_newline = at + 1 == whole.len();
        disk.files.lock().unwrap().insert("journal".into(), damaged);
        let opened = Journal::open(disk.with_outside(&Outside::new()), DESTINATION);
        assert_eq!(matches!(opened, Err((journal::Error::Damaged(_), _))), !last_newline, "byte {at}");
    }
}

#[test]
fn a_journal_cut_anywhere_is_what_it_was_at_some_point_or_is_damaged() {
    let disk = sample();
    let whole = disk.files.lock().unwrap()["journal"].clone();
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap();
    for length in 0..whole.len() {
        disk.files.lock().unwrap().insert("journal".into(), whole[..length].to_vec());
        let opened = Journal::open(disk.with_outside(&Outside::new()), DESTINATION);
        assert_eq!(opened.is_ok(), length > first, "cut at {length}");
        if let Ok(mut journal) = opened {
            // It can go on from there.
            journal.append(&Record::Begin { at: Time(0) }).unwrap();
            assert!(Journal::open(disk.with_outside(&Outside::new()), DESTINATION).is_ok(), "cut at {length}");
        }
    }
}

#[test]
fn a_missing_table_of_keys_is_damage_and_not_a_fresh_start() {
    let disk = sample();
    let name = disk.files.lock().unwrap().keys().find(|name| name.starts_with("seen-")).unwrap().clone();
    let table = disk.files.lock().unwrap().remove(&name).unwrap();
    assert!(matches!(open(&disk, &Outside::new()).look_up(Key::new(1, 100)), Err(journal::Error::Damaged(_))));
    // And the other way round.
    disk.files.lock().unwrap().insert(name, table);
    disk.files.lock().unwrap().remove("journal");
    let opened = Journal::open(disk.with_outside(&Outside::new()), DESTINATION);
    assert!(matches!(opened, Err((journal::Error::Damaged(_), _))));
}

/// `make soak` runs these for longer.
mod fuzz {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_bytes_make_the_readers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let disk = MemoryDisk::new();
            disk.files.lock().unwrap().insert("journal".into(), bytes.clone());
            let _ = Journal::open(disk, DESTINATION);
            let _ = Seen::read(&mut bytes.as_slice());
            let _ = sessync::source::line::parse(&bytes);
            let _ = journal::record::read(&bytes);
        }

        #[test]
        fn no_changed_line_makes_the_reader_panic_or_lose_its_place(
            at in 0usize..200, byte in any::<u8>(), cut in 0usize..300,
        ) {
            let mut line = support::line("u", "s", "text \u{e9} \\\" \u{1F600}", 3).into_bytes();
            let length = line.len();
            line[at % length] = byte;
            line.truncate(length - cut % length);
            line.push(b'\n');
            let mut lines = sessync::source::reader::Lines::new(line.as_slice(), 0, line.len() as u64);
            let mut end = 0;
            while let Some(found) = lines.next_line().unwrap() {
                prop_assert_eq!(found.start, end);
                end = found.end;
                if let Some(Ok(line)) = found.text.map(sessync::source::line::parse) {
                    let _ = Key::of(&line);
                    let mut counts = sessync::redact::Counts::new();
                    for json in [line.message, line.tool_use_result].into_iter().flatten() {
                        let redacted = sessync::redact::Redactor::new(&["t.*".into()]).unwrap().json(json, &mut counts).into_owned();
                        prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&redacted).is_ok());
                    }
                }
            }
            prop_assert_eq!(end, line.len() as u64);
        }
    }
}
