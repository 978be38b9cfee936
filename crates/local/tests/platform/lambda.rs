//! Lambda's Invoke API, used with the AWS SDK and with plain HTTP.

use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::client::{aws, eventually};
use crate::support::process::Local;

const SYNC: &str = "RequestResponse";

#[tokio::test]
async fn a_handler_gets_a_real_context_and_the_templates_variables() {
    let local = Local::start();
    let sdk = aws_sdk_lambda::Client::new(aws(&local.url).config());
    let payload = Blob::new(json!({"hello": "world"}).to_string());
    let answer = sdk.invoke().function_name("workshop-echo").payload(payload).send().await.expect("an answer");
    assert_eq!((answer.status_code(), answer.function_error()), (200, None));
    let echo: Value = serde_json::from_slice(answer.payload().expect("a payload").as_ref()).expect("JSON");
    assert_eq!((&echo["event"], &echo["greeting"]), (&json!({"hello": "world"}), &json!("hello")));
    assert_eq!((&echo["function"], &echo["memory"]), (&json!("workshop-echo"), &json!(256)));
    assert_eq!(echo["arn"], "arn:aws:lambda:ap-northeast-1:000000000000:function:workshop-echo:live");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").as_millis() as u64;
    let deadline = echo["deadline"].as_u64().expect("a deadline");
    assert!((now - 60_000..now + 31_000).contains(&deadline), "{deadline} is within the timeout of {now}");
}

#[tokio::test]
async fn a_function_is_known_by_name_arn_and_alias_and_others_are_not() {
    let local = Local::start();
    let arn = "arn:aws:lambda:ap-northeast-1:000000000000:function:workshop-echo";
    for name in ["workshop-echo", "workshop-echo:live", arn, &format!("{arn}:live"), "workshop-echo:$LATEST"] {
        let (status, _, _) = local.invoke(&name.replace(':', "%3A"), SYNC, json!({})).await;
        assert_eq!(status, StatusCode::OK, "{name}");
    }
    for name in ["nothing", "workshop-echo:staging"] {
        let (status, _, body) = local.invoke(name, SYNC, json!({})).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{name}");
        assert!(
            body["Message"].as_str().is_some_and(|message| message.starts_with("Function not found: arn:")),
            "{body}"
        );
    }
    let sdk = aws_sdk_lambda::Client::new(aws(&local.url).config());
    let missing = sdk.invoke().function_name("nothing").send().await.expect_err("not found");
    assert!(missing.into_service_error().is_resource_not_found_exception());
}

#[tokio::test]
async fn a_failed_handler_is_200_with_a_function_error() {
    let local = Local::start();
    let (status, error, body) = local.invoke("workshop-mischief", SYNC, json!({"do": "fail"})).await;
    assert_eq!((status, error.as_deref()), (StatusCode::OK, Some("Unhandled")));
    assert_eq!(body, json!({"errorType": "Mischief", "errorMessage": "as told"}));
}

#[tokio::test]
async fn a_timeout_has_lambdas_words_and_removes_the_instance() {
    let local = Local::start();
    assert_eq!(local.invoke("workshop-mischief", SYNC, json!({})).await.2, json!({"call": 1}));
    assert_eq!(local.invoke("workshop-mischief", SYNC, json!({})).await.2, json!({"call": 2}));
    let (status, error, body) = local.invoke("workshop-mischief", SYNC, json!({"do": "hang"})).await;
    assert_eq!((status, error.as_deref()), (StatusCode::OK, Some("Unhandled")));
    assert_eq!(body["errorType"], "Sandbox.Timedout");
    let message = body["errorMessage"].as_str().expect("a message");
    assert!(message.ends_with("Error: Task timed out after 1.00 seconds"), "{message}");
    assert_eq!(local.invoke("workshop-mischief", SYNC, json!({})).await.2, json!({"call": 1}));
}

