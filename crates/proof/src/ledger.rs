//! What must hold, rule by rule, and the ledger that checks it.
//!
//! The ledger knows what no worker knows: which effects took place, and what the store accepted in which order. The random
//! simulation and the explorer both keep it. `docs/protocol.md` explains each [`Rule`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ichido::key::OutagePolicy;
use ichido::observe::{Event, Operation};
use ichido::store::{Admit, Admitted, Settle, Settled, Transition};
use ichido::{Claim, Clock, Done, How, Key, MAX_CLOCK_SKEW, Outcome, Owner, Record, State};
use ichido_testkit::ManualClock;

/// One life of one instance. It ends with a crash, which also loses its memory.
pub type Life = u32;

/// What must always hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// While the store answers, two workers never both hold the claim on one key.
    OneHolder,
    /// A holder never believes in a longer lease than the store has.
    LeaseKept,
    /// A settlement by a worker that no longer holds the claim changes nothing.
    Fenced,
    /// What the store has settled never changes.
    SettledOnce,
    /// A duplicate gets the recorded outcome.
    ToldTheRecord,
    /// No call gets the outcome of another payload, and none is refused for a payload that nobody sent.
    OwnPayload,
    /// An effect is repeated only where the caller accepted that.
    NoRepeat,
    /// Without the store, an instance performs the effect of a key at most once, and once more per doubt. It reports every
    /// admission.
    BoundedAlone,
    /// The local memory decides only after the store failed a call that may fail open.
    StoreFirst,
    /// What is recorded as done was done. What is recorded as failed was not, unless the key was admitted without the store.
    DoneWasDone,
    /// Every call returns, and every key can be settled once nothing goes wrong any more.
    NobodyWaits,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Self; 11] = [
        Self::OneHolder,
        Self::LeaseKept,
        Self::Fenced,
        Self::SettledOnce,
        Self::ToldTheRecord,
        Self::OwnPayload,
        Self::NoRepeat,
        Self::BoundedAlone,
        Self::StoreFirst,
        Self::DoneWasDone,
        Self::NobodyWaits,
    ];

    /// Its name in `docs/protocol.md` and in violations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OneHolder => "one-holder",
            Self::LeaseKept => "lease-kept",
            Self::Fenced => "fenced",
            Self::SettledOnce => "settled-once",
            Self::ToldTheRecord => "told-the-record",
            Self::OwnPayload => "own-payload",
            Self::NoRepeat => "no-repeat",
            Self::BoundedAlone => "bounded-alone",
            Self::StoreFirst => "store-first",
            Self::DoneWasDone => "done-was-done",
            Self::NobodyWaits => "nobody-waits",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a call does if an earlier attempt may have had its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// It asks the destination.
    Probe,
    /// It repeats the effect.
    Repeat,
    /// It refuses.
    Refuse,
}

/// How often the interesting things happened. A world in which nothing goes wrong proves nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub effects: u32,
    pub repeats: u32,
    pub doubted: u32,
    pub probed: u32,
    pub fenced: u32,
    pub replayed: u32,
    pub alone: u32,
    pub unrecorded: u32,
    pub reconciled: u32,
    pub conflicts: u32,
    pub opened: u32,
    pub renewed: u32,
}

impl Counts {
    /// Adds those of another world.
    pub fn add(&mut self, other: Counts) {
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
        self.opened += other.opened;
        self.renewed += other.renewed;
    }

    /// Did each of them happen?
    #[must_use]
    pub fn all_happened(&self) -> bool {
        let Counts { effects, repeats, doubted, probed, fenced, replayed, .. } = *self;
        let Counts { alone, unrecorded, reconciled, conflicts, opened, renewed, .. } = *self;
        [effects, repeats, doubted, probed, fenced, replayed, alone, unrecorded, reconciled, conflicts, opened, renewed]
            .into_iter()
            .all(|count| count > 0)
    }
}

