//! Every order of the calls of two runs, and everything that can become of each call, within a bound.
//!
//! The real subscriber and the real notifier run on the embedded DynamoDB. Each call to it, to the feed and to a destination waits
//! for the explorer. In every state:
//!
//! - Mastodon, which can be asked, has each entry at most once;
//! - Pushover, which cannot be asked, has it at most once, and once more per take-over (with `PUSHOVER_WHEN_UNSURE=never`: at most once).
//!
//! At the end of every path further runs are made, in which nothing goes wrong. Then:
//!
//! - nothing is owed any more after a few of them, and none of them fails;
//! - every entry that was recorded, or that the feed still shows, is delivered to every destination or is a dead letter;
//! - what is written down as delivered is at the destination.
//!
//! Two lives end apart: that of a run, and that of each notifier that it invokes.
//!
//! One thing goes wrong, except where two destinations make too many orders: then none. `FAULTS=n` explores all of them further. A
//! request and its answer are one step, and the embedded DynamoDB takes a millisecond per call: that is what bounds this.

#![expect(clippy::print_stdout, reason = "the numbers of states and paths are the result")]

#[path = "../support/mod.rs"]
mod support;
mod wire;
mod world;

use std::hash::Hasher;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use feeds::delivery::message::{Request, Response};
use feeds::delivery::owed::GiveUp;
use feeds::entry::Source;
use feeds::outside::invoke::{self, Invoke};
use feeds::outside::pushover::WhenUnsure;
use function::BoxFuture;
use ichido::Clock;
use serde_json::{Value, json};
use support::{A_WHILE, atom, post_of};
use testkit::explore::{self, Bound, Group, Lane, Model, Path};
use world::World;

/// One of the two runs, or one of those that are made afterwards.
type Run = usize;
const RUNS: usize = 2;
const AFTERWARDS: Run = RUNS;
/// A run does several things at once: it asks for the feed while it asks what is owed, and it delivers to two destinations.
const LANES_PER_RUN: usize = 3;
/// A machine that nobody can crash.
const NOBODY: Group = Group::MAX;
/// So many runs settle what can be settled.
const ENOUGH: usize = 5;
const TWO_HOURS: Duration = Duration::from_secs(2 * 3_600);

fn lane_of(run: Run) -> Lane {
    run * LANES_PER_RUN
}

#[derive(Clone, Debug)]
struct Scenario {
    name: &'static str,
    /// How many runs there are, and how many things go wrong.
    runs: usize,
    faults: u32,
    /// Whether Pushover is a destination, beside Mastodon.
    pushover: bool,
    when_unsure: WhenUnsure,
    give_up: GiveUp,
    /// The entries that are to be delivered.
    new: Vec<usize>,
    /// What the feed shows, newest first.
    shown: Vec<usize>,
    /// The items and the statuses with which each path starts, and when.
    items: Vec<Value>,
    posts: Vec<(String, u64)>,
    begins_ms: u64,
    /// How long it takes until the next run.
    pause: Duration,
}

/// A notifier that cannot be reached.
struct Unreachable;

impl Invoke for Unreachable {
    fn invoke<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Response, invoke::Error>> {
        Box::pin(async { Err(invoke::Error::Timeout) })
    }
}

impl Scenario {
    /// Entry 1 was delivered before. The feed shows new ones, and both runs read it.
    fn new_entries(name: &'static str, pushover: bool, new: &[usize]) -> Self {
        Self::begin(name, pushover, new, None)
    }

    /// Entry 1 was delivered before. Entry 2 is owed for this long. The feed is not due, so the runs only deliver.
    fn owed(name: &'static str, pushover: bool, since: Duration) -> Self {
        Self::begin(name, pushover, &[2], Some(since))
    }

    fn begin(name: &'static str, pushover: bool, new: &[usize], owed: Option<Duration>) -> Self {
        let shown: Vec<usize> = new.iter().rev().copied().chain([1]).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let world = runtime.block_on(async {
            let world = support::World::new(Source::Github).await;
            world.show(atom(&[1]));
            world.run().await.unwrap();
            if owed.is_some() {
                world.show(atom(&shown));
                let until = Clock::now(&world.clock) + Duration::from_secs(120);
                world.subscriber_with(Arc::new(Unreachable)).run(until).await.unwrap();
            }
            world.advance(owed.unwrap_or(A_WHILE));
            world
        });
        let begins_ms = world.clock.now_ms();
        let mut items = world.db.items(world.table_name());
        if let Some(feed) = items.iter_mut().find(|item| owed.is_some() && item["entry_id"]["S"] == "#feed") {
            feed["not_before"] = json!({"N": (begins_ms + 1_000_000_000).to_string()});
        }
        let posts = vec![(post_of(1), begins_ms - 1_000_000)];
        let pause = owed.unwrap_or(A_WHILE);
        let (when_unsure, give_up) = (WhenUnsure::Repeat, GiveUp::default());
        let (runs, new) = (RUNS, new.to_vec());
        Self { name, runs, faults: 0, pushover, when_unsure, give_up, new, shown, items, posts, begins_ms, pause }
    }

