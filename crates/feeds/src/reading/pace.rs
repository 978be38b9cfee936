//! When a feed is read again.
//!
//! A feed that sends `Retry-After` is not read before that time. A feed that is fresh for longer than the schedule's period
//! (`Cache-Control: max-age`) is not read while it is fresh. With `ADAPTIVE=on` a feed is read less often if it was quiet for
//! long, or if it says itself that it changes rarely. Every pause has an upper limit, and the result is one time in the feed's
//! state: `not_before`.

use std::time::Duration;

use ichido::Timestamp;

/// Longest `Retry-After` that is followed.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3_600);
/// Longest `max-age` that is followed.
const MAX_FRESH: Duration = Duration::from_secs(3_600);
/// Longest pause with `ADAPTIVE=on`, unless configured.
pub const DEFAULT_LONGEST: Duration = Duration::from_secs(2 * 3_600);
/// A feed that was quiet for twelve hours is read every hour, and so on: the pause is this part of the quiet time.
const QUIET_PART: u32 = 12;
/// Runs start a little early or late. A pause ends this much earlier, so that the next run does not just miss it.
const SLACK: Duration = Duration::from_secs(30);

/// The rules for one feed.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub adaptive: bool,
    /// How often the feed is to be read.
    pub period: Duration,
    /// How often runs happen, which is more often if the period is long: a run also tries again what is owed.
    pub run_every: Duration,
    /// Longest pause with `adaptive`.
    pub longest: Duration,
}

/// What a read says about when to read next.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hints {
    /// When a new entry was last seen.
    pub(crate) news_at: Option<Timestamp>,
    /// How long the answer is fresh.
    pub(crate) fresh_for: Option<Duration>,
    /// How often the feed says that it changes.
    pub(crate) period: Option<Duration>,
}

impl Pace {
    /// When to read the feed next, if that is later than the next run.
    pub(crate) fn not_before(&self, now: Timestamp, hints: Hints) -> Option<Timestamp> {
        let mut pause = hints.fresh_for.unwrap_or_default().min(MAX_FRESH);
        if self.period > self.run_every {
            pause = pause.max(self.period);
        }
        if self.adaptive {
            let quiet = hints.news_at.map_or(Duration::ZERO, |at| now.since(at)) / QUIET_PART;
            let asked = hints.period.unwrap_or_default();
            pause = pause.max(quiet.max(asked).min(self.longest));
        }
        (pause > self.run_every + SLACK).then(|| (now + pause).saturating_sub(SLACK))
    }

    /// When to read a feed next that asked to be left alone for so long.
    pub(crate) fn after(&self, now: Timestamp, wait: Duration) -> Timestamp {
        now + wait.min(MAX_RETRY_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_000_000);
    const MINUTE: Duration = Duration::from_secs(60);

    fn pace(adaptive: bool) -> Pace {
        Pace { adaptive, period: 5 * MINUTE, run_every: 5 * MINUTE, longest: DEFAULT_LONGEST }
    }

    #[test]
    fn a_feed_with_more_runs_than_reads_is_read_once_per_period() {
        let hourly = Pace { period: 60 * MINUTE, run_every: 15 * MINUTE, ..pace(false) };
        assert_eq!(hourly.not_before(NOW, quiet(0)), Some((NOW + 60 * MINUTE).saturating_sub(SLACK)));
    }

    fn quiet(hours: u64) -> Hints {
        Hints { news_at: Some(NOW.saturating_sub(Duration::from_secs(hours * 3_600))), ..Hints::default() }
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
        let asks = Hints { period: Some(Duration::from_secs(86_400)), ..Hints::default() };
        assert_eq!(pace(true).not_before(NOW, asks), Some((NOW + DEFAULT_LONGEST).saturating_sub(SLACK)));
        assert_eq!(pace(false).not_before(NOW, asks), None);
    }

    #[test]
    fn freshness_is_honoured_always_and_believed_for_an_hour_at_most() {
        let fresh = |minutes| Hints { fresh_for: Some(minutes * MINUTE), ..Hints::default() };
        assert_eq!(pace(false).not_before(NOW, fresh(5)), None);
        assert_eq!(pace(false).not_before(NOW, fresh(20)), Some((NOW + 20 * MINUTE).saturating_sub(SLACK)));
        assert_eq!(pace(false).not_before(NOW, fresh(10_000)), Some((NOW + MAX_FRESH).saturating_sub(SLACK)));
    }
}
