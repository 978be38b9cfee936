//! Simulated time: tokio's paused clock, which jumps to the next timer when every task waits for one.

use std::time::Duration;

use ichido::{Clock, Sleep, Timestamp};
use tokio::time::Instant;

/// The time of a new clock: 2026-01-01T00:00:00Z in milliseconds. Any fixed time would do.
const START_MS: u64 = 1_767_225_600_000;

/// The time of one run. Clones are the same clock.
#[derive(Debug, Clone, Copy)]
pub struct Simulated {
    began: Instant,
}

impl Simulated {
    /// A clock that begins now. It must be made on a runtime whose time is paused.
    #[must_use]
    pub fn begin() -> Self {
        Self { began: Instant::now() }
    }

    /// How much simulated time has passed.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

impl Clock for Simulated {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(START_MS) + self.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// The same for sessync, which has a clock of its own.
impl sessync::clock::Clock for Simulated {
    fn now(&self) -> sessync::clock::Time {
        sessync::clock::Time(i64::try_from(Clock::now(self).as_millis()).unwrap_or(i64::MAX))
    }

    fn elapsed(&self) -> Duration {
        Simulated::elapsed(self)
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}
