//! What `createGroup` asks of the table.

use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, TransactWriteItem};
use function::item::{Item, get_text, number, text};
use ichido::dynamodb::{Join, Recorded, Verdict, classify};
use ichido::record::Owner;
use ichido::{Key, Timestamp, store};

use super::{
    ALIVE, Former, OWN, Table, domain_partition, group_id_of, group_key, is_conflict, membership_key, node_key, own,
    reasons, records, seconds, status_key, write_group,
};
use crate::group::{Error, Group, Secret};

/// What came of an attempt to make a group.
pub(crate) enum Creation {
    Made,
    /// The host has a record already. It names a group; a tombstone names none.
    Found {
        group_id: Option<String>,
        recorded: Recorded,
    },
    /// The host is in a secured group, and its secret was not given.
    Unauthorized,
    /// Another transaction touched the same items. Nothing was written.
    Conflict,
    /// The group was not made, or it is not known.
    Failed(store::Error),
}

/// Where the host of a new group was before, and the secret that its caller gave.
pub(crate) struct Was<'a> {
    pub(crate) former: Option<&'a Former>,
    /// Whether that group is over. Then its secret counts no longer.
    pub(crate) is_over: bool,
    pub(crate) secret: Option<&'a Secret>,
}

/// How many groups of a domain are alive.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Living {
    pub(crate) all: usize,
    pub(crate) of_caller: usize,
}

/// Why somebody cannot take the host's node out of the group that it is in.
pub(crate) const IN_A_SECURED_GROUP: &str = "A node of this id is in a secured group of the domain: pass its secret.";

/// Whether the host's node stays in its former group, because it has another secret. `host_at` is the place of the host's items in
/// the transaction: membership, node, former node.
fn keeps_its_node(reasons: &[Option<&str>], host_at: usize) -> bool {
    reasons.get(host_at + 2) == Some(&Some("ConditionalCheckFailed"))
}

impl Table {
    /// Makes the group, with the host as its first member and the host's record, in one transaction. `replaced` is a record of
    /// the host whose group is over.
    pub(crate) async fn create_group(
        &self,
        host: &Key,
        group: &Group,
        host_was: &Was<'_>,
        replaced: Option<&Recorded>,
        owner: Owner,
        now: Timestamp,
    ) -> Result<Creation, store::Error> {
        let mut join = Join::new(&records(&self.name), host)
            .owner(owner)
            .attribute("groupId", group.group_id.clone())
            .expires_at(Some(Timestamp::from_secs(group.expires_at)));
        if let Some(recorded) = replaced {
            join = join.replaces(recorded);
        }
        let mut items = vec![join.item(now)?, self.put(write_group(group), Some("attribute_not_exists(pk)"), None)];
        let host_at = items.len();
        items.extend(self.host_as_member(group, host_was, now));
        let answer = self.client.transact_write_items().set_transact_items(Some(items)).send().await;
        Ok(match join.verdict(&answer)? {
            Verdict::New => Creation::Made,
            Verdict::Replay(recorded) | Verdict::Mismatch { recorded, .. } => {
                Creation::Found { group_id: group_id_of(recorded.item.clone()), recorded }
            }
            // Nobody puts a tombstone there, because nobody refuses a group for good. If there is one, no group was made.
            Verdict::Tombstone(recorded) => Creation::Found { group_id: None, recorded },
            Verdict::NotOurs => match answer {
                Err(error) if keeps_its_node(&reasons(&error), host_at) => Creation::Unauthorized,
                Err(error) if !is_conflict(&reasons(&error)) => Creation::Failed(classify(error)),
                _ => Creation::Conflict,
            },
        })
    }

    /// Makes the host a member of its group again, if the group is alive and the host is still where it was.
    pub(crate) async fn enter_group(&self, group: &Group, host_was: &Was<'_>, now: Timestamp) -> Result<(), Error> {
        let mut items = vec![self.check_alive(group, now)];
        items.extend(self.host_as_member(group, host_was, now));
        match self.client.transact_write_items().set_transact_items(Some(items)).send().await {
            Ok(_) => Ok(()),
            Err(error) if keeps_its_node(&reasons(&error), 1) => Err(Error::Unauthorized(IN_A_SECURED_GROUP)),
            // The group has ended, or the host has joined another one, this very moment.
            Err(error) if is_conflict(&reasons(&error)) => Err(Error::Conflict),
            Err(error) => Err(classify(error).into()),
        }
    }