/// What really happened.
#[derive(Debug, Default)]
pub struct Ledger {
    effects: Vec<Effect>,
    grants: BTreeMap<u64, Grant>,
    granted: u64,
    /// The greatest fence of each key so far.
    fences: BTreeMap<String, u64>,
    /// Who last won the claim.
    holder: BTreeMap<String, (Owner, u64)>,
    /// What the store has settled.
    settled: BTreeMap<String, State>,
    /// What was settled in records that expired and were replaced. `None`: nothing was.
    expired: BTreeMap<String, Vec<Option<State>>>,
    /// Keys whose outcome only one instance knows, or knew.
    journalled: BTreeSet<String>,
    doubted: BTreeMap<String, u32>,
    alone: BTreeMap<(Life, String), u32>,
    /// The lives in which the store failed a call that may fail open.
    cut_off: BTreeSet<Life>,
    entered_alone: BTreeMap<(Life, String), u32>,
    doubted_alone: BTreeMap<(Life, String), u32>,
    new_marks: BTreeMap<String, u32>,
    /// Which payloads came under which key.
    payloads: BTreeSet<(String, u8)>,
    outcomes: Vec<(String, Done<u64>)>,
    failures: BTreeSet<String>,
    violations: Vec<String>,
    counts: Counts,
}

#[derive(Debug)]
struct Effect {
    key: String,
    payload: u8,
    life: Life,
    fence: u64,
    value: u64,
}

/// A worker in the middle of its work.
#[derive(Debug)]
struct Grant {
    key: String,
    claim: Claim,
    clock: ManualClock,
}

impl Ledger {
    /// Something does not hold.
    pub fn violation(&mut self, rule: Rule, text: impl fmt::Display) {
        self.violations.push(format!("{rule}: {text}"));
    }

    /// What did not hold so far, in the order in which it was found.
    #[must_use]
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// How often the interesting things happened.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Everything on which later checks depend.
    pub fn fingerprint(&self, text: &mut impl fmt::Write) -> fmt::Result {
        let Self { effects, grants, fences, holder, settled, journalled, doubted, alone, .. } = self;
        let Self { entered_alone, doubted_alone, new_marks, payloads, outcomes, failures, cut_off, expired, .. } = self;
        let grants = grants.values();
        write!(text, "{effects:?}{fences:?}{holder:?}{settled:?}{journalled:?}{doubted:?}{alone:?}{entered_alone:?}")?;
        write!(text, "{doubted_alone:?}{new_marks:?}{payloads:?}{outcomes:?}{failures:?}{cut_off:?}{expired:?}")?;
        grants.into_iter().try_for_each(|grant| write!(text, "{grant:?}"))
    }

    /// When the leases of those who work now end, as their clocks show it.
    pub fn deadlines(&self) -> impl Iterator<Item = u64> {
        self.grants.values().map(|grant| grant.claim.deadline().as_millis())
    }

    // What the store did.

    /// The record of a key has expired, and a new one is about to take its place. The key counts as one that nobody has used.
    pub fn expired(&mut self, key: &Key) {
        let key = key.as_str();
        let settled = self.settled.remove(key);
        self.expired.entry(key.to_owned()).or_default().push(settled);
        self.fences.remove(key);
        self.holder.remove(key);
    }

    /// What is or was recorded of a key.
    fn records(&self, key: &str) -> impl Iterator<Item = &State> {
        self.settled.get(key).into_iter().chain(self.expired.get(key).into_iter().flatten().flatten())
    }

    /// The store answered a request for a new record.
    pub fn admitted(&mut self, request: &Admit<'_>, answer: &Admitted) {
        let Admitted::Won { fence, .. } = answer else { return };
        let key = request.key.as_str().to_owned();
        if !matches!(request.state, State::Claimed { .. }) {
            self.settle(&key, request.state.clone());
            return;
        }
        let highest = self.fences.insert(key.clone(), *fence).unwrap_or(0);
        if *fence <= highest {
            self.violation(Rule::OneHolder, format_args!("the fence of {key} went from {highest} to {fence}"));
        }
        if let Some(state) = self.settled.get(&key) {
            let text = format!("{key} was claimed although it is {}", state.name());
            self.violation(Rule::SettledOnce, text);
        }
        self.holder.insert(key, (request.owner.clone(), *fence));
    }

