//! `ichidoctl doctor`, `rollout` and `rollback` on the local platform, where there is one version of everything. Rollouts that
//! move something are tried on the local AWS (tests/deploy/chapters/rollout.ts).

use insta::assert_snapshot;
use regex::Regex;

use crate::support::ctl::{Said, ctl, platform};

/// The templates grow, so the count is left out.
fn uncounted(said: &Said) -> String {
    Regex::new(r"(all|of) \d+ checks").expect("a pattern").replace_all(&said.tidy(), "$1 [n] checks").into_owned()
}

#[tokio::test]
async fn the_doctor_finds_the_platform_as_the_templates_say_and_names_what_is_not() {
    let local = platform(&[]);
    let well = ctl(&local, &["doctor"]);
    assert_eq!(well.code, Some(0), "{well:?}");
    assert_snapshot!(uncounted(&ctl(&local, &["doctor", "--bad"])), @r"
    roles, permissions, reserved concurrency and log groups are not checked on the local platform
    all [n] checks agree with the templates
    exit code 0
    ");
    assert_eq!(ctl(&local, &["schedules", "rate", "github-feed-subscriber-schedule", "1 hour"]).code, Some(0));
    assert_snapshot!(uncounted(&ctl(&local, &["doctor", "--bad"])), @r"
    BAD schedule  github-feed-subscriber-schedule  ScheduleExpression is rate(1 hour), the template says rate(5 minutes)
    roles, permissions, reserved concurrency and log groups are not checked on the local platform
    1 of [n] checks failed; make deploy ENV=local deploys what is new in the templates, and `ichidoctl mend` sets back what was changed by hand
    exit code 1
    ");
    assert_snapshot!(ctl(&local, &["doctor", "--bad", "--json"]).tidy(), @r#"
    [
      {
      "kind": "schedule",
      "name": "github-feed-subscriber-schedule",
      "ok": false,
      "notes": [
      "ScheduleExpression is rate(1 hour), the template says rate(5 minutes)"
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
    nothing to do: what was deployed last has all traffic
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
    assert_snapshot!(back.err, @"ichidoctl: found no rollout to roll back; choose a version yourself with --function NAME --to VERSION");
    let unknown = ctl(&local, &["rollback", "--function", "slack"]);
    assert_snapshot!(unknown.err, @"ichidoctl: there is no function slack; the functions are slack-events, slack-files, feeds-notifier, feeds-subscriber, github-notifier, github-subscriber, hatebu-notifier, hatebu-subscriber, tokens-api, mesh-resolver");
}
