//! The one table: its keys, and the requests that `mesh-resolver` makes to it. The resolvers in `infra/appsync/` read and
//! write the same items.
//!
//! | what | `pk` | `sk` | also |
//! |---|---|---|---|
//! | a group | `DOMAIN#{domain}` | `GROUP#{groupId}#METADATA` | `GSI1PK` = `DOMAIN#{domain}`, `GSI1SK` = `GROUP#{createdAt}` |
//! | which group a host has (the library's record) | `HOST#{domain}#{hostId}` | `METADATA` | expires with the group |
//! | a member | `GROUP#{groupId}@{domain}` | `NODE#{nodeId}` | |
//! | a message, or a void number | `GROUP#{groupId}@{domain}` | `MESSAGE#{sequence}` | |
//! | a publish that can be recognised (the library's record) | `GROUP#{groupId}@{domain}` | `PUBLISHED#{nodeId}#{messageId}` | |
//! | which group a node is in | `NODE#{nodeId}@{domain}` | `MEMBERSHIP` | |
//! | which group a node of this id joined last, in any domain | `NODE#{nodeId}` | `LATEST` | |
//! | what an operator did by hand | `OPERATION#{month}` | `OPERATION#{time}#…` | |
//! | a node's last report | `NODE#{nodeId}@{domain}` | `STATUS#LATEST` | `GSI1PK` = the group, `GSI1SK` = `STATUS#{nodeId}` |
//!
//! The partition of a node names its domain, so two domains whose nodes chose the same id have two nodes. `%` and `@` in
//! a node's id are escaped there, so that no two pairs of id and domain have the same key. For the same reason `%` and `#` are
//! escaped in the key of a publish. `DOMAIN-KEY`, the key with which addresses become the names of domains, is the one item that does not
//! expire. The ids of groups are made here and contain none of these characters.

pub(crate) mod create;
pub(crate) mod dissolve;
mod domain;
mod leave;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{Delete, Put, TransactWriteItem};
use function::item::{Item, get_bool, get_number, get_text, number, text};
use function::operation::Operations;
use ichido::dynamodb::classify;
use ichido::{Key, Namespace, Timestamp, key, store};

use crate::group::{Group, Secret};

const PK: &str = "pk";
const SK: &str = "sk";
/// The condition under which a group is alive. `:now` is [`seconds`].
const ALIVE: &str = "expiresAt > :now AND hostFreshUntil > :now";
/// The condition under which a node may be deleted: it has no secret, or this one. The values are [`own`].
const OWN: &str = "attribute_not_exists(memberSecret) OR memberSecret = :secret";

/// Where the library keeps the records of hosts.
pub fn records(table_name: &str) -> ichido::dynamodb::Table {
    ichido::dynamodb::Table::new(table_name, PK).sort_key(SK, "METADATA")
}

/// What operators did by hand.
pub fn operations(table_name: &str) -> Operations {
    Operations::new(table_name, PK).sort_key(SK)
}

/// The group that a node is in, before it changes to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Former {
    pub(crate) group_id: String,
    pub(crate) is_secured: bool,
    /// The secured group that the node left last for another one. If the answer to that call was lost, subscriptions there are still open.
    pub(crate) left: Option<String>,
}

impl Former {
    /// The secured group that the node has left last, when it goes to another group.
    pub(crate) fn left(&self) -> Option<&str> {
        if self.is_secured { Some(&self.group_id) } else { self.left.as_deref() }
    }
}

/// A node of a group.
pub(crate) struct Member {
    /// Only members of secured groups have one.
    pub(crate) secret: Option<Secret>,
    pub(crate) is_alive: bool,
}

/// The table of the mesh.
pub(crate) struct Table {
    client: Client,
    name: String,
}

impl Table {
    pub(crate) fn new(client: Client, name: &str) -> Self {
        Self { client, name: name.to_owned() }
    }

    /// Reads an item, consistently.
    async fn get(&self, key: Item) -> Result<Option<Item>, store::Error> {
        let get = self.client.get_item().table_name(&self.name).set_key(Some(key)).consistent_read(true);
        get.send().await.map(|output| output.item).map_err(classify)
    }

    /// Reads a group, alive or not.
    pub(crate) async fn group(&self, domain: &str, group_id: &str) -> Result<Option<Group>, store::Error> {
        Ok(self.get(group_key(domain, group_id)).await?.as_ref().and_then(read_group))
    }

    /// The id of the group that a host's record names.
    pub(crate) async fn group_of_host(&self, host: &Key) -> Result<Option<String>, store::Error> {
        Ok(self.get(records(&self.name).primary_key(host)).await?.and_then(group_id_of))
    }

