#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

#[cfg(feature = "aws")]
pub mod aws;
pub mod clock;
mod effects;
#[cfg(feature = "explore")]
pub mod explore;
pub mod interrupt;
pub mod lanes;
mod lock;
pub mod model;
pub mod outside;
pub mod race;
#[cfg(feature = "relay")]
pub mod relay;
pub mod sim;
#[cfg(feature = "tower")]
pub mod tower;
mod turn;

pub use clock::ManualClock;
pub use effects::{Effects, effects};
pub use outside::Outside;
