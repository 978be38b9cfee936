//! What another service leaves behind: accounts with their balances, and idempotency keys that were used.
//!
//! An account is opened with its balance as its first grant. The transaction also writes the record of that grant, under a
//! key that is made of the DID alone. So an account is imported once, whatever file names it and however often.
//!
//! A used key becomes a record of the first design: its transfer is in another ledger, so it must name no entry of this one.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::types::KeysAndAttributes;
use ichido::Timestamp;
use ichido::dynamodb::{Join, Verdict};
use sha2::{Digest as _, Sha256};

use super::account::Opened;
use super::commit::{Pauses, Sent};
use super::grant::Grant;
use super::{Error, Ledger, plan};
use crate::amount::Amount;
use crate::api::idempotency::IdempotencyKey;
use crate::identity::did::Did;
use crate::settings::Window;
use crate::table::{self, Item, Name};

/// How many items DynamoDB returns for one list of keys.
const BATCH: usize = 100;

/// An account of another service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    pub did: Did,
    pub balance: Amount,
}

impl Opening {
    /// The grant that opens the account.
    fn grant(&self, reason: &str) -> Grant {
        // A DID may be longer than a key.
        let digest = Sha256::digest(self.did.as_str());
        let digest = u128::from_be_bytes(std::array::from_fn(|at| digest[at]));
        let key = IdempotencyKey::derived(format!("opening-balance-{digest:032x}"));
        Grant { recipient: self.did.clone(), amount: self.balance, reason: reason.to_owned(), key }
    }
}

/// A key that was used in another service, and for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Used {
    pub sender: Did,
    pub key: IdempotencyKey,
    pub recipient: Did,
    pub amount: Amount,
    /// As the other service wrote it.
    pub transaction_id: String,
    pub created_at: Timestamp,
}

impl Used {
    /// When the key is forgotten: as if its transfer had been made here. `None`: never.
    pub(crate) fn expires_at(&self, window: Window) -> Option<Timestamp> {
        match window {
            Window::For(window) => Some(self.created_at + window),
            Window::Never => None,
        }
    }

    fn is(&self, earlier: &table::Earlier) -> bool {
        self.recipient.as_str() == earlier.recipient
            && self.amount == earlier.amount
            && self.transaction_id == earlier.transaction_id
    }
}

/// What the table has of something that is to be imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Looked {
    /// Nothing yet.
    Absent,
    /// It is imported.
    Done,
    /// Something else, and what.
    InTheWay(String),
}

/// How the import of an account ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Imported {
    Now,
    /// An earlier import has opened it.
    Before,
    /// There is an account of this DID that no import has opened.
    InTheWay,
}

/// Records of the first design that are not under the key that is read.
#[derive(Debug, Default)]
pub(crate) struct EarlierPage {
    /// How many records of the first design are on the page, whatever their keys are.
    pub(crate) records: u64,
    /// Records that have to be written again, with the name that is read.
    pub(crate) misplaced: Vec<(Name, Item)>,
    /// Records whose sender or key no client of this service can send.
    pub(crate) unreachable: Vec<Name>,
    /// Records that cannot be read.
    pub(crate) broken: Vec<table::Error>,
    /// Where to go on.
    pub(crate) next: Option<Item>,
}

