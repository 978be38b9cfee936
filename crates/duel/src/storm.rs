//! The storm: which fault a call meets. It is a pure function of the seed and of the event, the delivery and the call, so that every
//! handler meets the same faults, and the same seed always gives the same storm.

use std::ops::Range;
use std::time::Duration;

use serde::Serialize;

/// How long a worker has for one delivery, as on Lambda. It is also how long its claim lasts.
pub const TIME_LIMIT: Duration = Duration::from_millis(1500);
/// How long after a delivery an event is delivered again, if nobody has acknowledged it. By then the claim of a worker that died can be
/// taken over: that is [`TIME_LIMIT`] and [`ichido::MAX_CLOCK_SKEW`] after the delivery.
pub const REDELIVERY: Duration = Duration::from_millis(4000);
/// How often a worker's AWS SDK tries a call in all. Their defaults differ, so every handler sets this.
pub const SDK_ATTEMPTS: u32 = 3;
/// How often an event is delivered at most.
pub const MAX_DELIVERIES: u32 = 10;
/// How long the answer is held back that lets a worker outlive its lease: until another worker has had its turn.
pub const HELD_BACK: Duration = Duration::from_millis(5000);
/// The shortest duel. An event whose worker dies needs [`REDELIVERY`] more.
pub const MIN_SECONDS: u64 = 10;
/// The longest duel.
pub const MAX_SECONDS: u64 = 3600;

/// The largest seed: the page is JavaScript, which rounds larger numbers.
pub const MAX_SEED: u64 = (1 << 53) - 1;

/// What happens at one call of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Fault {
    /// The worker is killed; the call is not performed.
    DieBefore,
    /// The call is performed; the worker is killed before the answer.
    DieAfter,
    /// The call is performed; its answer is lost.
    LoseAnswer,
    /// The call is refused because there are too many.
    Throttle,
    /// The call is performed; its answer comes when the worker's lease has ended and another worker has had its turn.
    Outlive,
    /// The call is performed; its answer does not come, and the worker is killed at its time limit.
    TimeLimit,
    /// The store is down.
    StoreDown,
}

/// What happens to a delivery: one fault, at this call and maybe at some of the following ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    fault: Fault,
    first: u32,
    calls: u32,
}

/// All faults of one duel.
#[derive(Clone, Copy, Debug)]
pub struct Storm {
    seed: u64,
    /// In how many waves of deliveries an event meets faults. Later ones are calm, so that every event can be done in time.
    faulty_waves: u32,
}

impl Storm {
    /// The storm of this seed. A short duel leaves out the faults that an event would meet late in its life.
    #[must_use]
    pub fn new(seed: u64, seconds: u64) -> Self {
        Self { seed, faulty_waves: (seconds / 10).clamp(1, 3) as u32 }
    }

    /// How long new events are sent. The rest of the time is for those that are delivered again.
    #[must_use]
    pub fn sending(&self, seconds: u64) -> Duration {
        let rest = REDELIVERY * self.faulty_waves + Duration::from_millis(1500);
        Duration::from_secs(seconds).saturating_sub(rest + self.outage(seconds).map_or(Duration::ZERO, length))
    }

    /// When the store is down, counted from the start. A short duel has a short outage.
    #[must_use]
    pub fn outage(&self, seconds: u64) -> Option<Range<Duration>> {
        let calm = Duration::from_secs(seconds).saturating_sub(REDELIVERY * (self.faulty_waves + 1));
        let lasts = (calm / 8).min(REDELIVERY);
        let mut random = self.random(0, 0);
        let from = calm.mul_f64(0.35 + 0.2 * random.f64());
        (lasts >= Duration::from_millis(100)).then_some(from..from + lasts)
    }

    /// How many copies of an event are delivered at once.
    #[must_use]
    pub fn copies(&self, event: u32) -> u32 {
        match self.random(event, 0).u32(0..100) {
            0..10 => 3,
            10..30 => 2,
            _ => 1,
        }
    }

    /// What happens at this call. Deliveries and calls are counted from 1; a retry by the SDK is a call of its own.
    #[must_use]
    pub fn fault(&self, event: u32, delivery: u32, call: u32) -> Option<Fault> {
        let plan = self.plan(event, delivery)?;
        (plan.first..plan.first + plan.calls).contains(&call).then_some(plan.fault)
    }

