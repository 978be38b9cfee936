//! The marker of an entry: what the feed said about it, and the state of each of its deliveries.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::{operation::update_item::builders::UpdateItemFluentBuilder, types::AttributeValue};
use function::item::{Item, get_bool, get_map, get_number, get_text, number, text};
use ichido::Timestamp;
use serde::Serialize;

use super::{Error, ID, TTL};
use crate::entry::{Entry, EntryId};

/// The attributes that describe a marker in one line, for the operator's tool.
pub const SUMMARY_ATTRIBUTES: &[&str] = &["state", "deliveries", "reason"];

/// The attribute of [`Marker::doubtful`].
pub(super) const DOUBTFUL: &str = "doubtful";

/// What happens to an entry that is seen for the first time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is delivered.
    Owed,
    /// It is not delivered, because it was in the feed at the first read.
    Marked,
    /// It is not delivered, because a filter says so.
    Ignored { reason: String },
    /// It is not delivered, because it is known under another id.
    Same { as_: EntryId },
}

/// The state of an entry as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryState {
    Owed,
    Delivered,
    Marked,
    Ignored,
    Same,
    Dead,
    Shadow,
}

impl EntryState {
    const ALL: [EntryState; 7] = [
        EntryState::Owed,
        EntryState::Delivered,
        EntryState::Marked,
        EntryState::Ignored,
        EntryState::Same,
        EntryState::Dead,
        EntryState::Shadow,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            EntryState::Owed => "owed",
            EntryState::Delivered => "delivered",
            EntryState::Marked => "marked",
            EntryState::Ignored => "ignored",
            EntryState::Same => "same",
            EntryState::Dead => "dead",
            EntryState::Shadow => "shadow",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Why an entry in this state is in the index, if it is.
    const fn pending(self) -> Option<Pending> {
        match self {
            EntryState::Owed => Some(Pending::Owed),
            EntryState::Dead => Some(Pending::Dead),
            EntryState::Shadow => Some(Pending::Shadow),
            EntryState::Delivered | EntryState::Marked | EntryState::Ignored | EntryState::Same => None,
        }
    }
}

/// Why an item is in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pending {
    Owed,
    Dead,
    Shadow,
}

impl Pending {
    pub const fn name(self) -> &'static str {
        match self {
            Pending::Owed => "owed",
            Pending::Dead => "dead",
            Pending::Shadow => "shadow",
        }
    }

    /// From the value of the attribute, with or without the feed's name in front.
    pub(super) fn named(value: &str) -> Option<Self> {
        let name = value.rsplit('/').next().unwrap_or_default();
        [Pending::Owed, Pending::Dead, Pending::Shadow].into_iter().find(|pending| pending.name() == name)
    }
}

/// The state of the delivery of an entry to one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// Not made yet: how often the destination refused it, and the last reason.
    Owed {
        refusals: u32,
        reason: String,
    },
    Delivered {
        at: Timestamp,
        id: String,
    },
    /// Not meant for this destination.
    Ignored {
        reason: String,
    },
    /// Given up on.
    Dead {
        at: Timestamp,
        reason: String,
    },
    /// Rehearsed: what would have been posted.
    Shadow {
        at: Timestamp,
        text: String,
    },
}

