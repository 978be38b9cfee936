//! A transfer moves money once: what the ledger promises, one promise per test.

use std::time::Duration;

use crate::support::*;
use futures::future::join_all;
use ichido::dynamodb::item::attr;
use ichido::{Clock, Timestamp};
use testkit::faults::{Fault, Lag, Rule};
use testkit::{interrupt, race};
use tokens::amount::Amount;
use tokens::ledger::{BUDGET, Error, Grant, History, Obstacle, Places};
use tokens::settings::{Rules, Window};

fn whole(tokens: u64) -> Amount {
    Amount::whole(tokens).unwrap()
}

fn id_of(body: &str) -> tokens::ledger::TransactionId {
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    body["transactionId"].as_str().unwrap().parse().unwrap()
}

// The normal path

#[tokio::test]
async fn a_transfer_is_one_round_trip() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    world.db.reset_calls();
    world.send("alice", "bob", "100", "k").await.unwrap();
    let calls: Vec<_> = world.db.calls().iter().map(|(name, count)| (name.to_owned(), count)).collect();
    assert_eq!(calls, [("TransactWriteItems".to_owned(), 1)]);
    assert_eq!((world.balance("alice").await, world.balance("bob").await), ("900".into(), "1100".into()));
    world.assert_sound().await;
}

#[tokio::test]
async fn a_replay_and_a_mismatch_are_one_round_trip_too() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    world.send("alice", "bob", "100", "k").await.unwrap();
    for amount in ["100", "101"] {
        world.db.reset_calls();
        let _ = world.send("alice", "bob", amount, "k").await;
        assert_eq!((world.db.calls().of("TransactWriteItems"), world.db.calls().total()), (1, 1), "{amount}");
    }
}

#[tokio::test]
async fn the_records_are_those_of_the_design() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    let answer = world.send("alice", "bob", "12.5", "order-7").await.unwrap();
    let id = id_of(&answer.body).to_string();
    let records = world.items("IDEMPOTENCY#");
    let record = &records[0];
    assert_eq!(records.len(), 1);
    assert_eq!(record["PK"]["S"], "IDEMPOTENCY#did:key:alice#order-7");
    assert_eq!(record["SK"]["S"], "METADATA");
    assert_eq!(record["transactionId"]["S"], id.as_str());
    assert_eq!(record["createdAt"]["S"], "2026-01-01T00:00:00.000Z");
    assert_eq!(record["senderDid"]["S"], "did:key:alice");
    assert_eq!(record["recipientDid"]["S"], "did:key:bob");
    assert_eq!(record["amount"]["S"], "12.5");
    let week = world.clock.now() + Duration::from_secs(7 * 24 * 60 * 60);
    assert_eq!(record["ttl"]["N"], week.as_secs().to_string());
    assert!(!answer.body.contains("balance"), "{}", answer.body);

    let entries = world.items("SENT#");
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["status"]["S"], "completed");
    assert_eq!(entries[0]["SK"]["S"], format!("TX#{id}"));
}

// Replays

#[tokio::test]
async fn the_same_request_again_gets_the_first_body_byte_for_byte_also_when_the_balance_is_drained() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    let first = world.send("alice", "bob", "600", "k1").await.unwrap();
    world.send("alice", "bob", "400", "k2").await.unwrap();
    assert_eq!(world.balance("alice").await, "0");
    world.clock.advance(Duration::from_secs(3600));
    // another spelling of the same amount is the same request
    for amount in ["600", "600.00"] {
        let again = world.send("alice", "bob", amount, "k1").await.unwrap();
        assert_eq!(again.body, first.body);
        assert!(again.replayed && !first.replayed);
    }
    assert_eq!(world.balance("bob").await, "2000");
    world.assert_sound().await;
}

#[tokio::test]
async fn a_replay_survives_stricter_rules_a_frozen_sender_and_a_new_rate() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    let first = world.send("alice", "bob", "600", "k").await.unwrap();
    world.ledger.set_frozen(&did("alice"), true, "test").await.unwrap();
    let strict = Rules {
        transfer_limit: whole(10),
        daily_limit: whole(10),
        tax_rate: "0.5".parse().unwrap(),
        ..Rules::default()
    };
    let again = world.instance(strict, 9).transfer(&transfer("alice", "bob", "600", "k"), world.until()).await.unwrap();
    assert_eq!(again.body, first.body);
}

