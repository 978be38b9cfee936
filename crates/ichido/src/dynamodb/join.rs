//! `join`: the record as one item of the caller's own `TransactWriteItems`.
//!
//! The record is written together with the caller's writes or not at all, so there is no lease, no fence and no
//! probe: exactly once by construction. What remains is to understand a refusal, which [`Join::verdict`] does, and to
//! be sure of one: an attempt whose answer was lost may be under way still and land after everybody looked. Whoever is
//! about to tell its caller that it did not happen puts up a [fence](Join::tombstone) first.
//!
//! `join` never fails open: without the store there is no transaction.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::{TransactWriteItemsError, TransactWriteItemsOutput};
use aws_sdk_dynamodb::types::{AttributeValue, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::item::{self, Item, attr};
use super::{Table, claimable, claimable_names, claimable_values, classify, refused_put};
use crate::clock::Timestamp;
use crate::digest::Digests;
use crate::key::Key;
use crate::record::{self, Outcome, Owner, Record, State};
use crate::store::{self, Attributes};

/// How long a fence stands. No request is under way that long: AWS refuses one whose signature is more than 15 minutes old.
pub const TOMBSTONE_RETENTION: Duration = Duration::from_secs(60 * 60);

/// The record of a key, about to be part of a transaction. Make it once per request and use it for every attempt: its
/// owner token is how a lost answer is recognised.
#[derive(Debug, Clone)]
pub struct Join {
    table: Table,
    key: Key,
    owner: Owner,
    position: usize,
    digests: Option<Digests>,
    attributes: Attributes,
    outcome: Outcome,
    expires_at: Option<Option<Timestamp>>,
    replaces: Option<Owner>,
}

/// What a transaction came to, as far as the record can tell.
#[derive(Debug)]
pub enum Verdict {
    /// It was committed, by this attempt or by an earlier one whose answer was lost.
    New,
    /// The same request was committed before. Nothing was written.
    Replay(Recorded),
    /// The key was used with a different request before. Nothing was written.
    Mismatch { fields: Vec<String>, recorded: Recorded },
    /// Nothing was committed under this key, and this attempt never will be: there is a [fence](Join::tombstone) that it did
    /// not know of. An item that [replaces](Join::replaces) the fence passes it.
    Tombstone(Recorded),
    /// Not ours to judge: another item's condition, a conflict, an error of the store. If the outcome of the
    /// transaction is uncertain, [`Join::look`] tells what is recorded.
    NotOurs,
}

/// The record of a committed transaction.
#[derive(Debug, Clone)]
pub struct Recorded {
    pub record: Record,
    /// The whole item, the caller's attributes included.
    pub item: Item,
}

impl Recorded {
    /// The outcome that was fixed before the commit; `None` if it was too large to keep or there was none.
    pub fn outcome<T: DeserializeOwned>(&self) -> Result<Option<T>, record::Error> {
        match &self.record.state {
            State::Completed { outcome } => outcome.value(),
            _ => Ok(None),
        }
    }

    /// The outcome's JSON, byte for byte as it was recorded.
    pub fn outcome_json(&self) -> Option<&str> {
        match &self.record.state {
            State::Completed { outcome: Outcome::Value(json) } => Some(json),
            _ => None,
        }
    }
}

impl Join {
    pub fn new(table: &Table, key: &Key) -> Self {
        Self {
            table: table.clone(),
            key: key.clone(),
            owner: Owner::random(),
            position: 0,
            digests: None,
            attributes: Vec::new(),
            outcome: Outcome::Nothing,
            expires_at: None,
            replaces: None,
        }
    }

    /// The owner token; random unless it is given.
    pub fn owner(mut self, owner: Owner) -> Self {
        self.owner = owner;
        self
    }

    /// Where the item stands in the transaction. First, unless this says otherwise.
    pub fn position(mut self, position: usize) -> Self {
        self.position = position;
        self
    }

    /// Refuses the same key with a different request. Without digests the payload does not matter.
    pub fn digests(mut self, digests: Digests) -> Self {
        self.digests = Some(digests);
        self
    }

    /// Puts an attribute of the caller's own beside the library's.
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.attributes.push((name.into(), value.into()));
        self
    }

    /// What is replayed to duplicates. It is fixed before the commit: nothing is written after it.
    pub fn outcome<T: Serialize>(mut self, outcome: &T) -> Result<Self, record::Error> {
        self.outcome = Outcome::of(outcome)?;
        Ok(self)
    }

    /// From when on the record counts as absent (`None`: never), instead of after the namespace's retention.
    pub fn expires_at(mut self, expiry: Option<Timestamp>) -> Self {
        self.expires_at = Some(expiry);
        self
    }

    /// Also replaces this very record, though it has not expired: the caller looked at it and found that what it
    /// stands for is over.
    pub fn replaces(mut self, recorded: &Recorded) -> Self {
        self.replaces = Some(recorded.record.owner.clone());
        self
    }

    /// The item for the transaction.
    pub fn item(&self, now: Timestamp) -> Result<TransactWriteItem, record::Error> {
        let retention = self.key.namespace().retention_or_none();
        let record = Record {
            state: State::Completed { outcome: self.outcome.clone() },
            owner: self.owner.clone(),
            fence: 1,
            updated_at: now,
            expires_at: self.expires_at.unwrap_or_else(|| retention.map(|retention| now + retention)),
            digests: self.digests.clone(),
        };
        let mut condition = free_for_a_transaction();
        let mut values = claimable_values(now);
        values.remove(":released");
        if let Some(replaced) = &self.replaces {
            condition.push_str(&format!(" OR {} = :replaced", attr::OWNER));
            values.insert(":replaced".into(), AttributeValue::S(replaced.as_str().to_owned()));
        }
        let put = Put::builder()
            .table_name(&self.table.name)
            .set_item(Some(item::write(&self.table, &self.key, &record, &self.attributes)?))
            .condition_expression(condition)
            .set_expression_attribute_names(Some(claimable_names(&self.table)))
            .set_expression_attribute_values(Some(values))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        #[expect(clippy::expect_used, reason = "table name and item are set above")]
        let put = put.build().expect("table name and item are set");
        Ok(TransactWriteItem::builder().put(put).build())
    }

    /// Reads the answer to the transaction. Only an error in reading the record that stood in the way is an error.
    pub fn verdict(
        &self,
        answer: &Result<TransactWriteItemsOutput, SdkError<TransactWriteItemsError>>,
    ) -> Result<Verdict, record::Error> {
        let error = match answer {
            Ok(_) => return Ok(Verdict::New),
            Err(error) => error,
        };
        let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) = error.as_service_error() else {
            return Ok(Verdict::NotOurs);
        };
        // An item is shown with a failed condition, and with nothing else.
        let reason = cancelled.cancellation_reasons().get(self.position);
        match reason.and_then(|reason| reason.item()) {
            Some(item) => self.judge(item),
            None => Ok(Verdict::NotOurs),
        }
    }

    /// What is recorded now, by a consistent read. `None`: nothing, or what there is has expired. While a
    /// write of ours may still be under way, that proves nothing.
    pub async fn look(&self, client: &Client, now: Timestamp) -> Result<Option<Verdict>, store::Error> {
        let get = client
            .get_item()
            .table_name(&self.table.name)
            .set_key(Some(self.table.primary_key(&self.key)))
            .consistent_read(true);
        match get.send().await {
            Ok(output) => match output.item {
                Some(item) if !self.is_over(&item, now)? => Ok(Some(self.judge(&item)?)),
                _ => Ok(None),
            },
            Err(error) => Err(classify(error)),
        }
    }

    /// Makes a refusal final: `Ok(None)` says that nothing was committed under this key and that no attempt made so far,
    /// by whomever, ever will be, though it may be under way still. `Ok(Some(…))` says what had been committed.
    ///
    /// The fence is a record in the state `released` that stands for [`TOMBSTONE_RETENTION`]. It is no outcome: whoever meets it
    /// ([`Verdict::Tombstone`]) may replace it, and only who has met it can. It costs one write, which is at the same time
    /// the consistent look at the record. An error leaves things open, as before.
    pub async fn tombstone(
        &self,
        client: &Client,
        now: Timestamp,
        reason: &str,
    ) -> Result<Option<Verdict>, store::Error> {
        let tombstone = Record {
            state: State::Released { reason: record::reason(&reason), uncertain: false },
            // A new one each time: what may replace the fence before must not pass this one.
            owner: Owner::random(),
            fence: 1,
            updated_at: now,
            expires_at: Some(now + TOMBSTONE_RETENTION),
            digests: None,
        };
        let put = client
            .put_item()
            .table_name(&self.table.name)
            .set_item(Some(item::write(&self.table, &self.key, &tombstone, &Vec::new())?))
            .condition_expression(claimable())
            .set_expression_attribute_names(Some(claimable_names(&self.table)))
            .set_expression_attribute_values(Some(claimable_values(now)))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let error = match put.send().await {
            Ok(_) => return Ok(None),
            Err(error) => error,
        };
        match refused_put(&error) {
            Some(Some(item)) => Ok(Some(self.judge(item)?)),
            Some(None) => match self.look(client, now).await? {
                Some(verdict) if !matches!(verdict, Verdict::Tombstone(_)) => Ok(Some(verdict)),
                _ => Err(store::Error::Transient("the record vanished between the refusal and the look at it".into())),
            },
            None => Err(classify(error)),
        }
    }

    fn is_over(&self, item: &Item, now: Timestamp) -> Result<bool, record::Error> {
        let record = item::read(&self.table, item)?;
        let tombstone = matches!(record.state, State::Released { .. }) && !record.is_expired(now);
        Ok(record.is_claimable(now) && !tombstone)
    }

    fn judge(&self, item: &Item) -> Result<Verdict, record::Error> {
        let record = item::read(&self.table, item)?;
        if matches!(record.state, State::Released { .. }) {
            return Ok(Verdict::Tombstone(Recorded { record, item: item.clone() }));
        }
        if record.owner == self.owner {
            return Ok(Verdict::New);
        }
        let fields = match (&self.digests, &record.digests) {
            (Some(ours), Some(stored)) => ours.differences(stored),
            _ => Vec::new(),
        };
        let recorded = Recorded { record, item: item.clone() };
        Ok(if fields.is_empty() { Verdict::Replay(recorded) } else { Verdict::Mismatch { fields, recorded } })
    }
}

/// The condition under which a key is free for a transaction at `:now`: [`claimable`], except that what was given back is
/// a fence here, and free only for those who name it.
fn free_for_a_transaction() -> String {
    format!(
        "attribute_not_exists(#pk) OR #ttl <= :now_secs OR ({version} <= :format AND {state} = :claimed AND {lease} <= :now)",
        version = attr::FORMAT,
        state = attr::STATE,
        lease = attr::LEASE_UNTIL,
    )
}
