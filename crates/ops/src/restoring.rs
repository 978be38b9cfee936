//! Two tables with the same keys: what one has and the other lacks, and how it is copied.
//!
//! Both tables are read page by page, so their size does not matter. Every write is conditional on what was read: an item is
//! added only if it is still missing, and replaced or deleted only if it is still as it was. So a second run goes on where the
//! first one stopped, and a run after that changes nothing.
//!
//! That protects single items, not what belongs together: a transfer changes balances and leaves a record. So writers must be
//! stopped before a table is made as its copy. Where an item turns out to have changed meanwhile, nothing is deleted.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use function::item::{Item, get_number};
use function::operation::Operations;
use ichido::Timestamp;
use serde::Serialize;

use crate::context::{Error, failed};

/// Keys per `BatchGetItem`: DynamoDB takes no more.
const BATCH: usize = 100;
/// How often `BatchGetItem` is asked for the keys that it left out.
const ROUNDS: usize = 8;
/// How many keys of each kind are shown.
const EXAMPLES: usize = 5;

/// The table, and the copy of it.
#[derive(Debug)]
pub(crate) struct Tables {
    pub client: Client,
    pub table: String,
    pub copy: String,
    /// The attributes of the key.
    pub keys: Vec<String>,
    /// The attribute after whose time an item counts as absent.
    pub ttl: Option<String>,
    /// What operators did by hand. It stays in the table, whatever the copy shows: it has happened.
    pub operations: Operations,
}

/// Items of one kind: how many, and some of their keys.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Kind {
    pub count: u64,
    pub examples: Vec<String>,
}

impl Kind {
    fn add(&mut self, key: &str) {
        self.count += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(key.to_owned());
        }
    }
}

/// How two tables differ.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Comparison {
    pub same: u64,
    /// The copy has it, the table does not.
    pub missing: Kind,
    /// Both have it, with other attributes.
    pub different: Kind,
    /// The table has it, the copy does not.
    pub newer: Kind,
    /// The copy has it, but its time is over. It counts as absent.
    pub expired: u64,
}

/// What was written.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Written {
    pub added: u64,
    pub replaced: u64,
    pub deleted: u64,
    /// Somebody wrote to the table meanwhile, so these were left alone.
    pub changed_meanwhile: Kind,
}

/// One difference.
enum Difference {
    Missing { copy: Item },
    Different { table: Item, copy: Item },
    Newer { table: Item },
}

impl Tables {
    /// Compares the two, and changes nothing. With `replace`, what has expired in the copy is newer in the table.
    pub(crate) async fn compare(&self, replace: bool, now: Timestamp) -> Result<Comparison, Error> {
        let mut found = Comparison::default();
        let mut from = None;
        loop {
            let (page, next) = self.page(&self.copy, from).await?;
            let there = self.counterparts(&self.table, &page).await?;
            for item in page {
                let key = self.shown(&item);
                match there.get(&key) {
                    _ if self.is_over(&item, now) => found.expired += 1,
                    None => found.missing.add(&key),
                    Some(there) if *there == item || self.operations.has(there) => found.same += 1,
                    Some(_) => found.different.add(&key),
                }
            }
            from = next;
            if from.is_none() {
                break;
            }
        }
        loop {
            let (page, next) = self.page(&self.table, from).await?;
            let there = self.counterparts(&self.copy, &page).await?;
            for key in page.iter().filter(|item| !self.operations.has(item)).map(|item| self.shown(item)) {
                if there.get(&key).is_none_or(|copy| replace && self.is_over(copy, now)) {
                    found.newer.add(&key);
                }
            }
            from = next;
            if from.is_none() {
                return Ok(found);
            }
        }
    }

    /// Adds what the table lacks, each item as `restored` makes it, and replaces what the copy `supersedes` (the copy's item, the table's).
    /// With `replace`, also makes everything else as the copy shows it.
    pub(crate) async fn write(
        &self,
        replace: bool,
        restored: fn(Item) -> Item,
        supersedes: fn(&Item, &Item) -> bool,
        now: Timestamp,
    ) -> Result<Written, Error> {
        let mut written = Written::default();
        let mut from = None;
        loop {
            let (page, next) = self.page(&self.copy, from).await?;
            let mut there = self.counterparts(&self.table, &page).await?;
            for copy in page {
                let difference = match there.remove(&self.shown(&copy)) {
                    _ if self.is_over(&copy, now) => continue,
                    None => Difference::Missing { copy: restored(copy) },
                    Some(table) if self.operations.has(&table) => continue,
                    Some(table) if replace && table != copy => Difference::Different { table, copy },
                    Some(table) if supersedes(&copy, &table) => Difference::Different { table, copy: restored(copy) },
                    Some(_) => continue,
                };
                self.resolve(difference, &mut written).await?;
            }
            from = next;
            if from.is_none() {
                break;
            }
        }
        if replace {
            self.delete_newer(&mut written, now).await?;
        }
        Ok(written)
    }

