//! `ichido-local --functions`, which the infrastructure's tests read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use template::Template;

fn printed() -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_ichido-local")).arg("--functions").output().expect("a process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn every_function_of_the_templates_is_printed_with_its_crate_and_its_variables() {
    let printed = printed();
    assert_eq!(printed["common"], json!(["LOG_LEVEL"]));
    let functions = printed["functions"].as_array().expect("functions");
    let names: Vec<&str> = functions.iter().map(|function| function["name"].as_str().expect("a name")).collect();
    assert!(names.is_sorted(), "{names:?}");

    let mut declared = BTreeSet::new();
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../infra/templates")).expect("files") {
        let text = std::fs::read_to_string(file.expect("a file").path()).expect("a template");
        let template = Template::read(&text, &BTreeMap::new()).expect("a template");
        declared.extend(template.functions().into_iter().map(|function| function.name));
    }
    assert_eq!(names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>(), declared);

    let of = |name: &str| functions.iter().find(|function| function["name"] == name).expect("a function");
    for (name, krate) in
        [("slack-events", "slack"), ("github-subscriber", "feeds"), ("tokens-api", "tokens"), ("mesh-resolver", "mesh")]
    {
        assert_eq!(of(name)["crate"], krate, "{name}");
        let variables = of(name)["variables"].as_array().expect("variables");
        assert!(!variables.is_empty() && variables.iter().all(Value::is_string), "{name}: {variables:?}");
    }
    let slack = of("slack-events")["variables"].as_array().expect("variables");
    assert!(slack.contains(&json!("DEDUP_TABLE_NAME")), "{slack:?}");
}
