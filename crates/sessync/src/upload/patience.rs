//! How long to go on, and how long to wait between two attempts.

use std::time::Duration;

use crate::clock::Clock;

/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The first wait is at most this long, the second at most twice as long, ...
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
/// ... up to this.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// How long to go on.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// By [`Clock::elapsed`].
    pub until: Duration,
}

impl Patience {
    /// The time that is left for one request.
    pub(super) fn request<C: Clock>(self, clock: &C) -> Duration {
        self.left(clock).min(REQUEST_TIMEOUT)
    }

    pub(crate) fn left<C: Clock>(self, clock: &C) -> Duration {
        self.until.saturating_sub(clock.elapsed())
    }

    pub(super) fn is_over<C: Clock>(self, clock: &C) -> bool {
        self.left(clock).is_zero()
    }
}

/// The waits between attempts: each twice as long as the one before, with jitter, and never shorter than the other side asks.
#[derive(Debug)]
pub(super) struct Backoff {
    attempt: u32,
    pub(super) rng: fastrand::Rng,
}

impl Backoff {
    pub(super) fn new(seed: u64) -> Self {
        Backoff { attempt: 0, rng: fastrand::Rng::with_seed(seed) }
    }

    fn next(&mut self, asked: Option<Duration>) -> Duration {
        let most = FIRST_BACKOFF.saturating_mul(1 << self.attempt.min(10)).min(MAX_BACKOFF);
        self.attempt += 1;
        let jittered = most.mul_f64(0.5 + self.rng.f64() / 2.0);
        asked.map_or(jittered, |asked| asked.max(jittered))
    }

    /// Waits. False: there is not enough time left for it.
    pub(super) async fn wait<C: Clock>(&mut self, asked: Option<Duration>, patience: Patience, clock: &C) -> bool {
        let time = self.next(asked);
        if time >= patience.left(clock) {
            return false;
        }
        clock.sleep(time).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_with_jitter_and_are_never_shorter_than_asked() {
        let mut backoff = Backoff::new(1);
        let waits: Vec<Duration> = (0..12).map(|_| backoff.next(None)).collect();
        for (at, wait) in waits.iter().enumerate() {
            let most = FIRST_BACKOFF.saturating_mul(1 << at.min(10)).min(MAX_BACKOFF);
            assert!(*wait <= most && *wait >= most / 2, "{at}: {wait:?}");
        }
        assert_eq!(backoff.next(Some(Duration::from_secs(99))), Duration::from_secs(99));
    }
}