    /// The group that a node is in.
    pub(crate) async fn group_of_node(&self, domain: &str, node_id: &str) -> Result<Option<Former>, store::Error> {
        Ok(self.get(membership_key(domain, node_id)).await?.and_then(|item| {
            let is_secured = get_bool(&item, "secured").unwrap_or(false);
            let left = get_text(&item, "leftGroupId").map(str::to_owned);
            Some(Former { group_id: group_id_of(item)?, is_secured, left })
        }))
    }

    /// The node, whether it has expired or not.
    pub(crate) async fn member(
        &self,
        domain: &str,
        group_id: &str,
        node_id: &str,
        now: Timestamp,
    ) -> Result<Option<Member>, store::Error> {
        Ok(self.get(node_key(domain, group_id, node_id)).await?.map(|node| Member {
            secret: get_text(&node, "memberSecret").map(Secret::new),
            is_alive: get_number::<u64>(&node, "ttl").is_some_and(|ttl| ttl > now.as_secs()),
        }))
    }

    fn put(&self, item: Item, condition: Option<&str>, values: Option<Item>) -> TransactWriteItem {
        let put = Put::builder()
            .table_name(&self.name)
            .set_item(Some(item))
            .set_condition_expression(condition.map(str::to_owned))
            .set_expression_attribute_values(values);
        #[expect(clippy::expect_used, reason = "table name and item are set above")]
        TransactWriteItem::builder().put(put.build().expect("table name and item are set")).build()
    }

    /// Deletes under a condition that names `ttl`, which is a word of DynamoDB's own.
    fn delete_named(&self, key: Item, condition: &str, values: Item) -> TransactWriteItem {
        let delete = Delete::builder()
            .table_name(&self.name)
            .set_key(Some(key))
            .condition_expression(condition)
            .expression_attribute_names("#ttl", "ttl")
            .set_expression_attribute_values(Some(values));
        #[expect(clippy::expect_used, reason = "table name and key are set above")]
        TransactWriteItem::builder().delete(delete.build().expect("table name and key are set")).build()
    }

    fn delete(&self, key: Item, condition: Option<&str>, values: Option<Item>) -> TransactWriteItem {
        let delete = Delete::builder()
            .table_name(&self.name)
            .set_key(Some(key))
            .set_condition_expression(condition.map(str::to_owned))
            .set_expression_attribute_values(values);
        #[expect(clippy::expect_used, reason = "table name and key are set above")]
        TransactWriteItem::builder().delete(delete.build().expect("table name and key are set")).build()
    }
}

