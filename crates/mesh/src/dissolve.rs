//! `dissolveGroup`: everything of the group goes, and nothing comes after it.
//!
//! In this order, so that a call which dies at any point can be repeated:
//! 1. the group ends (its `expiresAt` is now): from here on nobody joins it and no number of its stream is given out;
//! 2. its nodes expire: a publish checks its node, so from here on none is written; then each goes, after its status and its membership,
//!    which are found by it;
//! 3. messages and recognised publishes go: whatever was written before its node went is found now, from the base table;
//! 4. the record of its host goes, if it still stands for this group; and last the group itself, by which a repeated call
//!    finds out what is left to do.
//!
//! With a `messageId`, one record of it stays for as long as messages are kept: by it the same call, repeated, is recognised
//! and does not notify again. It is written last, so that a call which died before it is carried on, and does notify.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{DeleteRequest, ReturnValue, WriteRequest};
use ichido::dynamodb::classify;
use ichido::{Clock, Namespace, Timestamp, store};
use serde::{Deserialize, Serialize};

use crate::group::{MAX_DOMAIN_CHARS, MAX_ID_CHARS, MAX_MESSAGE_ID_CHARS, Refusal, check_length};
use crate::settings::Settings;
use crate::table::{self, Item, number, read_number, read_text, text};

/// DynamoDB takes this many writes in a batch.
const BATCH: usize = 25;
/// How often a batch is sent again for what was left of it, and a write to an item that is busy.
const BATCH_ATTEMPTS: usize = 8;

/// The arguments of `dissolveGroup`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Arguments {
    pub group_id: String,
    pub domain: String,
    pub host_id: String,
    pub message_id: Option<String>,
}

/// The notification of a group's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Its number in the group's stream.
    pub sequence: u64,
    pub at: Timestamp,
    /// It has been given before: nobody is notified again.
    pub is_replay: bool,
}

/// Dissolves the group.
pub async fn dissolve(
    client: &Client,
    settings: &Settings,
    clock: &dyn Clock,
    arguments: &Arguments,
) -> Result<Notice, Refusal> {
    let Arguments { group_id, domain, host_id, message_id } = arguments;
    check_length("groupId", group_id, MAX_ID_CHARS)?;
    check_length("domain", domain, MAX_DOMAIN_CHARS)?;
    check_length("hostId", host_id, MAX_ID_CHARS)?;
    let record = match message_id {
        Some(message_id) => {
            check_length("messageId", message_id, MAX_MESSAGE_ID_CHARS)?;
            Some(table::published_key(domain, group_id, host_id, message_id))
        }
        None => None,
    };
    if let Some(key) = &record
        && let Some(notice) = known(client, settings, clock, key.clone()).await?
    {
        return Ok(notice);
    }
    let sequence = end(client, settings, clock, arguments).await?;
    clear(client, settings, clock, arguments).await.map_err(|_| Refusal::Unavailable)?;
    let notice = Notice { sequence, at: clock.now(), is_replay: false };
    if let Some(key) = record {
        remember(client, settings, key, &notice).await.map_err(|_| Refusal::Unavailable)?;
    }
    telemetry::metric::GROUPS_DISSOLVED.add(1);
    Ok(notice)
}

/// What an outcome says of itself: the kind of its message, and the notice.
#[derive(Deserialize, Serialize)]
struct Outcome {
    kind: String,
    sequence: u64,
    at: u64,
}

const KIND: &str = "dissolve";

/// The notice of an earlier call with this `messageId`.
async fn known(client: &Client, settings: &Settings, clock: &dyn Clock, key: Item) -> Result<Option<Notice>, Refusal> {
    let record = table::get(client, &settings.table, key).await.map_err(|_| Refusal::Unavailable)?;
    let Some(record) = record.filter(|record| read_number(record, "ttl").unwrap_or(0) > clock.now().as_secs()) else {
        return Ok(None);
    };
    let outcome = read_text(&record, "ichido_outcome").unwrap_or_default();
    match serde_json::from_str::<Outcome>(&outcome) {
        Ok(outcome) if outcome.kind == KIND => {
            Ok(Some(Notice { sequence: outcome.sequence, at: Timestamp::from_millis(outcome.at), is_replay: true }))
        }
        _ => Err(Refusal::Validation("messageId was used before, for another message.".into())),
    }
}

