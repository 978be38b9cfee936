//! Looking at a table's records from outside, as an operator's tool does: one by its stored text, or a few of them.
//!
//! Nothing here changes anything, and no application needs it: [`look_through`](DynamoDb::look_through) scans.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::Value;

use super::item::{self, Item, attr};
use super::{DynamoDb, classify};
use crate::key::Key;
use crate::record::{self, Record, StateKind};
use crate::store::Error;

/// Items that one request examines.
const PAGE: i32 = 500;

/// An item under a key.
#[derive(Debug)]
pub struct StoredItem {
    pub key: Key,
    /// An error if the item is none of the library's, or of a newer format.
    pub record: Result<Record, record::Error>,
    /// What is not the library's, nor a key of the table.
    pub attributes: BTreeMap<String, Value>,
}

/// Which records to look for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// Keys that begin so.
    pub prefix: &'a str,
    /// Only those in this state.
    pub state: Option<StateKind>,
}

/// What a look through a table found.
#[derive(Debug)]
pub struct Listing {
    pub items: Vec<StoredItem>,
    /// Items that were looked at.
    pub examined: usize,
    /// Was that all of the table?
    pub whole: bool,
}

impl DynamoDb {
    /// The item under a key, record or not, as it is now.
    pub async fn look(&self, key: &Key) -> Result<Option<StoredItem>, Error> {
        Ok(self.item(key).await?.map(|item| self.stored(key.clone(), &item)))
    }

    /// Scans for up to `most` records, looking at `examine` items at most (rounded up to a page).
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
        let own = item.iter().filter(|(name, _)| !self.table.is_reserved(name));
        StoredItem {
            key,
            record: item::read(&self.table, item),
            attributes: own.map(|(name, value)| (name.clone(), json(value))).collect(),
        }
    }
}

/// An attribute value as JSON; numbers that JSON's reader cannot hold stay text, binary is its size.
fn json(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => Value::from(text.as_str()),
        AttributeValue::N(digits) => serde_json::from_str(digits).unwrap_or_else(|_| Value::from(digits.as_str())),
        AttributeValue::Bool(flag) => Value::from(*flag),
        AttributeValue::L(list) => list.iter().map(json).collect(),
        AttributeValue::M(map) => Value::Object(map.iter().map(|(name, value)| (name.clone(), json(value))).collect()),
        AttributeValue::Ss(list) | AttributeValue::Ns(list) => list.iter().map(String::as_str).collect(),
        AttributeValue::B(bytes) => Value::from(format!("{} bytes", bytes.as_ref().len())),
        _ => Value::Null,
    }
}
