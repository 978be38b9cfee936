//! One file a command.

pub mod tokens;
