//! What surrounds the functions on AWS, as far as they and their operators can tell.

pub mod alarms;
pub(crate) mod faults;
pub(crate) mod functions;
pub(crate) mod invocations;
pub(crate) mod live;
pub mod metrics;
pub(crate) mod outbox;
pub(crate) mod queues;
pub(crate) mod schedules;
pub(crate) mod store;