    /// The store answered a holder's request.
    pub fn settled(&mut self, request: &Settle<'_>, answer: &Settled) {
        let Settled::Done = answer else { return };
        let key = request.key.as_str().to_owned();
        let holder = self.holder.get(&key).cloned();
        if holder != Some((request.owner.clone(), request.fence)) {
            let text = format!("{key} is held by {holder:?} and was settled by fence {}", request.fence);
            self.violation(Rule::Fenced, text);
        }
        match &request.to {
            Transition::Complete { .. } | Transition::Fail { .. } => self.settle(&key, request.to.clone().into_state()),
            Transition::Renew { .. } => self.counts.renewed += 1,
            Transition::Release { .. } => {}
        }
    }

    fn settle(&mut self, key: &str, state: State) {
        if let Some(before) = self.settled.insert(key.to_owned(), state.clone()) {
            self.violation(Rule::SettledOnce, format_args!("{key} was {before:?} and became {state:?}"));
        }
    }

    // What the workers did.

    /// A worker begins its work. The number is for [`leave`](Self::leave).
    pub fn enter(&mut self, life: Life, clock: &ManualClock, claim: &Claim) -> u64 {
        let key = claim.key().as_str().to_owned();
        if claim.fence() == 0 {
            let entered = self.entered_alone.entry((life, key.clone())).or_default();
            *entered += 1;
            let entered = *entered;
            if entered > self.alone.get(&(life, key.clone())).copied().unwrap_or(0) {
                let text = format!("life {life} admitted {key} without the store and did not report it");
                self.violation(Rule::BoundedAlone, text);
            }
        } else {
            let both = self.grants.values().find(|other| {
                other.key == key && other.claim.fence() > 0 && other.clock.now() < other.claim.deadline()
            });
            if let Some(other) = both {
                let text = format!(
                    "{key} is held under fence {} until {} and under fence {}",
                    other.claim.fence(),
                    other.claim.deadline(),
                    claim.fence(),
                );
                self.violation(Rule::OneHolder, text);
            }
        }
        self.granted += 1;
        self.grants.insert(self.granted, Grant { key, claim: claim.clone(), clock: clock.clone() });
        self.granted
    }

    /// Compares what those who work now believe with the record that the store has of their key.
    pub fn compare_leases(&mut self, key: &Key, record: &Record) {
        let State::Claimed { lease_until } = record.state else { return };
        let too_long = self.grants.values().find(|grant| {
            grant.key == key.as_str()
                && grant.claim.fence() == record.fence
                && grant.claim.deadline() + MAX_CLOCK_SKEW > lease_until
        });
        if let Some(deadline) = too_long.map(|grant| grant.claim.deadline()) {
            let text = format!("the holder of {key} may work until {deadline}, but the store says {lease_until}");
            self.violation(Rule::LeaseKept, text);
        }
    }

    /// A worker ended its work, or died.
    pub fn leave(&mut self, grant: u64) {
        self.grants.remove(&grant);
    }

    /// The effect takes place. Returns its value.
    pub fn perform(&mut self, life: Life, payload: u8, claim: &Claim) -> u64 {
        let key = claim.key().as_str().to_owned();
        let value = self.effects.len() as u64 + 1;
        if self.effects.iter().any(|effect| effect.key == key) {
            self.counts.repeats += 1;
        }
        self.counts.effects += 1;
        self.effects.push(Effect { key, payload, life, fence: claim.fence(), value });
        value
    }

    /// What the destination says when it is asked.
    #[must_use]
    pub fn found(&self, key: &Key, payload: u8) -> Option<u64> {
        let found = self.effects.iter().find(|effect| effect.key == key.as_str() && effect.payload == payload);
        found.map(|effect| effect.value)
    }

    /// A delivery with this payload came under this key.
    pub fn uses(&mut self, key: &Key, payload: u8) {
        self.payloads.insert((key.as_str().to_owned(), payload));
    }