#[tokio::test]
async fn the_same_key_with_another_request_names_what_differs() {
    let world = world().await;
    world.open(&["alice", "bob", "carol"]).await;
    world.send("alice", "bob", "100", "k").await.unwrap();
    let mut other = transfer("alice", "carol", "101", "k");
    other.message = "hello".into();
    match world.ledger.transfer(&other, world.until()).await {
        Err(Error::Mismatch { fields }) => assert_eq!(fields, ["amount", "message", "recipientDid"]),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.balance("alice").await, "900");
}

#[tokio::test]
async fn the_same_key_from_another_sender_is_another_transfer() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    assert!(!world.send("alice", "bob", "100", "k").await.unwrap().replayed);
    assert!(!world.send("bob", "alice", "100", "k").await.unwrap().replayed);
    assert_eq!(world.items("IDEMPOTENCY#").len(), 2);
}

#[tokio::test]
async fn a_refusal_is_no_outcome_and_the_key_may_be_tried_again() {
    for fault in [None, Some(Fault::NoOldItem)] {
        let world = world().await;
        world.open(&["alice", "bob"]).await;
        if let Some(fault) = fault {
            world.db.faults().put(Rule::new(fault));
        }
        for _ in 0..3 {
            assert_eq!(refusal(world.send("alice", "bob", "1500", "k").await), Obstacle::InsufficientBalance);
        }
        assert_eq!(world.items("SENT#").len(), 0);
        let left = world.items("IDEMPOTENCY#did:key:alice#k");
        assert_eq!((left.len(), &left[0][attr::STATE]["S"]), (1, &"released".into()), "a tombstone and nothing else");
        world.assert_sound().await;
        // Another request under the same key is not compared with the refused one.
        world.send("bob", "alice", "800", "other").await.unwrap();
        let made = world.send("alice", "bob", "1501", "k").await.unwrap();
        assert!(!made.replayed);
        let again = world.send("alice", "bob", "1501", "k").await.unwrap();
        assert!(again.replayed && again.body == made.body);
        assert!(matches!(world.send("alice", "bob", "1500", "k").await, Err(Error::Mismatch { .. })));
        world.assert_sound().await;
    }
}

#[tokio::test]
async fn the_tombstone_of_a_refusal_is_gone_after_an_hour() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    let _ = refusal(world.send("alice", "bob", "1500", "k").await);
    world.clock.advance(ichido::dynamodb::TOMBSTONE_RETENTION);
    world.db.reset_calls();
    world.send("alice", "bob", "100", "k").await.unwrap();
    assert_eq!(world.db.calls().total(), 1, "expired is absent");
    let _ = refusal(world.send("alice", "bob", "1500", "k2").await);
    world.clock.advance(ichido::dynamodb::TOMBSTONE_RETENTION);
    world.db.sweep(world.clock.now());
    assert!(world.items("IDEMPOTENCY#did:key:alice#k2").is_empty());
}

// The window

#[tokio::test]
async fn a_key_is_new_again_after_its_window_swept_or_not() {
    for sweep in [false, true] {
        let world = world().await;
        world.open(&["alice", "bob"]).await;
        let first = world.send("alice", "bob", "100", "k").await.unwrap();
        world.clock.advance(Duration::from_secs(7 * 24 * 60 * 60) - Duration::from_millis(1));
        assert!(world.send("alice", "bob", "100", "k").await.unwrap().replayed);
        world.clock.advance(Duration::from_millis(1));
        if sweep {
            world.db.sweep(world.clock.now());
        }
        let second = world.send("alice", "bob", "100", "k").await.unwrap();
        assert!(!second.replayed && second.body != first.body, "sweep: {sweep}");
        assert_eq!(world.balance("bob").await, "1200");
        world.assert_sound().await;
    }
}

