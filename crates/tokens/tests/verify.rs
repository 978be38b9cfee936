//! The verification finds what is wrong, and reports nothing that is right, also while others write to the table.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::*;
use serde_json::{Value, json};
use testkit::faults::{Fault, Rule};
use tokens::settings::Rules;
use tokens::verify::Finding;

async fn busy() -> World {
    let world = World::new(Rules { tax_rate: "0.05".parse().unwrap(), ..Rules::default() }, 1).await;
    world.open(&["alice", "bob"]).await;
    for n in 0..5 {
        world.send("alice", "bob", "10", &format!("k{n}")).await.unwrap();
    }
    world
}

fn put(world: &World, item: Value) {
    world.db.must("PutItem", &json!({ "TableName": world.table(), "Item": item }));
}

/// The item under `prefix`, changed.
fn change(world: &World, prefix: &str, name: &str, value: Value) {
    let mut item = world.items(prefix).remove(0);
    item[name] = value;
    put(world, item);
}

async fn problems(world: &World) -> Vec<String> {
    let findings = world.verify().await.findings;
    findings
        .iter()
        .map(|finding| serde_json::to_value(finding).unwrap()["problem"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_sound_table_is_proven() {
    let world = busy().await;
    let report = world.verify().await;
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.grants.to_string(), report.balances.to_string()), ("2000".into(), "2000".into()));
    assert_eq!(report.entries, 2 + 5);
}

#[tokio::test]
async fn a_balance_that_was_edited_is_found_and_so_is_the_total() {
    let world = busy().await;
    change(&world, "ACCOUNT#did:key:alice", "balance", json!({ "N": "1" }));
    assert_eq!(problems(&world).await, ["balanceDiffers", "totalDiffers"]);
    let finding = world.verify().await.findings.remove(0);
    assert!(matches!(&finding, Finding::BalanceDiffers { account, .. } if account == "did:key:alice"), "{finding:?}");
}

#[tokio::test]
async fn a_lost_entry_is_found_also_when_sums_happen_to_agree() {
    let world = busy().await;
    let entry = world.items("SENT#").remove(0);
    let key = json!({ "PK": entry["PK"], "SK": entry["SK"] });
    world.db.must("DeleteItem", &json!({ "TableName": world.table(), "Key": key }));
    let found = problems(&world).await;
    assert!(found.contains(&"balanceDiffers".into()) && found.contains(&"entryMissing".into()), "{found:?}");
}

#[tokio::test]
async fn an_entry_that_makes_money_is_found() {
    let world = busy().await;
    let mut entry = world.items("SENT#").remove(0);
    entry["postings"]["M"]["ACCOUNT#did:key:bob"]["N"] = json!("99999999999");
    put(&world, entry);
    let found = problems(&world).await;
    assert!(found.contains(&"unbalanced".into()) && found.contains(&"balanceDiffers".into()), "{found:?}");
}

#[tokio::test]
async fn a_negative_balance_and_an_unreadable_item_are_found() {
    let world = busy().await;
    change(&world, "ACCOUNT#did:key:bob", "balance", json!({ "N": "-5" }));
    change(&world, "SENT#", "kind", json!({ "S": "gift" }));
    let found = problems(&world).await;
    assert!(found.contains(&"negative".into()) && found.contains(&"unreadable".into()), "{found:?}");
}

#[tokio::test]
async fn what_an_operator_did_is_no_mistake_unless_it_lacks_who_did_it() {
    let world = busy().await;
    let text = |text: &str| json!({ "S": text });
    let mut operation = json!({
        "PK": text("OPERATION#2026-11"), "SK": text("OPERATION#2026-11-17T19:30:00.000Z#1"), "operation": text("freeze"),
        "on": text("did:key:bob"), "by": text("arn:aws:iam::1:user/olga"), "reason": text("a test"), "shown": text("{}"),
        "begunAt": text("2026-11-17T19:30:00.000Z"),
    });
    put(&world, operation.clone());
    assert!(world.verify().await.is_clean());
    operation.as_object_mut().unwrap().remove("by");
    put(&world, operation);
    assert_eq!(problems(&world).await, ["unreadable"]);
}

#[tokio::test]
async fn an_account_that_vanished_is_found() {
    let world = busy().await;
    let key = json!({ "PK": { "S": "ACCOUNT#did:key:bob" }, "SK": { "S": "BALANCE" } });
    world.db.must("DeleteItem", &json!({ "TableName": world.table(), "Key": key }));
    assert!(problems(&world).await.contains(&"accountMissing".into()));
}

#[tokio::test]
async fn on_a_table_that_moves_nothing_sound_is_called_wrong() {
    let world = busy().await;
    // So small a table has only one page. So transfers are made while the scan is slow to answer.
    world.db.faults().put(Rule::new(Fault::Slow(std::time::Duration::from_millis(50))).on("Scan"));
    let sent = AtomicU64::new(0);
    let writer = async {
        for n in 0..30 {
            world.send("alice", "bob", "1", &format!("live{n}")).await.unwrap();
            sent.fetch_add(1, Ordering::SeqCst);
            ichido::Clock::sleep(&world.clock, std::time::Duration::from_millis(7)).await;
        }
    };
    let (report, ()) = futures::join!(world.verify(), writer);
    assert!(report.findings.is_empty(), "{report:#?}");
    assert_eq!(sent.load(Ordering::SeqCst), 30);
    world.db.faults().heal();
    assert!(world.verify().await.is_clean());
}

// Shards

/// Bob's account has shards, some of which were paid.
async fn sharded() -> World {
    let world = busy().await;
    world.db.faults().put(Rule::new(Fault::ConflictOn("ACCOUNT#did:key:bob")).on("TransactWriteItems").rate(0.6));
    for n in 0..20 {
        world.send("alice", "bob", "10", &format!("hot{n}")).await.unwrap();
    }
    world.db.faults().heal();
    assert!(world.verify().await.is_clean());
    world
}

/// A shard that holds something.
fn shard(world: &World) -> Value {
    let holds = |item: &Value| item["balance"]["N"] != "0" && item["SK"]["S"] != "BALANCE";
    world.items("ACCOUNT#did:key:bob").into_iter().find(holds).unwrap()
}

#[tokio::test]
async fn an_account_with_shards_is_one_account_and_proven() {
    let world = sharded().await;
    let report = world.verify().await;
    let treasury = world.items("TREASURY#").len() as u64;
    assert_eq!((report.accounts, report.entries), (2 + treasury, 2 + 5 + 20));
    // A fold changes many shards in one entry.
    world.send("bob", "alice", "1150", "fold").await.unwrap();
    assert!(world.verify().await.is_clean());
}

#[tokio::test]
async fn a_shard_that_was_edited_or_is_negative_is_found() {
    for (balance, problem) in [("1", "balanceDiffers"), ("-1", "negative")] {
        let world = sharded().await;
        let mut item = shard(&world);
        item["balance"] = json!({ "N": balance });
        put(&world, item);
        let found = problems(&world).await;
        assert!(found.contains(&problem.into()) && found.contains(&"totalDiffers".into()), "{found:?}");
    }
}

#[tokio::test]
async fn a_shard_that_vanished_is_found() {
    let world = sharded().await;
    let item = shard(&world);
    let key = json!({ "PK": item["PK"], "SK": item["SK"] });
    world.db.must("DeleteItem", &json!({ "TableName": world.table(), "Key": key }));
    assert_eq!(problems(&world).await, ["accountMissing", "totalDiffers"]);
}

#[tokio::test]
async fn a_shard_that_is_not_as_its_account_is_found() {
    for (name, value) in [("status", json!({ "S": "frozen" })), ("folds", json!({ "N": "3" }))] {
        let world = sharded().await;
        let mut item = shard(&world);
        item[name] = value;
        put(&world, item);
        assert_eq!(problems(&world).await, ["shardDiffers"], "{name}");
    }
    // A version that knows nothing of shards has frozen the account.
    let world = sharded().await;
    let mut account = world.items("ACCOUNT#did:key:bob").into_iter().find(|item| item["SK"]["S"] == "BALANCE").unwrap();
    account["status"] = json!({ "S": "frozen" });
    put(&world, account);
    assert_eq!(problems(&world).await, vec!["shardDiffers"; 47]);
    world.ledger.set_frozen(&did("bob"), true, "test").await.unwrap();
    assert!(world.verify().await.is_clean());
}

#[tokio::test]
async fn an_entry_whose_parts_are_not_what_the_account_got_is_found() {
    let world = sharded().await;
    let mut entry = world.items("SENT#").into_iter().find(|entry| entry.get("parts").is_some()).unwrap();
    let name = entry["parts"]["M"].as_object().unwrap().keys().next().unwrap().clone();
    entry["parts"]["M"][&name]["N"] = json!("5");
    put(&world, entry);
    let found = problems(&world).await;
    assert!(found.contains(&"unreadable".into()), "{found:?}");
}