    /// Did a delivery with the other payload come under this key?
    #[must_use]
    pub fn has_other_payload(&self, key: &Key, payload: u8) -> bool {
        self.payloads.contains(&(key.as_str().to_owned(), 1 - payload))
    }

    /// A call got an outcome.
    pub fn done(&mut self, key: &Key, payload: u8, done: Done<u64>) {
        if self.effects.iter().any(|effect| effect.value == done.value && effect.payload != payload) {
            let text = format!("{key} answered payload {payload} with the outcome of another payload");
            self.violation(Rule::OwnPayload, text);
        }
        if done.how == How::Replayed {
            self.counts.replayed += 1;
        }
        self.outcomes.push((key.as_str().to_owned(), done));
    }

    /// A call was told that the work failed for good.
    pub fn failed(&mut self, key: &Key) {
        self.failures.insert(key.as_str().to_owned());
    }

    /// A call was refused because its payload differs.
    pub fn refused(&mut self, key: &Key, payload: u8, fields: &[String]) {
        if !self.has_other_payload(key, payload) {
            let text = format!("{key} was refused, because its payload differs in {fields:?}, but there was only one");
            self.violation(Rule::OwnPayload, text);
        }
    }

    /// A mark was new.
    pub fn marked_new(&mut self, key: &Key) {
        *self.new_marks.entry(key.as_str().to_owned()).or_default() += 1;
    }

    /// What the library reported.
    pub fn observe(&mut self, life: Life, event: &Event<'_>) {
        if let Event::StoreFailed { key, error, .. } = event
            && error.is_transient()
            && key.namespace().outage_policy() == OutagePolicy::Open
        {
            self.cut_off.insert(life);
        }
        match event {
            Event::AdmittedWithoutStore { key, .. } => {
                if !self.cut_off.contains(&life) {
                    let text = format!("life {life} admitted {key} alone, but the store had failed none of its calls");
                    self.violation(Rule::StoreFirst, text);
                }
                *self.alone.entry((life, key.as_str().to_owned())).or_default() += 1;
                self.journalled.insert(key.as_str().to_owned());
                self.counts.alone += 1;
            }
            Event::Doubted { key, fence, .. } => {
                *self.doubted.entry(key.as_str().to_owned()).or_default() += 1;
                if *fence == 0 {
                    *self.doubted_alone.entry((life, key.as_str().to_owned())).or_default() += 1;
                }
                self.counts.doubted += 1;
            }
            // The store could not record a failure. Until it is back, this instance uses what it remembers.
            Event::StoreFailed { key, operation: Operation::Fail, .. } => {
                self.journalled.insert(key.as_str().to_owned());
            }
            Event::Unrecorded { key, .. } => {
                self.journalled.insert(key.as_str().to_owned());
                self.counts.unrecorded += 1;
            }
            Event::Probed { done: true, .. } => self.counts.probed += 1,
            Event::Fenced { .. } => self.counts.fenced += 1,
            Event::Reconciled { conflict, .. } => {
                self.counts.reconciled += 1;
                self.counts.conflicts += u32::from(*conflict);
            }
            Event::BreakerOpened => self.counts.opened += 1,
            // The store answers again: from here on it decides.
            Event::BreakerClosed => {
                self.cut_off.remove(&life);
            }
            _ => {}
        }
    }

    /// Checks what can only be checked at the end.
    pub fn look_back(&mut self, doubt: Doubt) {
        self.outcomes_are_the_recorded_ones();
        self.effects_are_not_repeated(doubt);
        self.admissions_are_bounded();
        self.the_record_is_true();
    }

