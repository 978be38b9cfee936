//! What AWS allows: documented limits as named constants ([`aws`]), and a meter that refuses what exceeds them ([`Limits`]).
//!
//! A meter reads the time from the clock that it is given, so a simulation holds applications to AWS's rates without waiting. It counts
//! what it refused, and knows which limit was the first. It is off unless somebody makes one: nothing else in this crate refuses by rate.
//!
//! [`Throttled`] holds a DynamoDB to its limits: units per partition key and per table, sizes, and transactions that meet each other. The
//! other services have no emulation here. Whoever plays them asks the meter ([`Limits::take`], [`Limits::enter`]) and answers with the
//! service's own words ([`Exceeded::answer`]).

pub mod aws;
mod bucket;
mod dynamodb;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use ichido::{Clock, Timestamp};

use bucket::Bucket;
pub use dynamodb::{Latency, Throttled, item_size};

/// A limit, and where its number is documented.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// The name that reports use: `dynamodb-partition-writes`.
    pub name: &'static str,
    /// What is limited: `write units per second and partition key`.
    pub what: &'static str,
    pub bound: Bound,
    /// The document that has the number, and the name of the quota in it.
    pub source: &'static str,
    /// What raises it, or goes around it.
    pub raised_by: &'static str,
    /// What that costs, in ap-northeast-1 (infra/cost/prices.json where it has the price).
    pub price: &'static str,
    pub answer: Answer,
}

impl Limit {
    /// Whether a document says that it refuses what it is asked for here.
    #[must_use]
    pub fn is_quota(&self) -> bool {
        self.bound != Bound::Alone && self.name != aws::LOGS_PUT.name
    }
}

/// How much is allowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// A bucket of tokens: `burst` at once, and `per_second` after that.
    Rate { per_second: f64, burst: f64 },
    /// So many at the same time; `u64::MAX` is no limit.
    AtOnce(u64),
    /// So much in one request: bytes, or a number of parts.
    Size(u64),
    /// One at a time per thing. It is no quota: whoever meets another one tries again.
    Alone,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate { per_second, burst } => write!(f, "{per_second}, {burst} at once"),
            Self::AtOnce(u64::MAX) => f.write_str("none unless it is set"),
            Self::AtOnce(most) | Self::Size(most) => write!(f, "{most}"),
            Self::Alone => f.write_str("one at a time"),
        }
    }
}

/// How AWS says no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// The exception, or the code of a cancellation; empty if there is none.
    pub code: &'static str,
    pub message: &'static str,
}

/// A limit was exceeded.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{} of {of} is exceeded ({}: {}); documented in: {}", .limit.name, .limit.what, .limit.bound, .limit.source)]
pub struct Exceeded {
    pub limit: &'static Limit,
    /// Whose limit it is: a table and a key, a function, a route.
    pub of: String,
}

impl Exceeded {
    /// What AWS answers.
    #[must_use]
    pub fn answer(&self) -> Answer {
        self.limit.answer
    }
}

/// What a limit refused so far.
#[derive(Debug, Clone)]
pub struct Refusals {
    pub limit: &'static Limit,
    /// The number that was in force.
    pub bound: Bound,
    pub count: u64,
    pub first: Timestamp,
    /// Whose limit was exceeded first.
    pub of: String,
}

/// Hears of each refusal.
pub type Observer = Arc<dyn Fn(&Exceeded, Timestamp) + Send + Sync>;

