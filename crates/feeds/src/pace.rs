//! How soon a feed is read again.
//!
//! A feed that says `Retry-After` is left alone for that long, always. A feed that is fresh for longer than the
//! schedule's period (`Cache-Control: max-age`) is left alone until it may have changed, always. With `ADAPTIVE=on`
//! a feed that was quiet for long, or that says itself how often it changes, is read less often. All of it is
//! bounded, and all of it is one moment in the feed's state: `not_before`.

use std::time::Duration;

use ichido::Timestamp;

/// Longest that a `Retry-After` is believed.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3_600);
/// Longest that a `max-age` is believed.
pub const MAX_FRESH: Duration = Duration::from_secs(3_600);
/// Longest pause of adaptive reading, unless configured otherwise.
pub const DEFAULT_LONGEST: Duration = Duration::from_secs(2 * 3_600);
/// A quiet feed is read once in this part of the time that it has been quiet.
const QUIET_PART: u32 = 12;
/// Runs come a little early or late; a pause that ends this soon after a run should not cost the run.
const SLACK: Duration = Duration::from_secs(30);

/// The rules for one feed.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub adaptive: bool,
    /// The schedule's period: how often runs come.
    pub period: Duration,
    pub longest: Duration,
}

/// What is known after a reading.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reading {
    /// When something new was last seen.
    pub news_at: Option<Timestamp>,
    /// How long the answer is fresh.
    pub fresh_for: Option<Duration>,
    /// How often the feed says that it changes.
    pub period: Option<Duration>,
}

impl Pace {
    /// When the feed is to be read next, if that is later than the next run.
    pub fn not_before(&self, now: Timestamp, reading: Reading) -> Option<Timestamp> {
        let mut pause = reading.fresh_for.unwrap_or_default().min(MAX_FRESH);
        if self.adaptive {
            let quiet = reading.news_at.map_or(Duration::ZERO, |at| now.since(at)) / QUIET_PART;
            let asked = reading.period.unwrap_or_default();
            pause = pause.max(quiet.max(asked).min(self.longest));
        }
        (pause > self.period + SLACK).then(|| (now + pause).saturating_sub(SLACK))
    }

    /// When a feed that asked for it is to be read next.
    pub fn after(&self, now: Timestamp, wait: Duration) -> Timestamp {
        now + wait.min(MAX_RETRY_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_000_000);
    const MINUTE: Duration = Duration::from_secs(60);

    fn pace(adaptive: bool) -> Pace {
        Pace { adaptive, period: 5 * MINUTE, longest: DEFAULT_LONGEST }
    }

    fn quiet(hours: u64) -> Reading {
        Reading { news_at: Some(NOW.saturating_sub(Duration::from_secs(hours * 3_600))), ..Reading::default() }
    }

    #[test]
    fn without_adaptive_reading_a_quiet_feed_is_read_in_every_run() {
        assert_eq!(pace(false).not_before(NOW, quiet(1_000)), None);
    }

    #[test]
    fn a_quiet_feed_is_read_less_often_within_bounds() {
        assert_eq!(pace(true).not_before(NOW, quiet(0)), None);
        assert_eq!(pace(true).not_before(NOW, quiet(12)), Some((NOW + 60 * MINUTE).saturating_sub(SLACK)));
        assert_eq!(pace(true).not_before(NOW, quiet(10_000)), Some((NOW + DEFAULT_LONGEST).saturating_sub(SLACK)));
    }

    #[test]
    fn a_feed_that_asks_for_it_is_read_less_often_within_bounds() {
        let asks = Reading { period: Some(Duration::from_secs(86_400)), ..Reading::default() };
        assert_eq!(pace(true).not_before(NOW, asks), Some((NOW + DEFAULT_LONGEST).saturating_sub(SLACK)));
        assert_eq!(pace(false).not_before(NOW, asks), None);
    }

    #[test]
    fn freshness_is_honoured_always_and_believed_for_an_hour_at_most() {
        let fresh = |minutes| Reading { fresh_for: Some(minutes * MINUTE), ..Reading::default() };
        assert_eq!(pace(false).not_before(NOW, fresh(5)), None);
        assert_eq!(pace(false).not_before(NOW, fresh(20)), Some((NOW + 20 * MINUTE).saturating_sub(SLACK)));
        assert_eq!(pace(false).not_before(NOW, fresh(10_000)), Some((NOW + MAX_FRESH).saturating_sub(SLACK)));
    }
}
