//! Decides when to stop asking a store that does not answer.
//!
//! Every decision is made by the clock at the time of a call. There is no timer, because a Lambda that is frozen between
//! invocations would not fire it.

use std::time::Duration;

use crate::clock::Timestamp;

/// How many transient failures in a row open the breaker.
pub const DEFAULT_FAILURES_TO_OPEN: u32 = 3;

/// How long an open breaker waits before it lets one call try the store.
pub const DEFAULT_PROBE_INTERVAL: Duration = Duration::from_secs(60);

/// May this call ask the store?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    Pass,
    /// The breaker is open. No call may ask the store before this time.
    Blocked {
        until: Timestamp,
    },
}

#[derive(Debug)]
pub(crate) struct Breaker {
    failures_to_open: u32,
    probe_interval: Duration,
    failures: u32,
    /// Set while the breaker is open.
    next_probe: Option<Timestamp>,
}

impl Breaker {
    pub(crate) fn new(failures_to_open: u32, probe_interval: Duration) -> Self {
        Self { failures_to_open: failures_to_open.max(1), probe_interval, failures: 0, next_probe: None }
    }

    /// Asks to pass. If the breaker is open, the first call at or after the probe time passes, and the others are blocked
    /// until the store has answered it or the next probe time comes.
    pub(crate) fn gate(&mut self, now: Timestamp) -> Gate {
        match self.next_probe {
            None => Gate::Pass,
            // A clock that was set back must not keep the breaker open for longer than the interval.
            Some(until) if now < until && until.since(now) <= self.probe_interval => Gate::Blocked { until },
            Some(_) => {
                self.next_probe = Some(now + self.probe_interval);
                Gate::Pass
            }
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.next_probe.is_some()
    }

    /// When an open breaker lets the next call pass.
    pub(crate) fn next_probe(&self) -> Option<Timestamp> {
        self.next_probe
    }

    /// The store answered; a refusal is an answer too. True if that closed the breaker.
    pub(crate) fn answered(&mut self) -> bool {
        self.failures = 0;
        self.next_probe.take().is_some()
    }

    /// The store failed with a transient error. True if that opened the breaker.
    pub(crate) fn failed(&mut self, now: Timestamp) -> bool {
        let was_open = self.is_open();
        self.failures = self.failures.saturating_add(1);
        if was_open || self.failures >= self.failures_to_open {
            self.next_probe = Some(now + self.probe_interval);
        }
        !was_open && self.is_open()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_not_before() {
        let mut breaker = Breaker::new(3, Duration::from_secs(60));
        assert!(!breaker.failed(at(0)));
        assert!(!breaker.failed(at(0)));
        assert!(!breaker.answered());
        assert!(!breaker.failed(at(1)));
        assert!(!breaker.failed(at(1)));
        assert!(breaker.failed(at(1)));
        assert_eq!(breaker.gate(at(2)), Gate::Blocked { until: at(61) });
    }

    #[test]
    fn one_call_probes_when_the_interval_is_over() {
        let mut breaker = Breaker::new(1, Duration::from_secs(60));
        assert!(breaker.failed(at(0)));
        assert_eq!(breaker.gate(at(59)), Gate::Blocked { until: at(60) });
        assert_eq!(breaker.gate(at(60)), Gate::Pass);
        assert_eq!(breaker.gate(at(60)), Gate::Blocked { until: at(120) });
        assert!(!breaker.failed(at(61)), "it is open already");
        assert_eq!(breaker.gate(at(120)), Gate::Blocked { until: at(121) });
        assert_eq!(breaker.gate(at(121)), Gate::Pass);
        assert!(breaker.answered());
        assert_eq!(breaker.gate(at(121)), Gate::Pass);
    }
}
