#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

pub mod clock;
pub mod interrupt;
mod lock;
pub mod model;
pub mod outside;
pub mod sim;
mod turn;

pub use clock::ManualClock;
pub use outside::Outside;
