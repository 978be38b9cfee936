//! `ichidoctl schedules`.

use insta::assert_snapshot;

use reqwest::StatusCode;
use serde_json::Value;

use crate::support::client::{answer, aws, http};
use crate::support::ctl::{Act, ctl, ctl_as, ctl_at, door, door_without, platform};
use crate::support::process::Local;

const GITHUB: &str = "github-feed-subscriber-schedule";

#[tokio::test]
async fn schedules_are_listed_paused_resumed_and_slowed() {
    let local = platform(&[]);
    assert_snapshot!(ctl(&local, &["schedules", "list"]).tidy(), @r"
    SCHEDULE  STATE  RATE  INVOKES
    github-feed-subscriber-schedule  ENABLED  rate(5 minutes)  github-subscriber
    hatebu-feed-subscriber-schedule  ENABLED  rate(15 minutes)  hatebu-subscriber
    mesh-api-key-schedule  ENABLED  rate(1 day)  mesh-resolver
    exit code 0
    ");
    let before = ctl(&local, &["schedules", "list", "--json"]).json();
    let paused = ctl_as(&local, "olga", &["schedules", "pause", GITHUB, "--reason", "GitHub is down"]);
    let (first, second) = paused.out.split_once('\n').expect("two lines");
    assert_snapshot!(first, @"github-feed-subscriber-schedule is DISABLED, rate(5 minutes); `ichidoctl mend` sets it back to what the template says");
    assert!(second.starts_with("until it is resumed, these alarms page nobody: "), "{paused:?}");
    assert!(
        paused.err.contains("changed the schedule github-feed-subscriber-schedule by hand"),
        "it is logged: {paused:?}"
    );
    // Its function's name will do.
    assert_snapshot!(ctl(&local, &["schedules", "rate", "github-subscriber", "15 minutes"]).tidy(), @r"
    github-feed-subscriber-schedule is DISABLED, rate(15 minutes); `ichidoctl mend` sets it back to what the template says
    exit code 0
    ");
    let shown = local.get("/_local/schedules").await;
    let github = shown.as_array().expect("schedules").iter().find(|each| each["schedule"] == GITHUB).expect("GitHub's");
    assert_eq!((&github["enabled"], &github["expression"]), (&false.into(), &"rate(15 minutes)".into()));
    assert_eq!(ctl(&local, &["schedules", "resume", GITHUB]).code, Some(0));
    assert_eq!(ctl(&local, &["schedules", "rate", GITHUB, "rate(5 minutes)"]).code, Some(0));
    assert_eq!(ctl(&local, &["schedules", "list", "--json"]).json(), before, "everything else is as it was");
    assert_snapshot!(ctl(&local, &["operations"]).tidy(), @r"
    AT  APPLICATION  OPERATION  ON  BY  REASON  OUTCOME
    [time]  github  pause  github-feed-subscriber-schedule  arn:aws:iam::000000000000:user/olga  GitHub is down  changed the schedule github-feed-subscriber-schedule by hand: now DISABLED, rate(5 minutes); these alarms page nobody: …
    [time]  github  rate  github-feed-subscriber-schedule  arn:aws:iam::000000000000:user/local  no reason given  changed the schedule github-feed-subscriber-schedule by hand: now DISABLED, rate(15 minutes)
    [time]  github  resume  github-feed-subscriber-schedule  arn:aws:iam::000000000000:user/local  no reason given  changed the schedule github-feed-subscriber-schedule by hand: now ENABLED, rate(15 minutes); these alarms page again: g…
    [time]  github  rate  github-feed-subscriber-schedule  arn:aws:iam::000000000000:user/local  no reason given  changed the schedule github-feed-subscriber-schedule by hand: now ENABLED, rate(5 minutes)
    exit code 0
    ");
    let kept = ctl(&local, &["operations", "github", "--json"]).json();
    assert_eq!(kept["operations"][0]["shown"]["before"]["state"], "ENABLED");
    assert_snapshot!(ctl(&local, &["operations", "mesh"]).tidy(), @r"
    nothing was done by hand in the last [age]
    exit code 0
    ");
}

/// Which of the alarms on a function page somebody, and which do not.
async fn paging(local: &Local, function: &str) -> (Vec<String>, Vec<String>) {
    let alarms = local.get("/_local/alarms").await;
    let watching =
        alarms.as_array().expect("alarms").iter().filter(|alarm| alarm["dimensions"]["FunctionName"] == function);
    let (page, silent): (Vec<_>, Vec<_>) = watching.partition(|alarm| alarm["actionsEnabled"] == true);
    let names =
        |alarms: Vec<&Value>| alarms.iter().map(|alarm| alarm["name"].as_str().expect("a name").to_owned()).collect();
    (names(page), names(silent))
}

#[tokio::test]
async fn a_paused_schedule_silences_the_alarms_of_its_function_and_no_others() {
    let local = platform(&[]);
    let (all, none) = paging(&local, "github-subscriber").await;
    assert!(!all.is_empty() && none.is_empty());
    let others = paging(&local, "hatebu-subscriber").await;
    let paused = ctl(&local, &["schedules", "pause", GITHUB, "--json"]).json();
    let mut said: Vec<String> = serde_json::from_value(paused["alarms"].clone()).expect("names");
    said.sort();
    let (still, silenced) = paging(&local, "github-subscriber").await;
    assert_eq!((still, &silenced), (Vec::new(), &all), "none of them pages");
    said.retain(|name| silenced.contains(name));
    assert_eq!(said.len(), all.len(), "and each is named");
    assert_eq!(paging(&local, "hatebu-subscriber").await, others);
    let doctor = ctl(&local, &["doctor", "--bad"]);
    for name in &all {
        let line = doctor.out.lines().find(|line| line.contains(name.as_str())).unwrap_or_default();
        assert!(line.contains("ActionsEnabled is false, the template says true"), "{name}: {doctor:?}");
    }
    let resumed = ctl(&local, &["schedules", "resume", GITHUB]);
    assert!(resumed.out.contains("these alarms page again: "), "{resumed:?}");
    assert_eq!(paging(&local, "github-subscriber").await, (all, Vec::new()));
    assert_eq!(ctl(&local, &["doctor"]).code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_that_could_not_silence_the_alarms_is_kept_as_done_in_part() {
    let local = platform(&[]);
    let door = door_without(&local, "DisableAlarmActions").await;
    let paused = ctl_at(&local, &door, &["schedules", "pause", GITHUB]);
    assert_eq!((paused.code, paused.err.contains("changed the schedule")), (Some(2), true), "{paused:?}");
    let listed = ctl(&local, &["schedules", "list", "--json"]).json();
    assert_eq!(listed[0]["state"], "DISABLED", "{listed}");
    let kept = ctl(&local, &["operations", "github", "--json"]);
    let outcome = kept.json()["operations"][0]["outcome"].as_str().expect("an outcome").to_owned();
    assert!(outcome.starts_with("happened in part: changed the schedule github-feed-subscriber-schedule"), "{outcome}");
    assert_eq!(kept.code, Some(1), "somebody has to look");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_that_somebody_else_overtook_is_kept_as_done_in_part() {
    let local = platform(&[]);
    let door = door(&local, "DisableAlarmActions", "", Act::RunBefore(&["schedules", "resume", GITHUB])).await;
    let paused = ctl_at(&local, &door, &["schedules", "pause", GITHUB]);
    assert_eq!((paused.code, paused.err.contains("at the same time: it is ENABLED")), (Some(2), true), "{paused:?}");
    let (_, silenced) = paging(&local, "github-subscriber").await;
    assert_eq!(silenced, Vec::<String>::new(), "its alarms follow what it is");
    let kept = ctl(&local, &["operations", "github", "--json"]).json();
    let outcome = kept["operations"][0]["outcome"].as_str().expect("an outcome").to_owned();
    assert!(outcome.starts_with("happened in part: changed the schedule github-feed-subscriber-schedule"), "{outcome}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_aws_answered_with_500_is_kept_as_one_that_may_have_happened() {
    let local = platform(&[]);
    let answered = Act::AnswerInstead(500, r#"{"__type": "InternalServerException", "message": "it broke"}"#);
    let path = "github-feed-subscriber-schedule";
    let door = door(&local, path, "rate(1 hour)", answered).await;
    let changed = ctl_at(&local, &door, &["schedules", "rate", GITHUB, "1 hour"]);
    assert_eq!(changed.code, Some(2), "{changed:?}");
    let listed = ctl(&local, &["schedules", "list", "--json"]).json();
    assert_eq!(listed[0]["expression"], "rate(1 hour)", "it happened");
    let kept = ctl(&local, &["operations", "github", "--json"]).json();
    let outcome = kept["operations"][0]["outcome"].as_str().expect("an outcome").to_owned();
    assert!(outcome.starts_with("may have happened: could not change the schedule"), "{outcome}");
}

#[tokio::test]
async fn a_paused_schedule_spares_the_alarms_of_a_function_that_clients_call_too() {
    let local = platform(&[]);
    let before = paging(&local, "mesh-resolver").await;
    assert!(!before.0.is_empty() && before.1.is_empty());
    assert_snapshot!(ctl(&local, &["schedules", "pause", "mesh-api-key-schedule"]).tidy(), @r"
    mesh-api-key-schedule is DISABLED, rate(1 day); `ichidoctl mend` sets it back to what the template says
    mesh-resolver has other callers too, so its alarms page as before
    exit code 0
    ");
    assert_eq!(paging(&local, "mesh-resolver").await, before);
    let resumed = ctl(&local, &["schedules", "resume", "mesh-api-key-schedule", "--json"]).json();
    assert_eq!((&resumed["state"], &resumed["alarms"]), (&"ENABLED".into(), &serde_json::json!([])));
    assert_eq!(paging(&local, "mesh-resolver").await, before);
}

#[tokio::test]
async fn a_run_that_cannot_be_started_is_a_dead_letter_and_can_be_sent_again() {
    let local = platform(&[]);
    // Somebody lets the schedule invoke something that does not exist.
    let scheduler = aws_sdk_scheduler::Client::new(aws(&local.url).config());
    let before = scheduler.get_schedule().name(GITHUB).send().await.expect("the schedule");
    let target = before.target.clone().expect("a target");
    let mut gone = target.clone();
    gone.arn = target.arn.replace("github-subscriber", "nobody");
    let change = |target, rate: &str| {
        let change = scheduler.update_schedule().name(GITHUB).schedule_expression(rate).target(target);
        let change = change.set_description(before.description.clone());
        change.set_flexible_time_window(before.flexible_time_window.clone()).send()
    };
    change(gone, "rate(5 minutes)").await.expect("changed");
    let (status, said) = answer(http().post(format!("{}/_local/schedules/{GITHUB}/run", local.url))).await;
    assert_ne!(status, StatusCode::OK, "{said}");
    let listed = ctl(&local, &["dead-letters", "list", "github", "--json"]).json();
    let [letter] = listed["deadLetters"].as_array().expect("a list").as_slice() else { panic!("{listed}") };
    assert_eq!(
        (&letter["function"], &letter["attempts"], &letter["what"]),
        (&"github-subscriber".into(), &3.into(), &"MaximumRetryAttempts".into())
    );
    let reason = letter["reason"].as_str().expect("a reason");
    assert!(reason.starts_with(&format!("{GITHUB} could not start it: ResourceNotFoundException")), "{reason}");
    let shown = ctl(&local, &["dead-letters", "show", "github", letter["id"].as_str().expect("an id")]);
    assert!(shown.out.contains("could not start it"), "{shown:?}");
    assert_eq!(ctl(&local, &["dead-letters", "redrive", "github", "--yes"]).code, Some(0));
    assert_eq!(ctl(&local, &["dead-letters", "list", "github"]).code, Some(0), "it left the queue");
    change(target, "rate(5 minutes)").await.expect("changed back");
}

#[tokio::test]
async fn a_schedule_is_run_now_and_its_answer_is_shown() {
    let local = platform(&[]);
    let ran = ctl(&local, &["schedules", "run", GITHUB, "--json"]).json();
    assert_eq!((&ran["function"], &ran["answer"]["feed"]), (&"github-subscriber".into(), &"read".into()), "{ran}");
    local.put_faults(serde_json::json!({"dynamodb": {"mode": "down"}})).await;
    let failed = ctl(&local, &["schedules", "run", GITHUB]);
    assert_eq!(failed.code, Some(1), "it ran, and somebody has to look");
    assert!(failed.out.contains("github-subscriber answered Store"), "{failed:?}");
}

#[tokio::test]
async fn what_is_not_there_or_not_a_rate_is_said_with_what_is() {
    let local = platform(&[]);
    let unknown = ctl(&local, &["schedules", "pause", "nothing"]);
    assert_eq!(unknown.code, Some(2));
    assert_snapshot!(unknown.err, @"ichidoctl: there is no schedule nothing; the schedules are github-feed-subscriber-schedule, hatebu-feed-subscriber-schedule, mesh-api-key-schedule");
    let nonsense = ctl(&local, &["schedules", "rate", GITHUB, "often"]);
    assert_snapshot!(nonsense.err, @r#"ichidoctl: "often" is not a rate; write rate(15 minutes), rate(1 hour) or cron(…)"#);
}
