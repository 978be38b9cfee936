//! The time of this machine, and times and durations as the data files and the JSON answers hold them.

use std::time::Duration;

use ichido::{Clock, SystemClock, Timestamp};

/// The time in epoch milliseconds.
pub(crate) fn now_ms() -> u64 {
    SystemClock.now().as_millis()
}

/// Epoch milliseconds as RFC 3339.
pub(crate) fn rfc3339(ms: u64) -> String {
    Timestamp::from_millis(ms).to_string()
}

/// A duration in milliseconds with two decimals, as the console shows it.
pub(crate) fn shown_ms(duration: Duration) -> f64 {
    telemetry::metric::rounded_millis(duration, 2)
}
