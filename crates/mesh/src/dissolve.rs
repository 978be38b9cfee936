//! `dissolveGroup`: deletes everything of the group, and nothing can be written to it afterwards.
//!
//! In this order, so that a call that dies at any point can be repeated:
//! 1. The group ends. From here on no node can join it, and none of its nodes gets a number for a message.
//! 2. Its nodes expire, one after the other. Publishing checks the node, so from here on that node writes nothing. Then
//!    its status and its membership are deleted, which can only be found through the node, and last the node.
//! 3. Messages and the records of publishes are deleted. All that was written before a node expired is found now, because
//!    the base table is read consistently.
//! 4. The record of the host is deleted, if it still names this group. The group itself is deleted last, because a
//!    repeated call learns from it what is left to do.
//!
//! With a `messageId`, one record stays for as long as messages are kept. By it a repeated call is recognised and
//! notifies nobody again. It is written last, so that a call that died before it deleted the group is repeated in full and does
//! notify. If a call dies between the two, or its answer is lost, nobody is notified: members learn it from their next call.

use ichido::record::Owner;
use ichido::{Clock, Timestamp};
use serde::Deserialize;

use crate::group::{Error, MAX_DOMAIN_CHARS, MAX_ID_CHARS, MAX_MESSAGE_ID_CHARS, Random, Secret, check_length};
use crate::settings::Settings;
use crate::table::Table;
use crate::table::dissolve::{Ended, Publish};

/// The arguments of `dissolveGroup`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Arguments {
    pub(crate) group_id: String,
    pub(crate) domain: String,
    pub(crate) host_id: String,
    pub(crate) message_id: Option<String>,
    pub(crate) secret: Option<Secret>,
}

/// The message that tells the subscribers of the group's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    /// Its number in the group's stream.
    pub(crate) sequence: u64,
    pub(crate) at: Timestamp,
    /// An earlier call has sent it: nobody is notified again.
    pub(crate) is_replay: bool,
    /// The group was a secured one, and its subscriptions have to be ended. Not of a replay: an earlier call has asked for that.
    pub(crate) is_secured: bool,
}

/// Dissolves the group.
pub(crate) async fn dissolve(
    table: &Table,
    settings: &Settings,
    clock: &dyn Clock,
    random: &Random,
    arguments: &Arguments,
) -> Result<Notice, Error> {
    let Arguments { group_id, domain, host_id, message_id, secret } = arguments;
    check_length("groupId", group_id, MAX_ID_CHARS)?;
    check_length("domain", domain, MAX_DOMAIN_CHARS)?;
    check_length("hostId", host_id, MAX_ID_CHARS)?;
    let publish = match message_id {
        Some(message_id) => {
            check_length("messageId", message_id, MAX_MESSAGE_ID_CHARS)?;
            Some(Publish { domain, group_id, node_id: host_id, message_id })
        }
        None => None,
    };
    if let Some(publish) = &publish
        && let Some(notice) = table.notice(publish, clock.now()).await?
    {
        return Ok(notice);
    }
    let Ended { sequence, is_secured } =
        table.end_group(domain, group_id, host_id, secret.as_ref(), clock.now()).await?;
    clear(table, clock, arguments).await?;
    let notice = Notice { sequence, at: clock.now(), is_replay: false, is_secured };
    if let Some(publish) = &publish {
        let owner = Owner::from(random().simple().to_string().as_str());
        table.record_notice(publish, &notice, owner, notice.at + settings.retention).await?;
    }
    telemetry::metric::GROUPS_DISSOLVED.add(1);
    Ok(notice)
}

/// Steps 2 to 4.
async fn clear(table: &Table, clock: &dyn Clock, arguments: &Arguments) -> Result<(), Error> {
    let Arguments { group_id, domain, host_id, .. } = arguments;
    for node_id in table.nodes_of_group(domain, group_id).await? {
        table.expire_node(clock, domain, group_id, &node_id).await?;
        table.delete_status(clock, domain, group_id, &node_id).await?;
        table.delete_membership(clock, domain, group_id, &node_id).await?;
        table.delete_latest(clock, group_id, &node_id).await?;
        table.delete_node(clock, domain, group_id, &node_id).await?;
    }
    table.delete_messages(clock, domain, group_id).await?;
    table.delete_publishes(clock, domain, group_id).await?;
    table.delete_host_record(clock, domain, group_id, host_id).await?;
    table.delete_group(clock, domain, group_id).await
}
