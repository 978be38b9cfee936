//! Records what really happened, and checks the invariants.
//!
//! The ledger knows what no worker knows: which effects took place, and what the store accepted in which order. Each
//! violation begins with the number of its invariant.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ichido::observe::{Event, Operation};
use ichido::store::{Admit, Admitted, Settle, Settled, Transition};
use ichido::{Claim, Clock, Done, How, Key, Outcome, Owner, State};
use testkit::ManualClock;
use testkit::sim::Sim;

/// One life of one instance. It ends with a crash, which also loses its memory.
pub(crate) type Life = u32;

/// Can the destination be asked whether something was done?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Probeable,
    Blind,
}

/// What a seed decides about its world.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) destination: Destination,
    pub(crate) open: bool,
    pub(crate) instances: u64,
    pub(crate) workers: u64,
    pub(crate) keys: u64,
    pub(crate) deliveries: u64,
    /// Probabilities, for each call.
    pub(crate) error_before: f64,
    pub(crate) lost_answer: f64,
    pub(crate) retried_inside: f64,
    pub(crate) slow: f64,
    pub(crate) crash: f64,
    pub(crate) failing_work: f64,
    /// How many deliveries bring another payload under the same key.
    pub(crate) other_payload: f64,
    pub(crate) refuses_doubt: bool,
    /// The store fails between these times, in milliseconds from the start.
    pub(crate) outage: Option<(u64, u64)>,
    pub(crate) crashes: u32,
}

impl Plan {
    pub(crate) fn of(sim: &Sim) -> Self {
        let chance = || [0.0, 0.02, 0.1, 0.25][usize::try_from(sim.below(4)).unwrap()];
        let outage = sim.chance(0.4).then(|| {
            let from = sim.below(60_000);
            (from, from + 1_000 + sim.below(120_000))
        });
        Self {
            destination: if sim.chance(0.5) { Destination::Probeable } else { Destination::Blind },
            open: sim.chance(0.5),
            instances: 1 + sim.below(3),
            workers: 1 + sim.below(3),
            keys: 1 + sim.below(3),
            deliveries: 1 + sim.below(3),
            error_before: chance(),
            lost_answer: chance(),
            retried_inside: chance(),
            slow: chance(),
            crash: chance() / 2.0,
            failing_work: chance(),
            other_payload: chance(),
            refuses_doubt: sim.chance(0.3),
            outage,
            crashes: u32::try_from(sim.below(5)).unwrap(),
        }
    }
}

/// How often the interesting things happened. A world in which nothing goes wrong proves nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) effects: u32,
    pub(crate) repeats: u32,
    pub(crate) doubted: u32,
    pub(crate) probed: u32,
    pub(crate) fenced: u32,
    pub(crate) replayed: u32,
    pub(crate) alone: u32,
    pub(crate) unrecorded: u32,
    pub(crate) reconciled: u32,
    pub(crate) conflicts: u32,
    pub(crate) crashes: u32,
    pub(crate) lost_answers: u32,
    pub(crate) opened: u32,
    pub(crate) renewed: u32,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Counts) {
        self.effects += other.effects;
        self.repeats += other.repeats;
        self.doubted += other.doubted;
        self.probed += other.probed;
        self.fenced += other.fenced;
        self.replayed += other.replayed;
        self.alone += other.alone;
        self.unrecorded += other.unrecorded;
        self.reconciled += other.reconciled;
        self.conflicts += other.conflicts;
        self.crashes += other.crashes;
        self.lost_answers += other.lost_answers;
        self.opened += other.opened;
        self.renewed += other.renewed;
    }

    pub(crate) fn all_happened(&self) -> bool {
        let Counts { effects, repeats, doubted, probed, fenced, replayed, alone, .. } = *self;
        let Counts { unrecorded, reconciled, conflicts, crashes, lost_answers, opened, renewed, .. } = *self;
        [effects, repeats, doubted, probed, fenced, replayed, alone, unrecorded, reconciled, conflicts, crashes]
            .into_iter()
            .chain([lost_answers, opened, renewed])
            .all(|count| count > 0)
    }
}

/// The world, which knows everything.
pub(crate) struct World {
    pub(crate) sim: Sim,
    pub(crate) plan: Plan,
    started_ms: u64,
    ledger: Mutex<Ledger>,
}

