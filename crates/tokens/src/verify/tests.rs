//! A table that returns small pages and changes between any two reads. `SEEDS=n` tries more seeds, `SEED=n` only one.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use ichido::{Clock, Sleep, Timestamp};

use super::source::{Page, Source};
use super::*;
use crate::amount::{Amount, Delta};
use crate::identity::did::Did;
use crate::ledger::{Account, Entry, History, Kind, Postings, TransactionId};
use crate::table::{Item, Name, sample};

/// Nobody waits in these tests: each read lets some time pass.
struct Now;

impl Clock for Now {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(0)
    }

    fn sleep(&self, _: Duration) -> Sleep {
        Box::pin(async {})
    }
}

struct Books {
    random: fastrand::Rng,
    items: BTreeMap<Name, Item>,
    balances: BTreeMap<Account, (i128, u64)>,
    /// How often the shards of each account that has some were folded.
    folds: BTreeMap<Did, u64>,
    /// The sender and the recipient of each entry that was ever made.
    parties: BTreeMap<Name, (Option<Did>, Did)>,
    /// Entries that the index does not have yet.
    behind: Vec<Name>,
    transfers: Vec<Entry>,
    dids: Vec<Did>,
    /// How many more things happen.
    life: u32,
}

struct Moving(Mutex<Books>);

/// How many shards an account has beside itself, if it has some.
const SHARDS: u8 = 2;

impl Books {
    fn new(seed: u64) -> Self {
        let mut books = Books {
            random: fastrand::Rng::with_seed(seed),
            items: BTreeMap::new(),
            balances: BTreeMap::new(),
            folds: BTreeMap::new(),
            parties: BTreeMap::new(),
            behind: Vec::new(),
            transfers: Vec::new(),
            dids: Vec::new(),
            life: 0,
        };
        for _ in 0..3 {
            books.open();
        }
        if books.random.bool() {
            books.make_shards();
        }
        for _ in 0..5 {
            books.send();
        }
        books.behind.clear();
        books.life = 25;
        books
    }

    fn id(&mut self) -> TransactionId {
        let mut random = [0; 10];
        self.random.fill(&mut random);
        TransactionId::new(Timestamp::from_millis(self.random.u64(..1_000)), random)
    }

    fn put(&mut self, item: Item) -> Name {
        let name = Name::of(&item);
        self.items.insert(name.clone(), item);
        name
    }

    fn put_balance(&mut self, account: &Account) {
        let (balance, count) = *self.balances.entry(account.clone()).or_default();
        let folds = account.owner().and_then(|did| self.folds.get(did)).copied().unwrap_or_default();
        let item = sample::balance(account, balance, count, folds);
        self.put(item);
    }

    /// Writes an entry and the balances that it changes, all at once.
    fn post(&mut self, entry: &Entry) {
        for (account, delta) in &entry.postings {
            let (balance, count) = self.balances.entry(account.clone()).or_default();
            *balance += delta.0;
            *count += 1;
            self.put_balance(account);
        }
        let name = self.put(sample::entry(entry));
        self.parties.insert(name.clone(), (entry.sender.clone(), entry.recipient.clone()));
        self.behind.push(name);
        if entry.kind != Kind::Grant {
            self.put(sample::record(entry));
        }
    }

    fn entry(&mut self, kind: Kind, sender: Option<Did>, recipient: Did, amount: u64, postings: Postings) -> Entry {
        let (id, fee) = (self.id(), Amount::ZERO);
        let amount = Amount::from_units(amount);
        Entry { id, kind, sender, recipient, amount, fee, message: String::new(), reverses: None, postings }
    }

    fn open(&mut self) {
        let did: Did = format!("did:key:{}", self.random.u32(..)).parse().unwrap();
        self.dids.push(did.clone());
        let postings = Postings::from([(Account::Of(did.clone()), Delta(1_000))]);
        let entry = self.entry(Kind::Grant, None, did, 1_000, postings);
        self.post(&entry);
    }

    /// A transfer of 1 with a fee of 1, which is the same everywhere: entries that are taken for others are found by counts.
    fn send(&mut self) {
        let from = self.random.usize(..self.dids.len());
        let to = (from + 1 + self.random.usize(..self.dids.len() - 1)) % self.dids.len();
        let (from, to) = (self.dids[from].clone(), self.dids[to].clone());
        if self.balances[&Account::Of(from.clone())].0 < 2 {
            return;
        }
        let shard = Account::Treasury(self.random.u8(..2));
        let paid = if self.folds.contains_key(&to) { self.random.u8(..=SHARDS) } else { 0 };
        let postings = Postings::from([
            (Account::Of(from.clone()), Delta(-2)),
            (Account::shard(&to, paid), Delta(1)),
            (shard, Delta(1)),
        ]);
        let entry = self.entry(Kind::Transfer, Some(from), to, 1, postings);
        self.post(&entry);
        self.transfers.push(entry);
    }