#[tokio::test]
async fn a_window_of_never_keeps_a_key_for_ever() {
    let world = World::new(Rules { window: Window::Never, ..Rules::default() }, 1).await;
    world.open(&["alice", "bob"]).await;
    world.send("alice", "bob", "100", "k").await.unwrap();
    world.clock.advance(Duration::from_secs(10 * 365 * 24 * 60 * 60));
    world.db.sweep(world.clock.now());
    assert!(world.send("alice", "bob", "100", "k").await.unwrap().replayed);
    assert!(world.items("IDEMPOTENCY#")[0].get("ttl").is_none());
}

// Refusals

#[tokio::test]
async fn each_refusal_has_its_reason_and_changes_nothing() {
    let rules = Rules { transfer_limit: whole(900), daily_limit: whole(950), ..Rules::default() };
    let world = World::new(rules, 1).await;
    world.open(&["alice", "bob", "ice"]).await;
    world.ledger.set_frozen(&did("ice"), true, "test").await.unwrap();
    for (from, to, amount, reason) in [
        ("nobody", "bob", "1", Obstacle::SenderNotFound),
        ("ice", "bob", "1", Obstacle::SenderFrozen),
        ("alice", "nobody", "1", Obstacle::RecipientNotFound),
        ("alice", "ice", "1", Obstacle::RecipientFrozen),
        ("alice", "bob", "900.00000001", Obstacle::LimitExceeded),
    ] {
        assert_eq!(refusal(world.send(from, to, amount, "k").await), reason);
    }
    world.send("alice", "bob", "900", "k").await.unwrap();
    assert_eq!(
        refusal(world.send("alice", "bob", "51", "k2").await),
        Obstacle::LimitExceeded,
        "daily, before 100 is short"
    );
    assert_eq!(refusal(world.send("alice", "bob", "101", "k2").await), Obstacle::InsufficientBalance, "told first");
    world.send("alice", "bob", "50", "k3").await.unwrap();
    world.clock.advance(Duration::from_secs(24 * 60 * 60));
    world.send("alice", "bob", "50", "k4").await.unwrap();
    assert_eq!(world.balance("alice").await, "0");
    world.assert_sound().await;
}

#[tokio::test]
async fn a_refusal_is_three_round_trips_and_the_next_try_of_its_key_two_more() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    world.db.reset_calls();
    assert_eq!(refusal(world.send("alice", "bob", "1001", "k").await), Obstacle::InsufficientBalance);
    assert_eq!(
        (world.db.calls().of("TransactWriteItems"), world.db.calls().of("PutItem"), world.db.calls().total()),
        (1, 1, 3),
        "the tombstone is also the look at the record"
    );
    assert_eq!(world.db.calls().of("Query"), 1, "there might be shards");
    world.db.reset_calls();
    assert_eq!(refusal(world.send("alice", "nobody", "1", "k2").await), Obstacle::RecipientNotFound);
    assert_eq!(world.db.calls().total(), 2, "which is read only if the balance is too low");
    world.db.reset_calls();
    world.send("alice", "bob", "1000", "k").await.unwrap();
    assert_eq!((world.db.calls().of("TransactWriteItems"), world.db.calls().total()), (2, 2));
}

// Fees and the treasury

#[tokio::test]
async fn fees_go_to_the_treasurys_shards_and_the_treasury_can_pay_and_be_paid() {
    let rules = Rules { tax_rate: "0.1".parse().unwrap(), treasury_shards: 4, ..Rules::default() };
    let world = World::new(rules.clone(), 1).await;
    world.open(&["alice", "bob"]).await;
    for n in 0..20 {
        world.send("alice", "bob", "10", &format!("k{n}")).await.unwrap();
    }
    let treasury = rules.treasury.to_string();
    assert_eq!(world.balance(&treasury).await, "20");
    assert!(world.items("TREASURY#").len() > 1, "more than one shard");
    // more than any one shard holds
    world.send(&treasury, "bob", "19", "pay").await.unwrap();
    assert_eq!((world.balance(&treasury).await, world.balance("bob").await), ("1".into(), "1219".into()));
    world.send("bob", &treasury, "100", "donate").await.unwrap();
    assert_eq!((world.balance(&treasury).await, world.balance("bob").await), ("101".into(), "1119".into()));
    assert_eq!(refusal(world.send(&treasury, "bob", "102", "too-much").await), Obstacle::InsufficientBalance);
    world.assert_sound().await;
}

