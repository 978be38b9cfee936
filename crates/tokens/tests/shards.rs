//! An account that many pay at once: its shards come into being, are paid, pay, are frozen, and are one account all the while.

use std::time::Duration;

use crate::support::*;
use futures::future::join_all;
use serde_json::{Value, json};
use testkit::faults::{Fault, Rule};
use testkit::{interrupt, race};
use tokens::ledger::{Error, Grant, Obstacle};
use tokens::settings::Rules;

const BOB: &str = "ACCOUNT#did:key:bob";
const MEETS: Fault = Fault::ConflictOn(BOB);

/// The `n`-th transaction from now on meets another one that has something of bob's.
fn meets(world: &World, n: u64) {
    world.db.faults().only(Rule::new(MEETS).on("TransactWriteItems").call(n));
}

/// Bob has 1000 and in his shards what eve, who met others at every first attempt, has sent him.
async fn rich() -> World {
    let world = world().await;
    world.open(&["alice", "bob", "eve"]).await;
    // so that the grants are the oldest
    world.clock.advance(Duration::from_millis(1));
    world.give_shards("alice", "bob").await;
    for n in 0..10 {
        meets(&world, 1);
        // Another instance, which does not know that bob's account is hot.
        let instance = world.instance(Rules::default(), n + 100);
        let request = transfer("eve", "bob", "100", &format!("k{n}"));
        instance.transfer(&request, world.until()).await.unwrap();
        world.db.faults().heal();
    }
    assert_eq!(world.balance("bob").await, "2000");
    assert!(units(&account(&world)) < 120_000_000_000, "{:?}", world.items(BOB));
    world
}

/// The item of bob's account itself.
fn account(world: &World) -> Value {
    world.items(BOB).into_iter().find(|item| item["SK"]["S"] == "BALANCE").unwrap()
}

fn shards(world: &World) -> Vec<Value> {
    world.items(BOB).into_iter().filter(|item| item["SK"]["S"] != "BALANCE").collect()
}

fn units(item: &Value) -> u64 {
    item["balance"]["N"].as_str().unwrap().parse().unwrap()
}

fn calls(world: &World) -> Vec<(String, u64)> {
    let calls = world.db.calls().iter().map(|(name, count)| (name.to_owned(), count)).collect();
    world.db.reset_calls();
    calls
}

fn some(calls: &[(&str, u64)]) -> Vec<(String, u64)> {
    calls.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

// How they come into being

#[tokio::test]
async fn one_conflict_makes_no_shards_and_two_make_them() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    meets(&world, 1);
    world.send("alice", "bob", "1", "once").await.unwrap();
    assert_eq!(world.items(BOB).len(), 1);
    world.db.faults().heal();
    world.db.reset_calls();
    // The account, a shard that is not there, the account again; it is open and has no shards; they are made; one is paid.
    meets_twice(&world, MEETS);
    world.send("alice", "bob", "1", "twice").await.unwrap();
    assert_eq!(calls(&world), some(&[("Query", 1), ("TransactWriteItems", 5)]));
    let shards = shards(&world);
    assert_eq!(shards.len(), 47);
    assert_eq!(shards.iter().map(units).sum::<u64>(), 100_000_000);
    assert!(shards.iter().all(|shard| shard["status"]["S"] == "open"), "{shards:?}");
    assert_eq!(world.balance("bob").await, "1002");
    world.assert_sound().await;
}

#[tokio::test]
async fn an_account_that_is_frozen_or_absent_gets_no_shards() {
    let world = world().await;
    world.open(&["alice", "bob", "carol"]).await;
    // Frozen by a version that knew nothing of shards.
    let mut frozen = account(&world);
    frozen["status"] = json!({ "S": "frozen" });
    world.db.must("PutItem", &json!({ "TableName": world.table(), "Item": frozen }));
    for name in ["bob", "nobody"] {
        meets_twice(&world, Fault::ConflictOn("ACCOUNT#"));
        let expected = if name == "bob" { Obstacle::RecipientFrozen } else { Obstacle::RecipientNotFound };
        assert_eq!(refusal(world.send("alice", name, "1", "k").await), expected);
        world.db.faults().heal();
    }
    assert_eq!((world.items(BOB).len(), world.items("ACCOUNT#did:key:nobody").len()), (1, 0));
}

