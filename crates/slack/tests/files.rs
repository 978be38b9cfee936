//! One reply per file: what `slack-files` does when Slack, the store or Lambda fail.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::{FILES_TIMEOUT, Trouble, World, envelope, upload};
use ichido::Clock;
use serde_json::{Value, json};
use slack::effect::{self, UploadedFile};
use slack::event::Upload;
use slack::function::files::{Error, Unfinished};
use slack::settings::Fallback;
use slack::table::{RETENTION, UNFINISHED_RETENTION};
use slack_api::Post;
use testkit::faults::{Fault, Rule};

/// Longer than the longest lease and the allowed clock skew.
const AFTER_THE_LEASE: Duration = Duration::from_secs(63);

fn replies(files: &[(&str, usize)]) -> BTreeMap<String, usize> {
    files.iter().map(|(file, count)| ((*file).to_owned(), *count)).collect()
}

fn only(unfinished: &Unfinished) -> &Error {
    match unfinished.files() {
        [(_, error)] => error,
        several => panic!("one file: {several:?}"),
    }
}

#[tokio::test]
async fn every_file_of_an_upload_gets_one_threaded_reply() {
    let world = World::new().await;
    let upload = upload(&world.event("Ev1", &["F1", "F2", "F3"]));
    for _ in 0..3 {
        world.invoke(&world.slack_files(), &upload).await.expect("done");
    }
    assert_eq!(world.slack.replies(), replies(&[("F1", 1), ("F2", 1), ("F3", 1)]));
    let post = &world.slack.posts()[0];
    assert_eq!((post.channel.as_str(), &post.thread_ts), ("C0GENERAL", &upload.ts));
    assert_eq!(post.text, "Received F1.pdf (application/pdf, 1.2 MB).");
    assert_eq!(world.slack.looks(), 0, "nobody has to ask while nothing goes wrong");
}

#[tokio::test]
async fn different_envelopes_of_one_upload_collapse() {
    let world = World::new().await;
    let ts = format!("{}.000100", world.clock.now().as_secs());
    let (events, files) = (world.slack_events(), world.slack_files());
    for event_id in ["Ev1", "Ev2", "Ev3"] {
        assert_eq!(world.deliver(&events, &envelope(event_id, &ts, &["F1"])).await, 200);
    }
    assert_eq!(world.queue.accepted(), 3);
    while let Some(upload) = world.queue.first() {
        world.invoke(&files, &upload).await.expect("done");
        world.queue.done();
    }
    assert_eq!(world.slack.replies(), replies(&[("F1", 1)]));
}

#[tokio::test]
async fn a_reply_in_a_thread_stays_in_that_thread() {
    let world = World::new().await;
    let mut event = world.event("Ev1", &["F1"]);
    event["event"]["thread_ts"] = "1767225000.000001".into();
    world.invoke(&world.slack_files(), &upload(&event)).await.expect("done");
    assert_eq!(world.slack.posts()[0].thread_ts, "1767225000.000001");
}

#[tokio::test]
async fn a_file_that_is_in_flight_elsewhere_fails_so_that_lambda_retries() {
    let world = World::new().await;
    let upload = upload(&world.event("Ev1", &["F1"]));
    // Slack limits the rate of the first invocation. While it waits, the second one begins.
    world.slack.trouble_posts([Trouble::RateLimit(Duration::from_secs(20))]);
    let (first, second) = futures::future::join(async { world.invoke(&world.slack_files(), &upload).await }, async {
        while world.slack.tried_at().is_empty() {
            tokio::task::yield_now().await;
        }
        world.invoke(&world.slack_files(), &upload).await
    })
    .await;
    first.expect("done");
    let second = second.expect_err("in flight");
    let Error::InFlight(until) = only(&second) else { panic!("not in flight: {second}") };
    let said = only(&second).to_string();
    assert_eq!(said, format!("another invocation is working on it; its lease ends at {until}"));
    assert_eq!(world.slack.replies(), replies(&[("F1", 1)]));
}

#[tokio::test]
async fn a_lost_answer_is_found_in_the_thread_and_not_posted_again() {
    let world = World::new().await;
    // Many replies by others, over several pages, come before ours.
    let upload = upload(&world.event("Ev1", &["F1"]));
    for n in 0..7 {
        let metadata = slack_api::Metadata { event_type: "something_else".into(), event_payload: json!({ "n": n }) };
        world.slack.put(Post::plain(&upload.channel, &upload.ts, "hello", metadata));
    }
    world.slack.trouble_posts([Trouble::Lose]);
    let lost = world.invoke(&world.slack_files(), &upload).await.expect_err("no answer");
    assert!(matches!(only(&lost), Error::Effect(effect::Error::Slack(slack_api::Error::Unanswered(_)))));
    let found = world.invoke(&world.slack_files(), &upload).await.expect("done");
    assert_eq!(found[0]["how"], "found in its thread");
    assert_eq!(world.slack.replies().get("F1"), Some(&1));
}

