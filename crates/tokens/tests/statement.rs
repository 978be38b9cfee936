//! A statement has every entry once, on whatever pages it is read, and its balances add up.

use crate::support::*;
use serde_json::Value;
use tokens::settings::Rules;

async fn page(world: &World, name: &str, query: &str) -> Value {
    let response =
        world.call("GET", &format!("/tokens/statement/{}?{query}", did(name)), &world.token(name), None).await;
    assert_eq!(response.status, 200, "{response:?}");
    json(&response)
}

/// All rows, read in pages of `limit`.
async fn rows(world: &World, name: &str, limit: usize) -> Vec<Value> {
    let mut rows = Vec::new();
    let mut query = format!("limit={limit}");
    loop {
        let page = page(world, name, &query).await;
        let entries = page["entries"].as_array().unwrap();
        assert!(entries.len() <= limit.max(2), "{entries:?}");
        assert_eq!(page["hasMore"].as_bool(), Some(page["cursor"].is_string()));
        rows.extend(entries.iter().cloned());
        match page["cursor"].as_str() {
            Some(cursor) => query = format!("limit={limit}&cursor={cursor}"),
            None => return rows,
        }
    }
}

fn units(text: &Value) -> i128 {
    let text = text.as_str().unwrap();
    if let Some(text) = text.strip_prefix('-') {
        return -units(&text.into());
    }
    let (whole, places) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{places:0<8}").parse().unwrap()
}

/// Each balance is the one below it, changed by its own row. The lowest one was made of nothing.
fn assert_adds_up(rows: &[Value], balance: &str) {
    assert_eq!(rows[0]["balance"], balance);
    for (index, row) in rows.iter().enumerate() {
        let below = rows.get(index + 1).map_or(0, |row| units(&row["balance"]));
        let change = if row["direction"] == "in" { units(&row["amount"]) } else { -units(&row["amount"]) };
        assert_eq!(units(&row["balance"]), below + change, "{rows:#?}");
    }
}

fn kinds(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["kind"].as_str().unwrap()).collect()
}

async fn busy() -> World {
    let world = World::new(Rules { tax_rate: "0.05".parse().unwrap(), ..Rules::default() }, 1).await;
    world.open(&["alice", "bob"]).await;
    for (n, (from, to)) in [("alice", "bob"), ("bob", "alice"), ("alice", "bob")].into_iter().enumerate() {
        world.clock.advance(std::time::Duration::from_secs(1));
        world.send(from, to, "10", &format!("k{n}")).await.unwrap();
    }
    world
}

#[tokio::test]
async fn every_page_size_shows_the_same_rows_and_they_add_up() {
    let world = busy().await;
    let all = rows(&world, "alice", 100).await;
    assert_eq!(kinds(&all), ["fee", "sent", "received", "fee", "sent", "grant"]);
    assert_adds_up(&all, &world.balance("alice").await);
    assert_eq!(all[0]["counterparty"], world.ledger.rules().treasury.as_str());
    assert_eq!((&all[1]["counterparty"], &all[5]["counterparty"]), (&"did:key:bob".into(), &Value::Null));
    for limit in 1..6 {
        assert_eq!(rows(&world, "alice", limit).await, all, "limit={limit}");
    }
    assert_adds_up(&rows(&world, "bob", 2).await, &world.balance("bob").await);
}

#[tokio::test]
async fn a_fee_is_never_split_from_its_transfer() {
    let world = busy().await;
    let first = page(&world, "alice", "limit=1").await;
    assert_eq!(kinds(first["entries"].as_array().unwrap()), ["fee", "sent"]);
    assert_eq!(first["entries"][0]["transactionId"], first["entries"][1]["transactionId"]);
    let four = page(&world, "alice", "limit=4").await;
    assert_eq!(kinds(four["entries"].as_array().unwrap()), ["fee", "sent", "received"], "the next two do not fit");
}

#[tokio::test]
async fn a_reversal_is_one_row_with_the_fee() {
    let world = busy().await;
    let sent = rows(&world, "alice", 10).await[1]["transactionId"].as_str().unwrap().to_owned();
    world.clock.advance(std::time::Duration::from_secs(1));
    world.ledger.reverse(&did("alice"), sent.parse().unwrap(), "a mistake", world.until()).await.unwrap();
    for (name, direction, amount) in [("alice", "in", "10.5"), ("bob", "out", "10")] {
        let rows = rows(&world, name, 3).await;
        assert_eq!((&rows[0]["kind"], &rows[0]["direction"]), (&"reversal".into(), &direction.into()));
        assert_eq!(rows[0]["amount"], amount);
        assert_adds_up(&rows, &world.balance(name).await);
    }
}

#[tokio::test]
async fn what_comes_after_the_first_page_changes_no_balance_on_the_next() {
    let world = busy().await;
    let all = rows(&world, "alice", 100).await;
    let first = page(&world, "alice", "limit=2").await;
    world.clock.advance(std::time::Duration::from_secs(1));
    world.send("bob", "alice", "1", "later").await.unwrap();
    let cursor = first["cursor"].as_str().unwrap();
    let second = page(&world, "alice", &format!("limit=100&cursor={cursor}")).await;
    assert_eq!(second["entries"].as_array().unwrap()[..], all[2..]);
}

/// All of it in one millisecond, so that the ids are in another order than the commits.
#[tokio::test]
async fn transfers_of_one_moment_add_up_in_the_order_of_their_ids() {
    let world = World::new(Rules { tax_rate: "0.05".parse().unwrap(), ..Rules::default() }, seed(7)).await;
    world.open(&["alice", "bob"]).await;
    for n in 0..10 {
        let (from, to) = if n % 2 == 0 { ("alice", "bob") } else { ("bob", "alice") };
        world.send(from, to, "500", &format!("k{n}")).await.unwrap();
    }
    let all = rows(&world, "alice", 100).await;
    assert_adds_up(&all, &world.balance("alice").await);
    assert_eq!(rows(&world, "alice", 3).await, all);
}

#[tokio::test]
async fn only_the_owner_and_operators_see_a_statement_and_the_treasury_has_none() {
    let world = busy().await;
    let status = async |path: &str, token: String| world.call("GET", path, &token, None).await.status;
    assert_eq!(status("/tokens/statement/did:key:alice", world.token("bob")).await, 403);
    assert_eq!(status("/tokens/statement/did:key:alice", world.operator()).await, 200);
    assert_eq!(status("/tokens/statement/did:key:nobody", world.operator()).await, 404);
    assert_eq!(status("/tokens/statement/did:ichido:treasury", world.operator()).await, 404);
    let foreign = page(&world, "bob", "limit=1").await;
    let foreign = foreign["cursor"].as_str().unwrap();
    assert_eq!(status(&format!("/tokens/statement/did:key:alice?cursor={foreign}"), world.operator()).await, 400);
}
