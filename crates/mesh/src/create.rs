//! `createGroup`: the same host and domain get the same group while it lives.
//!
//! The record of host and domain is the first item of the transaction that makes the group, so of any number of
//! simultaneous calls one makes it and the others find it. A record whose group is over is replaced in the same way.
//! A host that finds its group but has joined another one since, or has left it, becomes its member again.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{ConditionCheck, Delete, Put, TransactWriteItem};
use ichido::dynamodb::{Join, Recorded, Table, Verdict, classify};
use ichido::{Clock, Namespace, Timestamp, store};
use serde::Deserialize;
use telemetry::metric;

use crate::group::{
    Group, MAX_DOMAIN_CHARS, MAX_GROUPS_A_DOMAIN, MAX_ID_CHARS, MAX_NAME_CHARS, Refusal, check_length, iso,
};
use crate::settings::{HEARTBEATS_UNTIL_GONE, Settings};
use crate::table::{self, Item, number, text};

/// How often a call looks again after others were faster.
const ATTEMPTS: u32 = 8;
/// The first pause between two attempts; each next one may be twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The arguments of `createGroup`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Arguments {
    pub name: String,
    pub host_id: String,
    pub domain: String,
    pub max_connection_time_seconds: Option<i64>,
    pub use_web_socket: Option<bool>,
}

/// How long the group may live, or why not.
fn lifetime(asked: Option<i64>, longest: Duration) -> Result<Duration, Refusal> {
    let Some(asked) = asked else { return Ok(longest) };
    match u64::try_from(asked).map(Duration::from_secs) {
        Ok(asked) if !asked.is_zero() && asked <= longest => Ok(asked),
        _ => Err(Refusal::Validation(format!("maxConnectionTimeSeconds is 1 to {}, not {asked}.", longest.as_secs()))),
    }
}

/// Creates the group, or finds the one that there is.
pub async fn create(
    client: &Client,
    settings: &Settings,
    clock: &dyn Clock,
    arguments: &Arguments,
) -> Result<Group, Refusal> {
    check_length("name", &arguments.name, MAX_NAME_CHARS)?;
    check_length("hostId", &arguments.host_id, MAX_ID_CHARS)?;
    check_length("domain", &arguments.domain, MAX_DOMAIN_CHARS)?;
    let lifetime = lifetime(arguments.max_connection_time_seconds, settings.longest)?;

    let records = Table::new(&settings.table, "pk").sort_key("sk", "METADATA");
    let hosts = Namespace::new("HOST");
    let key =
        hosts.key([&arguments.domain, &arguments.host_id]).map_err(|error| Refusal::Validation(format!("{error}.")))?;
    let mut replaces: Option<Recorded> = None;
    let mut pause = FIRST_PAUSE;
    let mut refusal = Refusal::Conflict;
    let there = table::get(client, &settings.table, records.primary_key(&key)).await.map_err(unavailable)?;
    if let Some(there) = there.and_then(|record| table::read_text(&record, "groupId"))
        && let Some(group) = living(client, settings, clock, &arguments.domain, &there).await?
    {
        return enter(client, settings, clock, group).await;
    }
    for _ in 0..ATTEMPTS {
        let now = clock.now();
        let group = new_group(settings, arguments, lifetime, now);
        let mut join = Join::new(&records, &key)
            .attribute("groupId", group.group_id.clone())
            .expires_at(Some(Timestamp::from_secs(group.expires_at)));
        if let Some(recorded) = &replaces {
            join = join.replaces(recorded);
        }
        let former = table::get(client, &settings.table, table::membership_key(&group.domain, &group.host_id))
            .await
            .map_err(unavailable)?
            .and_then(|item| table::read_text(&item, "groupId"));
        too_many(client, settings, &group.domain, now).await?;
        let mut items = vec![join.item(now).map_err(|_| Refusal::Unavailable)?];
        items.extend(group_items(&settings.table, &group, former.as_deref()));
        let answer = client.transact_write_items().set_transact_items(Some(items)).send().await;
        match join.verdict(&answer) {
            Ok(Verdict::New) => {
                metric::GROUPS_CREATED.add(1);
                return Ok(group);
            }
            Ok(Verdict::Replay(recorded) | Verdict::Mismatch { recorded, .. }) => {
                let there = table::read_text(&recorded.item, "groupId").unwrap_or_default();
                match living(client, settings, clock, &group.domain, &there).await? {
                    Some(group) => return enter(client, settings, clock, group).await,
                    // It was dissolved, or its host went silent: the record outlived what it stands for.
                    None => replaces = Some(recorded),
                }
            }
            // Nobody refuses a group for good, so nobody puts up a fence; if there is one, nothing is behind it.
            Ok(Verdict::Fenced(recorded)) => replaces = Some(recorded),
            Ok(Verdict::NotOurs) => {
                if let Err(error) = answer {
                    let cancelled =
                        error.as_service_error().is_some_and(|error| error.is_transaction_canceled_exception());
                    refusal = if cancelled { Refusal::Conflict } else { Refusal::Unavailable };
                    if cancelled {
                        metric::CONFLICTS.add(1);
                    } else if !classify(error).is_transient() {
                        return Err(refusal);
                    }
                }
                clock.sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
                pause *= 2;
            }
            Err(_) => return Err(Refusal::Unavailable),
        }
    }
    Err(refusal)
}

