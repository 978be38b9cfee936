//! The contract under `/_console/`: what it refuses, and that it changes only what was shown.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::client::{answer, eventually, http};
use crate::support::process::Local;

async fn change(local: &Local, ours: bool, body: Value) -> (StatusCode, Value) {
    let request = http().post(format!("{}/_console/changes", local.url)).body(body.to_string());
    answer(if ours { request.header("x-ichido-console", "1") } else { request }).await
}

#[tokio::test]
async fn a_wrong_question_is_answered_with_a_sentence() {
    let local = Local::start();
    for (path, status, why) in [
        ("/_console/overview?minutes=0", StatusCode::BAD_REQUEST, "minutes is a number from 1 to 15"),
        ("/_console/keys?state=lost", StatusCode::BAD_REQUEST, "there is no state \"lost\""),
        ("/_console/runbooks/nothing", StatusCode::NOT_FOUND, "there is no runbook \"nothing\""),
    ] {
        let (found, body) = answer(http().get(format!("{}{path}", local.url))).await;
        assert_eq!(found, status, "{path}");
        assert!(body["message"].as_str().is_some_and(|message| message.starts_with(why)), "{path}: {body}");
    }
    let life = local.get("/_console/keys/_/never%23seen").await;
    assert_eq!((&life["key"], &life["attempts"], &life["records"]), (&json!("never#seen"), &json!([]), &json!([])));
}

#[tokio::test]
async fn a_change_needs_our_header_and_what_was_shown_must_still_be_true() {
    let local = Local::start();
    let schedule = local.get("/_console/schedules").await[0]["name"].as_str().expect("a schedule").to_owned();
    let pause = json!({"action": "pause-schedule", "name": schedule});
    assert_eq!(change(&local, false, pause.clone()).await.0, StatusCode::FORBIDDEN);
    assert_eq!(local.get("/_console/schedules").await[0]["enabled"], true);
    assert_eq!(change(&local, true, pause).await.0, StatusCode::OK);
    assert_eq!(local.get("/_console/schedules").await[0]["enabled"], false);
    let gone = json!({"action": "drop-dead-letter", "application": "workshop", "id": "never"});
    let (status, body) = change(&local, true, gone).await;
    assert_eq!(status, StatusCode::CONFLICT, "{body}");
    assert_eq!(body["message"], "the dead letter never is gone; nothing was changed");
}

#[tokio::test]
async fn a_dead_letter_that_is_clicked_many_times_is_sent_again_once() {
    let local = Local::with(&["--memory", "--no-demo", "--retry-scale=0.001"]);
    let (status, _, _) = local.invoke("workshop-mischief", "Event", json!({"do": "fail", "id": 7})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let letter = eventually("the dead letter", || async {
        local.get("/_console/dead-letters").await["letters"].get(0).cloned()
    })
    .await;
    let again = json!({"action": "redrive-dead-letter", "application": letter["application"], "id": letter["id"]});
    let clicks = futures::future::join_all((0..8).map(|_| change(&local, true, again.clone()))).await;
    let sent = clicks.iter().filter(|(status, _)| *status == StatusCode::OK).count();
    let gone = clicks.iter().filter(|(status, _)| *status == StatusCode::CONFLICT).count();
    assert_eq!((sent, gone), (1, 7), "{clicks:?}");
}

#[tokio::test]
async fn a_foreign_page_can_neither_read_nor_change() {
    let local = Local::start();
    for path in ["/_console/frame", "/_console/events", "/keys/a/b"] {
        let request = http().get(format!("{}{path}", local.url)).header("origin", "https://example.com");
        assert_eq!(answer(request).await.0, StatusCode::FORBIDDEN, "{path}");
    }
}