/// The record of a publish, in the library's format, as `writeMessage.js` writes it.
async fn remember(client: &Client, settings: &Settings, key: Item, notice: &Notice) -> Result<(), store::Error> {
    let Notice { sequence, at, .. } = notice;
    let outcome = Outcome { kind: KIND.to_owned(), sequence: *sequence, at: at.as_millis() };
    let mut item = key;
    item.extend([
        ("ichido_format".into(), number(1)),
        ("ichido_state".into(), text("completed")),
        ("ichido_owner".into(), text(uuid::Uuid::new_v4().to_string())),
        ("ichido_fence".into(), number(1)),
        ("ichido_updated_at".into(), number(at.as_millis())),
        ("ichido_outcome".into(), text(serde_json::to_string(&outcome).unwrap_or_default())),
        ("ttl".into(), number((*at + settings.retention).as_secs_ceil())),
    ]);
    client.put_item().table_name(&settings.table).set_item(Some(item)).send().await.map(|_| ()).map_err(classify)
}

/// Step 1. A group that has ended, but is not cleared away, may be dissolved again: that is how a call goes on.
async fn end(client: &Client, settings: &Settings, clock: &dyn Clock, arguments: &Arguments) -> Result<u64, Refusal> {
    let Arguments { group_id, domain, host_id, .. } = arguments;
    let now = clock.now();
    let update = client
        .update_item()
        .table_name(&settings.table)
        .set_key(Some(table::group_key(domain, group_id)))
        .update_expression(
            "SET expiresAt = :ended, dissolvedAt = :now, #sequence = if_not_exists(#sequence, :zero) + :one",
        )
        // Alive, or ended by an earlier call of this kind.
        .condition_expression(
            "hostId = :host AND ((expiresAt > :now AND hostFreshUntil > :now) OR attribute_exists(dissolvedAt))",
        )
        .expression_attribute_names("#sequence", "sequence")
        .expression_attribute_values(":ended", number(0))
        .expression_attribute_values(":now", number(now.as_secs()))
        .expression_attribute_values(":zero", number(0))
        .expression_attribute_values(":one", number(1))
        .expression_attribute_values(":host", text(host_id))
        .return_values(ReturnValue::AllNew)
        .return_values_on_condition_check_failure(aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure::AllOld);
    match update.send().await {
        Ok(output) => Ok(output.attributes.and_then(|item| read_number(&item, "sequence")).unwrap_or_default()),
        Err(error) => Err(refused(&error, host_id, now.as_secs())),
    }
}

fn refused(error: &SdkError<UpdateItemError>, host_id: &str, now: u64) -> Refusal {
    match error.as_service_error() {
        Some(UpdateItemError::ConditionalCheckFailedException(refusal)) => {
            let group = refusal.item().and_then(table::read_group);
            match group {
                Some(group) if group.host_id != host_id && group.expires_at > now && group.host_fresh_until > now => {
                    Refusal::Unauthorized("dissolve the group")
                }
                _ => Refusal::GroupNotFound,
            }
        }
        Some(UpdateItemError::TransactionConflictException(_)) => Refusal::Conflict,
        _ => Refusal::Unavailable,
    }
}

/// Steps 2 to 4.
async fn clear(
    client: &Client,
    settings: &Settings,
    clock: &dyn Clock,
    arguments: &Arguments,
) -> Result<(), store::Error> {
    let Arguments { group_id, domain, host_id, .. } = arguments;
    let table = &settings.table;
    for node in of_group(client, table, domain, group_id, "NODE#").await? {
        let Some(node_id) = read_text(&node, "nodeId") else { continue };
        let node = table::node_key(domain, group_id, &node_id);
        unless_busy(clock, || expire(client, table, node.clone())).await?;
        for key in [table::status_key(domain, &node_id), table::membership_key(domain, &node_id)] {
            unless_busy(clock, || delete_if_here(client, table, key.clone(), group_id)).await?;
        }
        unless_busy(clock, || delete(client, table, node.clone())).await?;
    }
    for prefix in ["MESSAGE#", "PUBLISHED#"] {
        let keys = of_group(client, table, domain, group_id, prefix).await?;
        delete_all(client, table, clock, keys).await?;
    }
    if let Ok(record) = Namespace::new("HOST").key([domain, host_id]) {
        let key = ichido::dynamodb::Table::new(table, "pk").sort_key("sk", "METADATA").primary_key(&record);
        unless_busy(clock, || delete_if_here(client, table, key.clone(), group_id)).await?;
    }
    unless_busy(clock, || delete(client, table, table::group_key(domain, group_id))).await
}