/// The group, if it is alive.
async fn living(
    client: &Client,
    settings: &Settings,
    clock: &dyn Clock,
    domain: &str,
    group_id: &str,
) -> Result<Option<Group>, Refusal> {
    let group = table::get_group(client, &settings.table, domain, group_id).await.map_err(unavailable)?;
    Ok(group.filter(|group| group.is_alive(clock.now())))
}

/// Sees to it that the host is a member of the group that it has.
async fn enter(client: &Client, settings: &Settings, clock: &dyn Clock, group: Group) -> Result<Group, Refusal> {
    let Group { group_id, domain, host_id, .. } = &group;
    let membership = table::get(client, &settings.table, table::membership_key(domain, host_id));
    let former = membership.await.map_err(unavailable)?.and_then(|item| table::read_text(&item, "groupId"));
    if former.as_deref() == Some(group_id) {
        return Ok(group);
    }
    let mut items = vec![alive(&settings.table, &group, clock.now())];
    items.extend(host_items(&settings.table, &group, former.as_deref()));
    match client.transact_write_items().set_transact_items(Some(items)).send().await {
        Ok(_) => Ok(group),
        // Its group has ended, or it has joined another one, this very moment.
        Err(error) => match error.as_service_error() {
            Some(error) if error.is_transaction_canceled_exception() => Err(Refusal::Conflict),
            _ => Err(Refusal::Unavailable),
        },
    }
}

fn unavailable(_: store::Error) -> Refusal {
    Refusal::Unavailable
}

fn new_group(settings: &Settings, arguments: &Arguments, lifetime: Duration, now: Timestamp) -> Group {
    let expires_at = (now + lifetime).as_secs_ceil();
    let fresh_until = (now + settings.host_heartbeat * HEARTBEATS_UNTIL_GONE).as_secs_ceil();
    Group {
        group_id: uuid::Uuid::new_v4().simple().to_string(),
        domain: arguments.domain.clone(),
        name: arguments.name.clone(),
        host_id: arguments.host_id.clone(),
        created_at: iso(now),
        expires_at,
        host_fresh_until: fresh_until,
        use_web_socket: arguments.use_web_socket.unwrap_or(true),
    }
}

/// A domain has only so many groups. The index lags, so this is a bound for floods, not to the last group.
async fn too_many(client: &Client, settings: &Settings, domain: &str, now: Timestamp) -> Result<(), Refusal> {
    let oldest = iso(Timestamp::from_millis(now.as_millis().saturating_sub(longest_millis(settings))));
    let mut living = 0;
    let mut from = None;
    loop {
        let query = client
            .query()
            .table_name(&settings.table)
            .index_name("GSI1")
            // Groups that ended long ago may still lie in the table: what is older than a group can be is not read.
            .key_condition_expression("GSI1PK = :domain AND GSI1SK BETWEEN :from AND :to")
            .filter_expression("expiresAt > :now AND hostFreshUntil > :now")
            .expression_attribute_values(":domain", text(format!("DOMAIN#{domain}")))
            .expression_attribute_values(":from", text(format!("GROUP#{oldest}")))
            .expression_attribute_values(":to", text("GROUP#~"))
            .expression_attribute_values(":now", number(now.as_secs()))
            .select(aws_sdk_dynamodb::types::Select::Count)
            .set_exclusive_start_key(from);
        let page = query.send().await.map_err(|error| unavailable(classify(error)))?;
        living += usize::try_from(page.count).unwrap_or(0);
        from = page.last_evaluated_key;
        if living >= MAX_GROUPS_A_DOMAIN {
            let most = format!("The domain has {MAX_GROUPS_A_DOMAIN} groups, the most that it may have.");
            return Err(Refusal::Validation(most));
        }
        if from.is_none() {
            return Ok(());
        }
    }
}

