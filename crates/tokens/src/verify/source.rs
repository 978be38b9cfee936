//! Where a verification reads: the table in DynamoDB. In the tests of this module it is a table that changes between any
//! two reads.

use std::future::Future;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::KeysAndAttributes;
use ichido::dynamodb::classify;

use super::Error;
use crate::identity::did::Did;
use crate::ledger::History;
use crate::table::{self, Item, Name};

/// How many items DynamoDB returns for one list of keys.
const BATCH: usize = 100;

/// Some items, and where to go on reading.
pub(super) type Page = (Vec<Item>, Option<Item>);

/// Every read is consistent, except that the history of received entries comes from an index, which follows the table.
pub(super) trait Source: Sync {
    /// A page of the whole table.
    fn scan(&self, start: Option<Name>) -> impl Future<Output = Result<Page, Error>> + Send;

    /// The items of these names that are there.
    fn get(&self, names: &[Name]) -> impl Future<Output = Result<Vec<Item>, Error>> + Send;

    /// A page of a history.
    fn history(
        &self,
        history: History,
        did: &Did,
        start: Option<Item>,
    ) -> impl Future<Output = Result<Page, Error>> + Send;
}

/// A table in DynamoDB.
#[derive(Debug)]
pub(super) struct Dynamo<'a> {
    pub(super) client: &'a Client,
    pub(super) table_name: &'a str,
}

impl Source for Dynamo<'_> {
    async fn scan(&self, start: Option<Name>) -> Result<Page, Error> {
        let scan = self.client.scan().table_name(self.table_name).consistent_read(true);
        let scan = scan.set_exclusive_start_key(start.map(|name| name.key())).limit(table::PAGE);
        let page = scan.send().await.map_err(|error| Error::Store(classify(error)))?;
        Ok((page.items.unwrap_or_default(), page.last_evaluated_key))
    }

    async fn get(&self, names: &[Name]) -> Result<Vec<Item>, Error> {
        let mut items = Vec::new();
        for batch in names.chunks(BATCH) {
            let keys = batch.iter().map(Name::key).collect();
            let mut left = KeysAndAttributes::builder().consistent_read(true).set_keys(Some(keys)).build().ok();
            // Each round returns at least one item, or is an error that the SDK has tried to get over.
            while let Some(keys) = left.take() {
                let read = self.client.batch_get_item().request_items(self.table_name, keys).send().await;
                let read = read.map_err(|error| Error::Store(classify(error)))?;
                items.extend(read.responses.unwrap_or_default().remove(self.table_name).unwrap_or_default());
                left = read.unprocessed_keys.unwrap_or_default().remove(self.table_name);
            }
        }
        Ok(items)
    }

    async fn history(&self, history: History, did: &Did, start: Option<Item>) -> Result<Page, Error> {
        let query = self.client.query().table_name(self.table_name);
        // A DID that is too long for a key has no history.
        let Ok(query) = table::whole_history(query, history, did, start) else { return Ok((Vec::new(), None)) };
        let page = query.send().await.map_err(|error| Error::Store(classify(error)))?;
        Ok((page.items.unwrap_or_default(), page.last_evaluated_key))
    }
}
