//! Makes every alarm of the templates ring and stop.
//!
//! The alarms come from `infra/templates`, so an alarm without a case here fails the test. Our own metrics come as the EMF lines
//! that functions write. Those of Lambda, API Gateway and SQS come as the platform records them. Those of services that do not
//! run here are added by name. Time is simulated. `crates/ops/tests/operator/runbooks.rs` makes six alarms ring on the running
//! platform with a fault, and ends them with the commands of their runbooks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use local::aws::gateway::API_ID;
use local::world::alarms::{self, Alarms, State, budget_rings};
use local::world::metrics::{Id, Metrics};
use serde_json::{Value, json};
use template::{Alarm, Template};

const MINUTE_MS: u64 = 60_000;
/// A time long ago, so that nothing depends on the clock.
const START_MS: u64 = 1_000_000 * MINUTE_MS;

fn templates() -> Vec<(String, Template)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../infra/templates");
    let mut files: Vec<_> =
        std::fs::read_dir(directory).expect("the templates").map(|file| file.expect("a file").path()).collect();
    files.sort();
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).expect("a template");
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        // With everything that any environment has, also the budgets.
        let parameters = BTreeMap::from([("Budgets".to_owned(), json!("on"))]);
        (name, Template::read(&text, &parameters).expect("a template"))
    };
    files.iter().map(read).collect()
}

fn all_alarms() -> Vec<Alarm> {
    templates().iter().flat_map(|(_, template)| template.alarms().expect("alarms")).collect()
}

