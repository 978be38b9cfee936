//! The seed's first design, straightforwardly: look for the key through the index, read both balances, write the new ones in
//! a transaction if they have not changed, then mark the transaction as completed.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{Put, TransactWriteItem, Update};
use tokens::entry::Account;
use tokens::plan::Transfer;
use tokens::table::{self, Item, number, text};

use crate::aws::TABLE;

/// How often a transfer that met another one is tried again from the beginning.
const ATTEMPTS: u32 = 20;

#[derive(Clone, Debug)]
pub(crate) struct FirstDesign {
    client: Client,
}

impl FirstDesign {
    pub(crate) fn new(client: Client) -> Self {
        FirstDesign { client }
    }

    pub(crate) async fn transfer(&self, transfer: &Transfer) -> bool {
        for attempt in 0..ATTEMPTS {
            if self.attempt(transfer).await {
                return true;
            }
            let longest = 20_u64 << attempt.min(5);
            tokio::time::sleep(std::time::Duration::from_millis(fastrand::u64(1..=longest))).await;
        }
        false
    }

    async fn attempt(&self, transfer: &Transfer) -> bool {
        let seen = self
            .client
            .query()
            .table_name(TABLE)
            .index_name(table::INDEX)
            .key_condition_expression("GSI1PK = :pk")
            .expression_attribute_values(":pk", text(format!("KEY#{}#{}", transfer.sender, transfer.key)))
            .limit(1)
            .send()
            .await
            .expect("a query");
        if seen.count() > 0 {
            return true;
        }
        let (from, to) = (self.balance(&transfer.sender).await, self.balance(&transfer.recipient).await);
        let amount = i128::from(transfer.amount.units());
        let id = format!("TRANSACTION#{}#{}", transfer.sender, transfer.key);
        let put = Put::builder()
            .table_name(TABLE)
            .item(table::PK, text(&id))
            .item(table::SK, text("METADATA"))
            .item(table::INDEX_PK, text(format!("KEY#{}#{}", transfer.sender, transfer.key)))
            .item(table::INDEX_SK, text("METADATA"))
            .item("status", text("pending"))
            .build()
            .expect("a put");
        let written = self
            .client
            .transact_write_items()
            .transact_items(TransactWriteItem::builder().put(put).build())
            .transact_items(set(&transfer.sender, from, from - amount))
            .transact_items(set(&transfer.recipient, to, to + amount))
            .send()
            .await;
        if written.is_err() {
            return false;
        }
        let marked = self
            .client
            .update_item()
            .table_name(TABLE)
            .key(table::PK, text(&id))
            .key(table::SK, text("METADATA"))
            .update_expression("SET #status = :completed")
            .expression_attribute_names("#status", "status")
            .expression_attribute_values(":completed", text("completed"));
        marked.send().await.is_ok()
    }

    async fn balance(&self, did: &tokens::did::Did) -> i128 {
        let get = self.client.get_item().table_name(TABLE).set_key(Some(key(did))).consistent_read(true);
        let item = get.send().await.expect("a read").item.expect("an account");
        table::int(&item, table::BALANCE).expect("a balance")
    }
}

fn key(did: &tokens::did::Did) -> Item {
    let pk = table::account_pk(&Account::Of(did.clone())).expect("a key");
    Item::from([(table::PK.into(), text(pk)), (table::SK.into(), text(table::BALANCE_SK))])
}

fn set(did: &tokens::did::Did, from: i128, to: i128) -> TransactWriteItem {
    let update = Update::builder()
        .table_name(TABLE)
        .set_key(Some(key(did)))
        .update_expression("SET balance = :to")
        .condition_expression("balance = :from")
        .expression_attribute_values(":from", number(from))
        .expression_attribute_values(":to", number(to))
        .build()
        .expect("an update");
    TransactWriteItem::builder().update(update).build()
}
