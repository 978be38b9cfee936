//! [`Once`]: the entry point. One per process, shared by all calls.
//!
//! It holds what outlives a call: the store, the clock, the breaker and the local memory.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::breaker::{self, Breaker, Gate};
use crate::clock::{Clock, Timestamp};
use crate::key::{Key, OutagePolicy};
use crate::mark::Mark;
use crate::memory::{self, Known, Memory, Remembered};
use crate::observe::{Event, Ignore, Observer};
use crate::record::{Owner, Record};
use crate::run::Run;
use crate::store::{self, Store};

/// The largest difference between the clocks of two machines for which the promises hold. Another call may take over a
/// claim only this long after the end that its holder knows of.
pub const MAX_CLOCK_SKEW: Duration = Duration::from_secs(2);

/// How many keys of the journal each later call writes to the store.
pub const DEFAULT_RECONCILED_PER_CALL: usize = 4;

/// What to do when the store does not answer. Whether to fail open or closed is a setting of each namespace.
#[derive(Debug, Clone)]
pub struct Outage {
    /// How many transient failures in a row open the breaker.
    pub failures_to_open: u32,
    /// How long an open breaker waits before one call tries the store again.
    pub probe_interval: Duration,
    /// How many keys of the store are remembered.
    pub known_keys: usize,
    /// How many keys may be admitted without the store before more are refused.
    pub journal_keys: usize,
    /// How many keys of the journal each later call writes to the store.
    pub reconciled_per_call: usize,
}

impl Default for Outage {
    fn default() -> Self {
        Self {
            failures_to_open: breaker::DEFAULT_FAILURES_TO_OPEN,
            probe_interval: breaker::DEFAULT_PROBE_INTERVAL,
            known_keys: memory::DEFAULT_KNOWN_KEYS,
            journal_keys: memory::DEFAULT_JOURNAL_KEYS,
            reconciled_per_call: DEFAULT_RECONCILED_PER_CALL,
        }
    }
}

/// Makes effects happen once. Clones are cheap and share everything.
pub struct Once<S>(pub(crate) Arc<Inner<S>>);

pub(crate) struct Inner<S> {
    pub(crate) store: S,
    pub(crate) clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
    owners: Arc<dyn Fn() -> Owner + Send + Sync>,
    pub(crate) reconciled_per_call: usize,
    // Locked only for moments and never across an await, so these are plain mutexes.
    breaker: Mutex<Breaker>,
    memory: Mutex<Memory>,
}

impl<S> Clone for Once<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S> fmt::Debug for Once<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("breaker", &self.0.breaker).field("memory", &self.0.memory).finish_non_exhaustive()
    }
}

/// Builds a [`Once`].
pub struct Builder<S> {
    store: S,
    clock: Option<Arc<dyn Clock>>,
    observer: Arc<dyn Observer>,
    owners: Arc<dyn Fn() -> Owner + Send + Sync>,
    outage: Outage,
}

impl<S> fmt::Debug for Builder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("outage", &self.outage).finish_non_exhaustive()
    }
}

impl<S: Store> Builder<S> {
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Arc::new(observer);
        self
    }

    /// Where owner tokens come from. They must be unique among all instances. Simulations make them from a seed.
    pub fn owners(mut self, owners: impl Fn() -> Owner + Send + Sync + 'static) -> Self {
        self.owners = Arc::new(owners);
        self
    }

    pub fn outage(mut self, outage: Outage) -> Self {
        self.outage = outage;
        self
    }

    #[cfg(feature = "tokio")]
    pub fn build(self) -> Once<S> {
        let clock = self.clock.clone().unwrap_or_else(|| Arc::new(crate::clock::SystemClock));
        self.build_with(clock)
    }

    /// Without the `tokio` feature there is no default clock.
    #[cfg(not(feature = "tokio"))]
    pub fn build(self, clock: impl Clock) -> Once<S> {
        self.build_with(Arc::new(clock))
    }

    fn build_with(self, clock: Arc<dyn Clock>) -> Once<S> {
        let outage = self.outage;
        Once(Arc::new(Inner {
            store: self.store,
            clock,
            observer: self.observer,
            owners: self.owners,
            reconciled_per_call: outage.reconciled_per_call,
            breaker: Mutex::new(Breaker::new(outage.failures_to_open, outage.probe_interval)),
            memory: Mutex::new(Memory::new(outage.known_keys, outage.journal_keys)),
        }))
    }
}

impl<S: Store> Once<S> {
    /// With the machine's clock, no observer and the default outage settings.
    #[cfg(feature = "tokio")]
    pub fn new(store: S) -> Self {
        Self::builder(store).build()
    }