    fn make_shards(&mut self) {
        let did = self.random.choice(&self.dids).unwrap().clone();
        if self.folds.contains_key(&did) {
            return;
        }
        self.folds.insert(did.clone(), 0);
        for shard in 0..=SHARDS {
            self.put_balance(&Account::shard(&did, shard));
        }
    }

    /// Moves what is in somebody's shards to the account itself, which pays 1 to another.
    fn fold(&mut self) {
        let sharded: Vec<Did> = self.folds.keys().cloned().collect();
        let Some(from) = self.random.choice(&sharded).cloned() else { return };
        let to = self.dids.iter().find(|did| **did != from).unwrap().clone();
        let mut postings =
            Postings::from([(Account::Of(from.clone()), Delta(-1)), (Account::Of(to.clone()), Delta(1))]);
        for shard in 1..=SHARDS {
            let held = self.balances[&Account::shard(&from, shard)].0;
            postings.insert(Account::shard(&from, shard), Delta(-held));
            *postings.get_mut(&Account::Of(from.clone())).unwrap() += Delta(held);
        }
        postings.retain(|_, delta| delta.0 != 0);
        let after = self.balances[&Account::Of(from.clone())].0
            + postings.get(&Account::Of(from.clone())).map_or(0, |delta| delta.0);
        if after < 0 {
            return;
        }
        *self.folds.get_mut(&from).unwrap() += 1;
        let entry = self.entry(Kind::Transfer, Some(from.clone()), to, 1, postings);
        self.post(&entry);
        for shard in 0..=SHARDS {
            self.put_balance(&Account::shard(&from, shard));
        }
    }

    fn reverse(&mut self) {
        let Some(original) = self.transfers.pop() else { return };
        // What a shard was paid may have been folded since then.
        let of = |account: &Account| account.owner().map_or(account.clone(), |did| Account::Of(did.clone()));
        let postings = original.postings.iter().map(|(account, delta)| (of(account), Delta(-delta.0))).collect();
        let (sender, recipient) = (Some(original.recipient.clone()), original.sender.clone().unwrap());
        let mut entry = self.entry(Kind::Reversal, sender, recipient, 1, postings);
        entry.reverses = Some(original.id);
        self.post(&entry);
    }

    fn expire(&mut self) {
        let records: Vec<Name> = self.items.keys().filter(|name| name.0.starts_with("IDEMPOTENCY#")).cloned().collect();
        if let Some(record) = self.random.choice(&records) {
            self.items.remove(record);
        }
    }

    /// What happens between two reads.
    fn pass(&mut self) {
        if self.random.bool() {
            self.behind.clear();
        }
        while self.life > 0 && self.random.u8(..10) < 4 {
            self.life -= 1;
            match self.random.u8(..10) {
                0 => self.open(),
                1 => self.reverse(),
                2 => self.expire(),
                3 => self.make_shards(),
                4 => self.fold(),
                _ => self.send(),
            }
        }
    }

    fn page<'a>(
        random: &mut fastrand::Rng,
        items: impl Iterator<Item = (&'a Name, &'a Item)>,
        after: Option<&Name>,
    ) -> Page {
        let size = random.usize(1..4);
        let mut left = items.filter(|(name, _)| after.is_none_or(|after| *name > after));
        let page: Vec<Item> = left.by_ref().take(size).map(|(_, item)| item.clone()).collect();
        let next = left.next().and_then(|_| page.last()).map(|item| Name::of(item).key());
        (page, next)
    }
}

impl Source for Moving {
    async fn scan(&self, start: Option<Name>) -> Result<Page, Error> {
        let mut books = self.0.lock().unwrap();
        books.pass();
        let Books { random, items, .. } = &mut *books;
        Ok(Books::page(random, items.iter(), start.as_ref()))
    }

    async fn get(&self, names: &[Name]) -> Result<Vec<Item>, Error> {
        let mut items = Vec::new();
        for name in names {
            let mut books = self.0.lock().unwrap();
            books.pass();
            items.extend(books.items.get(name).cloned());
        }
        Ok(items)
    }

