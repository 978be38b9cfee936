//! AWS calls that several commands make: the functions' log lines, their alarms, an invocation, a change of a schedule, and the SDK's errors as text.
//!
//! Also the services that are called without a crate of the SDK ([`function::aws::call`]): logs, parameters and roles.

pub(crate) mod alarms;
#[cfg(test)]
mod captured;
pub(crate) mod error;
pub(crate) mod invoke;
pub(crate) mod logs;
mod pages;
pub(crate) mod parameters;
pub(crate) mod roles;
pub(crate) mod schedule;
mod xml;
