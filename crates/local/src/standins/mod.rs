//! The outside APIs for which there is a stand-in, a module each.

pub mod slack;
