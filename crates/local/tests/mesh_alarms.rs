//! Every alarm of the mesh is made to ring by the fault that it describes, on the running platform, and ends when the fault is
//! healed. No number is fed by hand; only the time of metrics is moved forward.

#[allow(dead_code, reason = "shared with the platform's own tests, which use all of it")]
#[path = "support/client.rs"]
mod client;
#[allow(dead_code, reason = "shared with the platform's own tests, which use all of it")]
#[path = "support/process.rs"]
mod process;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use client::{answer, aws, http};
use futures::future::join_all;
use process::Local;
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use template::Template;

const TEMPLATE: &str = include_str!("../../../infra/templates/mesh.yaml");
/// Each alarm, with the test that provokes it.
const PROVOKED: [&str; 6] = [
    "mesh-unavailable",        // a_table_that_fails_rings_although_appsync_answers_with_200
    "mesh-resolver-errors",    // the same
    "mesh-errors",             // an_appsync_that_fails_rings
    "mesh-latency",            // a_slow_table_rings
    "mesh-resolver-throttles", // a_function_without_concurrency_rings
    "mesh-api-key",            // an_api_key_that_ends_soon_rings_without_any_client
];

const GET: &str = "query ($groupId: ID!) { getGroup(groupId: $groupId, domain: \"home\") { id } }";
const CREATE: &str =
    "mutation ($hostId: ID!) { createGroup(name: \"class\", hostId: $hostId, domain: \"home\") { id } }";

/// A running platform, and a client of its mesh.
struct Mesh {
    local: Local,
    http: Client,
    key: String,
    /// A group that is alive.
    group: String,
}

impl Mesh {
    async fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ichido-local"));
        command.args(["--port=0", "--dynamodb-port=0", "--tls-port=0", "--memory", "--no-demo", "--retry-scale=0"]);
        let local = Local::spawned(command);
        let key = local.get("/_local/config").await["apiKey"].as_str().expect("a key").to_owned();
        let mut mesh = Self { local, http: http(), key, group: String::new() };
        let created = mesh.ask(CREATE, json!({"hostId": "teacher"})).await.1;
        mesh.group = created["data"]["createGroup"]["id"].as_str().expect("a group").to_owned();
        mesh
    }

    /// The status and the answer to a query.
    async fn ask(&self, query: &str, variables: Value) -> (StatusCode, Value) {
        let request = self.http.post(format!("{}/graphql", self.local.url)).header("x-api-key", &self.key);
        answer(request.json(&json!({"query": query, "variables": variables}))).await
    }

    /// Asks for the group this many times at once; all get this answer.
    async fn read(&self, times: usize, expected: &str) {
        let of = json!({"groupId": self.group});
        for (status, answer) in join_all((0..times).map(|_| self.ask(GET, of.clone()))).await {
            assert_eq!(told(status, &answer), expected, "{answer}");
        }
    }

    /// Creates this many groups at once; all get this answer.
    async fn create(&self, times: usize, expected: &str) {
        let create = |n| self.ask(CREATE, json!({"hostId": format!("host-{n}")}));
        for (status, answer) in join_all((0..times).map(create)).await {
            assert_eq!(told(status, &answer), expected, "{answer}");
        }
    }

    async fn state(&self, alarm: &str) -> String {
        let alarms = self.local.get("/_local/alarms").await;
        let found = alarms.as_array().expect("alarms").iter().find(|each| each["name"] == alarm);
        found.unwrap_or_else(|| panic!("there is no alarm {alarm}"))["state"].as_str().expect("a state").to_owned()
    }

    async fn ringing(&self) -> Vec<String> {
        let alarms = self.local.get("/_local/alarms").await;
        let ringing = alarms.as_array().expect("alarms").iter().filter(|alarm| alarm["state"] == "ALARM");
        let names = ringing.map(|alarm| alarm["name"].as_str().expect("a name").to_owned());
        names.filter(|name| name.starts_with("mesh-")).collect()
    }

    /// Moves the time of metrics and alarms forward.
    async fn later(&self, minutes: u64) {
        let request = self.http.post(format!("{}/_local/alarms/advance?minutes={minutes}", self.local.url));
        assert_eq!(answer(request).await.0, StatusCode::OK);
    }

    async fn faults(&self, faults: Value) {
        assert_eq!(self.local.put_faults(faults).await.0, StatusCode::OK);
    }

    /// All faults are healed. Everything of before leaves the evaluation range of the alarms, and none rings.
    async fn healed(&self) {
        self.faults(json!({})).await;
        self.later(30).await;
        assert_eq!(self.ringing().await, Vec::<String>::new());
    }
}

