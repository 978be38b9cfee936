//! Step 1: ask BigQuery about every batch that an interrupted run left without an end.

use super::send::{ask, present};
use super::{Error, Run};
use crate::clock::Clock;
use crate::journal::disk::Disk;
use crate::journal::record::{Intent, Record};
use crate::outside::transport::Transport;

impl<T: Transport, C: Clock, D: Disk> Run<'_, T, C, D> {
    pub(super) async fn recover(&mut self) -> Result<(), Error> {
        let pending: Vec<Intent> = self.with.journal.state().pending().cloned().collect();
        for intent in pending {
            let rows = intent.keys.len();
            let present = self.rows_present(&intent).await?;
            self.summary.recovered += present.len() as u64;
            let only = (present.len() < rows).then(|| present.into_iter().map(|row| row as u32).collect());
            self.with.journal.append(&Record::Settled { batch: intent.batch, at: self.with.clock.now(), only })?;
        }
        Ok(())
    }

    /// Which rows of a batch are in BigQuery. While the batch is young, a missing row is asked for again.
    async fn rows_present(&mut self, intent: &Intent) -> Result<Vec<usize>, Error> {
        let (clock, settle) = (self.with.clock, self.with.options.settle);
        let uuids: Vec<u64> = intent.keys.iter().map(|key| key.uuid()).collect();
        let doubtful = self.doubtful();
        let mut batches = vec![intent.batch.as_str()];
        batches.extend(doubtful.iter().map(String::as_str));
        loop {
            let patience = self.batch_patience();
            let seed = self.with.rng.u64(..);
            let there = ask(self.with.bigquery, clock, &batches, intent.span, patience, seed)
                .await
                .map_err(Error::Unsettled)?;
            let present = present(&uuids, there);
            let wait = settle.saturating_sub(clock.now().since(intent.at));
            if present.len() == uuids.len() || wait.is_zero() {
                return Ok(present);
            }
            if wait >= patience.left(clock) {
                return Err(Error::OutOfTime);
            }
            clock.sleep(wait).await;
            // A clock that was set back never makes the intent old enough. Then the whole time is waited once.
            if clock.now().since(intent.at) < settle {
                return Ok(present);
            }
        }
    }
}