impl Delivery {
    pub const fn state(&self) -> &'static str {
        match self {
            Delivery::Owed { .. } => "owed",
            Delivery::Delivered { .. } => "delivered",
            Delivery::Ignored { .. } => "ignored",
            Delivery::Dead { .. } => "dead",
            Delivery::Shadow { .. } => "shadow",
        }
    }

    pub(crate) fn is_owed(&self) -> bool {
        matches!(self, Delivery::Owed { .. })
    }

    fn to_attribute(&self) -> AttributeValue {
        let mut item = Item::from([("state".to_owned(), text(self.state()))]);
        let mut put = |name: &str, value| {
            item.insert(name.to_owned(), value);
        };
        match self {
            Delivery::Owed { refusals, reason } => {
                put("refusals", number(refusals));
                put("reason", text(reason));
            }
            Delivery::Delivered { at, id } => {
                put("at", number(at.as_millis()));
                put("id", text(id));
            }
            Delivery::Ignored { reason } => put("reason", text(reason)),
            Delivery::Dead { at, reason } => {
                put("at", number(at.as_millis()));
                put("reason", text(reason));
            }
            Delivery::Shadow { at, text: posted } => {
                put("at", number(at.as_millis()));
                put("text", text(posted));
            }
        }
        AttributeValue::M(item)
    }

    fn from_item(item: &Item) -> Option<Self> {
        let reason = || get_text(item, "reason").unwrap_or_default().to_owned();
        let at = || Timestamp::from_millis(get_number(item, "at").unwrap_or_default());
        Some(match get_text(item, "state")? {
            "owed" => {
                let refusals: u64 = get_number(item, "refusals").unwrap_or_default();
                Delivery::Owed { refusals: u32::try_from(refusals).unwrap_or(u32::MAX), reason: reason() }
            }
            "delivered" => Delivery::Delivered { at: at(), id: get_text(item, "id").unwrap_or_default().to_owned() },
            "ignored" => Delivery::Ignored { reason: reason() },
            "dead" => Delivery::Dead { at: at(), reason: reason() },
            "shadow" => Delivery::Shadow { at: at(), text: get_text(item, "text").unwrap_or_default().to_owned() },
            _ => return None,
        })
    }
}

/// The item of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    pub entry: Entry,
    pub state: EntryState,
    /// Why it was ignored, or the id of the entry that it is the same as.
    pub reason: Option<String>,
    pub processed_at: Timestamp,
    pub pending: Option<Pending>,
    /// The place among what is pending: see [`order`].
    pub pending_order: String,
    /// Since when it is owed.
    pub owed_since: Option<Timestamp>,
    /// Since when it was owed before it was sent again by hand.
    pub first_owed: Option<Timestamp>,
    pub deliveries: BTreeMap<String, Delivery>,
    /// Sent again by hand: the destination must be asked first what an earlier attempt has done.
    pub resent: bool,
    /// The table was restored, and what was done in the meantime is not known: the destination must be asked first.
    pub doubtful: bool,
    pub left_at: Option<Timestamp>,
    pub ttl: Option<Timestamp>,
    /// Counts the changes of the deliveries, so that no run overwrites another run's.
    pub revision: u64,
}

impl Marker {
    /// The marker of an entry seen for the first time. `position` is its place in a list that begins with the oldest.
    pub(super) fn new(entry: &Entry, fate: &Fate, position: usize, now: Timestamp) -> Self {
        let (state, reason) = match fate {
            Fate::Owed => (EntryState::Owed, None),
            Fate::Marked => (EntryState::Marked, None),
            Fate::Ignored { reason } => (EntryState::Ignored, Some(reason.clone())),
            Fate::Same { as_ } => (EntryState::Same, Some(as_.to_string())),
        };
        let pending = state.pending();
        Marker {
            entry: entry.clone(),
            state,
            reason,
            processed_at: now,
            pending,
            pending_order: order(entry, position, now),
            owed_since: pending.map(|_| now),
            first_owed: None,
            deliveries: BTreeMap::new(),
            resent: false,
            doubtful: false,
            left_at: None,
            ttl: None,
            revision: 0,
        }
    }

