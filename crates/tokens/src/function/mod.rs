//! The Lambda functions, one file each.

pub mod api;
