//! The one table: its keys, and the few requests that the function makes to it.
//!
//! | what | `pk` | `sk` | also |
//! |---|---|---|---|
//! | a group | `DOMAIN#{domain}` | `GROUP#{groupId}#METADATA` | `GSI1PK` = `DOMAIN#{domain}`, `GSI1SK` = `GROUP#{createdAt}` |
//! | the group of a host (the library's record) | `HOST#{domain}#{hostId}` | `METADATA` | ends with the group |
//! | a member | `GROUP#{groupId}@{domain}` | `NODE#{nodeId}` | |
//! | a message, or a void number | `GROUP#{groupId}@{domain}` | `MESSAGE#{sequence}` | |
//! | a publish that is recognised again (the library's record) | `GROUP#{groupId}@{domain}` | `PUBLISHED#{nodeId}#{messageId}` | |
//! | which group a node is in | `NODE#{nodeId}@{domain}` | `MEMBERSHIP` | |
//! | a node's last report | `NODE#{nodeId}@{domain}` | `STATUS#LATEST` | `GSI1PK` = the group, `GSI1SK` = `STATUS#{nodeId}` |
//!
//! The seed's `NODE#{nodeId}` has the domain behind it here: nodes of two domains that chose one id are two nodes.
//! `%` and `@` in a node's id are escaped in that key, so that no two pairs of id and domain are one key; `%` and `#` in the
//! key of a publish, for the same reason. Group ids are made here and contain none of them.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use ichido::dynamodb::classify;
use ichido::store;

use crate::group::Group;

/// An item, or the key of one.
pub type Item = HashMap<String, AttributeValue>;

pub(crate) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub(crate) fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

fn key(pk: String, sk: impl Into<String>) -> Item {
    Item::from([("pk".into(), text(pk)), ("sk".into(), text(sk))])
}

pub(crate) fn group_key(domain: &str, group_id: &str) -> Item {
    key(format!("DOMAIN#{domain}"), format!("GROUP#{group_id}#METADATA"))
}

pub(crate) fn group_partition(domain: &str, group_id: &str) -> String {
    format!("GROUP#{group_id}@{domain}")
}

pub(crate) fn node_key(domain: &str, group_id: &str, node_id: &str) -> Item {
    key(group_partition(domain, group_id), format!("NODE#{node_id}"))
}

pub(crate) fn published_key(domain: &str, group_id: &str, node_id: &str, message_id: &str) -> Item {
    let node_id = node_id.replace('%', "%25").replace('#', "%23");
    key(group_partition(domain, group_id), format!("PUBLISHED#{node_id}#{message_id}"))
}

fn node_partition(domain: &str, node_id: &str) -> String {
    format!("NODE#{}@{domain}", node_id.replace('%', "%25").replace('@', "%40"))
}

pub(crate) fn membership_key(domain: &str, node_id: &str) -> Item {
    key(node_partition(domain, node_id), "MEMBERSHIP")
}

pub(crate) fn status_key(domain: &str, node_id: &str) -> Item {
    key(node_partition(domain, node_id), "STATUS#LATEST")
}

/// Reads an item, consistently.
pub(crate) async fn get(client: &Client, table: &str, key: Item) -> Result<Option<Item>, store::Error> {
    let get = client.get_item().table_name(table).set_key(Some(key)).consistent_read(true);
    get.send().await.map(|output| output.item).map_err(classify)
}

pub(crate) async fn get_group(
    client: &Client,
    table: &str,
    domain: &str,
    group_id: &str,
) -> Result<Option<Group>, store::Error> {
    Ok(get(client, table, group_key(domain, group_id)).await?.and_then(|item| read_group(&item)))
}

pub(crate) fn read_text(item: &Item, name: &str) -> Option<String> {
    item.get(name)?.as_s().ok().cloned()
}

pub(crate) fn read_number(item: &Item, name: &str) -> Option<u64> {
    item.get(name)?.as_n().ok()?.parse().ok()
}

/// A group of an item; `None` if the item is none.
pub(crate) fn read_group(item: &Item) -> Option<Group> {
    Some(Group {
        group_id: read_text(item, "groupId")?,
        domain: read_text(item, "domain")?,
        name: read_text(item, "name")?,
        host_id: read_text(item, "hostId")?,
        created_at: read_text(item, "createdAt")?,
        expires_at: read_number(item, "expiresAt")?,
        host_fresh_until: read_number(item, "hostFreshUntil")?,
        use_web_socket: item.get("useWebSocket").and_then(|flag| flag.as_bool().ok()).copied().unwrap_or(true),
    })
}

pub(crate) fn write_group(group: &Group) -> Item {
    let mut item = group_key(&group.domain, &group.group_id);
    item.extend([
        ("GSI1PK".into(), text(format!("DOMAIN#{}", group.domain))),
        ("GSI1SK".into(), text(format!("GROUP#{}", group.created_at))),
        ("groupId".into(), text(&group.group_id)),
        ("domain".into(), text(&group.domain)),
        ("name".into(), text(&group.name)),
        ("hostId".into(), text(&group.host_id)),
        ("createdAt".into(), text(&group.created_at)),
        ("expiresAt".into(), number(group.expires_at)),
        ("hostFreshUntil".into(), number(group.host_fresh_until)),
        ("useWebSocket".into(), AttributeValue::Bool(group.use_web_socket)),
        ("sequence".into(), number(0)),
        ("ttl".into(), number(group.host_fresh_until.min(group.expires_at))),
    ]);
    item
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_pairs_of_node_and_domain_are_one_key() {
        assert_ne!(membership_key("b@c", "a"), membership_key("c", "a@b"));
        assert_ne!(membership_key("d", "a%40b"), membership_key("d", "a@b"));
        assert_ne!(published_key("d", "g", "a#b", "c"), published_key("d", "g", "a", "b#c"));
        assert_eq!(membership_key("192.168.1.1", "node-001")["pk"], text("NODE#node-001@192.168.1.1"));
    }
}
