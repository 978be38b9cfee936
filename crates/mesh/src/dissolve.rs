//! `dissolveGroup`: deletes everything of the group, and nothing can be written to it afterwards.
//!
//! In this order, so that a call that dies at any point can be repeated:
//! 1. The group ends. From here on no node can join it, and none of its nodes gets a number for a message.
//! 2. Its nodes expire, one after the other. Publishing checks the node, so from here on that node writes nothing. Then
//!    its status and its membership are deleted, which can only be found through the node, and last the node.
//! 3. Messages and the records of publishes are deleted. All that was written before a node expired is found now, because
//!    the base table is read consistently.
//! 4. With a `messageId`, the record of the notice is written. It stays for as long as messages are kept. By it a repeated call is
//!    recognised. It notifies and ends subscriptions again, because nobody knows whether the answer to the first call arrived.
//! 5. The record of the host is deleted, if it still names this group. The group itself is deleted last, because a
//!    repeated call learns from it, or from the record of the notice, what is left to do.
//!
//! Without a `messageId` a call that is repeated after step 5 finds no group: members learn it from their next call.

use ichido::record::Owner;
use ichido::{Clock, Timestamp};
use serde::Deserialize;

use crate::group::{Error, MAX_DOMAIN_CHARS, MAX_ID_CHARS, MAX_MESSAGE_ID_CHARS, Random, Secret, check_length};
use crate::settings::Settings;
use crate::table::Table;
use crate::table::dissolve::Publish;

/// Why somebody cannot dissolve a secured group.
pub(crate) const NOT_THE_HOST: &str = "Only the host can dissolve the group. Pass the hostSecret.";

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
    /// The secret of the host, if the group was a secured one: then its subscriptions have to be ended.
    pub(crate) secret: Option<Secret>,
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
    let recorded = match &publish {
        Some(publish) => table.notice(publish, clock.now()).await?,
        None => None,
    };
    if let Some(notice) = recorded {
        if notice.secret.is_some() && notice.secret != *secret {
            return Err(Error::Unauthorized(NOT_THE_HOST));
        }
        delete_group(table, clock, arguments).await?;
        return Ok(notice);
    }
    let ended = table.end_group(domain, group_id, host_id, secret.as_ref(), clock.now()).await?;
    clear(table, clock, arguments).await?;
    let notice = Notice {
        sequence: ended.sequence,
        at: clock.now(),
        secret: if ended.is_secured { secret.clone() } else { None },
    };
    if let Some(publish) = &publish {
        let owner = Owner::from(random().simple().to_string().as_str());
        table.record_notice(publish, &notice, owner, notice.at + settings.retention).await?;
    }
    delete_group(table, clock, arguments).await?;
    telemetry::metric::GROUPS_DISSOLVED.add(1);
    Ok(notice)
}

/// Steps 2 and 3.
async fn clear(table: &Table, clock: &dyn Clock, arguments: &Arguments) -> Result<(), Error> {
    let Arguments { group_id, domain, .. } = arguments;
    for node_id in table.nodes_of_group(domain, group_id).await? {
        table.expire_node(clock, domain, group_id, &node_id).await?;
        table.delete_status(clock, domain, group_id, &node_id).await?;
        table.delete_membership(clock, domain, group_id, &node_id).await?;
        table.delete_latest(clock, group_id, &node_id).await?;
        table.delete_node(clock, domain, group_id, &node_id).await?;
    }
    table.delete_messages(clock, domain, group_id).await?;
    table.delete_publishes(clock, domain, group_id).await
}

/// Step 5.
async fn delete_group(table: &Table, clock: &dyn Clock, arguments: &Arguments) -> Result<(), Error> {
    let Arguments { group_id, domain, host_id, .. } = arguments;
    table.delete_host_record(clock, domain, group_id, host_id).await?;
    table.delete_group(clock, domain, group_id).await
}
