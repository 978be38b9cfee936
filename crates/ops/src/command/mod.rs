//! One file a command.

pub mod cost;
pub mod dead_letters;
pub mod doctor;
pub mod keys;
pub mod rollback;
pub mod rollout;
pub mod schedules;
pub mod tokens;
pub mod trace;
