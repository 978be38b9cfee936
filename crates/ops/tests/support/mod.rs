//! A running local platform, the tool that runs against it, and Slack's part.

#[allow(dead_code, reason = "shared with the platform's own tests, which use all of it")]
#[path = "../../../local/tests/support/client.rs"]
pub(crate) mod client;
pub(crate) mod ctl;
#[allow(dead_code, reason = "shared with the platform's own tests, which use all of it")]
#[path = "../../../local/tests/support/process.rs"]
pub(crate) mod process;
#[path = "../../../local/tests/support/slack.rs"]
pub(crate) mod slack;

use client::eventually;
use process::Local;

/// Waits until a queue holds this many dead letters.
pub(crate) async fn given_up(local: &Local, queue: &str, count: u64) {
    eventually("dead letters", || async {
        let queues = local.get("/_local/queues").await;
        let queues = queues.as_array().expect("queues").clone();
        let found = queues.into_iter().find(|each| each["name"] == queue).expect("the queue");
        (found["visible"].as_u64() == Some(count)).then_some(())
    })
    .await;
}
