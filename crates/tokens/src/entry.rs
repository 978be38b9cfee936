//! Ledger entries: what moved, between whom, and how each balance changed by it.
//!
//! An entry is written once, in the same transaction as the balances that it changes, already completed, and never
//! edited. Its postings say by how much each account changed. Those of a transfer or a reversal sum to zero, those of
//! a grant to its amount; so the sum of all balances changes only by grants, and `verify` can prove it from the table.

use std::collections::BTreeMap;
use std::fmt;

use ichido::Timestamp;
use serde::{Serialize, Serializer};

use crate::amount::{Amount, Delta};
use crate::did::Did;
use crate::instant;
use crate::transaction::TransactionId;

/// The most shards that the treasury may have. Reading its balance reads them all, also those that an earlier
/// configuration used, so that lowering the number loses sight of nothing.
pub const MAX_SHARDS: u8 = 16;

/// One balance in the table: a person's account, or one shard of the treasury.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Account {
    Of(Did),
    Treasury(u8),
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Account::Of(did) => did.fmt(f),
            Account::Treasury(shard) => write!(f, "treasury#{shard}"),
        }
    }
}

/// What kind of movement an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// From one account to another.
    Transfer,
    /// New money: the initial grant of an account.
    Grant,
    /// A transfer taken back.
    Reversal,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Transfer => "transfer",
            Kind::Grant => "grant",
            Kind::Reversal => "reversal",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Kind::Transfer, Kind::Grant, Kind::Reversal].into_iter().find(|kind| kind.as_str() == text)
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// By how much each account changes.
pub type Postings = BTreeMap<Account, Delta>;

/// One movement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub id: TransactionId,
    pub kind: Kind,
    /// Nobody, for a grant.
    pub sender: Option<Did>,
    pub recipient: Did,
    pub amount: Amount,
    /// What the sender paid to the treasury beside the amount; in a reversal, what the treasury gave back.
    pub fee: Amount,
    pub message: String,
    /// The transfer that a reversal takes back.
    pub reverses: Option<TransactionId>,
    pub postings: Postings,
}

impl Entry {
    pub fn created_at(&self) -> Timestamp {
        self.id.created_at()
    }

    /// By how much the sum of all balances changes: nothing, but for grants.
    pub fn created_money(&self) -> Delta {
        self.postings.values().copied().sum()
    }

    /// What its postings have to sum to.
    pub fn expected_sum(&self) -> Delta {
        match self.kind {
            Kind::Grant => Delta::credit(self.amount),
            Kind::Transfer | Kind::Reversal => Delta(0),
        }
    }

    /// How an account's owner sees it.
    pub fn view(&self) -> View<'_> {
        View {
            transaction_id: self.id,
            kind: self.kind,
            sender_did: self.sender.as_ref(),
            recipient_did: &self.recipient,
            amount: self.amount,
            fee: self.fee,
            message: &self.message,
            reverses: self.reverses,
            created_at: instant::format(self.created_at()),
            status: "completed",
        }
    }
}

/// A row of a history.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct View<'a> {
    transaction_id: TransactionId,
    kind: Kind,
    sender_did: Option<&'a Did>,
    recipient_did: &'a Did,
    amount: Amount,
    fee: Amount,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reverses: Option<TransactionId>,
    created_at: String,
    status: &'static str,
}
