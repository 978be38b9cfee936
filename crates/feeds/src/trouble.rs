//! What a person has to look at although a run did its work.
//!
//! Promise: after its work, a run that meets one of these fails, so that the alarm on the subscriber's errors rings. A state (a dead
//! letter, an overdue delivery) fails every run until it is over. A gap or a move is an event, so it fails the runs of [`PERIODS_TOLD`]
//! periods, as many as the alarm needs. Lambda does not retry such a run, and the next run repeats nothing.

use std::{fmt, time::Duration};

use ichido::Timestamp;

/// A delivery that is owed for longer than this is overdue.
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
    /// How many minutes ago a read contained no entry that we knew.
    Gap { minutes: u64 },
    /// How many minutes ago the feed was first seen to redirect permanently.
    Moved { minutes: u64 },
}

impl Trouble {
    /// All troubles of a run, the worst first.
    pub(crate) fn of(
        now: Timestamp,
        period: Duration,
        dead_letters: bool,
        oldest_owed: Option<Timestamp>,
        gap_at: Option<Timestamp>,
        moved_at: Option<Timestamp>,
    ) -> Vec<Self> {
        let minutes = |since: Timestamp| now.since(since).as_secs() / 60;
        let overdue = oldest_owed.filter(|since| now.since(*since) > OVERDUE);
        let told = |at: &Timestamp| now.since(*at) < period * PERIODS_TOLD;
        let troubles = [
            dead_letters.then_some(Trouble::DeadLetters),
            overdue.map(|since| Trouble::Overdue { minutes: minutes(since) }),
            gap_at.filter(told).map(|at| Trouble::Gap { minutes: minutes(at) }),
            moved_at.filter(told).map(|at| Trouble::Moved { minutes: minutes(at) }),
        ];
        troubles.into_iter().flatten().collect()
    }

    /// The `errorType` of the invocation: stable, for people and alarms.
    pub fn kind(self) -> &'static str {
        match self {
            Trouble::DeadLetters => "DeadLetters",
            Trouble::Overdue { .. } => "Overdue",
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
        assert_eq!(Trouble::of(at(100), PERIOD, false, Some(at(40)), None, None), []);
        assert_eq!(Trouble::of(at(101), PERIOD, false, Some(at(40)), None, None), [Trouble::Overdue { minutes: 61 }]);
    }

    #[test]
    fn a_gap_is_told_for_four_periods() {
        let told = |now| !Trouble::of(at(now), PERIOD, false, None, Some(at(100)), None).is_empty();
        assert_eq!([100, 105, 110, 115, 120].map(told), [true, true, true, true, false]);
    }

    #[test]
    fn the_worst_comes_first() {
        let all = Trouble::of(at(200), PERIOD, true, Some(at(0)), Some(at(195)), Some(at(195)));
        assert_eq!(
            all.iter().map(|trouble| trouble.kind()).collect::<Vec<_>>(),
            ["DeadLetters", "Overdue", "Gap", "Moved"]
        );
    }
}
