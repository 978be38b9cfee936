//! Every subject works: it measures four sizes of each of its operations, and every slope is a number.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

/// Runs the program with tiny sizes.
fn run(arguments: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("curves.json");
    let ran = Command::new(env!("CARGO_BIN_EXE_curves"))
        .args(["--sizes", "tiny", "--json"])
        .arg(&file)
        .args(arguments)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

#[test]
fn every_subject_has_four_points_per_operation_and_finite_slopes() {
    let report = run(&[]);
    let mut subjects: BTreeMap<&str, usize> = BTreeMap::new();
    for curve in report["curves"].as_array().unwrap() {
        let name = format!("{} {}", curve["subject"], curve["operation"]);
        *subjects.entry(curve["subject"].as_str().unwrap()).or_default() += 1;
        let points = curve["points"].as_array().unwrap();
        assert_eq!(points.len(), 4, "{name}");
        let sizes: Vec<u64> = points.iter().map(|point| point["size"].as_u64().unwrap()).collect();
        assert!(sizes.is_sorted_by(|a, b| a < b), "{name}: {sizes:?}");
        for point in points {
            for figure in ["time_us", "cpu_us"] {
                assert!(point[figure].as_f64().is_some_and(|figure| figure > 0.0), "{name}: {point}");
            }
        }
        for slope in ["time", "cpu"] {
            assert!(curve["slopes"][slope].as_f64().is_some_and(f64::is_finite), "{name}: {}", curve["slopes"]);
        }
        // What asks the store is counted and paid for.
        let calls = points.iter().all(|point| point["calls"].as_f64().unwrap() > 0.0);
        let paid = points.iter().all(|point| point["dollars"].as_f64().is_some_and(|dollars| dollars > 0.0));
        assert!(paid || !calls, "{name}: {points:?}");
    }
    let names: Vec<&str> = subjects.into_keys().collect();
    let expected = [
        "accounts",
        "domain",
        "entries",
        "feeds",
        "groups",
        "history",
        "keys",
        "lines",
        "members",
        "memory",
        "resolvers",
        "subscribers",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_subject_can_be_measured_alone() {
    let report = run(&["--subject", "keys"]);
    let calls = |curve: usize| report["curves"][curve]["points"][3]["calls"].as_f64().unwrap();
    assert_eq!([calls(0), calls(1), calls(2)], [1.0, 2.0, 1.0], "mark, run, and run of a completed key");
}
