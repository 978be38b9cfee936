#![doc = include_str!("../README.md")]

pub mod clock;
mod dynamo;
pub mod interrupt;
mod json;
pub mod model;
pub mod sim;

pub use clock::ManualClock;
pub use dynamo::Dynamo;
pub use emulator::Outside;
pub use emulator::dynamodb::faults;
pub use json::any_json;
