//! `join`: the record as one item of the caller's own `TransactWriteItems`.

use std::fmt;
use std::sync::Arc;
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
use crate::digest::{self, Digests};
use crate::key::Key;
use crate::observe::{Decision, Event, Observer, Reason, Strength};
use crate::record::{self, NoValue, Outcome, Owner, Record, State};
use crate::store::{self, Attributes};

/// How long a tombstone is kept. No request is under way for so long: AWS refuses one whose signature is more than 15
/// minutes old.
pub const TOMBSTONE_RETENTION: Duration = Duration::from_secs(60 * 60);

/// The record of a key, as an item for a transaction. Make one per request and use it for every attempt: by its owner
/// token, an attempt whose answer was lost is recognised.
///
/// The record is written together with the caller's writes or not at all. So there is no lease and no probe, and no second
/// claim to fence off: it is exactly once by construction. Two things remain:
///
/// - to understand why a transaction was refused. [`Join::verdict`] does that.
/// - to be sure that a refused one stays refused. An attempt whose answer was lost may still be under way and be committed
///   after everybody has looked. A caller that is about to report "it did not happen" writes a
///   [tombstone](Join::tombstone) first.
///
/// `join` never fails open: without the store there is no transaction.
#[derive(Clone)]
#[must_use = "it is written only if its item is part of a transaction"]
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
    observer: Arc<dyn Observer>,
}

impl fmt::Debug for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Join").field("key", &self.key).field("owner", &self.owner).finish_non_exhaustive()
    }
}

/// What the record says about a transaction.
#[derive(Debug)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum Verdict {
    /// It was committed, by this attempt or by an earlier one of the same `Join` whose answer was lost.
    New,
    /// The same request was committed before. Nothing was written.
    Replay(Recorded),
    /// The key was used with a different request before. Nothing was written.
    Mismatch { fields: Vec<String>, recorded: Recorded },
    /// Nothing was committed under this key, and this attempt never will be: there is a [tombstone](Join::tombstone) that it
    /// does not know. An item that [replaces](Join::replaces) the tombstone can be committed.
    Tombstone(Recorded),
    /// The record did not decide it: another item's condition did, or a conflict, or an error of the store. If it is
    /// uncertain whether the transaction was committed, [`Join::look`] tells what is recorded.
    NotOurs,
}

/// The record that was found, with its item.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The record.
    pub record: Record,
    /// The whole item, the caller's attributes included.
    pub item: Item,
}

impl Recorded {
    /// The outcome that was set before the commit.
    pub fn outcome<T: DeserializeOwned>(&self) -> Result<T, NoValue> {
        match &self.record.state {
            State::Completed { outcome } => outcome.value(),
            _ => Err(NoValue::Nothing),
        }
    }

    /// The JSON of the outcome, byte for byte as it was recorded.
    pub fn outcome_json(&self) -> Option<&str> {
        match &self.record.state {
            State::Completed { outcome: Outcome::Value(json) } => Some(json),
            _ => None,
        }
    }
}

