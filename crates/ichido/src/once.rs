//! [`Once`]: the entry point. One per process, shared by all calls.
//!
//! It holds what outlives a call: the store, the clock, the breaker and the local memory.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::breaker::{self, Breaker, Gate};
use crate::clock::{Clock, SystemClock, Timestamp};
use crate::key::Key;
use crate::mark::Mark;
use crate::memory::{self, Known, Memory, Remembered};
use crate::observe::{Event, Observer, Operation};
use crate::record::{Owner, Record};
use crate::run::Run;
use crate::store::{self, AnyStore, Store};

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
    /// How many keys of the store are remembered. A key that is forgotten may be admitted again in an outage.
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
#[derive(Clone)]
pub struct Once(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) store: Box<dyn AnyStore>,
    pub(crate) clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
    owners: Arc<dyn Fn() -> Owner + Send + Sync>,
    pub(crate) reconciled_per_call: usize,
    // Locked only for moments and never across an await, so these are plain mutexes.
    breaker: Mutex<Breaker>,
    memory: Mutex<Memory>,
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("breaker", &self.0.breaker).field("memory", &self.0.memory).finish_non_exhaustive()
    }
}

/// Builds a [`Once`].
#[must_use = "nothing is built until `build` is called"]
pub struct Builder {
    store: Box<dyn AnyStore>,
    clock: Option<Arc<dyn Clock>>,
    observer: Arc<dyn Observer>,
    owners: Arc<dyn Fn() -> Owner + Send + Sync>,
    outage: Outage,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("outage", &self.outage).finish_non_exhaustive()
    }
}

impl Builder {
    /// The clock by which everything is decided. The default is the machine's own.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Who is told what happens. The default is `observe::Traced` with the feature `tracing`, and nobody without it.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Arc::new(observer);
        self
    }

    /// Where owner tokens come from. They must be unique among all instances. Simulations make them from a seed.
    pub fn owners(mut self, owners: impl Fn() -> Owner + Send + Sync + 'static) -> Self {
        self.owners = Arc::new(owners);
        self
    }

    /// What to do when the store does not answer.
    pub fn outage(mut self, outage: Outage) -> Self {
        self.outage = outage;
        self
    }

    /// The [`Once`]. Its clock is the machine's, unless [`clock`](Self::clock) gave another one.
    pub fn build(self) -> Once {
        let outage = self.outage;
        Once(Arc::new(Inner {
            store: self.store,
            clock: self.clock.unwrap_or_else(|| Arc::new(SystemClock)),
            observer: self.observer,
            owners: self.owners,
            reconciled_per_call: outage.reconciled_per_call,
            breaker: Mutex::new(Breaker::new(outage.failures_to_open, outage.probe_interval)),
            memory: Mutex::new(Memory::new(outage.known_keys, outage.journal_keys)),
        }))
    }
}

impl Once {
    /// With the machine's clock, the default observer and the default outage settings.
    pub fn new(store: impl Store) -> Self {
        Self::builder(store).build()
    }

    /// With settings of your own.
    pub fn builder(store: impl Store) -> Builder {
        Builder {
            store: Box::new(store),
            clock: None,
            observer: crate::trace::default_observer(),
            owners: Arc::new(Owner::random),
            outage: Outage::default(),
        }
    }

    /// At most once: one conditional write tells whether this call is the first one for the key. See [`Mark`].
    pub fn mark(&self, key: &Key) -> Mark<'_> {
        Mark::new(&self.0, key.clone())
    }

    /// One recorded outcome: claims the key, does the work, records what the work returned. See [`Run`].
    pub fn run(&self, key: &Key) -> Run<'_> {
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

    /// What this instance remembers, for a test that compares states: with equal texts, it makes the same decisions. The
    /// text may change with any version.
    #[doc(hidden)]
    pub fn inspect(&self, text: &mut impl fmt::Write) -> fmt::Result {
        self.0.memory().inspect(text)?;
        write!(text, "{:?}", lock(&self.0.breaker))
    }

    /// When something that this instance remembers ends by itself.
    #[doc(hidden)]
    pub fn ends(&self) -> Vec<Timestamp> {
        let mut ends = self.0.memory().ends();
        ends.extend(lock(&self.0.breaker).next_probe());
        ends
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

impl Inner {
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

    /// When a record expires that is not completed: a claim, a failure, a release. The retention is counted from the end of
    /// the lease, because a claim that expired together with its lease would leave no doubt.
    pub(crate) fn unfinished_expiry(&self, key: &Key, now: Timestamp, lease_until: Timestamp) -> Option<Timestamp> {
        key.namespace().unfinished_retention().map(|retention| now.max(lease_until) + retention)
    }

    /// May the store be asked about this key? A namespace that fails closed has nobody else to ask, so it always asks.
    pub(crate) fn gate(&self, key: &Key, now: Timestamp) -> Gate {
        if key.namespace().fails_open() { lock(&self.breaker).gate(now) } else { Gate::Pass }
    }

    /// Asks the store, and tells the breaker and the observer how it went.
    pub(crate) async fn ask<T>(
        &self,
        key: &Key,
        operation: Operation,
        call: impl Future<Output = Result<T, store::Error>>,
    ) -> Result<Timed<T>, store::Error> {
        let started = self.clock.now();
        let result = call.await;
        let now = self.clock.now();
        match &result {
            Err(error) if error.is_transient() => {
                self.observe(Event::StoreFailed { key, operation, error });
                // A failed call that has no alternative says nothing about those that have one.
                let opened = key.namespace().fails_open() && lock(&self.breaker).failed(now);
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

    pub(crate) fn journal_full(&self, key: &Key) -> store::Error {
        self.observe(Event::JournalFull { key });
        let cut_off = lock(&self.breaker).is_open();
        store::Error::Transient(Box::new(Full { cut_off }))
    }

    /// Remembers what the store has about a key.
    pub(crate) fn remember(
        &self,
        key: &Key,
        state: Known,
        fence: u64,
        digests: Option<crate::Digests>,
        expires_at: Option<Timestamp>,
    ) {
        let now = self.clock.now();
        self.memory().write_through(key, Remembered { state, fence, digests, expires_at }, now);
    }
}

#[derive(Debug, thiserror::Error)]
#[error(
    "{}, and the journal is full: too many keys were admitted without the store; try again later",
    if *.cut_off { "the store failed too often in a row and is not asked for a while" } else { "the store does not answer" }
)]
struct Full {
    /// The breaker is open: the store was not asked.
    cut_off: bool,
}

/// The data behind these mutexes is valid after every statement, so a poisoned lock does no harm.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
