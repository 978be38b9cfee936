//! A small AWS AppSync in a process: the same schema, the same resolver files, the same protocol.
//!
//! ```text
//!            POST /graphql                        WebSocket
//!   server ───────┬──────────────────────────────────┬──────────── auth
//!                 ▼                                  ▼
//!   execute: validate, coerce, resolve, complete   realtime: subscribe, filter, fan out
//!                 │  a mutation's answer ───────────▶│
//!                 ▼
//!   resolve: unit or pipeline ──▶ engine (APPSYNC_JS) ──▶ dynamodb · Lambda · NONE
//! ```
//!
//! An [`Api`] is put together from an SDL text, the CloudFormation template that wires it
//! ([`Builder::template`]), the resolver files and data sources; then it executes
//! ([`Api::execute`]), serves ([`Api::router`]) or runs one handler ([`Api::evaluate`]).
//!
//! What it promises: a request gets what AppSync would answer, errors in AppSync's shape included,
//! within every bound of [`limits`]. What it does not support it refuses by name, when the API is
//! put together wherever that is possible. It knows nothing of any application.

pub mod auth;
pub mod engine;
pub mod limits;
pub mod response;
pub mod schema;
pub mod template;

mod api;
mod dynamodb;
mod execute;
mod host;
mod input;
mod realtime;
mod resolve;
mod scalars;
mod selection;
mod server;

pub use api::{Api, Builder, Error};
pub use auth::{ApiKey, Caller, IamCaller};
pub use engine::Evaluation;
pub use limits::Limits;
pub use realtime::{Refused, Subscription};
pub use resolve::{Lambda, LambdaError};
pub use response::Response;
