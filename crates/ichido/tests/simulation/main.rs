//! Checks the rules of `docs/protocol.md` for thousands of seeds. They are the first four lines of "What must always hold" in
//! `ARCHITECTURE.md`, taken apart. `make explore` checks the same rules on every path within a bound.
//!
//! Several instances with different clocks and several workers each share a few keys. One seed decides every interleaving and
//! everything that goes wrong: errors before and after a call, delays longer than the lease, crashes, outages. A failing
//! seed is printed with its trace. `SEED=n` replays it exactly, `SEEDS=n` runs that many.

#![expect(clippy::print_stdout, reason = "somebody who runs one seed by hand reads its trace")]

mod rough;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ichido::dynamodb::{DynamoDb, Table};
use ichido::observe::Event;
use ichido::{
    Claim, Clock, DigestKey, Error, Failure, Key, MAX_CLOCK_SKEW, Namespace, Observer, OnDoubt, Once, Outage, Owner,
    Probed, Store,
};
use testkit::model::Memory;
use testkit::sim::Sim;
use testkit::{Dynamo, ManualClock};

use proof::ledger::{Doubt, Life, Rule};
use rough::Rough;
use world::{Happened, Plan, World};

const LEASE: Duration = Duration::from_secs(10);
const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);
const PROBE_INTERVAL: Duration = Duration::from_secs(20);

/// How often a worker tries one delivery before it gives up.
const ATTEMPTS: u32 = 4;
/// How often the last worker tries, when nothing goes wrong any more: longer than a few leases and probe intervals.
const LAST_ATTEMPTS: u32 = 30;
/// A seed that takes more steps counts as endless.
const MAX_STEPS: u64 = 2_000_000;

const DEFAULT_SEEDS: u64 = 2_000;
/// Fewer than on the model: the real store is slower, and the conformance suite compares it with the model.
const SEEDS_ON_DYNAMODB: u64 = 60;

/// One life of one instance.
struct Instance {
    life: Life,
    clock: ManualClock,
    once: Once,
    world: Arc<World>,
}

struct Watch(Arc<World>, Life);

impl Observer for Watch {
    fn observe(&self, event: &Event<'_>) {
        self.0.observe(self.1, event);
    }
}

/// Ends what [`World::enter`] began, also if the worker dies.
struct Working<'a>(&'a World, u64);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.ledger().leave(self.1);
    }
}

impl Instance {
    fn namespace(&self, name: &str) -> Namespace {
        let namespace = Namespace::new(name).lease(LEASE).retention(RETENTION);
        if self.world.plan.open { namespace.fail_open() } else { namespace }
    }

    fn key(&self, name: &str, n: u64) -> Key {
        self.namespace(name).key([n.to_string()]).unwrap()
    }

    /// The work. It performs the effect before the claim's deadline, or not at all.
    async fn work(&self, payload: u8, claim: Claim) -> Result<u64, Failure<String>> {
        let (world, sim) = (&self.world, &self.world.sim);
        let _working = Working(world, world.enter(self.life, &self.clock, &claim));
        sim.pause().await;
        if world.chance(0.1) {
            sim.sleep(sim.shorter_than(LEASE / 2)).await;
            if claim.renew().await.is_err() {
                return Err(Failure::Retry("another call may hold the claim".into()));
            }
        }
        if world.chance(world.plan.slow) {
            sim.sleep(sim.shorter_than(LEASE * 2)).await;
        }
        if world.chance(world.plan.failing_work) {
            return Err(if sim.chance(0.8) {
                Failure::Retry("refused".into())
            } else {
                Failure::Permanent("never".into())
            });
        }
        if self.clock.now() >= claim.deadline() {
            return Err(Failure::Retry("the lease has ended".into()));
        }
        let value = world.perform(self.life, payload, &claim);
        self.maybe_crash().await;
        if world.chance(world.plan.slow) {
            sim.sleep(sim.shorter_than(LEASE * 2)).await;
        }
        if world.chance(world.plan.failing_work) {
            return Err(Failure::Uncertain("no answer from the destination".into()));
        }
        Ok(value)
    }

