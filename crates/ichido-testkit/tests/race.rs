//! Two copies of a handler at once: what the seed decides, and that nothing holds up everything.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use ichido_testkit::{ManualClock, Outside, race};

/// The histories of all seeds.
async fn histories(seeds: u64, run: impl AsyncFn(&World) -> Result<(), &'static str>) -> Vec<String> {
    let histories = RefCell::new(Vec::new());
    let keep = async |world: &World| histories.borrow_mut().push(world.outside.history().to_string());
    let report = race::two_at_once(0..seeds, world, run, async |_| {}, keep).await;
    assert!(report.runs >= 2 * report.seeds, "{report:?}");
    histories.into_inner()
}

struct World {
    outside: Outside,
    clock: ManualClock,
    value: Cell<u32>,
}

async fn world(outside: Outside) -> World {
    World { outside, clock: ManualClock::new(), value: Cell::new(0) }
}

#[tokio::test]
async fn an_update_that_is_lost_between_a_read_and_a_write_is_found_in_some_seeds() {
    let values = RefCell::new(BTreeSet::new());
    let add = async |world: &World| {
        let value = world.outside.call("read", async { world.value.get() }).await;
        world.outside.call("write", async { world.value.set(value + 1) }).await;
        Ok::<_, ()>(())
    };
    let look = async |world: &World| {
        values.borrow_mut().insert(world.value.get());
    };
    let report = race::two_at_once(0..60, world, add, async |_| {}, look).await;
    // Both read first; one after the other; and with a copy that was killed after its write and repeats it.
    assert_eq!(values.into_inner(), BTreeSet::from([1, 2, 3]));
    assert!((5..=55).contains(&report.stops), "{report:?}");
}

#[tokio::test]
async fn all_orders_of_a_few_calls_are_tried() {
    let calls = async |world: &World| {
        world.outside.call("first", async {}).await;
        world.outside.call("second", async {}).await;
        Ok(())
    };
    let undisturbed = |history: &String| !history.contains("killed");
    let different: BTreeSet<_> = histories(200, calls).await.into_iter().filter(undisturbed).collect();
    // Of two times two calls there are six orders. Those in which the copies return between calls are the same.
    assert!(different.len() >= 6, "{} histories", different.len());
}

#[tokio::test]
async fn while_one_copy_sleeps_the_other_goes_on_in_some_seeds() {
    let sleepy = async |world: &World| {
        world.outside.call("first", async {}).await;
        world.clock.wait(Duration::from_secs(60)).await;
        world.outside.call("second", async {}).await;
        Ok(())
    };
    let order = |history: &String| -> Vec<String> {
        let words = history.split_whitespace();
        words.filter(|word| ["first:", "second:"].contains(word)).map(str::to_owned).collect()
    };
    let orders: BTreeSet<_> = histories(60, sleepy).await.iter().map(order).collect();
    let seen = |order: [&str; 4]| orders.contains(order.map(str::to_owned).as_slice());
    assert!(seen(["first:", "first:", "second:", "second:"]), "{orders:?}");
    assert!(seen(["first:", "second:", "first:", "second:"]), "{orders:?}");
}

#[tokio::test]
async fn a_call_within_a_call_does_not_wait_for_ever() {
    let nested = async |world: &World| {
        world.outside.call("outer", world.outside.call("inner", async {})).await;
        Ok(())
    };
    for history in histories(4, nested).await {
        assert!(history.contains("outer") && history.contains("inner"), "{history}");
    }
}

#[tokio::test]
async fn calls_of_spawned_tasks_take_part() {
    let spawning = async |world: &World| {
        let outside = world.outside.clone();
        tokio::spawn(async move { outside.call("spawned", async {}).await }).await.map_err(|_| "joined")
    };
    for history in histories(10, spawning).await {
        assert!(history.contains("spawned tasks") && history.contains("spawned: done"), "{history}");
    }
}

#[tokio::test]
#[should_panic(expected = "not completed after")]
async fn a_copy_that_never_completes_is_found() {
    race::two_at_once(0..1, world, async |_: &World| Err::<(), _>("no"), async |_| {}, async |_| {}).await;
}
