//! Slack's rate limits are kept across invocations and instances, and never keep a reply from being posted once.

use std::time::Duration;

use crate::support::{Trouble, World, upload};
use ichido::Clock;
use serde_json::json;
use slack::function::files::Error;
use tokio::task::JoinSet;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn what_one_invocation_was_told_another_one_keeps_to_without_asking_slack() {
    let world = World::new().await;
    let (first, second) = (upload(&world.event("Ev1", &["F1"])), upload(&world.event("Ev2", &["F2"])));
    world.slack.trouble_posts([Trouble::RateLimit(MINUTE)]);
    world.invoke(&world.slack_files(), &first).await.expect_err("limited");
    // Another instance, at once. Waiting would take longer than it may.
    let refused = world.invoke(&world.slack_files(), &second).await.expect_err("limited");
    let [(_, Error::Effect(error))] = refused.files() else { panic!("one file: {refused}") };
    assert_eq!(error.to_string(), "Slack limits the rate; it allows the next call in 60 s");
    assert_eq!(world.slack.tried_at().len(), 1, "Slack was not asked again");
    // Later there is time enough to wait for the rest of it.
    world.clock.advance(MINUTE / 2);
    let begun = world.clock.now();
    world.invoke(&world.slack_files(), &second).await.expect("done");
    assert_eq!(world.clock.now().since(begun), MINUTE / 2);
    world.invoke(&world.slack_files(), &first).await.expect("done");
    assert_eq!(world.slack.replies().into_values().collect::<Vec<_>>(), [1, 1]);
}

#[tokio::test]
async fn after_a_limit_invocations_take_turns_at_the_rate_of_the_method() {
    let world = World::new().await;
    world.slack.trouble_posts([Trouble::RateLimit(Duration::from_secs(5))]);
    let mut invocations = JoinSet::new();
    world.invoke(&world.slack_files(), &upload(&world.event("Ev0", &["F0"]))).await.expect("waited for it");
    for n in 1..=4 {
        let (world, upload) = (world.clone(), upload(&world.event(&format!("Ev{n}"), &[&format!("F{n}")])));
        invocations.spawn(async move { world.invoke(&world.slack_files(), &upload).await.map(drop) });
    }
    assert!(invocations.join_all().await.iter().all(Result::is_ok));
    let tried = world.slack.tried_at();
    let apart: Vec<u64> = tried.windows(2).skip(1).map(|pair| pair[1].since(pair[0]).as_secs()).collect();
    assert_eq!(apart, [1, 1, 1, 1], "one message per second");
    // A minute later nobody takes turns any more.
    world.clock.advance(2 * MINUTE);
    let begun = world.clock.now();
    for n in 5..8 {
        let upload = upload(&world.event(&format!("Ev{n}"), &[&format!("F{n}")]));
        world.invoke(&world.slack_files(), &upload).await.expect("done");
    }
    assert!(world.clock.now().since(begun) < Duration::from_secs(1));
}

#[tokio::test]
async fn turns_that_nobody_took_are_not_made_up_for() {
    let world = World::new().await;
    world.slack.trouble_posts([Trouble::RateLimit(Duration::from_secs(5))]);
    world.invoke(&world.slack_files(), &upload(&world.event("Ev0", &["F0"]))).await.expect("waited for it");
    world.clock.advance(MINUTE / 2);
    for n in 1..=4 {
        let upload = upload(&world.event(&format!("Ev{n}"), &[&format!("F{n}")]));
        world.invoke(&world.slack_files(), &upload).await.expect("done");
    }
    let tried = world.slack.tried_at();
    let apart: Vec<u64> = tried[2..].windows(2).map(|pair| pair[1].since(pair[0]).as_secs()).collect();
    assert_eq!(apart, [1, 1, 1], "one message per second, also after a pause");
}

