//! `ichidoctl restore`.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, BillingMode};
use serde_json::{Value, json};

use crate::support::client::{answer, aws, http};
use crate::support::ctl::{Said, ctl, ctl_at, door_without, platform};
use crate::support::process::Local;

const GITHUB: &str = "masutaka-feed-github-state";
const LEDGER: &str = "tokens-ledger";
const AT: &str = "2026-01-31T12:00:00Z";

type Item = HashMap<String, AttributeValue>;

async fn items(client: &Client, table: &str) -> Vec<Item> {
    client.scan().table_name(table).send().await.expect("items").items.unwrap_or_default()
}

async fn put(client: &Client, table: &str, item: Item) {
    client.put_item().table_name(table).set_item(Some(item)).send().await.expect("put");
}

/// A copy of a table, as DynamoDB restores it: with its keys and items, and nothing else.
async fn copy(client: &Client, table: &str) -> String {
    let copy = format!("{table}-restored");
    let described = client.describe_table().table_name(table).send().await.expect("a table").table.expect("a table");
    let keys = described.key_schema();
    let attributes = described.attribute_definitions().iter();
    let attributes = attributes.filter(|each| keys.iter().any(|key| key.attribute_name() == each.attribute_name()));
    let create = client.create_table().table_name(&copy).set_key_schema(Some(keys.to_vec()));
    let create = create.set_attribute_definitions(Some(attributes.cloned().collect()));
    create.billing_mode(BillingMode::PayPerRequest).send().await.expect("a copy");
    for item in items(client, table).await {
        put(client, &copy, item).await;
    }
    copy
}

async fn delete(client: &Client, table: &str, item: &Item, keys: &[&str]) {
    let key = keys.iter().map(|name| ((*name).to_owned(), item[*name].clone())).collect();
    client.delete_item().table_name(table).set_key(Some(key)).send().await.expect("deleted");
}

async fn new_entry_and_run(local: &Local) -> Said {
    let (status, _) = answer(http().post(format!("{}/feeds/sample/github", local.url))).await;
    assert!(status.is_success());
    ctl(local, &["schedules", "run", "github-subscriber"])
}

async fn posts(local: &Local) -> Vec<Value> {
    local.get("/_local/outbox?sink=mastodon").await.as_array().expect("a list").clone()
}

#[tokio::test]
async fn a_feed_that_lost_its_table_goes_on_without_a_repetition_and_without_a_loss() {
    let local = platform(&[]);
    let client = aws(&local.url).dynamodb();
    assert_eq!(ctl(&local, &["schedules", "run", "github-subscriber"]).code, Some(0), "the first read posts nothing");
    assert_eq!(new_entry_and_run(&local).await.code, Some(0));
    let copy = copy(&client, GITHUB).await;
    assert_eq!(new_entry_and_run(&local).await.code, Some(0));
    assert_eq!(posts(&local).await.len(), 2);
    for item in items(&client, GITHUB).await {
        delete(&client, GITHUB, &item, &["entry_id"]).await;
    }

    let arguments = ["restore", "github", "--from", &copy, "--copy-of", GITHUB, "--at", AT];
    let running = ctl(&local, &[&arguments[..], &["--yes"]].concat());
    assert_eq!(running.code, Some(2));
    assert!(
        running.err.contains("stop it first: ichidoctl schedules pause github-feed-subscriber-schedule"),
        "{running:?}"
    );
    assert_eq!(ctl(&local, &["schedules", "pause", "github-subscriber"]).code, Some(0));
    let timeless = ctl(&local, &["restore", "github", "--from", &copy, "--copy-of", GITHUB, "--yes"]);
    assert!(timeless.err.contains("say it with --at"), "{timeless:?}");
    let unasked = ctl(&local, &arguments);
    assert_eq!(unasked.code, Some(2), "it asks");
    let plan = ctl(&local, &[&arguments[..], &["--plan", "--json"]].concat()).json();
    let lost = items(&client, &copy).await.len();
    assert_eq!((&plan["missing"]["count"], &plan["same"]), (&json!(lost), &json!(0)), "{plan:#}");
    let left = items(&client, GITHUB).await;
    let by_hand = |item: &Item| item["entry_id"].as_s().is_ok_and(|id| id.starts_with("#operation#"));
    assert!(left.len() == 1 && left.iter().all(by_hand), "nothing was changed but the pause, by hand: {left:?}");

    let done = ctl(&local, &[&arguments[..], &["--yes"]].concat());
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.contains(&format!("added {lost}, replaced 0, deleted 0")), "{done:?}");
    assert!(done.err.contains("wrote items of masutaka-feed-github-state"), "it is logged: {done:?}");
    let again = ctl(&local, &[&arguments[..], &["--yes"]].concat());
    assert!(again.out.contains("added 0, replaced 0, deleted 0"), "{again:?}");
    assert_eq!(ctl(&local, &["mend", "--yes"]).code, Some(0));
    // Pushover cannot be asked what it has, so its deliveries in doubt are dead letters, and somebody has to decide.
    let run = new_entry_and_run(&local).await;
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.out.contains("DeadLetters"), "{run:?}");
    let texts: std::collections::BTreeSet<String> =
        posts(&local).await.iter().map(|post| post["request"]["status"].to_string()).collect();
    assert_eq!((posts(&local).await.len(), texts.len()), (3, 3), "{texts:?}");
}

