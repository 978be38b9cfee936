//! A grant by an operator: new money for an account, with a reason, once per key.

use ichido::dynamodb::Join;
use ichido::{Digests, Timestamp};

use super::commit::Parties;
use super::plan::{self, Spread};
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
        let id = self.new_id(now);
        let sketch = plan::grant(grant, id, &Spread::default()).entry;
        let record = Join::new(&self.0.records, &table::grant_key(&grant.key)?);
        let record = record.digests(self.grant_digests(grant)).outcome(&sketch.view())?;
        let record = table::describe_grant(record, &sketch);
        let parties = Parties { payee: Some(grant.recipient.clone()), ..Parties::default() };
        let plan = |spread: &Spread| Ok(plan::grant(grant, id, spread));
        let committed = self.commit(record, now, until, &parties, plan).await?;
        self.answer(committed, &sketch.view())
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
