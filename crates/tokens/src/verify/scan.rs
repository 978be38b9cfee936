//! Reads the table once, page by page, and notes what seems to be wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::try_join_all;
use ichido::Clock;
use serde::{Deserialize, Serialize};

use super::source::Source;
use super::{Error, Watch};
use crate::amount::Delta;
use crate::identity::did::Did;
use crate::ledger::{Account, Entry, History, Kind, MAX_SHARDS};
use crate::table::{self, Balance, Item, Name, Row};

/// How many accounts are checked at the same time.
const TOGETHER: usize = 16;

/// How often an account is compared with its history before it is suspect. The index may be behind, and others may write.
const LOOKS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(100);

/// A scan that has found so much stops: the table is not what it should be, and the memory for names is bounded.
const MOST_SUSPECTS: usize = 10_000;

/// What entries come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sums {
    #[serde(with = "units")]
    pub(super) sum: Delta,
    pub(super) count: u64,
}

impl Sums {
    fn add(&mut self, delta: Delta) {
        self.sum += delta;
        self.count += 1;
    }

    pub(super) fn are(self, balance: &Balance) -> bool {
        balance.balance == self.sum && balance.entries == self.count
    }
}

/// An item that has to be read again before anything is said about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Suspect {
    /// The account under this name does not agree with its entries, or is not there.
    Account(Name),
    /// Anything else: an entry, a record, or an item that cannot be read.
    Item(Name),
}

/// How far a verification is: all that is needed to go on with it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// The last item that was read.
    last: Option<Name>,
    pub(super) scanned: bool,
    pub(super) accounts: u64,
    pub(super) entries: u64,
    #[serde(with = "units")]
    pub(super) grants: Delta,
    /// Records of the first design under keys that are not read.
    #[serde(default)]
    pub(super) never_read: u64,
    /// What the treasury's shards came to when the scan began, and what its entries come to.
    shards: Option<BTreeMap<u8, Sums>>,
    shard_sums: BTreeMap<u8, Sums>,
    pub(super) suspects: BTreeSet<Suspect>,
}

impl Progress {
    /// How many accounts, shards of the treasury included, and how many entries have been read.
    pub fn read(&self) -> (u64, u64) {
        (self.accounts, self.entries)
    }

    /// How many items are to be read again.
    pub fn suspects(&self) -> usize {
        self.suspects.len()
    }

    pub(super) fn stopped(&self) -> bool {
        !self.scanned
    }

    fn suspect_account(&mut self, account: &Account) {
        self.suspects.extend(name_of(account).map(Suspect::Account));
    }
}

/// Reads what is left of the table.
pub(super) async fn scan(
    progress: &mut Progress,
    source: &impl Source,
    clock: &dyn Clock,
    watch: Watch<'_>,
) -> Result<(), Error> {
    if progress.shards.is_none() {
        progress.shards = Some(shards(source).await?);
    }
    while !progress.scanned && progress.suspects.len() < MOST_SUSPECTS {
        let (items, next) = source.scan(progress.last.clone()).await?;
        read_page(progress, source, clock, &items).await?;
        progress.scanned = next.is_none();
        progress.last = next.as_ref().map(Name::of);
        watch(progress)?;
    }
    let (before, after) = (progress.shards.take().unwrap_or_default(), shards(source).await?);
    for shard in 0..MAX_SHARDS {
        let of = |sums: &BTreeMap<u8, Sums>| sums.get(&shard).copied().unwrap_or_default();
        let still = of(&before) == of(&after) && of(&after) == of(&progress.shard_sums);
        if !still || of(&after).sum.0 < 0 {
            progress.suspect_account(&Account::Treasury(shard));
        }
    }
    Ok(())
}

async fn shards(source: &impl Source) -> Result<BTreeMap<u8, Sums>, Error> {
    let names: Vec<Name> = table::shard_keys().unwrap_or_default().iter().map(Name::of).collect();
    let items = source.get(&names).await?;
    let read = items.iter().filter_map(|item| table::read_balance(item).ok());
    Ok(read
        .filter_map(|balance| match balance.account {
            Account::Treasury(shard) => Some((shard, Sums { sum: balance.balance, count: balance.entries })),
            Account::Of(_) | Account::Shard(..) => None,
        })
        .collect())
}