#[tokio::test]
async fn what_was_owed_is_posted_also_if_a_run_took_the_empty_table_for_a_first_one() {
    let local = platform(&[]);
    let client = aws(&local.url).dynamodb();
    assert_eq!(ctl(&local, &["schedules", "run", "github-subscriber"]).code, Some(0), "the first read posts nothing");
    let faults = |faults: Value| answer(http().put(format!("{}/_local/faults", local.url)).json(&faults));
    faults(json!({ "mastodon": { "mode": "refuse", "status": 503 } })).await;
    new_entry_and_run(&local).await;
    let copy = copy(&client, GITHUB).await;
    for item in items(&client, GITHUB).await {
        delete(&client, GITHUB, &item, &["entry_id"]).await;
    }
    ctl(&local, &["schedules", "run", "github-subscriber"]);
    assert_eq!(ctl(&local, &["schedules", "pause", "github-subscriber"]).code, Some(0));
    let arguments = ["restore", "github", "--from", &copy, "--copy-of", GITHUB, "--at", AT, "--yes"];
    let done = ctl(&local, &arguments);
    assert!(done.out.contains("replaced 1,"), "{done:?}");
    assert!(ctl(&local, &arguments).out.contains("replaced 0,"), "a second time changes nothing");
    faults(json!({})).await;
    assert_eq!(ctl(&local, &["mend", "--yes"]).code, Some(0));
    ctl(&local, &["schedules", "run", "github-subscriber"]);
    assert_eq!(posts(&local).await.len(), 1);
}

fn entry(pk: &str, balance: u32) -> Item {
    Item::from([
        ("PK".to_owned(), AttributeValue::S(pk.to_owned())),
        ("SK".to_owned(), AttributeValue::S("BALANCE".to_owned())),
        ("balance".to_owned(), AttributeValue::N(balance.to_string())),
    ])
}

/// Balances by key.
async fn balances(client: &Client) -> Vec<(String, String)> {
    let items = items(client, LEDGER).await;
    let mut all: Vec<_> = items
        .iter()
        .filter(|item| !item.contains_key("operation"))
        .map(|item| (item["PK"].as_s().expect("text").clone(), item["balance"].as_n().expect("a number").clone()))
        .collect();
    all.sort();
    all
}

fn owned(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(pk, balance)| ((*pk).to_owned(), (*balance).to_owned())).collect()
}

