//! The state table of a feed: its keys, its items and the conditions under which they change. Nobody else knows the name of
//! an attribute.
//!
//! | item (`entry_id`) | what it holds |
//! |---|---|
//! | the entry's id | the marker of the entry: its content, and the state of each of its deliveries ([`Marker`]) |
//! | `#feed` | validators, what the last read showed, when to read next ([`FeedState`]) |
//! | `#present#…` | the rest of what the last read showed, if it is too large for `#feed` |
//! | `#limit` | how long a post may be on the Mastodon instance |
//! | `DELIVERY#destination#id` | the claim and the outcome of one delivery, written by `ichido` |
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

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    Client,
    error::{DisplayErrorContext, ProvideErrorMetadata, SdkError},
    types::AttributeValue,
};
use function::item::Item;
use ichido::dynamodb;

pub use delivery::claim_key;
pub(crate) use delivery::delivery_run;
pub use feed::{FeedState, Snapshot};
pub(crate) use marker::order_after_try;
pub use marker::{Delivery, EntryState, Fate, Marker, Pending, SUMMARY_ATTRIBUTES};

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

/// The state table of one feed.
#[derive(Debug, Clone)]
pub struct Table {
    client: Client,
    name: String,
}

impl Table {
    pub fn new(client: Client, name: impl Into<String>) -> Self {
        Table { client, name: name.into() }
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
            .set_key(Some(key(id)))
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

fn key(id: &str) -> Item {
    HashMap::from([(ID.to_owned(), AttributeValue::S(id.to_owned()))])
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