/// `ok`, the type of the first error, or the status if it is not 200.
fn told(status: StatusCode, answer: &Value) -> String {
    match (status, answer["errors"][0]["errorType"].as_str()) {
        (StatusCode::OK, Some(error)) => error.to_owned(),
        (StatusCode::OK, None) => "ok".to_owned(),
        (status, _) => status.as_u16().to_string(),
    }
}

#[test]
fn every_alarm_of_the_mesh_is_provoked() {
    let template = Template::read(TEMPLATE, &BTreeMap::new()).expect("the template");
    let alarms: BTreeSet<String> = template.alarms().expect("alarms").into_iter().map(|alarm| alarm.name).collect();
    assert_eq!(alarms, PROVOKED.map(str::to_owned).into(), "write the test that provokes it, and name it in PROVOKED");
}

#[tokio::test]
async fn a_table_that_fails_rings_although_appsync_answers_with_200() {
    let mesh = Mesh::start().await;
    for mode in ["down", "throttle", "denied"] {
        mesh.faults(json!({"dynamodb": {"mode": mode}})).await;
        for period in 0..2 {
            assert_eq!(mesh.ringing().await, Vec::<String>::new(), "{mode}: {period} periods page nobody");
            mesh.read(10, "Unavailable").await;
            mesh.create(3, "Unavailable").await;
            if period == 0 {
                mesh.later(5).await;
            }
        }
        assert_eq!(mesh.ringing().await, ["mesh-resolver-errors", "mesh-unavailable"], "{mode}");
        mesh.healed().await;
        mesh.read(1, "ok").await;
    }
    let look = json!({"logGroupName": "/aws/appsync/apis/MeshApi.ApiId", "filterPattern": "AccessDeniedException"});
    let look = mesh.http.post(&mesh.local.url).header("x-amz-target", "Logs_20140328.FilterLogEvents").json(&look);
    let (status, found) = answer(look).await;
    assert_eq!(status, StatusCode::OK, "{found}");
    assert_ne!(found["events"], json!([]), "the log of the API has the cause");
}

