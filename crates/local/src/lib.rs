//! The whole system on one machine: `make dev`.
//!
//! One process on loopback plays AWS and the outside world around the very handlers that the Lambda binaries serve.
//! A [`tenant`] is an application that lives here; its CloudFormation template says which tables, functions, queues,
//! schedules, routes and alarms there are. The story of a request:
//!
//! [`serve`] accepts it and refuses strangers → [`door`] makes an API Gateway event of it → [`functions`] runs the
//! handler with a deadline → the handler talks to [`store`] (through the [`faults`]), invokes other functions through
//! [`api`] (asynchronously: [`queue`]), and calls the outside, where a [`standin`] answers and writes the [`outbox`] →
//! what its lines say goes into [`metrics`] and [`live`], which the console shows.
//!
//! Invariants: nothing that was acknowledged is lost by kill -9 (`tests/kill.rs`); requests whose `Host` or `Origin` is
//! not loopback change nothing (`tests/strangers.rs`); an application is known here only in its file under `tenants/`.

pub mod alarms;
pub mod api;
mod console;
pub mod data;
pub mod door;
pub mod faults;
pub mod functions;
pub mod journal;
pub mod live;
pub mod messages;
pub mod metrics;
pub mod options;
pub mod outbox;
pub mod platform;
pub mod queue;
pub mod run;
pub mod schedules;
pub mod serve;
pub mod standin;
pub mod standins;
pub mod store;
pub mod tenant;
pub mod tenants;
mod tls;

/// Epoch milliseconds as RFC 3339.
pub(crate) fn rfc3339(ms: u64) -> String {
    ichido::Timestamp::from_millis(ms).to_string()
}

/// Epoch milliseconds.
pub(crate) fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
