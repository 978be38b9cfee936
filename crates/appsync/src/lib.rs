//! A small AWS AppSync in one process: the same schema, the same resolver files, the same protocol.
//!
//! # One mutation
//!
//! 1. `server` takes `POST /graphql` and asks `auth` who is calling.
//! 2. `document` parses and validates the query, or finds it among the last ones. `input` checks the variables.
//! 3. `execute` walks through the selected fields (`selection`) and calls the resolver of each field that has one.
//! 4. `resolve` runs that resolver, a unit or a pipeline: the request handler makes a request ([`engine`] runs APPSYNC_JS), a data
//!    source answers it (`dynamodb`, a Lambda function or none), and the response handler makes the result.
//! 5. `execute` checks the result against the schema (`scalars`, `null`) and returns a [`Response`].
//! 6. `realtime` takes the answer to the subscribers that want it.
//!
//! A program builds an [`Api`] from a schema, the CloudFormation template that deploys it ([`Builder::template`]), the resolver files and
//! data sources. Then it executes ([`Api::execute`]), subscribes ([`Api::subscribe`]), serves ([`Api::router`]) or runs a single
//! handler ([`Api::evaluate`]). [`evaluate`] runs a handler without an API, as AppSync's EvaluateCode does.
//!
//! # Failures
//!
//! | what fails | what happens |
//! |---|---|
//! | the schema, the template or a resolver file is wrong, or uses what this crate does not have | [`Builder::build`] returns an [`Error`] that names it |
//! | a caller without a valid credential | HTTP 401 or 403; on a WebSocket `connection_error` |
//! | a query or its variables are wrong | an answer without data, with the reasons |
//! | a resolver fails | its field is `null`, and its error stands beside the data |
//! | a handler loops or uses too much memory | its field fails, and its engine is thrown away |
//! | a request exceeds a bound of `limits` | an error that says which |
//! | a subscriber does not keep up | it gets an error and is disconnected; nobody waits for it |
//!
//! This crate knows no application.

pub mod engine;
pub mod evaluate;

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
