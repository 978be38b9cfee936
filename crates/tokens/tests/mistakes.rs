//! Mistakes of a simpler design. Each test keeps one of them from coming back.

use crate::support::*;
use futures::future::join_all;
use serde_json::json;
use testkit::faults::{Fault, Lag, Rule};
use tokens::ledger::{History, Obstacle, Places};
use tokens::settings::Rules;

#[tokio::test]
async fn read_then_write_balances() {
    // Two requests that both read 1000 and write 900 would lose a transfer. Here each adds to or takes from the balance.
    let world = world().await;
    world.open(&["alice", "bob", "carol"]).await;
    let keys: Vec<String> = (0..40).map(|n| format!("k{n}")).collect();
    let both_ways = keys.iter().enumerate().map(|(n, key)| {
        let (from, to) = [("alice", "bob"), ("bob", "carol"), ("carol", "alice"), ("bob", "alice")][n % 4];
        world.send(from, to, "7", key)
    });
    assert!(join_all(both_ways).await.iter().all(Result::is_ok));
    // and nothing reads a balance on the way
    assert_eq!((world.db.calls().of("Query"), world.db.calls().of("GetItem")), (0, 0));
    assert_eq!(world.balance("alice").await, "1070");
    assert_eq!(world.balance("bob").await, "930");
    assert_eq!(world.balance("carol").await, "1000");
    world.assert_sound().await;
}

#[tokio::test]
async fn float_amounts() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    // in floats ten times 0.1 is 0.9999999999999999, and 0.1 + 0.2 is 0.30000000000000004
    for n in 0..10 {
        world.send("alice", "bob", "0.1", &format!("k{n}")).await.unwrap();
    }
    assert_eq!(world.balance("bob").await, "1001");
    // a float would lose the last digit of this
    world.send("bob", "alice", "987.65432101", "k").await.unwrap();
    assert_eq!(world.balance("bob").await, "13.34567899");
    assert_eq!(world.balance("alice").await, "1986.65432101");
    // A JSON number is a float in most languages, so it is not accepted.
    for amount in [json!(1), json!(0.1), json!(1e3)] {
        let body = json!({ "recipientDid": "did:key:bob", "amount": amount });
        let response = world.call("POST", "/tokens/transfer", &world.token("alice"), Some(body)).await;
        assert_eq!((response.status, json(&response)["code"].as_str().unwrap()), (400, "INVALID_AMOUNT"));
    }
}

#[tokio::test]
async fn double_counted_fees() {
    let world = World::new(Rules { tax_rate: "0.03".parse().unwrap(), ..Rules::default() }, 1).await;
    world.open(&["alice", "bob"]).await;
    world.send("alice", "bob", "100", "k").await.unwrap();
    let treasury = world.ledger.rules().treasury.to_string();
    assert_eq!(world.balance("alice").await, "897");
    assert_eq!(world.balance("bob").await, "1100");
    assert_eq!(world.balance(&treasury).await, "3");
    // the fee is part of what must be there: 870.87379 and its 3 % are just above 897
    assert_eq!(refusal(world.send("alice", "bob", "870.8738", "k2").await), Obstacle::InsufficientBalance);
    world.send("alice", "bob", "870.87378", "k3").await.unwrap();
    assert_eq!(world.assert_sound().await, "2000");
}

#[tokio::test]
async fn a_duplicate_answered_as_an_error() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    let body = json!({ "recipientDid": "did:key:bob", "amount": "100", "idempotencyKey": "k" });
    let first = world.call("POST", "/tokens/transfer", &world.token("alice"), Some(body.clone())).await;
    let again = world.call("POST", "/tokens/transfer", &world.token("alice"), Some(body)).await;
    assert_eq!((first.status, again.status), (200, 200));
    assert_eq!(first.body, again.body);
    assert_eq!(first.headers.get("idempotency-replayed"), None);
    assert_eq!(again.headers.get("idempotency-replayed").map(String::as_str), Some("true"));
}

#[tokio::test]
async fn the_key_looked_up_through_an_index() {
    // The second request comes milliseconds after the first, before the index knows of it.
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    world.db.faults().lag_indexes(Some(Lag::Calls(1_000)));
    let first = world.send("alice", "bob", "100", "k").await.unwrap();
    let second = world.send("alice", "bob", "100", "k").await.unwrap();
    assert_eq!((first.body, true), (second.body, second.replayed));
    assert_eq!(world.balance("bob").await, "1100");
}