// What they cost

#[tokio::test]
async fn a_quiet_account_with_shards_is_paid_and_pays_in_one_call() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    world.give_shards("alice", "bob").await;
    let fresh = world.instance(Rules::default(), 77);
    world.db.reset_calls();
    fresh.transfer(&transfer("alice", "bob", "100", "in"), world.until()).await.unwrap();
    assert_eq!(calls(&world), some(&[("TransactWriteItems", 1)]));
    fresh.transfer(&transfer("bob", "alice", "1099", "out"), world.until()).await.unwrap();
    assert_eq!(calls(&world), some(&[("TransactWriteItems", 1)]));
    let held = fresh.holding(&did("bob")).await.unwrap().unwrap();
    assert_eq!(calls(&world), some(&[("Query", 1)]));
    assert_eq!(held.balance.to_string(), world.balance("bob").await);
}

#[tokio::test]
async fn a_hot_account_is_paid_at_a_shard_in_one_call_until_it_cools_down() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    world.give_shards("alice", "bob").await;
    let paid = async |key: &str| {
        let before = units(&account(&world));
        world.db.reset_calls();
        world.send("alice", "bob", "1", key).await.unwrap();
        assert_eq!(calls(&world), some(&[("TransactWriteItems", 1)]));
        units(&account(&world)) > before
    };
    let mut at_the_account = 0;
    for n in 0..20 {
        at_the_account += u32::from(paid(&format!("hot{n}")).await);
    }
    assert_eq!(at_the_account, 0);
    world.clock.advance(Duration::from_secs(10));
    assert!(paid("cool").await);
    world.assert_sound().await;
}

// Balances

#[tokio::test]
async fn everybody_sees_a_transfer_at_once_wherever_it_went() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    world.give_shards("alice", "bob").await;
    for n in 0..30 {
        let chance = if n % 3 == 0 { 0.0 } else { 0.4 };
        world.db.faults().only(Rule::new(MEETS).on("TransactWriteItems").rate(chance));
        world.send("alice", "bob", "10", &format!("k{n}")).await.unwrap();
        world.db.faults().heal();
        assert_eq!(world.balance("bob").await, format!("{}", 1000 + 10 * (n + 1)));
    }
    world.assert_sound().await;
}

#[tokio::test]
async fn entries_say_which_shard_was_paid_and_what_the_account_got() {
    let world = rich().await;
    let entries = world.items("SENT#did:key:eve");
    let mut at_shards = 0;
    for entry in &entries {
        // All that a version without shards knows.
        assert_eq!(entry["postings"]["M"][BOB]["N"], "10000000000");
        if let Some(parts) = entry.get("parts") {
            at_shards += 1;
            let parts = parts["M"].as_object().unwrap();
            assert_eq!(parts.len(), 1);
            assert!(parts.keys().all(|name| name.starts_with("ACCOUNT#did:key:bob#")), "{parts:?}");
        }
    }
    assert!(at_shards >= 8, "{at_shards} of {}", entries.len());
    let statement = world.ledger.statement(&did("bob"), None, 100).await.unwrap();
    assert_eq!(statement.rows[0].balance.to_string(), world.balance("bob").await);
    assert_eq!(statement.rows.last().unwrap().balance.to_string(), "1000");
}

// Paying

#[tokio::test]
async fn a_payment_that_the_account_alone_cannot_make_folds_the_shards() {
    let world = rich().await;
    let had = world.balance("bob").await;
    world.db.reset_calls();
    world.send("bob", "alice", "1500", "rent").await.unwrap();
    assert_eq!(calls(&world), some(&[("Query", 1), ("TransactWriteItems", 2)]));
    assert!(shards(&world).iter().all(|shard| units(shard) == 0), "{:?}", shards(&world));
    assert_eq!(world.balance("bob").await, (had.parse::<u64>().unwrap() - 1500).to_string());
    // The account can pay alone again.
    world.db.reset_calls();
    world.send("bob", "alice", "400", "tea").await.unwrap();
    assert_eq!(calls(&world), some(&[("TransactWriteItems", 1)]));
    let statement = world.ledger.statement(&did("bob"), None, 100).await.unwrap();
    assert_eq!(statement.rows[0].balance.to_string(), world.balance("bob").await);
    world.assert_sound().await;
}

