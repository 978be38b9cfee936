//! A table that fails is heard: the function fails, AppSync's log has the cause, and the client learns that it may try again.
//! A request that is refused is none of that.

mod support;

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use support::*;
use testkit::faults::{Fault, Rule};

/// What a failing table does, and a word of the cause that somebody who looks must find.
const FAILURES: [(Fault, &str); 5] = [
    (Fault::Denied, "AccessDeniedException"),
    (Fault::Missing, "ResourceNotFoundException"),
    (Fault::Throttle, "ProvisionedThroughputExceededException"),
    (Fault::Error, "InternalServerError"),
    (Fault::Down, "refused"),
];

fn create(host: &str) -> Value {
    json!({"name": "class", "hostId": host, "domain": DOMAIN})
}

#[tokio::test]
async fn a_failing_table_is_an_error_of_the_function_with_its_cause() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    for (fault, cause) in FAILURES {
        mesh.db.faults().only(Rule::new(fault));
        for (field, arguments, what) in [
            ("createGroup", create("host-2"), "createGroup".to_owned()),
            ("leaveGroup", node(&group, "host-1"), format!("leaveGroup of group {group}")),
            ("dissolveGroup", host(&group, "host-1"), format!("dissolveGroup of group {group}")),
        ] {
            let error = mesh.invoke(field, arguments).await.expect_err(field);
            assert_eq!(error.kind(), "Store", "{field}, {fault:?}");
            let said = error.to_string();
            assert!(said.starts_with(&format!("could not carry out {what}: ")), "{said}");
            assert!(said.contains(cause), "{fault:?}: {said}");
        }
        mesh.db.faults().heal();
    }
}

#[tokio::test]
async fn a_refused_request_is_a_success_of_the_function() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    for (field, arguments, kind) in [
        ("createGroup", create(""), "ValidationError"),
        ("leaveGroup", node(&group, "stranger"), "NodeNotFound"),
        ("leaveGroup", node("nothing", "host-1"), "GroupNotFound"),
        ("dissolveGroup", host(&group, "stranger"), "Unauthorized"),
    ] {
        let answer = mesh.invoke(field, arguments).await.expect("an answer");
        assert_eq!(answer["error"]["type"], kind, "{field}");
    }
    mesh.db.faults().conflict();
    for (field, arguments) in [("createGroup", create("host-2")), ("dissolveGroup", host(&group, "host-1"))] {
        let answer = mesh.invoke(field, arguments).await.expect("an answer");
        assert_eq!(answer["error"]["type"], "Conflict", "{field}");
    }
}

#[tokio::test]
async fn an_item_that_stays_busy_while_its_group_is_dissolved_is_a_conflict() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    mesh.db.faults().only(Rule::new(Fault::Conflict).on("DeleteItem"));
    let answer = mesh.invoke("dissolveGroup", host(&group, "host-1")).await.expect("an answer");
    assert_eq!(answer["error"]["type"], "Conflict");
    mesh.db.faults().heal();
    mesh.ok(DISSOLVE, host(&group, "host-1")).await;
}