/// Reads a page, and whatever its items have to be compared with.
async fn read_page(
    progress: &mut Progress,
    source: &impl Source,
    clock: &dyn Clock,
    items: &[Item],
) -> Result<(), Error> {
    let mut balances = Vec::new();
    // Items that must be there, and what is suspect if they are not.
    let mut wanted: BTreeMap<Name, Suspect> = BTreeMap::new();
    // Records that must name a certain transaction.
    let mut reversals: BTreeMap<Name, (String, Name)> = BTreeMap::new();
    // Where records of the first design would be read.
    let mut never_read: BTreeSet<Name> = BTreeSet::new();
    // The accounts of shards.
    let mut accounts: BTreeSet<Name> = BTreeSet::new();
    for item in items {
        let name = Name::of(item);
        match table::read(item) {
            Ok(Row::Balance(balance)) => {
                match &balance.account {
                    Account::Shard(did, _) => accounts.extend(name_of(&Account::Of(did.clone()))),
                    Account::Of(_) | Account::Treasury(_) => progress.accounts += 1,
                }
                balances.push(balance);
            }
            Ok(Row::Entry(entry)) => {
                add_entry(progress, &entry, &name);
                for account in entry.postings.keys().filter(|account| account.owner().is_some()).filter_map(name_of) {
                    wanted.insert(account.clone(), Suspect::Account(account));
                }
                if let Some(record) = entry.reverses.and_then(|reversed| table::reversal_record(reversed).ok())
                    && let Some((_, first)) = reversals.insert(record, (entry.id.to_string(), name))
                {
                    // Two reversals of one transfer on one page.
                    progress.suspects.insert(Suspect::Item(first));
                }
            }
            Ok(Row::Record { entry, .. }) => drop(wanted.insert(entry, Suspect::Item(name))),
            Ok(Row::Earlier) => never_read.extend(table::read_under(item, clock.now())),
            Ok(Row::Tombstone | Row::Spent | Row::Operation) => {}
            Err(_) => drop(progress.suspects.insert(Suspect::Item(name))),
        }
    }
    let names: BTreeSet<Name> =
        wanted.keys().chain(reversals.keys()).chain(&accounts).chain(&never_read).cloned().collect();
    let names: Vec<Name> = names.into_iter().collect();
    let mut of_shards = BTreeMap::new();
    for item in source.get(&names).await? {
        let name = Name::of(&item);
        wanted.remove(&name);
        never_read.remove(&name);
        if accounts.contains(&name)
            && let Ok(balance) = table::read_balance(&item)
        {
            of_shards.insert(balance.account.clone(), balance);
        }
        if let Ok(Row::Record { transaction_id, .. }) = table::read(&item)
            && reversals.get(&name).is_some_and(|(id, _)| *id == transaction_id)
        {
            reversals.remove(&name);
        }
    }
    progress.never_read += never_read.len() as u64;
    progress.suspects.extend(wanted.into_values());
    progress.suspects.extend(reversals.into_values().map(|(_, entry)| Suspect::Item(entry)));
    for shard in &balances {
        let Account::Shard(did, _) = &shard.account else { continue };
        let of = of_shards.get(&Account::Of(did.clone()));
        if !of.is_some_and(|of| of.status == shard.status && of.folds == shard.folds) {
            progress.suspects.extend(name_of(&shard.account).map(Suspect::Item));
        }
    }
    // Those of one person together, because they have one history.
    let mut people: BTreeMap<Did, Vec<Balance>> = BTreeMap::new();
    for balance in balances {
        if let Some(did) = balance.account.owner().cloned() {
            people.entry(did).or_default().push(balance);
        }
    }
    let people: Vec<(Did, Vec<Balance>)> = people.into_iter().collect();
    for together in people.chunks(TOGETHER) {
        let checks = together.iter().map(|(did, balances)| disagreeing(source, clock, did, balances));
        for account in try_join_all(checks).await?.iter().flatten() {
            progress.suspect_account(account);
        }
    }
    Ok(())
}

fn name_of(account: &Account) -> Option<Name> {
    table::account_key(account).ok().map(|key| Name::of(&key))
}

