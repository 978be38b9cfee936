//! A reversal: a new entry that takes a transfer back. At most one a transfer, for ever.

use ichido::Timestamp;
use ichido::dynamodb::Join;

use super::{Answer, Error, Ledger};
use crate::did::Did;
use crate::entry::{Entry, Kind};
use crate::instant;
use crate::plan;
use crate::table::{self, text};
use crate::transaction::TransactionId;

impl Ledger {
    /// Takes back what `sender` had sent as `id`.
    pub async fn reverse(
        &self,
        sender: &Did,
        id: TransactionId,
        reason: &str,
        until: Timestamp,
    ) -> Result<Answer, Error> {
        let original = self.entry(sender, id).await?.ok_or(Error::TransactionNotFound)?;
        if original.kind != Kind::Transfer {
            return Err(Error::NotReversible);
        }
        let now = self.now();
        let reversal_id = self.new_id(now);
        let rules = self.rules();
        // Only for its body, which is the same whichever shards pay.
        let rich = vec![(0, crate::amount::MAX)];
        let sketch = plan::reversal(&original, reason, reversal_id, rules, &rich).map_err(|_| Error::NotReversible)?;
        let key = self.0.reversals.key([id.to_string()])?;
        let join = Join::new(&self.0.records, &key)
            .attribute("transactionId", reversal_id.to_string())
            .attribute("createdAt", instant::format(now))
            .attribute("reverses", id.to_string())
            .outcome(&sketch.entry.view())?;
        let plan = |shards: &plan::Shards| plan::reversal(&original, reason, reversal_id, rules, shards);
        let committed = self.commit(&join, now, until, plan::treasury_pays(&original), plan).await?;
        self.answer(committed, &sketch.entry.view())
    }

    /// An entry of a sender's history.
    pub async fn entry(&self, sender: &Did, id: TransactionId) -> Result<Option<Entry>, Error> {
        let get = self
            .0
            .reader
            .get_item()
            .table_name(self.table_name())
            .key(table::PK, text(table::sent_pk(sender)?))
            .key(table::SK, text(table::entry_sk(id)))
            .consistent_read(true);
        let item = get.send().await.map_err(super::read_error)?.item;
        Ok(item.as_ref().map(table::read_entry).transpose()?)
    }
}
