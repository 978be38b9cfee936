//! The services that ichido talks to, in this process: for the local platform and for tests.
//!
//! - [`dynamodb`]: a real DynamoDB API on SQLite, behind the real SDK client, with [`dynamodb::faults`] in front of it.
//! - [`bigquery`]: the part of BigQuery's HTTP API that sessync uses, with BigQuery's weaknesses.
//! - [`issuer`]: signs tokens for the token API, as an identity provider does.
//! - [`Outside`]: numbers the calls that leave a run, so that a test can stop the run at any one of them.
//!
//! The local platform runs this code for people, so it returns errors and does not panic. It knows no application:
//! whoever mounts a stand-in says what the application expects of it. What tests need besides, and may panic, is in
//! `crates/testkit`.

pub mod bigquery;
pub mod dynamodb;
pub mod issuer;
pub mod outside;

pub use outside::Outside;
