//! Subscriptions: which subscribers there are, and how the answers to mutations reach them.
//!
//! Promises:
//! - A subscriber gets only what the mutation selected, under the names of its own query.
//! - The messages of one subscription arrive in the order in which their mutations ended.
//! - A subscription gets what ends after its `start_ack` and nothing from before.
//! - A subscriber that does not keep up is dropped with an error. It delays nobody.
//!
//! One message takes this way: `plan` reads a subscription and `register` keeps it. When a mutation ends, `publish` takes its
//! answer to the plans that want it (`filter`), makes each plan's message (`project`) and puts it into the queue of every
//! listener. `connection` (a WebSocket) or `subscription` (in this process) takes it out again.
//!
//! Subscribers with the same query, variables and filters share one plan, so their message is made once. A task of its own does
//! all this, so a mutation does not wait for its subscribers.

mod connection;
mod filter;
mod hub;
mod plan;
mod project;
mod publish;
mod register;
mod subscription;

pub(crate) use connection::{converse, serve};
pub(crate) use hub::Hub;
pub(crate) use plan::plan;
pub(crate) use publish::publish;
pub use subscription::{SubscribeError, Subscription};
