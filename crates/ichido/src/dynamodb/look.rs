//! Reads the records of a table for an operator's tool: one key, or a list of keys.
//!
//! Nothing here changes a record. Applications do not need it: [`look_through`](DynamoDb::look_through) scans the table.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::Value;

use super::item::{self, Item, attr};
use super::{DynamoDb, classify};
use crate::key::Key;
use crate::record::{self, Record, StateKind};
use crate::store::Error;

/// How many items one request examines.
const PAGE: i32 = 500;

/// The item that is stored under a key.
#[derive(Debug)]
pub struct StoredItem {
    /// The key.
    pub key: Key,
    /// An error if the item is not a record of the library, or has a newer format.
    pub record: Result<Record, record::Error>,
    /// The attributes that belong neither to the library nor to the table's keys.
    pub attributes: BTreeMap<String, Value>,
}

/// Which records to look for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// Only keys that begin with this.
    pub prefix: &'a str,
    /// Only those in this state.
    pub state: Option<StateKind>,
}

/// What a scan of a table found.
#[derive(Debug)]
pub struct Listing {
    /// The items that were found.
    pub items: Vec<StoredItem>,
    /// How many items were examined.
    pub examined: usize,
    /// True if the whole table was examined and everything that was found is listed.
    pub whole: bool,
}

impl DynamoDb {
    /// The item under a key as it is now, whether or not it is a record.
    pub async fn look(&self, key: &Key) -> Result<Option<StoredItem>, Error> {
        Ok(self.item(key).await?.map(|item| self.stored(key.clone(), &item)))
    }

    /// Scans for up to `most` records and examines at most `examine` items, rounded up to a page.
    pub async fn look_through(&self, wanted: Wanted<'_>, most: usize, examine: usize) -> Result<Listing, Error> {
        let mut listing = Listing { items: Vec::new(), examined: 0, whole: false };
        let mut start: Option<Item> = None;
        let mut filter = vec![format!("attribute_exists({})", attr::FORMAT)];
        let mut names = HashMap::new();
        let mut values = Item::new();
        if !wanted.prefix.is_empty() {
            filter.push("begins_with(#pk, :prefix)".to_owned());
            names.insert("#pk".to_owned(), self.table.partition_key.clone());
            values.insert(":prefix".to_owned(), AttributeValue::S(wanted.prefix.to_owned()));
        }
        if let Some(state) = wanted.state {
            filter.push(format!("{} = :state", attr::STATE));
            values.insert(":state".to_owned(), AttributeValue::S(state.name().to_owned()));
        }
        while listing.items.len() < most && listing.examined < examine {
            let scan = self
                .client
                .scan()
                .table_name(&self.table.name)
                .filter_expression(filter.join(" AND "))
                .set_expression_attribute_names(Some(names.clone()).filter(|names| !names.is_empty()))
                .set_expression_attribute_values(Some(values.clone()).filter(|values| !values.is_empty()))
                .set_exclusive_start_key(start.take())
                .limit(PAGE);
            let page = scan.send().await.map_err(classify)?;
            listing.examined += usize::try_from(page.scanned_count).unwrap_or_default();
            for item in page.items.unwrap_or_default() {
                let text = item.get(&self.table.partition_key).and_then(|key| key.as_s().ok());
                if let Some(key) = text.and_then(|text| Key::stored(text).ok()) {
                    listing.items.push(self.stored(key, &item));
                }
            }
            start = page.last_evaluated_key;
            if start.is_none() {
                listing.whole = listing.items.len() <= most;
                break;
            }
        }
        listing.items.truncate(most);
        Ok(listing)
    }

    fn stored(&self, key: Key, item: &Item) -> StoredItem {
        StoredItem {
            key,
            record: item::read(&self.table, item),
            attributes: item::own_attributes(&self.table, item).into_iter().collect(),
        }
    }
}
