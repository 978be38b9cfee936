//! The time of this machine, and how it is written.

/// Epoch milliseconds as RFC 3339.
pub(crate) fn rfc3339(ms: u64) -> String {
    ichido::Timestamp::from_millis(ms).to_string()
}

/// Epoch milliseconds.
pub(crate) fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
