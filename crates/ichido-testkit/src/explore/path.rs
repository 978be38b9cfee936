//! One path: tasks, the gates at which they wait, and the choices that were made.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::{self, Debug, Write as _};
use std::future::{Future, poll_fn};
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

use super::Model;
use super::search::Known;
use crate::clock::ManualClock;
use crate::lock::lock;

/// A column of the printed history. Everything that is told to one lane decides what it does next.
pub type Lane = usize;

/// Which tasks die together.
pub type Group = u32;

/// After this many turns of the background tasks, they all wait at a gate.
const BACKGROUND_TURNS: usize = 8;

/// A path that takes more steps than this never ends.
const MAX_STEPS: usize = 2_000;

/// How often on one path a sleeper wakes although another task could go on first. Without a bound, a task that polls or renews a
/// lease could do so for ever while another one stands still.
const EARLY_WAKES: u32 = 2;

/// One way to go on at a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What happens, for the printed history.
    pub name: &'static str,
    /// How many faults it costs.
    pub faults: u32,
}

impl Choice {
    /// Nothing goes wrong.
    #[must_use]
    pub const fn normal(name: &'static str) -> Self {
        Self { name, faults: 0 }
    }

    /// Something goes wrong: one fault.
    #[must_use]
    pub const fn fault(name: &'static str) -> Self {
        Self { name, faults: 1 }
    }
}

/// A place at which a task waits for the explorer.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// The machine on which the task runs.
    pub group: Group,
    /// The column of the history.
    pub lane: Lane,
    /// What the task is about to do, for the printed history.
    pub what: &'static str,
    /// What the step touches, as a set of bits.
    pub touches: u64,
    /// False if a crash here is the same as a crash at the previous gate: nothing that outlives the machine has happened since.
    pub mortal: bool,
}

/// One path of an exploration. Clones are the same one, and tasks hold clones.
#[derive(Clone)]
pub struct Path {
    shared: Arc<Mutex<State>>,
    clock: ManualClock,
    /// True if the history is kept.
    traced: bool,
}

struct State {
    tasks: BTreeMap<u64, Task>,
    spawned: u64,
    /// The gates at which somebody waits, in the order in which they were reached.
    gates: BTreeMap<u64, Waiting>,
    reached: u64,
    dead: Vec<Group>,
    early_wakes: u32,
    /// From here on nothing goes wrong, and no choice is left.
    calm: bool,
    /// A hash of everything that each lane has been told.
    told: Vec<u128>,
    /// How many gates each lane has reached.
    gates_of: Vec<u16>,
    history: Vec<(Option<Lane>, String)>,
}

struct Task {
    group: Group,
    lane: Lane,
    /// A path may end without it.
    optional: bool,
    /// `None` while it is polled.
    future: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    ready: Arc<AtomicBool>,
}

struct Waiting {
    lane: Lane,
    number: u16,
    /// `None` for a task of the runtime.
    task: Option<u64>,
    group: Group,
    what: &'static str,
    touches: u64,
    choices: &'static [Choice],
    mortal: bool,
    chosen: Option<usize>,
    waker: Option<Waker>,
}

thread_local! {
    /// The task that is polled: its id, lane and group. `None`: a task of the runtime, or nobody.
    static CURRENT: Cell<Option<(u64, Lane, Group)>> = const { Cell::new(None) };
}

thread_local! {
    /// Runs what calls leave behind when they are dropped. Making a runtime costs as much as a path, so it is used again while
    /// no task is left in it.
    static RUNTIME: RefCell<Option<tokio::runtime::Runtime>> = const { RefCell::new(None) };
}

fn with_runtime<T>(work: impl FnOnce(&tokio::runtime::Runtime) -> T) -> T {
    RUNTIME.with_borrow_mut(|runtime| {
        runtime.get_or_insert_with(|| {
            // Without its timer, code under test could not use `tokio::time`. Its timeouts count real time, so none ends within a path.
            tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .expect("a runtime without I/O needs nothing that could be missing")
        });
    });
    RUNTIME.with_borrow(|runtime| work(runtime.as_ref().expect("it was just made")))
}

/// A step that can be taken now.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Go {
        gate: u64,
        choice: usize,
    },
    Crash {
        group: Group,
    },
    Drop {
        task: u64,
    },
    /// The time passes until the next sleeper is due.
    Wake {
        until: u64,
        early: bool,
    },
    /// The time passes until something ends by itself.
    Pass {
        until: u64,
    },
}

