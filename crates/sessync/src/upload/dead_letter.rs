//! Rows that can never be inserted: kept in a file beside the journal, each with the reason.

use std::collections::BTreeSet;
use std::io::{self, BufRead as _, BufReader};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::batch::Row;
use super::{Error, MAX_EXAMPLES, Run};
use crate::clock::{Clock, Time};
use crate::journal;
use crate::journal::disk::Disk;
use crate::outside::transport::Transport;

/// The file's name, in the state directory.
pub const FILE: &str = "dead-letters.jsonl";

/// One line of the file.
#[derive(Serialize)]
struct Letter<'a> {
    at: String,
    reason: &'a str,
    row: Value,
    source_file: &'a str,
    uuid: &'a str,
}

impl<T: Transport, C: Clock, D: Disk> Run<'_, T, C, D> {
    /// Keeps a row that can never be inserted, with the reason.
    pub(super) fn dead_letter(&mut self, batch: &str, at: Time, row: &Row, reason: &str) -> Result<(), Error> {
        self.summary.set_aside += 1;
        if self.summary.set_aside_examples.len() < MAX_EXAMPLES {
            self.summary.set_aside_examples.push(format!("{} in {}: {reason}", row.uuid, row.source_file));
        }
        let letter = Letter {
            at: at.to_string(),
            reason,
            row: row.columns(batch, at),
            source_file: &row.source_file,
            uuid: &row.uuid,
        };
        let mut line = serde_json::to_vec(&letter).map_err(|error| journal::Error::Disk(error.into()))?;
        line.push(b'\n');
        self.with.journal.disk().append(FILE, &line).map_err(journal::Error::Disk)?;
        Ok(())
    }
}

/// The uuids of the dead letters beside a journal.
pub(crate) fn set_aside_uuids(disk: &impl Disk) -> io::Result<BTreeSet<String>> {
    #[derive(Deserialize)]
    struct Uuid {
        uuid: String,
    }
    let Some(file) = disk.open(FILE)? else { return Ok(BTreeSet::new()) };
    let mut uuids = BTreeSet::new();
    for line in BufReader::new(file).split(b'\n') {
        if let Ok(letter) = serde_json::from_slice::<Uuid>(&line?) {
            uuids.insert(letter.uuid);
        }
    }
    Ok(uuids)
}
