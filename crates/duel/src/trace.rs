//! What happened to one event in one handler's column, moment by moment.

use std::time::Duration;

use crate::storm::Fault;

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Since the start of the duel.
    pub at: Duration,
    /// The delivery, counted from 1.
    pub delivery: u32,
    /// The number of the worker.
    pub worker: u32,
    /// What happened.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The worker got the event.
    Began,
    /// The worker called the store or the destination.
    Called {
        /// The number of the call in its delivery, counted from 1.
        call: u32,
        /// What it called.
        to: To,
        /// What the storm did to the call.
        fault: Option<Fault>,
        /// Was the call performed?
        performed: bool,
    },
    /// The destination took the post: this is the effect.
    Posted,
    /// The destination was asked whether there is a post, and said yes or no.
    Asked(bool),
    /// The worker died.
    Died,
    /// The worker failed, for this reason. The event is not acknowledged.
    Failed(String),
    /// The worker acknowledged the event.
    Acknowledged,
    /// The event was delivered as often as is allowed, and nobody acknowledged it.
    GivenUp,
}

/// Whom a worker calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// The store.
    Store,
    /// The destination, to post.
    Post,
    /// The destination, to ask.
    Ask,
}
