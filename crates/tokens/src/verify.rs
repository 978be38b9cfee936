//! Proves from the table that no money appeared or vanished.
//!
//! Checked: every balance is the sum of its entries, and as many entries as it counts; no balance is negative; the
//! postings of every entry sum to what its kind allows; the sum of all balances is the sum of all grants; every record
//! names an entry that is there; nothing was reversed twice.
//!
//! A table that is being written to is never the same from the first to the last page of a scan. So whatever seems to
//! differ is looked at again before anything is said: its account is read, the whole ledger scanned, the account read
//! again. If the account counts as many entries as before, nothing was posted to it in between, and the comparison holds. An
//! account that never stands still is reported as unsettled, not as wrong.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::Client;
use ichido::dynamodb::item::attr;
use ichido::store;
use serde::Serialize;

use crate::amount::Delta;
use crate::entry::{Account, Kind};
use crate::table::{self, Balance, Item, text};
use crate::transaction::TransactionId;

/// How often the ledger is scanned again for accounts that seem to differ.
const PASSES: usize = 5;

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase", tag = "problem")]
pub enum Finding {
    /// A balance is not the sum of its entries.
    BalanceDiffers { account: String, balance: Delta, entries_sum: Delta, entries_counted: u64, entries_found: u64 },
    /// A balance is below zero.
    Negative { account: String, balance: Delta },
    /// Entries move money of an account that is not there.
    AccountMissing { account: String, entries_sum: Delta },
    /// The postings of an entry do not sum to what its kind allows.
    Unbalanced { transaction_id: String, sum: Delta, expected: Delta },
    /// A record says that a transaction was made, and there is none.
    EntryMissing { record: String, transaction_id: String },
    /// A transfer was taken back more than once.
    ReversedTwice { transaction_id: String },
    /// An item cannot be read.
    Unreadable { item: String },
    /// The sum of all balances is not the sum of all grants.
    TotalDiffers { balances: Delta, grants: Delta },
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub accounts: usize,
    pub entries: usize,
    pub balances: Delta,
    pub grants: Delta,
    pub findings: Vec<Finding>,
    /// Accounts that moved during every look; run it again when there is less going on.
    pub unsettled: Vec<String>,
}

impl Report {
    /// Everything is proven.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.unsettled.is_empty()
    }
}

/// The table could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the table cannot be read")]
pub struct Error(#[source] store::Error);

/// What a scan saw of one account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Sums {
    sum: Delta,
    count: u64,
}

/// One scan.
#[derive(Debug, Default)]
struct Seen {
    balances: BTreeMap<Account, Balance>,
    sums: BTreeMap<Account, Sums>,
    entries: BTreeSet<String>,
    reversed: BTreeMap<TransactionId, u64>,
    grants: Delta,
    /// Record and the transaction that it names.
    records: Vec<(String, String)>,
    findings: BTreeSet<Finding>,
}

/// Verifies a table.
pub async fn verify(client: &Client, table_name: &str) -> Result<Report, Error> {
    let mut seen = scan(client, table_name).await?;
    let mut unsettled = seen.differing();
    let mut settled_grants = seen.grants;
    for _ in 0..PASSES {
        if unsettled.is_empty() {
            break;
        }
        let before = read(client, table_name, &unsettled).await?;
        let again = scan(client, table_name).await?;
        let after = read(client, table_name, &unsettled).await?;
        unsettled.retain(|account| {
            let (before, after) = (before.get(account), after.get(account));
            let still = before.map(|balance| balance.entries) == after.map(|balance| balance.entries);
            if still {
                seen.settle(account, after.cloned(), again.sums.get(account).cloned().unwrap_or_default());
            }
            !still
        });
        settled_grants = again.grants;
        // entries that were not there the first time
        seen.entries.extend(again.entries);
        seen.findings.extend(again.findings);
        seen.reversed.extend(again.reversed);
    }
    Ok(seen.report(unsettled, settled_grants))
}

/// What a refusal leaves where a record would be: it stands for no transaction.
fn is_fence(item: &Item) -> bool {
    item.get(attr::STATE).and_then(|state| state.as_s().ok()).is_some_and(|state| state == "released")
}

impl Seen {
    fn take(&mut self, item: &Item) {
        let key = |name| item.get(name).and_then(|value| value.as_s().ok()).map(String::as_str).unwrap_or_default();
        let (pk, sk) = (key(table::PK), key(table::SK));
        let read = if sk.starts_with(table::ENTRY_PREFIX) {
            self.take_entry(item)
        } else if sk == table::BALANCE_SK {
            table::read_balance(item).map(|balance| {
                self.balances.insert(balance.account.clone(), balance);
            })
        } else if sk == table::RECORD_SK && is_fence(item) {
            Ok(())
        } else if sk == table::RECORD_SK {
            table::string(item, "transactionId").map(|id| self.records.push((pk.to_owned(), id.to_owned())))
        } else if sk == table::SPENT_SK {
            table::int(item, table::SPENT).map(drop)
        } else {
            Err(table::broken(item, table::SK))
        };
        if let Err(error) = read {
            self.findings.insert(Finding::Unreadable { item: error.to_string() });
        }
    }

