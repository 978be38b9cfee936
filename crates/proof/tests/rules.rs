//! `docs/protocol.md` and the ledger name the same rules, and the explorer finds a fault that is there.

use ichido_testkit::explore::{self, Bound};
use proof::ledger::Rule;
use proof::library::Scenario;

#[test]
fn the_page_lists_every_rule_that_is_checked_and_no_other() {
    let page = include_str!("../../../docs/protocol.md");
    let rules = page.split("## Rules").nth(1).expect("the page has a section about the rules");
    let listed: Vec<&str> = rules.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(listed, Rule::ALL.map(Rule::name));
}

#[test]
fn a_scenario_is_found_by_its_name() {
    for scenario in Scenario::all(2).into_iter().chain(Scenario::all(3)) {
        assert_eq!(scenario.to_string().parse(), Ok(scenario));
    }
    assert!("2-apart".parse::<Scenario>().is_err());
}

#[test]
fn nothing_goes_wrong_on_any_path_with_one_fault() {
    for scenario in Scenario::all(2) {
        let report = explore::explore(&scenario, &Bound::faults(1));
        assert_eq!(report.violation, None, "{scenario}");
        assert!(report.states > 1_000 && report.frontier.is_none(), "{scenario}: {report:?}");
    }
}

#[test]
fn a_choice_that_a_path_does_not_have_is_told() {
    let scenario: Scenario = "2-apart-closed-probe".parse().unwrap();
    assert_eq!(explore::replay(&scenario, 2, &[]).misfit, None);
    assert_eq!(explore::replay(&scenario, 2, &[0, 0]).misfit, None);
    assert_eq!(explore::replay(&scenario, 2, &[0, 9999]).misfit, Some(1));
    let mut long = explore::replay(&scenario, 0, &[0; 500]);
    assert!(long.misfit.take().is_some_and(|at| at < 500), "there are not so many choices");
}

#[test]
fn a_path_is_replayed_exactly() {
    let scenario: Scenario = "2-together-open-probe".parse().unwrap();
    let once = explore::replay(&scenario, 2, &[0, 1, 2, 3, 1, 4, 2]);
    let again = explore::replay(&scenario, 2, &[0, 1, 2, 3, 1, 4, 2]);
    assert_eq!(once.history, again.history);
    assert!(once.history.len() > 10, "{}", once.history);
}