#[tokio::test]
async fn a_panic_fails_that_invocation_and_not_the_process() {
    let local = Local::start();
    let (status, error, body) = local.invoke("workshop-mischief", SYNC, json!({"do": "panic"})).await;
    assert_eq!((status, error.as_deref()), (StatusCode::OK, Some("Unhandled")));
    assert_eq!(body["errorType"], "Runtime.ExitError");
    assert_eq!(local.invoke("workshop-mischief", SYNC, json!({})).await.2, json!({"call": 1}));
    assert_eq!(local.get("/healthz").await["status"], "ok");
}

#[tokio::test]
async fn payload_limits_are_those_of_aws() {
    let local = Local::start();
    let of = |bytes: usize| json!("x".repeat(bytes - 2));
    for (kind, limit, status) in [(SYNC, 6 * 1024 * 1024, StatusCode::OK), ("Event", 1024 * 1024, StatusCode::ACCEPTED)]
    {
        // The answer of `workshop-mischief` is short for every payload.
        assert_eq!(local.invoke("workshop-mischief", kind, of(limit)).await.0, status, "{kind} at its limit");
        let (status, _, body) = local.invoke("workshop-mischief", kind, of(limit + 1)).await;
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{kind} beyond its limit");
        let message = body["Message"].as_str().expect("a message");
        assert!(
            message.contains(&format!("too large for the {kind} invocation type (limit {limit} bytes)")),
            "{message}"
        );
    }
    let (_, error, body) = local.invoke("workshop-mischief", SYNC, json!({"do": "large"})).await;
    assert_eq!((error.as_deref(), &body["errorType"]), (Some("Unhandled"), &json!("Function.ResponseSizeTooLarge")));
}

