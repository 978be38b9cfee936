//! Time that a test controls.
//!
//! [`ManualClock`] moves in two ways: when the test moves it ([`ManualClock::advance`]), and, unless it is
//! [held](ManualClock::held), when every task sleeps. Then it jumps to the time of the earliest sleeper. Nothing ever waits in
//! real time.
//!
//! The clock knows that every task sleeps only on a current-thread runtime, as `#[tokio::test]` uses, and only for work
//! in this process. A task that waits for a real socket looks idle to it.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ichido::{Clock, Timestamp, whole_millis};

use crate::lock::lock;

/// The time of a new clock: 2026-01-01T00:00:00Z in milliseconds. Any fixed time would do.
pub const START_MS: u64 = 1_767_225_600_000;

/// How many turns a sleeper waits before it concludes that no other task can go on. Each turn of a current-thread runtime
/// polls every ready task, so this bounds the length of a chain of wake-ups between tasks, not the number of tasks.
const PATIENCE: u32 = 64;

/// A clock that tests move. Clones are the same clock.
#[derive(Clone)]
pub struct ManualClock {
    state: Arc<Mutex<State>>,
    /// How far this handle is ahead, in milliseconds. So machines with different clocks share one time.
    skew_ms: i64,
}

struct State {
    now_ms: u64,
    /// A held clock never moves by itself.
    held: bool,
    /// By due time, then by arrival, so that sleepers with the same due time wake in the order in which they fell asleep.
    sleepers: BTreeMap<(u64, u64), Waker>,
    arrivals: u64,
}

impl ManualClock {
    /// A clock at [`START_MS`] that jumps to the earliest sleeper when every task sleeps.
    #[must_use]
    pub fn new() -> Self {
        Self::with(false)
    }

    /// A clock at [`START_MS`] that moves only by [`advance`](Self::advance) and [`set_ms`](Self::set_ms).
    #[must_use]
    pub fn held() -> Self {
        Self::with(true)
    }

    fn with(held: bool) -> Self {
        let state = State { now_ms: START_MS, held, sleepers: BTreeMap::new(), arrivals: 0 };
        Self { state: Arc::new(Mutex::new(state)), skew_ms: 0 }
    }

    /// The same clock, as a machine reads it that is `ms` ahead, or behind if `ms` is negative.
    #[must_use]
    pub fn skewed(&self, ms: i64) -> Self {
        Self { state: Arc::clone(&self.state), skew_ms: self.skew_ms + ms }
    }

    /// Milliseconds since 1970, as this handle reads them.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.lock().now_ms.saturating_add_signed(self.skew_ms)
    }

    /// Moves the time forward and wakes the sleepers that are due.
    pub fn advance(&self, by: Duration) {
        let by = whole_millis(by);
        let mut state = self.lock();
        let to = state.now_ms.saturating_add(by);
        state.move_to(to);
    }

    /// Sets the unskewed time to `ms` since 1970. That may be in the past, because real clocks are set back too.
    pub fn set_ms(&self, ms: u64) {
        self.lock().move_to(ms);
    }

    /// How many sleepers there are.
    #[must_use]
    pub fn sleepers(&self) -> usize {
        self.lock().sleepers.len()
    }

    /// When the earliest sleeper is due, in unskewed milliseconds.
    #[must_use]
    pub fn next_due_ms(&self) -> Option<u64> {
        self.lock().sleepers.keys().next().map(|(due, _)| *due)
    }

    /// When each sleeper is due, in unskewed milliseconds, the earliest first.
    #[cfg(feature = "explore")]
    pub(crate) fn dues(&self) -> Vec<u64> {
        self.lock().sleepers.keys().map(|(due, _)| *due).collect()
    }

    /// Completes `duration` later in this clock's time.
    pub fn wait(&self, duration: Duration) -> impl Future<Output = ()> + Send + Sync + use<> {
        let duration = whole_millis(duration);
        Asleep { state: Arc::clone(&self.state), duration, key: None, turns: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock").field("now_ms", &self.now_ms()).finish_non_exhaustive()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now_ms())
    }

    fn sleep(&self, duration: Duration) -> ichido::Sleep {
        Box::pin(self.wait(duration))
    }
}

/// The backoff and the timeouts of the AWS SDK use this clock: `aws_sdk_dynamodb::Config::builder().sleep_impl(clock)`.
#[cfg(feature = "aws")]
impl aws_smithy_async::rt::sleep::AsyncSleep for ManualClock {
    fn sleep(&self, duration: Duration) -> aws_smithy_async::rt::sleep::Sleep {
        aws_smithy_async::rt::sleep::Sleep::new(self.wait(duration))
    }
}

impl State {
    fn move_to(&mut self, ms: u64) {
        self.now_ms = ms;
        for (_, waker) in self.sleepers.iter().take_while(|((due, _), _)| *due <= ms) {
            waker.wake_by_ref();
        }
    }
}

/// One sleeper. It falls asleep at its first poll. If it is dropped, the clock forgets it.
struct Asleep {
    state: Arc<Mutex<State>>,
    duration: u64,
    key: Option<(u64, u64)>,
    turns: u32,
}

impl Future for Asleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let shared = Arc::clone(&self.state);
        let mut state = lock(&shared);
        let duration = self.duration;
        let key = *self.key.get_or_insert_with(|| {
            state.arrivals += 1;
            (state.now_ms.saturating_add(duration), state.arrivals)
        });
        if state.now_ms < key.0 && !state.held {
            self.turns += 1;
            let earliest = state.sleepers.keys().next().is_none_or(|first| *first >= key);
            if self.turns > PATIENCE && earliest {
                state.move_to(key.0);
            }
        }
        if state.now_ms >= key.0 {
            state.sleepers.remove(&key);
            return Poll::Ready(());
        }
        state.sleepers.insert(key, cx.waker().clone());
        if !state.held {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            lock(&self.state).sleepers.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sleepers_wake_in_the_order_in_which_they_are_due_and_nobody_waits() {
        let clock = ManualClock::new();
        let order = Mutex::new(Vec::new());
        let nap = |ms: u64| {
            let (clock, order) = (clock.clone(), &order);
            async move {
                clock.wait(Duration::from_millis(ms)).await;
                order.lock().unwrap().push((ms, clock.now_ms() - START_MS));
            }
        };
        tokio::join!(nap(86_400_000), nap(5), nap(700));
        assert_eq!(*order.lock().unwrap(), [(5, 5), (700, 700), (86_400_000, 86_400_000)]);
        assert_eq!(clock.sleepers(), 0);
    }

    #[tokio::test]
    async fn a_held_clock_moves_only_when_told() {
        let clock = ManualClock::held();
        let sleeper = tokio::spawn(clock.wait(Duration::from_secs(10)));
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert!(!sleeper.is_finished());
        clock.advance(Duration::from_secs(10));
        sleeper.await.unwrap();
    }

    #[test]
    fn a_skewed_handle_reads_the_same_time_differently() {
        let clock = ManualClock::new();
        let behind = clock.skewed(-500);
        clock.advance(Duration::from_secs(1));
        assert_eq!(clock.now_ms() - behind.now_ms(), 500);
    }
}