/// The meter. Clones are the same meter.
#[derive(Clone)]
pub struct Limits {
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Limits with another number than AWS's, for everybody or for one; `None` lifts the limit.
    bounds: BTreeMap<(&'static str, Option<String>), Option<Bound>>,
    buckets: BTreeMap<(&'static str, String), Bucket>,
    at_once: BTreeMap<(&'static str, String), u64>,
    refusals: Vec<Refusals>,
    observer: Option<Observer>,
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits").field("refusals", &self.lock().refusals).finish_non_exhaustive()
    }
}

impl Limits {
    /// A meter with AWS's own numbers.
    pub fn new(clock: impl Clock) -> Self {
        Self { clock: Arc::new(clock), state: Arc::default() }
    }

    /// Replaces the number of a limit: an account with a higher quota, or a test that cannot send so much.
    pub fn set(&self, limit: &'static Limit, bound: Bound) {
        self.lock().bounds.insert((limit.name, None), Some(bound));
    }

    /// The same for one thing, such as a route.
    pub fn set_for(&self, limit: &'static Limit, of: &str, bound: Bound) {
        self.lock().bounds.insert((limit.name, Some(of.to_owned())), Some(bound));
    }

    /// From now on there is no such limit.
    pub fn lift(&self, limit: &'static Limit) {
        let mut state = self.lock();
        state.bounds.retain(|(name, _), _| *name != limit.name);
        state.bounds.insert((limit.name, None), None);
    }

    /// Calls `observer` at each refusal from now on.
    pub fn observe(&self, observer: Observer) {
        self.lock().observer = Some(observer);
    }

    /// Takes `amount` of a rate.
    ///
    /// # Errors
    /// When there is not so much. Then nothing is taken, and the refusal is counted.
    pub fn take(&self, limit: &'static Limit, of: &str, amount: f64) -> Result<(), Exceeded> {
        self.take_all(&[(limit, of.to_owned(), amount)]).map_err(|mut short| short.swap_remove(0))
    }

    /// The same for somebody who waits for its turn and asks again and again: a refusal is not counted.
    #[must_use]
    pub fn has_taken(&self, limit: &'static Limit, of: &str, amount: f64) -> bool {
        let now = self.clock.now();
        self.lock().take_or_tell(&[(limit, of.to_owned(), amount)], now).is_empty()
    }

    /// Takes all of these or none of them. What is wanted of the same limit and thing is added up.
    ///
    /// # Errors
    /// Each limit that was short. Each of them is counted.
    pub fn take_all(&self, wanted: &[(&'static Limit, String, f64)]) -> Result<(), Vec<Exceeded>> {
        let now = self.clock.now();
        let short = self.lock().take_or_tell(wanted, now);
        if short.is_empty() {
            return Ok(());
        }
        for exceeded in &short {
            self.refuse(exceeded, now);
        }
        Err(short)
    }

    /// Charges a rate for what has been done already, such as the size of an answer. The rate may be overdrawn; then the next ones wait.
    pub fn charge(&self, limit: &'static Limit, of: &str, amount: f64) {
        let now = self.clock.now();
        self.lock().spend(limit, of, amount, now);
    }

    /// Begins something of which only so many may be under way at the same time.
    ///
    /// # Errors
    /// When so many are under way. The refusal is counted.
    pub fn enter(&self, limit: &'static Limit, of: &str) -> Result<Permit, Exceeded> {
        let now = self.clock.now();
        let mut state = self.lock();
        let most = match state.bound(limit, of) {
            None => u64::MAX,
            Some(Bound::AtOnce(most)) => most,
            Some(Bound::Alone) => 1,
            Some(Bound::Rate { .. } | Bound::Size(_)) => 0,
        };
        let under_way = state.at_once.entry((limit.name, of.to_owned())).or_default();
        if *under_way < most {
            *under_way += 1;
            let state = Arc::clone(&self.state);
            return Ok(Permit { state, key: (limit.name, of.to_owned()) });
        }
        drop(state);
        let exceeded = Exceeded { limit, of: of.to_owned() };
        self.refuse(&exceeded, now);
        Err(exceeded)
    }

    /// How many are under way.
    #[must_use]
    pub fn under_way(&self, limit: &'static Limit, of: &str) -> u64 {
        self.lock().at_once.get(&(limit.name, of.to_owned())).copied().unwrap_or_default()
    }

    /// Checks the size of one request.
    ///
    /// # Errors
    /// When it is larger than the limit. The refusal is counted.
    pub fn fits(&self, limit: &'static Limit, of: &str, size: usize) -> Result<(), Exceeded> {
        let most = match self.lock().bound(limit, of) {
            Some(Bound::Size(most)) => usize::try_from(most).unwrap_or(usize::MAX),
            _ => usize::MAX,
        };
        if size <= most {
            return Ok(());
        }
        let exceeded = Exceeded { limit, of: of.to_owned() };
        self.refuse(&exceeded, self.clock.now());
        Err(exceeded)
    }

    /// What was refused, the limit that was exceeded first first.
    #[must_use]
    pub fn refusals(&self) -> Vec<Refusals> {
        self.lock().refusals.clone()
    }

    /// The quota that was exceeded first. Transactions that met each other are no quota, and what is only assumed is none either.
    #[must_use]
    pub fn first(&self) -> Option<Refusals> {
        self.lock().refusals.iter().find(|refusals| refusals.limit.is_quota()).cloned()
    }

    pub(crate) fn refuse(&self, exceeded: &Exceeded, now: Timestamp) {
        let mut state = self.lock();
        match state.refusals.iter_mut().find(|refusals| refusals.limit.name == exceeded.limit.name) {
            Some(refusals) => refusals.count += 1,
            None => {
                let Exceeded { limit, of } = exceeded.clone();
                let bound = state.bound(limit, &of).unwrap_or(limit.bound);
                state.refusals.push(Refusals { limit, bound, count: 1, first: now, of });
            }
        }
        let observer = state.observer.clone();
        drop(state);
        if let Some(observer) = observer {
            observer(exceeded, now);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        telemetry::lock(&self.state)
    }
}

impl State {
    /// The bound of a limit for one thing; `None` if it is lifted.
    fn bound(&self, limit: &Limit, of: &str) -> Option<Bound> {
        let of_one = self.bounds.get(&(limit.name, Some(of.to_owned())));
        of_one.or_else(|| self.bounds.get(&(limit.name, None))).copied().unwrap_or(Some(limit.bound))
    }

    /// Takes all of these, or nothing. Then it tells which limits are short.
    fn take_or_tell(&mut self, wanted: &[(&'static Limit, String, f64)], now: Timestamp) -> Vec<Exceeded> {
        let mut sums: Vec<(&'static Limit, &str, f64)> = Vec::with_capacity(wanted.len());
        for (limit, of, amount) in wanted {
            match sums.iter_mut().find(|(known, whose, _)| known.name == limit.name && whose == of) {
                Some((.., sum)) => *sum += amount,
                None => sums.push((limit, of, *amount)),
            }
        }
        let is_short = |(limit, of, amount): &&(&'static Limit, &str, f64)| !self.has(limit, of, *amount, now);
        let short: Vec<_> =
            sums.iter().filter(is_short).map(|(limit, of, _)| Exceeded { limit, of: (*of).to_owned() }).collect();
        if short.is_empty() {
            for (limit, of, amount) in sums {
                self.spend(limit, of, amount, now);
            }
        }
        short
    }

    fn has(&mut self, limit: &Limit, of: &str, amount: f64, now: Timestamp) -> bool {
        match self.bound(limit, of) {
            Some(Bound::Rate { per_second, burst }) => {
                let bucket = self.buckets.entry((limit.name, of.to_owned())).or_insert(Bucket::full(burst, now));
                bucket.has(amount, per_second, burst, now)
            }
            None => true,
            Some(_) => false,
        }
    }

    fn spend(&mut self, limit: &Limit, of: &str, amount: f64, now: Timestamp) {
        if let Some(Bound::Rate { per_second, burst }) = self.bound(limit, of) {
            let bucket = self.buckets.entry((limit.name, of.to_owned())).or_insert(Bucket::full(burst, now));
            bucket.spend(amount, per_second, burst, now);
        }
    }
}

/// Something is under way until this is dropped.
#[must_use]
pub struct Permit {
    state: Arc<Mutex<State>>,
    key: (&'static str, String),
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("of", &self.key).finish_non_exhaustive()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(under_way) = telemetry::lock(&self.state).at_once.get_mut(&self.key) {
            *under_way = under_way.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use ichido_testkit::ManualClock;

    use super::*;

    #[test]
    fn every_limit_has_a_name_of_its_own_a_source_and_a_way_out() {
        let names: BTreeSet<&str> = aws::ALL.iter().map(|limit| limit.name).collect();
        assert_eq!(names.len(), aws::ALL.len());
        for limit in aws::ALL {
            assert!(!limit.source.is_empty() && !limit.what.is_empty() && !limit.raised_by.is_empty(), "{limit:?}");
            assert!(!limit.price.is_empty(), "{limit:?}");
            assert!(
                limit.answer.status == 400 || limit.answer.status == 413 || limit.answer.status == 429,
                "{limit:?}"
            );
        }
    }

    #[test]
    fn the_prices_are_those_of_the_cost_model() {
        let prices: serde_json::Value =
            serde_json::from_str(include_str!("../../../../infra/cost/prices.json")).expect("JSON");
        let per_million = |name: &str| prices["ap-northeast-1"][name].as_f64().expect("a price") * 1e6;
        let says = |limit: &Limit, price: f64| {
            let shown = format!("${} per million", (price * 1e4).round() / 1e4);
            assert!(limit.price.contains(&shown), "{}: {} has no {shown}", limit.name, limit.price);
        };
        says(&aws::DYNAMODB_PARTITION_WRITES, per_million("dynamodbWrite"));
        says(&aws::DYNAMODB_PARTITION_READS, per_million("dynamodbRead"));
        says(&aws::HTTP_API_ROUTE, per_million("httpApiRequest"));
        says(&aws::APPSYNC_SUBSCRIPTIONS, per_million("appsyncConnectionMinute"));
        says(&aws::APPSYNC_MESSAGE, per_million("appsyncOperation"));
    }

    /// Each documented number is exceeded once, by one, and is met exactly before that.
    #[test]
    fn every_limit_is_met_and_then_refuses_the_next_one() {
        for limit in aws::ALL {
            let clock = ManualClock::held();
            let limits = Limits::new(clock.clone());
            let refused = match limit.bound {
                Bound::Rate { per_second, burst } => {
                    limits.take(limit, "one", burst).expect("the burst");
                    let refused = limits.take(limit, "one", 1.0);
                    limits.take(limit, "another", 1.0).expect("another one is not concerned");
                    clock.advance(Duration::from_secs(1));
                    limits.take(limit, "one", per_second.min(burst)).expect("what a second brings");
                    assert!(limits.take(limit, "one", 1.0).is_err(), "{}", limit.name);
                    refused
                }
                Bound::AtOnce(most) => {
                    let most = if most == u64::MAX { 3 } else { most };
                    limits.set(limit, Bound::AtOnce(most));
                    let mut permits: Vec<Permit> =
                        (0..most).map(|_| limits.enter(limit, "one").expect("free")).collect();
                    let refused = limits.enter(limit, "one").map(drop);
                    permits.pop();
                    drop(limits.enter(limit, "one").expect("free again"));
                    refused
                }
                Bound::Size(most) => {
                    let most = usize::try_from(most).expect("it fits");
                    limits.fits(limit, "one", most).expect("the largest");
                    limits.fits(limit, "one", most + 1)
                }
                Bound::Alone => {
                    let alone = limits.enter(limit, "one").expect("alone");
                    let refused = limits.enter(limit, "one").map(drop);
                    drop(alone);
                    refused
                }
            };
            let refused = refused.expect_err(limit.name);
            assert_eq!((refused.limit.name, refused.of.as_str()), (limit.name, "one"));
            let counted = limits.refusals();
            assert_eq!(counted.len(), 1, "{}", limit.name);
            assert_eq!(limits.first().is_some(), limit.is_quota(), "{}", limit.name);
        }
    }

    #[test]
    fn all_or_nothing_is_taken_and_each_short_limit_is_counted() {
        let limits = Limits::new(ManualClock::held());
        limits.set(&aws::DYNAMODB_PARTITION_WRITES, Bound::Rate { per_second: 10.0, burst: 10.0 });
        let of = |key: &str, units| (&aws::DYNAMODB_PARTITION_WRITES, key.to_owned(), units);
        limits.take_all(&[of("b", 1.0), of("c", 2.0)]).expect("both have ten");
        let short = limits.take_all(&[of("a", 4.0), of("b", 10.0), of("c", 9.0)]).expect_err("too much");
        assert_eq!(short.iter().map(|short| short.of.as_str()).collect::<Vec<_>>(), ["b", "c"]);
        limits.take(&aws::DYNAMODB_PARTITION_WRITES, "a", 10.0).expect("nothing was taken");
        assert_eq!(limits.refusals()[0].count, 2);
        assert_eq!(limits.refusals()[0].of, "b");
    }

    #[test]
    fn what_is_wanted_twice_of_one_thing_is_added_up() {
        let limits = Limits::new(ManualClock::held());
        limits.set(&aws::DYNAMODB_PARTITION_WRITES, Bound::Rate { per_second: 10.0, burst: 10.0 });
        let of = |key: &str, units| (&aws::DYNAMODB_PARTITION_WRITES, key.to_owned(), units);
        limits.take_all(&[of("a", 1.0)]).expect("there are ten");
        let short = limits.take_all(&[of("a", 5.0), of("a", 5.0)]).expect_err("nine are left");
        assert_eq!(short.len(), 1, "one limit is short");
        limits.take_all(&[of("a", 5.0), of("a", 4.0)]).expect("nine are left");
    }

    #[test]
    fn fractions_add_up_to_the_whole_burst() {
        let limits = Limits::new(ManualClock::held());
        limits.set(&aws::DYNAMODB_PARTITION_READS, Bound::Rate { per_second: 3_000.0, burst: 3_000.0 });
        for n in 0..30_000 {
            let taken = limits.take(&aws::DYNAMODB_PARTITION_READS, "a", 0.1);
            taken.unwrap_or_else(|refused| panic!("the {n}th tenth: {refused}"));
        }
        assert!(limits.take(&aws::DYNAMODB_PARTITION_READS, "a", 0.1).is_err());
    }

    #[test]
    fn whoever_waits_for_its_turn_is_counted_once() {
        let clock = ManualClock::held();
        let limits = Limits::new(clock.clone());
        limits.set(&aws::SCHEDULER_INVOCATIONS, Bound::Rate { per_second: 1.0, burst: 1.0 });
        limits.take(&aws::SCHEDULER_INVOCATIONS, "a", 1.0).expect("the first");
        assert!(limits.take(&aws::SCHEDULER_INVOCATIONS, "a", 1.0).is_err());
        assert!(!limits.has_taken(&aws::SCHEDULER_INVOCATIONS, "a", 1.0));
        clock.advance(Duration::from_secs(1));
        assert!(limits.has_taken(&aws::SCHEDULER_INVOCATIONS, "a", 1.0));
        assert_eq!(limits.refusals()[0].count, 1);
    }

    #[test]
    fn a_limit_can_be_another_one_or_none_for_everybody_or_for_one() {
        let limits = Limits::new(ManualClock::held());
        limits.set(&aws::HTTP_API_ROUTE, Bound::Rate { per_second: 1.0, burst: 1.0 });
        limits.set_for(&aws::HTTP_API_ROUTE, "POST /a", Bound::Rate { per_second: 2.0, burst: 2.0 });
        limits.take(&aws::HTTP_API_ROUTE, "POST /a", 2.0).expect("its own limit");
        limits.take(&aws::HTTP_API_ROUTE, "POST /b", 1.0).expect("everybody's limit");
        assert!(limits.take(&aws::HTTP_API_ROUTE, "POST /b", 1.0).is_err());
        limits.lift(&aws::HTTP_API_ROUTE);
        limits.take(&aws::HTTP_API_ROUTE, "POST /a", 1e9).expect("no limit");
    }

    #[test]
    fn what_is_larger_than_a_whole_burst_passes_when_nothing_was_taken_and_the_next_one_waits_for_it() {
        let clock = ManualClock::held();
        let limits = Limits::new(clock.clone());
        limits.set(&aws::DYNAMODB_PARTITION_WRITES, Bound::Rate { per_second: 10.0, burst: 10.0 });
        let take = |units| limits.take(&aws::DYNAMODB_PARTITION_WRITES, "key", units);
        take(30.0).expect("the bucket was full");
        clock.advance(Duration::from_millis(2_000));
        assert!(take(1.0).is_err(), "twenty were owed, and twenty came");
        clock.advance(Duration::from_millis(100));
        take(1.0).expect("paid");
    }

    #[test]
    fn what_was_charged_afterwards_is_paid_back_before_the_next() {
        let clock = ManualClock::held();
        let limits = Limits::new(clock.clone());
        let limit = &aws::DYNAMODB_PARTITION_READS;
        limits.charge(limit, "key", 6_000.0);
        clock.advance(Duration::from_millis(900));
        assert!(limits.take(limit, "key", 1.0).is_err(), "3,000 are left of the debt, and 2,700 came");
        clock.advance(Duration::from_millis(200));
        limits.take(limit, "key", 1.0).expect("paid");
    }
}
