//! A grant by an operator: new money for an account, with a reason, once per key.

use ichido::dynamodb::Join;
use ichido::{Digests, Timestamp};

use super::plan::{self, Shards};
use super::{Answer, Error, Ledger};
use crate::amount::Amount;
use crate::api::idempotency::IdempotencyKey;
use crate::identity::did::Did;
use crate::table;

/// What an operator grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub recipient: Did,
    pub amount: Amount,
    /// The owner of the account can read it.
    pub reason: String,
    /// Grants have keys of their own: no transfer shares them.
    pub key: IdempotencyKey,
}

impl Ledger {
    /// Creates the amount, once for this key.
    pub async fn grant(&self, grant: &Grant, until: Timestamp) -> Result<Answer, Error> {
        let now = self.now();
        let plan = plan::grant(grant, self.new_id(now));
        let record = Join::new(&self.0.records, &table::grant_key(&grant.key)?);
        let record = record.digests(self.grant_digests(grant)).outcome(&plan.entry.view())?;
        let record = table::describe_grant(record, &plan.entry);
        let committed = self.commit(record, now, until, false, |_: &Shards| Ok(plan.clone())).await?;
        self.answer(committed, &plan.entry.view())
    }

    /// What must be the same in every request under the key of a grant.
    pub(super) fn grant_digests(&self, grant: &Grant) -> Digests {
        let digests = self.0.digest_key.digests();
        digests
            .field("recipientDid", grant.recipient.as_str())
            .field("amount", grant.amount.units().to_be_bytes())
            .field("reason", &grant.reason)
            .build()
    }
}
