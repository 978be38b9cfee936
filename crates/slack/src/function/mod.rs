//! The two Lambda functions, one file each.

pub mod events;
pub mod files;
