//! AWS calls that several commands make: the functions' log lines, their alarms, an invocation, a change of a schedule, and the SDK's errors as text.

pub(crate) mod alarms;
pub(crate) mod error;
pub(crate) mod invoke;
pub(crate) mod logs;
pub(crate) mod schedule;