    async fn probe(&self, payload: u8, claim: Claim) -> Result<Probed<u64>, String> {
        self.world.sim.pause().await;
        if self.world.chance(self.world.plan.failing_work) {
            return Err("the destination does not answer".into());
        }
        let found = self.world.ledger().found(claim.key(), payload);
        self.maybe_crash().await;
        Ok(found.map_or(Probed::NotDone, Probed::Done))
    }

    async fn maybe_crash(&self) {
        if self.world.may_crash() {
            self.world.note(|| format!("life {} CRASHES", self.life));
            self.world.sim.kill(self.life);
            std::future::pending::<()>().await;
        }
    }

    /// True if the key is done.
    async fn run(&self, key: &Key, payload: u8) -> bool {
        self.world.ledger().uses(key, payload);
        let digests = DigestKey::new(b"simulation").digests().field("payload", [payload]).build();
        let mut run = self.once.run(key).digests(digests);
        if self.world.chance(0.1) {
            // Longer than the namespace's lease: a renewal must not make it shorter.
            run = run.lease_until(self.clock.now() + LEASE * 2);
        }
        if self.world.chance(0.2) {
            run = run.wait_until(self.clock.now() + self.world.sim.shorter_than(LEASE * 2));
        }
        let done = match self.world.plan.doubt {
            Doubt::Probe => run.probe(|claim| self.probe(payload, claim)).work(|claim| self.work(payload, claim)).await,
            Doubt::Refuse => run.on_doubt(OnDoubt::Refuse).work(|claim| self.work(payload, claim)).await,
            Doubt::Repeat => run.on_doubt(OnDoubt::Repeat).work(|claim| self.work(payload, claim)).await,
        };
        match done {
            Ok(done) => self.world.done(self.life, key, payload, done),
            // Nobody releases the key here, so it stays in doubt.
            Err(Error::Doubtful) if self.world.plan.doubt == Doubt::Refuse => return true,
            Err(Error::Failed { .. }) => self.world.ledger().failed(key),
            Err(Error::Mismatch { fields }) => self.world.ledger().refused(key, payload, &fields),
            Err(error) => {
                self.world.note(|| format!("life {} has no outcome of {key}: {error}", self.life));
                return false;
            }
        }
        true
    }

    async fn mark(&self, key: &Key) -> bool {
        match self.once.mark(key).await {
            Ok(marked) => {
                if marked.is_new() {
                    self.world.ledger().marked_new(key);
                }
                true
            }
            Err(_) => false,
        }
    }

    async fn worker(self: Arc<Self>) {
        let (world, sim) = (&self.world, &self.world.sim);
        for _ in 0..world.plan.deliveries {
            let n = sim.below(world.plan.keys);
            let is_mark = sim.chance(0.25);
            let payload = u8::from(sim.chance(world.plan.other_payload));
            for _ in 0..ATTEMPTS {
                sim.sleep(sim.shorter_than(LEASE)).await;
                let finished = if is_mark {
                    self.mark(&self.key("mark", n)).await
                } else {
                    self.run(&self.key("run", n), payload).await
                };
                if finished && sim.chance(0.7) {
                    break;
                }
            }
        }
    }
}

/// A store that a seed can start.
trait Backend: Store + Clone {
    fn new(sim: &Sim) -> Self;
}

impl Backend for Memory {
    fn new(_: &Sim) -> Self {
        Memory::new()
    }
}

#[derive(Clone)]
struct OnDynamoDb(DynamoDb);

impl Backend for OnDynamoDb {
    fn new(sim: &Sim) -> Self {
        let mut db = Dynamo::empty().with_clock(sim.clock());
        db.simple_table("records", "PK", None, "ttl");
        Self(DynamoDb::new(db.client_without_retries(), Table::new("records", "PK")))
    }
}

impl Store for OnDynamoDb {
    async fn admit(&self, request: &ichido::store::Admit<'_>) -> Result<ichido::store::Admitted, ichido::store::Error> {
        self.0.admit(request).await
    }

