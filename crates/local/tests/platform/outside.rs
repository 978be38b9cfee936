//! Stand-ins, their faults, and the outbox.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::client::{answer, eventually, http};
use crate::support::process::Local;

async fn post(local: &Local, text: &str) -> Result<(StatusCode, Value), reqwest::Error> {
    let token = local.get("/_local/config").await["workshopToken"].as_str().expect("a token").to_owned();
    let body = json!({"channel": "C1", "text": text, "thread_ts": "1.000001"});
    let request = http().post(format!("{}/standins/slack/api/chat.postMessage", local.url)).bearer_auth(token);
    let response = request.header("content-type", "application/json").body(body.to_string()).send().await?;
    let status = response.status();
    Ok((status, serde_json::from_str(&response.text().await?).unwrap_or_default()))
}

async fn texts(local: &Local, query: &str) -> Vec<Value> {
    let entries = local.get(&format!("/_local/outbox{query}")).await;
    entries.as_array().expect("a list").iter().map(|entry| entry["request"]["text"].clone()).collect()
}

#[tokio::test]
async fn what_a_stand_in_accepted_is_in_the_outbox_oldest_first() {
    let local = Local::start();
    for text in ["one", "two"] {
        let (status, body) = post(&local, text).await.expect("an answer");
        assert_eq!((status, &body["ok"]), (StatusCode::OK, &json!(true)));
    }
    let entries = local.get("/_local/outbox?sink=slack").await;
    let first = &entries[0];
    assert_eq!(
        (&first["sink"], &first["status"], &first["request"]["text"]),
        (&json!("slack"), &json!(200), &json!("one"))
    );
    assert!(first["id"].is_u64() && first["at"].as_str().is_some_and(|at| at.ends_with('Z')));
    assert_eq!(first.as_object().expect("an object").len(), 5, "id, at, sink, request, status");
    assert_eq!(texts(&local, "").await, ["one", "two"]);
    assert_eq!(local.get("/_local/outbox?sink=mastodon").await, json!([]));
}

#[tokio::test]
async fn a_refusal_has_no_effect_and_is_listed_only_when_asked_for() {
    let local = Local::start();
    let (status, shown) = local.put_faults(json!({"slack": {"mode": "refuse", "status": 429}})).await;
    assert_eq!((status, &shown["slack"]["status"]), (StatusCode::OK, &json!(429)));
    let token = local.get("/_local/config").await["workshopToken"].as_str().expect("a token").to_owned();
    let request = http().post(format!("{}/standins/slack/api/chat.postMessage", local.url)).bearer_auth(token);
    let response = request.json(&json!({"channel": "C1", "text": "no"})).send().await.expect("an answer");
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()["retry-after"], "1");
    assert_eq!((texts(&local, "").await.len(), texts(&local, "?all=1").await), (0, vec![json!("no")]));
    assert_eq!(local.put_faults(json!({})).await, (StatusCode::OK, json!({})));
    assert_eq!(post(&local, "yes").await.expect("an answer").1["ok"], true);
    assert_eq!(texts(&local, "").await, ["yes"]);
}

#[tokio::test]
async fn a_lost_answer_is_a_closed_connection_and_an_effect() {
    let local = Local::start();
    local.put_faults(json!({"slack": {"mode": "accept_then_lose"}})).await;
    let lost = post(&local, "lost").await.expect_err("no answer");
    assert!(lost.is_request() && !lost.is_timeout(), "{lost:?}");
    assert_eq!(texts(&local, "").await, ["lost"]);
}

#[tokio::test]
async fn a_hanging_stand_in_answers_nobody_and_does_nothing() {
    let local = Local::start();
    local.put_faults(json!({"slack": {"mode": "hang"}})).await;
    let waiting = tokio::time::timeout(std::time::Duration::from_millis(500), post(&local, "hang")).await;
    assert!(waiting.is_err(), "{waiting:?}");
    assert_eq!(texts(&local, "?all=1").await.len(), 0);
}

#[tokio::test]
async fn faults_that_are_not_understood_are_refused_and_change_nothing() {
    let local = Local::start();
    local.put_faults(json!({"slack": {"mode": "hang"}})).await;
    let (status, body) = local.put_faults(json!({"slak": {"mode": "hang"}})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(body["message"].as_str().is_some_and(|message| message.contains("slak")), "{body}");
    assert_eq!(local.get("/_local/faults").await, json!({"slack": {"mode": "hang"}}));
}

#[tokio::test]
async fn faults_of_the_store_affect_handlers_and_not_tools() {
    let local = Local::start();
    for (mode, kind) in [("down", "Store"), ("throttle", "Store"), ("conflict", "Store")] {
        assert_eq!(local.put_faults(json!({"dynamodb": {"mode": mode}})).await.0, StatusCode::OK);
        let (_, error, body) = local.invoke("workshop-note", "RequestResponse", json!({"id": mode})).await;
        assert_eq!((error.as_deref(), &body["errorType"]), (Some("Unhandled"), &json!(kind)), "{mode}");
        let tool = crate::support::client::aws(&local.dynamodb_url).dynamodb();
        let scan = tool.scan().table_name("workshop-notes").send().await.expect("a tool's answer");
        assert_eq!(scan.count(), 0, "{mode}");
    }
    local.put_faults(json!({"dynamodb": {"mode": "lose_answers"}})).await;
    let (_, _, body) = local.invoke("workshop-note", "RequestResponse", json!({"id": "lost"})).await;
    // The first try wrote the note and lost its answer; a later try found the note.
    assert!(body["result"] == "duplicate" || body["errorType"] == "Store", "{body}");
    local.put_faults(json!({})).await;
    assert_eq!(local.note("lost").await, json!({"result": "duplicate"}));
}

#[tokio::test]
async fn effects_are_still_known_after_kill_9() {
    let directory = tempfile::tempdir().expect("a directory");
    let local = Local::keeping(directory.path(), &[]);
    post(&local, "before").await.expect("an answer");
    let token = local.get("/_local/config").await["workshopToken"].clone();
    local.kill();
    let local = Local::keeping(directory.path(), &[]);
    assert_eq!(texts(&local, "").await, ["before"]);
    assert_eq!(local.get("/_local/config").await["workshopToken"], token, "secrets stay");
    let asked = http().get(format!("{}/standins/slack/api/conversations.replies?channel=C1&ts=1.000001", local.url));
    let (_, replies) = answer(asked.bearer_auth(token.as_str().expect("a token"))).await;
    assert_eq!(replies["messages"][1]["text"], "before");
    post(&local, "after").await.expect("an answer");
    eventually("both", || async { (texts(&local, "").await == ["before", "after"]).then_some(()) }).await;
}