    fn outcomes_are_the_recorded_ones(&mut self) {
        let mut wrong = Vec::new();
        for (key, done) in &self.outcomes {
            let values = self.records(key).filter_map(|state| match state {
                State::Completed { outcome: Outcome::Value(json) } => json.parse::<u64>().ok(),
                _ => None,
            });
            let recorded: Vec<u64> = values.collect();
            let by_itself = self.journalled.contains(key);
            let happened = self.effects.iter().any(|effect| effect.key == *key && effect.value == done.value);
            let must_be_recorded = !by_itself || done.recorded;
            if !happened {
                wrong.push(format!("{key} has an outcome that no effect had: {done:?}"));
            } else if must_be_recorded && !recorded.contains(&done.value) {
                wrong.push(format!("{key} has {done:?}, but {recorded:?} is recorded"));
            }
        }
        for key in &self.failures {
            let is_recorded = self.records(key).any(|state| matches!(state, State::Failed { .. }));
            if !is_recorded && !self.journalled.contains(key) {
                wrong.push(format!("{key} was reported as failed, but is not"));
            }
        }
        wrong.into_iter().for_each(|text| self.violation(Rule::ToldTheRecord, text));
    }

    fn effects_are_not_repeated(&mut self, doubt: Doubt) {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for effect in &self.effects {
            *counts.entry(&effect.key).or_default() += 1;
        }
        let mut wrong = Vec::new();
        for (key, count) in counts {
            let alone: u32 = self.alone.iter().filter(|((_, of), _)| of == key).map(|(_, count)| count).sum();
            let take_overs = match doubt {
                Doubt::Probe | Doubt::Refuse => 0,
                Doubt::Repeat => self.doubted.get(key).copied().unwrap_or(0),
            };
            let expired = self.expired.get(key).map_or(0, Vec::len);
            if count as usize > 1 + (alone + take_overs) as usize + expired {
                let allowed = format!("{take_overs} take-overs, {alone} alone, {expired} expired");
                wrong.push(format!("{key} was done {count} times; {allowed}"));
            }
        }
        wrong.into_iter().for_each(|text| self.violation(Rule::NoRepeat, text));
    }

    fn admissions_are_bounded(&mut self) {
        let mut wrong = Vec::new();
        // What an instance did itself, it remembers, whether the store knew of it or not. So without the store it does it again only
        // in doubt.
        let mut again: BTreeMap<(Life, &str), u32> = BTreeMap::new();
        for (index, effect) in self.effects.iter().enumerate().filter(|(_, effect)| effect.fence == 0) {
            let same = |other: &&Effect| other.life == effect.life && other.key == effect.key;
            if self.effects[..index].iter().any(|other| same(&other)) {
                *again.entry((effect.life, &effect.key)).or_default() += 1;
            }
        }
        for ((life, key), again) in again {
            let doubted = self.doubted_alone.get(&(life, key.to_owned())).copied().unwrap_or(0);
            if again > doubted {
                wrong.push(format!("life {life} did {key} again without the store, {again} times; {doubted} in doubt"));
            }
        }
        for (key, count) in &self.new_marks {
            let alone: u32 = self.alone.iter().filter(|((_, of), _)| of == key).map(|(_, count)| count).sum();
            if *count > 1 + alone {
                wrong.push(format!("{key} was new {count} times; {alone} alone"));
            }
        }
        for ((life, key), count) in &self.alone {
            if key.starts_with("mark") && *count > 1 {
                wrong.push(format!("life {life} admitted {key} {count} times without the store"));
            }
        }
        wrong.into_iter().for_each(|text| self.violation(Rule::BoundedAlone, text));
    }

    fn the_record_is_true(&mut self) {
        let lost: Vec<String> = self
            .settled
            .iter()
            .filter(|(key, state)| {
                key.starts_with("run")
                    && matches!(state, State::Completed { .. })
                    && !self.effects.iter().any(|effect| effect.key == **key)
            })
            .map(|(key, _)| format!("{key} is recorded as done and was never done"))
            .collect();
        lost.into_iter().for_each(|text| self.violation(Rule::DoneWasDone, text));
        let denied: Vec<String> = self
            .settled
            .iter()
            .filter(|(key, state)| {
                matches!(state, State::Failed { .. })
                    && self.effects.iter().any(|effect| effect.key == **key)
                    && !self.alone.keys().any(|(_, alone)| alone == *key)
                    && !self.expired.contains_key(*key)
            })
            .map(|(key, _)| format!("{key} is recorded as failed and was done"))
            .collect();
        denied.into_iter().for_each(|text| self.violation(Rule::DoneWasDone, text));
    }
}