#[tokio::test]
async fn a_payment_of_everything_leaves_nothing_anywhere() {
    let world = rich().await;
    let all = world.balance("bob").await;
    assert_eq!(
        refusal(world.send("bob", "alice", &format!("{all}.00000001"), "more").await),
        Obstacle::InsufficientBalance
    );
    world.send("bob", "alice", &all, "all").await.unwrap();
    assert_eq!(world.balance("bob").await, "0");
    assert_eq!(refusal(world.send("bob", "alice", "0.00000001", "again").await), Obstacle::InsufficientBalance);
    world.assert_sound().await;
}

#[tokio::test]
async fn a_fold_never_takes_what_was_paid_out_since_the_shards_were_read() {
    let world = rich().await;
    // The fold is on its way while the account itself pays somebody else.
    world.db.faults().only(Rule::new(Fault::Slow(Duration::from_millis(50))).on("TransactWriteItems").call(2));
    let meanwhile = async {
        world.clock.wait(Duration::from_millis(10)).await;
        world.send("bob", "eve", "900", "first").await
    };
    let (fold, first) = futures::join!(world.send("bob", "alice", "1500", "fold"), meanwhile);
    first.unwrap();
    assert_eq!(refusal(fold), Obstacle::InsufficientBalance);
    assert_eq!(world.balance("bob").await, "1100");
    world.assert_sound().await;
}

#[tokio::test]
async fn a_fold_that_meets_a_credit_lets_one_shard_pay_if_one_can() {
    let world = rich().await;
    world.send("bob", "alice", "950", "drain").await.unwrap();
    let before = shards(&world);
    // The account itself cannot pay this. Every shard that was paid can.
    meets(&world, 2);
    world.db.reset_calls();
    let result = world.send("bob", "alice", "100", "k").await;
    world.db.faults().heal();
    result.unwrap();
    assert_eq!(calls(&world), some(&[("Query", 2), ("TransactWriteItems", 3)]));
    let after = shards(&world);
    let changed = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    assert_eq!(changed, 1);
    world.assert_sound().await;
}

#[tokio::test]
async fn of_fifty_transfers_out_of_the_shards_exactly_as_many_succeed_as_there_is_money() {
    for fault in [None, Some(Fault::Conflict), Some(MEETS), Some(Fault::LoseAnswer)] {
        let world = rich().await;
        let had = world.balance("bob").await.parse::<usize>().unwrap();
        if let Some(fault) = fault {
            world.db.faults().put(Rule::new(fault).on("TransactWriteItems").rate(0.2));
        }
        let keys: Vec<String> = (0..50).map(|n| format!("out{n}")).collect();
        let answers = join_all(keys.iter().map(|key| world.send("bob", "alice", "100", key))).await;
        world.db.faults().heal();
        let made = answers.iter().filter(|answer| answer.is_ok()).count();
        assert_eq!(made, had / 100, "{fault:?}");
        for answer in answers.into_iter().filter(Result::is_err) {
            assert_eq!(refusal(answer), Obstacle::InsufficientBalance, "{fault:?}");
        }
        assert_eq!(world.balance("bob").await, format!("{}", had % 100), "{fault:?}");
        world.assert_sound().await;
    }
}

