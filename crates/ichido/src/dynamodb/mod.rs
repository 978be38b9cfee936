//! The store on DynamoDB, and [`Join`]: the record as one item of the caller's own transaction.
//!
//! The table belongs to the caller, who names its keys and its `ttl` attribute ([`Table`]). The library's attributes all begin
//! with `ichido_`; the caller's attributes are stored beside them. [`item`] has the format.
//!
//! Each operation is one request. The SDK retries it; [`bounded`] limits how often and for how long.
//!
//! ## Several regions
//!
//! An eventually consistent global table checks conditions in one region only, and the last writer wins. So two regions can
//! both win the claim on one key. There are two ways out:
//!
//! - Send all calls for a key to one region: route by key, or keep one region passive until the other has been gone for
//!   longer than the longest lease.
//! - Use a global table with multi-Region strong consistency, where conditions hold everywhere. It does not offer
//!   transactions, and so no [`Join`].

mod error;
pub mod item;
mod join;
mod look;

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::StalledStreamProtectionConfig;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};

pub use self::error::classify;
pub use self::join::{Join, Recorded, TOMBSTONE_RETENTION, Verdict};
pub use self::look::{Listing, StoredItem, Wanted};
use crate::clock::Timestamp;
use crate::key::Key;
use crate::record::{self, Record, State, StateKind};
use crate::store::{Admit, Admitted, Error, Settle, Settled, Store, Transition};
use item::{Item, Update, attr};

/// A table, and the names of its keys and its expiry attribute.
#[must_use = "settings return a new table"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub(crate) name: String,
    pub(crate) partition_key: String,
    /// The name of the sort key, and the value that all records have there.
    pub(crate) sort_key: Option<(String, String)>,
    pub(crate) ttl: String,
    pub(crate) foreign: Foreign,
}

/// What an item means that is stored under a key and has none of the library's attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Foreign {
    /// It is an error: the table is not what the caller believes.
    #[default]
    Refused,
    /// An earlier system wrote it when it had performed the effect.
    Done,
}

impl Table {
    /// A table with this partition key, without a sort key, and with `ttl` as its expiry attribute.
    pub fn new(name: impl Into<String>, partition_key: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            partition_key: partition_key.into(),
            sort_key: None,
            ttl: "ttl".into(),
            foreign: Foreign::Refused,
        }
    }

    /// The table has a sort key. All records have this value there.
    pub fn sort_key(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.sort_key = Some((name.into(), value.into()));
        self
    }

    /// The table's expiry attribute has this name.
    pub fn ttl(mut self, name: impl Into<String>) -> Self {
        self.ttl = name.into();
        self
    }

    /// What an item without the library's attributes means. Say [`Foreign::Done`] if you take over the table of an earlier
    /// system: its items then count as done, until they expire, and a duplicate gets
    /// [`Error::DoneWithoutValue`](crate::Error::DoneWithoutValue).
    pub fn foreign(mut self, foreign: Foreign) -> Self {
        self.foreign = foreign;
        self
    }

    /// The name of the table.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The primary key of a record.
    pub fn primary_key(&self, key: &Key) -> Item {
        let mut item = Item::from([(self.partition_key.clone(), AttributeValue::S(key.as_str().to_owned()))]);
        if let Some((name, value)) = &self.sort_key {
            item.insert(name.clone(), AttributeValue::S(value.clone()));
        }
        item
    }

    /// Does this attribute belong to the table or to the library?
    pub(crate) fn is_reserved(&self, name: &str) -> bool {
        name == self.partition_key
            || name == self.ttl
            || self.sort_key.as_ref().is_some_and(|(sort_key, _)| name == sort_key)
            || name.starts_with(attr::PREFIX)
    }
}

/// The same client, limited to this many attempts per operation and to this total time.
///
/// It has no protection against stalled streams: the limit ends them too, and the protection costs CPU on every call. For the
/// same reason, a limit of the client for one attempt is left out if it is not shorter than the total.
pub fn bounded(client: &Client, attempts: u32, total: Duration) -> Client {
    let mut timeouts = TimeoutConfig::builder().operation_timeout(total);
    let of_attempt = client.config().timeout_config().and_then(TimeoutConfig::operation_attempt_timeout);
    if of_attempt.is_some_and(|limit| limit >= total) {
        timeouts = timeouts.disable_operation_attempt_timeout();
    }
    let config = client
        .config()
        .to_builder()
        .retry_config(RetryConfig::standard().with_max_attempts(attempts))
        .timeout_config(timeouts.build())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    Client::from_conf(config.build())
}

/// Keeps records in a DynamoDB table.
#[derive(Debug, Clone)]
pub struct DynamoDb {
    client: Client,
    table: Table,
    expressions: Expressions,
}

/// The expressions that every request uses, made once.
#[derive(Debug, Clone)]
struct Expressions {
    /// The record is absent, expired or released, or its lease has ended.
    claimable: String,
    /// The same for a claim, by whether it compares digests and whether it refuses doubt.
    claim: [[String; 2]; 2],
    /// The record is claimed with this owner and this fence.
    held: String,
    /// And its lease does not end later than the renewed one.
    renewable: String,
}

