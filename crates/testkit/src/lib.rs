#![doc = include_str!("../README.md")]

mod dynamo;
mod forgotten;
mod json;
pub mod usage;

pub use dynamo::Dynamo;
pub use emulator::dynamodb::faults;
pub use forgotten::forgotten_tests;
pub use ichido_testkit::*;
pub use json::any_json;