/// Why a single write failed: the item may be part of a transaction that is under way, and only then is it tried again here.
enum Failure {
    Busy,
    Other(store::Error),
}

fn failure<E>(error: SdkError<E>) -> Failure
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    if error.code() == Some("TransactionConflictException") { Failure::Busy } else { Failure::Other(classify(error)) }
}

/// Writes to an item that a publish may be checking this very moment.
async fn unless_busy<F>(clock: &dyn Clock, write: impl Fn() -> F) -> Result<(), store::Error>
where
    F: Future<Output = Result<(), Failure>>,
{
    for attempt in 1..=BATCH_ATTEMPTS {
        match write().await {
            Ok(()) => return Ok(()),
            Err(Failure::Other(error)) => return Err(error),
            Err(Failure::Busy) => clock.sleep(std::time::Duration::from_millis(5 << attempt)).await,
        }
    }
    Err(store::Error::Transient("other transactions kept an item busy".into()))
}

/// From here on the node publishes nothing; it stays as what finds the rest of it.
async fn expire(client: &Client, table: &str, node: Item) -> Result<(), Failure> {
    let update = client
        .update_item()
        .table_name(table)
        .set_key(Some(node))
        .update_expression("SET #ttl = :past")
        .condition_expression("attribute_exists(pk)")
        .expression_attribute_names("#ttl", "ttl")
        .expression_attribute_values(":past", number(0));
    match update.send().await {
        Ok(_) => Ok(()),
        Err(error) => match error.as_service_error() {
            // It has left meanwhile.
            Some(UpdateItemError::ConditionalCheckFailedException(_)) => Ok(()),
            _ => Err(failure(error)),
        },
    }
}

/// The items of a group whose sort key begins so, from the base table, consistently.
async fn of_group(
    client: &Client,
    table: &str,
    domain: &str,
    group_id: &str,
    prefix: &str,
) -> Result<Vec<Item>, store::Error> {
    let mut items = Vec::new();
    let mut from = None;
    loop {
        let query = client
            .query()
            .table_name(table)
            .key_condition_expression("pk = :pk AND begins_with(sk, :prefix)")
            .expression_attribute_values(":pk", text(table::group_partition(domain, group_id)))
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

async fn delete(client: &Client, table: &str, key: Item) -> Result<(), Failure> {
    client.delete_item().table_name(table).set_key(Some(key)).send().await.map(|_| ()).map_err(failure)
}

/// Deletes an item of a node, unless the node is in another group by now.
async fn delete_if_here(client: &Client, table: &str, key: Item, group_id: &str) -> Result<(), Failure> {
    let delete = client
        .delete_item()
        .table_name(table)
        .set_key(Some(key))
        .condition_expression("attribute_not_exists(pk) OR groupId = :group")
        .expression_attribute_values(":group", text(group_id));
    match delete.send().await {
        Ok(_) => Ok(()),
        Err(error) => match error.as_service_error() {
            Some(DeleteItemError::ConditionalCheckFailedException(_)) => Ok(()),
            _ => Err(failure(error)),
        },
    }
}

async fn delete_all(client: &Client, table: &str, clock: &dyn Clock, items: Vec<Item>) -> Result<(), store::Error> {
    for batch in items.chunks(BATCH) {
        let mut requests: Vec<WriteRequest> = batch.iter().map(delete_request).collect();
        for attempt in 1..=BATCH_ATTEMPTS {
            let sent = client.batch_write_item().request_items(table, requests).send().await.map_err(classify)?;
            requests = sent.unprocessed_items.and_then(|mut left| left.remove(table)).unwrap_or_default();
            if requests.is_empty() {
                break;
            }
            if attempt == BATCH_ATTEMPTS {
                return Err(store::Error::Transient("a part of the batch was never processed".into()));
            }
            clock.sleep(std::time::Duration::from_millis(25 << attempt)).await;
        }
    }
    Ok(())
}

fn delete_request(item: &Item) -> WriteRequest {
    let key: Item =
        item.iter().filter(|(name, _)| *name == "pk" || *name == "sk").map(|(n, v)| (n.clone(), v.clone())).collect();
    #[expect(clippy::expect_used, reason = "the key is set above")]
    let delete = DeleteRequest::builder().set_key(Some(key)).build().expect("the key is set");
    WriteRequest::builder().delete_request(delete).build()
}
