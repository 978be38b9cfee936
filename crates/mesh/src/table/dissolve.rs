//! What `dissolveGroup` asks of the table.
//!
//! An item that a publish is checking at the same moment is busy: DynamoDB refuses to write it while a transaction is under
//! way. Only that is tried again here.

use std::time::Duration;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{DeleteRequest, ReturnValue, ReturnValuesOnConditionCheckFailure, WriteRequest};
use function::item::{Item, get_number, get_text, number, text};
use ichido::dynamodb::{classify, item};
use ichido::record::{Outcome, Owner, Record, State};
use ichido::{Clock, Timestamp, store};
use serde::{Deserialize, Serialize};

use super::{
    ALIVE, Table, group_key, group_partition, host_key, latest_key, membership_key, node_key, publish_key, read_group,
    records, seconds, status_key,
};
use crate::dissolve::{NOT_THE_HOST, Notice};
use crate::group::{Error, Secret};

/// How many writes DynamoDB takes in one batch.
const BATCH: usize = 25;
/// How many times a batch is sent for what is left of it, and a write to an item that is busy.
const ATTEMPTS: u32 = 8;

/// A publish that can be recognised when it is repeated.
pub(crate) struct Publish<'a> {
    pub(crate) domain: &'a str,
    pub(crate) group_id: &'a str,
    pub(crate) node_id: &'a str,
    pub(crate) message_id: &'a str,
}

impl Publish<'_> {
    fn key(&self) -> Item {
        publish_key(self.domain, self.group_id, self.node_id, self.message_id)
    }
}

/// What is recorded of a notice. The records of other publishes have another `kind`.
#[derive(Deserialize, Serialize)]
struct RecordedNotice {
    kind: String,
    sequence: u64,
    at: u64,
}

/// What is known of a group that has just been ended.
pub(crate) struct Ended {
    /// The number of the notice.
    pub(crate) sequence: u64,
    pub(crate) is_secured: bool,
}

const KIND: &str = "dissolve";

impl Table {
    /// The notice of an earlier call with the same `messageId`.
    pub(crate) async fn notice(&self, publish: &Publish<'_>, now: Timestamp) -> Result<Option<Notice>, Error> {
        let Some(item) = self.get(publish.key()).await? else { return Ok(None) };
        let record = item::read(&self.publishes(), &item).map_err(store::Error::from)?;
        if record.is_expired(now) {
            return Ok(None);
        }
        let notice = match &record.state {
            State::Completed { outcome } => outcome.value::<RecordedNotice>().ok(),
            _ => None,
        };
        match notice {
            Some(RecordedNotice { kind, sequence, at }) if kind == KIND => {
                let secret = get_text(&item, "memberSecret").map(Secret::new);
                Ok(Some(Notice { sequence, at: Timestamp::from_millis(at), secret }))
            }
            _ => Err(Error::Validation("This messageId was used before for another message. Use a new one.".into())),
        }
    }

    /// Records the notice, as `infra/appsync/functions/writeMessage.js` records other publishes.
    pub(crate) async fn record_notice(
        &self,
        publish: &Publish<'_>,
        notice: &Notice,
        owner: Owner,
        expires_at: Timestamp,
    ) -> Result<(), store::Error> {
        let Notice { sequence, at, secret } = notice;
        let outcome = RecordedNotice { kind: KIND.to_owned(), sequence: *sequence, at: at.as_millis() };
        let mut record = Record::new(State::Completed { outcome: Outcome::of(&outcome)? }, owner, 1, *at);
        record.expires_at = Some(expires_at);
        let mut item = publish.key();
        item.extend(item::record_attributes(&self.publishes(), &record));
        if let Some(secret) = secret {
            // A repeat has to know it.
            item.insert("memberSecret".into(), text(secret.expose()));
        }
        let put = self.client.put_item().table_name(&self.name).set_item(Some(item));
        put.send().await.map(|_| ()).map_err(classify)
    }

