//! What sessync reads back from its disk: the journal, the table of keys, and lines of session logs.
//!
//! The input is taken as each of these. A journal's lines have checksums that no fuzzer guesses, so the lines of the input are
//! also taken as records without one, and get it here.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Read};

use sessync::journal::disk::{Disk, Fill};
use sessync::journal::record::{self, Record};
use sessync::journal::seen::Seen;
use sessync::journal::state::State;
use sessync::journal::{Error, Journal};
use sessync::source::Kind;
use sessync::source::line::{self, Head, Key};
use sessync::source::reader::Lines;

const JOURNAL: &str = "journal";
const DESTINATION: &str = "p.d.t";

/// One directory in memory.
#[derive(Debug, Default)]
struct Memory(BTreeMap<String, Vec<u8>>);

impl Disk for Memory {
    fn open(&self, name: &str) -> io::Result<Option<Box<dyn Read>>> {
        Ok(self.0.get(name).cloned().map(|bytes| Box::new(Cursor::new(bytes)) as Box<dyn Read>))
    }
    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.0.entry(name.to_owned()).or_default().extend_from_slice(bytes);
        Ok(())
    }
    fn replace(&mut self, name: &str, fill: Fill<'_>) -> io::Result<()> {
        let mut bytes = Vec::new();
        fill(&mut bytes)?;
        self.0.insert(name.to_owned(), bytes);
        Ok(())
    }
    fn truncate(&mut self, name: &str, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).map_err(io::Error::other)?;
        self.0.get_mut(name).ok_or(io::ErrorKind::NotFound)?.truncate(length);
        Ok(())
    }
    fn copy(&mut self, name: &str, to: &str) -> io::Result<()> {
        let bytes = self.0.get(name).cloned().ok_or(io::ErrorKind::NotFound)?;
        self.0.insert(to.to_owned(), bytes);
        Ok(())
    }
    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.0.remove(name);
        Ok(())
    }
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.keys().cloned().collect())
    }
}

fn open(bytes: &[u8]) -> Result<Journal<Memory>, Error> {
    let disk = Memory(BTreeMap::from([(JOURNAL.to_owned(), bytes.to_vec())]));
    Journal::open(disk, DESTINATION).map_err(|(error, _)| error)
}

pub(crate) fn check(data: &[u8]) {
    let _ = open(data);
    let _ = record::read(data);
    table_of_keys(data);
    session_log(data);
    replay(data);
}

fn table_of_keys(data: &[u8]) {
    let Ok(mut seen) = Seen::read(&mut &*data) else { return };
    let mut written = Vec::new();
    seen.write(&mut written).expect("memory takes everything");
    assert_eq!(Seen::read(&mut written.as_slice()).expect("what was written can be read").len(), seen.len());
}

/// Every byte of a log belongs to one line, whatever the lines are.
fn session_log(data: &[u8]) {
    let head = Head { session: Some("s".to_owned()), ..Head::default() };
    let mut lines = Lines::new(data, 0, data.len() as u64);
    let mut end = 0;
    while let Some(found) = lines.next_line().expect("memory can be read") {
        assert_eq!(found.start, end, "a byte of the log is in no line");
        assert!(found.end > found.start);
        end = found.end;
        for kind in [Kind::ClaudeCode, Kind::Codex] {
            let Some(Ok(line)) = found.text.map(|text| kind.source().line(&head, text)) else { continue };
            assert_eq!(Key::of(&line), Key::of(&line.clone()));
            assert!(!line.uuid.is_empty() && !line.timestamp.is_empty() && !line.session_id.is_empty());
        }
    }
    // What is left is a last line that is still being written.
    assert!(!data[usize::try_from(end).expect("it is in memory")..].contains(&b'\n'), "a whole line was left out");
}

/// A line of a journal.
fn with_checksum(text: &[u8]) -> Vec<u8> {
    let checksum = format!("{:016x} ", line::hash(text));
    [checksum.as_bytes(), text, b"\n"].concat()
}

fn replay(data: &[u8]) {
    // The journal begins with the input's own snapshot if it has one, otherwise with that of a new journal.
    let mut texts = data.split(|byte| *byte == b'\n').peekable();
    let own = texts.next_if(|first| open(&with_checksum(first)).is_ok()).map(with_checksum);
    let mut journal = own.unwrap_or_else(|| {
        record::write(&Record::Snapshot(Box::new(State::new(DESTINATION).snapshot(None)))).expect("a record")
    });
    // And the state after each of its lines.
    let mut steps = vec![(journal.len(), open(&journal).expect("a snapshot").state().clone())];
    for text in texts {
        let longer = [journal.as_slice(), &with_checksum(text)].concat();
        match open(&longer) {
            Ok(opened) => {
                steps.push((longer.len(), opened.state().clone()));
                journal = longer;
            }
            // A record that does not fit is damage, and says so. It is left out here.
            Err(error) => assert!(matches!(error, Error::Damaged(_)), "{error}"),
        }
    }
    if steps.len() == 1 {
        return;
    }
    // A crash may cut the journal at any byte. All whole lines are there, and nothing else.
    for cut in cuts(journal.len()) {
        let whole = steps.iter().rev().find(|(length, _)| *length <= cut);
        match (open(&journal[..cut]), whole) {
            (Ok(mut opened), Some((length, state))) => {
                assert_eq!(opened.state(), state, "cut at {cut} of {}", journal.len());
                // The journal goes on where the cut left it.
                opened.append(&Record::Met { keys: Vec::new() }).expect("it can be written");
                let bytes = opened.disk().0[JOURNAL].clone();
                assert_eq!(bytes[..*length], journal[..*length], "whole lines were changed");
                assert_eq!(open(&bytes).expect("it can be read again").state(), opened.state());
            }
            (Err(Error::Damaged(_)), None) => {}
            (opened, whole) => {
                panic!("cut at {cut}: {:?}, but {:?}", opened.map(|_| ()), whole.map(|(length, _)| length))
            }
        }
    }
    // A byte that was changed on the disk is never read as something else.
    let at = data.len() % journal.len();
    let mut changed = journal.clone();
    changed[at] ^= 1;
    if let Ok(opened) = open(&changed) {
        let torn = changed.last() != Some(&b'\n');
        assert!(
            torn && steps.iter().any(|(_, state)| state == opened.state()),
            "the change of byte {at} was not noticed"
        );
    }
    // A snapshot says the same as the records that it replaces.
    if let Ok(mut compacted) = open(&journal) {
        let state = compacted.state().clone();
        if compacted.compact().is_ok() {
            let disk = std::mem::take(compacted.disk());
            let again = Journal::open(disk, DESTINATION).map_err(|(error, _)| error).expect("a compacted journal");
            assert_eq!(again.state(), &state, "compaction changed the state");
        }
    }
}

/// Some places to cut a journal of this length: all of a short one.
fn cuts(length: usize) -> impl Iterator<Item = usize> {
    (0..=length).step_by(1 + length / 64)
}
