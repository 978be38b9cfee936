#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

mod background;
mod breaker;
mod claim;
mod clock;
mod digest;
#[cfg(feature = "dynamodb")]
pub mod dynamodb;
pub mod http;
pub mod key;
#[cfg(feature = "lambda")]
pub mod lambda;
mod mark;
mod memory;
pub mod observe;
mod once;
mod reconcile;
pub mod record;
mod run;
pub mod store;
#[cfg(any(feature = "lambda", feature = "tracing"))]
mod text;
mod trace;

pub use breaker::{DEFAULT_FAILURES_TO_OPEN, DEFAULT_PROBE_INTERVAL};
pub use claim::{Claim, Lost};
pub use clock::{Clock, Sleep, SystemClock, Timestamp, whole_millis};
pub use digest::{DigestKey, Digests, DigestsBuilder};
pub use key::{Key, Namespace};
pub use mark::{Mark, Marked};
pub use memory::{DEFAULT_JOURNAL_KEYS, DEFAULT_KNOWN_KEYS};
pub use observe::Observer;
pub use once::{Builder, DEFAULT_RECONCILED_PER_CALL, MAX_CLOCK_SKEW, Once, Outage};
pub use record::{NoValue, Outcome, Owner, Record, State, StateKind};
pub use run::{Done, Error, Failure, How, OnDoubt, OrFailure, Probe, Probed, Run, Undecided};
pub use store::Store;