fn longest_millis(settings: &Settings) -> u64 {
    u64::try_from(settings.longest.as_millis()).unwrap_or(u64::MAX)
}

/// The group, its host as its first member, and what the host leaves for it.
fn group_items(table: &str, group: &Group, former: Option<&str>) -> Vec<TransactWriteItem> {
    let mut items = vec![put(table, table::write_group(group), Some("attribute_not_exists(pk)"), None)];
    items.extend(host_items(table, group, former));
    items
}

/// The host as a member, and what it leaves for it.
fn host_items(table: &str, group: &Group, former: Option<&str>) -> Vec<TransactWriteItem> {
    let Group { group_id, domain, host_id, expires_at, .. } = group;
    let mut node = table::node_key(domain, group_id, host_id);
    node.extend([
        ("nodeId".into(), text(host_id)),
        ("name".into(), text(host_id)),
        ("groupId".into(), text(group_id)),
        ("domain".into(), text(domain)),
        // The host is a member for as long as the group lives: its own heartbeat keeps the group.
        ("ttl".into(), number(*expires_at)),
    ]);
    let mut membership = table::membership_key(domain, host_id);
    membership.extend([
        ("groupId".into(), text(group_id)),
        ("domain".into(), text(domain)),
        ("nodeId".into(), text(host_id)),
        ("ttl".into(), number(*expires_at)),
    ]);
    let unchanged = match former {
        Some(former) => ("groupId = :former", Some(Item::from([(":former".to_owned(), text(former))]))),
        None => ("attribute_not_exists(pk)", None),
    };
    let mut items = vec![put(table, membership, Some(unchanged.0), unchanged.1), put(table, node, None, None)];
    if let Some(former) = former {
        items.push(delete(table, table::node_key(domain, former, host_id)));
        items.push(delete(table, table::status_key(domain, host_id)));
    }
    items
}

/// The group is alive, as a condition.
fn alive(table: &str, group: &Group, now: Timestamp) -> TransactWriteItem {
    let check = ConditionCheck::builder()
        .table_name(table)
        .set_key(Some(table::group_key(&group.domain, &group.group_id)))
        .condition_expression("attribute_exists(pk) AND expiresAt > :now AND hostFreshUntil > :now")
        .expression_attribute_values(":now", number(now.as_secs()));
    #[expect(clippy::expect_used, reason = "table name, key and condition are set above")]
    TransactWriteItem::builder().condition_check(check.build().expect("table name, key and condition are set")).build()
}

fn put(table: &str, item: Item, condition: Option<&str>, values: Option<Item>) -> TransactWriteItem {
    let put = Put::builder()
        .table_name(table)
        .set_item(Some(item))
        .set_condition_expression(condition.map(str::to_owned))
        .set_expression_attribute_values(values);
    #[expect(clippy::expect_used, reason = "table name and item are set above")]
    TransactWriteItem::builder().put(put.build().expect("table name and item are set")).build()
}

fn delete(table: &str, key: Item) -> TransactWriteItem {
    let delete = Delete::builder().table_name(table).set_key(Some(key));
    #[expect(clippy::expect_used, reason = "table name and key are set above")]
    TransactWriteItem::builder().delete(delete.build().expect("table name and key are set")).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_lives_from_a_second_to_the_environments_maximum() {
        let longest = Duration::from_secs(600);
        assert_eq!(lifetime(None, longest), Ok(longest));
        assert_eq!(lifetime(Some(1), longest), Ok(Duration::from_secs(1)));
        assert_eq!(lifetime(Some(600), longest), Ok(longest));
        for asked in [0, -1, 601, i64::MAX, i64::MIN] {
            assert!(matches!(lifetime(Some(asked), longest), Err(Refusal::Validation(_))), "{asked}");
        }
    }
}
