//! `ichidoctl keys`.

use std::time::Duration;

use ichido::dynamodb::DynamoDb;
use ichido::store::{Admit, Admitted, Store as _};
use ichido::{Clock as _, Key, State, SystemClock};
use insta::assert_snapshot;
use ops::applications::Application;

use crate::support::client::{aws, eventually};
use crate::support::ctl::{ctl, ctl_as, platform};
use crate::support::process::Local;
use crate::support::slack;

const OLGA: &str = "arn:aws:iam::000000000000:user/olga";

/// A claim of a worker that is not there, which lasts so long; answers its fence.
pub(crate) async fn claim(local: &Local, key: &str, lease: Duration) -> u64 {
    let application = Application::Slack;
    let store = DynamoDb::new(aws(&local.url).dynamodb(), application.records(application.table()));
    let now = SystemClock.now();
    let admit = Admit {
        key: &Key::stored(key).expect("a key"),
        owner: "worker-1".into(),
        now,
        state: State::Claimed { lease_until: now + lease },
        expires_at: Some(now + Duration::from_secs(86_400)),
        digests: None,
        attributes: &vec![("file_id".to_owned(), "F1".into())],
        refuses_doubt: false,
    };
    match store.admit(&admit).await.expect("an answer") {
        Admitted::Won { fence, .. } => fence,
        Admitted::Held(record) => panic!("held: {record:?}"),
    }
}

