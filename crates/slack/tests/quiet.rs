//! Nothing that a user typed and no secret is in a log line or a metric. What belongs there is there.

mod support;

use std::sync::{Arc, Mutex};

use serde_json::Value;
use support::{EVENTS_TIMEOUT, SIGNING_SECRET, Trouble, World, upload};
use telemetry::trace::Trace;
use telemetry::{Invocation, Level};

const TYPED: [&str; 3] = ["secret-plans", "the quarterly numbers", SIGNING_SECRET];

/// Runs `work` as an invocation and returns its lines.
async fn lines(work: impl Future<Output = ()>) -> Vec<Value> {
    telemetry::init_scoped(Level::DEBUG);
    let lines = Arc::new(Mutex::new(Vec::<String>::new()));
    let sink = {
        let lines = lines.clone();
        Arc::new(move |line: &str| lines.lock().expect("no panic").push(line.to_owned()))
    };
    let trace = Trace::of_request("request-1");
    let invocation = Invocation { function: "slack-events".into(), request_id: "request-1".into(), trace };
    telemetry::scoped(sink, telemetry::invocation(invocation, work)).await;
    let lines = lines.lock().expect("no panic").clone();
    for typed in TYPED {
        assert!(!lines.iter().any(|line| line.contains(typed)), "{typed:?} in {lines:?}");
    }
    lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The sum of a number over all lines.
fn sum(lines: &[Value], name: &str) -> f64 {
    lines.iter().filter_map(|line| line.get(name)).filter_map(Value::as_f64).sum()
}

fn event(world: &World) -> Value {
    let mut event = world.event("Ev1", &["F1"]);
    event["event"]["files"][0]["name"] = "secret-plans.pdf".into();
    event
}

#[tokio::test]
async fn slack_events_measures_retries_refusals_and_hand_overs_and_repeats_nothing_that_was_typed() {
    let world = World::new().await;
    let lines = lines(async {
        let events = world.slack_events();
        let mut request = world.signed(&event(&world));
        request.headers.insert("x-slack-retry-num".into(), "1".into());
        request.headers.insert("x-slack-retry-reason".into(), "http_timeout".into());
        let invocation = world.invocation("request-1", EVENTS_TIMEOUT);
        events.answer(&request, &invocation).await.expect("an answer");
        request.body.push(b' ');
        events.answer(&request, &invocation).await.expect("an answer");
        world.deliver(&events, &serde_json::json!({"type": "event_callback", "event": {"type": "secret-plans"}})).await;
    })
    .await;
    for counted in ["SlackRetries", "SlackHandOvers", "DoorRefusals", "SlackEventsIgnored", "NewKeys"] {
        assert_eq!(sum(&lines, counted), 1.0, "{counted}");
    }
    assert_eq!(sum(&lines, "StoreCalls"), 2.0, "a claim and a completion");
    let check = lines.iter().find(|line| line["message"] == "checked Ev1: new (absent)").expect("the library's line");
    assert_eq!(
        (&check["eventKey"], &check["result"], &check["fallbackMode"]),
        (&"Ev1".into(), &"new".into(), &false.into())
    );
    assert!(check["dynamodbLatency"].is_number());
    let repeated = lines.iter().find(|line| line.get("retryNum").is_some()).expect("a line");
    assert_eq!(repeated["message"], "Slack sent event Ev1 again (retry 1, reason: http_timeout)");
    assert_eq!((&repeated["retryNum"], &repeated["retryReason"]), (&1.into(), &"http_timeout".into()));
}

#[tokio::test]
async fn duplicates_store_errors_and_admissions_without_the_store_are_measured() {
    let world = World::new().await;
    let lines = lines(async {
        let event = event(&world);
        world.deliver(&world.slack_events(), &event).await;
        world.deliver(&world.slack_events(), &event).await;
        world.dynamo.faults().down();
        world.deliver(&world.slack_events(), &event).await;
    })
    .await;
    assert_eq!((sum(&lines, "NewKeys"), sum(&lines, "Duplicates")), (2.0, 1.0));
    assert_eq!(sum(&lines, "FallbackAdmissions"), 1.0);
    let sent: Vec<&Value> = lines.iter().filter(|line| line.get("_aws").is_some()).collect();
    assert_eq!(sent.len(), 1, "CloudWatch gets the admission as a metric, and nothing else: {sent:?}");
    let (calls, errors) = (sum(&lines, "StoreCalls"), sum(&lines, "StoreErrors"));
    assert!(errors >= 1.0 && calls >= 3.0 + errors, "{errors} of {calls} calls failed");
}

#[tokio::test]
async fn slack_files_names_files_by_their_ids_only() {
    let world = World::new().await;
    let upload = upload(&event(&world));
    let lines = lines(async {
        let files = world.slack_files();
        world.slack.trouble_posts([Trouble::Refuse("invalid_auth")]);
        let error = world.invoke(&files, &upload).await.expect_err("refused").to_string();
        assert!(!error.contains("secret-plans"), "{error}");
        world.invoke(&files, &upload).await.expect("done");
    })
    .await;
    assert_eq!(sum(&lines, "SlackReplies"), 1.0);
    assert!(
        lines.iter().any(|line| line["message"] == "handled file F1 of event Ev1: replied" && line["fileId"] == "F1")
    );
    assert_eq!(world.slack.posts()[0].text, "Received secret-plans.pdf (application/pdf, 1.2 MB).");
}

#[tokio::test]
async fn a_content_its_digest_and_the_name_that_stands_for_it_are_in_no_line_and_names_in_no_item() {
    let world = World::new().await;
    world.slack.put_content(&["F1", "F2"], "0123456789abcdef");
    let lines = lines(async {
        let files = world.slack_files_by_content("*");
        // F1 and F2 are read. F3 and F4 may not be read.
        for n in 1..=4 {
            let mut event = event(&world);
            event["event_id"] = format!("Ev{n}").into();
            event["event"]["ts"] = format!("1767225600.00000{n}").into();
            event["event"]["files"][0]["id"] = format!("F{n}").into();
            world.invoke(&files, &upload(&event)).await.expect("done");
        }
    })
    .await;
    assert!(!lines.iter().any(|line| line.to_string().contains("0123456789abcdef")), "{lines:?}");
    let linked = lines.iter().filter(|line| line["how"] == "linked the first file with the same content").count();
    assert_eq!(linked, 2);
    assert!(world.items().keys().any(|key| key.starts_with("CONTENT#")));
    assert!(!world.items().values().any(|item| item.to_string().contains("secret-plans")));
}
