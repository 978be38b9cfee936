//! A deterministic simulation: one thread, one seed, virtual time.
//!
//! The seed decides which of the ready tasks goes on next, and every other random choice ([`Sim::chance`],
//! [`Sim::below`]). Time moves only when no task is ready, and then to the earliest sleeper. So one seed always gives the
//! same run.
//!
//! Tasks belong to groups. [`Sim::kill`] drops all tasks of a group in the middle, as if their machine were gone.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use crate::clock::ManualClock;
use crate::lock::lock;
use crate::turn::Turn;

/// Which tasks die together.
pub type Group = u32;

/// A simulation. Clones are the same one, and tasks may hold clones.
#[derive(Clone)]
pub struct Sim {
    shared: Arc<Shared>,
    clock: ManualClock,
}

struct Shared {
    state: Mutex<State>,
}

struct State {
    random: fastrand::Rng,
    tasks: BTreeMap<u64, Task>,
    /// Ids of ready tasks. Some of these tasks may be gone.
    ready: Vec<u64>,
    killed: Vec<Group>,
    spawned: u64,
}

struct Task {
    group: Group,
    /// `None` while it is polled.
    future: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// Why a simulation did not end.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stuck {
    /// There are tasks, but none is ready and none sleeps.
    #[error("deadlock: {tasks} tasks wait, and nothing can wake them")]
    Deadlock {
        /// How many are left.
        tasks: usize,
    },
    /// It took more steps than allowed.
    #[error("the simulation did not end within {steps} steps")]
    Endless {
        /// How many steps were allowed.
        steps: u64,
    },
}

impl Sim {
    /// A simulation with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let state = State {
            random: fastrand::Rng::with_seed(seed),
            tasks: BTreeMap::new(),
            ready: Vec::new(),
            killed: Vec::new(),
            spawned: 0,
        };
        Self { shared: Arc::new(Shared { state: Mutex::new(state) }), clock: ManualClock::held() }
    }

    /// The clock of the simulation.
    #[must_use]
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// True with this probability.
    #[must_use]
    pub fn chance(&self, probability: f64) -> bool {
        probability > 0.0 && self.lock().random.f64() < probability
    }

    /// A number below `end`; zero if `end` is zero.
    #[must_use]
    pub fn below(&self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.lock().random.u64(0..end) }
    }

    /// A duration below `end`, in whole milliseconds.
    #[must_use]
    pub fn shorter_than(&self, end: Duration) -> Duration {
        Duration::from_millis(self.below(ichido::whole_millis(end)))
    }

    /// Adds a task.
    pub fn spawn(&self, group: Group, task: impl Future<Output = ()> + Send + 'static) {
        let mut state = self.lock();
        state.spawned += 1;
        let id = state.spawned;
        state.tasks.insert(id, Task { group, future: Some(Box::pin(task)) });
        state.ready.push(id);
    }

    /// Drops all tasks of a group, also the caller, before another task goes on.
    pub fn kill(&self, group: Group) {
        self.lock().killed.push(group);
    }

    /// Lets other tasks go first, if the seed decides so.
    pub async fn pause(&self) {
        for _ in 0..self.below(3) {
            Turn::default().await;
        }
    }

    /// Sleeps in the simulation's time.
    pub async fn sleep(&self, duration: Duration) {
        self.clock.wait(duration).await;
    }

    /// Runs until no task is left.
    ///
    /// # Errors
    /// If that does not happen within `max_steps`, or cannot happen.
    pub fn run(&self, max_steps: u64) -> Result<(), Stuck> {
        for _ in 0..max_steps {
            self.bury();
            let Some(id) = self.next() else {
                if self.lock().tasks.is_empty() {
                    return Ok(());
                }
                match self.clock.next_due_ms() {
                    Some(due) => self.clock.set_ms(due),
                    None => return Err(Stuck::Deadlock { tasks: self.lock().tasks.len() }),
                }
                continue;
            };
            let future = self.lock().tasks.get_mut(&id).and_then(|task| task.future.take());
            let Some(mut future) = future else { continue };
            let waker = Waker::from(Arc::new(Wakeup { shared: Arc::clone(&self.shared), id }));
            let done = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
            // Dropped outside the lock, because a future's drop may use the simulation.
            let finished = {
                let mut state = self.lock();
                match state.tasks.get_mut(&id) {
                    Some(_) if done => state.tasks.remove(&id),
                    Some(task) => {
                        task.future = Some(future);
                        None
                    }
                    None => None,
                }
            };
            drop(finished);
        }
        Err(Stuck::Endless { steps: max_steps })
    }

    fn next(&self) -> Option<u64> {
        let mut state = self.lock();
        let State { random, tasks, ready, .. } = &mut *state;
        ready.retain(|id| tasks.contains_key(id));
        if ready.is_empty() {
            return None;
        }
        let at = random.usize(0..ready.len());
        Some(ready.swap_remove(at))
    }

    fn bury(&self) {
        let dead: Vec<Task> = {
            let mut state = self.lock();
            let killed = std::mem::take(&mut state.killed);
            let ids: Vec<u64> =
                state.tasks.iter().filter(|(_, task)| killed.contains(&task.group)).map(|(id, _)| *id).collect();
            ids.iter().filter_map(|id| state.tasks.remove(id)).collect()
        };
        drop(dead);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }
}

impl std::fmt::Debug for Sim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sim").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

struct Wakeup {
    shared: Arc<Shared>,
    id: u64,
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        let mut state = self.shared.lock();
        if !state.ready.contains(&self.id) {
            state.ready.push(self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(seed: u64) -> Vec<(u32, u32, u64)> {
        let sim = Sim::new(seed);
        let log = Arc::new(Mutex::new(Vec::new()));
        for task in 0..3 {
            let (sim, log) = (sim.clone(), Arc::clone(&log));
            sim.clone().spawn(task, async move {
                for step in 0..4 {
                    sim.pause().await;
                    sim.sleep(sim.shorter_than(Duration::from_secs(5))).await;
                    log.lock().unwrap().push((task, step, sim.clock().now_ms()));
                }
            });
        }
        sim.run(10_000).unwrap();
        Arc::into_inner(log).unwrap().into_inner().unwrap()
    }

    #[test]
    fn a_seed_is_a_run() {
        assert_eq!(trace(1), trace(1));
        assert_ne!(trace(1), trace(2));
        assert_eq!(trace(1).len(), 12);
    }

    #[test]
    fn a_killed_group_does_nothing_more_and_its_futures_are_dropped() {
        let sim = Sim::new(0);
        let held = Arc::new(());
        let witness = Arc::clone(&held);
        let killer = sim.clone();
        sim.spawn(7, async move {
            let _held = held;
            killer.kill(7);
            std::future::pending::<()>().await;
        });
        sim.run(100).unwrap();
        assert_eq!(Arc::strong_count(&witness), 1);
    }

    #[test]
    fn a_deadlock_is_found() {
        let sim = Sim::new(0);
        sim.spawn(0, std::future::pending());
        assert_eq!(sim.run(100), Err(Stuck::Deadlock { tasks: 1 }));
    }
}
