//! The whole system in one process on one machine: what `make dev` starts.
//!
//! The process plays AWS and the outside world around the same handlers that the Lambda binaries serve. An application
//! that runs here is called a tenant. Its CloudFormation template says which tables, functions, queues, schedules, routes
//! and alarms it has.
//!
//! # Where things are
//!
//! | room | holds |
//! |---|---|
//! | [`platform`] | starting and stopping, options, ports, the data directory |
//! | [`aws`] | the AWS APIs that are answered: API Gateway, Lambda, DynamoDB, SQS, SSM, Secrets Manager, Scheduler, CloudWatch |
//! | [`world`] | what surrounds the functions: the store, queues, schedules, faults, the outbox, metrics, alarms, logs |
//! | [`tenants`] | one file per application: what it needs from the platform |
//! | [`standins`] | one file per outside API that an application calls |
//! | `console` | the page in the browser, and the `/_local/*` API behind it |
//!
//! # One request
//!
//! 1. `platform/listeners.rs` accepts the connection and refuses requests that do not come from this machine.
//! 2. `platform/router.rs` finds out who answers: the console, an AWS API, a tenant, a stand-in, or a route of a template.
//! 3. For a route, `aws/gateway.rs` makes an API Gateway event of the request.
//! 4. `world/functions.rs` runs the handler with a deadline.
//! 5. The handler reads and writes `world/store.rs`, where faults can be injected. It invokes other functions through
//!    `aws/lambda.rs`; `world/invocations.rs` carries out the asynchronous ones. It calls outside APIs, where a stand-in
//!    answers and `world/outbox.rs` records the effect.
//! 6. `world/metrics.rs` and `world/live.rs` read the handler's log lines, and the console shows them.
//!
//! # Failures
//!
//! | what fails | what happens |
//! |---|---|
//! | the process, even by kill -9 | the next start has everything that was acknowledged (`tests/platform/kill.rs`) |
//! | a handler panics or exceeds its timeout | the caller gets Lambda's error, and the next invocation starts a new instance |
//! | an asynchronous invocation fails | it is retried as Lambda retries it, then sent to the function's on-failure queue |
//! | the outbox, a queue or the list of asynchronous invocations cannot be written | the request fails and is not acknowledged |
//! | the data directory is damaged, in use, or from a newer version | the process does not start, and says what to do |
//! | a request comes from another host or another site's page | it is refused with 403 and changes nothing (`tests/platform/strangers.rs`) |
//!
//! The Rust code outside `tenants/` and `standins/` knows no application, except for the options `--github-feed` and
//! `--hatebu-feed`.

mod arena;
pub mod aws;
mod console;
pub mod platform;
pub mod standins;
pub mod tenants;
pub mod world;

pub use platform::process::{main, main_with};
