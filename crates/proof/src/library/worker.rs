//! Who acts: workers that get the event, an operator, and what comes afterwards.

use std::sync::Arc;
use std::time::Duration;

use ichido::key::OutagePolicy;
use ichido::store::{Settle, Transition};
use ichido::{Claim, Clock, Error, Failure, Key, Namespace, OnDoubt, Probed, State, Store};
use ichido_testkit::explore::{Choice, Lane};

use super::rough::{touches_instance, touches_key};
use super::world::{Instance, LEASE, PROBE_INTERVAL, World};
use super::{Doubt, Patience};
use crate::ledger::Rule;

/// How often the event comes again when nothing goes wrong any more.
const LAST_ATTEMPTS: u32 = 12;

const EVENT: &[Choice] = &[
    Choice::normal(""),
    Choice::fault("with ANOTHER PAYLOAD"),
    Choice::fault("and WAITS for other calls"),
    Choice::fault("with a LONGER LEASE (lease_until)"),
    Choice::fault("and KEEPS ITS CLAIM ALIVE"),
];
const EFFECT: &[Choice] = &[
    Choice::normal("PERFORMED"),
    Choice::fault("refused for now"),
    Choice::fault("refused for ever"),
    Choice::fault("PERFORMED, its answer is lost"),
    Choice::fault("first the lease is renewed"),
];
const LATER_EFFECT: &[Choice] = &[Choice::normal("PERFORMED")];
const PROBE: &[Choice] = &[Choice::normal("answers"), Choice::fault("does not answer")];

const LOOKS: &[Choice] = &[Choice::fault("")];
const RELEASES: &[Choice] = &[Choice::normal("")];

/// One worker that gets the event.
pub(super) struct Worker {
    world: Arc<World>,
    pub(super) instance: Instance,
    lane: Lane,
    key: Key,
}

/// How a call is made.
#[derive(Clone, Copy, Default)]
struct How {
    payload: u8,
    waits: bool,
    longer: bool,
    keeps_alive: bool,
}

/// Ends what [`Ledger::enter`](crate::ledger::Ledger::enter) began, also if the worker dies.
struct Working<'a>(&'a World, u64);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.ledger().leave(self.1);
    }
}

impl Worker {
    pub(super) fn new(world: &Arc<World>, lane: Lane) -> Self {
        Self { world: Arc::clone(world), instance: world.instance(lane), lane, key: world.key(lane).clone() }
    }

    pub(super) async fn event(self) {
        let touches = touches_instance(self.instance.life);
        let how = match self.world.path.gate(self.lane, "the event comes", touches, EVENT).await {
            1 => How { payload: 1, ..How::default() },
            2 => How { waits: true, ..How::default() },
            3 => How { longer: true, ..How::default() },
            4 => How { keeps_alive: true, ..How::default() },
            _ => How::default(),
        };
        let scenario = self.world.scenario;
        let always = scenario.patience == Patience::LastWaits && self.lane + 1 == scenario.workers;
        self.run(How { waits: how.waits || always, ..how }).await;
    }

    /// True if the key is done.
    async fn run(&self, how: How) -> bool {
        let World { scenario, path, .. } = &*self.world;
        let How { payload, .. } = how;
        self.world.ledger().uses(&self.key, payload);
        let digests = self.world.digests[usize::from(payload)].clone();
        let mut run = self.instance.once.run(&self.key).digests(digests);
        if how.longer {
            run = run.lease_until(self.instance.clock.now() + LEASE * 3);
        }
        if how.waits {
            run = run.wait(LEASE * 4);
        }
        if how.keeps_alive {
            run = run.keep_alive();
        }
        let done = match scenario.doubt {
            Doubt::Probe => run.probe(|claim| self.probe(payload, claim)).work(|claim| self.work(payload, claim)).await,
            Doubt::Repeat => run.on_doubt(OnDoubt::Repeat).work(|claim| self.work(payload, claim)).await,
            Doubt::Refuse => run.on_doubt(OnDoubt::Refuse).work(|claim| self.work(payload, claim)).await,
        };
        let mut ledger = self.world.ledger();
        path.note(self.lane, || match &done {
            Ok(done) => format!("→ outcome {} ({:?})", done.value, done.how),
            Err(error) => format!("→ {error}"),
        });
        match done {
            Ok(done) => ledger.done(&self.key, payload, done),
            // Nobody releases the key here, so it stays in doubt.
            Err(Error::Doubtful) => {}
            Err(Error::Failed { .. }) => ledger.failed(&self.key),
            Err(Error::Mismatch { fields }) => ledger.refused(&self.key, payload, &fields),
            Err(_) => return false,
        }
        true
    }

