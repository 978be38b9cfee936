//! Slack's part: signed file events.

use reqwest::StatusCode;
use serde_json::json;

use super::client::http;
use super::process::Local;

/// Sends one file event, `Ev{name}` with the file `F{name}`, as Slack would.
pub(crate) async fn upload(local: &Local, name: &str) -> StatusCode {
    let secret = local.get("/_local/config").await["slackSigningSecret"].as_str().expect("a secret").to_owned();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").as_secs();
    let ts = format!("{now}.000100");
    let body = json!({
        "type": "event_callback", "team_id": "T1", "api_app_id": "A1", "event_id": format!("Ev{name}"), "event_time": now,
        "event": {
            "type": "message", "subtype": "file_share", "channel": "C1", "user": "U1", "ts": ts, "event_ts": ts,
            "files": [{"id": format!("F{name}"), "name": "report.pdf", "mimetype": "application/pdf", "size": 1000}],
        },
    })
    .to_string();
    let signature = ::slack::signature::sign(&secret, now, body.as_bytes());
    let request = http()
        .post(format!("{}/slack/events", local.url))
        .header("content-type", "application/json")
        .header("x-slack-request-timestamp", now.to_string())
        .header("x-slack-signature", signature)
        .body(body);
    request.send().await.expect("an answer").status()
}

/// How many replies there are.
pub(crate) async fn replies(local: &Local) -> usize {
    local.get("/_local/outbox?sink=slack").await.as_array().expect("a list").len()
}
