//! Accounts: opened once with their grant, read, frozen. The treasury's account is several shards.

use aws_sdk_dynamodb::types::KeysAndAttributes;
use ichido::Timestamp;
use serde::Serialize;

use super::commit::{Pauses, Sent};
use super::entry::{Account, Entry, Kind, Postings, TransactionId};
use super::plan::Shards;
use super::{Answer, Error, Ledger};
use crate::amount::{Amount, Delta};
use crate::identity::did::Did;
use crate::table::{self, Item};

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
        let Some(item) = self.account(did).await? else { return Ok(None) };
        let balance = table::read_balance(&item)?;
        Ok(Some(Holding { did: did.clone(), balance: balance.balance, status: balance.status.as_str() }))
    }

    /// Freezes an account, or unfreezes it. Doing it again changes nothing.
    pub async fn set_frozen(&self, did: &Did, frozen: bool, by: &str) -> Result<&'static str, Error> {
        let status = if frozen { Status::Frozen } else { Status::Open };
        let update = self.0.reader.update_item().table_name(self.table_name());
        match table::set_status(update, did, status, self.now(), by)?.send().await {
            Ok(_) => Ok(status.as_str()),
            Err(error)
                if error.as_service_error().is_some_and(|error| error.is_conditional_check_failed_exception()) =>
            {
                Err(Error::AccountNotFound)
            }
            Err(error) => Err(super::read_error(error)),
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