    fn take_entry(&mut self, item: &Item) -> Result<(), table::Error> {
        let entry = table::read_entry(item)?;
        let (sum, expected) = (entry.created_money(), entry.expected_sum());
        if sum != expected {
            self.findings.insert(Finding::Unbalanced { transaction_id: entry.id.to_string(), sum, expected });
        }
        for (account, delta) in &entry.postings {
            let sums = self.sums.entry(account.clone()).or_default();
            sums.sum += *delta;
            sums.count += 1;
        }
        if entry.kind == Kind::Grant {
            self.grants += Delta::credit(entry.amount);
        }
        if let Some(reverses) = entry.reverses {
            *self.reversed.entry(reverses).or_default() += 1;
        }
        self.entries.insert(entry.id.to_string());
        Ok(())
    }

    fn agrees(&self, account: &Account) -> bool {
        let sums = self.sums.get(account).cloned().unwrap_or_default();
        match self.balances.get(account) {
            Some(balance) => balance.balance == sums.sum && balance.entries == sums.count,
            None => sums == Sums::default(),
        }
    }

    fn differing(&self) -> Vec<Account> {
        let all: BTreeSet<&Account> = self.balances.keys().chain(self.sums.keys()).collect();
        all.into_iter().filter(|account| !self.agrees(account)).cloned().collect()
    }

    /// What is known of an account that stood still during a scan.
    fn settle(&mut self, account: &Account, balance: Option<Balance>, sums: Sums) {
        match balance {
            Some(balance) => self.balances.insert(account.clone(), balance),
            None => self.balances.remove(account),
        };
        self.sums.insert(account.clone(), sums);
    }

    fn report(mut self, unsettled: Vec<Account>, grants: Delta) -> Report {
        for account in self.differing() {
            if unsettled.contains(&account) {
                continue;
            }
            let sums = self.sums.get(&account).cloned().unwrap_or_default();
            let name = account.to_string();
            self.findings.insert(match self.balances.get(&account) {
                Some(balance) => Finding::BalanceDiffers {
                    account: name,
                    balance: balance.balance,
                    entries_sum: sums.sum,
                    entries_counted: balance.entries,
                    entries_found: sums.count,
                },
                None => Finding::AccountMissing { account: name, entries_sum: sums.sum },
            });
        }
        for balance in self.balances.values().filter(|balance| balance.balance.0 < 0) {
            self.findings.insert(Finding::Negative { account: balance.account.to_string(), balance: balance.balance });
        }
        for (record, id) in self.records.iter().filter(|(_, id)| !self.entries.contains(id)) {
            self.findings.insert(Finding::EntryMissing { record: record.clone(), transaction_id: id.clone() });
        }
        for (id, _) in self.reversed.iter().filter(|(_, times)| **times > 1) {
            self.findings.insert(Finding::ReversedTwice { transaction_id: id.to_string() });
        }
        let summed = self.balances.values().map(|balance| balance.balance).sum();
        // If every balance is the sum of its entries and every entry balances, the total is that of the grants, although
        // the accounts of a moving table were not all read at one moment. Otherwise the plain sums say how much is off.
        let proven = self.findings.is_empty() && unsettled.is_empty();
        let balances = if proven { grants } else { summed };
        if unsettled.is_empty() && balances != grants {
            self.findings.insert(Finding::TotalDiffers { balances, grants });
        }
        Report {
            accounts: self.balances.len(),
            entries: self.entries.len(),
            balances,
            grants,
            findings: self.findings.into_iter().collect(),
            unsettled: unsettled.iter().map(ToString::to_string).collect(),
        }
    }
}

async fn scan(client: &Client, table_name: &str) -> Result<Seen, Error> {
    let mut seen = Seen::default();
    let mut start = None;
    loop {
        let scan = client.scan().table_name(table_name).consistent_read(true).set_exclusive_start_key(start);
        let page = scan.send().await.map_err(|error| Error(ichido::dynamodb::classify(error)))?;
        for item in page.items.unwrap_or_default() {
            seen.take(&item);
        }
        start = page.last_evaluated_key;
        if start.is_none() {
            return Ok(seen);
        }
    }
}

async fn read(client: &Client, table_name: &str, accounts: &[Account]) -> Result<BTreeMap<Account, Balance>, Error> {
    let mut balances = BTreeMap::new();
    for account in accounts {
        let Ok(pk) = table::account_pk(account) else { continue };
        let get = client
            .get_item()
            .table_name(table_name)
            .key(table::PK, text(pk))
            .key(table::SK, text(table::BALANCE_SK))
            .consistent_read(true);
        let read = get.send().await.map_err(|error| Error(ichido::dynamodb::classify(error)))?;
        if let Some(balance) = read.item.as_ref().and_then(|item| table::read_balance(item).ok()) {
            balances.insert(account.clone(), balance);
        }
    }
    Ok(balances)
}