#[tokio::test]
async fn a_header_that_asks_for_a_century_is_believed_for_an_hour() {
    let world = World::new().await;
    let (first, second) = (upload(&world.event("Ev1", &["F1"])), upload(&world.event("Ev2", &["F2"])));
    world.slack.trouble_posts([Trouble::RateLimit(Duration::from_secs(u64::from(u32::MAX)))]);
    world.invoke(&world.slack_files(), &first).await.expect_err("limited");
    world.clock.advance(59 * MINUTE);
    world.invoke(&world.slack_files(), &second).await.expect_err("limited");
    world.clock.advance(MINUTE);
    for upload in [&first, &second] {
        world.invoke(&world.slack_files(), upload).await.expect("done");
    }
    assert_eq!(world.slack.replies().into_values().collect::<Vec<_>>(), [1, 1]);
}

#[tokio::test]
async fn a_limit_of_one_channel_is_none_of_another() {
    let world = World::new().await;
    world.slack.trouble_posts([Trouble::RateLimit(MINUTE)]);
    world.invoke(&world.slack_files(), &upload(&world.event("Ev1", &["F1"]))).await.expect_err("limited");
    let mut elsewhere = upload(&world.event("Ev2", &["F2"]));
    elsewhere.channel = "C0RANDOM".into();
    world.invoke(&world.slack_files(), &elsewhere).await.expect("done");
}

#[tokio::test]
async fn a_limit_of_reading_threads_is_kept_too() {
    let world = World::new().await;
    let (first, second) = (upload(&world.event("Ev1", &["F1"])), upload(&world.event("Ev2", &["F2"])));
    world.slack.trouble_posts([Trouble::Lose, Trouble::Lose]);
    world.slack.trouble_threads([Trouble::RateLimit(MINUTE)]);
    for upload in [&first, &second] {
        world.invoke(&world.slack_files(), upload).await.expect_err("no answer");
        world.invoke(&world.slack_files(), upload).await.expect_err("limited");
    }
    assert_eq!(world.slack.looks(), 1);
    world.clock.advance(MINUTE);
    for upload in [&first, &second] {
        world.invoke(&world.slack_files(), upload).await.expect("found");
    }
    assert_eq!(world.slack.replies().into_values().collect::<Vec<_>>(), [1, 1]);
}

#[tokio::test]
async fn without_a_limit_an_upload_costs_one_read_and_the_next_ones_none() {
    let world = World::new().await;
    let files = world.slack_files();
    world.dynamo.reset_calls();
    for n in 0..3 {
        world.invoke(&files, &upload(&world.event(&format!("Ev{n}"), &[&format!("F{n}")]))).await.expect("done");
    }
    assert_eq!(world.dynamo.calls().total(), 3 * 3 + 1, "a claim, a completion and the history each, and one read");
    assert!(!world.items().keys().any(|key| key.starts_with("LIMIT#")), "no item of a limit");
}

#[tokio::test]
async fn an_item_that_has_expired_or_is_none_of_ours_limits_nobody() {
    let now_and = |world: &World, seconds: u64| world.clock.now().as_secs() + seconds;
    let world = World::new().await;
    let far = json!({ "N": (now_and(&world, 3_600) * 1_000).to_string() });
    let expired = json!({"event_key": {"S": "LIMIT#chat.postMessage#C0GENERAL"}, "next_at": far, "ttl": {"N": now_and(&world, 0).to_string()}});
    let strange = json!({"event_key": {"S": "LIMIT#chat.postMessage#C0GENERAL"}, "next_at": {"S": "never"}, "ttl": {"N": now_and(&world, 60).to_string()}});
    for (n, item) in [expired, strange].into_iter().enumerate() {
        world.dynamo.must("PutItem", &json!({ "TableName": world.table(), "Item": item }));
        let upload = upload(&world.event(&format!("Ev{n}"), &[&format!("F{n}")]));
        world.invoke(&world.slack_files(), &upload).await.expect("done");
    }
}

#[tokio::test]
async fn without_the_table_an_instance_keeps_to_what_it_was_told_itself() {
    let world = World::new().await;
    let files = world.slack_files();
    let upload = upload(&world.event("Ev1", &["F1"]));
    world.slack.trouble_posts([Trouble::RateLimit(MINUTE)]);
    world.dynamo.faults().down();
    world.invoke(&files, &upload).await.expect_err("limited");
    world.invoke(&files, &upload).await.expect_err("still limited");
    assert_eq!(world.slack.tried_at().len(), 1);
    world.clock.advance(MINUTE);
    world.invoke(&files, &upload).await.expect("done");
}