/// A step that is the same on every path: lane, how many gates the lane had reached, which choice.
pub(super) type StepId = (Lane, u16, u8);

pub(super) struct Possible {
    pub(super) step: Step,
    pub(super) faults: u32,
    pub(super) id: Option<StepId>,
    pub(super) touches: u64,
}

/// How a path ended.
pub(super) enum Ended {
    Whole(Result<(), String>),
    Cut,
}

/// What to choose, and what has been chosen.
pub(super) struct Script<'a> {
    pub(super) given: &'a [u16],
    pub(super) faults: u32,
    /// What was chosen at each place where there was a choice, and among how many.
    pub(super) taken: Vec<(u16, u16)>,
    pub(super) known: Option<&'a mut Known>,
}

impl Path {
    pub(super) fn new(lanes: usize, traced: bool) -> Self {
        let state = State {
            tasks: BTreeMap::new(),
            spawned: 0,
            gates: BTreeMap::new(),
            reached: 0,
            dead: Vec::new(),
            early_wakes: 0,
            calm: false,
            told: vec![0; lanes],
            gates_of: vec![0; lanes],
            history: Vec::new(),
        };
        Self { shared: Arc::new(Mutex::new(state)), clock: ManualClock::held(), traced }
    }

    /// The clock of the path. It stands still while a task can go on.
    #[must_use]
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// Adds a task. Its lane is the column of the history in which it appears; its group can crash as a whole.
    pub fn spawn(&self, lane: Lane, group: Group, task: impl Future<Output = ()> + Send + 'static) {
        self.add(lane, group, false, task);
    }

    /// Adds a task that may never get its turn. The path ends without it.
    pub fn spawn_optional(&self, lane: Lane, group: Group, task: impl Future<Output = ()> + Send + 'static) {
        self.add(lane, group, true, task);
    }

    fn add(&self, lane: Lane, group: Group, optional: bool, task: impl Future<Output = ()> + Send + 'static) {
        let mut state = self.lock();
        state.spawned += 1;
        let id = state.spawned;
        let ready = Arc::new(AtomicBool::new(true));
        state.tasks.insert(id, Task { group, lane, optional, future: Some(Box::pin(task)), ready });
    }

    /// The lane of the task that is running. `None` in a task that the runtime runs in the background.
    #[must_use]
    pub fn lane(&self) -> Option<Lane> {
        CURRENT.get().map(|(_, lane, _)| lane)
    }

    /// The group of the task that is running.
    #[must_use]
    pub fn group(&self) -> Option<Group> {
        CURRENT.get().map(|(_, _, group)| group)
    }

    /// Waits here until the explorer decides how to go on, and returns the number of the choice. `touches` is a set of bits:
    /// two steps are independent if they have none in common. The caller may crash or be dropped here.
    ///
    /// In a task of the runtime, and for a gate at which nobody need die, use [`gate_with`](Self::gate_with).
    pub async fn gate(&self, lane: Lane, what: &'static str, touches: u64, choices: &'static [Choice]) -> usize {
        let group = self.group().unwrap_or(Group::MAX);
        self.gate_with(Gate { group, lane, what, touches, mortal: true }, choices).await
    }