// Operators

#[tokio::test]
async fn a_reversal_gives_everything_back_once_and_edits_nothing() {
    let rules = Rules { tax_rate: "0.1".parse().unwrap(), ..Rules::default() };
    let world = World::new(rules, 1).await;
    world.open(&["alice", "bob"]).await;
    let made = world.send("alice", "bob", "100", "k").await.unwrap();
    let before = world.items("SENT#did:key:alice");
    let id = id_of(&made.body);
    // Also from a frozen account, because that is when a reversal is needed.
    world.ledger.set_frozen(&did("bob"), true, "test").await.unwrap();
    let first = world.ledger.reverse(&did("alice"), id, "a mistake", world.until()).await.unwrap();
    let again = world.ledger.reverse(&did("alice"), id, "another reason", world.until()).await.unwrap();
    assert_eq!((first.replayed, again.replayed), (false, true));
    assert_eq!(first.body, again.body);
    assert_eq!((world.balance("alice").await, world.balance("bob").await), ("1000".into(), "1000".into()));
    assert_eq!(world.items("SENT#did:key:alice"), before);
    let reversal = id_of(&first.body);
    let twice = world.ledger.reverse(&did("bob"), reversal, "", world.until()).await;
    assert!(matches!(twice, Err(Error::NotReversible)), "{twice:?}");
    let unknown = world.ledger.reverse(&did("bob"), id, "", world.until()).await;
    assert!(matches!(unknown, Err(Error::TransactionNotFound)), "{unknown:?}");
    world.assert_sound().await;
}

#[tokio::test]
async fn a_reversal_of_what_has_been_spent_is_refused_and_may_be_tried_again() {
    let world = world().await;
    world.open(&["alice", "bob", "carol"]).await;
    let id = id_of(&world.send("alice", "bob", "100", "k").await.unwrap().body);
    world.send("bob", "carol", "1100", "k").await.unwrap();
    let reverse = async || world.ledger.reverse(&did("alice"), id, "", world.until()).await;
    assert_eq!(refusal(reverse().await), Obstacle::InsufficientBalance);
    world.send("carol", "bob", "100", "k").await.unwrap();
    assert!(!reverse().await.unwrap().replayed);
    world.assert_sound().await;
}

#[tokio::test]
async fn an_account_is_opened_once_with_one_grant() {
    let world = world().await;
    let alice = did("alice");
    let opened = join_all((0..20).map(|_| world.ledger.open(&alice, world.until()))).await;
    let bodies: Vec<_> = opened.into_iter().map(Result::unwrap).collect();
    assert_eq!(bodies.iter().filter(|answer| !answer.replayed).count(), 1);
    assert!(bodies.iter().all(|answer| answer.body == bodies[0].body));
    assert_eq!(world.assert_sound().await, "1000");
    assert_eq!(world.items("GRANT#").len(), 1);
}

// Concurrency

#[tokio::test]
async fn fifty_concurrent_requests_with_one_key_are_one_transfer_with_fifty_equal_bodies() {
    for fault in [None, Some(Fault::Conflict), Some(Fault::LoseAnswer), Some(Fault::Throttle)] {
        let world = world().await;
        world.open(&["alice", "bob"]).await;
        if let Some(fault) = fault {
            world.db.faults().put(Rule::new(fault).rate(0.3));
        }
        let answers = join_all((0..50).map(|_| world.send("alice", "bob", "100", "k"))).await;
        world.db.faults().heal();
        let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
        assert!(answers.iter().all(|answer| answer.body == answers[0].body), "{fault:?}");
        assert_eq!(answers.iter().filter(|answer| !answer.replayed).count(), 1, "{fault:?}");
        assert_eq!((world.balance("alice").await, world.balance("bob").await), ("900".into(), "1100".into()));
        world.assert_sound().await;
    }
}

