//! Both functions are stopped before and after each of their calls to the outside, and run again, and two deliveries of an event
//! meet in many orders: one reply per file, and none is lost.

use std::io::Write as _;
use std::time::Duration;

use crate::support::{Trouble, World, envelope};
use serde_json::Value;
use testkit::{Outside, effects, interrupt, race};

/// Longer than the leases of both functions and the allowed clock skew.
const LATER: Duration = Duration::from_secs(63);

fn event(files: &[&str]) -> Value {
    envelope("Ev1", &format!("{}.000100", testkit::clock::START_MS / 1000), files)
}

/// Slack delivers the event until it is acknowledged. Then Lambda empties its queue. Every run has new instances.
async fn run(world: &World, files: &[&str]) -> Result<(), String> {
    let status = world.deliver(&world.slack_events(), &event(files)).await;
    if status != 200 {
        return Err(format!("slack-events answered {status}"));
    }
    while let Some(upload) = world.queue.first() {
        world.invoke(&world.slack_files(), &upload).await.map_err(|error| error.to_string())?;
        // Another delivery may have emptied the queue meanwhile.
        if world.queue.first().as_ref() == Some(&upload) {
            world.queue.done();
        }
    }
    Ok(())
}

#[tokio::test]
async fn stopped_at_each_call_to_the_outside_and_run_again_one_reply_per_file_and_none_lost() {
    let files = ["F1", "F2"];
    let report = interrupt::at_every_call(
        async |outside: Outside| World::with(outside).await,
        async |world: &World| run(world, &files).await,
        async |world: &World| world.clock.advance(LATER),
        async |world: &World| {
            effects(world.slack.replied_to()).each_once(files);
            assert!(world.queue.first().is_none());
        },
    )
    .await;
    let _ = writeln!(std::io::stderr(), "stopped at {} places, {} runs in all", report.stops, report.runs);
    // Claim, hand-over and completion by slack-events; whether Slack limits the rate, claim, post and completion per file, and
    // the history by slack-files. Each before and after.
    assert_eq!(report.stops, 2 * (3 + 1 + 3 * files.len() + 1));
    assert_eq!(report.cuts, report.stops, "each of them can also lose its connection");
}

#[tokio::test]
async fn stopped_at_each_call_while_slack_limits_and_loses_still_one_reply_per_file() {
    let files = ["F1", "F2"];
    interrupt::at_every_call(
        async |outside: Outside| {
            let world = World::with(outside).await;
            world.slack.trouble_posts([Trouble::RateLimit(Duration::from_secs(3)), Trouble::Lose]);
            world.slack.trouble_threads([Trouble::RateLimit(Duration::from_secs(60))]);
            world
        },
        async |world: &World| run(world, &files).await,
        async |world: &World| world.clock.advance(LATER),
        async |world: &World| {
            effects(world.slack.replied_to()).each_once(files);
        },
    )
    .await;
}

/// Slack delivers the event a second time while the first delivery is under way. Then Lambda empties its queue.
#[tokio::test]
async fn two_deliveries_at_once_still_one_reply_per_file() {
    let files = ["F1", "F2"];
    race::two_at_once(
        0..30,
        async |outside: Outside| World::with(outside).await,
        async |world: &World| run(world, &files).await,
        async |world: &World| world.clock.advance(LATER),
        async |world: &World| {
            effects(world.slack.replied_to()).each_once(files);
            assert!(world.queue.first().is_none());
        },
    )
    .await;
}
