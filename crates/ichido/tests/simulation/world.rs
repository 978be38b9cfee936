//! What one seed decides, and what happens in its world. The [ledger](proof::ledger) checks it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ichido::observe::Event;
use ichido::store::{Admit, Admitted, Settle, Settled};
use ichido::{Claim, Done, Key, Owner};
use proof::ledger::{Counts, Doubt, Ledger, Life, Rule};
use testkit::ManualClock;
use testkit::sim::Sim;

/// What a seed decides about its world.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) doubt: Doubt,
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
        let can_be_asked = sim.chance(0.5);
        Self {
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
            doubt: match (can_be_asked, sim.chance(0.3)) {
                (true, _) => Doubt::Probe,
                (false, true) => Doubt::Refuse,
                (false, false) => Doubt::Repeat,
            },
            outage,
            crashes: u32::try_from(sim.below(5)).unwrap(),
        }
    }
}

/// The world, which knows everything.
pub(crate) struct World {
    pub(crate) sim: Sim,
    pub(crate) plan: Plan,
    started_ms: u64,
    ledger: Mutex<Ledger>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    healed: bool,
    crashes_left: u32,
    happened: Happened,
    trace: Option<Vec<String>>,
}

/// How often the interesting things happened. A world in which nothing goes wrong proves nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Happened {
    pub(crate) ledger: Counts,
    pub(crate) crashes: u32,
    pub(crate) lost_answers: u32,
}

impl Happened {
    pub(crate) fn add(&mut self, other: Happened) {
        self.ledger.add(other.ledger);
        self.crashes += other.crashes;
        self.lost_answers += other.lost_answers;
    }

    pub(crate) fn all(&self) -> bool {
        self.ledger.all_happened() && self.crashes > 0 && self.lost_answers > 0
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(crate) fn new(sim: &Sim, plan: Plan, traced: bool) -> Self {
        let state = State { crashes_left: plan.crashes, trace: traced.then(Vec::new), ..State::default() };
        let started_ms = sim.clock().now_ms();
        Self { sim: sim.clone(), plan, started_ms, ledger: Mutex::default(), state: Mutex::new(state) }
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    pub(crate) fn note(&self, text: impl FnOnce() -> String) {
        let at = self.sim.clock().now_ms() - self.started_ms;
        if let Some(trace) = &mut lock(&self.state).trace {
            trace.push(format!("{at:>7} ms  {}", text()));
        }
    }

    /// Nothing goes wrong from here on.
    pub(crate) fn heal(&self) {
        lock(&self.state).healed = true;
        self.note(|| "healed".into());
    }

    pub(crate) fn chance(&self, probability: f64) -> bool {
        !lock(&self.state).healed && self.sim.chance(probability)
    }

    pub(crate) fn in_outage(&self) -> bool {
        let at = self.sim.clock().now_ms() - self.started_ms;
        !lock(&self.state).healed && self.plan.outage.is_some_and(|(from, to)| from <= at && at < to)
    }

    pub(crate) fn may_crash(&self) -> bool {
        if !self.chance(self.plan.crash) {
            return false;
        }
        let mut state = lock(&self.state);
        if state.crashes_left == 0 {
            return false;
        }
        state.crashes_left -= 1;
        state.happened.crashes += 1;
        true
    }

    pub(crate) fn answer_lost(&self) {
        lock(&self.state).happened.lost_answers += 1;
    }

    pub(crate) fn violation(&self, rule: Rule, text: String) {
        self.note(|| format!("VIOLATION {rule}: {text}"));
        self.ledger().violation(rule, text);
    }

    pub(crate) fn admitted(&self, request: &Admit<'_>, answer: &Admitted) {
        self.note(|| {
            format!("store: admit {} {} {:?} -> {answer:?}", request.key, short(&request.owner), request.state)
        });
        self.ledger().admitted(request, answer);
    }

    pub(crate) fn settled(&self, request: &Settle<'_>, answer: &Settled) {
        self.note(|| {
            let owner = short(&request.owner);
            format!("store: settle {} {owner} fence {} {:?} -> {answer:?}", request.key, request.fence, request.to)
        });
        self.ledger().settled(request, answer);
    }

    /// A worker begins its work. The number is for [`Ledger::leave`].
    pub(crate) fn enter(&self, life: Life, clock: &ManualClock, claim: &Claim) -> u64 {
        self.note(|| format!("life {life} works on {} under fence {}", claim.key(), claim.fence()));
        self.ledger().enter(life, clock, claim)
    }

    /// The effect takes place.
    pub(crate) fn perform(&self, life: Life, payload: u8, claim: &Claim) -> u64 {
        let value = self.ledger().perform(life, payload, claim);
        self.note(|| format!("EFFECT {value} of {} by life {life} under fence {}", claim.key(), claim.fence()));
        value
    }

    pub(crate) fn done(&self, life: Life, key: &Key, payload: u8, done: Done<u64>) {
        self.note(|| format!("life {life} has {done:?} of {key}"));
        self.ledger().done(key, payload, done);
    }

    pub(crate) fn observe(&self, life: Life, event: &Event<'_>) {
        self.note(|| format!("life {life}: {event:?}"));
        self.ledger().observe(life, event);
    }

    /// Ends the world: checks what can only be checked at the end. Returns violations, trace and counts.
    pub(crate) fn end(&self) -> (Vec<String>, Vec<String>, Happened) {
        let mut ledger = self.ledger();
        ledger.look_back(self.plan.doubt);
        let mut state = lock(&self.state);
        let happened = Happened { ledger: ledger.counts(), ..state.happened };
        (ledger.violations().to_vec(), state.trace.take().unwrap_or_default(), happened)
    }
}

fn short(owner: &Owner) -> String {
    owner.as_str().chars().take(12).collect()
}