impl DynamoDb {
    /// Keeps records in this table.
    pub fn new(client: Client, table: Table) -> Self {
        let expressions = Expressions {
            claimable: claimable(),
            claim: [false, true].map(|compares| [false, true].map(|refuses| claim_condition(compares, refuses))),
            held: held(),
            renewable: format!("{} AND {} <= :lease_until", held(), attr::LEASE_UNTIL),
        };
        Self { client, table, expressions }
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Writes a settled record. It replaces the whole item, so this is a put.
    async fn put(&self, request: &Admit<'_>) -> Result<Admitted, Error> {
        let record = item::new_record(request, 1);
        let item = item::write(&self.table, request.key, &record, request.attributes)?;
        let put = self
            .client
            .put_item()
            .table_name(&self.table.name)
            .set_item(Some(item))
            .condition_expression(&self.expressions.claimable)
            .set_expression_attribute_names(Some(claimable_names(&self.table)))
            .set_expression_attribute_values(Some(claimable_values(request.now)))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match put.send().await {
            Ok(_) => Ok(Admitted::Won { fence: 1, previous: None }),
            Err(error) => match refused_put(&error) {
                Some(old) => self.held(request.key, old).await,
                None => Err(classify(error)),
            },
        }
    }

    /// Writes a claim. It increments the fence of the record that it replaces, so this is an update.
    async fn claim(&self, request: &Admit<'_>) -> Result<Admitted, Error> {
        let Update { expression, mut names, mut values } = item::claim_update(&self.table, request)?;
        names.insert("#pk".into(), self.table.partition_key.clone());
        // What the condition needs beyond the values of the update. DynamoDB refuses values that no expression uses.
        values.insert(":now_secs".into(), AttributeValue::N(request.now.as_secs().to_string()));
        values.insert(":released".into(), item::state(StateKind::Released));
        if request.refuses_doubt {
            values.insert(":uncertain".into(), AttributeValue::Bool(true));
        }
        let call = self
            .client
            .update_item()
            .table_name(&self.table.name)
            .set_key(Some(self.table.primary_key(request.key)))
            .update_expression(expression)
            .condition_expression(
                &self.expressions.claim[usize::from(request.digests.is_some())][usize::from(request.refuses_doubt)],
            )
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(Some(values))
            .return_values(ReturnValue::AllOld)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match call.send().await {
            Ok(output) => match output.attributes {
                None => Ok(Admitted::Won { fence: 1, previous: None }),
                Some(old) => {
                    // The condition found the old item claimable. An expired item may have a newer format, or be no record.
                    let fence = item::fence(&old) + 1;
                    Ok(Admitted::Won { fence, previous: item::replaced(&self.table, &old, request.now) })
                }
            },
            Err(error) => match refused_update(&error) {
                Some(old) => self.held(request.key, old).await,
                None => Err(classify(error)),
            },
        }
    }

    /// The item under a key, whether or not it is a record.
    async fn item(&self, key: &Key) -> Result<Option<Item>, Error> {
        let get = self
            .client
            .get_item()
            .table_name(&self.table.name)
            .set_key(Some(self.table.primary_key(key)))
            .consistent_read(true);
        Ok(get.send().await.map_err(classify)?.item)
    }

    /// The record because of which the write was refused. If it did not come with the refusal, it is read.
    async fn held(&self, key: &Key, old: Option<&Item>) -> Result<Admitted, Error> {
        let record = match old {
            Some(old) => Some(item::read(&self.table, old)?),
            None => self.read(key).await?,
        };
        match record {
            Some(record) => Ok(Admitted::Held(record)),
            None => Err(Error::Transient(VANISHED.into())),
        }
    }
}

impl Store for DynamoDb {
    async fn admit(&self, request: &Admit<'_>) -> Result<Admitted, Error> {
        match request.state {
            State::Claimed { .. } => self.claim(request).await,
            _ => self.put(request).await,
        }
    }

    async fn settle(&self, request: &Settle<'_>) -> Result<Settled, Error> {
        let condition = match request.to {
            Transition::Renew { .. } => &self.expressions.renewable,
            _ => &self.expressions.held,
        };
        self.change(request, condition, Item::new()).await
    }

