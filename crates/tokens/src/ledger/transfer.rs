//! A transfer: everything that its attempts have in common is fixed here, once.

use ichido::dynamodb::Join;
use ichido::{Key, Timestamp};
use serde::Serialize;

use super::commit::{Committed, Parties};
use super::entry::TransactionId;
use super::plan::{self, Spread};
use super::{Answer, Error, Ledger};
use crate::amount::Amount;
use crate::api::idempotency::IdempotencyKey;
use crate::identity::did::Did;
use crate::settings::Rules;
use crate::table::{self, Earlier};

/// What a sender asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    pub sender: Did,
    pub recipient: Did,
    pub amount: Amount,
    pub message: String,
    pub key: IdempotencyKey,
}

impl Transfer {
    /// What the sender pays to the treasury beside the amount. A transfer from or to the treasury carries no fee: the
    /// treasury would pay itself, or tax its own income.
    pub(super) fn fee(&self, rules: &Rules) -> Amount {
        let with_treasury = self.sender == rules.treasury || self.recipient == rules.treasury;
        if with_treasury { Amount::ZERO } else { rules.tax_rate.of(self.amount) }
    }
}

/// What a client gets for a transfer. It has no balances, because they would be stale at the first replay.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Receipt<'a, Id = TransactionId> {
    transaction_id: Id,
    sender_did: &'a Did,
    recipient_did: &'a Did,
    amount: Amount,
    fee: Amount,
    message: &'a str,
    idempotency_key: &'a IdempotencyKey,
    created_at: String,
    status: &'static str,
}

/// The answer to a transfer that was made before this service took over. Its record has no message, so messages are not
/// compared. The first design had no fee.
fn earlier_answer(request: &Transfer, earlier: Earlier) -> Result<Answer, Error> {
    let mut fields = Vec::new();
    if earlier.amount != request.amount {
        fields.push("amount".to_owned());
    }
    if earlier.recipient != request.recipient.as_str() {
        fields.push("recipientDid".to_owned());
    }
    if !fields.is_empty() {
        return Err(Error::Mismatch { fields });
    }
    let receipt = Receipt {
        transaction_id: earlier.transaction_id,
        sender_did: &request.sender,
        recipient_did: &request.recipient,
        amount: earlier.amount,
        fee: Amount::ZERO,
        message: "",
        idempotency_key: &request.key,
        created_at: earlier.created_at,
        status: "completed",
    };
    Answer::new(&receipt, true)
}

impl Ledger {
    /// Moves the amount, once for this sender and key.
    pub async fn transfer(&self, request: &Transfer, until: Timestamp) -> Result<Answer, Error> {
        let rules = self.rules();
        let now = self.now();
        let id = self.new_id(now);
        let fee = request.fee(rules);
        let receipt = Receipt {
            transaction_id: id,
            sender_did: &request.sender,
            recipient_did: &request.recipient,
            amount: request.amount,
            fee,
            message: &request.message,
            idempotency_key: &request.key,
            created_at: id.created_at().to_string(),
            status: "completed",
        };
        let digests = self.0.digest_key.digests();
        let digests = digests
            .field("recipientDid", request.recipient.as_str())
            .field("amount", request.amount.units().to_be_bytes())
            .field("message", &request.message)
            .build();
        let record = Join::new(&self.0.records, &self.record_key(request)?).digests(digests).outcome(&receipt)?;
        let record = table::describe_transfer(record, id, request);
        let parties = Parties {
            payer: self.person(&request.sender),
            payee: self.person(&request.recipient),
            treasury_pays: request.sender == rules.treasury,
        };
        let plan = |spread: &Spread| plan::transfer(request, fee, id, rules, spread);
        let committed = self.commit(record, now, until, &parties, plan).await?;
        if let Committed::Before(recorded) = &committed
            && let Some(earlier) = table::read_earlier(&recorded.item)?
        {
            return earlier_answer(request, earlier);
        }
        self.answer(committed, &receipt)
    }

    /// The owner of an account. `None`: the treasury.
    pub(super) fn person(&self, did: &Did) -> Option<Did> {
        (*did != self.rules().treasury).then(|| did.clone())
    }

    /// The key of the record of this transfer.
    pub(crate) fn record_key(&self, request: &Transfer) -> Result<Key, Error> {
        Ok(table::record_key(&self.0.transfers, &request.sender, &request.key)?)
    }

    /// The body that was fixed before the commit: this request's, or the one of the request that came first.
    pub(super) fn answer<T: Serialize>(&self, committed: Committed, body: &T) -> Result<Answer, Error> {
        match committed {
            Committed::Now => Answer::new(body, false),
            Committed::Before(recorded) => {
                let body = recorded.outcome_json().ok_or(Error::Unresolved)?.to_owned();
                Ok(Answer { body, replayed: true })
            }
        }
    }
}
