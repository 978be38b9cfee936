//! What a person has to look at although a run did its work.
//!
//! Promise: after its work, a run that meets one of these fails, so that the alarm on the subscriber's errors rings. A state (a dead
//! letter, an overdue delivery, a document that is cut short, a feed that refuses to be read) fails every run until it is over. A gap or a move is an event, so it fails the runs of [`PERIODS_TOLD`]
//! periods, as many as the alarm needs. Lambda does not retry such a run, and the next run repeats nothing.

use std::{fmt, time::Duration};

use ichido::Timestamp;

/// A delivery that is owed for longer than this is overdue. A feed may refuse to be read for as long.
const OVERDUE: Duration = Duration::from_secs(3_600);
/// For how many periods of the alarm a gap or a move is told. The alarm looks at four.
const PERIODS_TOLD: u32 = 4;

/// Something that a person has to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Deliveries were given up, and nobody has sent them again or dropped them.
    DeadLetters,
    /// How many minutes a delivery has been owed.
    Overdue { minutes: u64 },
    /// The document was cut short or is broken: what comes after that place was not read.
    CutShort,
    /// For how many minutes the feed has asked to be left alone, at every attempt to read it.
    Unread { minutes: u64 },
    /// How many minutes ago a read contained no entry that we knew.
    Gap { minutes: u64 },
    /// How many minutes ago the feed was first seen to redirect permanently.
    Moved { minutes: u64 },
}

/// What a run has seen.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    /// Whether there is a dead letter.
    pub(crate) dead_letters: bool,
    /// Since when the oldest owed entry is owed.
    pub(crate) oldest_owed: Option<Timestamp>,
    /// Whether the document was cut short.
    pub(crate) cut_short: bool,
    /// Since when the feed asks to be left alone.
    pub(crate) refused_since: Option<Timestamp>,
    pub(crate) gap_at: Option<Timestamp>,
    pub(crate) moved_at: Option<Timestamp>,
}

impl Seen {
    /// All troubles of a run, the worst first. `period` is that of the alarm.
    pub(crate) fn troubles(&self, now: Timestamp, period: Duration) -> Vec<Trouble> {
        let minutes = |since: Timestamp| now.since(since).as_secs() / 60;
        let long = |since: &Timestamp| now.since(*since) > OVERDUE;
        let told = |at: &Timestamp| now.since(*at) < period * PERIODS_TOLD;
        let troubles = [
            self.dead_letters.then_some(Trouble::DeadLetters),
            self.oldest_owed.filter(long).map(|since| Trouble::Overdue { minutes: minutes(since) }),
            self.cut_short.then_some(Trouble::CutShort),
            self.refused_since.filter(long).map(|since| Trouble::Unread { minutes: minutes(since) }),
            self.gap_at.filter(told).map(|at| Trouble::Gap { minutes: minutes(at) }),
            self.moved_at.filter(told).map(|at| Trouble::Moved { minutes: minutes(at) }),
        ];
        troubles.into_iter().flatten().collect()
    }
}

impl Trouble {
    /// The `errorType` of the invocation: stable, for people and alarms.
    pub fn kind(self) -> &'static str {
        match self {
            Trouble::DeadLetters => "DeadLetters",
            Trouble::Overdue { .. } => "Overdue",
            Trouble::CutShort => "CutShort",
            Trouble::Unread { .. } => "Unread",
            Trouble::Gap { .. } => "Gap",
            Trouble::Moved { .. } => "Moved",
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::DeadLetters => f.write_str("deliveries were given up; send them again or drop them"),
            Trouble::Overdue { minutes } => write!(
                f,
                "a delivery has been owed for {minutes} minutes; the notifier's log says which destination does not take it"
            ),
            Trouble::CutShort => f.write_str(
                "the document is cut short or broken: what comes after that place was not read (`ichidoctl feeds preview` shows where)",
            ),
            Trouble::Unread { minutes } => write!(
                f,
                "the feed has not been read for {minutes} minutes, because it answers 429 or 503 with Retry-After; give it a longer period"
            ),
            Trouble::Moved { minutes } => write!(
                f,
                "the feed has redirected permanently to another address for {minutes} minutes; change its address (`ichidoctl feeds preview` shows the new one)"
            ),
            Trouble::Gap { minutes } => {
                write!(
                    f,
                    "the feed, read {minutes} minutes ago, contained no entry that we knew; look on the site for entries that were missed"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(300);

    fn at(minutes: u64) -> Timestamp {
        Timestamp::from_secs(60 * minutes)
    }

    #[test]
    fn a_delivery_is_overdue_after_an_hour() {
        let seen = Seen { oldest_owed: Some(at(40)), ..Seen::default() };
        assert_eq!(seen.troubles(at(100), PERIOD), []);
        assert_eq!(seen.troubles(at(101), PERIOD), [Trouble::Overdue { minutes: 61 }]);
    }

    #[test]
    fn a_feed_that_refuses_to_be_read_is_told_after_an_hour() {
        let seen = Seen { refused_since: Some(at(40)), ..Seen::default() };
        assert_eq!(seen.troubles(at(100), PERIOD), []);
        assert_eq!(seen.troubles(at(101), PERIOD), [Trouble::Unread { minutes: 61 }]);
    }

    #[test]
    fn a_gap_is_told_for_four_periods() {
        let seen = Seen { gap_at: Some(at(100)), ..Seen::default() };
        let told = |now| !seen.troubles(at(now), PERIOD).is_empty();
        assert_eq!([100, 105, 110, 115, 120].map(told), [true, true, true, true, false]);
    }

    #[test]
    fn the_worst_comes_first() {
        let seen = Seen {
            dead_letters: true,
            oldest_owed: Some(at(0)),
            cut_short: true,
            refused_since: Some(at(1)),
            gap_at: Some(at(195)),
            moved_at: Some(at(195)),
        };
        assert_eq!(
            seen.troubles(at(200), PERIOD).iter().map(|trouble| trouble.kind()).collect::<Vec<_>>(),
            ["DeadLetters", "Overdue", "CutShort", "Unread", "Gap", "Moved"]
        );
    }
}
