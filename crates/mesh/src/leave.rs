//! `leaveGroup`: node, membership and status go, and only this node's.
//!
//! All three in one transaction. A node that has joined another group meanwhile keeps what it has there.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{Delete, TransactWriteItem};
use ichido::Clock;
use serde::Deserialize;

use crate::group::{MAX_DOMAIN_CHARS, MAX_ID_CHARS, Refusal, check_length};
use crate::settings::Settings;
use crate::table::{self, Item, read_number, text};

/// The arguments of `leaveGroup`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Arguments {
    pub group_id: String,
    pub domain: String,
    pub node_id: String,
}

/// Leaves the group. A node that has joined another one meanwhile keeps that membership and its status.
pub async fn leave(
    client: &Client,
    settings: &Settings,
    clock: &dyn Clock,
    arguments: &Arguments,
) -> Result<(), Refusal> {
    let Arguments { group_id, domain, node_id } = arguments;
    check_length("groupId", group_id, MAX_ID_CHARS)?;
    check_length("domain", domain, MAX_DOMAIN_CHARS)?;
    check_length("nodeId", node_id, MAX_ID_CHARS)?;
    let now = clock.now();
    let group = table::get_group(client, &settings.table, domain, group_id).await.map_err(|_| Refusal::Unavailable)?;
    if !group.is_some_and(|group| group.is_alive(now)) {
        return Err(Refusal::GroupNotFound);
    }
    let node_key = table::node_key(domain, group_id, node_id);
    let node = table::get(client, &settings.table, node_key.clone()).await.map_err(|_| Refusal::Unavailable)?;
    let alive_until = node.and_then(|node| read_number(&node, "ttl")).unwrap_or_default();
    if alive_until <= now.as_secs() {
        return Err(Refusal::NodeNotFound);
    }
    let table = &settings.table;
    let here = |name: &str| (format!("{name} = :group"), Item::from([(":group".to_owned(), text(group_id))]));
    let items = vec![
        delete(table, table::membership_key(domain, node_id), Some(here("groupId"))),
        delete(table, node_key.clone(), None),
        delete(table, table::status_key(domain, node_id), None),
    ];
    let answer = client.transact_write_items().set_transact_items(Some(items)).send().await;
    let Err(error) = answer else { return Ok(()) };
    match reasons(&error).as_slice() {
        // Its membership is elsewhere by now: only the node here is left to remove.
        [Some("ConditionalCheckFailed"), ..] => {
            let delete = client.delete_item().table_name(table).set_key(Some(node_key));
            delete.send().await.map(|_| ()).map_err(|_| Refusal::Unavailable)
        }
        reasons if reasons.contains(&Some("TransactionConflict")) => Err(Refusal::Conflict),
        _ => Err(Refusal::Unavailable),
    }
}

/// Why a transaction was cancelled, an entry an item; nothing if it was not.
fn reasons(error: &SdkError<TransactWriteItemsError>) -> Vec<Option<&str>> {
    match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
            cancelled.cancellation_reasons().iter().map(|reason| reason.code()).collect()
        }
        _ => Vec::new(),
    }
}

fn delete(table: &str, key: Item, condition: Option<(String, Item)>) -> TransactWriteItem {
    let (expression, values) = condition.unzip();
    let delete = Delete::builder()
        .table_name(table)
        .set_key(Some(key))
        .set_condition_expression(expression)
        .set_expression_attribute_values(values);
    #[expect(clippy::expect_used, reason = "table name and key are set above")]
    TransactWriteItem::builder().delete(delete.build().expect("table name and key are set")).build()
}
