//! The state table of a feed: its keys, its items and the conditions under which they change. Nobody else knows the name of
//! an attribute.
//!
//! | item (`entry_id`) | what it holds |
//! |---|---|
//! | the entry's id | the marker of the entry: its content, and the state of each of its deliveries ([`Marker`]) |
//! | `#feed` | validators, what the last read showed, when to read next ([`FeedState`]) |
//! | `#present#…` | the rest of what the last read showed, if it is too large for `#feed` |
//! | `#limit` | how long a post may be on the Mastodon instance |
//! | `#operation#…` | what an operator did by hand |
//! | `DELIVERY#destination#id` | the claim and the outcome of one delivery, written by `ichido` |
//!
//! A feed of the list shares its table with others. Its name and `/` stand in front of each of its keys (`blog/#feed`), its name is a part of
//! the keys of its deliveries (`DELIVERY#blog#mastodon#id`), and it has its own part of the index (`blog/owed`). `#feeds` has the names of
//! all of them.
//!
//! **What is owed is found without a scan.** While something is owed, the item has `pending = "owed"`, so it is in the
//! sparse index `pending`, sorted by `pending_order`. Dead letters (`"dead"`) and rehearsed entries (`"shadow"`) are
//! found in the same way. The index lags behind the table. An entry that appears in it late is delivered by a later run. An
//! entry that is still in it although it is settled is not delivered again, because the claims are in the table itself.
//!
//! **A marker outlives its entry's time in the feed.** While the entry is in the feed, its item has no `ttl`. When the entry
//! leaves the feed, `left_at` is set and the item is kept for another [`KEPT`](entry::KEPT). If the entry is still owed by then, that
//! time begins when the entry is settled.

mod delivery;
mod entry;
mod feed;
mod limit;
mod marker;
mod names;
mod restored;

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    Client,
    error::{DisplayErrorContext, ProvideErrorMetadata, SdkError},
    operation::update_item::builders::UpdateItemFluentBuilder,
    types::AttributeValue,
};
use function::item::Item;
use function::operation::Operations;
use ichido::dynamodb;

use crate::{entry::EntryId, list::FeedName};

pub use delivery::claim_key;
pub(crate) use delivery::delivery_run;
pub use feed::{FeedState, Snapshot};
pub(crate) use marker::order_after_try;
pub use marker::{Delivery, EntryState, Fate, Marker, Pending, SUMMARY_ATTRIBUTES};
pub use restored::{Doubt, restored, supersedes};

/// The table's key.
const ID: &str = "entry_id";
const TTL: &str = "ttl";

/// The beginnings of keys that are not entries: the feed's own items and the claims of deliveries. An id that begins like one of them
/// gets [`ESCAPE`] in front of it.
const RESERVED: [&str; 3] = ["#", "DELIVERY#", ESCAPE];
const ESCAPE: &str = "entry:";

