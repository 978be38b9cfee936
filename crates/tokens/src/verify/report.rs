//! What a verification found.

use serde::Serialize;

use crate::amount::Delta;

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase", tag = "problem")]
pub enum Finding {
    /// A balance is not the sum of its entries.
    BalanceDiffers { account: String, balance: Delta, entries_sum: Delta, entries_counted: u64, entries_found: u64 },
    /// A shard has another status than its account, or was folded more or less often.
    ShardDiffers { account: String, shard: String },
    /// A balance is below zero.
    Negative { account: String, balance: Delta },
    /// Entries move money of an account that is not there.
    AccountMissing { account: String, entries_sum: Delta },
    /// The postings of an entry do not sum to what its kind allows.
    Unbalanced { transaction_id: String, sum: Delta, expected: Delta },
    /// A record says that a transaction was made, and there is no such transaction.
    EntryMissing { record: String, transaction_id: String },
    /// A reversal was made, and there is no record that forbids a second one.
    RecordMissing { record: String, transaction_id: String },
    /// A transfer was taken back more than once.
    ReversedTwice { transaction_id: String },
    /// An item cannot be read.
    Unreadable { item: String },
    /// The sum of all balances is not the sum of all grants.
    TotalDiffers { balances: Delta, grants: Delta },
}

/// What a table holds, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub accounts: u64,
    pub entries: u64,
    pub balances: Delta,
    pub grants: Delta,
    /// Keys that were used in the first design, and whose records are not under the name that is read: such a key moves money again.
    /// The books are right all the same. An import mends it.
    pub never_read: u64,
    pub findings: Vec<Finding>,
    /// Accounts that changed during every check. Verify again when there are fewer transfers.
    pub unsettled: Vec<String>,
    /// So much seemed to be wrong that the scan was stopped. The findings are true, but there may be more.
    pub stopped: bool,
}

impl Report {
    /// Whether everything is proven.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.unsettled.is_empty() && !self.stopped
    }
}
