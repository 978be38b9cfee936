//! `ichidoctl doctor`, `rollout` and `rollback` on the local platform, where there is one version of everything. Rollouts that
//! move something are tried on the local AWS (tests/deploy/chapters/rollout.ts).

use insta::assert_snapshot;
use regex::Regex;

use crate::ctl::{Said, ctl, platform};

/// Templates grow: how many things there are is not the point.
fn uncounted(said: &Said) -> String {
    Regex::new(r"(all|of) \d+ are").expect("a pattern").replace_all(&said.tidy(), "$1 [n] are").into_owned()
}

#[tokio::test]
async fn the_doctor_finds_the_platform_as_the_templates_say_and_names_what_is_not() {
    let local = platform(&[]);
    let well = ctl(&local, &["doctor"]);
    assert_eq!(well.code, Some(0), "{well:?}");
    assert_snapshot!(uncounted(&ctl(&local, &["doctor", "--bad"])), @r"
    roles and permissions were not looked at: the local platform has no IAM
    all [n] are as the templates say
    exit code 0
    ");
    assert_eq!(ctl(&local, &["schedules", "pause", "github-feed-subscriber-schedule"]).code, Some(0));
    assert_snapshot!(uncounted(&ctl(&local, &["doctor", "--bad"])), @r"
    BAD schedule  github-feed-subscriber-schedule  State is DISABLED, the template says ENABLED
    roles and permissions were not looked at: the local platform has no IAM
    1 of [n] are not as the templates say; make deploy ENV=local puts right what a deployment makes
    exit code 1
    ");
    assert_snapshot!(ctl(&local, &["doctor", "--bad", "--json"]).tidy(), @r#"
    [
      {
      "kind": "schedule",
      "name": "github-feed-subscriber-schedule",
      "ok": false,
      "notes": [
      "State is DISABLED, the template says ENABLED"
      ]
      }
    ]
    exit code 1
    "#);
}

#[tokio::test]
async fn on_the_platform_there_is_nothing_to_roll_out() {
    let local = platform(&[]);
    assert_snapshot!(ctl(&local, &["rollout", "--plan", "--function", "slack-events"]).tidy(), @r"
    slack-events  version 1, nothing to do
    exit code 0
    ");
    assert_snapshot!(ctl(&local, &["rollout"]).tidy(), @r"
    every function's newest version has all traffic; nothing to do
    exit code 0
    ");
    assert_snapshot!(ctl(&local, &["rollout", "--abort"]).tidy(), @r"
    no rollout is under way
    exit code 0
    ");
    let plan = ctl(&local, &["rollout", "--plan", "--json"]).json();
    assert_eq!(plan[0]["live"], 1, "{plan}");
    let back = ctl(&local, &["rollback"]);
    assert_eq!(back.code, Some(2));
    assert_snapshot!(back.err, @"ichidoctl: no rollout is known that could be taken back; --function NAME --to VERSION goes anywhere");
    let unknown = ctl(&local, &["rollback", "--function", "slack"]);
    assert_snapshot!(unknown.err, @"ichidoctl: there is no function slack; there are slack-events, slack-files, github-notifier, github-subscriber, hatebu-notifier, hatebu-subscriber, tokens-api, mesh-resolver");
}