/// Why a transaction was cancelled, one entry per item; empty if it was not.
fn reasons(error: &SdkError<TransactWriteItemsError>) -> Vec<Option<&str>> {
    match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
            cancelled.cancellation_reasons().iter().map(|reason| reason.code()).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a transaction was cancelled only by what others wrote. Any other reason, such as throttling, is a failure of
/// the table.
fn is_conflict(reasons: &[Option<&str>]) -> bool {
    let harmless = ["None", "ConditionalCheckFailed", "TransactionConflict"];
    !reasons.is_empty() && reasons.iter().flatten().all(|reason| harmless.contains(reason))
}

fn key(pk: String, sk: impl Into<String>) -> Item {
    Item::from([(PK.into(), text(pk)), (SK.into(), text(sk))])
}

fn domain_partition(domain: &str) -> String {
    format!("DOMAIN#{domain}")
}

fn group_key(domain: &str, group_id: &str) -> Item {
    key(domain_partition(domain), format!("GROUP#{group_id}#METADATA"))
}

/// The key of the record that says which group a host has.
pub(crate) fn host_key(domain: &str, host_id: &str) -> Result<Key, key::Error> {
    Namespace::new("HOST").key([domain, host_id])
}

fn group_partition(domain: &str, group_id: &str) -> String {
    format!("GROUP#{group_id}@{domain}")
}

fn node_key(domain: &str, group_id: &str, node_id: &str) -> Item {
    key(group_partition(domain, group_id), format!("NODE#{node_id}"))
}

fn publish_key(domain: &str, group_id: &str, node_id: &str, message_id: &str) -> Item {
    key(group_partition(domain, group_id), format!("PUBLISHED#{}#{message_id}", key::escape(node_id)))
}

fn node_partition(domain: &str, node_id: &str) -> String {
    format!("NODE#{}@{domain}", escaped(node_id))
}

fn escaped(node_id: &str) -> String {
    node_id.replace('%', "%25").replace('@', "%40")
}

/// The key of what says which group a node of this id joined last, in any domain.
fn latest_key(node_id: &str) -> Item {
    key(format!("NODE#{}", escaped(node_id)), "LATEST")
}

fn membership_key(domain: &str, node_id: &str) -> Item {
    key(node_partition(domain, node_id), "MEMBERSHIP")
}

fn status_key(domain: &str, node_id: &str) -> Item {
    key(node_partition(domain, node_id), "STATUS#LATEST")
}

/// A moment as `expiresAt`, `hostFreshUntil` and `ttl` are compared with it.
fn seconds(now: Timestamp) -> aws_sdk_dynamodb::types::AttributeValue {
    number(now.as_secs())
}

/// The values of [`OWN`].
fn own(secret: Option<&Secret>) -> Item {
    Item::from([(":secret".to_owned(), text(secret.map_or("", Secret::expose)))])
}

fn group_id_of(item: Item) -> Option<String> {
    get_text(&item, "groupId").map(str::to_owned)
}

/// The group of an item; `None` if the item is not a group.
fn read_group(item: &Item) -> Option<Group> {
    let text = |name| get_text(item, name).map(str::to_owned);
    Some(Group {
        group_id: text("groupId")?,
        domain: text("domain")?,
        name: text("name")?,
        host_id: text("hostId")?,
        created_at: text("createdAt")?,
        expires_at: get_number(item, "expiresAt")?,
        host_fresh_until: get_number(item, "hostFreshUntil")?,
        use_web_socket: get_bool(item, "useWebSocket").unwrap_or(true),
        host_secret: text("hostSecret").map(Secret::new),
        caller: text("caller").unwrap_or_default(),
    })
}

fn write_group(group: &Group) -> Item {
    let mut item = group_key(&group.domain, &group.group_id);
    item.extend([
        ("GSI1PK".into(), text(domain_partition(&group.domain))),
        ("GSI1SK".into(), text(format!("GROUP#{}", group.created_at))),
        ("groupId".into(), text(&group.group_id)),
        ("domain".into(), text(&group.domain)),
        ("name".into(), text(&group.name)),
        ("hostId".into(), text(&group.host_id)),
        ("createdAt".into(), text(&group.created_at)),
        ("expiresAt".into(), number(group.expires_at)),
        ("hostFreshUntil".into(), number(group.host_fresh_until)),
        ("useWebSocket".into(), aws_sdk_dynamodb::types::AttributeValue::Bool(group.use_web_socket)),
        ("caller".into(), text(&group.caller)),
        ("sequence".into(), number(0)),
        ("ttl".into(), number(group.host_fresh_until.min(group.expires_at))),
    ]);
    if let Some(secret) = &group.host_secret {
        item.insert("secured".into(), aws_sdk_dynamodb::types::AttributeValue::Bool(true));
        item.insert("hostSecret".into(), text(secret.expose()));
    }
    item
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::{MAX_DOMAIN_CHARS, MAX_ID_CHARS, MAX_MESSAGE_ID_CHARS};

    #[test]
    fn a_transaction_that_is_cancelled_by_throttling_is_no_conflict() {
        assert!(is_conflict(&[Some("None"), Some("ConditionalCheckFailed")]));
        assert!(is_conflict(&[Some("TransactionConflict"), None]));
        for failure in ["ThrottlingError", "ProvisionedThroughputExceeded", "ValidationError"] {
            assert!(!is_conflict(&[Some("TransactionConflict"), Some(failure)]), "{failure}");
        }
        assert!(!is_conflict(&[]), "it was not cancelled");
    }

    #[test]
    fn the_longest_ids_of_any_script_fit_the_keys_of_dynamodb() {
        // Most bytes per character, with and without escaping.
        for character in ["𠮷", "%", "#", "@"] {
            let domain = &character.repeat(MAX_DOMAIN_CHARS);
            let id = &character.repeat(MAX_ID_CHARS);
            let message_id = &character.repeat(MAX_MESSAGE_ID_CHARS);
            let keys = [
                group_key(domain, id),
                node_key(domain, id, id),
                publish_key(domain, id, id, message_id),
                latest_key(id),
                membership_key(domain, id),
                status_key(domain, id),
            ];
            for key in keys {
                let bytes = |name: &str| get_text(&key, name).map_or(0, str::len);
                assert!((1..=2048).contains(&bytes(PK)) && (1..=1024).contains(&bytes(SK)), "{key:?}");
            }
        }
    }

    #[test]
    fn no_two_pairs_of_node_and_domain_are_one_key() {
        assert_ne!(membership_key("b@c", "a"), membership_key("c", "a@b"));
        assert_ne!(membership_key("d", "a%40b"), membership_key("d", "a@b"));
        assert_ne!(publish_key("d", "g", "a#b", "c"), publish_key("d", "g", "a", "b#c"));
        assert_eq!(membership_key("192.168.1.1", "node-001")["pk"], text("NODE#node-001@192.168.1.1"));
    }
}