#[tokio::test]
async fn every_operation_on_a_failing_table_is_unavailable_and_logged_with_its_cause() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    mesh.join(&group, "node-1").await;
    let since = json!({"groupId": group, "domain": DOMAIN, "since": "2026-01-01T00:00:00Z"});
    let operations = [
        (CREATE, create("host-2")),
        (JOIN, node(&group, "node-2")),
        (BEAT, node(&group, "node-1")),
        (RENEW, host(&group, "host-1")),
        (REPORT, report(&group, "node-1", "1")),
        (FIRE, events(&group, "node-1", &["a"])),
        (RECORD, events(&group, "node-1", &["a"])),
        (GET_GROUP, of(&group)),
        (LIST_GROUPS, json!({"domain": DOMAIN})),
        (LIST_NODES, of(&group)),
        (LIST_STATUSES, of(&group)),
        (GET_STATUS, json!({"nodeId": "node-1", "domain": DOMAIN})),
        (EVENTS_SINCE, since),
        (MESSAGES_SINCE, json!({"groupId": group, "domain": DOMAIN, "sequence": 0})),
        (LEAVE, node(&group, "node-1")),
        (DISSOLVE, host(&group, "host-1")),
    ];
    for (query, variables) in operations {
        // Each call of the operation fails in turn, so that every file that asks the table is the one that fails.
        let mut failed = 0;
        for call in 1..=40 {
            mesh.log.lock().unwrap().clear();
            mesh.db.faults().only(Rule::new(Fault::Denied).call(call));
            let answer = mesh.execute(query, variables.clone()).await;
            mesh.db.faults().heal();
            if answer.is_ok() {
                break;
            }
            failed += 1;
            assert_eq!(answer.to_json()["errors"][0]["errorType"], "Unavailable", "{query}, call {call}");
            let log = mesh.log.lock().unwrap().clone();
            let told = log.iter().filter(|line| line.starts_with("mesh-unavailable: ")).collect::<Vec<_>>();
            assert_eq!(told.len(), 1, "{query}, call {call}: {log:?}");
            assert!(told[0].contains("AccessDeniedException"), "{told:?}");
        }
        assert!(failed > 0, "{query} asks the table for nothing");
    }
}

#[tokio::test]
async fn a_refused_request_does_not_look_unavailable_in_the_log() {
    let mesh = Mesh::start().await;
    let group = mesh.create_group("host-1").await;
    mesh.refused(REPORT, report(&group, "stranger", "1")).await;
    mesh.refused(JOIN, node("nothing", "node-1")).await;
    mesh.refused(CREATE, create("")).await;
    mesh.db.faults().conflict();
    for (query, variables) in [(JOIN, node(&group, "node-1")), (REPORT, report(&group, "host-1", "1"))] {
        assert_eq!(mesh.refused(query, variables).await.0, "Conflict");
    }
    mesh.db.faults().only(Rule::new(Fault::Conflict).on("TransactWriteItems"));
    assert_eq!(mesh.refused(REPORT, report(&group, "host-1", "1")).await.0, "Conflict");
    let log = mesh.log.lock().unwrap().clone();
    assert!(log.iter().all(|line| !line.contains("Unavailable") && !line.contains("mesh-unavailable")), "{log:?}");
    assert!(!log.is_empty(), "AppSync logs every error");
}

#[tokio::test]
async fn the_days_that_the_api_key_still_lasts_are_a_field_of_one_log_line() {
    telemetry::init_scoped(telemetry::Level::INFO);
    let mesh = Mesh::start().await;
    let now = mesh.clock.now_ms() / 1_000;
    let day = 86_400;
    for (expires, days, level) in [
        (now + 365 * day, 365, "INFO"),
        (now + 30 * day, 30, "INFO"),
        (now + 30 * day - 1, 29, "WARN"),
        (now - day, 0, "WARN"),
    ] {
        let lines: Arc<Mutex<Vec<Value>>> = Arc::default();
        let kept = lines.clone();
        let sink: telemetry::Sink = Arc::new(move |line: &str| {
            kept.lock().unwrap().push(serde_json::from_str(line).expect("JSON"));
        });
        let answer = telemetry::scoped(sink, mesh.invoke("checkApiKey", json!({ "expires": expires }))).await;
        assert_eq!(answer.expect("an answer"), json!({"value": {"daysLeft": days}}));
        let lines = lines.lock().unwrap();
        let told: Vec<&Value> = lines.iter().filter(|line| line.get("apiKeyDaysLeft").is_some()).collect();
        assert_eq!(told.len(), 1, "{lines:?}");
        assert_eq!((&told[0]["apiKeyDaysLeft"], &told[0]["level"]), (&json!(days), &json!(level)));
    }
}
