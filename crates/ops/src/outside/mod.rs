//! AWS calls that several commands make: the functions' log lines, an invocation, and the SDK's errors as text.

pub(crate) mod error;
pub(crate) mod invoke;
pub(crate) mod logs;