    fn destinations(&self) -> &'static [&'static str] {
        if self.pushover { &["mastodon", "pushover"] } else { &["mastodon"] }
    }

    /// Mastodon has what is owed: only Pushover does not.
    fn only_pushover(mut self) -> Self {
        let begins_ms = self.begins_ms;
        let owed = self.items.iter_mut().filter(|item| item["pending"]["S"] == "owed");
        for marker in owed {
            let delivered = json!({"state": {"S": "delivered"}, "at": {"N": begins_ms.to_string()}, "id": {"S": "1"}});
            marker["deliveries"]["M"]["mastodon"] = json!({"M": delivered});
            marker["deliveries"]["M"]["pushover"] = json!({"M": {"state": {"S": "owed"}}});
        }
        self.posts.extend(self.new.iter().map(|n| (post_of(*n), begins_ms)));
        Self { pushover: true, ..self }
    }

    /// Explores everything within the bound. `paths` is how many paths there were when this was written.
    fn explore(mut self, faults: u32, paths: u64) {
        self.faults = std::env::var("FAULTS").ok().map_or(faults, |text| text.parse().unwrap());
        let report = explore::explore(&self, &Bound::faults(self.faults));
        if let Some(violation) = report.violation {
            let history = explore::replay(&self, violation.faults, &violation.choices).history;
            panic!("{}: {violation}\n{history}", self.name);
        }
        println!("{}: explored {} states, {} paths: 0 violations", self.name, report.states, report.paths);
        assert!(report.paths >= paths, "{}: {} paths, there were {paths}", self.name, report.paths);
    }
}

impl Model for Scenario {
    type World = Arc<World>;

    fn lanes(&self) -> Vec<String> {
        let parts = ["", ": feed, Mastodon", ": Pushover"];
        let lanes = (1..=RUNS).flat_map(|run| parts.map(|part| format!("run {run}{part}")));
        lanes.chain(["afterwards".to_owned()]).collect()
    }

    fn begin(&self, path: &Path) -> Arc<World> {
        let world = Arc::new(World::new(path, self));
        for run in 0..self.runs {
            let world = Arc::clone(&world);
            path.spawn(lane_of(run), run as Group, async move {
                // A run may fail: the next one does its work.
                let _ = world.run(run).await;
            });
        }
        world
    }

    fn fingerprint(&self, world: &Arc<World>, state: &mut dyn Hasher) {
        world.fingerprint(state);
    }

    fn next_time(&self, world: &Arc<World>, now_ms: u64) -> Option<u64> {
        world.wire.next_lease_end(now_ms)
    }

    fn drops(&self) -> bool {
        false
    }

    fn check(&self, world: &Arc<World>) -> Result<(), String> {
        world.nothing_is_repeated()
    }

    fn end(&self, world: &Arc<World>, path: &Path) -> Result<(), String> {
        for _ in 0..ENOUGH {
            path.clock().advance(self.pause);
            let failed = Arc::new(Mutex::new(None));
            let (again, told) = (Arc::clone(world), Arc::clone(&failed));
            path.spawn(lane_of(AFTERWARDS), NOBODY, async move {
                let ended = again.run(AFTERWARDS).await;
                *told.lock().unwrap() = ended;
            });
            path.settle()?;
            if let Some(error) = failed.lock().unwrap().take() {
                return Err(format!("a run failed although nothing went wrong: {error}"));
            }
            world.nothing_is_repeated()?;
            if !world.owes() {
                return world.nothing_has_vanished();
            }
        }
        Err(format!("owed for ever: after {ENOUGH} runs in which nothing went wrong, something is still owed"))
    }
}

/// The run dies, and the next one finds the entry in the feed, or only in the table because it has left the feed by then.
#[test]
fn one_run_reads_a_new_entry() {
    let scenario = Scenario::new_entries("one run reads a new entry", false, &[2]);
    Scenario { runs: 1, ..scenario }.explore(1, 45);
}

/// What is refused, and what Pushover may have, is a dead letter.
#[test]
fn one_run_that_gives_up_at_once() {
    let give_up = GiveUp { refusals: 1, ..GiveUp::default() };
    let scenario = Scenario::owed("one run that gives up at once", true, A_WHILE);
    Scenario { runs: 1, when_unsure: WhenUnsure::Never, give_up, ..scenario }.explore(1, 223);
}

/// When the next run comes, Mastodon has forgotten the key of the post, and is searched.
#[test]
fn one_run_delivers_an_entry_that_is_owed_for_hours() {
    let scenario = Scenario::owed("one run, owed for hours", false, TWO_HOURS);
    Scenario { runs: 1, ..scenario }.explore(1, 29);
}

#[test]
fn two_runs_deliver_an_entry_that_is_owed_for_hours() {
    Scenario::owed("two runs, owed for hours", false, TWO_HOURS).explore(0, 22);
}

/// Pushover cannot be asked, and knows no keys: only the claim keeps the second run from sending it again.
#[test]
fn two_runs_push_one_owed_entry() {
    Scenario::owed("two runs push one owed entry", true, A_WHILE).only_pushover().explore(1, 629);
}

#[test]
fn two_runs_read_one_new_entry() {
    Scenario::new_entries("two runs read one new entry", false, &[2]).explore(0, 169);
}