#[tokio::test]
async fn what_a_ledger_lost_is_added_and_only_replace_touches_what_it_has() {
    let local = platform(&[]);
    let client = aws(&local.url).dynamodb();
    let expired = |pk, balance| {
        let mut item = entry(pk, balance);
        item.insert("ttl".to_owned(), AttributeValue::N("1".to_owned()));
        item
    };
    for item in [entry("A", 1), entry("B", 2), entry("C", 3)] {
        put(&client, LEDGER, item).await;
    }
    let copy = copy(&client, LEDGER).await;
    for item in [expired("EXPIRED", 9), expired("USED AGAIN", 9)] {
        put(&client, &copy, item).await;
    }
    put(&client, LEDGER, entry("A", 10)).await;
    delete(&client, LEDGER, &entry("B", 2), &["PK", "SK"]).await;
    put(&client, LEDGER, entry("D", 4)).await;
    put(&client, LEDGER, entry("USED AGAIN", 5)).await;

    let arguments = ["restore", "tokens", "--from", &copy, "--copy-of", LEDGER];
    let plan = ctl(&local, &[&arguments[..], &["--plan"]].concat());
    insta::assert_snapshot!(plan.tidy(), @r"
    1 items are the same in tokens-ledger and tokens-ledger-restored
    1 only in tokens-ledger-restored: B BALANCE
    1 different: A BALANCE
    1 only in tokens-ledger: D BALANCE
    2 items of tokens-ledger-restored have expired and are not copied
    exit code 0
    ");
    let plan = ctl(&local, &[&arguments[..], &["--replace", "--plan", "--json"]].concat()).json();
    assert_eq!(plan["newer"]["count"], 2, "what has expired in the copy is absent: {plan:#}");
    let running = ctl(&local, &[&arguments[..], &["--yes"]].concat());
    assert_eq!(running.code, Some(2));
    assert!(running.err.contains("tokens-api still runs; stop it first"), "{running:?}");
    let stop =
        aws_sdk_lambda::Client::new(aws(&local.url).config()).put_function_concurrency().function_name("tokens-api");
    stop.reserved_concurrent_executions(0).send().await.expect("stopped");
    assert_eq!(ctl(&local, &[&arguments[..], &["--reason", "a test", "--yes"]].concat()).code, Some(0));
    assert_eq!(balances(&client).await, owned(&[("A", "10"), ("B", "2"), ("C", "3"), ("D", "4"), ("USED AGAIN", "5")]));
    let replaced = ctl(&local, &[&arguments[..], &["--replace", "--yes"]].concat());
    assert!(replaced.out.contains("added 0, replaced 1, deleted 2"), "{replaced:?}");
    assert_eq!(balances(&client).await, owned(&[("A", "1"), ("B", "2"), ("C", "3")]));
    let kept = ctl(&local, &["operations", "tokens", "--json"]).json();
    let [added, replaced] = kept["operations"].as_array().expect("a list").as_slice() else { panic!("two: {kept:#}") };
    assert_eq!(
        (&added["operation"], &added["on"], &added["reason"]),
        (&json!("restore"), &json!(LEDGER), &json!("a test"))
    );
    let said = "added 0, replaced 1, deleted 2 items of tokens-ledger from tokens-ledger-restored by hand";
    assert_eq!(replaced["outcome"], said);
    let before = &replaced["shown"]["before"];
    assert_eq!((&before["replace"], &before["found"]["newer"]["count"]), (&json!(true), &json!(2)), "{replaced:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_stopped_is_kept_as_done_in_part_and_without_a_trace_nothing_is_restored() {
    let local = platform(&[]);
    let client = aws(&local.url).dynamodb();
    put(&client, LEDGER, entry("A", 1)).await;
    let copy = copy(&client, LEDGER).await;
    delete(&client, LEDGER, &entry("A", 1), &["PK", "SK"]).await;
    put(&client, LEDGER, entry("B", 2)).await;
    let stop =
        aws_sdk_lambda::Client::new(aws(&local.url).config()).put_function_concurrency().function_name("tokens-api");
    stop.reserved_concurrent_executions(0).send().await.expect("stopped");
    let arguments = ["restore", "tokens", "--from", &copy, "--copy-of", LEDGER, "--replace", "--yes"];
    put(&client, &copy, entry("C", 3)).await;
    put(&client, LEDGER, entry("C", 3)).await;
    let untraced = ctl_at(&local, &door_without(&local, "PutItem").await, &arguments);
    assert!(untraced.code == Some(2) && untraced.err.contains("so nothing was changed"), "{untraced:?}");
    assert_eq!(balances(&client).await, owned(&[("B", "2"), ("C", "3")]));
    let stopped = ctl_at(&local, &door_without(&local, "DeleteItem").await, &arguments);
    assert_eq!(stopped.code, Some(2), "{stopped:?}");
    assert_eq!(balances(&client).await, owned(&[("A", "1"), ("B", "2"), ("C", "3")]));
    let kept = ctl(&local, &["operations", "tokens", "--json"]).json();
    let [kept] = kept["operations"].as_array().expect("a list").as_slice() else { panic!("one: {kept:#}") };
    let outcome = kept["outcome"].as_str().expect("an outcome");
    assert!(outcome.starts_with("happened in part: a part of tokens-ledger may be restored"), "{outcome}");
}

#[tokio::test]
async fn what_would_do_harm_is_refused() {
    let local = platform(&[]);
    let client = aws(&local.url).dynamodb();
    let copy = copy(&client, GITHUB).await;
    let ledger = self::copy(&client, LEDGER).await;
    for (arguments, why) in [
        (vec!["restore", "mesh", "--from", &copy], "is not restored"),
        (vec!["restore", "github", "--from", &copy, "--at", AT, "--replace"], "--replace would delete"),
        (vec!["restore", "tokens", "--from", &copy, "--copy-of", LEDGER], "is not a copy of tokens-ledger"),
        (vec!["restore", "tokens", "--from", "nothing", "--copy-of", LEDGER], "could not find the table nothing"),
        (vec!["restore", "tokens", "--from", &ledger], "say it with --copy-of tokens-ledger"),
        (
            vec!["restore", "tokens", "--from", &ledger, "--copy-of", "another"],
            "is a copy of another, not of tokens-led",
        ),
        (
            vec!["restore", "tokens", "--from", &ledger, "--copy-of", LEDGER, "--replace"],
            "has nothing that could be kept",
        ),
        (vec!["restore", "tokens", "--from", LEDGER, "--copy-of", LEDGER], "tokens-ledger is in use"),
        (vec!["restore", "tokens", "--from", "tokens-ledger-staging", "--copy-of", LEDGER], "-staging is in use"),
        (vec!["restore", "github", "--from", "masutaka-feed-hatebu-state", "--copy-of", GITHUB], "-state is in use"),
        (
            vec!["restore", "github", "--from", &copy, "--copy-of", GITHUB, "--at", "2999-01-01T00:00:00Z"],
            "in the future",
        ),
    ] {
        let refused = ctl(&local, &[&arguments[..], &["--yes"]].concat());
        assert_eq!(refused.code, Some(2), "{arguments:?}: {refused:?}");
        assert!(refused.err.contains(why), "{refused:?}");
    }
    // A copy from before the first read knows nothing of the feed.
    assert_eq!(ctl(&local, &["schedules", "pause", "github-subscriber"]).code, Some(0));
    let empty = ctl(&local, &["restore", "github", "--from", &copy, "--copy-of", GITHUB, "--at", AT, "--yes"]);
    assert!(empty.err.contains("after its first read"), "{empty:?}");
}
