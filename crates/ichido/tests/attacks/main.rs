//! What somebody tried who wanted to break the promises of the README, and what held or was mended.

#[path = "../support/mod.rs"]
mod support;

mod calls;
mod claims;
mod drops;
mod records;
