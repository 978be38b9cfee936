//! What a reader of the log gets, read back from the lines themselves.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use telemetry::trace::Trace;
use telemetry::{Invocation, Level, Sink, metric};

type Lines = Arc<Mutex<Vec<Value>>>;

fn sink() -> (Sink, Lines) {
    telemetry::init_scoped(Level::INFO);
    let lines = Lines::default();
    let into = lines.clone();
    let sink: Sink = Arc::new(move |line| {
        into.lock().expect("lines").push(serde_json::from_str(line).expect("each line is JSON"));
    });
    (sink, lines)
}

fn invocation() -> Invocation {
    Invocation {
        function: "slack-events".into(),
        request_id: "req-1".into(),
        trace: Trace::from_header("Root=1-2-3;Sampled=1").expect("a trace"),
    }
}

fn taken(lines: &Lines) -> Vec<Value> {
    std::mem::take(&mut lines.lock().expect("lines"))
}

#[tokio::test]
async fn a_line_has_level_message_fields_and_the_ids_of_its_invocation() {
    let (sink, lines) = sink();
    telemetry::scoped(
        sink,
        telemetry::invocation(invocation(), async {
            tracing::info!(
                target: "slack::function::events",
                event_key = "Ev1",
                result = "new",
                dynamodb_latency = 3.5,
                fallback_mode = false,
                "checked Ev1: new (absent)"
            );
        }),
    )
    .await;
    let lines = taken(&lines);
    assert_eq!(lines.len(), 1);
    for (field, expected) in [
        ("level", Value::from("INFO")),
        ("message", "checked Ev1: new (absent)".into()),
        ("eventKey", "Ev1".into()),
        ("result", "new".into()),
        ("dynamodbLatency", 3.5.into()),
        ("fallbackMode", false.into()),
        ("function", "slack-events".into()),
        ("requestId", "req-1".into()),
        ("traceId", "1-2-3".into()),
    ] {
        assert_eq!(lines[0][field], expected, "{field}");
    }
}

#[tokio::test]
async fn an_error_is_written_with_its_causes() {
    let (sink, lines) = sink();
    #[derive(Debug, thiserror::Error)]
    #[error("the post failed")]
    struct Outer(#[source] std::io::Error);
    let error = Outer(std::io::Error::other("connection reset"));
    telemetry::scoped(sink, async {
        tracing::error!(error = &error as &(dyn std::error::Error + 'static), "could not post a reply");
    })
    .await;
    assert_eq!(taken(&lines)[0]["error"], "the post failed: connection reset");
}

#[tokio::test]
async fn numbers_of_an_invocation_are_one_line_written_when_it_ends() {
    let (sink, lines) = sink();
    let seen = lines.clone();
    telemetry::scoped(
        sink,
        telemetry::invocation(invocation(), async move {
            metric::DUPLICATES.add(1);
            metric::DUPLICATES.add(1);
            metric::NEW_KEYS.add(1);
            assert!(taken(&seen).is_empty(), "nothing is written while it runs");
        }),
    )
    .await;
    let lines = taken(&lines);
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["Duplicates"], 2);
    assert_eq!(lines[0]["NewKeys"], 1);
    assert_eq!(lines[0]["FunctionName"], "slack-events");
}

#[tokio::test]
async fn an_admission_without_the_store_is_reported_as_it_happens() {
    let (sink, lines) = sink();
    let seen = lines.clone();
    telemetry::scoped(
        sink,
        telemetry::invocation(invocation(), async move {
            metric::FALLBACK_ADMISSIONS.add(1);
            assert_eq!(taken(&seen)[0]["FallbackAdmissions"], 1);
        }),
    )
    .await;
}

#[tokio::test]
async fn numbers_of_an_invocation_that_is_dropped_are_not_lost() {
    let (sink, lines) = sink();
    let cut_off = telemetry::scoped(
        sink,
        telemetry::invocation(invocation(), async {
            metric::NEW_KEYS.add(1);
            std::future::pending::<()>().await;
        }),
    );
    tokio::select! {
        biased;
        () = cut_off => unreachable!("it never ends by itself"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(taken(&lines)[0]["NewKeys"], 1);
}
