//! Reads again whatever seemed to be wrong, and says what is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ichido::Clock;

use super::scan::{Progress, Sums, Suspect, table_sums};
use super::source::Source;
use super::{Error, Finding, Report};
use crate::amount::Delta;
use crate::ledger::Account;
use crate::table::{self, Balance, Name, Row};

/// How often the table is scanned for accounts that seem to differ.
const PASSES: usize = 5;

/// How often an item is read again. What one transaction wrote is not seen all at once by readers that ask for single items.
const LOOKS: usize = 3;
const PAUSE: Duration = Duration::from_millis(200);

/// The report on a table that was scanned.
pub(super) async fn judge(progress: Progress, source: &impl Source, clock: &dyn Clock) -> Result<Report, Error> {
    let mut findings = BTreeSet::new();
    let mut accounts = BTreeSet::new();
    for suspect in &progress.suspects {
        match suspect {
            Suspect::Account(name) => accounts.extend(table::account_of(name)),
            Suspect::Item(name) => findings.extend(look_again(source, clock, name).await?),
        }
    }
    for _ in 0..PASSES {
        if accounts.is_empty() {
            break;
        }
        let before = balances(source, &accounts).await?;
        let sums = table_sums(source, &accounts).await?;
        let after = balances(source, &accounts).await?;
        accounts.retain(|account| {
            let (before, after) = (before.get(account), after.get(account));
            let still = before == after;
            if still {
                findings.extend(compare(account, after, sums.get(account).copied().unwrap_or_default()));
            }
            !still
        });
    }
    // Each balance that is not named here is the sum of its entries, and each entry that is not named sums to what it may.
    // So this is the sum of all balances, although the accounts of a table in use were not all read at one moment.
    let balances = findings.iter().map(excess).fold(progress.grants, |sum, excess| sum + excess);
    if balances != progress.grants {
        findings.insert(Finding::TotalDiffers { balances, grants: progress.grants });
    }
    Ok(Report {
        accounts: progress.accounts,
        entries: progress.entries,
        balances,
        grants: progress.grants,
        never_read: progress.never_read,
        findings: findings.into_iter().collect(),
        unsettled: accounts.iter().map(ToString::to_string).collect(),
        stopped: progress.stopped(),
    })
}

async fn balances(source: &impl Source, accounts: &BTreeSet<Account>) -> Result<BTreeMap<Account, Balance>, Error> {
    let names: Vec<Name> =
        accounts.iter().filter_map(|account| table::account_key(account).ok()).map(|key| Name::of(&key)).collect();
    let read = source.get(&names).await?;
    let read = read.iter().filter_map(|item| table::read_balance(item).ok());
    Ok(read.map(|balance| (balance.account.clone(), balance)).collect())
}

/// What is wrong with an account that did not change while its entries were read.
fn compare(account: &Account, balance: Option<&Balance>, sums: Sums) -> Vec<Finding> {
    let name = account.to_string();
    let Some(balance) = balance else {
        let missing = Finding::AccountMissing { account: name, entries_sum: sums.sum };
        return if sums == Sums::default() { Vec::new() } else { vec![missing] };
    };
    let mut findings = Vec::new();
    if balance.balance.0 < 0 {
        findings.push(Finding::Negative { account: name.clone(), balance: balance.balance });
    }
    if !sums.are(balance) {
        findings.push(Finding::BalanceDiffers {
            account: name,
            balance: balance.balance,
            entries_sum: sums.sum,
            entries_counted: balance.entries,
            entries_found: sums.count,
        });
    }
    findings
}

/// By how much a finding makes the sum of all balances differ from that of the grants.
fn excess(finding: &Finding) -> Delta {
    match finding {
        Finding::BalanceDiffers { balance, entries_sum, .. } => Delta(balance.0 - entries_sum.0),
        Finding::AccountMissing { entries_sum, .. } => Delta(-entries_sum.0),
        Finding::Unbalanced { sum, expected, .. } => Delta(sum.0 - expected.0),
        _ => Delta(0),
    }
}

/// What is wrong with an item that is not an account, also after several looks.
async fn look_again(source: &impl Source, clock: &dyn Clock, name: &Name) -> Result<Option<Finding>, Error> {
    let mut found = None;
    for look in 0..LOOKS {
        if look > 0 {
            clock.sleep(PAUSE).await;
        }
        found = look_at(source, name).await?;
        if found.is_none() {
            break;
        }
    }
    Ok(found)
}

async fn look_at(source: &impl Source, name: &Name) -> Result<Option<Finding>, Error> {
    let items = source.get(std::slice::from_ref(name)).await?;
    // A record may have expired. Nothing else is ever deleted, and a deleted entry is missed by its accounts.
    let Some(item) = items.first() else { return Ok(None) };
    match table::read(item) {
        Err(error) => Ok(Some(Finding::Unreadable { item: error.to_string() })),
        Ok(Row::Record { transaction_id, entry }) => {
            let there = !source.get(&[entry]).await?.is_empty();
            Ok((!there).then(|| Finding::EntryMissing { record: name.0.clone(), transaction_id }))
        }
        Ok(Row::Entry(entry)) => {
            let (sum, expected) = (entry.created_money(), entry.expected_sum());
            let transaction_id = entry.id.to_string();
            if sum != expected {
                return Ok(Some(Finding::Unbalanced { transaction_id, sum, expected }));
            }
            let Some(record) = entry.reverses.and_then(|reversed| table::reversal_record(reversed).ok()) else {
                return Ok(None);
            };
            let items = source.get(std::slice::from_ref(&record)).await?;
            Ok(match items.first().map(table::read) {
                Some(Ok(Row::Record { transaction_id: made, .. })) if made == transaction_id => None,
                Some(Ok(Row::Record { .. })) => {
                    entry.reverses.map(|reversed| Finding::ReversedTwice { transaction_id: reversed.to_string() })
                }
                _ => Some(Finding::RecordMissing { record: record.0, transaction_id }),
            })
        }
        Ok(Row::Balance(shard)) => shard_differs(source, shard).await,
        Ok(Row::Earlier | Row::Tombstone | Row::Spent | Row::Operation) => Ok(None),
    }
}

/// Whether a shard of a person's account belongs to the account as it is now.
async fn shard_differs(source: &impl Source, shard: Balance) -> Result<Option<Finding>, Error> {
    let Account::Shard(did, _) = &shard.account else { return Ok(None) };
    let account = Account::Of(did.clone());
    let of = balances(source, &BTreeSet::from([account.clone()])).await?;
    let belongs = of.get(&account).is_some_and(|of| of.status == shard.status && of.folds == shard.folds);
    let differs = Finding::ShardDiffers { account: did.to_string(), shard: shard.account.to_string() };
    Ok((!belongs).then_some(differs))
}
