//! What the workers of one path share: the store, the destination, the instances.

use std::fmt::{self, Write as _};
use std::hash::Hasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ichido::observe::Event;
use ichido::store::{self, Admit, Admitted, Store as _};
use ichido::{DigestKey, Digests, Key, MAX_CLOCK_SKEW, Namespace, Observer, Once, Outage, Owner, State};
use ichido_testkit::ManualClock;
use ichido_testkit::explore::{Lane, Path};
use ichido_testkit::model::Memory;

use super::rough::Rough;
use super::{Passing, Patience, Place, Policy, Scenario};
use crate::ledger::{Ledger, Life};

/// Short, so that a duplicate that waits does not poll often.
pub(super) const LEASE: Duration = Duration::from_secs(1);
pub(super) const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);
pub(super) const PROBE_INTERVAL: Duration = Duration::from_secs(5);

pub(super) struct World {
    pub(super) scenario: Scenario,
    pub(super) path: Path,
    pub(super) store: Memory,
    ledger: Mutex<Ledger>,
    instances: Mutex<Vec<Instance>>,
    /// The store does not answer before this time.
    outage_until: AtomicU64,
    /// The last outage, when nothing else goes wrong any more.
    last_outage: AtomicBool,
    owners: Mutex<Vec<u32>>,
    keys: Vec<Key>,
    /// The digests of the two payloads.
    pub(super) digests: [Digests; 2],
}

/// One process.
#[derive(Clone)]
pub(super) struct Instance {
    pub(super) life: Life,
    pub(super) clock: ManualClock,
    pub(super) once: Once,
}

