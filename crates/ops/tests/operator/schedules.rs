//! `ichidoctl schedules`.

use insta::assert_snapshot;

use crate::support::ctl::{ctl, platform};

const GITHUB: &str = "github-feed-subscriber-schedule";

#[tokio::test]
async fn schedules_are_listed_paused_resumed_and_slowed() {
    let local = platform(&[]);
    assert_snapshot!(ctl(&local, &["schedules", "list"]).tidy(), @r"
    SCHEDULE  STATE  RATE  INVOKES
    github-feed-subscriber-schedule  ENABLED  rate(5 minutes)  github-subscriber
    hatebu-feed-subscriber-schedule  ENABLED  rate(15 minutes)  hatebu-subscriber
    exit code 0
    ");
    let before = ctl(&local, &["schedules", "list", "--json"]).json();
    let paused = ctl(&local, &["schedules", "pause", GITHUB]);
    assert_snapshot!(paused.tidy(), @r"
    github-feed-subscriber-schedule is DISABLED, rate(5 minutes); it stays so until a deployment changes the schedule
    exit code 0
    ");
    assert!(
        paused.err.contains("changed the schedule github-feed-subscriber-schedule by hand"),
        "it is logged: {paused:?}"
    );
    // Its function's name will do.
    assert_snapshot!(ctl(&local, &["schedules", "rate", "github-subscriber", "15 minutes"]).tidy(), @r"
    github-feed-subscriber-schedule is DISABLED, rate(15 minutes); it stays so until a deployment changes the schedule
    exit code 0
    ");
    let shown = local.get("/_local/schedules").await;
    let github = shown.as_array().expect("schedules").iter().find(|each| each["schedule"] == GITHUB).expect("GitHub's");
    assert_eq!((&github["enabled"], &github["expression"]), (&false.into(), &"rate(15 minutes)".into()));
    assert_eq!(ctl(&local, &["schedules", "resume", GITHUB]).code, Some(0));
    assert_eq!(ctl(&local, &["schedules", "rate", GITHUB, "rate(5 minutes)"]).code, Some(0));
    assert_eq!(ctl(&local, &["schedules", "list", "--json"]).json(), before, "everything else is as it was");
}

#[tokio::test]
async fn a_schedule_is_run_now_and_its_answer_is_shown() {
    let local = platform(&[]);
    let ran = ctl(&local, &["schedules", "run", GITHUB, "--json"]).json();
    assert_eq!((&ran["function"], &ran["answer"]["feed"]), (&"github-subscriber".into(), &"read".into()), "{ran}");
    local.put_faults(serde_json::json!({"dynamodb": {"mode": "down"}})).await;
    let failed = ctl(&local, &["schedules", "run", GITHUB]);
    assert_eq!(failed.code, Some(2));
    assert!(failed.err.contains("github-subscriber answered Store"), "{failed:?}");
}

#[tokio::test]
async fn what_is_not_there_or_not_a_rate_is_said_with_what_is() {
    let local = platform(&[]);
    let unknown = ctl(&local, &["schedules", "pause", "nothing"]);
    assert_eq!(unknown.code, Some(2));
    assert_snapshot!(unknown.err, @"ichidoctl: there is no schedule nothing; the schedules are github-feed-subscriber-schedule, hatebu-feed-subscriber-schedule");
    let nonsense = ctl(&local, &["schedules", "rate", GITHUB, "often"]);
    assert_snapshot!(nonsense.err, @r#"ichidoctl: "often" is not a rate; write rate(15 minutes), rate(1 hour) or cron(…)"#);
}