#[tokio::test]
async fn refusals_keep_their_precedence_when_the_money_is_in_shards() {
    let rules = Rules { daily_limit: "1200".parse().unwrap(), ..Rules::default() };
    let world = rich().await;
    world.open(&["ice"]).await;
    world.ledger.set_frozen(&did("ice"), true, "test").await.unwrap();
    let strict = world.instance(rules, 5);
    let send = async |to: &str, amount: &str| strict.transfer(&transfer("bob", to, amount, "k"), world.until()).await;
    assert_eq!(refusal(send("nobody", "1100").await), Obstacle::RecipientNotFound);
    assert_eq!(refusal(send("ice", "1100").await), Obstacle::RecipientFrozen);
    strict.transfer(&transfer("bob", "alice", "600", "k600"), world.until()).await.unwrap();
    // More than the account has, less than all have, and more than the day allows.
    assert_eq!(refusal(send("alice", "601").await), Obstacle::LimitExceeded);
    assert_eq!(refusal(world.send("bob", "alice", "99999", "k2").await), Obstacle::InsufficientBalance);
    world.assert_sound().await;
}

// Freezing

#[tokio::test]
async fn freezing_freezes_every_shard_at_once() {
    let world = rich().await;
    world.db.reset_calls();
    world.ledger.set_frozen(&did("bob"), true, "test").await.unwrap();
    assert_eq!(calls(&world), some(&[("TransactWriteItems", 1)]));
    assert!(world.items(BOB).iter().all(|item| item["status"]["S"] == "frozen"));
    assert_eq!(account(&world)["statusBy"]["S"], "test");
    // This instance knows that bob was hot, so it begins at a shard. The other begins at the account.
    for ledger in [world.ledger.clone(), world.instance(Rules::default(), 9)] {
        for key in ["a", "b", "c"] {
            let paid = ledger.transfer(&transfer("alice", "bob", "1", key), world.until()).await;
            assert_eq!(refusal(paid), Obstacle::RecipientFrozen);
        }
        let pays = ledger.transfer(&transfer("bob", "alice", "1500", "d"), world.until()).await;
        assert_eq!(refusal(pays), Obstacle::SenderFrozen);
    }
    assert_eq!(world.ledger.holding(&did("bob")).await.unwrap().unwrap().status, "frozen");
    world.ledger.set_frozen(&did("bob"), false, "test").await.unwrap();
    world.send("alice", "bob", "1", "thawed").await.unwrap();
    world.send("bob", "alice", "1500", "thawed").await.unwrap();
    world.assert_sound().await;
}

#[tokio::test]
async fn an_account_that_is_frozen_while_its_shards_are_made_is_frozen_everywhere() {
    for seed in 1..=number("SEEDS", 60) {
        let world = World::new(Rules::default(), seed).await;
        world.open(&["alice", "bob", "carol", "dave"]).await;
        world.db.faults().put(Rule::new(MEETS).on("TransactWriteItems").rate(0.4));
        world.db.faults().put(Rule::new(Fault::Slow(Duration::from_millis(7))).rate(0.3));
        world.db.faults().put(Rule::new(Fault::Late(Duration::from_millis(11))).rate(0.3));
        let names = ["alice", "carol", "dave"];
        let pay = join_all(names.iter().map(|name| world.send(name, "bob", "1", "k")));
        let freeze = async {
            world.clock.wait(Duration::from_millis(seed % 40)).await;
            world.ledger.set_frozen(&did("bob"), true, "test").await
        };
        let (paid, frozen) = futures::join!(pay, freeze);
        world.db.faults().heal();
        assert!(matches!(frozen, Ok(_) | Err(Error::Unresolved)), "seed {seed}: {frozen:?}");
        for paid in paid {
            let fine = matches!(paid, Ok(_) | Err(Error::Refused(Obstacle::RecipientFrozen)));
            assert!(fine, "seed {seed}: {paid:?}");
        }
        if frozen.is_ok() {
            assert!(world.items(BOB).iter().all(|item| item["status"]["S"] == "frozen"), "seed {seed}");
        }
        assert!(world.verify().await.is_clean(), "seed {seed}");
    }
}

// Operators

