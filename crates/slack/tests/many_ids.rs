//! One message under many event ids: every shape that public reports describe gets one reply per file, and what is another
//! message gets its own.
//!
//! The shapes: <https://github.com/slackapi/node-slack-sdk/issues/2141> (up to eleven ids, no retry headers),
//! <https://github.com/rampatra/jbot/issues/105> (file events twice), <https://github.com/slackapi/bolt-js/issues/2487>
//! (repeats after a reconnect), <https://github.com/howdyai/botkit/issues/393> (the same JSON three times, without an id),
//! <https://github.com/slackapi/bolt-python/issues/75> (four messages that look like one). The README has the table.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{EVENTS_TIMEOUT, World, envelope};
use ichido::Clock;
use serde_json::{Value, json};
use slack::table::RETENTION;
use tokio::task::JoinSet;

/// As many ids as one message was seen with.
const IDS: usize = 11;

fn ids() -> impl Iterator<Item = String> {
    (0..IDS).map(|n| format!("Ev{n}"))
}

fn now_ts(world: &World) -> String {
    format!("{}.000100", world.clock.now().as_secs())
}

/// Every delivery is acknowledged. Then Lambda empties its queue, with a new instance each time.
async fn deliver_all(world: &World, envelopes: &[Value]) {
    for envelope in envelopes {
        assert_eq!(world.deliver(&world.slack_events(), envelope).await, 200, "{envelope}");
    }
    drain(world).await;
}

async fn drain(world: &World) {
    while let Some(upload) = world.queue.first() {
        world.invoke(&world.slack_files(), &upload).await.expect("done");
        world.queue.done();
    }
}

fn one_each(files: &[&str]) -> BTreeMap<String, usize> {
    files.iter().map(|file| ((*file).to_owned(), 1)).collect()
}

#[tokio::test]
async fn eleven_ids_minutes_apart_with_bodies_that_differ_a_little_are_one_message() {
    let world = World::new().await;
    let ts = now_ts(&world);
    for (n, id) in ids().enumerate() {
        let mut event = envelope(&id, &ts, &["F1", "F2"]);
        event["event_time"] = (1_700_000_000 + 60 * n).into();
        event["event_context"] = format!("4-{n}").into();
        event["authorizations"] = json!([{"team_id": "T0TEAM", "user_id": format!("U{n}"), "is_bot": n % 2 == 0}]);
        event["event"]["event_ts"] = format!("{ts}{n}").into();
        event["event"]["client_msg_id"] = format!("{n}").into();
        if n % 3 == 0 {
            event["event"]["files"].as_array_mut().expect("files").reverse();
        }
        deliver_all(&world, &[event]).await;
        world.clock.advance(Duration::from_secs(180));
    }
    assert_eq!(world.slack.replies(), one_each(&["F1", "F2"]));
    assert_eq!(world.slack.looks(), 0, "the records are enough");
}

#[tokio::test]
async fn eleven_ids_at_once_on_as_many_instances_are_one_message() {
    let world = World::new().await;
    let ts = now_ts(&world);
    let mut deliveries = JoinSet::new();
    for id in ids() {
        let (world, event) = (world.clone(), envelope(&id, &ts, &["F1"]));
        deliveries.spawn(async move { world.deliver(&world.slack_events(), &event).await });
    }
    assert!(deliveries.join_all().await.into_iter().all(|status| status == 200));
    let mut invocations = JoinSet::new();
    while let Some(upload) = world.queue.first() {
        world.queue.done();
        let (world, files) = (world.clone(), world.slack_files());
        let upload = Arc::new(upload);
        // Those that find the file in flight fail, and Lambda invokes them again later.
        invocations.spawn(async move {
            while world.invoke(&files, &upload).await.is_err() {
                tokio::task::yield_now().await;
            }
        });
    }
    assert_eq!(invocations.join_all().await.len(), IDS);
    assert_eq!(world.slack.replies(), one_each(&["F1"]));
}

#[tokio::test]
async fn a_message_its_file_events_and_its_changes_are_one_message() {
    let world = World::new().await;
    let ts = now_ts(&world);
    let message = envelope("Ev1", &ts, &["F1"]);
    let of_file = |id: &str, kind: &str| {
        let mut event = envelope(id, &ts, &["F1"]);
        event["event"] = json!({
            "type": kind, "file_id": "F1", "file": {"id": "F1"}, "user_id": "U0ALICE", "channel_id": "C0GENERAL",
            "event_ts": format!("{ts}9"),
        });
        event
    };
    let changed = |id: &str, subtype: &str| {
        let mut event = envelope(id, &ts, &["F1"]);
        let message = event["event"].clone();
        event["event"] = json!({
            "type": "message", "subtype": subtype, "channel": "C0GENERAL", "ts": format!("{ts}5"), "message": message,
            "previous_message": message,
        });
        event
    };
    deliver_all(
        &world,
        &[
            of_file("Ev2", "file_created"),
            of_file("Ev3", "file_shared"),
            of_file("Ev4", "file_shared"),
            message,
            of_file("Ev5", "file_public"),
            of_file("Ev6", "file_change"),
            changed("Ev7", "message_changed"),
            changed("Ev8", "message_replied"),
            of_file("Ev9", "file_unshared"),
        ],
    )
    .await;
    assert_eq!(world.slack.replies(), one_each(&["F1"]));
}

