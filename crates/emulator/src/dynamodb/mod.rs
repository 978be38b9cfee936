//! A DynamoDB in this process.
//!
//! A call goes from the SDK through [`http_client`] (no socket, no port), past the [`Outside`](crate::Outside), through
//! [`faults::Faulty`] and into the [`Engine`].

mod engine;
pub mod faults;
mod http;

pub use engine::{Engine, Error};
pub use http::http_client;