#[tokio::test]
async fn what_a_shard_was_paid_can_be_taken_back() {
    let world = rich().await;
    let entry = world.items("SENT#did:key:eve").into_iter().find(|entry| entry.get("parts").is_some()).unwrap();
    let id = entry["transactionId"]["S"].as_str().unwrap().parse().unwrap();
    world.send("bob", "alice", "950", "drain").await.unwrap();
    let had = world.balance("bob").await.parse::<u64>().unwrap();
    // Also from a frozen account. The account itself has too little.
    world.ledger.set_frozen(&did("bob"), true, "test").await.unwrap();
    world.ledger.reverse(&did("eve"), id, "a mistake", world.until()).await.unwrap();
    assert_eq!((world.balance("bob").await, world.balance("eve").await), ((had - 100).to_string(), "100".into()));
    assert!(world.ledger.reverse(&did("eve"), id, "", world.until()).await.unwrap().replayed);
    let statement = world.ledger.statement(&did("bob"), None, 100).await.unwrap();
    assert_eq!(statement.rows[0].balance.to_string(), world.balance("bob").await);
    world.assert_sound().await;
}

#[tokio::test]
async fn a_grant_and_a_reversal_that_meet_others_go_to_a_shard() {
    let world = rich().await;
    let grant = Grant {
        recipient: did("bob"),
        amount: "25".parse().unwrap(),
        reason: "a prize".into(),
        key: "prize-1".parse().unwrap(),
    };
    let fresh = world.instance(Rules::default(), 41);
    let before = account(&world);
    meets(&world, 1);
    fresh.grant(&grant, world.until()).await.unwrap();
    assert!(fresh.grant(&grant, world.until()).await.unwrap().replayed);
    world.db.faults().heal();
    let sent = world.send("bob", "alice", "10", "k").await.unwrap();
    let sent: Value = serde_json::from_str(&sent.body).unwrap();
    let id = sent["transactionId"].as_str().unwrap().parse().unwrap();
    let fresh = world.instance(Rules::default(), 42);
    meets(&world, 1);
    fresh.reverse(&did("bob"), id, "", world.until()).await.unwrap();
    let less = units(&before) - units(&account(&world));
    assert_eq!(less, 1_000_000_000, "neither went to the account itself");
    assert_eq!(world.assert_sound().await, "3025");
}

// Faults

#[tokio::test]
async fn a_transfer_that_makes_shards_or_folds_them_and_dies_at_any_call_moves_money_once() {
    let report = interrupt::at_every_call(
        async |outside| {
            let world = World::with(Rules::default(), 1, outside).await;
            world.open(&["alice", "bob"]).await;
            meets_twice(&world, MEETS);
            world
        },
        async |world| {
            world.send("alice", "bob", "500", "k").await?;
            world.send("bob", "alice", "1400", "back").await.map(drop)
        },
        async |world| world.clock.advance(Duration::from_secs(1)),
        async |world| {
            assert_eq!((world.balance("alice").await, world.balance("bob").await), ("1900".into(), "100".into()));
            assert_eq!(world.items("SENT#").len(), 2);
            world.assert_sound().await;
        },
    )
    .await;
    assert!(report.stops >= 6, "{report:?}");
}

#[tokio::test]
async fn a_transfer_that_is_sent_twice_at_once_to_a_hot_account_moves_money_once() {
    race::two_at_once(
        0..40,
        async |outside| {
            let world = World::with(Rules::default(), 1, outside).await;
            world.open(&["alice", "bob"]).await;
            world.give_shards("alice", "bob").await;
            world.db.faults().put(Rule::new(MEETS).on("TransactWriteItems").rate(0.4));
            world
        },
        async |world| world.send("alice", "bob", "100", "k").await.map(drop),
        async |world| world.clock.advance(Duration::from_secs(1)),
        async |world| {
            world.db.faults().heal();
            assert_eq!(world.items("IDEMPOTENCY#did:key:alice#k").len(), 1);
            world.assert_sound().await;
            assert_eq!(world.items("SENT#").len(), world.items("IDEMPOTENCY#").len());
        },
    )
    .await;
}

#[tokio::test]
async fn shards_that_do_not_belong_together_are_never_added_up() {
    let world = rich().await;
    let mut shard = shards(&world).remove(0);
    shard["folds"] = json!({ "N": "7" });
    world.db.must("PutItem", &json!({ "TableName": world.table(), "Item": shard }));
    let held = world.ledger.holding(&did("bob")).await;
    assert!(matches!(held, Err(Error::Unresolved)), "{held:?}");
}