#[tokio::test]
async fn requests_that_are_refused_ring_nothing() {
    let mesh = Mesh::start().await;
    for _ in 0..3 {
        let unknown = (0..20).map(|n| mesh.ask(GET, json!({"groupId": format!("unknown-{n}")})));
        for (status, answer) in join_all(unknown).await {
            assert_eq!(told(status, &answer), "GroupNotFound");
        }
        let nameless = (0..20).map(|_| mesh.ask(CREATE, json!({"hostId": ""})));
        for (status, answer) in join_all(nameless).await {
            assert_eq!(told(status, &answer), "ValidationError");
        }
        mesh.later(5).await;
        assert_eq!(mesh.ringing().await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn what_a_client_writes_in_a_request_rings_nothing() {
    let mesh = Mesh::start().await;
    let aliases = [
        "query ($groupId: ID!) { Unavailable: getGroup(groupId: $groupId, domain: \"home\") { id } }",
        "query ($groupId: ID!) { mesh_unavailable: getGroup(groupId: $groupId, domain: \"mesh-unavailable:\") { id } }",
    ];
    // The error of this field quotes the value.
    let quoted = "mutation { fireEventsByNode(groupId: \"g\", domain: \"home\", nodeId: \"n\",
                  events: [{ eventName: \"e\", firedAt: \"mesh-unavailable:\" }]) { groupId } }";
    for _ in 0..3 {
        for n in 0..20 {
            for alias in aliases {
                let (status, answer) = mesh.ask(alias, json!({"groupId": format!("mesh-unavailable: {n}")})).await;
                assert_eq!(told(status, &answer), "GroupNotFound");
            }
            let (_, answer) = mesh.ask(quoted, json!({})).await;
            assert!(answer["errors"][0]["message"].to_string().contains("mesh-unavailable:"), "{answer}");
        }
        mesh.later(5).await;
        assert_eq!(mesh.ringing().await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn an_appsync_that_fails_rings() {
    let mesh = Mesh::start().await;
    mesh.faults(json!({"appsync": {"mode": "refuse", "status": 503}})).await;
    mesh.read(5, "503").await;
    assert_eq!(mesh.state("mesh-errors").await, "OK", "one period pages nobody");
    mesh.later(5).await;
    mesh.read(5, "503").await;
    assert_eq!(mesh.ringing().await, ["mesh-errors"]);
    mesh.healed().await;
    mesh.read(1, "ok").await;
}

#[tokio::test]
async fn a_slow_table_rings() {
    let mesh = Mesh::start().await;
    mesh.later(30).await;
    mesh.faults(json!({"dynamodb": {"mode": "slow", "ms": 1_100}})).await;
    for period in 0..3 {
        assert_eq!(mesh.state("mesh-latency").await, "OK", "{period} periods page nobody");
        mesh.read(3, "ok").await;
        if period < 2 {
            mesh.later(5).await;
        }
    }
    assert_eq!(mesh.ringing().await, ["mesh-latency"]);
    mesh.healed().await;
}

#[tokio::test]
async fn a_function_without_concurrency_rings() {
    let mesh = Mesh::start().await;
    let lambda = aws_sdk_lambda::Client::new(aws(&mesh.local.url).config());
    let stop = lambda.put_function_concurrency().function_name("mesh-resolver").reserved_concurrent_executions(0);
    assert_eq!(stop.send().await.expect("stopped").reserved_concurrent_executions(), Some(0));
    for period in 0..2 {
        assert_eq!(mesh.state("mesh-resolver-throttles").await, "OK", "{period} periods page nobody");
        mesh.create(10, "Unavailable").await;
        if period == 0 {
            mesh.later(5).await;
        }
    }
    assert_eq!(mesh.ringing().await, ["mesh-resolver-throttles", "mesh-unavailable"], "a throttle is no error");
    lambda.delete_function_concurrency().function_name("mesh-resolver").send().await.expect("started again");
    mesh.create(5, "ok").await;
    mesh.healed().await;
}

#[tokio::test]
async fn a_storm_of_conflicts_is_no_failure_of_the_table_or_the_function() {
    let mesh = Mesh::start().await;
    mesh.faults(json!({"dynamodb": {"mode": "conflict"}})).await;
    for period in 0..2 {
        // Each of them tries eight times.
        mesh.create(7, "Conflict").await;
        if period == 0 {
            mesh.later(5).await;
        }
    }
    let ringing = mesh.ringing().await;
    for alarm in ["mesh-unavailable", "mesh-resolver-errors"] {
        assert!(!ringing.contains(&alarm.to_owned()), "a client that gets `Conflict` may try again: {ringing:?}");
    }
    mesh.healed().await;
    mesh.create(7, "ok").await;
}

/// What the schedule of a deployment sends, if the API key ends in this many days.
fn scheduled(days: u64) -> Value {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").as_secs();
    let expires = now + days * 86_400 + 3_600;
    let parameters = BTreeMap::from([("MeshApiKeyExpires".to_owned(), json!(expires))]);
    let template = Template::read(TEMPLATE, &parameters).expect("the template");
    let [schedule] = template.schedules().expect("schedules").try_into().expect("one schedule");
    assert_eq!((schedule.function.as_str(), schedule.expression.as_str()), ("mesh-resolver", "rate(1 day)"));
    schedule.input
}

#[tokio::test]
async fn an_api_key_that_ends_soon_rings_without_any_client() {
    const DAY: u64 = 24 * 60;
    let mesh = Mesh::start().await;
    let invoke = |days: u64| mesh.local.invoke("mesh-resolver", "RequestResponse", scheduled(days));
    assert_eq!(invoke(31).await.0, StatusCode::OK);
    assert_eq!(mesh.state("mesh-api-key").await, "OK");
    mesh.later(DAY).await;
    for days in [29, 28] {
        assert_eq!(invoke(days).await.0, StatusCode::OK);
        assert_eq!(mesh.state("mesh-api-key").await, "ALARM", "{days} days are left");
        mesh.later(DAY).await;
    }
    for _ in 0..7 {
        mesh.later(DAY).await;
    }
    assert_eq!(mesh.state("mesh-api-key").await, "ALARM", "silence does not end it");
    assert_eq!(invoke(27).await.0, StatusCode::OK);
    assert_eq!(mesh.state("mesh-api-key").await, "ALARM");
    // A deployment with another expiry changes what the schedule sends. No rollout is needed, and the same day is enough.
    assert_eq!(invoke(365).await.0, StatusCode::OK);
    assert_eq!(mesh.state("mesh-api-key").await, "OK");
    let run = mesh.http.post(format!("{}/_local/schedules/mesh-api-key-schedule/run", mesh.local.url));
    assert_eq!(answer(run).await.0, StatusCode::OK, "the schedule of this platform");
    assert_eq!(mesh.state("mesh-api-key").await, "OK");
}