#[tokio::test]
async fn if_the_probe_is_refused_or_limited_nothing_is_posted() {
    for trouble in [Trouble::Refuse("missing_scope"), Trouble::RateLimit(Duration::from_secs(60)), Trouble::Lose] {
        let world = World::new().await;
        let upload = upload(&world.event("Ev1", &["F1"]));
        world.slack.trouble_posts([Trouble::Lose]);
        world.invoke(&world.slack_files(), &upload).await.expect_err("no answer");
        world.slack.trouble_threads([trouble.clone(), trouble]);
        for _ in 0..2 {
            let refused = world.invoke(&world.slack_files(), &upload).await.expect_err("nobody can say");
            assert!(matches!(only(&refused), Error::Probe(_)), "{refused}");
            world.clock.advance(AFTER_THE_LEASE); // and after the limit
        }
        world.invoke(&world.slack_files(), &upload).await.expect("found");
        assert_eq!(world.slack.replies(), replies(&[("F1", 1)]));
    }
}

#[tokio::test]
async fn another_installations_reply_is_not_taken_for_ours() {
    let world = World::new().await;
    let upload = upload(&world.event("Ev1", &["F1"]));
    let mut theirs = upload.clone();
    theirs.app = Some("A0STAGING".into());
    let metadata = effect::metadata(UploadedFile { upload: &theirs, file: &theirs.files[0] });
    world.slack.put(Post::plain(&upload.channel, &upload.ts, "Received F1.pdf.", metadata));
    world.slack.trouble_posts([Trouble::Refuse("not_in_channel"), Trouble::Lose]);
    world.invoke(&world.slack_files(), &upload).await.expect_err("refused");
    world.invoke(&world.slack_files(), &upload).await.expect_err("lost");
    world.invoke(&world.slack_files(), &upload).await.expect("found");
    assert_eq!(world.slack.replies(), replies(&[("F1", 2)]), "theirs and ours");
}

#[tokio::test]
async fn a_rate_limit_is_honoured_within_the_invocation() {
    let world = World::new().await;
    world
        .slack
        .trouble_posts([Trouble::RateLimit(Duration::from_secs(30)), Trouble::RateLimit(Duration::from_secs(2))]);
    world.invoke(&world.slack_files(), &upload(&world.event("Ev1", &["F1"]))).await.expect("done");
    let tried = world.slack.tried_at();
    assert_eq!(tried[1].since(tried[0]), Duration::from_secs(30));
    assert_eq!(tried[2].since(tried[1]), Duration::from_secs(2));
}

#[tokio::test]
async fn a_rate_limit_beyond_the_invocation_fails_without_waiting() {
    let world = World::new().await;
    let upload = upload(&world.event("Ev1", &["F1"]));
    let started = world.clock.now();
    world.slack.trouble_posts([Trouble::RateLimit(FILES_TIMEOUT)]);
    world.invoke(&world.slack_files(), &upload).await.expect_err("limited");
    assert!(world.clock.now().since(started) < Duration::from_secs(1));
    // A refused call certainly had no effect, so the next attempt posts without asking the thread.
    world.clock.advance(FILES_TIMEOUT);
    world.invoke(&world.slack_files(), &upload).await.expect("done");
    assert_eq!((world.slack.looks(), world.slack.replies()), (0, replies(&[("F1", 1)])));
}

#[tokio::test]
async fn a_file_that_fails_does_not_keep_the_others_from_theirs() {
    let world = World::new().await;
    let upload = upload(&world.event("Ev1", &["F1", "F2", "F3"]));
    world.slack.trouble_posts([Trouble::Refuse("channel_not_found")]);
    let unfinished = world.invoke(&world.slack_files(), &upload).await.expect_err("one is missing");
    assert_eq!(unfinished.files().iter().map(|(file, _)| file.as_str()).collect::<Vec<_>>(), ["F1"]);
    assert!(unfinished.to_string().contains("F1: Slack refused the call: channel_not_found"), "{unfinished}");
    world.invoke(&world.slack_files(), &upload).await.expect("done");
    assert_eq!(world.slack.replies(), replies(&[("F1", 1), ("F2", 1), ("F3", 1)]));
}

#[tokio::test]
async fn what_can_never_succeed_is_recorded_as_failed() {
    let world = World::new().await;
    let upload = upload(&world.event("Ev1", &["F1"]));
    world.slack.trouble_posts([Trouble::Refuse("cannot_reply_to_message")]);
    world.invoke(&world.slack_files(), &upload).await.expect_err("refused");
    let again = world.invoke(&world.slack_files(), &upload).await.expect_err("recorded");
    assert!(matches!(only(&again), Error::Failed(_)), "{again}");
    assert_eq!(world.slack.tried_at().len(), 1);
}

