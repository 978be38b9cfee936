//! Reads the table, and adds up what each account's entries say.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::Client;
use ichido::dynamodb::classify;

use super::{Error, Finding};
use crate::amount::Delta;
use crate::ledger::{Account, Entry, Kind, TransactionId};
use crate::table::{self, Balance, Item, Row};

/// What the entries of one account come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) sum: Delta,
    pub(super) count: u64,
}

/// What one scan read.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) balances: BTreeMap<Account, Balance>,
    pub(super) sums: BTreeMap<Account, Sums>,
    /// Ids of all entries.
    pub(super) entries: BTreeSet<String>,
    /// How often each transfer was reversed.
    pub(super) reversed: BTreeMap<TransactionId, u64>,
    pub(super) grants: Delta,
    /// Each record, and the transaction that it names.
    pub(super) records: Vec<(String, String)>,
    /// What is wrong with single items.
    pub(super) findings: BTreeSet<Finding>,
}

impl Books {
    fn add(&mut self, item: &Item) {
        match table::read(item) {
            Ok(Row::Entry(entry)) => self.add_entry(&entry),
            Ok(Row::Balance(balance)) => drop(self.balances.insert(balance.account.clone(), balance)),
            Ok(Row::Record { pk, transaction_id }) => self.records.push((pk, transaction_id)),
            Ok(Row::Tombstone | Row::Spent) => {}
            Err(error) => drop(self.findings.insert(Finding::Unreadable { item: error.to_string() })),
        }
    }

    fn add_entry(&mut self, entry: &Entry) {
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
    }
}

/// Reads the whole table.
pub(super) async fn scan(client: &Client, table_name: &str) -> Result<Books, Error> {
    let mut books = Books::default();
    let mut start = None;
    loop {
        let scan = client.scan().table_name(table_name).consistent_read(true).set_exclusive_start_key(start);
        let page = scan.send().await.map_err(|error| Error(classify(error)))?;
        for item in page.items.unwrap_or_default() {
            books.add(&item);
        }
        start = page.last_evaluated_key;
        if start.is_none() {
            return Ok(books);
        }
    }
}

/// Reads some accounts. Those that are not there are left out.
pub(super) async fn read(
    client: &Client,
    table_name: &str,
    accounts: &[Account],
) -> Result<BTreeMap<Account, Balance>, Error> {
    let mut balances = BTreeMap::new();
    for account in accounts {
        let Ok(key) = table::account_key(account) else { continue };
        let get = client.get_item().table_name(table_name).set_key(Some(key)).consistent_read(true);
        let read = get.send().await.map_err(|error| Error(classify(error)))?;
        if let Some(balance) = read.item.as_ref().and_then(|item| table::read_balance(item).ok()) {
            balances.insert(account.clone(), balance);
        }
    }
    Ok(balances)
}