fn add_entry(progress: &mut Progress, entry: &Entry, name: &Name) {
    progress.entries += 1;
    if entry.created_money() != entry.expected_sum() {
        progress.suspects.insert(Suspect::Item(name.clone()));
    }
    if entry.kind == Kind::Grant {
        progress.grants += Delta::credit(entry.amount);
    }
    for (account, delta) in &entry.postings {
        match account {
            Account::Treasury(shard) => progress.shard_sums.entry(*shard).or_default().add(*delta),
            // The history of this account does not have the entry, so a comparison with the history proves nothing.
            Account::Of(did) | Account::Shard(did, _)
                if Some(did) != entry.sender.as_ref() && *did != entry.recipient =>
            {
                progress.suspect_account(account);
            }
            Account::Of(_) | Account::Shard(..) => {}
        }
    }
}

/// Which balances of a person, as they were just read, are not what the person's history comes to. The treasury has no history of its
/// own; its shards are compared after the scan.
async fn disagreeing(
    source: &impl Source,
    clock: &dyn Clock,
    did: &Did,
    balances: &[Balance],
) -> Result<Vec<Account>, Error> {
    let (negative, mut left): (Vec<Balance>, Vec<Balance>) =
        balances.iter().cloned().partition(|balance| balance.balance.0 < 0);
    let mut wrong: Vec<Account> = negative.into_iter().map(|balance| balance.account).collect();
    for look in 0..LOOKS {
        if look > 0 {
            clock.sleep(PAUSE * look).await;
            let again = read_balances(source, &left).await?;
            let gone = left.iter().map(|balance| &balance.account).filter(|account| !again.contains_key(account));
            wrong.extend(gone.cloned());
            left = again.into_values().collect();
        }
        if left.is_empty() {
            break;
        }
        let sums = history_sums(source, did).await?;
        let of = |balance: &Balance| sums.get(&balance.account).copied().unwrap_or_default();
        // One entry that the index does not have yet, and another that came after the balance was read, might cancel out. If
        // the account counts as many entries afterwards, none came.
        let after = read_balances(source, &left).await?;
        left.retain(|balance| !(of(balance).are(balance) && after.get(&balance.account) == Some(balance)));
    }
    wrong.extend(left.into_iter().map(|balance| balance.account));
    Ok(wrong)
}

async fn read_balances(source: &impl Source, of: &[Balance]) -> Result<BTreeMap<Account, Balance>, Error> {
    let names: Vec<Name> = of.iter().filter_map(|balance| name_of(&balance.account)).collect();
    let items = source.get(&names).await?;
    let read = items.iter().filter_map(|item| table::read_balance(item).ok());
    Ok(read.map(|balance| (balance.account.clone(), balance)).collect())
}

/// What the entries of a person's history come to, for each balance that they changed.
async fn history_sums(source: &impl Source, did: &Did) -> Result<BTreeMap<Account, Sums>, Error> {
    let mut sums: BTreeMap<Account, Sums> = BTreeMap::new();
    for history in [History::Sent, History::Received] {
        let mut start = None;
        loop {
            let (items, next) = source.history(history, did, start).await?;
            for entry in items.iter().filter_map(|item| table::read_entry(item).ok()) {
                let once = history == History::Sent || entry.sender.as_ref() != Some(did);
                for (account, delta) in
                    entry.postings.iter().filter(|(account, _)| once && account.owner() == Some(did))
                {
                    sums.entry(account.clone()).or_default().add(*delta);
                }
            }
            start = next;
            if start.is_none() {
                break;
            }
        }
    }
    Ok(sums)
}

/// What the entries of some accounts come to, in a whole scan of the table.
pub(super) async fn table_sums(
    source: &impl Source,
    accounts: &BTreeSet<Account>,
) -> Result<BTreeMap<Account, Sums>, Error> {
    let mut sums: BTreeMap<Account, Sums> = BTreeMap::new();
    let mut last = None;
    loop {
        let (items, next) = source.scan(last).await?;
        for item in &items {
            let Ok(Row::Entry(entry)) = table::read(item) else { continue };
            for (account, delta) in entry.postings.iter().filter(|(account, _)| accounts.contains(account)) {
                sums.entry(account.clone()).or_default().add(*delta);
            }
        }
        last = next.as_ref().map(Name::of);
        if last.is_none() {
            return Ok(sums);
        }
    }
}

/// A number of units as a text, because JSON has no integers of this size.
mod units {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::amount::Delta;

    pub(super) fn serialize<S: Serializer>(delta: &Delta, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&delta.0)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Delta, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Delta).map_err(serde::de::Error::custom)
    }
}
