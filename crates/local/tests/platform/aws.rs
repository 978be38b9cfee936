//! AWS's own clients: the SDK, and the CLI if it is installed.

use std::process::Command;

use aws_sdk_dynamodb::types::AttributeValue;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::lambda::sqs;
use crate::support::client::{answer, aws, http};
use crate::support::process::Local;

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
async fn a_description_of_a_secret_says_that_it_is_there_and_holds_no_value() {
    let local = Local::start();
    let describe = |filters: Value| {
        let target = http().post(&local.url).header("x-amz-target", "AmazonSSM.DescribeParameters");
        answer(target.body(json!({"ParameterFilters": filters}).to_string()))
    };
    let names = ["/ichido/local/workshop/token", "/ichido/local/nothing"];
    let (status, found) = describe(json!([{"Key": "Name", "Option": "Equals", "Values": names}])).await;
    assert_eq!((status, found["Parameters"].as_array().map(Vec::len)), (StatusCode::OK, Some(1)), "{found}");
    let parameter = &found["Parameters"][0];
    assert_eq!((&parameter["Name"], &parameter["Type"]), (&names[0].into(), &"SecureString".into()));
    assert!(parameter.get("Value").is_none(), "{parameter}");
    for others in [
        json!([]),
        json!([{"Key": "Path", "Values": ["/ichido"]}]),
        json!([{"Key": "Name", "Option": "BeginsWith", "Values": ["/"]}]),
    ] {
        assert_eq!(describe(others).await.0, StatusCode::NOT_IMPLEMENTED, "only what the project asks for is answered");
    }
    let secret = http().post(&local.url).header("x-amz-target", "secretsmanager.DescribeSecret");
    let (status, error) = answer(secret.body(r#"{"SecretId": "slack-bot"}"#)).await;
    assert_eq!((status, &error["__type"]), (StatusCode::BAD_REQUEST, &"ResourceNotFoundException".into()));
}

#[tokio::test]
async fn a_queue_sends_receives_and_deletes() {
    let local = Local::start();
    let sqs = sqs(&local.url);
    let urls = sqs.list_queues().send().await.expect("queues");
    let url = urls.queue_urls().first().expect("a queue").clone();
    sqs.send_message().queue_url(&url).message_body("héllo").send().await.expect("sent");
    let received = sqs.receive_message().queue_url(&url).send().await.expect("received");
    assert_eq!(received.messages()[0].body(), Some("héllo"));
    let again = sqs.receive_message().queue_url(&url).send().await.expect("an answer");
    assert!(again.messages().is_empty(), "somebody has received it");
    sqs.purge_queue().queue_url(&url).send().await.expect("purged");
    let unknown = sqs.get_queue_url().queue_name("nothing").send().await.expect_err("unknown");
    assert!(unknown.into_service_error().is_queue_does_not_exist());
}

/// The header that names the service of a REST call.
fn signed(service: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential=local/20260101/ap-northeast-1/{service}/aws4_request, SignedHeaders=host, Signature=0"
    )
}

#[tokio::test]
async fn an_update_replaces_the_whole_schedule_and_fails_if_the_schedule_was_not_read_first() {
    let local = Local::start();
    let url = format!("{}/schedules/workshop-note-schedule", local.url);
    let get = || http().get(&url).header("authorization", signed("scheduler"));
    let put = |body: &Value| http().put(&url).header("authorization", signed("scheduler")).body(body.to_string());
    let (status, schedule) = answer(get()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!((&schedule["ScheduleExpression"], &schedule["State"]), (&"rate(5 minutes)".into(), &"ENABLED".into()));
    let mut forgetful = serde_json::json!({"ScheduleExpression": "rate(1 hour)"});
    let (status, refusal) = answer(put(&forgetful)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(refusal["Message"].as_str().is_some_and(|text| text.starts_with("Target is not as it was")), "{refusal}");
    forgetful = schedule.clone();
    forgetful["Target"]["Input"] = Value::Null;
    assert_eq!(answer(put(&forgetful)).await.0, StatusCode::BAD_REQUEST, "its input was left out");
    assert_eq!(answer(get()).await.1, schedule, "nothing was changed");

    let mut paused = schedule.clone();
    (paused["State"], paused["ScheduleExpression"]) = ("DISABLED".into(), "rate(1 hour)".into());
    assert_eq!(answer(put(&paused)).await.0, StatusCode::OK);
    assert_eq!(answer(get()).await.1, paused);
    paused["ScheduleExpression"] = "rate(5 fortnights)".into();
    assert_eq!(answer(put(&paused)).await.0, StatusCode::BAD_REQUEST);
    let missing = http().get(format!("{}/schedules/nothing", local.url)).header("authorization", signed("scheduler"));
    assert_eq!(answer(missing).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_resolver_is_evaluated_without_being_deployed() {
    let local = Local::start();
    let code = "export function request(ctx) { return { id: ctx.args.id } }\nexport function response(ctx) { return ctx.result }";
    let evaluate = |body: Value| {
        let url = format!("{}/v1/dataplane-evaluatecode", local.url);
        answer(http().post(url).header("authorization", signed("appsync")).body(body.to_string()))
    };
    let runtime = serde_json::json!({"name": "APPSYNC_JS", "runtimeVersion": "1.0.0"});
    let mut request = serde_json::json!({"code": code, "context": r#"{"arguments":{"id":1}}"#, "function": "request", "runtime": runtime});
    let (status, body) = evaluate(request.clone()).await;
    assert_eq!((status, &body["evaluationResult"]), (StatusCode::OK, &r#"{"id":1}"#.into()), "{body}");
    request["code"] = "const a = [2, 1].sort((b, c) => b - c)".into();
    let (status, body) = evaluate(request.clone()).await;
    let value = &body["error"]["codeErrors"][0]["value"];
    assert_eq!((status, value), (StatusCode::OK, &"Functions can not be passed as an argument".into()), "{body}");
    request["context"] = "1".into();
    let (status, body) = evaluate(request).await;
    assert_eq!((status, &body["__type"]), (StatusCode::BAD_REQUEST, &"BadRequestException".into()), "{body}");
}

#[tokio::test]
async fn the_caller_is_the_user_of_its_access_key() {
    let local = Local::start();
    let request = http().post(&local.url).header("authorization", signed("sts"));
    let answer = request.body("Action=GetCallerIdentity&Version=2011-06-15").send().await.expect("an answer");
    assert_eq!(answer.headers()["content-type"], "text/xml");
    let text = answer.text().await.expect("text");
    assert!(text.contains("<Arn>arn:aws:iam::000000000000:user/local</Arn>"), "{text}");
}

#[tokio::test]
async fn anything_else_is_refused_by_name() {
    let local = Local::start();
    let target = http().post(&local.url).header("x-amz-target", "Kinesis_20131202.PutRecord").body("{}");
    let query =
        http().post(&local.url).header("authorization", signed("sts")).body("Action=AssumeRole&Version=2011-06-15");
    let groups = http().get(format!("{}/schedule-groups", local.url)).header("authorization", signed("scheduler"));
    let logs = http().post(&local.url).header("x-amz-target", "Logs_20140328.PutLogEvents").body("{}");
    let rest = http().get(format!("{}/some-bucket/key", local.url)).header("authorization", signed("s3"));
    let on_tools_port = http().post(&local.dynamodb_url).header("x-amz-target", "AmazonSSM.GetParameter").body("{}");
    for (request, name) in [
        (target, "Kinesis_20131202.PutRecord"),
        (query, "sts: AssumeRole"),
        (groups, "scheduler: GET /schedule-groups"),
        (logs, "Logs_20140328.PutLogEvents"),
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
    // Version 1 takes payloads as they are; version 2 needs an option for that.
    let first = String::from_utf8_lossy(&version.stdout).starts_with("aws-cli/1.");
    let raw: &[&str] = if first { &[] } else { &["--cli-binary-format", "raw-in-base64-out"] };
    let local = Local::start();
    let cli = |arguments: &[&str]| -> Value {
        let output = Command::new("aws")
            // Both as an option and as a variable, because SQS in version 1 ignores the variable.
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
    let alarms = cli(&["cloudwatch", "describe-alarms", "--alarm-name-prefix", "workshop", "--output", "json"]);
    assert_eq!(alarms["MetricAlarms"][0]["AlarmName"], "workshop-dead-letters");
    let caller = cli(&["sts", "get-caller-identity", "--output", "json"]);
    assert_eq!(caller["Arn"], "arn:aws:iam::000000000000:user/local");
    let schedules = cli(&["scheduler", "list-schedules", "--output", "json"]);
    assert_eq!(schedules["Schedules"][0]["Name"], "workshop-note-schedule");
    let group = ["logs", "filter-log-events", "--log-group-name", "/aws/lambda/workshop-note", "--output", "json"];
    let lines = cli(&[&group[..], &["--filter-pattern", "\"from the CLI\""]].concat());
    assert!(
        lines["events"][0]["message"].as_str().is_some_and(|line| line.contains("checked from the CLI: new")),
        "{lines}"
    );
    let code =
        "export function request(ctx) { return ctx.args.id }\nexport function response(ctx) { return ctx.result }";
    let runtime = "name=APPSYNC_JS,runtimeVersion=1.0.0";
    let evaluate = ["appsync", "evaluate-code", "--code", code, "--function", "request", "--runtime", runtime];
    let evaluated = cli(&[&evaluate[..], &["--context", r#"{"arguments":{"id":1}}"#, "--output", "json"]].concat());
    assert_eq!(evaluated["evaluationResult"], "1");
    let state = ["lambda", "get-function-configuration", "--function-name", "workshop-note:live", "--output", "json"];
    assert_eq!(cli(&state)["State"], "Active");
}
