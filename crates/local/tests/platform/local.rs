//! `/_local/*`, the console's files, TLS, schedules and sample data.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::client::{answer, eventually, http};
use crate::support::process::Local;

#[tokio::test]
async fn a_schedule_is_listed_run_paused_and_resumed() {
    let directory = tempfile::tempdir().expect("a directory");
    let local = Local::keeping(directory.path(), &[]);
    let schedules = local.get("/_local/schedules").await;
    assert_eq!(
        (&schedules[0]["name"], &schedules[0]["expression"]),
        (&json!("workshop-note"), &json!("rate(5 minutes)"))
    );
    let post = |action: &str| http().post(format!("{}/_local/schedules/workshop-note/{action}", local.url));
    let (status, ran) = answer(post("run")).await;
    assert_eq!((status, &ran["ok"], &ran["result"]), (StatusCode::OK, &json!(true), &json!({"result": "new"})));
    assert_eq!(
        answer(post("run")).await.1["result"],
        json!({"result": "duplicate"}),
        "the first run had ended when it answered"
    );
    assert_eq!(answer(post("pause")).await.1["enabled"], false);
    assert_eq!(answer(post("explode")).await.0, StatusCode::NOT_FOUND);
    let unknown = http().post(format!("{}/_local/schedules/nothing/run", local.url));
    assert_eq!(answer(unknown).await.0, StatusCode::NOT_FOUND);
    local.kill();
    let local = Local::keeping(directory.path(), &[]);
    assert_eq!(local.get("/_local/schedules").await[0]["enabled"], false, "a pause survives a restart");
}

#[tokio::test]
async fn metrics_come_from_the_handlers_own_lines() {
    let local = Local::start();
    local.note("a").await;
    local.note("a").await;
    local.note("b").await;
    let metrics = local.get("/_local/metrics").await;
    let of = |name: &str| metrics.as_array().expect("metrics").iter().find(|metric| metric["name"] == name);
    let sent = of("FallbackAdmissions").expect("what an alarm watches");
    assert_eq!(
        (&sent["namespace"], &sent["dimensions"]),
        (&json!("Ichido"), &json!({"FunctionName": "workshop-note"}))
    );
    assert_eq!((&sent["count"], &sent["sum"]), (&json!(2), &json!(2.0)));
    assert_eq!(of("NewKeys"), None, "the other numbers are in the log alone");
}

#[tokio::test]
async fn an_alarm_rings_when_something_was_given_up() {
    let local = Local::with(&["--memory", "--no-demo", "--retry-scale=0"]);
    let state = || async {
        let alarms = local.get("/_local/alarms").await;
        let alarms = alarms.as_array().expect("alarms").clone();
        alarms.into_iter().find(|alarm| alarm["name"] == "workshop-dead-letters").expect("the alarm")
    };
    let alarm = state().await;
    assert_eq!((&alarm["state"], &alarm["runbook"]), (&json!("OK"), &json!("docs/runbooks/workshop.md")));
    local.invoke("workshop-mischief", "Event", json!({"do": "fail"})).await;
    eventually("the alarm", || async { (state().await["state"] == "ALARM").then_some(()) }).await;
}

#[tokio::test]
async fn only_the_time_of_alarms_is_moved_forward() {
    let local = Local::with(&["--memory", "--no-demo", "--retry-scale=0"]);
    let advance = |query: &str| answer(http().post(format!("{}/_local/alarms/advance{query}", local.url)));
    let state = |alarms: &Value| {
        let alarms = alarms.as_array().expect("alarms").iter();
        alarms.clone().find(|alarm| alarm["name"] == "workshop-dead-letters").expect("the alarm")["state"].clone()
    };
    local.invoke("workshop-mischief", "Event", json!({"do": "fail"})).await;
    eventually("the alarm", || async { (state(&local.get("/_local/alarms").await) == "ALARM").then_some(()) }).await;
    let next = local.get("/_local/schedules").await[0]["next"].clone();
    let sqs = crate::lambda::sqs(&local.url);
    let url = format!("{}/000000000000/workshop-failures", local.url);
    sqs.purge_queue().queue_url(url).send().await.expect("purged");
    assert_eq!(state(&local.get("/_local/alarms").await), "ALARM", "its period is not over");
    let (status, moved) = advance("?minutes=5").await;
    assert_eq!((status, &moved["aheadSeconds"]), (StatusCode::OK, &json!(300)));
    assert_eq!(state(&moved["alarms"]), "OK");
    assert_eq!(local.get("/_local/schedules").await[0]["next"], next);
    for nonsense in ["", "?minutes=0", "?minutes=soon", "?minutes=1000000"] {
        assert_eq!(advance(nonsense).await.0, StatusCode::BAD_REQUEST, "{nonsense}");
    }
}

