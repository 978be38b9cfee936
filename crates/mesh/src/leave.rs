//! `leaveGroup`: the node, its membership and its status are deleted in one transaction.
//!
//! A node that has joined another group meanwhile keeps its membership and status there.
//!
//! In a secured group a repeated call succeeds too, so that it ends the subscriptions of the node if the answer to the first one was lost.

use ichido::Clock;
use serde::Deserialize;
use telemetry::causes;

use crate::group::{Error, MAX_DOMAIN_CHARS, MAX_ID_CHARS, Secret, check_length};
use crate::table::Table;

/// Why somebody cannot take a node out of its group.
pub(crate) const NOT_THE_NODE: &str = "The secret is wrong, or it is missing: pass the memberSecret of the node.";

/// The arguments of `leaveGroup`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Arguments {
    pub(crate) group_id: String,
    pub(crate) domain: String,
    pub(crate) node_id: String,
    pub(crate) secret: Option<Secret>,
}

/// Leaves the group. Returns whether it was a secured one.
pub(crate) async fn leave(table: &Table, clock: &dyn Clock, arguments: &Arguments) -> Result<bool, Error> {
    let Arguments { group_id, domain, node_id, secret } = arguments;
    check_length("groupId", group_id, MAX_ID_CHARS)?;
    check_length("domain", domain, MAX_DOMAIN_CHARS)?;
    check_length("nodeId", node_id, MAX_ID_CHARS)?;
    let now = clock.now();
    let group = table.group(domain, group_id).await?;
    let group = match group {
        Some(group) if group.is_alive(now) => group,
        group => return Err(Error::no_group(domain, group_id, group.as_ref(), now)),
    };
    let is_secured = group.host_secret.is_some();
    let has_secret = secret.as_ref().is_some_and(|secret| !secret.expose().is_empty());
    let member = match table.member(domain, group_id, node_id, now).await? {
        Some(member) if member.is_alive || is_secured => member,
        // The host listens without being a node. Nobody else ends that.
        None if is_secured && group.host_id == *node_id && group.host_secret != *secret => {
            return Err(Error::Unauthorized(NOT_THE_NODE));
        }
        // An earlier call may have deleted the node, and its answer been lost. The subscriptions of who is no member end in any case.
        None if is_secured && has_secret => return Ok(true),
        _ => return Err(Error::NodeNotFound),
    };
    if member.secret.is_some() && member.secret != *secret {
        return Err(Error::Unauthorized(NOT_THE_NODE));
    }
    table.leave_group(domain, group_id, node_id, secret.as_ref()).await?;
    // The node has left, whatever comes of this: who finds the group by it looks whether the node is a member, and it expires with the group.
    if let Err(error) = table.delete_latest(clock, group_id, node_id).await {
        tracing::warn!(
            group_id,
            cause = causes(&error),
            "could not delete what names group {group_id} as a node's last one"
        );
    }
    Ok(is_secured)
}
