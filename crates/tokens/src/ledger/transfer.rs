//! A transfer: validated by its caller, planned, committed.

use ichido::Timestamp;
use ichido::dynamodb::Join;
use serde::Serialize;

use super::commit::Committed;
use super::{Answer, Error, Ledger};
use crate::amount::Amount;
use crate::did::Did;
use crate::idempotency::IdempotencyKey;
use crate::instant;
use crate::plan::{self, Transfer};
use crate::transaction::TransactionId;

/// What a client gets for a transfer. No balances: they would be stale at the first replay.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Body<'a> {
    transaction_id: TransactionId,
    sender_did: &'a Did,
    recipient_did: &'a Did,
    amount: Amount,
    fee: Amount,
    message: &'a str,
    idempotency_key: &'a IdempotencyKey,
    created_at: &'a str,
    status: &'static str,
}

impl Ledger {
    /// Moves the amount, once for this sender and key.
    pub async fn transfer(&self, request: &Transfer, until: Timestamp) -> Result<Answer, Error> {
        // frozen here: every attempt of this request has this id and this time
        let now = self.now();
        let id = self.new_id(now);
        let rules = self.rules();
        let created_at = instant::format(now);
        let treasury_pays = request.sender == rules.treasury;
        let with_treasury = treasury_pays || request.recipient == rules.treasury;
        let body = Body {
            transaction_id: id,
            sender_did: &request.sender,
            recipient_did: &request.recipient,
            amount: request.amount,
            fee: if with_treasury { Amount::ZERO } else { rules.tax_rate.of(request.amount) },
            message: &request.message,
            idempotency_key: &request.key,
            created_at: &created_at,
            status: "completed",
        };
        let key = self.0.transfers.key([request.sender.as_str(), request.key.as_str()])?;
        let digests = self.0.digest_key.digests();
        let digests = digests
            .field("recipientDid", request.recipient.as_str())
            .field("amount", request.amount.units().to_be_bytes())
            .field("message", &request.message)
            .build();
        let join = Join::new(&self.0.records, &key)
            .digests(digests)
            .attribute("transactionId", id.to_string())
            .attribute("createdAt", created_at.as_str())
            .attribute("senderDid", request.sender.as_str())
            .attribute("recipientDid", request.recipient.as_str())
            .attribute("amount", request.amount.to_string())
            .outcome(&body)?;
        let plan = |shards: &plan::Shards| plan::transfer(request, id, rules, shards);
        let committed = self.commit(&join, now, until, treasury_pays, plan).await?;
        self.answer(committed, &body)
    }

    /// The body that was fixed before the commit: ours, or the one of whoever came first.
    pub(super) fn answer<T: Serialize>(&self, committed: Committed, body: &T) -> Result<Answer, Error> {
        match committed {
            Committed::Made => {
                let body = serde_json::to_string(body).map_err(ichido::record::Error::Outcome)?;
                Ok(Answer { body, replayed: false })
            }
            Committed::Before(recorded) => {
                let body = recorded.outcome_json().ok_or(Error::Unresolved)?.to_owned();
                Ok(Answer { body, replayed: true })
            }
        }
    }
}
