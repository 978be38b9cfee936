//! A thousand deliveries of one event to many instances cause one reply. While the store fails, they cause at most one more
//! for each instance that has to decide alone. (The SDK's backoff has a random part, so counts under faults are bounds.)
//!
//! Invariant 4: while the store is down and the policy is open, each instance admits a key at most once and reports every
//! admission as it happens.

mod support;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use slack::function::events::SlackEvents;
use support::{World, upload};
use testkit::faults::{Fault, Rule};
use tokio::task::JoinSet;

const DELIVERIES: usize = 1_000;
const INSTANCES: usize = 20;
/// How many deliveries run at the same time.
const AT_ONCE: usize = 100;
/// How often Slack repeats an event.
const REPEATS: usize = 3;

fn print(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Delivers the event `count` times, [`AT_ONCE`] at once, over all instances. Repeats what is refused, as Slack does.
/// Returns how many were acknowledged.
async fn deliver(world: &World, instances: &[Arc<SlackEvents>], event: &Value, count: usize) -> usize {
    let mut acknowledged = 0;
    for wave in 0..count.div_ceil(AT_ONCE) {
        let mut deliveries = JoinSet::new();
        for n in wave * AT_ONCE..count.min((wave + 1) * AT_ONCE) {
            let (world, events, event) = (world.clone(), instances[n % instances.len()].clone(), event.clone());
            deliveries.spawn(async move {
                for _ in 0..=REPEATS {
                    if world.deliver(&events, &event).await == 200 {
                        return true;
                    }
                }
                false
            });
        }
        acknowledged += deliveries.join_all().await.into_iter().filter(|acknowledged| *acknowledged).count();
    }
    acknowledged
}

/// Lets Lambda empty its queue. Each invocation has an instance of its own.
async fn drain(world: &World) {
    let mut attempts = 0;
    while let Some(upload) = world.queue.first() {
        match world.invoke(&world.slack_files(), &upload).await {
            Ok(_) => world.queue.done(),
            Err(error) => {
                attempts += 1;
                assert!(attempts < 100, "never done: {error}");
                world.clock.advance(Duration::from_secs(63));
            }
        }
    }
}

fn instances(world: &World) -> Vec<Arc<SlackEvents>> {
    (0..INSTANCES).map(|_| world.slack_events()).collect()
}

/// How many instances admitted the event, or its file, without the store.
fn admitted_without_store(world: &World, prefix: &str) -> usize {
    world.admissions.by_instance_and_key().keys().filter(|(_, key)| key.starts_with(prefix)).count()
}

/// The store admits the event once, and once more for each completion that it could not record. Each instance may also admit
/// it without the store.
fn most_hand_overs(world: &World) -> usize {
    1 + world.admissions.unrecorded() + admitted_without_store(world, "Ev1")
}

/// The store admits the file once (a take-over asks the thread), and each instance may admit it without the store.
fn most_replies(world: &World) -> usize {
    1 + admitted_without_store(world, "FILE#")
}

/// The bound of invariant 4, checked and printed.
fn check_bound(world: &World, name: &str) {
    for ((instance, key), times) in world.admissions.by_instance_and_key() {
        assert_eq!(times, 1, "instance {instance} admitted {key} {times} times");
    }
    let of_events = admitted_without_store(world, "Ev1");
    assert!(of_events <= INSTANCES);
    print(format_args!(
        "{name}: {DELIVERIES} deliveries over {INSTANCES} instances: {} hand-overs, {} replies, {} admissions without the store, \
         {of_events} of them by slack-events (bound: {INSTANCES}), {} reconciled",
        world.queue.accepted(),
        world.slack.posts().len(),
        world.admissions.total(),
        world.admissions.reconciled(),
    ));
}

#[tokio::test]
async fn a_thousand_deliveries_over_many_instances_make_one_hand_over_and_one_reply() {
    let world = World::new().await;
    let event = world.event("Ev1", &["F1"]);
    assert_eq!(deliver(&world, &instances(&world), &event, DELIVERIES).await, DELIVERIES, "all are acknowledged");
    assert_eq!(world.queue.accepted(), 1);
    drain(&world).await;
    assert_eq!(world.slack.posts().len(), 1);
    check_bound(&world, "healthy");
}

#[tokio::test]
async fn a_thousand_hand_overs_of_one_upload_make_one_reply_per_file() {
    let world = World::new().await;
    let upload = Arc::new(upload(&world.event("Ev1", &["F1", "F2"])));
    let instances: Vec<_> = (0..INSTANCES).map(|_| world.slack_files()).collect();
    let mut done = 0;
    for _ in 0..DELIVERIES / AT_ONCE {
        let mut invocations = JoinSet::new();
        for n in 0..AT_ONCE {
            let (world, files, upload) = (world.clone(), instances[n % INSTANCES].clone(), upload.clone());
            invocations.spawn(async move { world.invoke(&files, &upload).await.is_ok() });
        }
        done += invocations.join_all().await.into_iter().filter(|done| *done).count();
    }
    assert!(done >= DELIVERIES - AT_ONCE, "only the first wave can meet a file in flight: {done}");
    assert_eq!(world.slack.replies().into_values().collect::<Vec<_>>(), [1, 1]);
}

#[tokio::test]
async fn under_throttling_nothing_is_lost_and_the_bound_holds() {
    for (seed, rate) in [(1, 0.3), (2, 0.7), (3, 1.0)] {
        let world = World::new().await;
        world.dynamo.faults().seed(seed);
        let event = world.event("Ev1", &["F1"]);
        world.dynamo.faults().only(Rule::new(Fault::Throttle).rate(rate));
        let acknowledged = deliver(&world, &instances(&world), &event, DELIVERIES).await;
        assert_eq!(acknowledged, DELIVERIES, "seed {seed}, rate {rate}");
        drain(&world).await;
        assert!((1..=most_hand_overs(&world)).contains(&world.queue.accepted()), "seed {seed}");
        assert!((1..=most_replies(&world)).contains(&world.slack.posts().len()), "seed {seed}, rate {rate}");
        check_bound(&world, &format!("throttled at {rate}"));
    }
}

#[tokio::test]
async fn with_the_store_going_down_and_coming_back_the_bound_holds() {
    for healthy_first in [true, false] {
        let world = World::new().await;
        let (instances, event) = (instances(&world), world.event("Ev1", &["F1"]));
        let mut acknowledged = 0;
        if healthy_first {
            acknowledged += deliver(&world, &instances, &event, 300).await;
            assert_eq!(world.queue.accepted(), 1);
        }
        world.dynamo.faults().down();
        acknowledged += deliver(&world, &instances, &event, if healthy_first { 400 } else { 700 }).await;
        world.dynamo.faults().heal();
        world.clock.advance(Duration::from_secs(61)); // the breakers try again
        acknowledged += deliver(&world, &instances, &event, 300).await;
        assert_eq!(acknowledged, DELIVERIES, "nothing is refused");
        // An instance that had the store's answer before the outage admits nothing. Each of the others admits the event once.
        let accepted = world.queue.accepted();
        assert!((1..=most_hand_overs(&world)).contains(&accepted), "{accepted}");
        assert_eq!(healthy_first, world.admissions.total() == 0);
        drain(&world).await;
        assert_eq!(world.slack.posts().len(), 1);
        check_bound(&world, if healthy_first { "down in the middle" } else { "down from the start" });
        if !healthy_first {
            assert_eq!(world.admissions.reconciled(), world.admissions.total(), "the store learns of every admission");
        }
    }
}

#[tokio::test]
async fn with_both_functions_cut_off_at_once_each_instance_replies_to_a_file_at_most_once() {
    let world = World::new().await;
    let upload = Arc::new(upload(&world.event("Ev1", &["F1"])));
    world.dynamo.faults().down();
    let instances: Vec<_> = (0..INSTANCES).map(|_| world.slack_files()).collect();
    let mut invocations = JoinSet::new();
    for n in 0..DELIVERIES {
        let (world, files, upload) = (world.clone(), instances[n % INSTANCES].clone(), upload.clone());
        invocations.spawn(async move { world.invoke(&files, &upload).await.is_ok() });
    }
    assert!(invocations.join_all().await.into_iter().any(|done| done));
    let replies = world.slack.posts().len();
    assert!((1..=INSTANCES).contains(&replies), "{replies}");
    check_bound(&world, "the effect without the store");
}