#[tokio::test]
async fn of_fifty_transfers_of_100_from_1000_exactly_ten_succeed() {
    for fault in [None, Some(Fault::Conflict), Some(Fault::Throttle)] {
        let world = world().await;
        world.open(&["alice", "bob"]).await;
        if let Some(fault) = fault {
            world.db.faults().put(Rule::new(fault).rate(0.3));
        }
        let keys: Vec<String> = (0..50).map(|n| format!("k{n}")).collect();
        let answers = join_all(keys.iter().map(|key| world.send("alice", "bob", "100", key))).await;
        world.db.faults().heal();
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 10, "{fault:?}");
        for answer in answers.into_iter().filter(Result::is_err) {
            assert_eq!(refusal(answer), Obstacle::InsufficientBalance);
        }
        assert_eq!((world.balance("alice").await, world.balance("bob").await), ("0".into(), "2000".into()));
        world.assert_sound().await;
    }
}

// Ambiguity

#[tokio::test]
async fn a_lost_answer_is_a_success_and_not_a_duplicate() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    world.db.faults().put(Rule::new(Fault::LoseAnswer).on("TransactWriteItems").calls(1..=3));
    let answer = world.send("alice", "bob", "100", "k").await.unwrap();
    assert!(!answer.replayed);
    assert_eq!(world.balance("bob").await, "1100");
    world.assert_sound().await;
}

#[tokio::test]
async fn an_attempt_is_repeated_literally_the_same() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    world.db.faults().put(Rule::new(Fault::Error).on("TransactWriteItems").calls(1..=2));
    let before = world.clock.now();
    let answer = world.send("alice", "bob", "100", "k").await.unwrap();
    assert!(world.clock.now() > before, "it has waited in between");
    assert_eq!(id_of(&answer.body).created_at(), before, "the time is that of the first attempt");
}

#[tokio::test]
async fn a_store_that_stays_silent_is_503_within_the_budget_and_never_a_refusal() {
    for fault in [Fault::Down, Fault::Error, Fault::Hang, Fault::Throttle, Fault::Conflict] {
        let world = world().await;
        world.open(&["alice", "bob"]).await;
        world.db.faults().only(Rule::new(fault));
        let began = world.clock.now();
        // It would be refused if DynamoDB answered.
        let result = world.send("alice", "bob", "5000", "k").await;
        assert!(matches!(result, Err(Error::Unresolved)), "{fault:?}: {result:?}");
        let took = world.clock.now().since(began);
        assert!(took <= BUDGET + Duration::from_secs(7), "{fault:?}: {took:?}");
        world.db.faults().heal();
        world.send("alice", "bob", "100", "k").await.unwrap();
        world.assert_sound().await;
    }
}

#[tokio::test]
async fn money_that_moved_is_never_answered_with_an_error_when_every_answer_to_the_write_is_lost() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    world.db.faults().only(Rule::new(Fault::LoseAnswer).on("TransactWriteItems"));
    // The whole budget passes without an answer. Then the record says that it is done.
    let answer = world.send("alice", "bob", "1000", "k").await.unwrap();
    assert!(!answer.replayed);
    assert_eq!(world.balance("bob").await, "2000");
}

#[tokio::test]
async fn nothing_that_is_still_under_way_lands_after_a_refusal() {
    // The first attempt gets no answer and arrives a minute later. The second one is refused, because the balance is too
    // low. The balance is high enough when the first one arrives: if it moved the money then, the refusal would be false.
    const LATE: Duration = Duration::from_secs(60);
    for across_requests in [false, true] {
        let world = world().await;
        world.open(&["alice", "bob", "carol"]).await;
        let straggles = Rule::new(Fault::Straggle(LATE)).on("TransactWriteItems");
        if across_requests {
            // All attempts of a first request are on their way when it gives up. A later request does not know of them.
            world.db.faults().only(straggles);
            let result = world.send("alice", "bob", "1001", "k").await;
            assert!(matches!(result, Err(Error::Unresolved)), "{result:?}");
            world.db.faults().heal();
        } else {
            world.db.faults().put(straggles.call(1));
        }
        assert_eq!(refusal(world.send("alice", "bob", "1001", "k").await), Obstacle::InsufficientBalance);
        world.send("carol", "alice", "1000", "refill").await.unwrap();
        world.clock.wait(LATE * 2).await;
        assert_eq!(world.balance("alice").await, "2000", "across requests: {across_requests}");
        // The same key, tried again, moves the money once.
        assert!(!world.send("alice", "bob", "1001", "k").await.unwrap().replayed);
        assert!(world.send("alice", "bob", "1001", "k").await.unwrap().replayed);
        assert_eq!((world.balance("alice").await, world.balance("bob").await), ("999".into(), "2001".into()));
        world.assert_sound().await;
    }
}