#[derive(Default)]
struct Ledger {
    healed: bool,
    crashes_left: u32,
    effects: Vec<Effect>,
    grants: BTreeMap<u64, Grant>,
    granted: u64,
    /// The greatest fence of each key so far.
    fences: BTreeMap<String, u64>,
    /// Who last won the claim.
    holder: BTreeMap<String, (Owner, u64)>,
    /// What the store has settled. It must never change again.
    settled: BTreeMap<String, State>,
    /// Keys whose outcome only one instance knows, or knew.
    journalled: BTreeSet<String>,
    doubted: BTreeMap<String, u32>,
    alone: BTreeMap<(Life, String), u32>,
    entered_alone: BTreeMap<(Life, String), u32>,
    doubted_alone: BTreeMap<(Life, String), u32>,
    new_marks: BTreeMap<String, u32>,
    /// Which payloads came under which key.
    payloads: BTreeSet<(String, u8)>,
    outcomes: Vec<(String, Done<u64>)>,
    failures: BTreeSet<String>,
    violations: Vec<String>,
    trace: Option<Vec<String>>,
    counts: Counts,
}

struct Effect {
    key: String,
    payload: u8,
    life: Life,
    fence: u64,
    value: u64,
}

/// A worker in the middle of its work.
struct Grant {
    key: String,
    claim: Claim,
    clock: ManualClock,
}

impl World {
    pub(crate) fn new(sim: &Sim, plan: Plan, traced: bool) -> Self {
        let ledger = Ledger { crashes_left: plan.crashes, trace: traced.then(Vec::new), ..Ledger::default() };
        Self { sim: sim.clone(), plan, started_ms: sim.clock().now_ms(), ledger: Mutex::new(ledger) }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, text: impl FnOnce() -> String) {
        let at = self.sim.clock().now_ms() - self.started_ms;
        if let Some(trace) = &mut self.ledger().trace {
            trace.push(format!("{at:>7} ms  {}", text()));
        }
    }

    /// Nothing goes wrong from here on.
    pub(crate) fn heal(&self) {
        self.ledger().healed = true;
        self.note(|| "healed".into());
    }

    pub(crate) fn chance(&self, probability: f64) -> bool {
        !self.ledger().healed && self.sim.chance(probability)
    }

    pub(crate) fn in_outage(&self) -> bool {
        let at = self.sim.clock().now_ms() - self.started_ms;
        !self.ledger().healed && self.plan.outage.is_some_and(|(from, to)| from <= at && at < to)
    }

    pub(crate) fn may_crash(&self) -> bool {
        if !self.chance(self.plan.crash) {
            return false;
        }
        let mut ledger = self.ledger();
        if ledger.crashes_left == 0 {
            return false;
        }
        ledger.crashes_left -= 1;
        ledger.counts.crashes += 1;
        true
    }

    pub(crate) fn answer_lost(&self) {
        self.ledger().counts.lost_answers += 1;
    }

    // What the store did.

    pub(crate) fn admitted(&self, request: &Admit<'_>, answer: &Admitted) {
        self.note(|| {
            format!("store: admit {} {} {:?} -> {answer:?}", request.key, short(&request.owner), request.state)
        });
        let Admitted::Won { fence, .. } = answer else { return };
        let key = request.key.as_str().to_owned();
        let mut ledger = self.ledger();
        if !matches!(request.state, State::Claimed { .. }) {
            ledger.settle(&key, request.state.clone());
            return;
        }
        let highest = ledger.fences.insert(key.clone(), *fence).unwrap_or(0);
        if *fence <= highest {
            ledger.violation(format!("1: the fence of {key} went from {highest} to {fence}"));
        }
        if let Some(state) = ledger.settled.get(&key) {
            let text = format!("3: {key} was claimed although it is {}", state.name());
            ledger.violation(text);
        }
        ledger.holder.insert(key, (request.owner.clone(), *fence));
    }

    pub(crate) fn settled(&self, request: &Settle<'_>, answer: &Settled) {
        self.note(|| {
            let owner = short(&request.owner);
            format!("store: settle {} {owner} fence {} {:?} -> {answer:?}", request.key, request.fence, request.to)
        });
        let Settled::Done = answer else { return };
        let key = request.key.as_str().to_owned();
        let mut ledger = self.ledger();
        let holder = ledger.holder.get(&key).cloned();
        if holder != Some((request.owner.clone(), request.fence)) {
            let text = format!("2: {key} is held by {holder:?} and was settled by fence {}", request.fence);
            ledger.violation(text);
        }
        match &request.to {
            Transition::Complete { .. } | Transition::Fail { .. } => {
                ledger.settle(&key, request.to.clone().into_state())
            }
            Transition::Renew { .. } => ledger.counts.renewed += 1,
            Transition::Release { .. } => {}
        }
    }

    // What the workers did.