#[tokio::test]
async fn retries_and_the_same_message_under_a_new_id_after_a_reconnect_are_one_message() {
    let world = World::new().await;
    let ts = now_ts(&world);
    for id in ["Ev1", "Ev2"] {
        let event = envelope(id, &ts, &["F1"]);
        for retry in 0..4 {
            let mut request = world.signed(&event);
            if retry > 0 {
                request.headers.insert("x-slack-retry-num".into(), retry.to_string());
                request.headers.insert("x-slack-retry-reason".into(), "http_timeout".into());
            }
            let invocation = world.invocation("r", EVENTS_TIMEOUT);
            let answer = world.slack_events().answer(&request, &invocation).await.expect("an answer");
            assert_eq!(answer.status, 200);
            world.clock.advance(Duration::from_secs(60));
        }
    }
    assert_eq!(world.queue.accepted(), 2, "one per id");
    drain(&world).await;
    assert_eq!(world.slack.replies(), one_each(&["F1"]));
}

/// The app is installed in both workspaces of a channel that they share. Each delivery names the workspace for which it was
/// made, and not always the same one.
#[tokio::test]
async fn a_channel_that_two_workspaces_share_is_one_channel() {
    let world = World::new().await;
    let ts = now_ts(&world);
    let of_team = |id: &str, team: &str| {
        let mut event = envelope(id, &ts, &["F1"]);
        event["team_id"] = team.into();
        event["context_team_id"] = team.into();
        event["is_ext_shared_channel"] = true.into();
        event["authorizations"] = json!([{"team_id": team, "user_id": "U0OURS", "is_bot": true}]);
        event["event"]["team"] = "T0ALICES".into();
        event["event"]["files"] = json!([{"id": "F1", "mode": "file_access", "file_access": "check_file_info"}]);
        event
    };
    deliver_all(&world, &[of_team("Ev1", "T0OURS"), of_team("Ev2", "T0THEIRS"), of_team("Ev3", "T0OURS")]).await;
    assert_eq!(world.slack.replies(), one_each(&["F1"]));
}

#[tokio::test]
async fn an_organisation_and_its_workspaces_are_one_place() {
    let world = World::new().await;
    let ts = now_ts(&world);
    let of = |id: &str, team: Value| {
        let mut event = envelope(id, &ts, &["F1"]);
        event["team_id"] = team;
        event["enterprise_id"] = "E0ORG".into();
        event["authorizations"] = json!([{"enterprise_id": "E0ORG", "team_id": null, "is_enterprise_install": true}]);
        event
    };
    deliver_all(&world, &[of("Ev1", "T0ONE".into()), of("Ev2", "T0TWO".into()), of("Ev3", Value::Null)]).await;
    assert_eq!(world.slack.replies(), one_each(&["F1"]));
}

#[tokio::test]
async fn the_same_json_three_times_without_an_id_is_one_message() {
    let world = World::new().await;
    let mut event = envelope("", &now_ts(&world), &["F1"]);
    event.as_object_mut().expect("an object").remove("event_id");
    deliver_all(&world, &[event.clone(), event.clone(), event]).await;
    assert_eq!((world.queue.accepted(), world.slack.replies()), (1, one_each(&["F1"])));
}

#[tokio::test]
async fn an_id_that_comes_after_the_records_have_expired_is_found_in_the_thread() {
    let world = World::new().await;
    let ts = now_ts(&world);
    deliver_all(&world, &[envelope("Ev1", &ts, &["F1"])]).await;
    world.clock.advance(RETENTION + Duration::from_secs(60));
    deliver_all(&world, &[envelope("Ev2", &ts, &["F1"])]).await;
    assert_eq!(world.slack.replies(), one_each(&["F1"]));
    assert_eq!(world.slack.looks(), 1, "the thread was asked");
}

/// What is not recognised, on purpose: somebody did something a second time.
#[tokio::test]
async fn another_message_another_channel_and_another_upload_get_their_own_replies() {
    let world = World::new().await;
    let ts = now_ts(&world);
    let mut elsewhere = envelope("Ev3", &ts, &["F1"]);
    elsewhere["event"]["channel"] = "C0RANDOM".into();
    deliver_all(
        &world,
        &[
            envelope("Ev1", &ts, &["F1"]),
            envelope("Ev2", &format!("{ts}1"), &["F1"]), // shared again
            elsewhere,
            envelope("Ev4", &format!("{ts}2"), &["F2"]), // the same content, uploaded again
        ],
    )
    .await;
    assert_eq!(world.slack.replies(), BTreeMap::from([("F1".to_owned(), 3), ("F2".to_owned(), 1)]));
}

/// What is not recognised, and is no file event of Slack's either: files in a message of another subtype.
#[tokio::test]
async fn files_in_a_message_of_another_subtype_are_left_alone() {
    let world = World::new().await;
    for subtype in [json!("thread_broadcast"), json!("bot_message"), Value::Null] {
        let mut event = envelope("Ev1", &now_ts(&world), &["F1"]);
        event["event"]["subtype"] = subtype;
        deliver_all(&world, &[event]).await;
    }
    assert_eq!(world.slack.posts().len(), 0);
}