#[tokio::test]
async fn an_attempt_that_replaces_one_tombstone_does_not_replace_the_next() {
    const LATE: Duration = Duration::from_secs(60);
    let world = world().await;
    world.open(&["alice", "bob", "carol"]).await;
    assert_eq!(refusal(world.send("alice", "bob", "1001", "k").await), Obstacle::InsufficientBalance);
    // It meets the tombstone, and is then on its way to replace it.
    world.db.faults().put(Rule::new(Fault::Straggle(LATE)).on("TransactWriteItems").calls(2..=u64::MAX));
    let result = world.send("alice", "bob", "1001", "k").await;
    assert!(matches!(result, Err(Error::Unresolved)), "{result:?}");
    world.db.faults().heal();
    assert_eq!(refusal(world.send("alice", "bob", "1001", "k").await), Obstacle::InsufficientBalance);
    world.send("carol", "alice", "1000", "refill").await.unwrap();
    world.clock.wait(LATE * 2).await;
    assert_eq!(world.balance("alice").await, "2000");
}

#[tokio::test]
async fn what_landed_before_the_refusal_is_a_success() {
    // The money was there when the first attempt was committed, and is gone when the second is made.
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    world.db.faults().put(Rule::new(Fault::LoseAnswer).on("TransactWriteItems").call(1));
    world.db.faults().put(Rule::new(Fault::Down).on("TransactWriteItems").calls(1..=u64::MAX));
    world.db.faults().put(Rule::new(Fault::Down).on("GetItem"));
    let result = world.send("alice", "bob", "1000", "k").await;
    assert!(matches!(result, Err(Error::Unresolved)), "{result:?}");
    world.db.faults().heal();
    // A stricter rule, which refuses without looking at balances.
    let strict = world.instance(Rules { transfer_limit: whole(1), ..Rules::default() }, 5);
    assert!(strict.transfer(&transfer("alice", "bob", "1000", "k"), world.until()).await.unwrap().replayed);
}

#[tokio::test]
async fn a_conflict_says_nothing_about_the_balance() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    world.db.faults().put(Rule::new(Fault::Conflict).on("TransactWriteItems").calls(1..=3));
    assert_eq!(refusal(world.send("alice", "bob", "1001", "k").await), Obstacle::InsufficientBalance);
    assert_eq!(world.db.calls().of("TransactWriteItems"), 2 + 4, "two accounts, three conflicts, one refusal");
}

#[tokio::test]
async fn a_missing_table_or_permission_is_loud_at_once() {
    for fault in [Fault::Denied, Fault::Missing] {
        let world = world().await;
        world.open(&["alice", "bob"]).await;
        world.db.faults().only(Rule::new(fault));
        let result = world.send("alice", "bob", "1", "k").await;
        assert!(matches!(result, Err(Error::Store(_))), "{result:?}");
    }
}

#[tokio::test]
async fn a_transfer_that_dies_at_any_call_and_is_sent_again_moves_money_once() {
    let rules = || Rules { tax_rate: "0.1".parse().unwrap(), ..Rules::default() };
    let report = interrupt::at_every_call(
        async |outside| {
            let world = World::with(rules(), 1, outside).await;
            world.open(&["alice", "bob"]).await;
            // A refusal in between, so that its tombstone is among the calls.
            world.db.faults().put(Rule::new(Fault::LoseAnswer).on("TransactWriteItems").call(2));
            world
        },
        async |world| {
            let refused = world.send("alice", "bob", "5000", "too-much").await;
            assert!(refused.is_err());
            world.send("alice", "bob", "100", "k").await.map(drop)
        },
        async |world| world.clock.advance(Duration::from_secs(1)),
        async |world| {
            assert_eq!((world.balance("alice").await, world.balance("bob").await), ("890".into(), "1100".into()));
            assert_eq!(world.items("SENT#").len(), 1);
            world.assert_sound().await;
        },
    )
    .await;
    assert!(report.stops >= 6, "{report:?}");
    assert_eq!(report.cuts, report.stops, "each call can also lose its connection");
}

