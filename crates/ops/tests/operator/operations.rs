//! The trace of what is done by hand.

use reqwest::StatusCode;
use serde_json::json;

use crate::dead_letters::refused_entry;
use crate::support::ctl::{ctl, ctl_at, door_without, platform};
use crate::support::{given_up, slack};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_done_to_a_key_a_letter_or_a_schedule_without_a_trace() {
    let local = platform(&[("GITHUB_SUBSCRIBER__DEAD_AFTER", "1")]);
    let entry = refused_entry(&local).await;
    local.put_faults(json!({"slack": {"mode": "refuse", "status": 503}})).await;
    assert_eq!(slack::upload(&local, "1").await, StatusCode::OK);
    given_up(&local, "slack-files-failures", 1).await;
    let listed = ctl(&local, &["dead-letters", "list", "slack", "--json"]).json();
    let letter = listed["deadLetters"][0]["id"].as_str().expect("an id").to_owned();
    let keys = ["keys", "list", "slack", "--prefix", "FILE#", "--json"];
    let key = ctl(&local, &keys).json()["keys"][0]["key"].as_str().expect("a key").to_owned();
    let all = || {
        let of = |arguments: &[&str]| ctl(&local, arguments).json();
        let mut shown = [of(&keys), of(&["dead-letters", "list", "--json"]), of(&["schedules", "list", "--json"])];
        // The age of a key differs from one look to the next.
        shown[0]["keys"].as_array_mut().expect("keys").iter_mut().for_each(|key| key["ageSeconds"] = json!(0));
        shown
    };
    let before = all();
    let operations = || ctl(&local, &["operations", "--json"]).json()["operations"].clone();
    let kept = operations();
    // The trace is the first thing that is written.
    let door = door_without(&local, "PutItem").await;
    for operation in [
        &["keys", "release", "slack", key.as_str(), "--yes"][..],
        &["dead-letters", "redrive", "slack", "--yes"],
        &["dead-letters", "drop", "slack", letter.as_str(), "--yes"],
        &["dead-letters", "redrive", "github", entry.as_str(), "--yes"],
        &["feeds", "resend", "github", "--yes"],
        &["schedules", "pause", "github-feed-subscriber-schedule"],
        &["schedules", "resume", "github-feed-subscriber-schedule"],
        &["schedules", "run", "github-feed-subscriber-schedule"],
        &["schedules", "rate", "github-feed-subscriber-schedule", "1 hour"],
    ] {
        let said = ctl_at(&local, &door, operation);
        assert_ne!(said.code, Some(0), "{operation:?}: {said:?}");
        assert!(format!("{}{}", said.out, said.err).contains("so nothing was changed"), "{operation:?}: {said:?}");
        assert_eq!(all(), before, "{operation:?}");
    }
    assert_eq!(operations(), kept);
}