    /// A worker begins its work. The number is for [`leave`](Self::leave).
    pub(crate) fn enter(&self, life: Life, clock: &ManualClock, claim: &Claim) -> u64 {
        let key = claim.key().as_str().to_owned();
        self.note(|| format!("life {life} works on {key} under fence {}", claim.fence()));
        let mut ledger = self.ledger();
        if claim.fence() == 0 {
            let entered = ledger.entered_alone.entry((life, key.clone())).or_default();
            *entered += 1;
            let entered = *entered;
            if entered > ledger.alone.get(&(life, key.clone())).copied().unwrap_or(0) {
                ledger.violation(format!("4: life {life} admitted {key} without the store and did not report it"));
            }
        } else {
            let both = ledger.grants.values().find(|other| {
                other.key == key && other.claim.fence() > 0 && other.clock.now() < other.claim.deadline()
            });
            if let Some(other) = both {
                let text = format!(
                    "1: {key} is held under fence {} until {} and under fence {}",
                    other.claim.fence(),
                    other.claim.deadline(),
                    claim.fence(),
                );
                ledger.violation(text);
            }
        }
        ledger.granted += 1;
        let id = ledger.granted;
        ledger.grants.insert(id, Grant { key, claim: claim.clone(), clock: clock.clone() });
        id
    }

    pub(crate) fn leave(&self, grant: u64) {
        self.ledger().grants.remove(&grant);
    }

    /// The effect takes place.
    pub(crate) fn perform(&self, life: Life, payload: u8, claim: &Claim) -> u64 {
        let key = claim.key().as_str().to_owned();
        let mut ledger = self.ledger();
        let value = u64::try_from(ledger.effects.len()).unwrap() + 1;
        if ledger.effects.iter().any(|effect| effect.key == key) {
            ledger.counts.repeats += 1;
        }
        ledger.counts.effects += 1;
        ledger.effects.push(Effect { key: key.clone(), payload, life, fence: claim.fence(), value });
        drop(ledger);
        self.note(|| format!("EFFECT {value} of {key} by life {life} under fence {}", claim.fence()));
        value
    }

    /// What the destination says when it is asked.
    pub(crate) fn found(&self, key: &Key, payload: u8) -> Option<u64> {
        let ledger = self.ledger();
        let found = ledger.effects.iter().find(|effect| effect.key == key.as_str() && effect.payload == payload);
        found.map(|effect| effect.value)
    }

    /// A delivery with this payload came under this key.
    pub(crate) fn uses(&self, key: &Key, payload: u8) {
        self.ledger().payloads.insert((key.as_str().to_owned(), payload));
    }

    pub(crate) fn has_other_payload(&self, key: &Key, payload: u8) -> bool {
        self.ledger().payloads.contains(&(key.as_str().to_owned(), 1 - payload))
    }

    pub(crate) fn done(&self, life: Life, key: &Key, payload: u8, done: Done<u64>) {
        self.note(|| format!("life {life} has {done:?} of {key}"));
        let mut ledger = self.ledger();
        if ledger.effects.iter().any(|effect| effect.value == done.value && effect.payload != payload) {
            ledger.violation(format!("3: {key} answered payload {payload} with the outcome of another payload"));
        }
        if done.how == How::Replayed {
            ledger.counts.replayed += 1;
        }
        ledger.outcomes.push((key.as_str().to_owned(), done));
    }

    pub(crate) fn failed(&self, key: &Key) {
        self.ledger().failures.insert(key.as_str().to_owned());
    }

    pub(crate) fn marked_new(&self, key: &Key) {
        *self.ledger().new_marks.entry(key.as_str().to_owned()).or_default() += 1;
    }

    pub(crate) fn violation(&self, text: String) {
        self.ledger().violation(text);
    }

    pub(crate) fn observe(&self, life: Life, event: &Event<'_>) {
        self.note(|| format!("life {life}: {event:?}"));
        let mut ledger = self.ledger();
        match event {
            Event::AdmittedWithoutStore { key } => {
                *ledger.alone.entry((life, key.as_str().to_owned())).or_default() += 1;
                ledger.journalled.insert(key.as_str().to_owned());
                ledger.counts.alone += 1;
            }
            Event::Doubted { key, fence } => {
                *ledger.doubted.entry(key.as_str().to_owned()).or_default() += 1;
                if *fence == 0 {
                    *ledger.doubted_alone.entry((life, key.as_str().to_owned())).or_default() += 1;
                }
                ledger.counts.doubted += 1;
            }
            // The store could not record a failure. Until it is back, this instance uses what it remembers.
            Event::StoreFailed { key, operation: Operation::Fail, .. } => {
                ledger.journalled.insert(key.as_str().to_owned());
            }
            Event::Unrecorded { key } => {
                ledger.journalled.insert(key.as_str().to_owned());
                ledger.counts.unrecorded += 1;
            }
            Event::Probed { done: true, .. } => ledger.counts.probed += 1,
            Event::Fenced { .. } => ledger.counts.fenced += 1,
            Event::Reconciled { conflict, .. } => {
                ledger.counts.reconciled += 1;
                ledger.counts.conflicts += u32::from(*conflict);
            }
            Event::BreakerOpened => ledger.counts.opened += 1,
            _ => {}
        }
    }