    async fn settle(
        &self,
        request: &ichido::store::Settle<'_>,
    ) -> Result<ichido::store::Settled, ichido::store::Error> {
        self.0.settle(request).await
    }

    async fn read(&self, key: &Key) -> Result<Option<ichido::Record>, ichido::store::Error> {
        self.0.read(key).await
    }
}

/// Starts instances, and starts them again after a crash.
struct Fleet<S> {
    world: Arc<World>,
    store: S,
    order: Arc<tokio::sync::Mutex<()>>,
    lives: AtomicU64,
    owners: Arc<AtomicU64>,
}

impl<S: Backend> Fleet<S> {
    fn start(&self) -> Arc<Instance> {
        let life = Life::try_from(self.lives.fetch_add(1, Ordering::SeqCst) + 1).unwrap();
        let sim = &self.world.sim;
        // Two clocks differ by at most the stated bound.
        let bound = u64::try_from(MAX_CLOCK_SKEW.as_millis()).unwrap();
        let skew = i64::try_from(sim.below(bound + 1)).unwrap() - i64::try_from(bound / 2).unwrap();
        let clock = sim.clock().skewed(skew);
        let outage = Outage {
            failures_to_open: 1 + u32::try_from(sim.below(3)).unwrap(),
            probe_interval: PROBE_INTERVAL,
            ..Outage::default()
        };
        let owners = Arc::clone(&self.owners);
        let rough =
            Rough { inner: self.store.clone(), world: Arc::clone(&self.world), life, order: Arc::clone(&self.order) };
        let once = Once::builder(rough)
            .clock(clock.clone())
            .observer(Watch(Arc::clone(&self.world), life))
            .owners(move || Owner::from(format!("owner-{}", owners.fetch_add(1, Ordering::SeqCst)).as_str()))
            .outage(outage)
            .build();
        self.world.note(|| format!("life {life} begins, its clock {skew} ms off"));
        Arc::new(Instance { life, clock, once, world: Arc::clone(&self.world) })
    }

    /// Runs the workers of one instance, life after life, until one life survives. Then nothing goes wrong any more, and the
    /// survivor settles every key and writes its journal to the store.
    async fn keep_alive(self: Arc<Self>, all_over: Arc<AtomicU64>) {
        let sim = self.world.sim.clone();
        let survivor = loop {
            let instance = self.start();
            let (done, over) = tokio::sync::oneshot::channel::<()>();
            let workers: Vec<_> = (0..self.world.plan.workers).map(|_| Arc::clone(&instance).worker()).collect();
            sim.spawn(instance.life, async move {
                futures::future::join_all(workers).await;
                let _ = done.send(());
            });
            // If the life crashes, its sender is dropped.
            if over.await.is_ok() {
                break instance;
            }
            drop(instance);
            sim.sleep(sim.shorter_than(LEASE)).await;
        };
        all_over.fetch_sub(1, Ordering::SeqCst);
        while all_over.load(Ordering::SeqCst) > 0 {
            sim.sleep(LEASE).await;
        }
        self.world.heal();
        self.settle_everything(&survivor).await;
    }

    async fn settle_everything(&self, instance: &Instance) {
        for n in 0..self.world.plan.keys {
            let key = instance.key("run", n);
            let mut settled = true;
            // The journal may hold a doubt about the other payload. It ends when that payload comes again.
            let payloads = if self.world.ledger().has_other_payload(&key, 0) { 0..2 } else { 0..1 };
            for payload in payloads {
                let mut is_settled = false;
                for _ in 0..LAST_ATTEMPTS {
                    self.world.sim.sleep(LEASE).await;
                    is_settled = instance.run(&key, payload).await;
                    if is_settled {
                        break;
                    }
                }
                settled &= is_settled;
            }
            if !settled {
                let text = format!("{key} could not be settled although nothing went wrong any more");
                self.world.violation(Rule::NobodyWaits, text);
            }
        }
        for n in 0..LAST_ATTEMPTS {
            if instance.once.unwritten() == 0 {
                return;
            }
            self.world.sim.sleep(LEASE).await;
            instance.mark(&instance.key("mark-last", u64::from(instance.life) * 1000 + u64::from(n))).await;
        }
        // A doubt of the journal is written when its key comes again. Nobody has to send a key again that is refused.
        if self.world.plan.doubt == Doubt::Refuse {
            return;
        }
        let (life, unwritten) = (instance.life, instance.once.unwritten());
        let text = format!("life {life} still has {unwritten} keys that the store does not know");
        self.world.violation(Rule::BoundedAlone, text);
    }
}