    async fn history(&self, history: History, did: &Did, start: Option<Item>) -> Result<Page, Error> {
        let mut books = self.0.lock().unwrap();
        books.pass();
        let Books { random, items, behind, parties, .. } = &mut *books;
        let of = |(name, (sender, recipient)): (&'_ Name, &(Option<Did>, Did))| match history {
            History::Sent => sender.as_ref() == Some(did),
            History::Received => recipient == did && !behind.contains(name),
        };
        let entries = parties.iter().filter(|entry| of(*entry)).filter_map(|(name, _)| items.get_key_value(name));
        let after = start.as_ref().map(Name::of);
        Ok(Books::page(random, entries, after.as_ref()))
    }
}

async fn check(moving: &Moving) -> Report {
    run(Progress::default(), moving, &Now, &mut |_| Ok(())).await.unwrap()
}

fn seeds(count: u64) -> std::ops::RangeInclusive<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("SEED") {
        Some(seed) => seed..=seed,
        None => 1..=number("SEEDS").unwrap_or(count),
    }
}

#[tokio::test]
async fn nothing_sound_is_called_wrong_while_transfers_go_on() {
    for seed in seeds(2_000) {
        let moving = Moving(Mutex::new(Books::new(seed)));
        let report = check(&moving).await;
        assert!(report.findings.is_empty() && !report.stopped, "SEED={seed}: {report:#?}");
        assert_eq!(report.balances, report.grants, "SEED={seed}");
        moving.0.lock().unwrap().life = 0;
        let report = check(&moving).await;
        assert!(report.is_clean(), "SEED={seed}: {report:#?}");
    }
}

#[tokio::test]
async fn a_loss_is_found_while_transfers_go_on() {
    for seed in seeds(300) {
        let moving = Moving(Mutex::new(Books::new(seed)));
        {
            let mut books = moving.0.lock().unwrap();
            let entries: Vec<Name> = books.items.keys().filter(|name| name.0.starts_with("SENT#")).cloned().collect();
            let lost = books.random.choice(&entries).unwrap().clone();
            books.items.remove(&lost);
        }
        let report = check(&moving).await;
        assert!(!report.is_clean(), "SEED={seed}: {report:#?}");
        moving.0.lock().unwrap().life = 0;
        let report = check(&moving).await;
        // The sender, the recipient and the shard; and the record, unless it has expired.
        let differ = report.findings.iter().filter(|finding| matches!(finding, Finding::BalanceDiffers { .. })).count();
        assert_eq!((differ, report.balances), (3, report.grants), "SEED={seed}: {report:#?}");
    }
}

#[tokio::test]
async fn a_verification_goes_on_where_it_was_stopped() {
    for seed in seeds(200) {
        let moving = Moving(Mutex::new(Books::new(seed)));
        let mut pages_left = fastrand::Rng::with_seed(seed).u32(1..8);
        let mut kept = String::new();
        let mut watch = |progress: &Progress| {
            kept = serde_json::to_string(progress).unwrap();
            pages_left -= 1;
            if pages_left == 0 { Err(std::io::Error::other("the terminal was closed")) } else { Ok(()) }
        };
        let stopped = run(Progress::default(), &moving, &Now, &mut watch).await;
        assert!(matches!(stopped, Err(Error::Progress(_))));
        let (_, before) = serde_json::from_str::<Progress>(&kept).unwrap().read();
        let mut first = None;
        let mut watch = |progress: &Progress| {
            first.get_or_insert(progress.read().1);
            Ok(())
        };
        let report = run(serde_json::from_str(&kept).unwrap(), &moving, &Now, &mut watch).await.unwrap();
        assert!(report.findings.is_empty(), "SEED={seed}: {report:#?}");
        assert!(first.unwrap_or(before) >= before, "SEED={seed}: it began again");
        assert!(report.entries >= 8, "SEED={seed}: {report:#?}");
    }
}

#[tokio::test]
async fn the_progress_is_as_small_for_many_accounts_as_for_few() {
    let mut books = Books::new(1);
    books.life = 0;
    for _ in 0..300 {
        books.open();
    }
    books.behind.clear();
    let mut longest = 0;
    let mut watch = |progress: &Progress| {
        longest = longest.max(serde_json::to_string(progress).unwrap().len());
        Ok(())
    };
    let moving = Moving(Mutex::new(books));
    assert!(run(Progress::default(), &moving, &Now, &mut watch).await.unwrap().is_clean());
    assert!(longest < 1_000, "{longest} bytes");
}
