//! What the tests of all crates stand on.
//!
//! - [`Dynamo`]: a DynamoDB of one's own, embedded, with the tables of given templates, behind the real SDK client;
//!   [`faults`] in front of it, `TransactionConflict` and lagging indexes included; every call counted.
//! - [`template`]: the CloudFormation templates, read for what can run without CloudFormation.
//! - [`ManualClock`]: time that a test owns. Nothing here waits in real time.
//! - [`interrupt`]: lets a run die at each of its calls to the [`Outside`] and runs it again.
//! - [`model`]: the library's store, obviously right; [`sim`]: a deterministic world in which a seed decides everything.
//!
//! It is a crate for tests: what cannot be set up panics, with the reason.

pub mod clock;
pub mod dynamo;
pub mod interrupt;
pub mod model;
pub mod sim;

pub use clock::ManualClock;
pub use dynamo::Dynamo;
pub use emulator::Outside;
pub use emulator::dynamodb::faults;
pub use emulator::outside;
pub use template;

/// The embedded DynamoDB itself, for tests that put something else than [`Dynamo`] in front of it.
pub mod engine {
    pub use emulator::dynamodb::Engine;
}
