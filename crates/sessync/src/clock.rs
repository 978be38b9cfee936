//! Time, handed in. Everything that decides by the time or waits asks a [`Clock`], so that a test can decide both.
//! The exceptions use the machine's clock: the credentials for the life of their tokens (`outside/auth.rs`), the HTTP client for the
//! time limit of a request (`outside/transport.rs`), the library for its claims in the shared state (`outside/shared.rs`), and the
//! thread that ends a run with `--auto` (`command/mod.rs`).

use std::fmt;
use std::future::Future;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A point in time: milliseconds since 1970. The journal stores it as that number.
///
/// It is signed, unlike [`ichido::Timestamp`], because a log line can name any time, also one before 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub i64);

impl Time {
    /// Days since 1970, never negative.
    pub fn day(self) -> u32 {
        u32::try_from(self.0.div_euclid(24 * 60 * 60 * 1000)).unwrap_or(0)
    }

    /// How long ago `earlier` was; zero if it is not earlier.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The time that an RFC 3339 text names.
    pub fn parse(text: &str) -> Option<Time> {
        text.parse::<jiff::Timestamp>().ok().map(|time| Time(time.as_millisecond()))
    }
}

/// A time before 1970 becomes 1970.
impl From<Time> for ichido::Timestamp {
    fn from(time: Time) -> Self {
        Self::from_millis(u64::try_from(time.0).unwrap_or(0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (u64::try_from(self.0), jiff::Timestamp::from_millisecond(self.0)) {
            (Ok(millis), _) => ichido::Timestamp::from_millis(millis).fmt(f),
            (Err(_), Ok(before_1970)) => write!(f, "{before_1970:.3}"),
            (Err(_), Err(_)) => write!(f, "{} ms", self.0),
        }
    }
}

/// Where time comes from.
pub trait Clock: Sync {
    /// The time of the wall clock. It can jump.
    fn now(&self) -> Time;
    /// The time since a fixed moment. It never jumps.
    fn elapsed(&self) -> Duration;
    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send;
}

/// The machine's clock.
#[derive(Debug, Clone)]
pub(crate) struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}