impl Ledger {
    /// Opens an account with its balance, once.
    pub(crate) async fn import_account(
        &self,
        opening: &Opening,
        reason: &str,
        until: Timestamp,
    ) -> Result<Imported, Error> {
        let now = self.now();
        let id = self.new_id(now);
        let grant = opening.grant(reason);
        let entry = plan::grant(&grant, id, &plan::Spread::default()).entry;
        let record = Join::new(&self.0.records, &table::grant_key(&grant.key)?);
        let record = record.digests(self.grant_digests(&grant)).outcome(&entry.view())?;
        let mut record = table::describe_grant(record, &entry);
        let (did, opened_at) = (opening.did.clone(), now.to_string());
        let opened = Opened { did, grant: opening.balance, transaction_id: id, opened_at };
        let table = self.table_name();
        let rest = [table::new_account(table, &opened)?, table::new_entry(table, &entry)?];
        let mut token = self.new_token();
        let mut pauses = Pauses::default();
        let mut may_land = false;
        loop {
            let items = std::iter::once(record.item(now)?).chain(rest.clone()).collect();
            let answer = self.send(items, token).await;
            match record.verdict(&answer)? {
                // Also if it was an attempt of this call whose answer was lost.
                Verdict::New => return Ok(Imported::Now),
                Verdict::Replay(_) => return Ok(Imported::Before),
                Verdict::Mismatch { fields, .. } => return Err(Error::Mismatch { fields }),
                Verdict::Tombstone(tombstone) => {
                    record = record.replaces(&tombstone);
                    token = self.new_token();
                }
                Verdict::NotOurs => match Sent::of(answer) {
                    Sent::Fault(_) if may_land => return Err(Error::Unresolved),
                    Sent::Fault(fault) => return Err(Error::Store(fault)),
                    Sent::Unknown => may_land = true,
                    // The three items are written together. If the account were ours, the record would be there too.
                    Sent::Cancelled(reasons) if super::cancellation::only_condition(&reasons, 1) => {
                        return Ok(Imported::InTheWay);
                    }
                    Sent::Committed | Sent::Cancelled(_) | Sent::Throttled => {}
                },
            }
            let pause = pauses.next(self.random());
            if self.now() + pause >= until {
                return Err(Error::Unresolved);
            }
            self.0.clock.sleep(pause).await;
        }
    }

    /// Remembers a key that was used. `false`: there is a record already.
    pub(crate) async fn import_used(&self, used: &Used, window: Window) -> Result<bool, Error> {
        let item = table::earlier_record(used, used.expires_at(window))?;
        self.put(table::put_used(self.new_put(), item, self.now())).await
    }

    /// Writes a record of the first design under the name that is read. `false`: there is a record already.
    pub(crate) async fn import_misplaced(&self, (name, item): &(Name, Item)) -> Result<bool, Error> {
        self.put(table::put_earlier(self.new_put(), table::renamed(item.clone(), name), self.now())).await
    }

    fn new_put(&self) -> PutItemFluentBuilder {
        self.0.reader.put_item().table_name(self.table_name())
    }

    /// Writing the same record twice changes nothing, so the SDK may repeat it.
    async fn put(&self, put: PutItemFluentBuilder) -> Result<bool, Error> {
        match put.send().await {
            Ok(_) => Ok(true),
            Err(error)
                if error.as_service_error().is_some_and(|error| error.is_conditional_check_failed_exception()) =>
            {
                Ok(false)
            }
            Err(error) => Err(super::read_error(error)),
        }
    }

    /// What the table has of these accounts. Each with what it was imported with, if it was.
    pub(crate) async fn look_at_openings(
        &self,
        openings: &[Opening],
        reason: &str,
    ) -> Result<Vec<(Looked, Amount)>, Error> {
        let mut names = Vec::with_capacity(openings.len());
        for opening in openings {
            let grant = table::granted_name(&opening.grant(reason).key)?;
            names.push((table::account_name(&opening.did)?, grant));
        }
        let all = names.iter().flat_map(|(account, grant)| [account, grant]);
        let items = self.items(all).await?;
        let looked = openings.iter().zip(&names).map(|(opening, (account, grant))| -> Result<_, Error> {
            let granted = items.get(grant).map(table::read_granted).transpose()?.flatten();
            Ok(match granted {
                Some(_) if !items.contains_key(account) => {
                    let what = "the record of its opening is there, but the account is not; delete the record too";
                    (Looked::InTheWay(what.into()), Amount::ZERO)
                }
                Some((amount, why)) if amount == opening.balance && why == reason => (Looked::Done, amount),
                Some((amount, why)) => {
                    (Looked::InTheWay(format!("it was imported before, with {amount} and the reason {why:?}")), amount)
                }
                None if items.contains_key(account) => {
                    (Looked::InTheWay("there is an account of this DID that no import has opened".into()), Amount::ZERO)
                }
                None => (Looked::Absent, Amount::ZERO),
            })
        });
        looked.collect()
    }

