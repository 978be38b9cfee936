//! Accounts: opened once with their grant, read, frozen. The treasury's account is several shards.
//!
//! A person's account is one item, until credits to it have met. Then it gets shards, and a credit that meets another one goes to another
//! shard. Each shard has the account's status and a balance that is never negative. They are made all at once, and are never
//! deleted. What the account has is the sum of them.
//!
//! Why no frozen account has an open shard: whoever makes the shards has seen that the account is open, and makes them only if there
//! are none. Whoever freezes the account writes all of them, and makes those that are not there.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::KeysAndAttributes;
use ichido::Timestamp;
use serde::Serialize;

use super::cancellation::Reason;
use super::commit::{Pauses, Sent};
use super::entry::{ACCOUNT_SHARDS, Account, Entry, Kind, Postings, TransactionId};
use super::plan::Shards;
use super::{Answer, BUDGET, Error, Ledger};
use crate::amount::{Amount, Delta};
use crate::identity::did::Did;
use crate::table::{self, Balance, Item};

/// How often an account is read that is being folded.
const LOOKS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// How often the shards are asked for that DynamoDB left out under load.
const SHARD_ROUNDS: usize = 5;

/// Whether an account may send and receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Open,
    Frozen,
}

impl Status {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Status::Open => "open",
            Status::Frozen => "frozen",
        }
    }
}

/// What an account was opened with. Whoever opens it again gets this again.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Opened {
    pub(crate) did: Did,
    pub(crate) grant: Amount,
    pub(crate) transaction_id: TransactionId,
    pub(crate) opened_at: String,
}

/// What an account holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holding {
    pub did: Did,
    pub balance: Delta,
    pub status: &'static str,
}

/// An account with its shards, as one query read them.
#[derive(Debug)]
pub(super) struct Held {
    /// The account itself first.
    pub(super) balances: Vec<Balance>,
}

impl Held {
    /// The sum. It has every transfer that had ended when the query began. Of those that ended while it was made, it may have some.
    pub(super) fn balance(&self) -> Delta {
        self.balances.iter().map(|balance| balance.balance).sum()
    }

    pub(super) fn status(&self) -> Status {
        self.balances.first().map_or(Status::Open, |account| account.status)
    }

    /// How often the shards were folded.
    pub(super) fn folds(&self) -> u64 {
        self.balances.first().map_or(0, |account| account.folds)
    }

    pub(super) fn has_shards(&self) -> bool {
        self.balances.len() > 1
    }

    /// How many entries changed each balance.
    pub(super) fn entries(&self) -> Vec<u64> {
        self.balances.iter().map(|balance| balance.entries).collect()
    }

    /// Whether nothing was taken from any balance between this read and an earlier one. If so, at the moment between the two, all of them
    /// together held at most what this one has: what came later only added to it.
    pub(super) fn nothing_was_taken_since(&self, earlier: &Held) -> bool {
        let debits = |held: &Held| held.balances.iter().map(|balance| balance.debits).collect::<Vec<_>>();
        debits(self) == debits(earlier)
    }

    /// Whether some of it is from before a fold and some from after it, or from before and after the shards were made.
    pub(super) fn is_torn(&self) -> bool {
        let all = self.balances.len() == usize::from(ACCOUNT_SHARDS) + 1;
        (self.has_shards() && !all) || self.balances.iter().any(|balance| balance.folds != self.folds())
    }
}

impl Ledger {
    /// Opens an account with the initial grant. If it is open already, the answer is the first one.
    pub async fn open(&self, did: &Did, until: Timestamp) -> Result<Answer, Error> {
        let now = self.now();
        let id = self.new_id(now);
        let grant = self.rules().initial_grant;
        let opened = Opened { did: did.clone(), grant, transaction_id: id, opened_at: now.to_string() };
        let entry = Entry {
            id,
            kind: Kind::Grant,
            sender: None,
            recipient: did.clone(),
            amount: grant,
            fee: Amount::ZERO,
            message: String::new(),
            reverses: None,
            postings: Postings::from([(Account::Of(did.clone()), Delta::credit(grant))]),
        };
        let table = self.table_name();
        let items = vec![table::new_account(table, &opened)?, table::new_entry(table, &entry)?];
        let token = self.new_token();
        let mut pauses = Pauses::default();
        let mut may_land = false;
        loop {
            match Sent::of(self.send(items.clone(), token).await) {
                Sent::Committed => return Answer::new(&opened, false),
                Sent::Fault(_) if may_land => return Err(Error::Unresolved),
                Sent::Fault(fault) => return Err(Error::Store(fault)),
                Sent::Unknown => may_land = true,
                Sent::Cancelled(_) | Sent::Throttled => {}
            }
            // The account itself says with what it was opened, whoever did it. If it is absent, it may still be opened.
            match self.account(did).await {
                Ok(Some(item)) => {
                    let first = table::read_opened(&item)?;
                    return Answer::new(&first, first.transaction_id != id);
                }
                Ok(None) | Err(Error::Unresolved) => {}
                Err(_) if may_land => return Err(Error::Unresolved),
                Err(error) => return Err(error),
            }
            let pause = pauses.next(self.random());
            if self.now() + pause >= until {
                return Err(Error::Unresolved);
            }
            self.0.clock.sleep(pause).await;
        }
    }

