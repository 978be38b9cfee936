//! Emulations of the services that ichido uses, for the local platform and for tests.
//!
//! - [`dynamodb`]: a real DynamoDB API on SQLite, behind the real SDK client, with optional faults ([`dynamodb::faults`]).
//! - [`bigquery`]: the part of BigQuery's HTTP API that sessync uses, with BigQuery's weaknesses.
//! - [`issuer`]: signs tokens for the token API, as an identity provider does.
//! - [`limits`]: AWS's documented limits, and a meter that refuses what exceeds them, in the time of any clock.
//! - [`Outside`], from `crates/ichido-testkit`: numbers the calls of a run, so that a test can stop the run at each of them.
//!
//! People run this code through `crates/local`, so it returns errors and does not panic. It depends on no application: whoever
//! uses an emulation passes in what the application expects, such as the columns of a table. Helpers that may panic are in
//! `crates/testkit`.

pub mod bigquery;
pub mod dynamodb;
pub mod issuer;
pub mod limits;

pub use ichido_testkit::Outside;