#[tokio::test]
async fn a_dead_letter_sent_again_after_days_replies_to_what_is_owed_and_to_nothing_else() {
    let world = World::new().await;
    let upload = upload(&world.event("Ev1", &["F1", "F2", "F3"]));
    // F1 is done. Slack refused F2. The answer to F3 was lost.
    world.slack.trouble_posts([Trouble::Refuse("channel_not_found"), Trouble::Lose]);
    let mut reordered = upload.clone();
    reordered.files.rotate_left(1);
    world.invoke(&world.slack_files(), &reordered).await.expect_err("two are missing");
    assert_eq!(world.slack.replies(), replies(&[("F1", 1), ("F3", 1)]));
    // After 13 days the record of F1 has expired. The records of F2 and F3 are still there.
    world.clock.advance(Duration::from_secs(13 * 24 * 3600));
    assert_eq!(world.dynamo.sweep(world.clock.now()), 1);
    world.invoke(&world.slack_files(), &upload).await.expect("redriven");
    assert_eq!(world.slack.replies(), replies(&[("F1", 1), ("F2", 1), ("F3", 1)]));
}

#[tokio::test]
async fn records_of_unfinished_work_outlive_the_on_failure_queue() {
    let template = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../infra/templates/slack.yaml"));
    let template = template.expect("the template");
    let line = template.lines().find(|line| line.contains("MessageRetentionPeriod:")).expect("the queue's retention");
    let digits: String = line.split('#').next().unwrap_or_default().chars().filter(char::is_ascii_digit).collect();
    let queue = Duration::from_secs(digits.parse().expect("seconds"));
    assert!(UNFINISHED_RETENTION > queue);

    let world = World::new().await;
    world.slack.trouble_posts([Trouble::Lose]);
    world.invoke(&world.slack_files(), &upload(&world.event("Ev1", &["F1"]))).await.expect_err("lost");
    let (key, record) = world.records().pop_first().expect("a record");
    assert!(key.starts_with("FILE#T0TEAM#C0GENERAL#") && key.ends_with("#F1"), "{key}");
    let ttl: u64 = record["ttl"]["N"].as_str().expect("a number").parse().expect("a number");
    assert!(ttl - world.clock.now().as_secs() >= queue.as_secs());
}

#[tokio::test]
async fn after_expiry_the_same_event_is_new_with_and_without_the_sweep() {
    for sweep in [false, true] {
        let world = World::new().await;
        let (events, event) = (world.slack_events(), world.event("Ev1", &["F1"]));
        assert_eq!(world.deliver(&events, &event).await, 200);
        world.clock.advance(RETENTION - Duration::from_secs(10));
        assert_eq!(world.deliver(&events, &event).await, 200);
        assert_eq!(world.queue.accepted(), 1, "known until its time is over");
        world.clock.advance(Duration::from_secs(20));
        if sweep {
            assert_eq!(world.dynamo.sweep(world.clock.now()), 1);
        }
        assert_eq!(world.deliver(&events, &event).await, 200);
        assert_eq!(world.queue.accepted(), 2, "new again; swept: {sweep}");
        // Even so, its file gets no second reply, because the thread is asked.
        while let Some(upload) = world.queue.first() {
            world.invoke(&world.slack_files(), &upload).await.expect("done");
            world.queue.done();
        }
        assert_eq!(world.slack.replies(), replies(&[("F1", 1)]));
    }
}

#[tokio::test]
async fn without_the_store_the_thread_is_asked_before_anything_is_posted() {
    let world = World::new().await;
    let upload = upload(&world.event("Ev1", &["F1"]));
    world.dynamo.faults().down();
    let mut how = Vec::new();
    for _ in 0..3 {
        how.push(world.invoke(&world.slack_files(), &upload).await.expect("done")[0]["how"].clone());
    }
    assert_eq!(how, ["replied", "found in its thread", "found in its thread"], "three instances, one after another");
    assert_eq!(world.slack.replies(), replies(&[("F1", 1)]));
    world.slack.trouble_threads([Trouble::Refuse("missing_scope")]);
    world.invoke(&world.slack_files(), &upload).await.expect_err("nobody can say");
}

/// Slack delivers an event, and what was handed over for it.
async fn handed_over(world: &World, id: &str) -> Upload {
    assert_eq!(world.deliver(&world.slack_events(), &world.event(id, &["F1"])).await, 200);
    let upload = world.queue.first().expect("an upload");
    world.queue.done();
    upload
}

