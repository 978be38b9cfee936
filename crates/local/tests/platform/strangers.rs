//! Foreign requests change nothing, on every port.

use reqwest::StatusCode;
use serde_json::json;

use crate::support::client::{answer, http};
use crate::support::process::Local;

#[tokio::test]
async fn a_foreign_host_or_origin_is_refused_everywhere() {
    let local = Local::start();
    for base in [&local.url, &local.dynamodb_url] {
        for (header, value) in [("host", "rebound.example"), ("origin", "https://example.com"), ("origin", "null")] {
            for path in ["/", "/healthz", "/_local/config", "/echo/x", "/standins/slack/api/auth.test"] {
                let (status, body) = answer(http().post(format!("{base}{path}")).header(header, value)).await;
                assert_eq!(status, StatusCode::FORBIDDEN, "{header}: {value} at {base}{path}");
                assert!(body["message"].as_str().is_some_and(|message| message.contains("not this machine")), "{body}");
            }
        }
    }
}

#[tokio::test]
async fn a_foreign_page_cannot_switch_faults_and_a_local_one_can() {
    let local = Local::start();
    let put = |origin: &str| {
        let request = http().put(format!("{}/_local/faults", local.url)).header("origin", origin);
        request.body(json!({"slack": {"mode": "hang"}}).to_string())
    };
    assert_eq!(answer(put("https://example.com")).await.0, StatusCode::FORBIDDEN);
    assert_eq!(local.get("/_local/faults").await, json!({}));
    assert_eq!(answer(put("http://localhost:3000")).await.0, StatusCode::OK);
}