#[tokio::test]
async fn a_key_is_shown_with_its_state_owner_lease_attempts_age_and_outcomes_size() {
    let local = platform(&[]);
    claim(&local, "FILE#T1#C1#1.1#F1", Duration::from_secs(3_600)).await;
    assert_snapshot!(ctl(&local, &["keys", "show", "slack", "FILE#T1#C1#1.1#F1"]).tidy(), @r"
    slack  FILE#T1#C1#1.1#F1
      state  claimed: the lease ends in [age]
      owner  worker-1
      lease ends at  [time] (in [age])
      attempts  1 (the fence)
      changed at  [time] ([age] ago)
      expires at  [time] (in [age])
      file_id  F1
    exit code 0
    ");
    assert_eq!(slack::upload(&local, "1").await, 200);
    eventually("the reply", || async { (slack::replies(&local).await == 1).then_some(()) }).await;
    assert_snapshot!(ctl(&local, &["keys", "show", "slack", "Ev1"]).tidy(), @r"
    slack  Ev1
      state  completed: outcome of [n] bytes
      owner  [token]
      attempts  1 (the fence)
      changed at  [time] ([age] ago)
      expires at  [time] (in [age])
      channel_id  C1
      file_id  F1
      lambda_instance_id  [uuid]
      processed_at  [n]
      user_id  U1
    exit code 0
    ");
    let shown = ctl(&local, &["keys", "show", "slack", "Ev1", "--json"]).json();
    assert_eq!((&shown["state"], &shown["attempts"]), (&"completed".into(), &1.into()), "{shown}");
    assert!(shown["outcomeBytes"].as_u64().is_some(), "{shown}");
    assert_snapshot!(ctl(&local, &["keys", "show", "slack", "Ev2"]).tidy(), @r"
    Ev2 is not in slack-classify-bot-processed-events: it was never there, or its record has expired
    exit code 1
    ");
    let other = ctl(&local, &["keys", "show", "github", "Ev1"]);
    assert_eq!(other.code, Some(1), "each application has its own: {other:?}");
}

#[tokio::test]
async fn an_item_of_an_earlier_bot_is_shown_as_done_without_an_owner_and_an_age() {
    let local = platform(&[]);
    let text = |text: &str| aws_sdk_dynamodb::types::AttributeValue::S(text.to_owned());
    let number = |number: u64| aws_sdk_dynamodb::types::AttributeValue::N(number.to_string());
    let put = aws(&local.url).dynamodb().put_item().table_name(Application::Slack.table());
    let put = put.item("event_key", text("Ev0OLD")).item("processed_at", text("2026-01-01T00:00:00.000Z"));
    put.item("ttl", number(SystemClock.now().as_secs() + 3_600)).send().await.expect("written");
    assert_snapshot!(ctl(&local, &["keys", "show", "slack", "Ev0OLD"]).tidy(), @r"
    slack  Ev0OLD
      state  completed: done by the system before this one, which wrote the item
      expires at  [time] (in [age])
      processed_at  [time]
    exit code 0
    ");
    let shown = ctl(&local, &["keys", "show", "slack", "Ev0OLD", "--json"]).json();
    assert_eq!((&shown["foreign"], shown.get("ageSeconds")), (&true.into(), None), "{shown}");
}

#[tokio::test]
async fn keys_are_listed_by_state_and_prefix_within_bounds() {
    let local = platform(&[]);
    for n in 1..=3 {
        claim(&local, &format!("FILE#T1#C1#1.1#F{n}"), Duration::from_secs(3_600)).await;
    }
    claim(&local, "Ev7", Duration::ZERO).await;
    let listed = |arguments: &[&str]| {
        let all = ctl(&local, &[&["keys", "list", "slack", "--json"], arguments].concat()).json();
        let mut keys: Vec<String> =
            all["keys"].as_array().expect("keys").iter().map(|key| key["key"].as_str().expect("text").into()).collect();
        keys.sort();
        (keys.join(" "), all["whole"] == true)
    };
    assert_eq!(listed(&["--prefix", "Ev"]), ("Ev7".to_owned(), true));
    assert_eq!(
        listed(&["--state", "claimed", "--prefix", "FILE"]).0,
        "FILE#T1#C1#1.1#F1 FILE#T1#C1#1.1#F2 FILE#T1#C1#1.1#F3"
    );
    assert_eq!(listed(&["--state", "completed"]), (String::new(), true));
    let (some, whole) = listed(&["--limit", "2"]);
    assert_eq!((some.split(' ').count(), whole), (2, false));
    assert_snapshot!(ctl(&local, &["keys", "list", "slack", "--prefix", "Ev"]).tidy(), @r"
    STATE  ATTEMPTS  AGE  DETAILS  KEY
    claimed  1  [age]  the lease ended [age] ago; the next worker takes it over  Ev7
    exit code 0
    ");
    assert_snapshot!(ctl(&local, &["keys", "list", "tokens"]).tidy(), @r"
    found no such key among 0 items of tokens-ledger
    exit code 0
    ");
}

#[tokio::test]
async fn a_release_asks_is_fenced_and_leaves_a_trace() {
    let local = platform(&[]);
    let key = "FILE#T1#C1#1.1#F1";
    let fence = claim(&local, key, Duration::from_secs(3_600)).await;
    let release = ["keys", "release", "slack", key, "--reason", "the instance is gone"];
    let unasked = ctl(&local, &release);
    assert_eq!((unasked.code, unasked.err.contains("not confirmed")), (Some(2), true), "{unasked:?}");
    let stale = ctl(&local, &[&release[..], &["--yes", "--fence", "7"]].concat());
    assert_eq!(stale.code, Some(2));
    assert!(stale.err.contains("has fence 1 now, not 7"), "{stale:?}");
    assert_eq!(
        ctl(&local, &["keys", "show", "slack", key, "--json"]).json()["state"],
        "claimed",
        "nothing was changed"
    );

    let done = ctl_as(&local, "olga", &[&release[..], &["--yes", "--fence", &fence.to_string()]].concat());
    assert_snapshot!(done.tidy(), @r"
    slack  FILE#T1#C1#1.1#F1
      state  claimed: the lease ends in [age]
      owner  worker-1
      lease ends at  [time] (in [age])
      attempts  1 (the fence)
      changed at  [time] ([age] ago)
      expires at  [time] (in [age])
      file_id  F1
    released FILE#T1#C1#1.1#F1: the next worker can claim it at once, and asks its probe first
    exit code 0
    ");
    assert!(
        done.err.contains("released the claim on FILE#T1#C1#1.1#F1 by hand") && done.err.contains(OLGA),
        "it is logged: {done:?}"
    );
    let after = ctl(&local, &["keys", "show", "slack", key, "--json"]).json();
    assert_eq!(
        (&after["state"], &after["uncertain"]),
        (&"released".into(), &true.into()),
        "the next one asks its probe"
    );
    assert_eq!(after["reason"], format!("released by hand by {OLGA}: the instance is gone"));
    let kept = ctl(&local, &["operations", "slack", "--json"]).json();
    let [kept] = kept["operations"].as_array().expect("a list").as_slice() else { panic!("one: {kept:#}") };
    assert_eq!((&kept["operation"], &kept["by"], &kept["on"]), (&"release".into(), &OLGA.into(), &key.into()));
    assert_eq!(kept["reason"], "the instance is gone");
    assert_eq!((&kept["shown"]["before"]["state"], &kept["shown"]["confirmed"]), (&"claimed".into(), &"--yes".into()));
    assert!(kept["shown"]["question"].as_str().is_some_and(|asked| asked.contains("fence 1")), "{kept:#}");

    // Somebody looked at the destination: it was not done. So the doubt ends.
    let looked = ctl(&local, &[&release[..], &["--yes", "--not-done"]].concat());
    assert_eq!(looked.code, Some(0), "{looked:?}");
    let after = ctl(&local, &["keys", "show", "slack", key, "--json"]).json();
    assert_eq!((&after["state"], &after["uncertain"]), (&"released".into(), &false.into()));
    assert_eq!(claim(&local, key, Duration::from_secs(60)).await, fence + 1, "it can be claimed at once");
}

#[tokio::test]
async fn only_a_claim_can_be_released_and_errors_say_what_to_do() {
    let local = platform(&[]);
    assert_eq!(slack::upload(&local, "1").await, 200);
    let completed = ctl(&local, &["keys", "release", "slack", "Ev1", "--yes"]);
    assert!(
        completed
            .err
            .contains("Ev1 is completed; only a claimed key, or one that was released in doubt, can be released"),
        "{completed:?}"
    );
    let missing = ctl(&local, &["keys", "release", "slack", "Ev9", "--yes"]);
    assert!(missing.err.contains("there is nothing to release"), "{missing:?}");
    let elsewhere = ctl(&local, &["keys", "list", "slack", "--env", "staging"]);
    assert_eq!(elsewhere.code, Some(2));
    assert!(elsewhere.err.contains("slack-classify-bot-processed-events-staging"), "{elsewhere:?}");
    assert!(elsewhere.err.contains("check --env"), "{elsewhere:?}");
}
