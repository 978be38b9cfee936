//! The whole system on one machine: `make dev`.
//!
//! One process on loopback plays AWS and the outside world around the very handlers that the Lambda binaries serve.
//! A tenant is an application that lives here; its CloudFormation template says which tables, functions, queues,
//! schedules, routes and alarms there are.

pub mod aws;
mod console;
pub mod platform;
pub mod standins;
pub mod tenants;
pub mod world;

pub use platform::process::{main, main_with};