    /// Deletes what the copy does not have. Deletes nothing if somebody wrote meanwhile: the records of what was written would go, and
    /// its effects would stay.
    async fn delete_newer(&self, written: &mut Written, now: Timestamp) -> Result<(), Error> {
        if written.changed_meanwhile.count > 0 {
            return Ok(());
        }
        let mut from = None;
        loop {
            let (page, next) = self.page(&self.table, from).await?;
            let there = self.counterparts(&self.copy, &page).await?;
            for table in page.into_iter().filter(|item| !self.operations.has(item)) {
                if there.get(&self.shown(&table)).is_none_or(|copy| self.is_over(copy, now)) {
                    self.resolve(Difference::Newer { table }, written).await?;
                }
            }
            from = next;
            if from.is_none() {
                return Ok(());
            }
        }
    }

    async fn resolve(&self, difference: Difference, written: &mut Written) -> Result<(), Error> {
        let what = |call: &str| format!("could not write to {}; check the permission dynamodb:{call}", self.table);
        let (done, item) = match difference {
            Difference::Missing { copy } => {
                let absent = format!("attribute_not_exists({})", self.keys.first().map_or("", String::as_str));
                let put = self.client.put_item().table_name(&self.table).set_item(Some(copy.clone()));
                let done = met(put.condition_expression(absent).send().await, || what("PutItem"))?;
                written.added += u64::from(done);
                (done, copy)
            }
            Difference::Different { table, copy } => {
                let Unchanged { condition, names, values } = Unchanged::of(&table);
                let put = self.client.put_item().table_name(&self.table).set_item(Some(copy.clone()));
                let put = put.condition_expression(condition).set_expression_attribute_names(Some(names));
                let done = met(put.set_expression_attribute_values(Some(values)).send().await, || what("PutItem"))?;
                written.replaced += u64::from(done);
                (done, copy)
            }
            Difference::Newer { table } => {
                let Unchanged { condition, names, values } = Unchanged::of(&table);
                let delete = self.client.delete_item().table_name(&self.table).set_key(Some(self.key(&table)));
                let delete = delete.condition_expression(condition).set_expression_attribute_names(Some(names));
                let done =
                    met(delete.set_expression_attribute_values(Some(values)).send().await, || what("DeleteItem"))?;
                written.deleted += u64::from(done);
                (done, table)
            }
        };
        if !done {
            written.changed_meanwhile.add(&self.shown(&item));
        }
        Ok(())
    }

    async fn page(&self, table: &str, from: Option<Item>) -> Result<(Vec<Item>, Option<Item>), Error> {
        let scan = self.client.scan().table_name(table).consistent_read(true).set_exclusive_start_key(from);
        let page = scan.send().await.map_err(|error| {
            failed(format!("could not read {table}; check its name and the permission dynamodb:Scan"), error)
        })?;
        Ok((page.items.unwrap_or_default(), page.last_evaluated_key))
    }

    /// The items of a table with the keys of these items, by their shown keys.
    async fn counterparts(&self, table: &str, items: &[Item]) -> Result<HashMap<String, Item>, Error> {
        let mut found = HashMap::new();
        for batch in items.chunks(BATCH) {
            let mut keys: Vec<Item> = batch.iter().map(|item| self.key(item)).collect();
            for _ in 0..ROUNDS {
                let wanted = KeysAndAttributes::builder().set_keys(Some(std::mem::take(&mut keys)));
                let wanted = wanted.consistent_read(true).build().map_err(|error| failed("no keys", error))?;
                let answer = self.client.batch_get_item().request_items(table, wanted).send().await;
                let answer = answer.map_err(|error| {
                    failed(format!("could not read {table}; check the permission dynamodb:BatchGetItem"), error)
                })?;
                let of_table = answer.responses.unwrap_or_default().remove(table).unwrap_or_default();
                found.extend(of_table.into_iter().map(|item| (self.shown(&item), item)));
                let left = answer.unprocessed_keys.unwrap_or_default().remove(table);
                keys = left.map(|left| left.keys).unwrap_or_default();
                if keys.is_empty() {
                    break;
                }
            }
            if !keys.is_empty() {
                return Err(Error::Refused(format!("DynamoDB throttles the reads of {table}; try again later")));
            }
        }
        Ok(found)
    }

    fn key(&self, item: &Item) -> Item {
        self.keys.iter().filter_map(|name| Some((name.clone(), item.get(name)?.clone()))).collect()
    }

    /// The key of an item in one line.
    fn shown(&self, item: &Item) -> String {
        let part = |name: &String| match item.get(name) {
            Some(AttributeValue::S(text) | AttributeValue::N(text)) => text.clone(),
            other => format!("{other:?}"),
        };
        self.keys.iter().map(part).collect::<Vec<_>>().join(" ")
    }

    fn is_over(&self, item: &Item, now: Timestamp) -> bool {
        let ttl: Option<u64> = self.ttl.as_ref().and_then(|ttl| get_number(item, ttl));
        ttl.is_some_and(|ttl| ttl <= now.as_secs())
    }
}