    /// How many groups of the domain, made at `oldest` or later, are alive, and how many of them `caller` made. Stops counting at `most`.
    pub(crate) async fn living_groups(
        &self,
        domain: &str,
        caller: &str,
        oldest: Timestamp,
        now: Timestamp,
        most: usize,
    ) -> Result<Living, store::Error> {
        let mut living = Living::default();
        let mut from = None;
        loop {
            let query = self
                .client
                .query()
                .table_name(&self.name)
                .index_name("GSI1")
                // Groups that ended long ago may still be in the table. They are not read.
                .key_condition_expression("GSI1PK = :domain AND GSI1SK BETWEEN :from AND :to")
                .filter_expression(ALIVE)
                .expression_attribute_values(":domain", text(domain_partition(domain)))
                .expression_attribute_values(":from", text(format!("GROUP#{oldest}")))
                .expression_attribute_values(":to", text("GROUP#~"))
                .expression_attribute_values(":now", seconds(now))
                .projection_expression("caller")
                .set_exclusive_start_key(from);
            let page = query.send().await.map_err(classify)?;
            for group in page.items.unwrap_or_default() {
                living.all += 1;
                living.of_caller += usize::from(get_text(&group, "caller") == Some(caller));
            }
            from = page.last_evaluated_key;
            if from.is_none() || living.all >= most {
                return Ok(living);
            }
        }
    }

    /// The host as a member, and the end of its membership elsewhere.
    fn host_as_member(&self, group: &Group, host_was: &Was<'_>, now: Timestamp) -> Vec<TransactWriteItem> {
        let Group { group_id, domain, host_id, expires_at, host_secret, caller, .. } = group;
        let former = host_was.former.map(|former| &former.group_id);
        let mut node = node_key(domain, group_id, host_id);
        node.extend([
            ("nodeId".into(), text(host_id)),
            ("name".into(), text(host_id)),
            ("groupId".into(), text(group_id)),
            ("domain".into(), text(domain)),
            // The host is a member for as long as the group lives: its own heartbeat keeps the group.
            ("ttl".into(), number(expires_at)),
            // Until it joins or reports, nobody sees it as a node.
            ("isHidden".into(), AttributeValue::Bool(true)),
            ("caller".into(), text(caller)),
        ]);
        let mut membership = membership_key(domain, host_id);
        membership.extend([
            ("groupId".into(), text(group_id)),
            ("domain".into(), text(domain)),
            ("nodeId".into(), text(host_id)),
            ("ttl".into(), number(expires_at)),
        ]);
        if let Some(secret) = host_secret {
            node.insert("memberSecret".into(), text(secret.expose()));
            membership.insert("secured".into(), AttributeValue::Bool(true));
        }
        if let Some(left) = host_was.former.and_then(Former::left) {
            membership.insert("leftGroupId".into(), text(left));
        }
        let (unchanged, values) = match former {
            Some(former) => ("groupId = :former", Some(Item::from([(":former".to_owned(), text(former))]))),
            None => ("attribute_not_exists(pk)", None),
        };
        let mut items = vec![self.put(membership, Some(unchanged), values), self.put(node, None, None)];
        if let Some(former) = former {
            let node = node_key(domain, former, host_id);
            items.push(if host_was.is_over {
                self.delete(node, None, None)
            } else {
                let mut values = own(host_was.secret);
                values.insert(":now".to_owned(), seconds(now));
                self.delete_named(node, &format!("{OWN} OR #ttl <= :now"), values)
            });
            items.push(self.delete(status_key(domain, host_id), None, None));
        }
        items
    }

    fn check_alive(&self, group: &Group, now: Timestamp) -> TransactWriteItem {
        let check = ConditionCheck::builder()
            .table_name(&self.name)
            .set_key(Some(group_key(&group.domain, &group.group_id)))
            .condition_expression(format!("attribute_exists(pk) AND {ALIVE}"))
            .expression_attribute_values(":now", seconds(now));
        #[expect(clippy::expect_used, reason = "table name, key and condition are set above")]
        let check = check.build().expect("table name, key and condition are set");
        TransactWriteItem::builder().condition_check(check).build()
    }
}
