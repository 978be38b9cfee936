//! Every alarm of the templates is rung by the fault that it describes, on the running platform, and ends when the fault is healed.
//!
//! The alarms come from `infra/templates`, so a new alarm that nothing provokes fails the test. Only the time of metrics and alarms
//! is simulated. [`provoked`] has most of them; [`PROVOKED`] says where the others are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use local::world::alarms::budget_rings;
use serde_json::{Value, json};
use template::{Alarm, Template};

#[allow(dead_code, reason = "shared with the other tests")]
#[path = "../support/client.rs"]
mod client;
#[allow(dead_code, reason = "shared with the other tests")]
#[path = "../support/process.rs"]
mod process;
mod provoked;
#[allow(dead_code, reason = "shared with the tests of the operator's tool")]
#[path = "../support/slack.rs"]
mod slack;

/// The tests that ring alarms by a fault. The second one also ends them with the commands of their runbooks.
const PROVOKED: [&str; 3] = [
    "crates/local/tests/alarms/provoked.rs",
    "crates/ops/tests/operator/runbooks.rs",
    "crates/local/tests/mesh_alarms.rs",
];

/// Not a test: the platform that the tests start.
#[test]
#[ignore = "the other tests start it as a process"]
fn platform_process() {
    let Some(arguments) = process::given_arguments() else { return };
    let code = local::main_with(local::tenants::all(), arguments);
    std::process::exit(i32::from(code));
}

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

/// Whether a test asserts that this alarm rings, by its name or by what the name is bound to.
fn sees_it_ring(text: &str, alarm: &str) -> bool {
    let quoted = format!("\"{alarm}\"");
    let asserted = |test: &str, called: &str| {
        let forms = [
            format!("rings(&local, {called})"),
            format!("state(&local, {called}).await, StateValue::Alarm"),
            format!("state({called}).await, \"ALARM\""),
        ];
        let listed = |line: &str| line.contains("ringing().await, [") && line.contains(called);
        forms.iter().any(|form| test.contains(form)) || test.lines().any(listed)
    };
    text.split("#[tokio::test]").any(|test| {
        test.lines().filter(|line| line.contains(&quoted)).any(|line| {
            if let Some(field) = line.trim().strip_suffix(&format!(": {quoted},")) {
                return asserted(text, &format!("names.{field}"));
            }
            match line.trim().strip_prefix("let ").and_then(|line| line.split_once(" = ")) {
                Some((names, values)) => {
                    let at = values.split(", ").position(|value| value.contains(&quoted));
                    let name = at.and_then(|at| names.split(", ").nth(at)).map(|name| name.trim_matches(['(', ')']));
                    name.is_some_and(|name| asserted(test, name))
                }
                None => asserted(text, &quoted),
            }
        })
    })
}

#[test]
fn an_alarm_that_is_only_named_does_not_count_as_rung() {
    let test = "#[tokio::test]\nasync fn a() {\n    let (errors, other) = (\"a-errors\", \"a-other\");\n    rings(&local, errors).await;\n}";
    assert!(sees_it_ring(test, "a-errors"));
    assert!(!sees_it_ring(test, "a-other"));
    assert!(!sees_it_ring("const NAMES: [&str; 1] = [\n    \"a-errors\",\n];", "a-errors"));
}

#[test]
fn every_alarm_of_the_templates_is_rung_by_the_fault_that_it_describes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path));
    let tests: Vec<String> = PROVOKED.iter().map(|path| read(path).expect("a test")).collect();
    let alarms = all_alarms();
    for alarm in &alarms {
        assert!(
            tests.iter().any(|text| sees_it_ring(text, &alarm.name)),
            "nothing rings {}: provoke its fault in crates/local/tests/alarms/provoked.rs, see it ring, heal, see it end",
            alarm.name
        );
    }
    let names: BTreeSet<&str> = alarms.iter().map(|alarm| alarm.name.as_str()).collect();
    assert_eq!(names.len(), alarms.len(), "no two alarms have one name");
}

#[test]
fn every_metric_of_our_own_that_an_alarm_watches_is_one_that_functions_write() {
    let known = include_str!("../../../telemetry/src/metric.rs");
    for alarm in all_alarms().iter().filter(|alarm| alarm.namespace == "Ichido") {
        let declared = format!("(\"{}\").alarmed()", alarm.metric);
        assert!(known.contains(&declared), "{}: CloudWatch gets no metric {}", alarm.name, alarm.metric);
    }
}

#[test]
fn every_alarm_and_every_budget_has_its_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for alarm in all_alarms() {
        // The alarms of the two feeds share their pages.
        let page = alarm.name.trim_start_matches("github-").trim_start_matches("hatebu-");
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
