//! Compares balances with entries, and says what is wrong.

use std::collections::BTreeSet;

use super::scan::{Books, Sums};
use super::{Finding, Report};
use crate::amount::Delta;
use crate::ledger::Account;
use crate::table::Balance;

impl Books {
    /// Accounts whose balance is not what their entries say.
    pub(super) fn differing(&self) -> Vec<Account> {
        let all: BTreeSet<&Account> = self.balances.keys().chain(self.sums.keys()).collect();
        all.into_iter().filter(|account| !self.agrees(account)).cloned().collect()
    }

    /// Takes over what is known of an account that did not change during a scan.
    pub(super) fn settle(&mut self, account: &Account, balance: Option<Balance>, sums: Sums) {
        match balance {
            Some(balance) => self.balances.insert(account.clone(), balance),
            None => self.balances.remove(account),
        };
        self.sums.insert(account.clone(), sums);
    }

    fn agrees(&self, account: &Account) -> bool {
        let sums = self.sums.get(account).cloned().unwrap_or_default();
        match self.balances.get(account) {
            Some(balance) => balance.balance == sums.sum && balance.entries == sums.count,
            None => sums == Sums::default(),
        }
    }
}

/// The report on these books. `unsettled` accounts are not judged.
pub(super) fn judge(mut books: Books, unsettled: Vec<Account>, grants: Delta) -> Report {
    for account in books.differing() {
        if unsettled.contains(&account) {
            continue;
        }
        let sums = books.sums.get(&account).cloned().unwrap_or_default();
        let name = account.to_string();
        books.findings.insert(match books.balances.get(&account) {
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
    for balance in books.balances.values().filter(|balance| balance.balance.0 < 0) {
        books.findings.insert(Finding::Negative { account: balance.account.to_string(), balance: balance.balance });
    }
    for (record, id) in books.records.iter().filter(|(_, id)| !books.entries.contains(id)) {
        books.findings.insert(Finding::EntryMissing { record: record.clone(), transaction_id: id.clone() });
    }
    for (id, _) in books.reversed.iter().filter(|(_, times)| **times > 1) {
        books.findings.insert(Finding::ReversedTwice { transaction_id: id.to_string() });
    }
    let summed = books.balances.values().map(|balance| balance.balance).sum();
    // If every balance is the sum of its entries and every entry balances, the total is that of the grants, although the
    // accounts of a table in use were not all read at one moment. Otherwise the plain sums say how much is off.
    let proven = books.findings.is_empty() && unsettled.is_empty();
    let balances = if proven { grants } else { summed };
    if unsettled.is_empty() && balances != grants {
        books.findings.insert(Finding::TotalDiffers { balances, grants });
    }
    Report {
        accounts: books.balances.len(),
        entries: books.entries.len(),
        balances,
        grants,
        findings: books.findings.into_iter().collect(),
        unsettled: unsettled.iter().map(ToString::to_string).collect(),
    }
}