    /// What an account holds now. The treasury's shards are read one after another and added up.
    pub async fn holding(&self, did: &Did) -> Result<Option<Holding>, Error> {
        if *did == self.rules().treasury {
            let balance = self.shards(None).await?.into_iter().map(|(_, amount)| Delta::credit(amount)).sum();
            return Ok(Some(Holding { did: did.clone(), balance, status: Status::Open.as_str() }));
        }
        let Some(held) = self.held(did).await? else { return Ok(None) };
        Ok(Some(Holding { did: did.clone(), balance: held.balance(), status: held.status().as_str() }))
    }

    /// An account and its shards. `None`: there is no such account.
    pub(super) async fn held(&self, did: &Did) -> Result<Option<Held>, Error> {
        for look in 0..LOOKS {
            if look > 0 {
                self.0.clock.sleep(PAUSE).await;
            }
            match self.read_held(&self.0.reader, did).await? {
                Some(held) if held.is_torn() => {}
                held => return Ok(held),
            }
        }
        Err(Error::Unresolved)
    }

    /// The same, asked once. The answer may be torn.
    pub(super) async fn read_held(&self, client: &Client, did: &Did) -> Result<Option<Held>, Error> {
        let query = table::balances(client.query(), did)?.table_name(self.table_name());
        // All of them fit one page.
        let items = query.send().await.map_err(super::read_error)?.items.unwrap_or_default();
        let mut balances = items.iter().map(table::read_balance).collect::<Result<Vec<_>, _>>()?;
        balances.sort_unstable_by(|a, b| a.account.cmp(&b.account));
        Ok((!balances.is_empty()).then_some(Held { balances }))
    }

    /// Gives an account its shards, if it is open. Tells whether it has shards now; if that is not known, it says no.
    pub(super) async fn make_shards(&self, did: &Did) -> bool {
        let Ok(Some(held)) = self.read_held(&self.0.writer, did).await else { return false };
        if held.has_shards() || held.status() != Status::Open {
            return held.has_shards();
        }
        let Ok(items) = table::new_shards(self.table_name(), did) else { return false };
        match Sent::of(self.send(items, self.new_token()).await) {
            Sent::Committed => true,
            Sent::Cancelled(reasons) => matches!(reasons.first(), Some(Reason::Condition(_))),
            Sent::Throttled | Sent::Unknown | Sent::Fault(_) => false,
        }
    }

