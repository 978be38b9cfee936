//! `leaveGroup`: the node, its membership and its status are deleted in one transaction.
//!
//! A node that has joined another group meanwhile keeps its membership and status there.

use ichido::Clock;
use serde::Deserialize;

use crate::group::{Error, MAX_DOMAIN_CHARS, MAX_ID_CHARS, check_length};
use crate::table::Table;

/// The arguments of `leaveGroup`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Arguments {
    pub(crate) group_id: String,
    pub(crate) domain: String,
    pub(crate) node_id: String,
}

/// Leaves the group.
pub(crate) async fn leave(table: &Table, clock: &dyn Clock, arguments: &Arguments) -> Result<(), Error> {
    let Arguments { group_id, domain, node_id } = arguments;
    check_length("groupId", group_id, MAX_ID_CHARS)?;
    check_length("domain", domain, MAX_DOMAIN_CHARS)?;
    check_length("nodeId", node_id, MAX_ID_CHARS)?;
    let now = clock.now();
    if !table.group(domain, group_id).await?.is_some_and(|group| group.is_alive(now)) {
        return Err(Error::GroupNotFound);
    }
    if !table.is_member(domain, group_id, node_id, now).await? {
        return Err(Error::NodeNotFound);
    }
    table.leave_group(domain, group_id, node_id).await
}
