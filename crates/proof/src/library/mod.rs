//! The library under the explorer: the real `run` on the model of the store.
//!
//! Each [`Scenario`] has a few workers that get the same event, on one instance or on several, and an operator. The explorer
//! decides in which order their calls reach the store and are answered, what goes wrong, and when time passes. When all
//! workers are done or dead, nothing goes wrong any more: every surviving instance gets the event once more, until the key is
//! settled. Then the [ledger](crate::ledger) is closed.

mod rough;
mod worker;
mod world;

use std::fmt;
use std::hash::Hasher;
use std::str::FromStr;
use std::sync::Arc;

use ichido_testkit::explore::{Model, Path};

pub use crate::ledger::Doubt;
use crate::ledger::Rule;
use worker::Worker;
use world::World;

/// What is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// How many workers get the event.
    pub workers: usize,
    /// Where they run.
    pub place: Place,
    /// Whose decision counts while the store is down.
    pub policy: Policy,
    /// What a call does if an earlier attempt may have had its effect.
    pub doubt: Doubt,
    /// What a call does if it finds that another one holds the key.
    pub patience: Patience,
    /// How long it takes when the time passes.
    pub passing: Passing,
}

/// How long it takes when the time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// Until the next lease, outage or pause of a breaker ends. No record expires.
    Lease,
    /// Until the record of a key expires, for all clocks.
    Retention,
}

/// What a call does if it finds that another one holds the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// It returns at once. To wait costs a fault.
    None,
    /// The last worker waits. The breaker opens at the second failure, so that a call asks the store again after a lost answer.
    LastWaits,
}

/// Where the workers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In one process: they share a memory and a breaker.
    Together,
    /// Each in a process of its own. Their clocks differ by as much as is allowed.
    Apart,
}

/// What happens while the store is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Calls fail.
    Closed,
    /// The local memory decides.
    Open,
    /// The first worker's key fails closed, and that of the others fails open: two keys.
    Mixed,
}

impl Scenario {
    /// All scenarios with this many workers.
    #[must_use]
    pub fn all(workers: usize) -> Vec<Self> {
        let (place, policy, doubt) = (Place::Together, Policy::Open, Doubt::Probe);
        let passing = Passing::Lease;
        let mut all = vec![Self { workers, place, policy, doubt, patience: Patience::LastWaits, passing }];
        for place in [Place::Apart, Place::Together] {
            for policy in [Policy::Closed, Policy::Open] {
                for doubt in [Doubt::Probe, Doubt::Repeat, Doubt::Refuse] {
                    all.push(Self { workers, place, policy, doubt, patience: Patience::None, passing });
                }
            }
        }
        let (policy, patience) = (Policy::Mixed, Patience::None);
        all.push(Self { workers, place: Place::Together, policy, doubt, patience, passing });
        let (policy, passing) = (Policy::Closed, Passing::Retention);
        all.push(Self { workers, place: Place::Apart, policy, doubt, patience, passing });
        all
    }

    fn operator(&self) -> usize {
        self.workers
    }

    fn background(&self) -> usize {
        self.workers + 1
    }

    fn last(&self) -> usize {
        self.workers + 2
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.place {
            Place::Together => "together",
            Place::Apart => "apart",
        };
        let policy = match self.policy {
            Policy::Closed => "closed",
            Policy::Open => "open",
            Policy::Mixed => "mixed",
        };
        let doubt = match self.doubt {
            Doubt::Probe => "probe",
            Doubt::Repeat => "repeat",
            Doubt::Refuse => "refuse",
        };
        let patience = match self.patience {
            Patience::None => "",
            Patience::LastWaits => "-waits",
        };
        let passing = match self.passing {
            Passing::Lease => "",
            Passing::Retention => "-expires",
        };
        write!(f, "{}-{place}-{policy}-{doubt}{patience}{passing}", self.workers)
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        (1..=4).flat_map(Self::all).find(|scenario| scenario.to_string() == text).ok_or_else(|| {
            let known: Vec<String> = Self::all(2).iter().map(Self::to_string).collect();
            format!(
                "there is no scenario {text:?}; there may be one to four workers, and with two there are {}",
                known.join(", ")
            )
        })
    }
}

/// Breaks the circle of world, instances and stores when a path is over.
pub struct Held(Arc<World>);

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&self.0.scenario).finish()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.bury();
    }
}

impl Model for Scenario {
    type World = Held;

    fn lanes(&self) -> Vec<String> {
        let workers = (1..=self.workers).map(|n| format!("worker {n}"));
        workers.chain(["operator".to_owned(), "background".to_owned(), "afterwards".to_owned()]).collect()
    }

    fn begin(&self, path: &Path) -> Held {
        let world = Arc::new(World::new(*self, path));
        for lane in 0..self.workers {
            let worker = Worker::new(&world, lane);
            path.spawn(lane, worker.instance.life, worker.event());
        }
        path.spawn_optional(self.operator(), u32::MAX - 1, worker::operator(Arc::clone(&world)));
        Held(world)
    }

    fn fingerprint(&self, world: &Held, state: &mut dyn Hasher) {
        world.0.fingerprint(state);
    }

    fn next_time(&self, world: &Held, now_ms: u64) -> Option<u64> {
        world.0.next_time(now_ms)
    }

    fn check(&self, world: &Held) -> Result<(), String> {
        world.0.compare_leases();
        world.0.first_violation()
    }

    fn stuck(&self, text: String) -> String {
        format!("{}: {text}", Rule::NobodyWaits)
    }

    fn end(&self, world: &Held, path: &Path) -> Result<(), String> {
        let world = &world.0;
        path.spawn(self.last(), u32::MAX, worker::afterwards(Arc::clone(world)));
        path.settle().map_err(|text| self.stuck(text))?;
        world.ledger().look_back(self.doubt);
        world.first_violation()
    }
}