    async fn read(&self, key: &Key) -> Result<Option<Record>, Error> {
        let item = self.item(key).await?;
        Ok(item.map(|item| item::read(&self.table, &item)).transpose()?)
    }
}

impl DynamoDb {
    /// Releases a key by hand: a claim whose worker is gone, or a key that was released in doubt and that nobody may take over
    /// because of [`OnDoubt::Refuse`](crate::OnDoubt::Refuse). `shown` is the record on which the operator decided. If it is
    /// another one by now, nothing is changed. `uncertain: false` says that somebody looked, and that the effect did not happen.
    pub async fn release(
        &self,
        key: &Key,
        shown: &Record,
        now: Timestamp,
        reason: &str,
        uncertain: bool,
    ) -> Result<Settled, Error> {
        let to = Transition::Release { reason: record::reason(&reason), uncertain };
        let owner = shown.owner.clone();
        let request = Settle { key, owner, fence: shown.fence, now, to, expires_at: shown.expires_at };
        // A claim that was renewed or released since then has the same owner and fence.
        let (detail, value) = match &shown.state {
            State::Claimed { lease_until } => {
                (attr::LEASE_UNTIL, AttributeValue::N(lease_until.as_millis().to_string()))
            }
            State::Released { uncertain, .. } => (attr::UNCERTAIN, AttributeValue::Bool(*uncertain)),
            State::Completed { .. } | State::Failed { .. } => return Ok(Settled::Lost(Some(shown.clone()))),
        };
        let condition = format!(
            "{} = :owner AND {} = :fence AND {} = :shown_at AND {detail} = :detail AND ({state} = :claimed OR {state} = :released)",
            attr::OWNER,
            attr::FENCE,
            attr::UPDATED_AT,
            state = attr::STATE
        );
        let values = Item::from([
            (":released".into(), item::state(StateKind::Released)),
            (":shown_at".into(), AttributeValue::N(shown.updated_at.as_millis().to_string())),
            (":detail".into(), value),
        ]);
        self.change(&request, &condition, values).await
    }

    async fn change(&self, request: &Settle<'_>, condition: &str, values: Item) -> Result<Settled, Error> {
        let mut update = item::settle_update(&self.table, request);
        update.values.extend(values);
        let call = self
            .client
            .update_item()
            .table_name(&self.table.name)
            .set_key(Some(self.table.primary_key(request.key)))
            .update_expression(update.expression)
            .condition_expression(condition)
            .set_expression_attribute_names(Some(update.names))
            .set_expression_attribute_values(Some(update.values))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match call.send().await {
            Ok(_) => Ok(Settled::Done),
            Err(error) => match refused_update(&error) {
                Some(Some(old)) => Ok(Settled::Lost(Some(item::read(&self.table, old)?))),
                Some(None) => Ok(Settled::Lost(self.read(request.key).await?)),
                None => Err(classify(error)),
            },
        }
    }
}

/// Why a refused write may be tried again.
const VANISHED: &str = "the record that refused the write was gone when it was read; try again";

/// The condition under which a key is free at `:now`. An item of a newer format is free only if it has expired, because
/// the meaning of `ttl` does not depend on the format.
pub(crate) fn claimable() -> String {
    claim_condition(false, false)
}

/// [`Admit::may_replace`] as a condition. `compares`: the claim has digests, and a record with other digests under the same
/// digest key is not free. `refuses_doubt`: a record that leaves a doubt is not free.
fn claim_condition(compares: bool, refuses_doubt: bool) -> String {
    let state = attr::STATE;
    let open = if refuses_doubt {
        format!("{state} = :released AND NOT {} = :uncertain", attr::UNCERTAIN)
    } else {
        format!("({state} = :released OR ({state} = :claimed AND {} <= :now))", attr::LEASE_UNTIL)
    };
    let same_payload = if compares {
        let (key, digests) = (attr::DIGEST_KEY, attr::DIGESTS);
        format!(" AND (attribute_not_exists({key}) OR {key} <> :digest_key OR {digests} = :digests)")
    } else {
        String::new()
    };
    let version = attr::FORMAT;
    format!("attribute_not_exists(#pk) OR #ttl <= :now_secs OR ({version} <= :format AND {open}{same_payload})")
}

/// The table's names may be reserved words of DynamoDB, as `ttl` is.
pub(crate) fn claimable_names(table: &Table) -> HashMap<String, String> {
    HashMap::from([("#pk".into(), table.partition_key.clone()), ("#ttl".into(), table.ttl.clone())])
}

pub(crate) fn claimable_values(now: crate::Timestamp) -> Item {
    Item::from([
        (":now_secs".into(), AttributeValue::N(now.as_secs().to_string())),
        (":now".into(), AttributeValue::N(now.as_millis().to_string())),
        (":format".into(), AttributeValue::N(crate::record::FORMAT.to_string())),
        (":released".into(), item::state(StateKind::Released)),
        (":claimed".into(), item::state(StateKind::Claimed)),
    ])
}

fn held() -> String {
    format!("{} = :owner AND {} = :fence AND {} = :claimed", attr::OWNER, attr::FENCE, attr::STATE)
}

/// `Some` if the condition refused the write; inside, the item that is there, if DynamoDB returned it.
fn refused_put(error: &SdkError<PutItemError>) -> Option<Option<&Item>> {
    match error.as_service_error()? {
        PutItemError::ConditionalCheckFailedException(refusal) => Some(refusal.item()),
        _ => None,
    }
}

fn refused_update(error: &SdkError<UpdateItemError>) -> Option<Option<&Item>> {
    match error.as_service_error()? {
        UpdateItemError::ConditionalCheckFailedException(refusal) => Some(refusal.item()),
        _ => None,
    }
}
