//! Ledger entries: what moved, between whom, and how it changed each balance.
//!
//! An entry is written once, already completed, in the same transaction as the balances that it changes. It is never
//! edited. Its postings say by how much each account changed. Those of a transfer or a reversal sum to zero, those of a
//! grant to its amount. So the sum of all balances changes only by grants, and `verify` can prove it from the table.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use ichido::Timestamp;
use serde::{Serialize, Serializer};
use uuid::Uuid;

use crate::amount::{Amount, Delta};
use crate::identity::did::Did;

/// The last instant that fits an id: 48 bits of milliseconds (the year 10889).
pub(super) const MAX_MILLIS: u64 = (1 << 48) - 1;

/// The id of a transaction: a UUID of version 7, which is 48 bits of time and then random bits.
///
/// Its text sorts as its number does. So an id is an entry's name, its time and its place in a history: a range of
/// instants is a range of ids, and a page ends at an id. No two entries share a place, so no page can skip an entry or
/// show it twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(Uuid);

/// Why a text is not a transaction id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a transaction id is a UUID of version 7 in lower case")]
pub struct NotATransactionId;

impl TransactionId {
    pub fn new(now: Timestamp, random: [u8; 10]) -> Self {
        TransactionId(uuid::Builder::from_unix_timestamp_millis(now.as_millis().min(MAX_MILLIS), &random).into_uuid())
    }

    /// When the transaction was made.
    pub fn created_at(self) -> Timestamp {
        let millis = self.0.as_u128() >> 80;
        Timestamp::from_millis(u64::try_from(millis).unwrap_or(MAX_MILLIS))
    }

    /// A number that is as good as random. It chooses the treasury's shard.
    pub(super) fn lot(self) -> u64 {
        self.0.as_u64_pair().1
    }

    pub(super) fn number(self) -> u128 {
        self.0.as_u128()
    }

    pub(crate) fn number_be(self) -> [u8; 16] {
        self.0.into_bytes()
    }
}

impl FromStr for TransactionId {
    type Err = NotATransactionId;

    fn from_str(text: &str) -> Result<Self, NotATransactionId> {
        let id = Uuid::try_parse(text).map_err(|_| NotATransactionId)?;
        // The text is a key in the table, so there is only one spelling.
        if id.hyphenated().to_string() == text && id.get_version_num() == 7 {
            Ok(TransactionId(id))
        } else {
            Err(NotATransactionId)
        }
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl Serialize for TransactionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The most shards that the treasury may have. Its balance is read from all of them, also from those that an earlier
/// configuration used, so that a lower number loses nothing.
pub(crate) const MAX_SHARDS: u8 = 16;

/// How many shards a person's account gets beside its own item when credits to it have met. All are made at once, and they
/// stay. A version that wants more of them has to add them to the accounts that have fewer.
pub(crate) const ACCOUNT_SHARDS: u8 = 47;

/// One balance in the table: a person's account, or a shard of it, or one shard of the treasury.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Account {
    /// The account itself, which is also the first of its shards.
    Of(Did),
    /// Another shard, from 1 on.
    Shard(Did, u8),
    Treasury(u8),
}

impl Account {
    /// A shard of a person's account. Number 0 is the account itself.
    pub(crate) fn shard(did: &Did, shard: u8) -> Self {
        if shard == 0 { Account::Of(did.clone()) } else { Account::Shard(did.clone(), shard) }
    }

    /// Whose money it is. `None`: the treasury's.
    pub(crate) fn owner(&self) -> Option<&Did> {
        match self {
            Account::Of(did) | Account::Shard(did, _) => Some(did),
            Account::Treasury(_) => None,
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Account::Of(did) => did.fmt(f),
            Account::Shard(did, shard) => write!(f, "{did}#{shard}"),
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

/// By how much each balance changes.
pub type Postings = BTreeMap<Account, Delta>;

/// One movement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub id: TransactionId,
    pub kind: Kind,
    /// `None` for a grant.
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

    /// By how much the entry changes the sum of all balances.
    pub(crate) fn created_money(&self) -> Delta {
        self.postings.values().copied().sum()
    }

    /// By how much the entry changes what a person has, all shards together.
    pub(crate) fn change_of(&self, did: &Did) -> Delta {
        self.postings.iter().filter(|(account, _)| account.owner() == Some(did)).map(|(_, delta)| *delta).sum()
    }

    /// What its postings must sum to.
    pub(crate) fn expected_sum(&self) -> Delta {
        match self.kind {
            Kind::Grant => Delta::credit(self.amount),
            Kind::Transfer | Kind::Reversal => Delta(0),
        }
    }

    /// The entry as the owner of an account sees it.
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
            created_at: self.created_at().to_string(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // `make soak` finds them by this name.
    mod properties {
        use super::*;

        proptest! {
            #[test]
            fn an_id_knows_its_time_and_survives_its_text(millis in 0..=MAX_MILLIS, random in any::<[u8; 10]>()) {
                let id = TransactionId::new(Timestamp::from_millis(millis), random);
                prop_assert_eq!(id.created_at().as_millis(), millis);
                prop_assert_eq!(id.to_string().parse(), Ok(id));
            }

            #[test]
            fn any_text_is_an_id_or_an_error(text in "\\PC{0,40}|[0-9a-fA-F-]{30,40}") {
                if let Ok(id) = text.parse::<TransactionId>() {
                    prop_assert_eq!(id.to_string(), text);
                }
            }
        }
    }

    #[test]
    fn only_lower_case_version_7_is_an_id() {
        let id = TransactionId::new(Timestamp::from_millis(1_700_000_000_000), [7; 10]).to_string();
        assert!(id.parse::<TransactionId>().is_ok());
        assert!(id.to_uppercase().parse::<TransactionId>().is_err());
        assert!(id.replace('-', "").parse::<TransactionId>().is_err());
        assert!(Uuid::from_u128(0).to_string().parse::<TransactionId>().is_err());
    }
}
