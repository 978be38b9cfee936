//! One file a command.

pub mod dead_letters;
pub mod keys;
pub mod schedules;
pub mod tokens;
pub mod trace;