#[tokio::test]
async fn a_payload_that_is_not_json_and_an_unknown_type_are_refused() {
    let local = Local::start();
    let url = format!("{}/2015-03-31/functions/workshop-echo/invocations", local.url);
    let (status, body) = crate::support::client::answer(crate::support::client::http().post(url).body("{")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(
        body["Message"].as_str().is_some_and(|message| message.starts_with("Could not parse request body into json"))
    );
    assert_eq!(local.invoke("workshop-echo", "Whenever", json!({})).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_dry_run_runs_nothing() {
    let local = Local::start();
    let (status, _, body) = local.invoke("workshop-note", "DryRun", json!({"id": "dry"})).await;
    assert_eq!((status, body), (StatusCode::NO_CONTENT, json!("")));
    assert_eq!(local.note("dry").await, json!({"result": "new"}));
}

#[tokio::test]
async fn an_asynchronous_invocation_is_accepted_and_carried_out() {
    let local = Local::start();
    let sdk = aws_sdk_lambda::Client::new(aws(&local.url).config());
    let payload = Blob::new(json!({"id": "later"}).to_string());
    let invoke = sdk.invoke().function_name("workshop-note").invocation_type(InvocationType::Event).payload(payload);
    assert_eq!(invoke.send().await.expect("accepted").status_code(), 202);
    eventually("the note", || async {
        let lines = local.get("/_local/log?text=later").await;
        lines.as_array().is_some_and(|lines| !lines.is_empty()).then_some(())
    })
    .await;
    assert_eq!(local.note("later").await, json!({"result": "duplicate"}));
}

#[tokio::test]
async fn a_function_whose_concurrency_is_used_up_is_refused_and_its_events_wait() {
    let local = Local::with(&["--memory", "--no-demo", "--retry-scale=0"]);
    let sdk = aws_sdk_lambda::Client::new(aws(&local.url).config());
    let stop = sdk.put_function_concurrency().function_name("workshop-note").reserved_concurrent_executions(0);
    stop.send().await.expect("stopped");
    let (status, error, _) = local.invoke("workshop-note", "RequestResponse", json!({"id": "now"})).await;
    assert_eq!((status, error), (StatusCode::TOO_MANY_REQUESTS, None), "not an error of the function");
    assert_eq!(local.invoke("workshop-note", "Event", json!({"id": "waiting"})).await.0, StatusCode::ACCEPTED);
    // More often than Lambda repeats an event that failed.
    eventually("five throttles", || async {
        let metrics = local.get("/_local/metrics").await;
        let of_alias = |each: &&Value| each["name"] == "Throttles" && each["dimensions"].get("Resource").is_some();
        let throttles = metrics.as_array()?.iter().find(of_alias)?["sum"].as_f64()?;
        (throttles >= 5.0).then_some(())
    })
    .await;
    sdk.delete_function_concurrency().function_name("workshop-note").send().await.expect("started again");
    eventually("the note", || async {
        let lines = local.get("/_local/log?text=waiting").await;
        lines.as_array().is_some_and(|lines| !lines.is_empty()).then_some(())
    })
    .await;
    assert_eq!(local.note("now").await, json!({"result": "new"}), "what was refused did not run");
}

#[tokio::test]
async fn an_event_that_keeps_failing_is_tried_three_times_and_then_in_the_queue_with_its_history() {
    let local = Local::with(&["--memory", "--no-demo", "--retry-scale=0.001"]);
    let (status, _, _) = local.invoke("workshop-mischief", "Event", json!({"do": "fail", "id": 7})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let sqs = sqs(&local.url);
    let url = sqs.get_queue_url().queue_name("workshop-failures").send().await.expect("a queue");
    let url = url.queue_url().expect("its address").to_owned();
    let message = eventually("the dead letter", || async {
        let received = sqs.receive_message().queue_url(&url).send().await.expect("an answer");
        received.messages().first().cloned()
    })
    .await;
    let record: Value = serde_json::from_str(message.body().expect("a body")).expect("JSON");
    assert_eq!(record["requestContext"]["condition"], "RetriesExhausted");
    assert_eq!(record["requestContext"]["approximateInvokeCount"], 3);
    assert_eq!(record["requestPayload"], json!({"do": "fail", "id": 7}));
    assert_eq!(record["responseContext"]["functionError"], "Unhandled");
    assert_eq!(record["responsePayload"], json!({"errorType": "Mischief", "errorMessage": "as told"}));
    let alarms = local.get("/_local/alarms").await;
    let ringing = alarms.as_array().expect("alarms").iter().find(|alarm| alarm["name"] == "workshop-dead-letters");
    // This test has received the message. The alarm saw it before that, or sees it when it is visible again.
    assert!(ringing.is_some());
    let receipt = message.receipt_handle().expect("a receipt");
    sqs.delete_message().queue_url(&url).receipt_handle(receipt).send().await.expect("deleted");
    let attributes = sqs.get_queue_attributes().queue_url(&url).send().await.expect("attributes");
    let attributes = attributes.attributes().expect("attributes");
    let left: u32 = attributes
        .iter()
        .filter(|(name, _)| name.as_str().starts_with("ApproximateNumberOfMessages"))
        .map(|(_, count)| count.parse::<u32>().expect("a number"))
        .sum();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn the_trace_of_the_caller_reaches_the_handler() {
    let local = Local::start();
    let url = format!("{}/2015-03-31/functions/workshop-echo/invocations", local.url);
    let request = crate::support::client::http().post(url).header("x-amzn-trace-id", "Root=1-2-3;Sampled=1");
    assert_eq!(crate::support::client::answer(request).await.1["trace"], "1-2-3");
}

#[tokio::test]
async fn every_function_answers_the_health_payload() {
    let local = Local::start();
    let (_, error, body) = local.invoke("workshop-mischief", SYNC, json!({"ichido": "health"})).await;
    assert_eq!((error, &body["ok"]), (None, &json!(true)));
    assert_eq!(
        local.invoke("workshop-mischief", SYNC, json!({})).await.2,
        json!({"call": 1}),
        "it had not been called"
    );
}

pub(crate) fn sqs(url: &str) -> aws_sdk_sqs::Client {
    let credentials = aws_sdk_sqs::config::Credentials::new("local", "local", None, None, "test");
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(aws_sdk_sqs::config::BehaviorVersion::latest())
        .region(aws_sdk_sqs::config::Region::new("ap-northeast-1"))
        .credentials_provider(credentials)
        .endpoint_url(url)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    aws_sdk_sqs::Client::from_conf(config)
}