impl Join {
    /// The record of this key in this table.
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
            observer: crate::trace::default_observer(),
        }
    }

    /// Who is told what [`verdict`](Self::verdict) decided. The default is the same as for [`Once`](crate::Once).
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Arc::new(observer);
        self
    }

    /// Sets the owner token. The default is a random one.
    pub fn owner(mut self, owner: Owner) -> Self {
        self.owner = owner;
        self
    }

    /// The position of the item in the transaction. The default is 0, the first.
    pub fn position(mut self, position: usize) -> Self {
        self.position = position;
        self
    }

    /// Refuses the same key with a different request. Without digests, requests are not compared.
    pub fn digests(mut self, digests: Digests) -> Self {
        self.digests = Some(digests);
        self
    }

    /// Stores an attribute of the caller beside the library's.
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.attributes.push((name.into(), value.into()));
        self
    }

    /// What duplicates get. It is set before the commit, because nothing is written after it.
    pub fn outcome<T: Serialize>(mut self, outcome: &T) -> Result<Self, record::Error> {
        self.outcome = Outcome::of(outcome)?;
        Ok(self)
    }

    /// When the record expires (`None`: never). The default is the namespace's retention.
    pub fn expires_at(mut self, expiry: Option<Timestamp>) -> Self {
        self.expires_at = Some(expiry);
        self
    }

    /// Also replaces this record, although it has not expired. The caller has read it and knows that it no longer counts.
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
            attributes: Vec::new(),
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

    /// Reads the answer to the transaction, and reports the decision. The only error is a record that cannot be read.
    pub fn verdict(
        &self,
        answer: &Result<TransactWriteItemsOutput, SdkError<TransactWriteItemsError>>,
    ) -> Result<Verdict, record::Error> {
        let verdict = self.read_answer(answer)?;
        let (decision, reason, first): (_, _, &[_]) = match &verdict {
            Verdict::New => (Decision::New, Reason::Absent, &[]),
            Verdict::Replay(recorded) => (Decision::Duplicate, Reason::Completed, &recorded.record.attributes),
            Verdict::Mismatch { .. } => (Decision::Duplicate, Reason::DifferentPayload, &[]),
            Verdict::Tombstone(_) => (Decision::Duplicate, Reason::Tombstone, &[]),
            Verdict::NotOurs => return Ok(verdict), // nothing was decided
        };
        let (key, strength) = (&self.key, Strength::Join);
        let (store_latency, fallback, attempt, until) = (None, false, None, None);
        let decided =
            Event::Decided { key, strength, decision, reason, store_latency, fallback, first, attempt, until };
        self.observer.observe(&decided);
        Ok(verdict)
    }

    fn read_answer(
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
        // DynamoDB returns an item only with a failed condition.
        let reason = cancelled.cancellation_reasons().get(self.position);
        match reason.and_then(|reason| reason.item()) {
            Some(item) => self.judge(item),
            None => Ok(Verdict::NotOurs),
        }
    }

    /// What is recorded now, by a consistent read. `None`: nothing, or a record that has expired. As long as an attempt may
    /// still be under way, `None` does not prove that it will not be committed.
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

    /// Makes a refusal final. `Ok(None)`: nothing was committed under this key, and no attempt that any caller has sent so
    /// far ever will be, even if it is still under way. `Ok(Some(…))`: what was committed.
    ///
    /// The tombstone is a record in the state `released`, kept for [`TOMBSTONE_RETENTION`]. It is not an outcome: an attempt
    /// that has met it ([`Verdict::Tombstone`]) may replace it, and no other attempt can. It costs one write, which also
    /// reads the record consistently. After an error, nothing is known.
    pub async fn tombstone(
        &self,
        client: &Client,
        now: Timestamp,
        reason: &str,
    ) -> Result<Option<Verdict>, store::Error> {
        let tombstone = Record {
            state: State::Released { reason: record::reason(&reason), uncertain: false },
            // A new token each time: an attempt that may replace an earlier tombstone must not replace this one.
            owner: Owner::random(),
            fence: 1,
            updated_at: now,
            expires_at: Some(now + TOMBSTONE_RETENTION),
            digests: None,
            attributes: Vec::new(),
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
                _ => Err(store::Error::Transient(super::VANISHED.into())),
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
        let fields = digest::differences(self.digests.as_ref(), record.digests.as_ref());
        let recorded = Recorded { record, item: item.clone() };
        Ok(if fields.is_empty() { Verdict::Replay(recorded) } else { Verdict::Mismatch { fields, recorded } })
    }
}

/// The condition under which a key is free for a transaction at `:now`. It is [`claimable`], except that a released record is
/// a tombstone here: only an attempt that names it may replace it.
fn free_for_a_transaction() -> String {
    format!(
        "attribute_not_exists(#pk) OR #ttl <= :now_secs OR ({version} <= :format AND {state} = :claimed AND {lease} <= :now)",
        version = attr::FORMAT,
        state = attr::STATE,
        lease = attr::LEASE_UNTIL,
    )
}
