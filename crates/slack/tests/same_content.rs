//! The same content again: off by default. Where it is on, one file per content, channel and window is handled; the others get a link.
//! No file gets two replies, and none gets nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::{Trouble, WINDOW, World, envelope, permalink, upload};
use ichido::Clock;
use slack::event::Upload;
use slack::function::files::{Error, SlackFiles};
use slack::settings::Fallback;
use slack_api::Content;
use testkit::faults::{Fault, Rule};
use testkit::{Outside, effects, interrupt, race};

/// Longer than the lease and the allowed clock skew.
const LATER: Duration = Duration::from_secs(63);
const CHANNEL: &str = "C0GENERAL";

/// A message of its own with the file `F{n}`, posted now.
fn message(world: &World, n: u32) -> Upload {
    at(n, world.clock.now().as_secs())
}

fn at(n: u32, seconds: u64) -> Upload {
    upload(&envelope(&format!("Ev{n}"), &format!("{seconds}.{n:06}"), &[&format!("F{n}")]))
}

/// Handles a file and returns the reply to it.
async fn said(world: &World, files: &SlackFiles, upload: &Upload) -> String {
    world.invoke(files, upload).await.expect("done");
    world.slack.posts().last().expect("a reply").text.clone()
}

fn received(n: u32) -> String {
    format!("Received F{n}.pdf (application/pdf, 1.2 MB).")
}

fn link_to(first: &Upload) -> String {
    format!("The same content was handled before: {}", permalink(CHANNEL, &first.ts))
}

/// The replies that say that a file was received.
fn handled(world: &World) -> usize {
    world.slack.posts().iter().filter(|post| post.text.starts_with("Received")).count()
}

#[tokio::test]
async fn a_content_that_was_handled_gets_a_link_to_the_first_message() {
    let world = World::new().await;
    world.slack.put_content(&["F1", "F2", "F4", "F5"], "the same");
    world.slack.put_content(&["F3"], "another");
    let files = || world.slack_files_by_content(CHANNEL);
    let (first, second, third) = (message(&world, 1), message(&world, 2), message(&world, 3));
    assert_eq!(said(&world, &files(), &first).await, received(1));
    assert_eq!(said(&world, &files(), &second).await, link_to(&first));
    assert_eq!(world.slack.posts()[1].thread_ts, second.ts, "in the thread of the second");
    assert_eq!(said(&world, &files(), &third).await, received(3), "another content");
    for upload in [&first, &second, &third] {
        world.invoke(&files(), upload).await.expect("done before");
    }
    assert_eq!(world.slack.posts().len(), 3, "each of them again: nothing more is said");
    // The records of files expire after six hours. Then the thread says whether the first one was handled.
    world.clock.advance(WINDOW - LATER);
    world.dynamo.sweep(world.clock.now());
    assert_eq!(said(&world, &files(), &message(&world, 4)).await, link_to(&first));
    // After the window the content is new.
    world.clock.advance(2 * LATER);
    assert_eq!(said(&world, &files(), &message(&world, 5)).await, received(5));
}

#[tokio::test]
async fn it_is_off_by_default_and_in_other_channels() {
    let world = World::new().await;
    world.slack.put_content(&["F1", "F2", "F3", "F4"], "the same");
    world.dynamo.reset_calls();
    for n in [1, 2] {
        assert_eq!(said(&world, &world.slack_files(), &message(&world, n)).await, received(n));
    }
    let elsewhere = world.slack_files_by_content("C0RANDOM,C0OTHER");
    assert_eq!(said(&world, &elsewhere, &message(&world, 3)).await, received(3));
    assert!(!world.items().keys().any(|key| key.starts_with("CONTENT#")), "nothing is written");
    // The content of one channel is not known in another one.
    let everywhere = world.slack_files_by_content("*");
    assert_eq!(said(&world, &everywhere, &message(&world, 4)).await, received(4));
    let mut other = message(&world, 4);
    (other.channel, other.ts) = ("C0OTHER".into(), "1700000000.000001".into());
    assert_eq!(said(&world, &everywhere, &other).await, received(4));
}