    pub fn builder(store: S) -> Builder<S> {
        Builder {
            store,
            clock: None,
            observer: Arc::new(Ignore),
            owners: Arc::new(Owner::random),
            outage: Outage::default(),
        }
    }

    /// At most once: one conditional write tells whether this call is the first one for the key. See [`Mark`].
    pub fn mark(&self, key: &Key) -> Mark<'_, S> {
        Mark::new(&self.0, key.clone())
    }

    /// One recorded outcome: claims the key, does the work, records what the work returned. See [`Run`].
    pub fn run(&self, key: &Key) -> Run<'_, S> {
        Run::new(&self.0, key.clone())
    }

    /// What the store knows about a key. Expired records are returned too.
    pub async fn look(&self, key: &Key) -> Result<Option<Record>, store::Error> {
        self.0.store.read(key).await
    }

    /// The time by which all decisions are made.
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// How many effects the store does not know yet. After an outage, later calls write them, until this is zero.
    pub fn unwritten(&self) -> usize {
        self.0.memory().journal_len()
    }

    /// Is the breaker open, so that the store is not asked?
    pub fn is_cut_off(&self) -> bool {
        lock(&self.0.breaker).is_open()
    }
}

/// The store's answer, and how long it took.
pub(crate) struct Timed<T> {
    pub(crate) answer: T,
    pub(crate) latency: Duration,
}

impl<S: Store> Inner<S> {
    pub(crate) fn observe(&self, event: Event<'_>) {
        self.observer.observe(&event);
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        lock(&self.memory)
    }

    pub(crate) fn new_owner(&self) -> Owner {
        (self.owners)()
    }

    /// When a record of this key expires that is completed `now`.
    pub(crate) fn expiry(&self, key: &Key, now: Timestamp) -> Option<Timestamp> {
        key.namespace().retention_or_none().map(|retention| now + retention)
    }

    /// When a record expires that is not completed: a claim, a failure, a release.
    pub(crate) fn unfinished_expiry(&self, key: &Key, now: Timestamp, lease_until: Timestamp) -> Option<Timestamp> {
        key.namespace().unfinished_retention().map(|retention| (now + retention).max(lease_until))
    }

    pub(crate) fn gate(&self, now: Timestamp) -> Gate {
        lock(&self.breaker).gate(now)
    }

    /// Asks the store, and tells the breaker and the observer how it went.
    pub(crate) async fn ask<T>(
        &self,
        key: &Key,
        operation: &'static str,
        call: impl Future<Output = Result<T, store::Error>>,
    ) -> Result<Timed<T>, store::Error> {
        let started = self.clock.now();
        let result = call.await;
        let now = self.clock.now();
        match &result {
            Err(error) if error.is_transient() => {
                self.observe(Event::StoreFailed { key, operation, error });
                let opened = lock(&self.breaker).failed(now);
                if opened {
                    self.observe(Event::BreakerOpened);
                }
            }
            answered => {
                if let Err(error) = answered {
                    self.observe(Event::StoreFailed { key, operation, error });
                }
                let closed = lock(&self.breaker).answered();
                if closed {
                    self.observe(Event::BreakerClosed);
                }
            }
        }
        result.map(|answer| Timed { answer, latency: now.since(started) })
    }

    /// `Ok` if the local memory may decide about this key, because its namespace fails open.
    pub(crate) fn may_decide_alone(&self, key: &Key, cause: Option<store::Error>) -> Result<(), store::Error> {
        match key.namespace().outage_policy() {
            OutagePolicy::Open => Ok(()),
            OutagePolicy::Closed => Err(cause.unwrap_or_else(|| store::Error::Transient(Box::new(CutOff)))),
        }
    }

    pub(crate) fn journal_full(&self, key: &Key) -> store::Error {
        self.observe(Event::JournalFull { key });
        store::Error::Transient(Box::new(Full))
    }

    /// Remembers what the store has about a key.
    pub(crate) fn remember(
        &self,
        key: &Key,
        state: Known,
        digests: Option<crate::Digests>,
        expires_at: Option<Timestamp>,
    ) {
        self.memory().write_through(key, Remembered { state, digests, expires_at });
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the store failed too often in a row and is not asked for a while; try again later")]
struct CutOff;

#[derive(Debug, thiserror::Error)]
#[error("the journal is full: too many keys were admitted without the store")]
struct Full;

/// The data behind these mutexes is valid after every statement, so a poisoned lock does no harm.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