/// The condition that an item is as it was read.
struct Unchanged {
    condition: String,
    names: HashMap<String, String>,
    values: Item,
}

impl Unchanged {
    fn of(item: &Item) -> Self {
        let (mut parts, mut names, mut values) = (Vec::new(), HashMap::new(), Item::new());
        for (at, (name, value)) in item.iter().enumerate() {
            parts.push(format!("#n{at} = :v{at}"));
            names.insert(format!("#n{at}"), name.clone());
            values.insert(format!(":v{at}"), value.clone());
        }
        Unchanged { condition: parts.join(" AND "), names, values }
    }
}

/// Whether a write's condition was met.
fn met<T, E, R>(written: Result<T, SdkError<E, R>>, what: impl Fn() -> String) -> Result<bool, Error>
where
    E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
{
    match written {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some("ConditionalCheckFailedException") => Ok(false),
        Err(error) => Err(failed(what(), error)),
    }
}

#[cfg(test)]
mod tests {
    use function::item::{number, text};
    use testkit::Dynamo;

    use super::*;
    use crate::applications::Application;

    fn item(balance: u32) -> Item {
        Item::from([
            ("PK".to_owned(), text("ACCOUNT#did:key:alice")),
            ("SK".to_owned(), text("BALANCE")),
            ("balance".to_owned(), number(balance)),
        ])
    }

    #[tokio::test]
    async fn what_somebody_wrote_after_it_was_read_is_left_alone_and_named() {
        let db = Dynamo::start(&["infra/templates/tokens.yaml"]).await;
        let tables = Tables {
            client: db.client(),
            table: db.table("TokensTable").to_owned(),
            copy: "copy".to_owned(),
            keys: vec!["PK".to_owned(), "SK".to_owned()],
            ttl: None,
            operations: Application::Tokens.operations(db.table("TokensTable")),
        };
        let put = || tables.client.put_item().table_name(&tables.table);
        put().set_item(Some(item(7))).send().await.unwrap();
        let mut written = Written::default();
        for stale in [
            Difference::Missing { copy: item(1) },
            Difference::Different { table: item(2), copy: item(1) },
            Difference::Newer { table: item(2) },
        ] {
            tables.resolve(stale, &mut written).await.unwrap();
        }
        assert_eq!((written.added, written.replaced, written.deleted), (0, 0, 0));
        assert_eq!(written.changed_meanwhile.count, 3);
        assert_eq!(written.changed_meanwhile.examples[0], "ACCOUNT#did:key:alice BALANCE");
        let there = tables.page(&tables.table, None).await.unwrap().0;
        assert_eq!(there, [item(7)]);
        tables.resolve(Difference::Different { table: item(7), copy: item(1) }, &mut written).await.unwrap();
        assert_eq!(written.replaced, 1);
    }

    #[tokio::test]
    async fn nothing_newer_is_deleted_if_somebody_wrote_meanwhile() {
        let db = Dynamo::start(&["infra/templates/tokens.yaml"]).await;
        let client = db.client();
        let described =
            client.describe_table().table_name(db.table("TokensTable")).send().await.unwrap().table.unwrap();
        let key = |each: &&aws_sdk_dynamodb::types::AttributeDefinition| ["PK", "SK"].contains(&each.attribute_name());
        let create = client.create_table().table_name("copy").set_key_schema(described.key_schema.clone());
        let create = create
            .set_attribute_definitions(Some(described.attribute_definitions().iter().filter(key).cloned().collect()));
        create.billing_mode(aws_sdk_dynamodb::types::BillingMode::PayPerRequest).send().await.unwrap();
        let tables = Tables {
            client,
            table: db.table("TokensTable").to_owned(),
            copy: "copy".to_owned(),
            keys: vec!["PK".to_owned(), "SK".to_owned()],
            ttl: None,
            operations: Application::Tokens.operations(db.table("TokensTable")),
        };
        tables.client.put_item().table_name(&tables.table).set_item(Some(item(7))).send().await.unwrap();
        let now = Timestamp::from_secs(1);
        let mut written = Written::default();
        tables.resolve(Difference::Missing { copy: item(1) }, &mut written).await.unwrap();
        tables.delete_newer(&mut written, now).await.unwrap();
        assert_eq!((written.changed_meanwhile.count, written.deleted), (1, 0));
        let operation =
            Item::from([("PK".to_owned(), text("OPERATION#2026-11")), ("SK".to_owned(), text("OPERATION#1"))]);
        let put = tables.client.put_item().table_name(&tables.table).set_item(Some(operation.clone()));
        put.send().await.unwrap();
        tables.client.put_item().table_name(&tables.table).set_item(Some(item(7))).send().await.unwrap();
        assert_eq!(tables.compare(true, now).await.unwrap().newer.count, 1);
        tables.delete_newer(&mut Written::default(), now).await.unwrap();
        let left = tables.page(&tables.table, None).await.unwrap().0;
        assert_eq!(left, [operation], "without a writer it is deleted, and what an operator did stays");
    }
}