    /// The same with everything said. If the group is dead, this never returns.
    pub async fn gate_with(&self, gate: Gate, choices: &'static [Choice]) -> usize {
        let Gate { group, lane, what, touches, mortal } = gate;
        if self.is_dead(group) {
            return std::future::pending().await;
        }
        let id = {
            let mut state = self.lock();
            state.reached += 1;
            state.gates_of[lane] += 1;
            let number = state.gates_of[lane];
            let now = self.clock.now_ms();
            state.mix(lane, now);
            let task = CURRENT.get().map(|(task, ..)| task);
            let waiting =
                Waiting { lane, number, task, group, what, touches, choices, mortal, chosen: None, waker: None };
            let id = state.reached;
            state.gates.insert(id, waiting);
            id
        };
        let leaving = Leaving { path: self, id };
        let chosen = poll_fn(|cx| {
            let mut state = self.lock();
            let Some(waiting) = state.gates.get_mut(&id) else { return Poll::Pending };
            if let Some(chosen) = waiting.chosen {
                return Poll::Ready(chosen);
            }
            waiting.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        drop(leaving);
        chosen
    }

    /// A lane learns something that decides what it does next.
    pub fn told(&self, lane: Lane, what: &dyn Debug) {
        self.lock().tell(lane, what);
    }

    /// Adds a line to the printed history.
    pub fn note(&self, lane: Lane, text: impl FnOnce() -> String) {
        if self.traced {
            let text = text();
            self.lock().history.push((Some(lane), text));
        }
    }

    /// Lets everything that is left run to its end, without a choice: nothing goes wrong, and the time passes when nobody can go
    /// on.
    ///
    /// # Errors
    /// If some task never ends.
    pub fn settle(&self) -> Result<(), String> {
        self.lock().calm = true;
        for _ in 0..MAX_STEPS {
            self.run_ready();
            if self.is_over() {
                return Ok(());
            }
            let open = |waiting: &Waiting| waiting.chosen.is_none() && waiting.choices[0].faults == 0;
            let gate = self.lock().gates.iter().find(|(_, waiting)| open(waiting)).map(|(id, _)| *id);
            match (gate, self.clock.next_due_ms()) {
                (Some(gate), _) => self.go(gate, 0),
                (None, Some(due)) => self.pass(due),
                (None, None) => return Err(self.waits_for_ever()),
            }
        }
        Err(format!("{} after {MAX_STEPS} steps", self.waits_for_ever()))
    }

    /// True once nothing goes wrong any more: the path is [settling](Self::settle).
    #[must_use]
    pub fn is_calm(&self) -> bool {
        self.lock().calm
    }

    /// Is a task of this lane left?
    #[must_use]
    pub fn is_busy(&self, lane: Lane) -> bool {
        let state = self.lock();
        state.tasks.values().any(|task| task.lane == lane)
    }

    /// Has this group crashed?
    #[must_use]
    pub fn is_dead(&self, group: Group) -> bool {
        self.lock().dead.contains(&group)
    }

    /// The lines of the history so far.
    pub(super) fn history(&self) -> Vec<(Option<Lane>, String)> {
        self.lock().history.clone()
    }

    pub(super) fn play<M: Model>(&self, model: &M, world: &M::World, script: &mut Script<'_>) -> Ended {
        let mut faults = script.faults;
        let mut sleeping: Vec<(StepId, u64)> = Vec::new();
        for _ in 0..MAX_STEPS {
            self.run_ready();
            if let Err(violation) = model.check(world) {
                return Ended::Whole(Err(violation));
            }
            let is_new = script.taken.len() >= script.given.len();
            if is_new && let Some(known) = script.known.as_deref_mut() {
                let fingerprint = self.fingerprint(model, world);
                let asleep: Vec<StepId> = sleeping.iter().map(|(id, _)| *id).collect();
                if !known.is_new(fingerprint, faults, asleep) {
                    return Ended::Cut;
                }
            }
            if self.is_over() {
                return Ended::Whole(model.end(world, self));
            }
            let mut possible = self.possible(faults, model.drops(), model.next_time(world, self.clock.now_ms()));
            if possible.is_empty() {
                return Ended::Whole(Err(model.stuck(self.waits_for_ever())));
            }
            possible.retain(|step| step.id.is_none_or(|id| !sleeping.iter().any(|(asleep, _)| *asleep == id)));
            let chosen = match possible.len() {
                0 => return Ended::Cut, // every step sleeps: its order with the others has been explored
                1 => 0,
                of => {
                    let index = script.given.get(script.taken.len()).copied().unwrap_or(0).min(of as u16 - 1);
                    script.taken.push((index, of as u16));
                    usize::from(index)
                }
            };
            // The steps before the chosen one have been explored from this state. They sleep as long as only steps are taken
            // that have nothing to do with them.
            let earlier = possible[..chosen].iter().filter_map(|step| Some((step.id?, step.touches)));
            sleeping.extend(earlier);
            let Possible { step, faults: cost, touches, .. } = possible[chosen];
            sleeping.retain(|(_, asleep)| asleep & touches == 0);
            faults -= cost;
            self.take(step);
        }
        Ended::Whole(Err(model.stuck(format!("{} after {MAX_STEPS} steps", self.waits_for_ever()))))
    }

    fn fingerprint<M: Model>(&self, model: &M, world: &M::World) -> u128 {
        let mut hasher = Wide::default();
        hasher.write_u64(self.clock.now_ms());
        {
            let state = self.lock();
            state.told.hash(&mut hasher);
            state.gates_of.hash(&mut hasher);
            state.early_wakes.hash(&mut hasher);
            let mut dead = state.dead.clone();
            dead.sort_unstable();
            dead.hash(&mut hasher);
            self.clock.dues().hash(&mut hasher);
            for waiting in state.gates.values() {
                (waiting.lane, waiting.number).hash(&mut hasher);
            }
            for task in state.tasks.values() {
                (task.lane, task.group).hash(&mut hasher);
            }
        }
        model.fingerprint(world, &mut hasher);
        hasher.wide()
    }

    fn possible(&self, faults: u32, drops: bool, next_time: Option<u64>) -> Vec<Possible> {
        let state = self.lock();
        let mut possible = Vec::new();
        let mut busy = false;
        // A task that was let through may not be polled yet, if another one has it in its hands.
        for (gate, waiting) in state.gates.iter().filter(|(_, waiting)| waiting.chosen.is_none()) {
            let optional = waiting.task.and_then(|task| state.tasks.get(&task)).is_some_and(|task| task.optional);
            busy |= !optional;
            for (choice, Choice { faults: cost, .. }) in waiting.choices.iter().enumerate() {
                if *cost <= faults {
                    let id = Some((waiting.lane, waiting.number, u8::try_from(choice).unwrap_or(u8::MAX)));
                    let step = Step::Go { gate: *gate, choice };
                    possible.push(Possible { step, faults: *cost, id, touches: waiting.touches });
                }
            }
        }
        let all = u64::MAX;
        if let Some(until) = self.clock.next_due_ms()
            && (!busy || state.early_wakes < EARLY_WAKES)
        {
            possible.push(Possible { step: Step::Wake { until, early: busy }, faults: 0, id: None, touches: all });
        }
        let cost = u32::from(busy);
        if let Some(until) = next_time
            && cost <= faults
            && until > self.clock.now_ms()
        {
            possible.push(Possible { step: Step::Pass { until }, faults: cost, id: None, touches: all });
        }
        if faults > 0 {
            let mut groups: Vec<Group> = Vec::new();
            let stands_safely =
                |task: u64| state.gates.values().any(|waiting| waiting.task == Some(task) && !waiting.mortal);
            for (id, task) in state.tasks.iter().filter(|(_, task)| !task.optional) {
                if drops {
                    possible.push(Possible { step: Step::Drop { task: *id }, faults: 1, id: None, touches: all });
                }
                if !groups.contains(&task.group) && !stands_safely(*id) {
                    groups.push(task.group);
                    let step = Step::Crash { group: task.group };
                    possible.push(Possible { step, faults: 1, id: None, touches: all });
                }
            }
        }
        possible
    }

    fn take(&self, step: Step) {
        match step {
            Step::Go { gate, choice } => self.go(gate, choice),
            Step::Crash { group } => self.crash(group),
            Step::Drop { task } => self.drop_task(task),
            Step::Wake { until, .. } | Step::Pass { until } => {
                if matches!(step, Step::Wake { early: true, .. }) {
                    self.lock().early_wakes += 1;
                }
                self.pass(until);
            }
        }
    }

    fn pass(&self, until: u64) {
        let passed = until.saturating_sub(self.clock.now_ms());
        if self.traced {
            self.lock().history.push((None, format!("{passed} ms pass")));
        }
        self.clock.set_ms(until);
    }

    fn go(&self, gate: u64, choice: usize) {
        let waker = {
            let mut state = self.lock();
            let Some(waiting) = state.gates.get_mut(&gate) else { return };
            waiting.chosen = Some(choice);
            let (lane, what, name) = (waiting.lane, waiting.what, waiting.choices[choice].name);
            let waker = waiting.waker.take();
            let now = self.clock.now_ms();
            state.mix(lane, choice as u64);
            state.mix(lane, now);
            if self.traced {
                state
                    .history
                    .push((Some(lane), if name.is_empty() { what.to_owned() } else { format!("{what}: {name}") }));
            }
            waker
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The machine of this group is gone. Its futures are dropped where no runtime takes what they would still like to do.
    fn crash(&self, group: Group) {
        let dead: Vec<Task> = {
            let mut state = self.lock();
            state.dead.push(group);
            let ids: Vec<u64> = state.tasks.iter().filter(|(_, task)| task.group == group).map(|(id, _)| *id).collect();
            if self.traced {
                let lane = ids.first().map_or(0, |id| state.tasks[id].lane);
                state.history.push((Some(lane), "CRASH".to_owned()));
            }
            state.gates.retain(|_, waiting| waiting.group != group);
            ids.iter().filter_map(|id| state.tasks.remove(id)).collect()
        };
        drop(dead);
    }

    /// The caller of this task goes away: its future is dropped, and its machine lives on.
    fn drop_task(&self, task: u64) {
        let gone = {
            let mut state = self.lock();
            let gone = state.tasks.remove(&task);
            if self.traced
                && let Some(gone) = &gone
            {
                let lane = gone.lane;
                state.history.push((Some(lane), "its future is DROPPED".to_owned()));
            }
            gone
        };
        if let Some(gone) = gone {
            with_runtime(|runtime| {
                let _inside = runtime.enter();
                CURRENT.set(Some((task, gone.lane, gone.group)));
                drop(gone);
                CURRENT.set(None);
            });
        }
    }

    /// Polls every task that can go on, until all wait at a gate or sleep.
    fn run_ready(&self) {
        with_runtime(|runtime| {
            let _inside = runtime.enter();
            loop {
                while self.poll_one() {}
                if runtime.metrics().num_alive_tasks() == 0 {
                    return;
                }
                let before = self.lock().reached;
                runtime.block_on(async {
                    for _ in 0..BACKGROUND_TURNS {
                        tokio::task::yield_now().await;
                    }
                });
                let state = self.lock();
                let awake = state.tasks.values().any(|task| task.ready.load(Ordering::Relaxed));
                if state.reached == before && !awake {
                    return;
                }
            }
        });
    }

    /// Polls one task that can go on. False if there is none.
    fn poll_one(&self) -> bool {
        let (id, lane, group, future, ready) = {
            let mut state = self.lock();
            let next = state.tasks.iter_mut().find(|(_, task)| task.ready.swap(false, Ordering::Relaxed));
            let Some((id, task)) = next else { return false };
            (*id, task.lane, task.group, task.future.take(), Arc::clone(&task.ready))
        };
        let Some(mut future) = future else { return true };
        CURRENT.set(Some((id, lane, group)));
        let waker = Waker::from(Arc::new(Ready(ready)));
        let done = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        CURRENT.set(None);
        // Dropped outside the lock, because a future's drop may use the path.
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
        true
    }

    /// Ends the path. Its tasks hold clones of it, so they would keep each other.
    pub(super) fn bury(&self) {
        let tasks = std::mem::take(&mut self.lock().tasks);
        drop(tasks);
        RUNTIME.with_borrow_mut(|runtime| {
            if runtime.as_ref().is_some_and(|runtime| runtime.metrics().num_alive_tasks() > 0) {
                *runtime = None;
            }
        });
    }

    /// Is everything over that must come to an end?
    fn is_over(&self) -> bool {
        let state = self.lock();
        let optional =
            |waiting: &Waiting| waiting.task.and_then(|task| state.tasks.get(&task)).is_some_and(|task| task.optional);
        state.tasks.values().all(|task| task.optional) && state.gates.values().all(optional)
    }

    fn waits_for_ever(&self) -> String {
        let state = self.lock();
        let mut text = "some task never ends:".to_owned();
        for task in state.tasks.values().filter(|task| !task.optional) {
            let _ = write!(text, " lane {}", task.lane);
        }
        text
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.shared)
    }
}

impl Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Path").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl State {
    fn mix(&mut self, lane: Lane, word: u64) {
        let mut hasher = Wide::default();
        hasher.write_u128(self.told[lane]);
        hasher.write_u64(word);
        self.told[lane] = hasher.wide();
    }

    fn tell(&mut self, lane: Lane, what: &dyn Debug) {
        let mut hasher = Wide::default();
        hasher.write_u128(self.told[lane]);
        let _ = write!(Text(&mut hasher), "{what:?}");
        self.told[lane] = hasher.wide();
    }
}

/// Leaves the gate, also if the task is dropped there.
struct Leaving<'a> {
    path: &'a Path,
    id: u64,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.path.lock().gates.remove(&self.id);
    }
}

struct Ready(Arc<AtomicBool>);

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Two 64-bit hashes at once: with 128 bits, two different states never have the same fingerprint in practice.
struct Wide {
    one: u64,
    two: u64,
}

impl Default for Wide {
    fn default() -> Self {
        Self { one: 0xcbf2_9ce4_8422_2325, two: 0x9e37_79b9_7f4a_7c15 }
    }
}

impl Wide {
    fn wide(&self) -> u128 {
        u128::from(self.one) << 64 | u128::from(self.finish())
    }
}

impl Hasher for Wide {
    fn finish(&self) -> u64 {
        let mut mixed = self.two ^ self.one.rotate_left(32);
        mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 33)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word) ^ (chunk.len() as u64) << 56);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.one = (self.one ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        self.two = (self.two.rotate_left(29) ^ word).wrapping_mul(0x9fb2_1c65_1e98_df25);
    }
}

struct Text<'a>(&'a mut Wide);

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}
