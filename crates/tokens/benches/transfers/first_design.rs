//! A simpler design to compare with: look for the key through an index, read both balances, write the new ones in a
//! transaction if they have not changed, then mark the transaction as completed.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{Put, TransactWriteItem, Update};
use function::item::{Item, get_number, number, text};
use tokens::identity::did::Did;
use tokens::ledger::Transfer;

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
        let earlier = self
            .client
            .query()
            .table_name(TABLE)
            .index_name("GSI1")
            .key_condition_expression("GSI1PK = :pk")
            .expression_attribute_values(":pk", text(format!("KEY#{}#{}", transfer.sender, transfer.key)))
            .limit(1)
            .send()
            .await
            .expect("a query");
        if earlier.count() > 0 {
            return true;
        }
        let (from, to) = (self.balance(&transfer.sender).await, self.balance(&transfer.recipient).await);
        let amount = i128::from(transfer.amount.units());
        let id = format!("TRANSACTION#{}#{}", transfer.sender, transfer.key);
        let put = Put::builder()
            .table_name(TABLE)
            .set_item(Some(key(&id, "METADATA")))
            .item("GSI1PK", text(format!("KEY#{}#{}", transfer.sender, transfer.key)))
            .item("GSI1SK", text("METADATA"))
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
            .set_key(Some(key(&id, "METADATA")))
            .update_expression("SET #status = :completed")
            .expression_attribute_names("#status", "status")
            .expression_attribute_values(":completed", text("completed"));
        marked.send().await.is_ok()
    }

    async fn balance(&self, did: &Did) -> i128 {
        let get = self.client.get_item().table_name(TABLE).set_key(Some(account(did))).consistent_read(true);
        let item = get.send().await.expect("a read").item.expect("an account");
        get_number(&item, "balance").expect("a balance")
    }
}

fn key(pk: &str, sk: &str) -> Item {
    Item::from([("PK".into(), text(pk)), ("SK".into(), text(sk))])
}

fn account(did: &Did) -> Item {
    key(&format!("ACCOUNT#{did}"), "BALANCE")
}

fn set(did: &Did, from: i128, to: i128) -> TransactWriteItem {
    let update = Update::builder()
        .table_name(TABLE)
        .set_key(Some(account(did)))
        .update_expression("SET balance = :to")
        .condition_expression("balance = :from")
        .expression_attribute_values(":from", number(from))
        .expression_attribute_values(":to", number(to))
        .build()
        .expect("an update");
    TransactWriteItem::builder().update(update).build()
}