    fn plan(&self, event: u32, delivery: u32) -> Option<Plan> {
        let wave = 1 + delivery.saturating_sub(self.copies(event));
        let mut random = self.random(event, delivery);
        let strikes = random.u32(0..100) < if wave == 1 { 45 } else { 35 };
        if !strikes || wave > self.faulty_waves {
            return None;
        }
        // Look or claim, act, record: each handler makes three calls if nothing goes wrong. One that takes over asks before it acts.
        let first = random.u32(1..=4);
        let (fault, calls) = match random.u32(0..100) {
            0..12 => (Fault::DieBefore, 1),
            12..40 => (Fault::DieAfter, 1),
            // As many as the SDKs try are a failed call.
            40..60 => (Fault::LoseAnswer, if random.bool() { 1 } else { SDK_ATTEMPTS }),
            60..76 => (Fault::Throttle, random.u32(1..=4)),
            76..90 => (Fault::Outlive, 1),
            _ => (Fault::TimeLimit, 1),
        };
        Some(Plan { fault, first, calls })
    }

    fn random(&self, event: u32, delivery: u32) -> fastrand::Rng {
        let place = (u64::from(event) << 32) | u64::from(delivery);
        fastrand::Rng::with_seed(mix(mix(self.seed) ^ mix(place)))
    }
}

fn length(range: Range<Duration>) -> Duration {
    range.end - range.start
}

/// Spreads neighbouring numbers over all numbers (the finalizer of SplitMix64).
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all(storm: &Storm) -> Vec<(u32, Option<Fault>)> {
        let mut met = Vec::new();
        for event in 1..=300 {
            for delivery in 1..=MAX_DELIVERIES {
                met.extend((1..=6).map(|call| (storm.copies(event), storm.fault(event, delivery, call))));
            }
        }
        met
    }

    #[test]
    fn the_same_seed_gives_the_same_faults_and_another_seed_gives_others() {
        assert_eq!(all(&Storm::new(7, 90)), all(&Storm::new(7, 90)));
        assert_ne!(all(&Storm::new(7, 90)), all(&Storm::new(8, 90)));
        assert_eq!(Storm::new(7, 90).outage(90), Storm::new(7, 90).outage(90));
        assert_ne!(Storm::new(7, 90).outage(90), Storm::new(8, 90).outage(90));
    }

    #[test]
    fn a_seed_never_changes_its_meaning() {
        let met: Vec<_> = (1..=40)
            .filter_map(|event| (1..=4).find_map(|call| Some((event, call, Storm::new(7, 90).fault(event, 1, call)?))))
            .take(4)
            .collect();
        let known =
            [(1, 1, Fault::DieBefore), (2, 3, Fault::DieAfter), (5, 2, Fault::Throttle), (10, 1, Fault::DieBefore)];
        assert_eq!(met, known);
    }

    #[test]
    fn every_kind_of_fault_strikes_at_each_of_the_four_calls() {
        let storm = Storm::new(7, 90);
        let mut kinds = BTreeSet::new();
        for event in 1..=600 {
            kinds.extend((1..=4).filter_map(|call| Some((call, storm.fault(event, 1, call)?))));
        }
        assert_eq!(kinds.len(), 4 * 6, "{kinds:?}");
    }

    #[test]
    fn every_event_has_calm_deliveries_left_and_the_sending_ends_in_time() {
        for seconds in [MIN_SECONDS, 19, 20, 29, 30, 90, MAX_SECONDS] {
            let storm = Storm::new(3, seconds);
            let sending = storm.sending(seconds);
            let outage = storm.outage(seconds).expect("an outage");
            assert!(sending >= Duration::from_secs(1), "{seconds}: {sending:?}");
            assert!(outage.end < sending + REDELIVERY, "{seconds}: {outage:?} {sending:?}");
            for event in 1..=500 {
                let faulty = storm.copies(event) + storm.faulty_waves - 1;
                let calm = (faulty + 1..=MAX_DELIVERIES)
                    .all(|delivery| (1..=9).all(|call| storm.fault(event, delivery, call).is_none()));
                assert!(calm && faulty + 4 <= MAX_DELIVERIES, "event {event}");
            }
        }
    }
}
