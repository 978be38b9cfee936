//! A function starts with complete settings, or one error names everything that is wrong with them.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::response::IntoResponse;
use function::{Aws, Env};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// An SSM on loopback that knows these parameters.
async fn ssm(parameters: &'static [(&'static str, &'static str)]) -> Aws {
    let parameters = Arc::new(parameters);
    let app = Router::new().fallback(move |body: Bytes| {
        let parameters = parameters.clone();
        async move {
            let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
            let asked = asked["Names"].as_array().cloned().unwrap_or_default();
            let found = parameters.iter().filter(|(name, _)| asked.iter().any(|each| each == name));
            let found: Vec<Value> = found.map(|(name, value)| json!({"Name": name, "Value": value})).collect();
            ([("content-type", "application/x-amz-json-1.1")], json!({ "Parameters": found }).to_string())
                .into_response()
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, app).await });
    Aws::at(&format!("http://{address}"))
}

fn env(variables: &[(&str, &str)]) -> Env {
    variables.iter().copied().collect()
}

#[tokio::test]
async fn slack_events_names_everything_that_is_missing_or_still_a_placeholder() {
    let aws = ssm(&[("/slack/signing", "changeme")]).await;
    let env = env(&[
        ("SLACK_BOT_ID", "<your bot id>"),
        ("SLACK_SIGNING_SECRET_PARAMETER", "/slack/signing"),
        ("DEDUP_FALLBACK", "perhaps"),
    ]);
    let error = slack::EVENTS.start(env, aws).await.err().expect("an error").to_string();
    for part in [
        "DEDUP_TABLE_NAME is missing",
        "SLACK_BOT_ID is still a placeholder",
        "SLACK_BOT_USER_ID is missing",
        "SLACK_FILES_FUNCTION is missing",
        "DEDUP_FALLBACK is invalid (must be one of open, closed)",
        "SLACK_SIGNING_SECRET_PARAMETER is invalid (the secret that it names is empty or still a placeholder)",
    ] {
        assert!(error.contains(part), "{part:?} in {error:?}");
    }
}

#[tokio::test]
async fn slack_files_names_everything_that_is_missing_or_invalid() {
    let aws = ssm(&[]).await;
    let env = env(&[
        ("SLACK_API_URL", "slack.com"),
        ("SLACK_BOT_TOKEN_PARAMETER", "/slack/token"),
        ("SAME_CONTENT_CHANNELS", "C0123456789, #general"),
        ("SAME_CONTENT_HOURS", "721"),
    ]);
    let error = slack::FILES.start(env, aws).await.err().expect("an error").to_string();
    for part in [
        "DEDUP_TABLE_NAME is missing",
        "SLACK_API_URL is invalid",
        "SAME_CONTENT_CHANNELS is invalid (it is a list of channel ids separated by commas, or *)",
        "SAME_CONTENT_HOURS is invalid (it is a number of hours from 1 to 720)",
        "SLACK_BOT_TOKEN_PARAMETER is invalid (could not read the secret /slack/token",
    ] {
        assert!(error.contains(part), "{part:?} in {error:?}");
    }
}

#[tokio::test]
async fn three_signing_secrets_are_one_too_many_and_no_error_shows_them() {
    let aws = ssm(&[("/slack/signing", "first-value,second-value,third-value")]).await;
    let env = env(&[
        ("DEDUP_TABLE_NAME", "events"),
        ("SLACK_BOT_ID", "B1"),
        ("SLACK_BOT_USER_ID", "U1"),
        ("SLACK_FILES_FUNCTION", "slack-files"),
        ("SLACK_SIGNING_SECRET_PARAMETER", "/slack/signing"),
    ]);
    let error = slack::EVENTS.start(env, aws).await.err().expect("an error").to_string();
    assert!(error.contains("one signing secret, or two"), "{error}");
    assert!(!error.contains("value"), "{error}");
}

#[tokio::test]
async fn a_complete_configuration_starts_both_functions() {
    let aws = ssm(&[("/slack/signing", "new-one, old-one"), ("/slack/token", "a-token")]).await;
    let events = env(&[
        ("DEDUP_TABLE_NAME", "events"),
        ("SLACK_BOT_ID", "B1"),
        ("SLACK_BOT_USER_ID", "U1"),
        ("SLACK_FILES_FUNCTION", "slack-files"),
        ("SLACK_SIGNING_SECRET_PARAMETER", "/slack/signing"),
    ]);
    let files = [("DEDUP_TABLE_NAME", "events"), ("SLACK_BOT_TOKEN_PARAMETER", "/slack/token")];
    assert!(slack::EVENTS.start(events, aws.clone()).await.is_ok());
    assert!(slack::FILES.start(env(&files), aws.clone()).await.is_ok());
    for (channels, hours) in [("", ""), ("*", "1"), ("C0123456789, D1,G1", "720")] {
        let with = [("SAME_CONTENT_CHANNELS", channels), ("SAME_CONTENT_HOURS", hours)];
        assert!(slack::FILES.start(env(&[files, with].concat()), aws.clone()).await.is_ok(), "{channels}");
    }
}