/// A reply that was posted while the table was down, and whose answer was lost. Its instance is gone.
async fn a_reply_of_which_no_record_exists(world: &World, upload: &Upload) {
    world.dynamo.faults().down();
    world.slack.trouble_posts([Trouble::Lose]);
    world.invoke(&world.slack_files(), upload).await.expect_err("no answer");
    world.dynamo.faults().heal();
    assert_eq!(world.slack.replies(), replies(&[("F1", 1)]));
}

#[tokio::test]
async fn a_reply_during_an_outage_that_came_after_the_hand_over_is_found_by_the_retry() {
    let world = World::new().await;
    let upload = handed_over(&world, "Ev1").await;
    a_reply_of_which_no_record_exists(&world, &upload).await;
    // As early as Lambda repeats a failed invocation.
    world.clock.advance(Duration::from_secs(60));
    let done = world.invoke(&world.slack_files(), &upload).await.expect("done");
    assert_eq!((&done[0]["how"], world.slack.replies()), (&json!("found in its thread"), replies(&[("F1", 1)])));
}

#[tokio::test]
async fn a_reply_to_an_event_that_was_handed_over_without_the_table_is_found_however_soon_it_is_repeated() {
    let world = World::new().await;
    world.dynamo.faults().down();
    let upload = handed_over(&world, "Ev1").await;
    a_reply_of_which_no_record_exists(&world, &upload).await;
    let done = world.invoke(&world.slack_files(), &upload).await.expect("done");
    assert_eq!((&done[0]["how"], world.slack.replies()), (&json!("found in its thread"), replies(&[("F1", 1)])));
}

#[tokio::test]
async fn a_dead_letter_of_an_outage_that_is_sent_again_days_later_is_not_replied_to_twice() {
    let world = World::new().await;
    let upload = handed_over(&world, "Ev1").await;
    a_reply_of_which_no_record_exists(&world, &upload).await;
    world.clock.advance(Duration::from_secs(3 * 24 * 3_600));
    world.invoke(&world.slack_files(), &upload).await.expect("done");
    assert_eq!(world.slack.replies(), replies(&[("F1", 1)]));
}

#[tokio::test]
async fn while_the_table_answers_neither_the_first_attempt_nor_a_retry_reads_the_thread() {
    let world = World::new().await;
    let upload = handed_over(&world, "Ev1").await;
    world.slack.trouble_posts([Trouble::Refuse("internal_error")]);
    world.invoke(&world.slack_files(), &upload).await.expect_err("refused");
    world.clock.advance(Duration::from_secs(60));
    world.invoke(&world.slack_files(), &upload).await.expect("done");
    assert_eq!((world.slack.replies(), world.slack.looks()), (replies(&[("F1", 1)]), 0));
}

#[tokio::test]
async fn closed_means_that_nothing_is_posted_without_the_store() {
    let mut world = World::new().await;
    world.fallback = Fallback::Closed;
    let upload = upload(&world.event("Ev1", &["F1"]));
    world.dynamo.faults().down();
    let refused = world.invoke(&world.slack_files(), &upload).await.expect_err("no store");
    assert!(matches!(only(&refused), Error::Store(_)), "{refused}");
    assert_eq!(world.slack.posts(), []);
    // The store fails between the reply and its record. The next invocation finds the reply in the thread.
    world.dynamo.faults().only(Rule::new(Fault::Down).calls(2..=u64::MAX));
    world.invoke(&world.slack_files(), &upload).await.expect_err("not recorded");
    world.dynamo.faults().heal();
    world.clock.advance(AFTER_THE_LEASE);
    world.invoke(&world.slack_files(), &upload).await.expect("found");
    assert_eq!(world.slack.replies(), replies(&[("F1", 1)]));
}

#[tokio::test]
async fn the_handler_takes_what_slack_events_hands_over_and_names_what_failed() {
    let world = World::new().await;
    let handler = slack::function::files::handler(world.slack_files());
    let invoke = async |payload: Value| {
        let context = world.invocation("r", FILES_TIMEOUT);
        handler(function::LambdaEvent { payload, context }).await
    };
    let upload = upload(&world.event("Ev1", &["F1"]));
    let mut payload = serde_json::to_value(&upload).expect("JSON");
    payload["a_field_of_a_later_version"] = true.into();
    world.slack.trouble_posts([Trouble::Refuse("invalid_auth")]);
    let error = invoke(payload.clone()).await.expect_err("refused");
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        ("Slack", "1 of 1 files of event Ev1 are not done: F1: Slack refused the call: invalid_auth")
    );
    let answer = invoke(payload).await.expect("done");
    assert_eq!(answer["files"][0]["how"], "replied");
    assert_eq!(invoke(json!({"no": "upload"})).await.expect_err("malformed").kind(), "Event");
}