#[tokio::test]
async fn two_equal_files_of_one_message_are_one_content() {
    let world = World::new().await;
    world.slack.put_content(&["F1", "F2"], "the same");
    let both = upload(&world.event("Ev1", &["F1", "F2"]));
    assert_eq!(said(&world, &world.slack_files_by_content("*"), &both).await, link_to(&both));
    assert_eq!((handled(&world), world.slack.posts().len()), (1, 2));
}

#[tokio::test]
async fn what_may_not_be_read_is_known_by_its_name_size_and_type() {
    let world = World::new().await;
    let files = world.slack_files_by_content("*");
    let named = |n: u32, change: fn(&mut slack::event::File)| {
        let mut upload = message(&world, n);
        upload.files[0].name = Some("F1.pdf".into());
        change(&mut upload.files[0]);
        upload
    };
    let first = message(&world, 1);
    assert_eq!(said(&world, &files, &first).await, received(1));
    assert_eq!(said(&world, &files, &named(2, |_| ())).await, link_to(&first));
    let others: [fn(&mut slack::event::File); 3] = [
        |file| file.size = Some(7),
        |file| file.mimetype = Some("text/plain".into()),
        |file| file.name = Some("other.pdf".into()),
    ];
    for (n, change) in (3..).zip(others) {
        assert!(said(&world, &files, &named(n, change)).await.starts_with("Received"));
    }
    // What Slack does not tell, nobody can compare. Files that are kept elsewhere have size 0.
    let untold: [fn(&mut slack::event::File); 4] =
        [|file| file.name = None, |file| file.mimetype = None, |file| file.size = None, |file| file.size = Some(0)];
    for (n, change) in (10..).zip(untold.into_iter().flat_map(|change| [change, change])) {
        assert!(said(&world, &files, &named(n, change)).await.starts_with("Received"), "{n}");
    }
    // A file that may be read is not compared with one that may not.
    world.slack.put_content(&["F20"], "readable");
    assert!(said(&world, &files, &named(20, |_| ())).await.starts_with("Received"));
}

#[tokio::test]
async fn a_file_that_is_too_large_or_too_slow_is_handled_and_one_that_fails_is_tried_again() {
    let world = World::new().await;
    let files = world.slack_files_by_content("*");
    world.slack.put_contents(&["F1", "F2"], Ok(Content::NotRead));
    for n in [1, 2] {
        let mut upload = message(&world, n);
        upload.files[0].name = Some("same.pdf".into());
        assert!(said(&world, &files, &upload).await.starts_with("Received same.pdf"), "{n}");
    }
    world.slack.put_contents(&["F3"], Err(Trouble::Lose));
    world.invoke(&files, &message(&world, 3)).await.expect_err("no answer");
    assert_eq!(world.slack.posts().len(), 2);
}

#[tokio::test]
async fn a_rate_limit_of_reading_files_is_kept_across_invocations() {
    let world = World::new().await;
    world.slack.put_contents(&["F1"], Err(Trouble::RateLimit(LATER)));
    world.slack.put_content(&["F2"], "another");
    let (first, second) = (message(&world, 1), message(&world, 2));
    for upload in [&first, &second] {
        world.invoke(&world.slack_files_by_content("*"), upload).await.expect_err("limited");
    }
    world.clock.advance(LATER);
    world.slack.put_content(&["F1"], "the same");
    for upload in [&first, &second] {
        world.invoke(&world.slack_files_by_content("*"), upload).await.expect("done");
    }
    assert_eq!(handled(&world), 2);
}

