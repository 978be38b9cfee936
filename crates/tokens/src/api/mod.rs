//! What clients send and what they get: requests, pages and errors as data.

mod cursor;
pub mod idempotency;
pub mod input;
pub(crate) mod instant;
pub mod problem;

pub(crate) use cursor::{encode as next_cursor, encode_statement as next_statement_cursor};

/// The description of the interface (OpenAPI), as it is served. A test compares it with the routes and with the codes.
pub const OPENAPI: &str = include_str!("openapi.json");
