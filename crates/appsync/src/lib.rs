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

pub mod engine;

mod api;
mod auth;
mod builder;
mod document;
mod dynamodb;
mod execute;
mod host;
mod input;
mod limits;
mod lock;
mod null;
mod realtime;
mod resolve;
mod response;
mod scalars;
mod schema;
mod selection;
mod server;
mod wiring;

pub use api::Api;
pub use auth::{ApiKey, Caller, IamCaller};
pub use builder::{Builder, Error};
pub use engine::Evaluation;
pub use limits::Limits;
pub use realtime::{SubscribeError, Subscription};
pub use resolve::{Lambda, LambdaError};
pub use response::Response;
