//! Step 5: write down what became of each batch, send again what can be, and at the end how far the files are read.

use std::collections::BTreeSet;

use super::batch::{Batch, Row};
use super::send::{Delivery, Undelivered};
use super::{Error, Run};
use crate::clock::Clock;
use crate::journal::disk::Disk;
use crate::journal::record::{Part, Record};
use crate::outside::bigquery;
use crate::outside::transport::Transport;
use crate::source;
use crate::source::files::{self, Discovery, Mark, Scope};

impl<T: Transport, C: Clock, D: Disk> Run<'_, T, C, D> {
    /// Waits for one batch to arrive, and writes down what became of it.
    pub(super) async fn settle_next(&mut self) -> Result<(), Error> {
        let Some((batch, delivery)) = self.flights.next().await else { return Ok(()) };
        self.settle(batch, delivery).await
    }

    pub(super) async fn settle(&mut self, batch: Batch, delivery: Result<Delivery, Undelivered>) -> Result<(), Error> {
        let at = self.with.clock.now();
        let none_arrived = Record::Settled { batch: batch.id.clone(), at, only: Some(Vec::new()) };
        match delivery {
            Ok(Delivery::Accepted) => {
                self.with.journal.append(&Record::Settled { batch: batch.id.clone(), at, only: None })?;
                self.count(&batch, batch.rows.len());
                Ok(())
            }
            Ok(Delivery::Partly(present)) => {
                self.count(&batch, present.len());
                let rest = batch.others(&present);
                self.replace(batch, Vec::new(), present, vec![rest]).await
            }
            Ok(Delivery::Invalid(invalid)) => {
                for (row, why) in &invalid {
                    self.dead_letter(&batch.id, batch.at, &batch.rows[*row], why)?;
                }
                let invalid: Vec<usize> = invalid.into_iter().map(|(row, _)| row).collect();
                let rest = batch.others(&invalid);
                self.replace(batch, invalid, Vec::new(), vec![rest]).await
            }
            Ok(Delivery::TooLarge) if batch.rows.len() == 1 => {
                self.dead_letter(&batch.id, batch.at, &batch.rows[0], "too large for BigQuery")?;
                self.replace(batch, vec![0], Vec::new(), Vec::new()).await
            }
            // The row is to blame only if other rows are accepted. Otherwise the table is.
            Ok(Delivery::Refused(why)) if batch.rows.len() == 1 && self.summary.uploaded > 0 => {
                self.dead_letter(&batch.id, batch.at, &batch.rows[0], &why)?;
                self.replace(batch, vec![0], Vec::new(), Vec::new()).await
            }
            Ok(Delivery::Refused(why)) if batch.rows.len() == 1 => {
                self.with.journal.append(&none_arrived)?;
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
                    // The next run then need not ask.
                    self.with.journal.append(&none_arrived)?;
                }
                self.failed.get_or_insert(Error::BigQuery(error));
                Ok(())
            }
        }
    }

    /// Writes down that a batch goes on in parts, and sends those.
    pub(super) async fn replace(
        &mut self,
        batch: Batch,
        set_aside: Vec<usize>,
        known: Vec<usize>,
        parts: Vec<Vec<usize>>,
    ) -> Result<(), Error> {
        let parts: Vec<(String, Vec<usize>)> =
            parts.into_iter().filter(|rows| !rows.is_empty()).map(|rows| (self.new_id(), rows)).collect();
        let numbers = |rows: &[usize]| rows.iter().map(|row| *row as u32).collect::<Vec<u32>>();
        self.with.journal.append(&Record::Replaced {
            batch: batch.id.clone(),
            at: self.with.clock.now(),
            set_aside: numbers(&set_aside),
            known: numbers(&known),
            parts: parts.iter().map(|(batch, rows)| Part { batch: batch.clone(), rows: numbers(rows) }).collect(),
        })?;
        let mut rows: Vec<Option<Row>> = batch.rows.into_iter().map(Some).collect();
        for done in set_aside.iter().chain(&known) {
            if let Some(row) = rows[*done].take() {
                self.under_way.remove(row.key);
            }
        }
        for (id, numbers) in parts {
            let rows = numbers.into_iter().filter_map(|row| rows[row].take()).collect();
            let part = Batch { id, at: batch.at, rows };
            Box::pin(self.send(part)).await?;
        }
        Ok(())
    }

    fn count(&mut self, batch: &Batch, uploaded: usize) {
        self.summary.uploaded += uploaded as u64;
        self.summary.batches += 1;
        self.with.progress.uploaded(uploaded as u64);
        if uploaded == batch.rows.len() {
            batch.rows.iter().for_each(|row| self.under_way.remove(row.key));
        }
    }

    pub(super) fn write_met(&mut self) -> Result<(), Error> {
        let keys = std::mem::take(&mut self.so_far.met);
        if !keys.is_empty() {
            self.with.journal.append(&Record::Met { keys })?;
        }
        Ok(())
    }

    /// Writes down which files were read without anything to send, and which are gone.
    pub(super) fn finish(&mut self, found: &Discovery) -> Result<(), Error> {
        self.write_met()?;
        let marks: Vec<Mark> = std::mem::take(&mut self.so_far.marks).into_values().collect();
        let there: BTreeSet<&str> = found.logs.iter().map(|log| log.name.as_str()).collect();
        let was_searched = |path: &str| match &self.with.options.scope {
            Scope::All => true,
            Scope::Project(directory) => {
                let path = path.strip_prefix(source::CONFIG).unwrap_or(path);
                let top = path.split('/').next().unwrap_or_default();
                path.starts_with(source::CODEX) || files::names(directory).iter().any(|name| name == top)
            }
        };
        let known = self.with.journal.state().files.keys();
        let gone: Vec<String> =
            known.filter(|path| !there.contains(path.as_str()) && was_searched(path)).cloned().collect();
        if !marks.is_empty() || !gone.is_empty() {
            self.with.journal.append(&Record::Files { marks, gone })?;
        }
        if self.with.journal.state().resend {
            self.with.journal.append(&Record::Resent)?;
        }
        self.with.journal.finish()?;
        Ok(())
    }
}