/// The key of the entry with this id, which is not the key of another item.
pub(crate) fn entry_key(mut id: String) -> String {
    if RESERVED.iter().any(|reserved| id.starts_with(reserved)) {
        id.insert_str(0, ESCAPE);
    }
    id
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{operation} on the state table {table} failed: {reason}")]
    Store { table: String, operation: &'static str, code: String, reason: String },
    #[error("the item {id} in the state table cannot be read: {reason}")]
    Item { id: String, reason: &'static str },
    #[error("other runs kept changing the item {id}; the next run tries again")]
    Contended { id: String },
    #[error("BatchGetItem on the state table {table} left {keys} keys unread; the next run tries again")]
    Unread { table: String, keys: usize },
}

impl Error {
    fn sdk<E, R>(table: &str, operation: &'static str) -> impl FnOnce(SdkError<E, R>) -> Error
    where
        E: std::error::Error + ProvideErrorMetadata + 'static,
        R: std::fmt::Debug,
    {
        move |error| Error::Store {
            table: table.to_owned(),
            operation,
            code: error.code().unwrap_or("unknown").to_owned(),
            reason: DisplayErrorContext(&error).to_string(),
        }
    }
}

/// Where the library keeps the claims of deliveries: in the same table.
pub fn records(table_name: &str) -> dynamodb::Table {
    dynamodb::Table::new(table_name, ID).ttl(TTL)
}

/// What operators did by hand.
pub fn operations(table_name: &str) -> Operations {
    Operations::new(table_name, ID).prefix("#operation#")
}

/// The state of one feed in its table.
#[derive(Debug, Clone)]
pub struct Table {
    client: Client,
    name: String,
    /// The feed, if the table has several.
    feed: Option<FeedName>,
}

impl Table {
    pub fn new(client: Client, name: impl Into<String>) -> Self {
        Table { client, name: name.into(), feed: None }
    }

    /// The state of one feed in a table that has several.
    #[must_use]
    pub fn of_feed(&self, feed: FeedName) -> Self {
        Table { feed: Some(feed), ..self.clone() }
    }

    /// What all feeds of the table have in common.
    fn shared(&self) -> Self {
        Table { feed: None, ..self.clone() }
    }

    /// The feed, if the table has several.
    pub(crate) fn feed_name(&self) -> Option<&FeedName> {
        self.feed.as_ref()
    }

    /// A name of this feed's own, within the table and within the index.
    fn own(&self, name: &str) -> String {
        match &self.feed {
            Some(feed) => format!("{feed}/{name}"),
            None => name.to_owned(),
        }
    }

    fn key(&self, id: &str) -> Item {
        HashMap::from([(ID.to_owned(), AttributeValue::S(self.own(id)))])
    }

    fn update(&self, id: &str) -> UpdateItemFluentBuilder {
        self.client.update_item().table_name(&self.name).set_key(Some(self.key(id)))
    }

    /// A marker of this feed.
    fn marker_of(&self, item: &Item) -> Result<Marker, Error> {
        let mut marker = Marker::from_item(item)?;
        if let Some(feed) = &self.feed {
            let id = marker.entry.id.as_str().strip_prefix(feed.as_str()).and_then(|id| id.strip_prefix('/'));
            let other = || Error::Item { id: marker.entry.id.to_string(), reason: "it is of another feed" };
            marker.entry.id = EntryId::from_table(id.ok_or_else(other)?);
        }
        Ok(marker)
    }

    /// The same table as the library sees it: it keeps the claims of deliveries.
    pub fn claims(&self) -> dynamodb::DynamoDb {
        dynamodb::DynamoDb::new(self.client.clone(), records(&self.name))
    }

    async fn get(&self, id: &str) -> Result<Option<Item>, Error> {
        let answer = self
            .client
            .get_item()
            .table_name(&self.name)
            .set_key(Some(self.key(id)))
            .consistent_read(true)
            .send()
            .await
            .map_err(Error::sdk(&self.name, "GetItem"))?;
        Ok(answer.item)
    }

    async fn put(&self, item: Item) -> Result<(), Error> {
        let put = self.client.put_item().table_name(&self.name).set_item(Some(item));
        put.send().await.map_err(Error::sdk(&self.name, "PutItem"))?;
        Ok(())
    }
}

/// Whether a write's condition was met. An error that says anything else is an error.
fn met<T, E, R>(table: &str, operation: &'static str, written: Result<T, SdkError<E, R>>) -> Result<Option<T>, Error>
where
    E: std::error::Error + ProvideErrorMetadata + 'static,
    R: std::fmt::Debug,
{
    match written {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if is_condition(&error) => Ok(None),
        Err(error) => Err(Error::sdk(table, operation)(error)),
    }
}

fn is_condition<E: ProvideErrorMetadata, R>(error: &SdkError<E, R>) -> bool {
    error.as_service_error().and_then(ProvideErrorMetadata::code) == Some("ConditionalCheckFailedException")
}
