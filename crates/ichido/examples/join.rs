//! `join`: a transfer that moves money once per idempotency key, in one transaction.
//!
//! `cargo run -p ichido --example join` runs it on an embedded DynamoDB, without an AWS account.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::error::Error;

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem, Update};
use ichido::dynamodb::{Join, Table, Verdict};
use ichido::{Clock, DigestKey, Namespace};
use testkit::Dynamo;

fn account(name: &str) -> [(String, AttributeValue); 2] {
    [("PK".into(), AttributeValue::S(format!("ACCOUNT#{name}"))), ("SK".into(), AttributeValue::S("BALANCE".into()))]
}

/// Adds `amount` to a balance, which must not become negative.
fn change(name: &str, amount: i64) -> Result<TransactWriteItem, Box<dyn Error>> {
    let update = Update::builder()
        .table_name("ledger")
        .set_key(Some(account(name).into()))
        .update_expression("SET balance = balance + :amount")
        .condition_expression("balance >= :least")
        .expression_attribute_values(":amount", AttributeValue::N(amount.to_string()))
        .expression_attribute_values(":least", AttributeValue::N((-amount).max(0).to_string()));
    Ok(TransactWriteItem::builder().update(update.build()?).build())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut db = Dynamo::empty();
    db.simple_table("ledger", "PK", Some("SK"), "ttl");
    let client = db.client();
    for (name, balance) in [("alice", 100), ("bob", 0)] {
        let put = client.put_item().table_name("ledger").set_item(Some(account(name).into()));
        put.item("balance", AttributeValue::N(balance.to_string())).send().await?;
    }

    let table = Table::new("ledger", "PK").sort_key("SK", "METADATA");
    let secret = DigestKey::new(b"only an example");
    for (request, key, amount) in
        [("a transfer", "order-7", 30), ("the same again", "order-7", 30), ("another amount", "order-7", 31)]
    {
        let key = Namespace::new("IDEMPOTENCY").key(["did:web:alice", key])?;
        let digests = secret.digests().field("to", "bob").field("amount", amount.to_string()).build();
        let join = Join::new(&table, &key).digests(digests).outcome(&format!("tx of {amount}"))?;
        let answer = client
            .transact_write_items()
            .transact_items(join.item(db.clock().now())?)
            .transact_items(change("alice", -amount)?)
            .transact_items(change("bob", amount)?)
            .send()
            .await;
        let verdict = match join.verdict(&answer)? {
            Verdict::New => "moved".to_owned(),
            Verdict::Replay(recorded) => format!("moved before: {:?}", recorded.outcome::<String>()?),
            Verdict::Mismatch { fields, .. } => format!("refused: the key was used before, and {fields:?} differ"),
            Verdict::Tombstone(_) => "refused before: try again with `replaces`".to_owned(),
            Verdict::NotOurs => format!("not decided by the record: {answer:?}"),
        };
        println!("{request}: {verdict}");
    }
    for name in ["alice", "bob"] {
        let get = client.get_item().table_name("ledger").set_key(Some(account(name).into())).send().await?;
        println!("{name} has {:?}", get.item.and_then(|mut item| item.remove("balance")));
    }
    Ok(())
}