    /// Freezes an account, or unfreezes it, with all its shards at once. Doing it again changes nothing.
    pub async fn set_frozen(&self, did: &Did, frozen: bool, by: &str) -> Result<&'static str, Error> {
        let status = if frozen { Status::Frozen } else { Status::Open };
        let (now, token) = (self.now(), self.new_token());
        let items = table::set_status(self.table_name(), did, status, now, by)?;
        let mut may_land = false;
        loop {
            match Sent::of(self.send(items.clone(), token).await) {
                Sent::Committed => return Ok(status.as_str()),
                Sent::Fault(_) if may_land => return Err(Error::Unresolved),
                Sent::Fault(fault) => return Err(Error::Store(fault)),
                Sent::Cancelled(reasons) if matches!(reasons.first(), Some(Reason::Condition(_))) => {
                    return Err(Error::AccountNotFound);
                }
                Sent::Unknown => may_land = true,
                Sent::Cancelled(_) | Sent::Throttled => {}
            }
            // Without growing: all shards have to be free at once, and there may be transfers all the time.
            let pause = Pauses::default().next(self.random());
            if self.now() + pause >= now + BUDGET {
                return Err(Error::Unresolved);
            }
            self.0.clock.sleep(pause).await;
        }
    }

    pub(super) async fn account(&self, did: &Did) -> Result<Option<Item>, Error> {
        let get = self
            .0
            .reader
            .get_item()
            .table_name(self.table_name())
            .set_key(Some(table::account_key(&Account::Of(did.clone()))?))
            .consistent_read(true);
        Ok(get.send().await.map_err(super::read_error)?.item)
    }

    /// What the treasury's shards hold, all that there can be. With `until`, each question is asked once, and none after
    /// that time.
    pub(super) async fn shards(&self, until: Option<Timestamp>) -> Result<Shards, Error> {
        let keys = KeysAndAttributes::builder().consistent_read(true).set_keys(Some(table::shard_keys()?));
        let mut left = keys.build().ok();
        let mut shards = Shards::new();
        let client = if until.is_some() { &self.0.writer } else { &self.0.reader };
        for round in 0..SHARD_ROUNDS {
            if round > 0 && until.is_some_and(|until| self.now() >= until) {
                break;
            }
            let Some(keys) = left.take() else { break };
            let read = client.batch_get_item().request_items(self.table_name(), keys).send().await;
            let read = read.map_err(super::read_error)?;
            for item in read.responses.unwrap_or_default().remove(self.table_name()).unwrap_or_default() {
                shards.extend(table::read_shard(&item)?);
            }
            left = read.unprocessed_keys.unwrap_or_default().remove(self.table_name());
        }
        shards.sort_unstable();
        if left.is_none() { Ok(shards) } else { Err(Error::Unresolved) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An account with shards that changes between the reads of any two items.
    struct Moving {
        random: fastrand::Rng,
        balances: Vec<Balance>,
        /// The sum after each change.
        sums: Vec<i128>,
    }

    impl Moving {
        fn new(seed: u64) -> Self {
            let did: Did = "did:key:hot".parse().unwrap();
            let balance = |shard| Balance {
                account: Account::shard(&did, shard),
                balance: Delta(100),
                entries: 1,
                debits: 0,
                folds: 0,
                status: Status::Open,
            };
            let balances: Vec<Balance> = (0..=ACCOUNT_SHARDS).map(balance).collect();
            let sums = vec![balances.iter().map(|balance| balance.balance.0).sum()];
            Moving { random: fastrand::Rng::with_seed(seed), balances, sums }
        }

        fn change(&mut self) {
            let (at, amount) = (self.random.usize(..self.balances.len()), self.random.i128(1..60));
            let sum = *self.sums.last().unwrap();
            match self.random.u8(..4) {
                // A fold, in which the account itself pays.
                0 if sum >= amount => {
                    for balance in &mut self.balances {
                        balance.balance = Delta(0);
                        balance.debits += 1;
                        balance.folds += 1;
                    }
                    self.balances[0].balance = Delta(sum - amount);
                }
                1 if self.balances[at].balance.0 >= amount => {
                    self.balances[at].balance += Delta(-amount);
                    self.balances[at].debits += 1;
                }
                2 => self.balances[at].balance += Delta(amount),
                _ => return,
            }
            self.sums.push(self.balances.iter().map(|balance| balance.balance.0).sum());
        }

        /// Reads the items one after another.
        fn read(&mut self) -> Held {
            let mut balances = Vec::new();
            for shard in 0..self.balances.len() {
                while self.random.u8(..40) == 0 {
                    self.change();
                }
                balances.push(self.balances[shard].clone());
            }
            Held { balances }
        }
    }

    #[test]
    fn an_account_is_called_too_poor_only_if_it_was_at_some_moment() {
        let mut refused = 0;
        for seed in 0..20_000 {
            let mut moving = Moving::new(seed);
            let (earlier, later) = (moving.read(), moving.read());
            if earlier.is_torn() || later.is_torn() || !later.nothing_was_taken_since(&earlier) {
                continue;
            }
            let least = moving.sums.iter().min().unwrap();
            refused += 1;
            assert!(later.balance().0 >= *least, "seed {seed}: {} of {:?}", later.balance(), moving.sums);
        }
        assert!(refused > 1_000, "{refused}");
    }

    #[test]
    fn half_a_fold_is_never_taken_for_a_balance() {
        let mut folded = 0;
        for seed in 0..20_000 {
            let mut moving = Moving::new(seed);
            // Only folds that take nothing, so the sum is always the same.
            let mut balances = Vec::new();
            for shard in 0..moving.balances.len() {
                if moving.random.u8(..12) == 0 {
                    let sum = moving.balances.iter().map(|balance| balance.balance).sum();
                    for balance in &mut moving.balances {
                        balance.balance = Delta(0);
                        balance.folds += 1;
                    }
                    moving.balances[0].balance = sum;
                }
                balances.push(moving.balances[shard].clone());
            }
            let held = Held { balances };
            folded += u32::from(held.folds() != 0);
            if !held.is_torn() {
                assert_eq!(held.balance().0, moving.sums[0], "seed {seed}");
            }
        }
        assert!(folded > 1_000, "{folded}");
    }
}