    /// Whether it has expired. DynamoDB may not have deleted it yet.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.ttl.is_some_and(|ttl| ttl.as_secs() <= now.as_secs())
    }

    /// When the entry was found in the feed.
    pub fn found_at(&self) -> Timestamp {
        self.first_owed.or(self.owed_since).unwrap_or(self.processed_at)
    }

    /// The destinations for which there is nothing left to do.
    pub fn settled(&self) -> impl Iterator<Item = &str> {
        self.deliveries.iter().filter(|(_, delivery)| !delivery.is_owed()).map(|(destination, _)| destination.as_str())
    }

    /// Sets `state` and `pending` from the deliveries. An entry whose destinations are not known yet is owed.
    pub(crate) fn conclude(&mut self) {
        let any = |wanted: fn(&Delivery) -> bool| self.deliveries.values().any(wanted);
        self.state = if self.deliveries.is_empty() || any(Delivery::is_owed) {
            EntryState::Owed
        } else if any(|delivery| matches!(delivery, Delivery::Dead { .. })) {
            EntryState::Dead
        } else if any(|delivery| matches!(delivery, Delivery::Shadow { .. })) {
            EntryState::Shadow
        } else if any(|delivery| matches!(delivery, Delivery::Delivered { .. })) {
            EntryState::Delivered
        } else {
            EntryState::Ignored
        };
        self.pending = self.state.pending();
    }

    /// `name` is the value of `pending`.
    pub(super) fn to_item(&self, name: impl Fn(Pending) -> String) -> Item {
        let entry = &self.entry;
        let mut data = Item::from([
            ("title".to_owned(), text(&entry.title)),
            ("link".to_owned(), text(&entry.link)),
            ("author".to_owned(), text(&entry.author)),
            ("content".to_owned(), text(entry.content.text())),
        ]);
        if let Some(at) = entry.published {
            data.insert("pubDate".to_owned(), text(at.to_string()));
        }
        if !entry.categories.is_empty() {
            let categories = entry.categories.iter().map(text).collect();
            data.insert("categories".to_owned(), AttributeValue::L(categories));
        }
        if !entry.enclosure.is_empty() {
            data.insert("enclosure".to_owned(), text(&entry.enclosure));
        }
        let mut item = Item::from([
            (ID.to_owned(), text(entry.id.as_str())),
            ("processed_at".to_owned(), number(self.processed_at.as_secs())),
            ("entry_data".to_owned(), AttributeValue::M(data)),
            ("state".to_owned(), text(self.state.name())),
            ("revision".to_owned(), number(self.revision)),
            ("deliveries".to_owned(), deliveries(&self.deliveries)),
        ]);
        let mut put = |name: &str, value: Option<AttributeValue>| {
            if let Some(value) = value {
                item.insert(name.to_owned(), value);
            }
        };
        put("reason", self.reason.as_ref().map(text));
        put("pending", self.pending.map(|pending| text(name(pending))));
        put("pending_order", self.pending.map(|_| text(&self.pending_order)));
        put("owed_since", self.owed_since.map(|at| number(at.as_millis())));
        put("first_owed", self.first_owed.map(|at| number(at.as_millis())));
        put(DOUBTFUL, self.doubtful.then_some(AttributeValue::Bool(true)));
        put("left_at", self.left_at.map(|at| number(at.as_secs())));
        put(TTL, self.ttl.map(|at| number(at.as_secs_ceil())));
        item
    }

    /// Reads a marker. An item of another kind is an error.
    pub fn from_item(item: &Item) -> Result<Self, Error> {
        let id = get_text(item, ID).unwrap_or_default();
        let broken = |reason| Error::Item { id: id.to_owned(), reason };
        if id.is_empty() {
            return Err(broken("no entry_id"));
        }
        let empty = Item::new();
        let data = get_map(item, "entry_data").unwrap_or(&empty);
        let part = |name| get_text(data, name).unwrap_or_default().to_owned();
        let entry = Entry {
            id: EntryId::from_table(id),
            title: part("title"),
            link: part("link"),
            published: get_text(data, "pubDate").and_then(|date| date.parse().ok()),
            author: part("author"),
            content: part("content").into(),
            categories: texts(data, "categories"),
            enclosure: part("enclosure"),
        };
        let deliveries = get_map(item, "deliveries").into_iter().flatten().filter_map(|(destination, delivery)| {
            Some((destination.clone(), Delivery::from_item(delivery.as_m().ok()?)?))
        });
        Ok(Marker {
            entry,
            // Items of an earlier program have no state: it wrote them when it had posted the entry.
            state: get_text(item, "state").and_then(EntryState::named).unwrap_or(EntryState::Delivered),
            reason: get_text(item, "reason").map(str::to_owned),
            processed_at: Timestamp::from_secs(
                get_number(item, "processed_at").ok_or_else(|| broken("no processed_at"))?,
            ),
            pending: get_text(item, "pending").and_then(Pending::named),
            pending_order: get_text(item, "pending_order").unwrap_or_default().to_owned(),
            owed_since: get_number(item, "owed_since").map(Timestamp::from_millis),
            first_owed: get_number(item, "first_owed").map(Timestamp::from_millis),
            deliveries: deliveries.collect(),
            resent: get_bool(item, "resent").unwrap_or_default(),
            doubtful: get_bool(item, DOUBTFUL).unwrap_or_default(),
            left_at: get_number(item, "left_at").map(Timestamp::from_secs),
            ttl: get_number(item, TTL).map(Timestamp::from_secs),
            revision: get_number(item, "revision").unwrap_or_default(),
        })
    }

    /// The update that writes the deliveries, and nothing that another writer owns (`left_at`, `ttl`).
    pub(super) fn settling(
        &self,
        update: UpdateItemFluentBuilder,
        name: impl Fn(Pending) -> String,
        now: Timestamp,
    ) -> UpdateItemFluentBuilder {
        let set = "SET #state = :state, deliveries = :deliveries, revision = :revision, processed_at = :now, resent = :resent, doubtful = :doubtful";
        let update = update
            .expression_attribute_values(":doubtful", AttributeValue::Bool(self.doubtful))
            .expression_attribute_names("#state", "state")
            .expression_attribute_values(":state", text(self.state.name()))
            .expression_attribute_values(":deliveries", deliveries(&self.deliveries))
            .expression_attribute_values(":revision", number(self.revision))
            .expression_attribute_values(":resent", AttributeValue::Bool(self.resent))
            .expression_attribute_values(":now", number(now.as_secs()));
        let Some(pending) = self.pending else {
            return update.update_expression(format!("{set} REMOVE pending, pending_order"));
        };
        let since = self.owed_since.unwrap_or(now);
        let set =
            format!("{set}, pending = :pending, pending_order = :order, owed_since = :since, first_owed = :first");
        // What is owed does not expire. An entry that is sent again may have a `ttl` from before.
        let update = match pending {
            Pending::Owed => {
                update.update_expression(format!("{set} REMOVE #ttl")).expression_attribute_names("#ttl", TTL)
            }
            Pending::Dead | Pending::Shadow => update.update_expression(set),
        };
        update
            .expression_attribute_values(":pending", text(name(pending)))
            .expression_attribute_values(":order", text(&self.pending_order))
            .expression_attribute_values(":since", number(since.as_millis()))
            .expression_attribute_values(":first", number(self.first_owed.unwrap_or(since).as_millis()))
    }
}