#[tokio::test]
async fn a_transfer_that_is_sent_twice_at_once_moves_money_once() {
    race::two_at_once(
        0..40,
        async |outside| {
            let world = World::with(Rules::default(), 1, outside).await;
            world.open(&["alice", "bob"]).await;
            world
        },
        async |world| world.send("alice", "bob", "100", "k").await.map(drop),
        async |world| world.clock.advance(Duration::from_secs(1)),
        async |world| {
            assert_eq!((world.balance("alice").await, world.balance("bob").await), ("900".into(), "1100".into()));
            assert_eq!(world.items("SENT#").len(), 1);
            world.assert_sound().await;
        },
    )
    .await;
}

// Histories

async fn read_all(
    world: &World,
    history: History,
    name: &str,
    limit: usize,
    between: impl AsyncFn(usize),
) -> Vec<String> {
    let mut places = Places::between(None, None);
    let mut ids = Vec::new();
    for page_number in 0..1000 {
        let page = world.ledger.history(history, &did(name), places, limit).await.unwrap();
        ids.extend(page.entries.iter().map(|entry| entry.id.to_string()));
        if !page.more {
            return ids;
        }
        places = places.and_then(|places| places.after(page.entries.last().unwrap().id));
        between(page_number).await;
    }
    panic!("a history without end");
}

#[tokio::test]
async fn a_reader_who_pages_sees_every_row_once_while_others_write() {
    for history in [History::Sent, History::Received] {
        let world = world().await;
        world.open(&["alice", "bob"]).await;
        let (from, to) = match history {
            History::Sent => ("bob", "alice"),
            History::Received => ("alice", "bob"),
        };
        // so that the grants are the oldest
        world.clock.advance(Duration::from_millis(1));
        let mut there = Vec::new();
        for n in 0..23 {
            there.push(id_of(&world.send(from, to, "1", &format!("k{n}")).await.unwrap().body).to_string());
            // several share a millisecond
            world.clock.advance(Duration::from_millis(n % 3));
        }
        there.sort_unstable_by(|a, b| b.cmp(a));
        let ids = read_all(&world, history, "bob", 4, async |page| {
            world.send(from, to, "1", &format!("new{page}")).await.unwrap();
            world.clock.advance(Duration::from_millis(1));
        })
        .await;
        let grants = usize::from(history == History::Received);
        assert_eq!(ids.len(), there.len() + grants);
        assert_eq!(&ids[..there.len()], there, "newest first, each once");
    }
}

#[tokio::test]
async fn a_page_of_exactly_the_rest_has_no_more() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    for n in 0..4 {
        world.send("alice", "bob", "1", &format!("k{n}")).await.unwrap();
    }
    let page = async |limit| {
        world.ledger.history(History::Sent, &did("alice"), Places::between(None, None), limit).await.unwrap()
    };
    assert!(page(3).await.more);
    assert!(!page(4).await.more);
    assert!(!page(5).await.more);
}

#[tokio::test]
async fn dates_select_from_start_to_before_end() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    let mut at = Vec::new();
    for n in 0..5 {
        world.clock.advance(Duration::from_millis(10));
        at.push(world.clock.now());
        world.send("alice", "bob", "1", &format!("k{n}")).await.unwrap();
    }
    let count = async |start: Option<Timestamp>, end: Option<Timestamp>| {
        world.ledger.history(History::Sent, &did("alice"), Places::between(start, end), 10).await.unwrap().entries.len()
    };
    assert_eq!(count(Some(at[1]), Some(at[3])).await, 2);
    assert_eq!(count(Some(at[1]), None).await, 4);
    assert_eq!(count(None, Some(at[1])).await, 1);
    assert_eq!(count(Some(at[3]), Some(at[1])).await, 0);
}

