//! A payment handler under the kit: what a user of the kit sees when the handler is right, and when it is not.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ichido::key::DEFAULT_LEASE;
use ichido::{Clock as _, Failure, Key, MAX_CLOCK_SKEW, Namespace, OnDoubt, Once, Probed, StateKind, Timestamp};
use ichido_testkit::model::Memory;
use ichido_testkit::sim::Sim;
use ichido_testkit::{ManualClock, Outside, interrupt};

type Error = ichido::Error<String>;

struct World {
    outside: Outside,
    store: Memory,
    once: Once,
    clock: ManualClock,
    charges: Arc<Mutex<u32>>,
}

fn world(outside: Outside) -> World {
    let clock = ManualClock::new();
    let store = Memory::new().with_outside(outside.clone());
    let once = Once::builder(store.clone()).clock(clock.clone()).build();
    World { outside, store, once, clock, charges: Arc::default() }
}

fn key() -> Key {
    Namespace::new("payment").key(["order-7"]).unwrap()
}

impl World {
    async fn charge(&self) -> Result<(), Failure<String>> {
        self.outside.call("charge", async { *self.charges.lock().unwrap() += 1 }).await;
        Ok(())
    }

    async fn was_charged(&self) -> bool {
        self.outside.call("find", async { *self.charges.lock().unwrap() > 0 }).await
    }

    fn charges(&self) -> u32 {
        *self.charges.lock().unwrap()
    }

    fn lease_ends(&self) {
        self.clock.advance(DEFAULT_LEASE + MAX_CLOCK_SKEW);
    }
}

async fn with_probe(world: &World) -> Result<(), Error> {
    let run = world
        .once
        .run(&key())
        .probe(|_| async { Ok(if world.was_charged().await { Probed::Done(()) } else { Probed::NotDone }) });
    run.work(|_| world.charge()).await.map(|_| ())
}

async fn without_probe(world: &World) -> Result<(), Error> {
    let run = world.once.run(&key()).on_doubt(OnDoubt::Repeat);
    run.work(|_| world.charge()).await.map(|_| ())
}

#[tokio::test]
async fn a_payment_with_a_probe_is_charged_once_wherever_its_worker_dies() {
    let report = interrupt::at_every_call(
        async |outside| world(outside),
        with_probe,
        async |world| world.lease_ends(),
        async |world| {
            assert_eq!(world.charges(), 1);
            assert_eq!(world.store.record(&key()).unwrap().state.kind(), StateKind::Completed);
        },
    )
    .await;
    assert_eq!(report.stops, 6);
}

#[tokio::test]
#[should_panic(expected = "charged 2 times")]
async fn a_payment_without_a_probe_is_found_to_be_charged_twice() {
    interrupt::at_every_call(
        async |outside| world(outside),
        without_probe,
        async |world| world.lease_ends(),
        async |world| assert!(world.charges() == 1, "charged {} times", world.charges()),
    )
    .await;
}

#[tokio::test]
async fn a_dead_run_makes_no_further_call_to_the_store() {
    let calls = Mutex::new(Vec::new());
    interrupt::at_every_call(
        async |outside| world(outside),
        with_probe,
        async |world| {
            // The dropped call would release its claim in a task of its own. Its process is dead, so it cannot.
            calls.lock().unwrap().push(world.store.calls());
            world.lease_ends();
        },
        async |_| {},
    )
    .await;
    // Before and after the claim, the charge and the completion.
    assert_eq!(*calls.lock().unwrap(), [0, 1, 1, 1, 1, 2]);
}

#[tokio::test]
async fn clones_of_a_store_share_its_records_and_count_only_calls_that_reach_it() {
    let store = Memory::new();
    let once = Once::new(store.clone());
    assert!(once.mark(&key()).await.unwrap().is_new());
    assert_eq!(store.calls(), 1);
    assert!(store.record(&key()).is_some());
    store.sweep(Timestamp::from_secs(u64::MAX / 1000));
    assert!(store.record(&key()).is_none());
    assert_eq!(store.calls(), 1);
}

#[test]
fn of_many_simulated_workers_exactly_one_does_the_work_whatever_the_seed() {
    for seed in 0..50 {
        let sim = Sim::new(seed);
        let store = Memory::new();
        let charges = Arc::new(Mutex::new(0));
        for worker in 0..4 {
            let once = Once::builder(store.clone()).clock(sim.clock().clone()).build();
            let (sim, charges) = (sim.clone(), Arc::clone(&charges));
            sim.clone().spawn(worker, async move {
                sim.sleep(sim.shorter_than(Duration::from_secs(3))).await;
                let deadline = sim.clock().now() + Duration::from_secs(30);
                let run = once.run(&key()).wait_until(deadline).on_doubt(OnDoubt::Refuse);
                let done = run.work(|_| async {
                    sim.sleep(Duration::from_secs(2)).await;
                    *charges.lock().unwrap() += 1;
                    Ok::<_, Failure<String>>(())
                });
                done.await.unwrap();
            });
        }
        sim.run(100_000).unwrap_or_else(|stuck| panic!("seed {seed}: {stuck}"));
        assert_eq!(*charges.lock().unwrap(), 1, "seed {seed}");
    }
}