/// The events of the stream, until `enough`.
async fn events(local: &Local, query: &str, enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let mut response = http().get(format!("{}/_local/events{query}", local.url)).send().await.expect("a stream");
    let (mut text, mut seen) = (String::new(), Vec::new());
    while !enough(&seen) {
        let chunk = tokio::time::timeout(Duration::from_secs(30), response.chunk()).await.expect("an event in time");
        text += &String::from_utf8_lossy(&chunk.expect("bytes").expect("more"));
        while let Some((event, rest)) = text.split_once("\n\n") {
            let data: Option<Value> = event
                .lines()
                .find_map(|line| line.strip_prefix("data: "))
                .map(|data| serde_json::from_str(data).expect("JSON"));
            seen.extend(data);
            text = rest.to_owned();
        }
    }
    seen
}

#[tokio::test]
async fn the_live_stream_tells_what_arrives_what_is_new_and_what_is_a_duplicate() {
    let local = Local::start();
    local.note("x").await;
    local.note("x").await;
    answer(http().get(format!("{}/echo/hi", local.url))).await;
    let has = |seen: &[Value], kind: &str, field: &str, value: &str| {
        seen.iter().any(|event| event["kind"] == kind && event[field] == value)
    };
    let seen = events(&local, "", |seen| {
        has(seen, "decision", "result", "new")
            && has(seen, "decision", "result", "duplicate")
            && has(seen, "request", "path", "/echo/hi")
    })
    .await;
    let ids: Vec<u64> = seen.iter().map(|event| event["id"].as_u64().expect("an id")).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    // A reader that comes back continues where it was.
    local.put_faults(json!({"slack": {"mode": "hang"}})).await;
    let last = ids.last().expect("an id");
    let further = events(&local, &format!("?after={last}"), |seen| !seen.is_empty()).await;
    assert!(further.iter().all(|event| event["id"].as_u64() > Some(*last)));
}

#[tokio::test]
async fn sample_data_is_made_unless_it_is_not_wanted() {
    let local = Local::with(&["--memory"]);
    events(&local, "", |seen| seen.iter().any(|event| event["says"] == "the demo runs")).await;
}

#[tokio::test]
async fn the_console_is_small_and_loads_nothing_from_other_hosts() {
    const MOST: usize = 250 * 1000;
    let local = Local::start();
    let mut size = 0;
    for path in [
        "/",
        "/console/console.css",
        "/console/console.js",
        "/console/kit.js",
        "/console/chart.js",
        "/console/markdown.js",
        "/console/pages/overview.js",
        "/console/pages/keys.js",
        "/console/pages/life.js",
        "/console/pages/alarms.js",
        "/console/pages/dead-letters.js",
        "/console/pages/schedules.js",
        "/console/pages/metrics.js",
    ] {
        let response = http().get(format!("{}{path}", local.url)).send().await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        let text = response.text().await.expect("text");
        assert!(!text.contains("https://") || path == "/", "{path} loads something from elsewhere");
        size += text.len();
    }
    assert!(size < MOST, "{size} bytes");
    let panels = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/console/web/panels")).expect("the panels");
    let of_panels: u64 = panels.map(|panel| panel.and_then(|panel| panel.metadata()).expect("a panel").len()).sum();
    assert!(size as u64 + of_panels < MOST as u64, "{size} + {of_panels} bytes");
    let response = http().get(&local.url).send().await.expect("an answer");
    assert!(response.headers()["content-security-policy"].to_str().expect("text").starts_with("default-src 'self'"));
}

#[tokio::test]
async fn the_same_is_served_over_tls_with_a_certificate_that_can_be_trusted() {
    let directory = tempfile::tempdir().expect("a directory");
    let local = Local::keeping(directory.path(), &[]);
    let certificate = std::fs::read(directory.path().join("cert.pem")).expect("the certificate");
    let trusting = http_client::builder()
        .no_proxy()
        .tls_certs_only([reqwest::Certificate::from_pem(&certificate).expect("a certificate")])
        .build()
        .expect("a client");
    let health: Value =
        trusting.get(format!("{}/healthz", local.tls_url)).send().await.expect("an answer").json().await.expect("JSON");
    assert_eq!(health["status"], "ok");
    let (status, _) = answer(trusting.post(format!("{}/echo/x", local.tls_url)).body("x")).await;
    assert_eq!(status, StatusCode::OK);
}