    /// Ends the world: checks what can only be checked at the end. Returns violations, trace and counts.
    pub(crate) fn end(&self) -> (Vec<String>, Vec<String>, Counts) {
        let mut ledger = self.ledger();
        ledger.look_back(&self.plan);
        (std::mem::take(&mut ledger.violations), ledger.trace.take().unwrap_or_default(), ledger.counts)
    }
}

impl Ledger {
    fn violation(&mut self, text: String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("VIOLATION {text}"));
        }
        self.violations.push(text);
    }

    fn settle(&mut self, key: &str, state: State) {
        if let Some(before) = self.settled.insert(key.to_owned(), state.clone()) {
            self.violation(format!("3: {key} was {before:?} and became {state:?}"));
        }
    }

    fn look_back(&mut self, plan: &Plan) {
        self.outcomes_are_the_recorded_ones();
        self.effects_are_not_repeated(plan);
        self.admissions_are_bounded();
        self.nothing_is_lost();
    }

    fn outcomes_are_the_recorded_ones(&mut self) {
        let mut wrong = Vec::new();
        for (key, done) in &self.outcomes {
            let recorded = match self.settled.get(key) {
                Some(State::Completed { outcome: Outcome::Value(json) }) => json.parse::<u64>().ok(),
                _ => None,
            };
            let by_itself = self.journalled.contains(key);
            let happened = self.effects.iter().any(|effect| effect.key == *key && effect.value == done.value);
            let must_be_recorded = !by_itself || done.recorded;
            if !happened {
                wrong.push(format!("3: {key} has an outcome that no effect had: {done:?}"));
            } else if must_be_recorded && Some(done.value) != recorded {
                wrong.push(format!("3: {key} has {done:?}, but {recorded:?} is recorded"));
            }
        }
        for key in &self.failures {
            if !matches!(self.settled.get(key), Some(State::Failed { .. })) && !self.journalled.contains(key) {
                wrong.push(format!("3: {key} was reported as failed, but is not"));
            }
        }
        wrong.into_iter().for_each(|text| self.violation(text));
    }

    fn effects_are_not_repeated(&mut self, plan: &Plan) {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for effect in &self.effects {
            *counts.entry(&effect.key).or_default() += 1;
        }
        let mut wrong = Vec::new();
        for (key, count) in counts {
            let alone: u32 = self.alone.iter().filter(|((_, of), _)| of == key).map(|(_, count)| count).sum();
            let take_overs = match plan.destination {
                Destination::Probeable => 0,
                Destination::Blind if plan.refuses_doubt => 0,
                Destination::Blind => self.doubted.get(key).copied().unwrap_or(0),
            };
            if count > 1 + alone + take_overs {
                wrong.push(format!("3: {key} was done {count} times; {take_overs} take-overs, {alone} alone"));
            }
        }
        wrong.into_iter().for_each(|text| self.violation(text));
    }

    fn admissions_are_bounded(&mut self) {
        let mut counts: BTreeMap<(Life, &str), u32> = BTreeMap::new();
        for effect in self.effects.iter().filter(|effect| effect.fence == 0) {
            *counts.entry((effect.life, &effect.key)).or_default() += 1;
        }
        let mut wrong = Vec::new();
        for ((life, key), count) in counts {
            let doubted = self.doubted_alone.get(&(life, key.to_owned())).copied().unwrap_or(0);
            if count > 1 + doubted {
                wrong.push(format!("4: life {life} did {key} {count} times without the store"));
            }
        }
        for (key, count) in &self.new_marks {
            let alone: u32 = self.alone.iter().filter(|((_, of), _)| of == key).map(|(_, count)| count).sum();
            if *count > 1 + alone {
                wrong.push(format!("1: {key} was new {count} times; {alone} alone"));
            }
        }
        for ((life, key), count) in &self.alone {
            if key.starts_with("mark") && *count > 1 {
                wrong.push(format!("4: life {life} admitted {key} {count} times without the store"));
            }
        }
        wrong.into_iter().for_each(|text| self.violation(text));
    }

    fn nothing_is_lost(&mut self) {
        let lost: Vec<String> = self
            .settled
            .iter()
            .filter(|(key, state)| {
                key.starts_with("run")
                    && matches!(state, State::Completed { .. })
                    && !self.effects.iter().any(|effect| effect.key == **key)
            })
            .map(|(key, _)| format!("3: {key} is recorded as done and was never done"))
            .collect();
        lost.into_iter().for_each(|text| self.violation(text));
    }
}

fn short(owner: &Owner) -> String {
    owner.as_str().chars().take(12).collect()
}