/// What reports the metric of an alarm, and what it reports in a bad period and in a good one.
enum Case {
    /// Ten invocations of a function: how many fail, and how many milliseconds each one takes.
    Lambda { function: &'static str, bad: (u32, f64), well: (u32, f64) },
    /// A metric of our own, as the EMF line of a function: its values.
    Own { function: &'static str, metric: &'static str, bad: &'static [f64], well: &'static [f64] },
    /// Ten requests to the HTTP API: how many are answered with 500.
    HttpApi { bad: u32, well: u32 },
    /// A queue: how many messages it has.
    Queue { queue: &'static str, bad: usize, well: usize },
    /// A service that does not run here: its values.
    Service { namespace: &'static str, metric: &'static str, bad: &'static [f64], well: &'static [f64] },
}

/// The case of an alarm, by its name in production.
fn case(alarm: &str) -> Option<Case> {
    use Case::{HttpApi, Lambda, Own, Queue, Service};
    let errors = |function, bad| Lambda { function, bad: (bad, 50.0), well: (0, 50.0) };
    let slow = |function, ms| Lambda { function, bad: (0, ms), well: (0, 50.0) };
    let sum = |function, metric, bad: &'static [f64]| Own { function, metric, bad, well: &[0.0] };
    Some(match alarm {
        "slack-events-errors" => errors("slack-events", 3),
        "slack-events-latency" => slow("slack-events", 2_100.0),
        "slack-files-errors" => errors("slack-files", 5),
        "slack-files-dead-letters" => Queue { queue: "slack-files-failures", bad: 1, well: 0 },
        "slack-fallback-active" => sum("slack-events", "FallbackAdmissions", &[1.0]),
        "github-feed-subscriber-errors" => errors("github-subscriber", 1),
        "github-feed-subscriber-duration" => slow("github-subscriber", 10_100.0),
        "github-feed-gap" => sum("github-subscriber", "FeedGaps", &[1.0]),
        "github-feed-silence" => Own { function: "github-subscriber", metric: "FeedReads", bad: &[], well: &[1.0] },
        "github-feed-dead-letters" => sum("github-subscriber", "DeadLetters", &[1.0]),
        "hatebu-feed-subscriber-errors" => errors("hatebu-subscriber", 1),
        "hatebu-feed-subscriber-duration" => slow("hatebu-subscriber", 20_100.0),
        "hatebu-feed-gap" => sum("hatebu-subscriber", "FeedGaps", &[1.0]),
        "hatebu-feed-silence" => Own { function: "hatebu-subscriber", metric: "FeedReads", bad: &[], well: &[1.0] },
        "hatebu-feed-dead-letters" => sum("hatebu-subscriber", "DeadLetters", &[1.0]),
        "http-api-errors" => HttpApi { bad: 5, well: 4 },
        "tokens-api-errors" => sum("tokens-api", "Failures", &[3.0]),
        "tokens-api-crashes" => errors("tokens-api", 3),
        "tokens-api-latency" => {
            Own { function: "tokens-api", metric: "TransferLatency", bad: &[2_100.0], well: &[20.0] }
        }
        "tokens-unresolved" => sum("tokens-api", "TransfersUnresolved", &[1.0, 1.0, 1.0]),
        "tokens-conflicts" => sum("tokens-api", "TransferConflicts", &[100.0]),
        "mesh-errors" => Service { namespace: "AWS/AppSync", metric: "5XXError", bad: &[5.0], well: &[0.0] },
        "mesh-latency" => Service { namespace: "AWS/AppSync", metric: "Latency", bad: &[1_100.0], well: &[30.0] },
        "mesh-api-key" => {
            Own { function: "mesh-resolver", metric: "MeshApiKeyDaysLeft", bad: &[300.0, 29.0], well: &[300.0] }
        }
        "mesh-resolver-errors" => errors("mesh-resolver", 3),
        "mesh-resolver-throttles" => {
            Service { namespace: "AWS/Lambda", metric: "Throttles", bad: &[5.0], well: &[0.0] }
        }
        "mesh-conflicts" => sum("mesh-resolver", "Conflicts", &[50.0]),
        _ => return None,
    })
}

impl Case {
    /// Reports one period at a given time.
    fn report(&self, alarm: &Alarm, metrics: &Metrics, bad: bool, at_ms: u64) {
        match self {
            Self::Lambda { function, bad: when_bad, well } => {
                let (failed, ms) = if bad { when_bad } else { well };
                let took = Duration::from_secs_f64(ms / 1e3);
                for invocation in 0..10 {
                    metrics.invocation_at(function, took, invocation < *failed, at_ms);
                }
            }
            Self::Own { function, metric, bad: when_bad, well } => {
                let values = if bad { when_bad } else { well };
                if !values.is_empty() {
                    assert!(metrics.line(&json!({
                        "_aws": {"Timestamp": at_ms, "CloudWatchMetrics": [{
                            "Namespace": "Ichido", "Dimensions": [["FunctionName"]],
                            "Metrics": [{"Name": metric, "Unit": "Count"}],
                        }]},
                        "FunctionName": function, *metric: values,
                    })));
                }
            }
            Self::HttpApi { bad: when_bad, well } => {
                let failed = if bad { *when_bad } else { *well };
                for request in 0..10 {
                    let status = if request < failed { 500 } else { 200 };
                    metrics.request_at(API_ID, status, Duration::from_millis(5), at_ms);
                }
            }
            Self::Queue { queue, bad: when_bad, well } => {
                metrics.queue_at(queue, if bad { *when_bad } else { *well }, at_ms);
            }
            Self::Service { namespace, metric, bad: when_bad, well } => {
                assert_eq!((alarm.namespace.as_str(), alarm.metric.as_str()), (*namespace, *metric));
                let id = Id {
                    namespace: (*namespace).to_owned(),
                    name: (*metric).to_owned(),
                    dimensions: alarm.dimensions.clone(),
                };
                let values = if bad { when_bad } else { well };
                metrics.put(&id, "Count", at_ms, values.iter().copied());
            }
        }
    }
}

#[test]
fn every_alarm_of_the_templates_rings_and_stops() {
    let alarms = all_alarms();
    assert!(!alarms.is_empty());
    for alarm in &alarms {
        let case = case(&alarm.name).unwrap_or_else(|| {
            panic!(
                "{} has no case: say in `case` what reports its metric, and what it reports when it is bad",
                alarm.name
            )
        });
        let (metrics, watched) = (Metrics::default(), Alarms::new(vec![alarm.clone()]));
        let period = u64::try_from(alarm.period.as_millis()).expect("a period");
        let mut now = START_MS;
        let mut pass = |bad: bool| {
            case.report(alarm, &metrics, bad, now);
            let state = watched.evaluate_all(&metrics, now)[0].state;
            now += period;
            state
        };
        let range = alarms::evaluation_range(alarm);
        let quiet: Vec<State> = (0..range).map(|_| pass(false)).collect();
        assert_eq!(quiet.last(), Some(&State::Ok), "{}: when all is well it is quiet: {quiet:?}", alarm.name);
        let mut bad = Vec::new();
        for _ in 0..alarm.datapoints_to_alarm {
            bad.push(pass(true));
        }
        // Missing data is no datapoint: such an alarm rings only after the last datapoint has left the evaluation range.
        while bad.last() != Some(&State::Alarm) && bad.len() < range as usize {
            assert_eq!(alarm.missing_data, "breaching", "{}: {bad:?} after {} bad periods", alarm.name, bad.len());
            bad.push(pass(true));
        }
        assert_eq!(bad.last(), Some(&State::Alarm), "{}: {bad:?}", alarm.name);
        let early = &bad[..bad.len() - 1];
        assert!(early.iter().all(|state| *state == State::Ok), "{}: it rings too early: {bad:?}", alarm.name);
        let well: Vec<State> = (0..range).map(|_| pass(false)).collect();
        assert_eq!(well.last(), Some(&State::Ok), "{}: it stops: {well:?}", alarm.name);
    }
    let names: BTreeSet<&str> = alarms.iter().map(|alarm| alarm.name.as_str()).collect();
    assert_eq!(names.len(), alarms.len(), "no two alarms have one name");
}

#[test]
fn every_metric_of_our_own_that_an_alarm_watches_is_one_that_functions_write() {
    let known = include_str!("../../telemetry/src/metric.rs");
    for alarm in all_alarms().iter().filter(|alarm| alarm.namespace == "Ichido") {
        assert!(known.contains(&format!("(\"{}\")", alarm.metric)), "{}: nobody writes {}", alarm.name, alarm.metric);
    }
}

#[test]
fn every_alarm_and_every_budget_has_its_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for alarm in all_alarms() {
        // The alarms of the two feeds share their pages.
        let page = alarm.name.replacen("github-feed-", "feed-", 1).replacen("hatebu-feed-", "feed-", 1);
        let page = format!("docs/runbooks/{page}.md");
        assert!(alarm.description.ends_with(&format!("Runbook {page}")), "{}: {}", alarm.name, alarm.description);
        assert!(root.join(&page).is_file(), "{page} is missing");
    }
    assert!(root.join("docs/runbooks/budget.md").is_file());
}

#[test]
fn every_budget_reports_when_it_is_nearly_spent_and_when_it_will_be_overspent() {
    let mut budgets = Vec::new();
    for (_, template) in templates() {
        for (_, budget) in template.of_kind("AWS::Budgets::Budget") {
            budgets.push(budget.clone());
        }
    }
    assert_eq!(budgets.len(), 2, "the environment's and the feeds'");
    for budget in budgets {
        let limit: f64 = match &budget["Budget"]["BudgetLimit"]["Amount"] {
            Value::String(text) => text.parse().expect("an amount"),
            number => number.as_f64().expect("an amount"),
        };
        let notifications = budget["NotificationsWithSubscribers"].as_array().expect("notifications");
        let ringing = |actual: f64, forecast: f64| -> Vec<&str> {
            let of = notifications.iter().map(|each| &each["Notification"]);
            of.filter(|each| budget_rings(&budget["Budget"], each, actual, forecast))
                .map(|each| each["NotificationType"].as_str().expect("a type"))
                .collect()
        };
        assert!(ringing(limit * 0.5, limit * 0.9).is_empty(), "an ordinary month");
        assert_eq!(ringing(limit * 0.81, limit * 0.9), ["ACTUAL"]);
        assert_eq!(ringing(limit * 0.3, limit * 1.01), ["FORECASTED"]);
        assert_eq!(ringing(limit * 1.2, limit * 1.5), ["ACTUAL", "FORECASTED"]);
    }
}