impl World {
    pub(super) fn new(scenario: Scenario, path: &Path) -> Self {
        Self {
            scenario,
            path: path.clone(),
            store: Memory::new(),
            ledger: Mutex::default(),
            instances: Mutex::default(),
            outage_until: AtomicU64::new(0),
            last_outage: AtomicBool::new(false),
            owners: Mutex::new(vec![0; scenario.last() + 1]),
            keys: keys_of(scenario),
            digests: DIGESTS.clone(),
        }
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn instances(&self) -> MutexGuard<'_, Vec<Instance>> {
        self.instances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key of the event, as this lane uses it.
    pub(super) fn key(&self, lane: Lane) -> &Key {
        if lane == 0 { &self.keys[0] } else { self.keys.last().unwrap_or(&self.keys[0]) }
    }

    /// All keys that are in use.
    pub(super) fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// The instance on which this worker runs. Starts it if need be.
    pub(super) fn instance(self: &Arc<Self>, lane: Lane) -> Instance {
        let number = match self.scenario.place {
            Place::Together => 0,
            Place::Apart => lane,
        };
        if let Some(instance) = self.instances().get(number) {
            return instance.clone();
        }
        self.start(number)
    }

    pub(super) fn start(self: &Arc<Self>, number: usize) -> Instance {
        let life = Life::try_from(number).unwrap_or(Life::MAX);
        // The clocks of the first two machines differ by as much as is allowed; others are in between.
        let bound = i64::try_from(MAX_CLOCK_SKEW.as_millis()).unwrap_or(i64::MAX);
        let skew = [-bound / 2, bound / 2, 0][number.min(2)];
        let clock = self.path.clock().skewed(skew);
        let world = Arc::clone(self);
        let once = Once::builder(Rough::new(self, life))
            .clock(clock.clone())
            .observer(Watch { world: Arc::clone(self), life })
            .owners(move || world.next_owner())
            .outage(Outage {
                failures_to_open: match self.scenario.patience {
                    Patience::None => 1,
                    Patience::LastWaits => 2,
                },
                probe_interval: PROBE_INTERVAL,
                // Room for the keys of a path: memory for more would cost most of its time.
                known_keys: 8,
                journal_keys: 8,
                ..Outage::default()
            })
            .build();
        let instance = Instance { life, clock, once };
        self.instances().push(instance.clone());
        instance
    }

    /// Each lane counts its own, so that a token does not depend on what the others did.
    fn next_owner(&self) -> Owner {
        let lane = self.path.lane().unwrap_or(self.scenario.background());
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners[lane] += 1;
        Owner::from(format!("{}{}", owner_prefix(lane), owners[lane]).as_str())
    }

    /// Did a call of this lane make the token?
    pub(super) fn is_owner(lane: Lane, owner: &Owner) -> bool {
        owner.as_str().starts_with(&owner_prefix(lane))
    }

    pub(super) fn begin_outage(&self) {
        let until = self.path.clock().now_ms() + ichido::whole_millis(PROBE_INTERVAL);
        self.outage_until.store(until, Ordering::Relaxed);
    }

    pub(super) fn last_outage(&self, begins: bool) {
        self.last_outage.store(begins, Ordering::Relaxed);
    }

    pub(super) fn in_outage(&self) -> bool {
        self.last_outage.load(Ordering::Relaxed)
            || !self.path.is_calm() && self.path.clock().now_ms() < self.outage_until.load(Ordering::Relaxed)
    }

    /// Lets a request for a new record reach the store.
    pub(super) async fn admit(&self, request: &Admit<'_>) -> Result<Admitted, store::Error> {
        let expired = self.store.record(request.key).is_some_and(|record| record.is_expired(request.now));
        let answer = self.store.admit(request).await?;
        if expired && matches!(answer, Admitted::Won { .. }) {
            self.ledger().expired(request.key);
        }
        self.ledger().admitted(request, &answer);
        Ok(answer)
    }

    pub(super) fn compare_leases(&self) {
        for key in self.keys() {
            if let Some(record) = self.store.record(key) {
                self.ledger().compare_leases(key, &record);
            }
        }
    }

    pub(super) fn first_violation(&self) -> Result<(), String> {
        self.ledger().violations().first().map_or(Ok(()), |text| Err(text.clone()))
    }

    pub(super) fn fingerprint(&self, state: &mut dyn Hasher) {
        let mut text = Hashed(state);
        // Writing to a hasher does not fail.
        let _ = self.ledger().fingerprint(&mut text);
        for key in self.keys() {
            let _ = write!(text, "{:?}", self.store.record(key));
        }
        for instance in self.instances().iter() {
            let _ = write!(text, "{}", instance.life);
            let _ = instance.once.inspect(&mut text);
        }
        let outage = self.in_outage().then(|| self.outage_until.load(Ordering::Relaxed));
        let _ = write!(text, "{outage:?}");
    }

    /// The next time at which a lease, an outage or a pause of a breaker ends, on somebody's clock. Or the time at which a
    /// record has expired on every clock.
    pub(super) fn next_time(&self, now_ms: u64) -> Option<u64> {
        match self.scenario.passing {
            Passing::Lease => self.next_end(now_ms),
            Passing::Retention => {
                let records = self.keys().iter().filter_map(|key| self.store.record(key));
                let expiries = records.filter_map(|record| Some((record.expires_at? + MAX_CLOCK_SKEW).as_millis()));
                expiries.filter(|time| *time > now_ms).min()
            }
        }
    }

    fn next_end(&self, now_ms: u64) -> Option<u64> {
        let mut local: Vec<u64> = self.ledger().deadlines().collect();
        for key in self.keys() {
            if let Some(State::Claimed { lease_until }) = self.store.record(key).map(|record| record.state) {
                local.push(lease_until.as_millis());
            }
        }
        let instances = self.instances();
        for instance in instances.iter() {
            local.extend(instance.once.ends().into_iter().map(|time| time.as_millis()));
        }
        let base = self.path.clock();
        let skews =
            instances.iter().map(|instance| instance.clock.now_ms().cast_signed() - base.now_ms().cast_signed());
        let skews: Vec<i64> = skews.collect();
        let unskewed = local.iter().flat_map(|time| skews.iter().map(|skew| time.saturating_add_signed(-skew)));
        unskewed.chain([self.outage_until.load(Ordering::Relaxed)]).filter(|time| *time > now_ms).min()
    }

    pub(super) fn bury(&self) {
        let instances = std::mem::take(&mut *self.instances());
        drop(instances);
    }
}

/// Made once: hashing takes longer than a step.
static DIGESTS: LazyLock<[Digests; 2]> = LazyLock::new(|| {
    let key = DigestKey::new(b"explored");
    [0, 1].map(|payload: u8| key.digests().field("payload", [payload]).build())
});

fn keys_of(scenario: Scenario) -> Vec<Key> {
    let namespace = |name| Namespace::new(name).lease(LEASE).retention(RETENTION);
    let namespaces = match scenario.policy {
        Policy::Closed => vec![namespace("run")],
        Policy::Open => vec![namespace("run").fail_open()],
        Policy::Mixed => vec![namespace("run"), namespace("run-open").fail_open()],
    };
    namespaces.iter().map(|namespace| namespace.key(["Ev1"]).unwrap_or_else(|error| unreachable!("{error}"))).collect()
}

fn owner_prefix(lane: Lane) -> String {
    format!("owner-{lane}-")
}

struct Watch {
    world: Arc<World>,
    life: Life,
}

impl Observer for Watch {
    fn observe(&self, event: &Event<'_>) {
        self.world.ledger().observe(self.life, event);
        let lane = self.world.path.lane().unwrap_or(self.world.scenario.background());
        match event {
            Event::Doubted { .. } => self.world.path.note(lane, || "is in doubt".to_owned()),
            Event::AdmittedWithoutStore { .. } => {
                self.world.path.note(lane, || "is admitted without the store".to_owned())
            }
            Event::BreakerOpened => self.world.path.note(lane, || "its breaker opens".to_owned()),
            Event::Fenced { fence, .. } => self.world.path.note(lane, || format!("is too late (fence {fence})")),
            _ => {}
        }
    }
}

struct Hashed<'a>(&'a mut dyn Hasher);

impl fmt::Write for Hashed<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}