#[tokio::test]
async fn while_the_first_one_is_being_handled_the_other_one_fails_and_is_then_linked() {
    let world = World::new().await;
    world.slack.put_content(&["F1", "F2"], "the same");
    let (first, second) = (message(&world, 1), message(&world, 2));
    // Slack limits the rate of the first invocation. While it waits, the second one begins.
    world.slack.trouble_posts([Trouble::RateLimit(Duration::from_secs(20))]);
    let files = || world.slack_files_by_content("*");
    let (one, two) = futures::future::join(async { world.invoke(&files(), &first).await }, async {
        for turn in 0.. {
            if !world.slack.tried_at().is_empty() {
                break;
            }
            assert!(turn < 10_000_000, "the first one never tries to post");
            tokio::task::yield_now().await;
        }
        world.invoke(&files(), &second).await
    })
    .await;
    one.expect("done");
    let two = two.expect_err("in flight");
    assert!(matches!(two.files(), [(_, Error::Effect(slack::effect::Error::SameContent(_)))]), "{two}");
    assert_eq!(said(&world, &files(), &second).await, link_to(&first));
    let counted = world.items().into_iter().find(|(key, _)| key.starts_with("HISTORY#")).expect("a history").1;
    let of = |name: &str| counted[name]["N"].as_str().unwrap_or("0").to_owned();
    assert_eq!((of("handled"), of("sameContent"), of("failedAttempts")), ("1".into(), "1".into(), "0".into()));
}

#[tokio::test]
async fn if_the_first_one_failed_the_next_file_takes_its_place() {
    for (code, last) in [("channel_not_found", "linked"), ("msg_too_long", "recorded as failed")] {
        let world = World::new().await;
        world.slack.put_content(&["F1", "F2", "F3"], "the same");
        let files = || world.slack_files_by_content("*");
        let (first, second, third) = (message(&world, 1), message(&world, 2), message(&world, 3));
        world.slack.trouble_posts([Trouble::Refuse(code)]);
        world.invoke(&files(), &first).await.expect_err("refused");
        assert_eq!(said(&world, &files(), &second).await, received(2), "{code}");
        assert_eq!(said(&world, &files(), &third).await, link_to(&second), "{code}");
        match (last, world.invoke(&files(), &first).await) {
            ("linked", done) => {
                done.expect("done");
                assert_eq!(world.slack.posts().last().expect("a reply").text, link_to(&second));
            }
            (_, failed) => assert!(matches!(failed.expect_err(code).files(), [(_, Error::Failed(_))])),
        }
        assert_eq!(handled(&world), 1, "{code}");
    }
}

#[tokio::test]
async fn if_the_first_one_may_have_been_handled_its_thread_is_asked() {
    for (posted, expected) in [(true, "a link"), (false, "handled")] {
        let world = World::new().await;
        world.slack.put_content(&["F1", "F2"], "the same");
        let files = || world.slack_files_by_content("*");
        let (first, second) = (message(&world, 1), message(&world, 2));
        // The connection breaks in the post of the first one: after Slack has it, or before.
        world.slack.trouble_posts([if posted { Trouble::Lose } else { Trouble::LoseBefore }]);
        world.invoke(&files(), &first).await.expect_err("no answer");
        let reply = said(&world, &files(), &second).await;
        assert_eq!(reply, if posted { link_to(&first) } else { received(2) }, "{expected}");
        world.invoke(&files(), &first).await.expect("done");
        assert_eq!((handled(&world), world.slack.posts().len()), (1, 2), "{expected}");
    }
}

#[tokio::test]
async fn if_nobody_can_say_whether_the_first_one_was_handled_the_next_file_waits() {
    let world = World::new().await;
    world.slack.put_content(&["F1", "F2"], "the same");
    let files = || world.slack_files_by_content("*");
    let (first, second) = (message(&world, 1), message(&world, 2));
    world.slack.trouble_posts([Trouble::Lose]);
    world.slack.trouble_threads([Trouble::Refuse("missing_scope")]);
    world.invoke(&files(), &first).await.expect_err("no answer");
    world.invoke(&files(), &second).await.expect_err("nobody can say");
    assert_eq!(world.slack.replies(), BTreeMap::from([("F1".to_owned(), 1)]), "it has got nothing yet");
    assert_eq!(said(&world, &files(), &second).await, link_to(&first));
}