#[tokio::test]
async fn a_lagging_index_delays_the_recipients_history_and_nothing_else() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    world.db.faults().lag_indexes(Some(Lag::Time(Duration::from_secs(5))));
    let first = world.send("alice", "bob", "1", "k").await.unwrap();
    let received = async || read_all(&world, History::Received, "bob", 10, async |_| {}).await.len();
    assert_eq!(received().await, 1, "the grant only");
    // The mistake of a simpler design: a duplicate that the index does not know yet.
    let again = world.send("alice", "bob", "1", "k").await.unwrap();
    assert_eq!((again.replayed, again.body), (true, first.body));
    assert_eq!(read_all(&world, History::Sent, "alice", 10, async |_| {}).await.len(), 1);
    world.clock.advance(Duration::from_secs(6));
    assert_eq!(received().await, 2);
}

/// Puts a record of the first design into the table.
fn earlier(world: &World, pk: &str, created_at: serde_json::Value) {
    let item = serde_json::json!({
        "PK": { "S": pk }, "SK": { "S": "METADATA" }, "transactionId": { "S": "tx_01HZX" }, "amount": { "N": "12.5" },
        "senderDid": { "S": "did:key:alice" }, "recipientDid": { "S": "did:key:bob" }, "createdAt": created_at,
    });
    world.db.must("PutItem", &serde_json::json!({ "TableName": world.table(), "Item": item }));
}

#[tokio::test]
async fn a_transfer_of_the_first_design_is_replayed_and_moves_nothing() {
    let world = world().await;
    world.open(&["alice", "bob", "carol"]).await;
    earlier(&world, "IDEMPOTENCY#did:key:alice#order-7", serde_json::json!({ "S": "2025-12-31T23:59:59.000Z" }));
    earlier(&world, "IDEMPOTENCY#did:key:alice#order-8", serde_json::json!({ "N": "1767225599000" }));
    for key in ["order-7", "order-8"] {
        let answer = world.send("alice", "bob", "12.5", key).await.unwrap();
        let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert!(answer.replayed);
        assert_eq!((&body["transactionId"], &body["amount"]), (&"tx_01HZX".into(), &"12.5".into()));
        assert_eq!((&body["idempotencyKey"], &body["createdAt"]), (&key.into(), &"2025-12-31T23:59:59.000Z".into()));
    }
    for (to, amount, fields) in [("bob", "12", &["amount"][..]), ("carol", "1", &["amount", "recipientDid"])] {
        match world.send("alice", to, amount, "order-7").await {
            Err(Error::Mismatch { fields: differ }) => assert_eq!(differ, fields),
            other => panic!("{other:?}"),
        }
    }
    // also where the request would be refused
    assert!(matches!(world.send("alice", "bob", "5000", "order-7").await, Err(Error::Mismatch { .. })));
    assert_eq!(world.balance("alice").await, "1000");
    assert_eq!(world.assert_sound().await, "3000");
}

#[tokio::test]
async fn an_operator_grants_once_per_key_and_the_sum_grows_by_it() {
    let world = world().await;
    world.open(&["alice"]).await;
    let mut grant = Grant {
        recipient: did("alice"),
        amount: "25".parse().unwrap(),
        reason: "a prize".into(),
        key: "prize-1".parse().unwrap(),
    };
    world.ledger.set_frozen(&did("alice"), true, "operator").await.unwrap();
    let first = world.ledger.grant(&grant, world.until()).await.unwrap();
    let again = world.ledger.grant(&grant, world.until()).await.unwrap();
    assert_eq!((first.replayed, again.replayed, &first.body), (false, true, &again.body));
    assert_eq!(world.balance("alice").await, "1025", "also of a frozen account");
    // A transfer may have the same key.
    world.ledger.set_frozen(&did("alice"), false, "operator").await.unwrap();
    world.open(&["bob"]).await;
    assert!(!world.send("alice", "bob", "1", "prize-1").await.unwrap().replayed);
    grant.reason = "another prize".into();
    let other = world.ledger.grant(&grant, world.until()).await;
    assert!(matches!(&other, Err(Error::Mismatch { fields }) if *fields == ["reason"]), "{other:?}");
    grant.recipient = did("nobody");
    grant.key = "prize-2".parse().unwrap();
    assert_eq!(refusal(world.ledger.grant(&grant, world.until()).await), Obstacle::RecipientNotFound);
    assert_eq!(world.assert_sound().await, "2025");
}