/// What one seed came to.
struct Played {
    violations: Vec<String>,
    trace: Vec<String>,
    counts: Happened,
    plan: Plan,
}

fn simulate<S: Backend>(seed: u64, traced: bool) -> Played {
    let sim = Sim::new(seed);
    let plan = Plan::of(&sim);
    let world = Arc::new(World::new(&sim, plan.clone(), traced));
    let fleet = Arc::new(Fleet {
        world: Arc::clone(&world),
        store: S::new(&sim),
        order: Arc::default(),
        lives: AtomicU64::new(0),
        owners: Arc::default(),
    });
    let all_over = Arc::new(AtomicU64::new(plan.instances));
    for _ in 0..plan.instances {
        // Group 0 never dies.
        sim.spawn(0, Arc::clone(&fleet).keep_alive(Arc::clone(&all_over)));
    }
    if let Err(stuck) = sim.run(MAX_STEPS) {
        world.violation(Rule::NobodyWaits, format!("the simulation is stuck: {stuck}"));
    }
    let (violations, trace, counts) = world.end();
    Played { violations, trace, counts, plan }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

fn explain<S: Backend>(seed: u64, store: &str) -> ! {
    let Played { violations, trace, plan, .. } = simulate::<S>(seed, true);
    panic!(
        "seed {seed} on {store}\n{plan:#?}\n{}\n\n{}\n\nreplay: SEED={seed} cargo test -p ichido --test simulation",
        trace.join("\n"),
        violations.join("\n"),
    );
}

/// Runs all seeds, on as many threads as there are cores, and adds up their counts.
fn run_seeds<S: Backend>(seeds: u64, store: &str) -> Happened {
    if let Some(seed) = number("SEED") {
        let Played { violations, trace, counts, plan } = simulate::<S>(seed, true);
        if violations.is_empty() {
            println!("seed {seed} on {store}: {plan:#?}\n{}\nall invariants hold", trace.join("\n"));
            return counts;
        }
        explain::<S>(seed, store);
    }
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(8));
    let results: Vec<(Happened, Option<u64>)> = std::thread::scope(|scope| {
        let one_thread = || {
            let mut total = Happened::default();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds {
                    return (total, None);
                }
                let played = simulate::<S>(seed, false);
                if !played.violations.is_empty() {
                    return (total, Some(seed));
                }
                total.add(played.counts);
            }
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(one_thread)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a simulation panicked")).collect()
    });
    if let Some(seed) = results.iter().filter_map(|(_, failed)| *failed).min() {
        explain::<S>(seed, store);
    }
    let mut total = Happened::default();
    results.into_iter().for_each(|(counts, _)| total.add(counts));
    total
}

#[test]
fn invariants_1_to_4_hold_for_every_seed() {
    let seeds = number("SEEDS").unwrap_or(DEFAULT_SEEDS);
    let counts = run_seeds::<Memory>(seeds, "the model");
    println!("{seeds} seeds: {counts:?}");
    assert!(
        number("SEED").is_some() || seeds < 1000 || counts.all(),
        "some fault never happened, so this proves little: {counts:?}"
    );
}

#[test]
fn invariants_1_to_4_hold_on_dynamodb_too() {
    let counts = run_seeds::<OnDynamoDb>(number("SEEDS").map_or(SEEDS_ON_DYNAMODB, |seeds| seeds / 20), "DynamoDB");
    println!("on DynamoDB: {counts:?}");
}

#[test]
fn a_seed_is_replayed_exactly() {
    for seed in 0..20 {
        assert_eq!(simulate::<Memory>(seed, true).trace, simulate::<Memory>(seed, true).trace);
    }
}