#[tokio::test]
async fn if_the_first_message_was_deleted_the_next_file_is_handled_and_is_the_first_one() {
    // While the record of the first file is there, and when it has expired.
    for age in [LATER, WINDOW - LATER] {
        let world = World::new().await;
        world.slack.put_content(&["F1", "F2", "F3"], "the same");
        let files = || world.slack_files_by_content("*");
        let first = message(&world, 1);
        assert_eq!(said(&world, &files(), &first).await, received(1));
        world.slack.delete_message(&first.ts);
        world.clock.advance(age);
        let second = message(&world, 2);
        assert_eq!(said(&world, &files(), &second).await, received(2));
        assert_eq!(said(&world, &files(), &message(&world, 3)).await, link_to(&second));
    }
}

#[tokio::test]
async fn without_the_store_every_file_is_handled() {
    let mut world = World::new().await;
    world.fallback = Fallback::Open;
    world.slack.put_content(&["F1", "F2"], "the same");
    world.dynamo.faults().down();
    for n in [1, 2] {
        assert_eq!(said(&world, &world.slack_files_by_content("*"), &message(&world, n)).await, received(n));
    }
}

/// Both messages, as Lambda would: each is tried again until it is done.
async fn run(world: &World) -> Result<(), String> {
    let uploads = [1, 2].map(|n| at(n, testkit::clock::START_MS / 1000));
    let mut failed = Vec::new();
    for upload in uploads {
        let files = world.slack_files_by_content("*");
        failed.extend(world.invoke(&files, &upload).await.err().map(|error| error.to_string()));
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

async fn equal_files(outside: Outside) -> World {
    let world = World::with(outside).await;
    world.slack.put_content(&["F1", "F2"], "the same");
    world
}

async fn one_handled_and_one_linked(world: &World) {
    effects(world.slack.replied_to()).each_once(["F1", "F2"]);
    assert_eq!(handled(world), 1, "{:?}", world.slack.posts());
}

#[tokio::test]
async fn killed_at_each_call_and_run_again_one_file_is_handled_and_one_linked() {
    let report = interrupt::at_every_call(
        equal_files,
        run,
        async |world: &World| world.clock.advance(LATER),
        one_handled_and_one_linked,
    )
    .await;
    // The first one: the claim, two limits, the content, who is first, the post, the completion and the history. The second one: the
    // claim, three limits, the content, who is first, the record of the first one, the address, the post, the completion and the history.
    assert_eq!(report.stops, 2 * (8 + 11));
    assert_eq!(report.cuts, report.stops, "each of them can also lose its connection");
}

#[tokio::test]
async fn two_equal_files_at_once_one_is_handled_and_one_linked() {
    race::two_at_once(
        0..60,
        equal_files,
        run,
        async |world: &World| world.clock.advance(LATER),
        one_handled_and_one_linked,
    )
    .await;
}

#[tokio::test]
async fn a_place_that_was_taken_is_known_although_the_answer_was_lost() {
    // Whichever write's answer is lost, the SDK repeats the write, and it finds what the first one wrote.
    for lost in 1..=4 {
        let world = World::new().await;
        world.slack.put_content(&["F1", "F2", "F3"], "the same");
        let files = || world.slack_files_by_content("*");
        let first = message(&world, 1);
        assert_eq!(said(&world, &files(), &first).await, received(1));
        world.slack.delete_message(&first.ts);
        world.clock.advance(WINDOW - LATER);
        let second = message(&world, 2);
        world.dynamo.faults().only(Rule::new(Fault::LoseAnswer).on("PutItem").call(lost));
        assert_eq!(said(&world, &files(), &second).await, received(2), "write {lost}");
        world.dynamo.faults().heal();
        assert_eq!(said(&world, &files(), &message(&world, 3)).await, link_to(&second), "write {lost}");
    }
}