    /// Performs the effect before the claim's deadline, or not at all.
    async fn work(&self, payload: u8, claim: Claim) -> Result<u64, Failure<String>> {
        let world = &self.world;
        let grant = world.ledger().enter(self.instance.life, &self.instance.clock, &claim);
        let _working = Working(world, grant);
        let touches = touches_key(world, &self.key) | touches_instance(self.instance.life);
        let mut chosen = world.path.gate(self.lane, "the effect", touches, EFFECT).await;
        match chosen {
            1 => return Err(Failure::Retry("refused for now".into())),
            2 => return Err(Failure::Permanent("refused for ever".into())),
            4 => {
                if claim.renew().await.is_err() {
                    return Err(Failure::Retry("another call may hold the claim".into()));
                }
                chosen = world.path.gate(self.lane, "the effect", touches, LATER_EFFECT).await;
            }
            _ => {}
        }
        if self.instance.clock.now() >= claim.deadline() {
            world.path.note(self.lane, || "… not performed, the lease has ended".to_owned());
            return Err(Failure::Retry("the lease has ended".into()));
        }
        let value = world.ledger().perform(self.instance.life, payload, &claim);
        if chosen == 3 {
            // As a work writes it that does not think about doubt.
            Err("no answer from the destination".to_owned())?;
        }
        Ok(value)
    }

    async fn probe(&self, payload: u8, claim: Claim) -> Result<Probed<u64>, String> {
        let touches = touches_key(&self.world, &self.key) | touches_instance(self.instance.life);
        if self.world.path.gate(self.lane, "the destination", touches, PROBE).await == 1 {
            return Err("the destination does not answer".into());
        }
        let found = self.world.ledger().found(claim.key(), payload);
        self.world.path.note(self.lane, || format!("… done before: {}", found.is_some()));
        self.world.path.told(self.lane, &found);
        Ok(found.map_or(Probed::NotDone, Probed::Done))
    }
}

/// Looks at the key. If it is claimed by a worker that is gone, releases the claim, in doubt: whoever releases the claim of a
/// worker that lives makes two holders by hand.
pub(super) async fn operator(world: Arc<World>) {
    let (path, lane) = (&world.path, world.scenario.operator());
    let key = world.key(0);
    // The operator also looks who is still there.
    path.gate(lane, "looks at the key", u64::MAX, LOOKS).await;
    let found = world.store.record(key);
    path.told(lane, &found);
    let Some(record) = found.filter(|record| matches!(record.state, State::Claimed { .. })) else { return };
    if (0..world.scenario.workers).any(|lane| path.is_busy(lane) && World::is_owner(lane, &record.owner)) {
        return;
    }
    path.gate(lane, "RELEASES the claim by hand", touches_key(&world, key), RELEASES).await;
    let (owner, fence, now) = (record.owner, record.fence, path.clock().now());
    let to = Transition::Release { reason: "by hand".to_owned(), uncertain: true };
    let request = Settle { key, owner, fence, now, to, expires_at: record.expires_at };
    if let Ok(answer) = world.store.settle(&request).await {
        world.ledger().settled(&request, &answer);
    }
}

/// The store goes away once more, and every surviving instance gets the event: what it remembers decides. Then nothing goes
/// wrong any more. Every surviving instance gets the event again, until the key is settled and the journal is written.
pub(super) async fn afterwards(world: Arc<World>) {
    let lane = world.scenario.last();
    let mut instances = world.instances().clone();
    let alive = |instance: &Instance| !world.path.is_dead(instance.life);
    instances.retain(alive);
    if instances.is_empty() {
        instances.push(world.start(world.scenario.workers));
    }
    let worker = |instance: &Instance, key: &Key| Worker {
        world: Arc::clone(&world),
        instance: instance.clone(),
        lane,
        key: key.clone(),
    };
    let open = |key: &&Key| key.namespace().outage_policy() == OutagePolicy::Open;
    world.last_outage(true);
    for key in world.keys().iter().filter(open) {
        for instance in &instances {
            worker(instance, key).run(How::default()).await;
        }
    }
    world.last_outage(false);
    world.path.clock().wait(PROBE_INTERVAL).await;
    for instance in instances {
        for key in world.keys() {
            worker(&instance, key).settle_key().await;
        }
        for n in 0..LAST_ATTEMPTS {
            if instance.once.unwritten() == 0 {
                break;
            }
            world.path.clock().wait(LEASE * 3).await;
            if let Ok(other) = Namespace::new("mark").key([format!("{}-{n}", instance.life)]) {
                // The call matters only because it writes the journal.
                let _ = instance.once.mark(&other).await;
            }
        }
        let unwritten = instance.once.unwritten();
        // A doubt of the journal is written when its key comes again. Nobody has to send a key again that is refused.
        if unwritten > 0 && world.scenario.doubt != Doubt::Refuse {
            let text = format!("instance {} still has {unwritten} keys that the store does not know", instance.life);
            world.ledger().violation(Rule::BoundedAlone, text);
        }
    }
}

impl Worker {
    async fn settle_key(&self) {
        let payloads = if self.world.ledger().has_other_payload(&self.key, 0) { 0..2 } else { 0..1 };
        for payload in payloads {
            let mut settled = false;
            for attempt in 0..LAST_ATTEMPTS {
                if attempt > 0 {
                    self.world.path.clock().wait(LEASE + Duration::from_secs(1)).await;
                }
                settled = self.run(How { payload, ..How::default() }).await;
                if settled {
                    break;
                }
            }
            if !settled {
                let text = format!("{} could not be settled although nothing went wrong any more", self.key);
                self.world.ledger().violation(Rule::NobodyWaits, text);
            }
        }
    }
}
