//! What somebody tried who wanted to break the promises of the README, and what held or was mended.

#[path = "../support/mod.rs"]
mod support;

mod calls;
mod claims;
mod drops;
mod records;

use std::pin::pin;
use std::task::{Context, Waker};

/// Lets the tasks go on that a dropped call has left behind.
async fn settle_tasks() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

/// Polls a call at most so often, then drops it. True if it ended before.
async fn ends_within<T>(polls: u32, call: impl Future<Output = T>) -> bool {
    let mut call = pin!(call);
    for _ in 0..polls {
        if call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}
