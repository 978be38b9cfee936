//! `ichidoctl trace`.

use insta::assert_snapshot;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::client::{answer, eventually, http};
use crate::support::ctl::{ctl, platform};
use crate::support::slack;

/// What the functions say, by function: they work at the same time, so their order is not always the same.
fn story(traced: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let lines = traced["lines"].as_array().expect("lines").iter();
    let mut said: Vec<String> =
        lines.map(|line| format!("{}: {}", text(&line["function"]), text(&line["message"]))).collect();
    said.sort();
    said
}

#[tokio::test]
async fn an_event_is_followed_from_the_request_to_its_reply() {
    let local = platform(&[]);
    assert_eq!(slack::upload(&local, "1").await, StatusCode::OK);
    eventually("the reply", || async { (slack::replies(&local).await == 1).then_some(()) }).await;
    assert_eq!(slack::upload(&local, "1").await, StatusCode::OK, "Slack repeats");
    assert_eq!(slack::upload(&local, "2").await, StatusCode::OK, "another event is another story");
    eventually("both replies", || async { (slack::replies(&local).await == 2).then_some(()) }).await;
    let traced = ctl(&local, &["trace", "Ev1", "--json"]);
    assert_eq!(traced.code, Some(0));
    let traced = traced.json();
    let file_key = traced["records"][1]["key"].as_str().expect("the key of the file");
    assert_snapshot!(story(&traced).join("\n").replace(file_key, "[file key]"), @r"
    slack-events: checked Ev1: duplicate (completed)
    slack-events: checked Ev1: new (absent)
    slack-events: handed over event Ev1 to slack-files (files: 1)
    slack-files: checked [file key]: new (absent)
    slack-files: handled file F1 of event Ev1: replied
    ");
    let records: Vec<&str> = traced["records"]
        .as_array()
        .expect("records")
        .iter()
        .map(|record| record["key"].as_str().expect("a key"))
        .collect();
    assert_eq!(records.len(), 2, "the event and its file: {records:?}");
    assert!(records[0] == "Ev1" && records[1].ends_with("#F1"), "{records:?}");
    let shown = ctl(&local, &["trace", "Ev1"]);
    let at = |text: &str| shown.out.find(text).unwrap_or_else(|| panic!("{text} is not in {}", shown.out));
    assert!(
        at("result=new") < at("handled file F1") && at("handled file F1") < at("result=duplicate"),
        "{}",
        shown.out
    );
    assert!(shown.out.contains("records:\n  slack  Ev1  completed"), "{}", shown.out);
    assert!(!shown.out.contains("Ev2") && !shown.out.contains("#F2"), "{}", shown.out);
    // From the file's key one comes to the event.
    let from_the_file = ctl(&local, &["trace", records[1], "--json"]).json();
    assert!(
        story(&from_the_file).contains(&"slack-events: handed over event Ev1 to slack-files (files: 1)".to_owned()),
        "{from_the_file}"
    );
}

#[tokio::test]
async fn what_was_given_up_on_says_so_and_ends_with_1() {
    let local = platform(&[]);
    local.put_faults(json!({"slack": {"mode": "refuse", "status": 503}})).await;
    assert_eq!(slack::upload(&local, "1").await, StatusCode::OK);
    let traced = eventually("a dead letter", || async {
        let traced = ctl(&local, &["trace", "Ev1"]);
        traced.out.contains("dead letter: slack").then_some(traced)
    })
    .await;
    assert_eq!(traced.code, Some(1));
    assert!(traced.out.contains("ichidoctl dead-letters show slack "), "{}", traced.out);
}

#[tokio::test]
async fn an_entry_is_followed_to_its_destinations_without_the_others_of_its_run() {
    let local = platform(&[]);
    assert_eq!(ctl(&local, &["schedules", "run", "github-subscriber"]).code, Some(0));
    for _ in 0..3 {
        let (status, _) = answer(http().post(format!("{}/feeds/sample/github", local.url))).await;
        assert!(status.is_success());
    }
    assert_eq!(ctl(&local, &["schedules", "run", "github-subscriber"]).code, Some(0));
    let entries = local.get("/_local/feeds/github").await;
    let entry = entries["entries"][0]["id"].as_str().expect("an id").to_owned();
    let traced = ctl(&local, &["trace", &entry, "--json"]).json();
    let lines = traced["lines"].as_array().expect("lines");
    let delivered = format!("delivered entry {entry} to mastodon");
    assert!(lines.iter().any(|line| line["message"] == delivered && line["destination"] == "mastodon"), "{traced:#}");
    assert!(lines.iter().all(|line| line["entryId"].as_str().is_none_or(|id| id == entry)), "{traced:#}");
    let keys: Vec<&str> = traced["records"]
        .as_array()
        .expect("records")
        .iter()
        .map(|record| record["key"].as_str().expect("a key"))
        .collect();
    assert!(keys.contains(&entry.as_str()), "the marker: {keys:?}");
    assert!(keys.contains(&format!("DELIVERY#mastodon#{entry}").as_str()), "the delivery: {keys:?}");
}

#[tokio::test]
async fn a_transfer_is_found_by_its_idempotency_key() {
    let local = platform(&[]);
    let config = local.get("/_local/config").await;
    let token = |at: usize| config["accounts"][at]["token"].as_str().expect("a token").to_owned();
    for at in 0..2 {
        let open = http().post(format!("{}/tokens/accounts", local.url)).bearer_auth(token(at));
        assert!(answer(open).await.0.is_success());
    }
    // In the key of the record the separator `#` is escaped.
    for key in ["lunch-1", "lunch#2"] {
        let transfer = http()
            .post(format!("{}/tokens/transfer", local.url))
            .bearer_auth(token(0))
            .header("idempotency-key", key)
            .json(&json!({"recipientDid": config["accounts"][1]["did"], "amount": "12.5"}));
        let (status, body) = answer(transfer).await;
        assert!(status.is_success(), "{body}");
        let traced = ctl(&local, &["trace", key, "--json"]).json();
        assert_eq!(story(&traced), [format!("tokens-api: made transfer {key} of did:example:alice")]);
        assert_eq!(traced["records"][0]["state"], "completed", "{traced:#}");
    }
}

#[tokio::test]
async fn of_what_nobody_knows_nothing_is_said() {
    let local = platform(&[]);
    assert_snapshot!(ctl(&local, &["trace", "Ev404"]).tidy(), @r"
    nothing is known about Ev404: it is not in the logs of the last [age], in no table and in no queue; --since searches further back
    exit code 1
    ");
    let nonsense = ctl(&local, &["trace", "Ev404", "--since", "yesterday"]);
    assert_eq!(nonsense.code, Some(2));
    assert!(nonsense.err.contains("is not an age; write 30m, 24h or 7d"), "{nonsense:?}");
}
