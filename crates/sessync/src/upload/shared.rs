//! Step 4 when several machines share their state: a batch is sent under the next free number of the shared log.

use super::batch::Batch;
use super::{Delivery, Error, Run};
use crate::clock::Clock;
use crate::journal::disk::Disk;
use crate::journal::record::{Part, Record};
use crate::journal::seen::Novelty;
use crate::outside::shared::{self, Shared};
use crate::outside::transport::Transport;

impl<T: Transport, C: Clock, D: Disk> Run<'_, T, C, D> {
    pub(super) async fn send_shared(&mut self, shared: &Shared, mut batch: Batch) -> Result<(), Error> {
        loop {
            if self.failed.is_some() || batch.rows.is_empty() {
                return Ok(());
            }
            let number = self.with.journal.state().shared_next;
            let id = shared.batch_id(number);
            let all: Vec<u32> = (0..batch.rows.len() as u32).collect();
            self.with.journal.append(&Record::Replaced {
                batch: batch.id.clone(),
                at: self.with.clock.now(),
                set_aside: Vec::new(),
                known: Vec::new(),
                parts: vec![Part { batch: id.clone(), rows: all }],
            })?;
            batch.id = id;
            let seed = self.with.rng.u64(..);
            let patience = self.with.options.patience;
            let appended = shared.append(number, self.with.bigquery, self.with.clock, &batch, patience, seed);
            match Box::pin(appended).await {
                Ok(shared::Appended::Ours(delivery)) => {
                    let taken = delivery == Delivery::Accepted;
                    self.settle(batch, Ok(delivery)).await?;
                    if taken {
                        self.with.journal.append(&Record::Shared { next: number + 1, keys: Vec::new() })?;
                    }
                    return Ok(());
                }
                Ok(shared::Appended::Theirs(keys)) => {
                    let settled = self.with.journal.state().last_settled.as_ref();
                    let ours = settled.filter(|settled| settled.batch == batch.id);
                    let mut keys = shared::unaccounted(keys, ours.map_or(&[], |settled| &settled.keys));
                    if self.with.journal.state().resend {
                        // After a reset, what others have sent does not count.
                        keys.clear();
                    }
                    self.with.journal.append(&Record::Shared { next: number + 1, keys })?;
                    let known = if self.with.options.deduplication { self.known_rows(&batch)? } else { Vec::new() };
                    if known.is_empty() {
                        continue;
                    }
                    self.summary.duplicates += known.len() as u64;
                    let rest = batch.others(&known);
                    return self.replace(batch, Vec::new(), known, vec![rest]).await;
                }
                Err(shared::Failed::Undelivered(error)) => return self.settle(batch, Err(error)).await,
                Err(shared::Failed::Shared(error)) => {
                    self.failed.get_or_insert(Error::Shared(error));
                    return Ok(());
                }
            }
        }
    }

    /// The rows of a batch that another machine has uploaded meanwhile.
    fn known_rows(&mut self, batch: &Batch) -> Result<Vec<usize>, Error> {
        let mut known = Vec::new();
        for (at, row) in batch.rows.iter().enumerate() {
            if self.with.journal.look_up(row.key)? == Novelty::Known {
                // A key without its content stands for one row only: this one takes its place.
                self.with.journal.meet(row.key)?;
                known.push(at);
            }
        }
        Ok(known)
    }
}