#[tokio::test]
async fn the_key_checked_after_the_balance() {
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    let first = world.send("alice", "bob", "1000", "k").await.unwrap();
    // nothing is left, and the daily limit may be spent: the duplicate still gets its answer
    let again = world.send("alice", "bob", "1000", "k").await.unwrap();
    assert_eq!((first.body, true), (again.body, again.replayed));
}

#[tokio::test]
async fn a_second_write_that_marks_completion() {
    // Dying between the transfer and its mark left transfers "pending" whose money had moved.
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    world.db.reset_calls();
    world.db.faults().put(Rule::new(Fault::Down).on("UpdateItem"));
    world.db.faults().put(Rule::new(Fault::Down).on("PutItem"));
    world.send("alice", "bob", "100", "k").await.unwrap();
    assert_eq!(world.db.calls().total(), 1);
    assert_eq!(world.items("SENT#")[0]["status"]["S"], "completed");
}

#[tokio::test]
async fn cursors_that_skip_rows() {
    // A cursor that is a time skips the other rows of the same millisecond; one that is an offset shows rows twice.
    let world = world().await;
    world.open(&["alice", "bob"]).await;
    for n in 0..15 {
        world.send("alice", "bob", "1", &format!("k{n}")).await.unwrap();
    }
    for (path, rows) in [("/tokens/transactions/did:key:alice", 15), ("/tokens/transactions/received/did:key:bob", 16)]
    {
        let token = world.token(if rows == 15 { "alice" } else { "bob" });
        let mut seen = Vec::new();
        let mut cursor = String::new();
        for _ in 0..10 {
            let page = world.call("GET", &format!("{path}?limit=4{cursor}"), &token, None).await;
            assert_eq!(page.status, 200, "{page:?}");
            let page = json(&page);
            seen.extend(page["transactions"].as_array().unwrap().iter().map(|row| row["transactionId"].to_string()));
            match page["cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
            assert_eq!(page["hasMore"], true);
        }
        let mut distinct = seen.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!((seen.len(), distinct.len()), (rows, rows), "{path}");
    }
    let all = world.ledger.history(History::Sent, &did("alice"), Places::between(None, None), 100).await.unwrap();
    assert!(all.entries.windows(2).all(|pair| pair[0].created_at() == pair[1].created_at() && pair[0].id > pair[1].id));
}

#[tokio::test]
async fn a_hash_in_an_id_that_makes_two_keys_one() {
    // `IDEMPOTENCY#did:web:a#b` + `#c` and `IDEMPOTENCY#did:web:a` + `#b#c` would be the same text.
    let world = world().await;
    assert!("did:web:a#b".parse::<tokens::identity::did::Did>().is_err());
    world.open(&["did:web:a", "did:web:a%23b", "bob"]).await;
    assert!(!world.send("did:web:a", "bob", "1", "b#c").await.unwrap().replayed);
    assert!(!world.send("did:web:a%23b", "bob", "1", "c").await.unwrap().replayed);
    assert!(!world.send("did:web:a", "bob", "1", "b%23c").await.unwrap().replayed);
    let mut keys: Vec<String> =
        world.items("IDEMPOTENCY#").iter().map(|item| item["PK"]["S"].as_str().unwrap().to_owned()).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 3, "{keys:?}");
    // Nor does an account share an item with another one's shard, counter or history.
    world.assert_sound().await;
}

#[tokio::test]
async fn one_hot_partition_of_all_transactions() {
    let world = world().await;
    world.open(&["alice", "bob", "carol"]).await;
    for (n, from) in ["alice", "bob", "carol"].into_iter().enumerate() {
        world.send(from, ["bob", "carol", "alice"][n], "1", "k").await.unwrap();
    }
    let items = world.db.items(world.table());
    for name in ["PK", "GSI1PK"] {
        let transfers = items.iter().filter(|item| item["kind"]["S"] == "transfer");
        let mut partitions: Vec<_> = transfers.map(|item| item[name]["S"].as_str().unwrap()).collect();
        partitions.sort_unstable();
        partitions.dedup();
        assert_eq!(partitions.len(), 3, "{name}");
    }
}
