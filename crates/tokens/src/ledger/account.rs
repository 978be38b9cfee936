//! Accounts: opened once with their grant, looked at, frozen.

use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure;
use ichido::Timestamp;
use serde::Serialize;

use super::commit::{Pauses, Sent, of_put};
use super::{Answer, Error, Ledger};
use crate::amount::{Amount, Delta};
use crate::did::Did;
use crate::entry::{Account, Entry, Kind, Postings};
use crate::instant;
use crate::table::{self, Item, number, text};
use crate::transaction::TransactionId;

/// What an account was opened with: the same answer, however often it is asked for.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Opened {
    did: Did,
    grant: Amount,
    transaction_id: TransactionId,
    opened_at: String,
}

/// What an account holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holding {
    pub did: Did,
    pub balance: Delta,
    pub status: &'static str,
}

impl Ledger {
    /// Opens an account with the initial grant; if it is open already, says so with the first answer.
    pub async fn open(&self, did: &Did, until: Timestamp) -> Result<Answer, Error> {
        let now = self.now();
        let id = self.new_id(now);
        let account = Account::Of(did.clone());
        let grant = self.rules().initial_grant;
        let opened = Opened { did: did.clone(), grant, transaction_id: id, opened_at: instant::format(now) };
        let item = Item::from([
            (table::PK.into(), text(table::account_pk(&account)?)),
            (table::SK.into(), text(table::BALANCE_SK)),
            ("did".into(), text(did.as_str())),
            (table::BALANCE.into(), number(grant.units())),
            (table::ENTRIES.into(), number(1)),
            (table::STATUS.into(), text(table::OPEN)),
            ("grant".into(), number(grant.units())),
            ("grantTransactionId".into(), text(id.to_string())),
            ("openedAt".into(), text(&opened.opened_at)),
        ]);
        let entry = Entry {
            id,
            kind: Kind::Grant,
            sender: None,
            recipient: did.clone(),
            amount: grant,
            fee: Amount::ZERO,
            message: String::new(),
            reverses: None,
            postings: Postings::from([(account, Delta::credit(grant))]),
        };
        let put =
            self.new_item(item).return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let items = vec![of_put(put), of_put(self.new_item(table::entry_item(&entry)?))];
        let token = uuid::Builder::from_random_bytes(self.random().to_be_bytes()).into_uuid();
        let mut pauses = Pauses::default();
        let mut may_land = false;
        loop {
            match Sent::of(self.send_items(items.clone(), token).await) {
                Sent::Committed => return answer(&opened, false),
                Sent::Fault(_) if may_land => return Err(Error::Unresolved),
                Sent::Fault(fault) => return Err(Error::Store(fault)),
                Sent::Unknown => may_land = true,
                Sent::Cancelled(_) | Sent::Throttled => {}
            }
            // Whoever opened it, the account says with what. Absent, it may still be opened: try again.
            match self.account(did).await {
                Ok(Some(item)) => {
                    let first = read_opened(&item)?;
                    return answer(&first, first.transaction_id != id);
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
            return Ok(Some(Holding { did: did.clone(), balance, status: table::OPEN }));
        }
        let Some(item) = self.account(did).await? else { return Ok(None) };
        let balance = table::read_balance(&item)?;
        let status = if balance.frozen { table::FROZEN } else { table::OPEN };
        Ok(Some(Holding { did: did.clone(), balance: balance.balance, status }))
    }

    /// Freezes an account, or unfreezes it; doing it again changes nothing.
    pub async fn set_frozen(&self, did: &Did, frozen: bool, by: &str) -> Result<&'static str, Error> {
        let status = if frozen { table::FROZEN } else { table::OPEN };
        let update = self
            .0
            .reader
            .update_item()
            .table_name(self.table_name())
            .key(table::PK, text(table::account_pk(&Account::Of(did.clone()))?))
            .key(table::SK, text(table::BALANCE_SK))
            .update_expression("SET #status = :status, statusAt = :at, statusBy = :by")
            .condition_expression("attribute_exists(PK)")
            .expression_attribute_names("#status", table::STATUS)
            .expression_attribute_values(":status", text(status))
            .expression_attribute_values(":at", text(instant::format(self.now())))
            .expression_attribute_values(":by", text(by));
        match update.send().await {
            Ok(_) => Ok(status),
            Err(error)
                if error.as_service_error().is_some_and(|error| error.is_conditional_check_failed_exception()) =>
            {
                Err(Error::AccountNotFound)
            }
            Err(error) => Err(super::read_error(error)),
        }
    }

    async fn account(&self, did: &Did) -> Result<Option<Item>, Error> {
        let get = self
            .0
            .reader
            .get_item()
            .table_name(self.table_name())
            .key(table::PK, text(table::account_pk(&Account::Of(did.clone()))?))
            .key(table::SK, text(table::BALANCE_SK))
            .consistent_read(true);
        Ok(get.send().await.map_err(super::read_error)?.item)
    }
}

fn read_opened(item: &Item) -> Result<Opened, Error> {
    Ok(Opened {
        did: table::parsed(item, "did")?,
        grant: table::units(item, "grant")?,
        transaction_id: table::parsed(item, "grantTransactionId")?,
        opened_at: table::string(item, "openedAt")?.to_owned(),
    })
}

fn answer(opened: &Opened, replayed: bool) -> Result<Answer, Error> {
    let body = serde_json::to_string(opened).map_err(ichido::record::Error::Outcome)?;
    Ok(Answer { body, replayed })
}
