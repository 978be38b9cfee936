//! An embedded DynamoDB.
//!
//! A call goes from the SDK through [`http_client`] (without a socket), is counted by [`Outside`](crate::Outside), passes
//! [`faults::Faulty`] and reaches the [`Engine`].

mod engine;
pub mod faults;
mod http;

pub use engine::{Engine, Error};
pub use http::http_client;