    /// Ends the group and takes a number for the notice. A group that an earlier call has ended, but not deleted, can be ended again.
    pub(crate) async fn end_group(
        &self,
        domain: &str,
        group_id: &str,
        host_id: &str,
        secret: Option<&Secret>,
        now: Timestamp,
    ) -> Result<Ended, Error> {
        let update = self
            .client
            .update_item()
            .table_name(&self.name)
            .set_key(Some(group_key(domain, group_id)))
            .update_expression(
                "SET expiresAt = :ended, dissolvedAt = :now, #sequence = if_not_exists(#sequence, :zero) + :one",
            )
            .condition_expression(format!(
                "hostId = :host AND (attribute_not_exists(hostSecret) OR hostSecret = :secret) \
                 AND (({ALIVE}) OR attribute_exists(dissolvedAt))"
            ))
            .expression_attribute_names("#sequence", "sequence")
            .expression_attribute_values(":ended", number(0))
            .expression_attribute_values(":now", seconds(now))
            .expression_attribute_values(":zero", number(0))
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":host", text(host_id))
            .expression_attribute_values(":secret", text(secret.map_or("", Secret::expose)))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let error = match update.send().await {
            Ok(output) => {
                let item = output.attributes.unwrap_or_default();
                let sequence = get_number(&item, "sequence").unwrap_or_default();
                return Ok(Ended { sequence, is_secured: item.contains_key("hostSecret") });
            }
            Err(error) => error,
        };
        match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(refusal)) => {
                match refusal.item().and_then(read_group) {
                    Some(group) if group.is_alive(now) && group.host_id != host_id => {
                        Err(Error::Unauthorized("Only the host can dissolve the group."))
                    }
                    Some(group) if group.host_secret.is_some() && group.host_secret.as_ref() != secret => {
                        Err(Error::Unauthorized(NOT_THE_HOST))
                    }
                    found => Err(Error::no_group(domain, group_id, found.as_ref(), now)),
                }
            }
            Some(UpdateItemError::TransactionConflictException(_)) => Err(Error::Conflict),
            _ => Err(classify(error).into()),
        }
    }

    /// The ids of the group's nodes, expired ones too.
    pub(crate) async fn nodes_of_group(&self, domain: &str, group_id: &str) -> Result<Vec<String>, store::Error> {
        let nodes = self.items_of_group(domain, group_id, "NODE#").await?;
        Ok(nodes.iter().filter_map(|node| get_text(node, "nodeId")).map(str::to_owned).collect())
    }

    /// From here on the node can publish nothing. It stays in the table, because the rest of it is found through it.
    pub(crate) async fn expire_node(
        &self,
        clock: &dyn Clock,
        domain: &str,
        group_id: &str,
        node_id: &str,
    ) -> Result<(), Error> {
        unless_busy(clock, || async {
            let update = self
                .client
                .update_item()
                .table_name(&self.name)
                .set_key(Some(node_key(domain, group_id, node_id)))
                .update_expression("SET #ttl = :past")
                .condition_expression("attribute_exists(pk)")
                .expression_attribute_names("#ttl", "ttl")
                .expression_attribute_values(":past", number(0));
            match update.send().await {
                Ok(_) => Ok(()),
                Err(error) => match error.as_service_error() {
                    // It has left meanwhile.
                    Some(UpdateItemError::ConditionalCheckFailedException(_)) => Ok(()),
                    _ => Err(WriteFailure::of(error)),
                },
            }
        })
        .await
    }

    /// Deletes the node's status, unless the node is in another group by now.
    pub(crate) async fn delete_status(
        &self,
        clock: &dyn Clock,
        domain: &str,
        group_id: &str,
        node_id: &str,
    ) -> Result<(), Error> {
        self.delete_if_of_group(clock, status_key(domain, node_id), group_id).await
    }

    /// Deletes the node's membership, unless the node is in another group by now.
    pub(crate) async fn delete_membership(
        &self,
        clock: &dyn Clock,
        domain: &str,
        group_id: &str,
        node_id: &str,
    ) -> Result<(), Error> {
        self.delete_if_of_group(clock, membership_key(domain, node_id), group_id).await
    }

    /// Deletes what says that this is the group which a node of this id joined last, unless it joined another one since.
    pub(crate) async fn delete_latest(&self, clock: &dyn Clock, group_id: &str, node_id: &str) -> Result<(), Error> {
        self.delete_if_of_group(clock, latest_key(node_id), group_id).await
    }

    pub(crate) async fn delete_node(
        &self,
        clock: &dyn Clock,
        domain: &str,
        group_id: &str,
        node_id: &str,
    ) -> Result<(), Error> {
        self.delete_item(clock, node_key(domain, group_id, node_id)).await
    }

    pub(crate) async fn delete_messages(&self, clock: &dyn Clock, domain: &str, group_id: &str) -> Result<(), Error> {
        self.delete_all(clock, self.items_of_group(domain, group_id, "MESSAGE#").await?).await
    }

    /// Deletes the records by which repeated publishes are recognised.
    pub(crate) async fn delete_publishes(&self, clock: &dyn Clock, domain: &str, group_id: &str) -> Result<(), Error> {
        self.delete_all(clock, self.items_of_group(domain, group_id, "PUBLISHED#").await?).await
    }

    /// Deletes the record of the host, unless it names another group by now.
    pub(crate) async fn delete_host_record(
        &self,
        clock: &dyn Clock,
        domain: &str,
        group_id: &str,
        host_id: &str,
    ) -> Result<(), Error> {
        // A host whose record can have no key has no group either.
        let Ok(host) = host_key(domain, host_id) else { return Ok(()) };
        self.delete_if_of_group(clock, records(&self.name).primary_key(&host), group_id).await
    }

    pub(crate) async fn delete_group(&self, clock: &dyn Clock, domain: &str, group_id: &str) -> Result<(), Error> {
        self.delete_item(clock, group_key(domain, group_id)).await
    }

    /// What the attributes of a publish's record are called. Its sort key differs from record to record.
    fn publishes(&self) -> ichido::dynamodb::Table {
        ichido::dynamodb::Table::new(&self.name, "pk")
    }

    /// The keys, and `nodeId`, of the group's items whose sort key begins so: from the base table, consistently.
    async fn items_of_group(&self, domain: &str, group_id: &str, prefix: &str) -> Result<Vec<Item>, store::Error> {
        let mut items = Vec::new();
        let mut from = None;
        loop {
            let query = self
                .client
                .query()
                .table_name(&self.name)
                .key_condition_expression("pk = :pk AND begins_with(sk, :prefix)")
                .expression_attribute_values(":pk", text(group_partition(domain, group_id)))
                .expression_attribute_values(":prefix", text(prefix))
                .projection_expression("pk, sk, nodeId")
                .consistent_read(true)
                .set_exclusive_start_key(from);
            let page = query.send().await.map_err(classify)?;
            items.extend(page.items.unwrap_or_default());
            from = page.last_evaluated_key;
            if from.is_none() {
                return Ok(items);
            }
        }
    }

    async fn delete_item(&self, clock: &dyn Clock, key: Item) -> Result<(), Error> {
        unless_busy(clock, || async {
            let delete = self.client.delete_item().table_name(&self.name).set_key(Some(key.clone()));
            delete.send().await.map(|_| ()).map_err(WriteFailure::of)
        })
        .await
    }

    async fn delete_if_of_group(&self, clock: &dyn Clock, key: Item, group_id: &str) -> Result<(), Error> {
        unless_busy(clock, || async {
            let delete = self
                .client
                .delete_item()
                .table_name(&self.name)
                .set_key(Some(key.clone()))
                .condition_expression("attribute_not_exists(pk) OR groupId = :group")
                .expression_attribute_values(":group", text(group_id));
            match delete.send().await {
                Ok(_) => Ok(()),
                Err(error) => match error.as_service_error() {
                    Some(DeleteItemError::ConditionalCheckFailedException(_)) => Ok(()),
                    _ => Err(WriteFailure::of(error)),
                },
            }
        })
        .await
    }

    async fn delete_all(&self, clock: &dyn Clock, items: Vec<Item>) -> Result<(), Error> {
        for batch in items.chunks(BATCH) {
            let mut requests: Vec<WriteRequest> = batch.iter().map(delete_request).collect();
            for attempt in 1..=ATTEMPTS {
                let sent = self.client.batch_write_item().request_items(&self.name, requests).send().await;
                let left = sent.map_err(classify)?.unprocessed_items;
                requests = left.and_then(|mut left| left.remove(&self.name)).unwrap_or_default();
                if requests.is_empty() {
                    break;
                }
                if attempt == ATTEMPTS {
                    let left = store::Error::Transient("DynamoDB left a part of a batch unprocessed".into());
                    return Err(left.into());
                }
                clock.sleep(Duration::from_millis(25 << attempt)).await;
            }
        }
        Ok(())
    }
}

/// Why a single write failed.
enum WriteFailure {
    /// The item is part of a transaction that is under way.
    Busy,
    Other(store::Error),
}

impl WriteFailure {
    fn of<E>(error: SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        if error.code() == Some("TransactionConflictException") { Self::Busy } else { Self::Other(classify(error)) }
    }
}

/// Repeats a write while its item is busy.
async fn unless_busy<F>(clock: &dyn Clock, write: impl Fn() -> F) -> Result<(), Error>
where
    F: Future<Output = Result<(), WriteFailure>>,
{
    for attempt in 1..=ATTEMPTS {
        match write().await {
            Ok(()) => return Ok(()),
            Err(WriteFailure::Other(error)) => return Err(error.into()),
            Err(WriteFailure::Busy) => clock.sleep(Duration::from_millis(5 << attempt)).await,
        }
    }
    Err(Error::Conflict)
}

fn delete_request(item: &Item) -> WriteRequest {
    let key: Item = item
        .iter()
        .filter(|(name, _)| *name == "pk" || *name == "sk")
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    #[expect(clippy::expect_used, reason = "the key is set above")]
    let delete = DeleteRequest::builder().set_key(Some(key)).build().expect("the key is set");
    WriteRequest::builder().delete_request(delete).build()
}
