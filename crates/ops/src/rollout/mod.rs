//! Rollouts: traffic moves from one version of a function to the next in steps, and back if something goes wrong.
//!
//! [`plan`] says what there is to do. [`together`] runs one [`machine`] per function. The machine decides what to do next,
//! [`drive`] carries that out and reports it, `cloud` makes the AWS calls, and [`view`] shows the reports. [`alias`]
//! holds what is remembered: where a rollout stands can be read from the alias alone.

pub mod alias;
pub(crate) mod cloud;
pub mod drive;
pub mod machine;
pub mod plan;
pub mod together;
pub mod view;
