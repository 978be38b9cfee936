//! A reversal: a new entry that takes a transfer back. There is at most one reversal per transfer, for ever.

use ichido::Timestamp;
use ichido::dynamodb::Join;

use super::commit::Parties;
use super::entry::{Entry, Kind, TransactionId};
use super::plan::{self, Spread};
use super::{Answer, Error, Ledger};
use crate::identity::did::Did;
use crate::table;

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
        // Made only for its body, which is the same whichever shards pay.
        let rich = Spread { treasury: vec![(0, crate::amount::MAX)], ..Spread::default() };
        let sketch = plan::reversal(&original, reason, reversal_id, rules, &rich).map_err(|_| Error::NotReversible)?;
        let key = table::reversal_key(&self.0.reversals, id)?;
        let record = Join::new(&self.0.records, &key).outcome(&sketch.entry.view())?;
        let record = table::describe_reversal(record, reversal_id, id);
        let plan = |spread: &Spread| plan::reversal(&original, reason, reversal_id, rules, spread);
        let parties = Parties {
            payer: self.person(&original.recipient),
            payee: self.person(sender),
            treasury_pays: plan::treasury_pays(&original),
        };
        let committed = self.commit(record, now, until, &parties, plan).await?;
        self.answer(committed, &sketch.entry.view())
    }

    /// An entry of a sender's history.
    pub async fn entry(&self, sender: &Did, id: TransactionId) -> Result<Option<Entry>, Error> {
        let get = self
            .0
            .reader
            .get_item()
            .table_name(self.table_name())
            .set_key(Some(table::sent_entry_key(sender, id)?))
            .consistent_read(true);
        let item = get.send().await.map_err(super::read_error)?.item;
        Ok(item.as_ref().map(table::read_entry).transpose()?)
    }
}