/// The texts of a list; empty if there is none.
fn texts(item: &Item, name: &str) -> Vec<String> {
    let list = item.get(name).and_then(|value| value.as_l().ok()).into_iter().flatten();
    list.filter_map(|value| value.as_s().ok().cloned()).collect()
}

fn deliveries(deliveries: &BTreeMap<String, Delivery>) -> AttributeValue {
    AttributeValue::M(deliveries.iter().map(|(name, delivery)| (name.clone(), delivery.to_attribute())).collect())
}

/// Entries that were never tried come first, oldest first. A date in the future counts as now.
fn order(entry: &Entry, position: usize, now: Timestamp) -> String {
    let published = entry.published.and_then(|at| u64::try_from(at.as_millisecond()).ok());
    let at = published.unwrap_or(u64::MAX).min(now.as_millis());
    format!("0#{at:015}#{:015}#{position:06}", now.as_millis())
}

/// An entry that was tried goes to the end, so that a failing destination does not hold up the other entries.
pub(crate) fn order_after_try(now: Timestamp, previous: &str) -> String {
    let tail = previous
        .get(2..)
        .filter(|_| previous.starts_with("0#"))
        .unwrap_or_else(|| previous.splitn(3, '#').nth(2).unwrap_or_default());
    format!("1#{:015}#{tail}", now.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(date: Option<&str>) -> Entry {
        Entry {
            id: EntryId::from_table("tag:github.com,2008:PushEvent/1"),
            title: "masutaka pushed".into(),
            link: "https://github.com/masutaka".into(),
            published: date.map(|date| date.parse().unwrap()),
            author: "masutaka".into(),
            content: "text".into(),
            categories: vec!["rust".into()],
            enclosure: "https://example.com/1.mp3".into(),
        }
    }

    const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

    #[test]
    fn an_item_has_its_documented_attributes_and_no_ttl_while_the_entry_is_in_the_feed() {
        let item = Marker::new(&entry(Some("2024-01-01T00:00:00Z")), &Fate::Marked, 0, NOW)
            .to_item(|pending| pending.name().to_owned());
        assert_eq!(get_text(&item, "entry_id"), Some("tag:github.com,2008:PushEvent/1"));
        assert_eq!(get_number(&item, "processed_at"), Some(1_800_000_000_u64));
        let data = get_map(&item, "entry_data").unwrap();
        assert_eq!(get_text(data, "pubDate"), Some("2024-01-01T00:00:00Z"));
        for name in ["title", "link", "author", "content"] {
            assert!(data.contains_key(name), "{name}");
        }
        assert!(!item.contains_key("ttl") && !item.contains_key("pending"));
    }

    #[test]
    fn the_attributes_of_the_summary_are_in_an_item() {
        let item = Marker::new(&entry(None), &Fate::Ignored { reason: "a filter".into() }, 0, NOW)
            .to_item(|pending| pending.name().to_owned());
        for name in SUMMARY_ATTRIBUTES {
            assert!(item.contains_key(*name), "{name}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut marker = Marker::new(&entry(None), &Fate::Owed, 3, NOW);
        marker.deliveries.insert("mastodon".into(), Delivery::Delivered { at: NOW, id: "1".into() });
        marker.deliveries.insert("pushover".into(), Delivery::Owed { refusals: 2, reason: "400".into() });
        marker.conclude();
        assert_eq!(Marker::from_item(&marker.to_item(|pending| pending.name().to_owned())).unwrap(), marker);
    }

    #[test]
    fn an_item_without_a_state_is_a_delivered_entry() {
        let item = Item::from([
            ("entry_id".to_owned(), text("x")),
            ("processed_at".to_owned(), number(1_703_980_800)),
            ("ttl".to_owned(), number(1_706_572_800)),
        ]);
        let marker = Marker::from_item(&item).unwrap();
        assert_eq!((marker.state, marker.pending), (EntryState::Delivered, None));
        assert!(marker.is_over(NOW));
    }

    #[test]
    fn the_untried_come_before_the_tried_and_the_old_before_the_new() {
        let old = order(&entry(Some("2024-01-01T00:00:00Z")), 5, NOW);
        let new = order(&entry(Some("2025-01-01T00:00:00Z")), 0, NOW);
        let future = order(&entry(Some("2999-01-01T00:00:00Z")), 1, NOW);
        let undated = order(&entry(None), 2, NOW);
        let tried = order_after_try(NOW, &old);
        let tried_later = order_after_try(NOW + std::time::Duration::from_secs(1), &tried);
        assert!([&old, &new, &future, &undated, &tried, &tried_later].is_sorted());
        assert!(tried_later.len() < 100);
    }

    #[test]
    fn one_dead_delivery_makes_a_dead_letter_once_nothing_is_owed() {
        let mut marker = Marker::new(&entry(None), &Fate::Owed, 0, NOW);
        marker.deliveries.insert("mastodon".into(), Delivery::Dead { at: NOW, reason: "422".into() });
        marker.deliveries.insert("pushover".into(), Delivery::Owed { refusals: 0, reason: String::new() });
        marker.conclude();
        assert_eq!(marker.pending, Some(Pending::Owed));
        marker.deliveries.insert("pushover".into(), Delivery::Delivered { at: NOW, id: "1".into() });
        marker.conclude();
        assert_eq!(marker.pending, Some(Pending::Dead));
    }
}
