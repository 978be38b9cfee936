//! AWS's own clients: the SDK, and the CLI where there is one.

use std::process::Command;

use aws_sdk_dynamodb::types::AttributeValue;
use reqwest::StatusCode;
use serde_json::Value;

use crate::client::{answer, aws, http};
use crate::lambda::sqs;
use crate::process::Local;

#[tokio::test]
async fn dynamodb_is_the_same_on_both_ports() {
    let local = Local::start();
    let (main, own) = (aws(&local.url).dynamodb(), aws(&local.dynamodb_url).dynamodb());
    let put = main.put_item().table_name("workshop-notes").item("id", AttributeValue::S("by hand".into()));
    put.send().await.expect("written");
    let got = own.get_item().table_name("workshop-notes").key("id", AttributeValue::S("by hand".into())).send().await;
    assert!(got.expect("read").item().is_some());
    assert_eq!(local.note("by hand").await["result"], "duplicate", "handlers see it too");
    let described = own.describe_time_to_live().table_name("workshop-notes").send().await.expect("described");
    let ttl = described.time_to_live_description().and_then(|ttl| ttl.attribute_name().map(str::to_owned));
    assert_eq!(ttl.as_deref(), Some("ttl"), "tables are as their template says");
}

#[tokio::test]
async fn secrets_are_parameters() {
    let local = Local::start();
    let aws = aws(&local.url);
    let secret = aws.secret("/ichido/local/workshop/token").await.expect("a secret");
    assert_eq!(local.get("/_local/config").await["workshopToken"], secret.expose());
    let missing = aws.secret("/ichido/local/nothing").await.expect_err("no such parameter");
    assert!(missing.to_string().contains("/ichido/local/nothing"), "{missing}");
}

#[tokio::test]
async fn a_queue_takes_gives_and_deletes() {
    let local = Local::start();
    let sqs = sqs(&local.url);
    let urls = sqs.list_queues().send().await.expect("queues");
    let url = urls.queue_urls().first().expect("a queue").clone();
    sqs.send_message().queue_url(&url).message_body("héllo").send().await.expect("sent");
    let received = sqs.receive_message().queue_url(&url).send().await.expect("received");
    assert_eq!(received.messages()[0].body(), Some("héllo"));
    let again = sqs.receive_message().queue_url(&url).send().await.expect("an answer");
    assert!(again.messages().is_empty(), "it is held");
    sqs.purge_queue().queue_url(&url).send().await.expect("purged");
    let unknown = sqs.get_queue_url().queue_name("nothing").send().await.expect_err("unknown");
    assert!(unknown.into_service_error().is_queue_does_not_exist());
}

#[tokio::test]
async fn anything_else_is_refused_by_name() {
    let local = Local::start();
    let target = http().post(&local.url).header("x-amz-target", "Kinesis_20131202.PutRecord").body("{}");
    let signed = |service: &str| {
        format!(
            "AWS4-HMAC-SHA256 Credential=local/20260101/ap-northeast-1/{service}/aws4_request, SignedHeaders=host, Signature=0"
        )
    };
    let query = http()
        .post(&local.url)
        .header("authorization", signed("sts"))
        .body("Action=GetCallerIdentity&Version=2011-06-15");
    let rest = http().get(format!("{}/some-bucket/key", local.url)).header("authorization", signed("s3"));
    let on_tools_port = http().post(&local.dynamodb_url).header("x-amz-target", "AmazonSSM.GetParameter").body("{}");
    for (request, name) in [
        (target, "Kinesis_20131202.PutRecord"),
        (query, "sts: GetCallerIdentity"),
        (rest, "s3: GET /some-bucket/key"),
        (on_tools_port, "AmazonSSM.GetParameter"),
    ] {
        let (status, body) = answer(request).await;
        assert_eq!(status, StatusCode::NOT_IMPLEMENTED);
        assert_eq!(body["message"], format!("ichido-local does not serve {name}"));
    }
}

#[tokio::test]
async fn the_aws_cli_is_one_of_the_clients() {
    let Ok(version) = Command::new("aws").arg("--version").output() else { return };
    if !version.status.success() {
        return;
    }
    // The first generation takes payloads as they are, the second has to be told to.
    let first = String::from_utf8_lossy(&version.stdout).starts_with("aws-cli/1.");
    let raw: &[&str] = if first { &[] } else { &["--cli-binary-format", "raw-in-base64-out"] };
    let local = Local::start();
    let cli = |arguments: &[&str]| -> Value {
        let output = Command::new("aws")
            // Said twice: the first generation's SQS does not listen to the variable.
            .args(["--endpoint-url", local.url.as_str()])
            .args(arguments)
            .envs([
                ("AWS_ENDPOINT_URL", local.url.as_str()),
                ("AWS_ACCESS_KEY_ID", "local"),
                ("AWS_SECRET_ACCESS_KEY", "local"),
                ("AWS_REGION", "ap-northeast-1"),
                ("AWS_DEFAULT_REGION", "ap-northeast-1"),
                ("AWS_EC2_METADATA_DISABLED", "true"),
                ("AWS_PAGER", ""),
                ("NO_PROXY", "127.0.0.1"),
            ])
            .output()
            .expect("the CLI");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    };
    let tables = cli(&["dynamodb", "list-tables", "--output", "json"]);
    assert_eq!(tables["TableNames"][0], "workshop-notes");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("answer.json");
    let payload = r#"{"id":"from the CLI"}"#;
    let file_name = file.display().to_string();
    let invoke = ["lambda", "invoke", "--function-name", "workshop-note", "--payload", payload, "--output", "json"];
    let invoked = cli(&[&invoke, raw, &[file_name.as_str()]].concat());
    assert_eq!(invoked["StatusCode"], 200);
    let answer: Value = serde_json::from_slice(&std::fs::read(file).expect("the answer")).expect("JSON");
    assert_eq!(answer["result"], "new");
    let parameter = cli(&[
        "ssm",
        "get-parameter",
        "--name",
        "/ichido/local/workshop/token",
        "--with-decryption",
        "--output",
        "json",
    ]);
    assert!(parameter["Parameter"]["Value"].is_string());
    let queue = cli(&["sqs", "get-queue-url", "--queue-name", "workshop-failures", "--output", "json"]);
    let url = queue["QueueUrl"].as_str().expect("an address");
    cli(&["sqs", "send-message", "--queue-url", url, "--message-body", "hello", "--output", "json"]);
    let received = cli(&["sqs", "receive-message", "--queue-url", url, "--output", "json"]);
    assert_eq!(received["Messages"][0]["Body"], "hello");
}
