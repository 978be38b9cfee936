//! Rollouts: traffic moves from one version of a function to the next, watched, and goes back by itself.
//!
//! [`alias`] is what the truth looks like, [`machine`] decides, [`drive`] carries out and tells, [`cloud`] calls AWS, [`plan`]
//! says what there is to do, [`view`] shows it.

pub mod alias;
pub mod cloud;
pub mod drive;
pub mod machine;
pub mod plan;
pub mod view;