    /// What the table has of these keys. One that was imported to be forgotten earlier is absent.
    pub(crate) async fn look_at_used(&self, used: &[Used], window: Window) -> Result<Vec<Looked>, Error> {
        let names: Vec<Name> =
            used.iter().map(|used| table::used_name(&used.sender, &used.key)).collect::<Result<_, _>>()?;
        let items = self.items(&names).await?;
        let looked = used.iter().zip(&names).map(|(used, name)| -> Result<_, Error> {
            let Some(item) = items.get(name).filter(|item| !table::is_over(item, self.now())) else {
                return Ok(Looked::Absent);
            };
            Ok(match table::read_earlier(item)? {
                None => Looked::InTheWay("a transfer was made here under this sender and key".into()),
                Some(earlier) if used.is(&earlier) => match table::ends_too_early(item, used.expires_at(window)) {
                    true => Looked::Absent,
                    false => Looked::Done,
                },
                Some(earlier) => Looked::InTheWay(format!(
                    "the table has another transfer under this sender and key: {}, of {} to {}",
                    earlier.transaction_id, earlier.amount, earlier.recipient
                )),
            })
        });
        looked.collect()
    }

    /// A page of the records of the first design, as far as they still count.
    pub(crate) async fn earlier_records(&self, start: Option<Item>) -> Result<EarlierPage, Error> {
        let scan = self.0.reader.scan().table_name(self.table_name()).consistent_read(true).limit(table::PAGE);
        let read = table::earlier_records(scan, start).send().await.map_err(super::read_error)?;
        let mut page = EarlierPage { next: read.last_evaluated_key, ..EarlierPage::default() };
        for item in read.items.unwrap_or_default() {
            if table::is_over(&item, self.now()) {
                continue;
            }
            page.records += 1;
            let found = Name::of(&item);
            if let Err(error) = table::read_earlier(&item) {
                page.broken.push(error);
                continue;
            }
            match table::earlier_owner(&found).and_then(|(sender, key)| table::used_name(&sender, &key).ok()) {
                None => page.unreachable.push(found),
                Some(name) if name != found => page.misplaced.push((name, item)),
                Some(_) => {}
            }
        }
        Ok(page)
    }

    /// What is under the names that misplaced records have to get.
    pub(crate) async fn look_at_misplaced(&self, misplaced: &[(Name, Item)]) -> Result<Vec<Looked>, Error> {
        let items = self.items(misplaced.iter().map(|(name, _)| name)).await?;
        let looked = misplaced.iter().map(|(name, item)| -> Result<_, Error> {
            let Some(there) = items.get(name).filter(|there| !table::is_over(there, self.now())) else {
                return Ok(Looked::Absent);
            };
            Ok(match (table::read_earlier(there)?, table::read_earlier(item)?) {
                (Some(there), Some(item)) if there.same_transfer(&item) => Looked::Done,
                _ => Looked::InTheWay(format!("the table has another record under {:?}", name.0)),
            })
        });
        looked.collect()
    }

    async fn items<'a>(&self, names: impl IntoIterator<Item = &'a Name>) -> Result<BTreeMap<Name, Item>, Error> {
        let mut items = BTreeMap::new();
        let mut names: Vec<&Name> = names.into_iter().collect();
        // DynamoDB refuses a list that names an item twice.
        names.sort_unstable();
        names.dedup();
        for batch in names.chunks(BATCH) {
            let keys = batch.iter().map(|name| name.key()).collect();
            let mut left = KeysAndAttributes::builder().consistent_read(true).set_keys(Some(keys)).build().ok();
            // Each round returns at least one item, or is an error that the SDK has tried to get over.
            while let Some(keys) = left.take() {
                let read = self.0.reader.batch_get_item().request_items(self.table_name(), keys).send().await;
                let read = read.map_err(super::read_error)?;
                let found = read.responses.unwrap_or_default().remove(self.table_name()).unwrap_or_default();
                items.extend(found.into_iter().map(|item| (Name::of(&item), item)));
                left = read.unprocessed_keys.unwrap_or_default().remove(self.table_name());
            }
        }
        Ok(items)
    }
}
