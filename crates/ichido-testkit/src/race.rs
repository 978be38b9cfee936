//! Runs two copies of a handler at once, in many orders of their calls.
//!
//! The same event reaches two workers: a queue delivers it twice, or a caller repeats its request while the first one is still
//! under way. A seed decides whose call goes on next. In half of the seeds it also stops one of the copies at one of
//! its calls, as [`interrupt`](crate::interrupt) does.
//!
//! A call goes on alone: while it is under way, other calls wait. So one seed always gives the same order, as long as the
//! copies run in one thread (`#[tokio::test]`) and wait only for their calls, for each other and for a
//! [`ManualClock`](crate::ManualClock). While a copy waits for something else, as a real socket or a real timer, the other goes
//! on, and the order is not always the same. Calls of tasks that a copy has spawned take part too, but nobody knows
//! whose they are: they have a lane of their own, and are never stopped.
//!
//! ```
//! # use ichido_testkit::{Outside, effects, race};
//! # use std::cell::RefCell;
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! struct World { outside: Outside, sent: RefCell<Vec<&'static str>> }
//! race::two_at_once(
//!     0..50,
//!     async |outside| World { outside, sent: RefCell::default() },
//!     async |world| {
//!         // The destination sends each message once, because it looks and sends in one call.
//!         let send = async {
//!             let mut sent = world.sent.borrow_mut();
//!             if !sent.contains(&"hello") {
//!                 sent.push("hello");
//!             }
//!         };
//!         world.outside.request("send", send).await
//!     },
//!     async |_world| {},
//!     async |world| effects(&*world.sent.borrow()).each_once(["hello"]),
//! ).await;
//! # }
//! ```

use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::io::Write as _;
use std::ops::Range;
use std::pin::Pin;
use std::task::Poll;

use crate::interrupt::{MAX_RUNS, returns};
use crate::outside::{Outside, Side, Stop, Way, after_death};

/// Only this seed is tried if this variable is set.
pub const SEED: &str = "SEED";

/// How many copies there are.
const COPIES: usize = 2;

/// For how many turns a copy that makes no call may hold up the others. It is longer than a
/// [`ManualClock`](crate::ManualClock) takes to move to the next sleeper.
const PATIENCE: u32 = 256;

/// For how many turns a call that is under way may hold up the others: long enough for a socket of this machine. A call may
/// never end, for example because it makes another call.
const PATIENCE_UNDER_WAY: u32 = 20_000;

/// One delivery to one copy.
type Run<'a, E> = Pin<Box<dyn Future<Output = Result<(), E>> + 'a>>;

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// How many seeds were tried.
    pub seeds: usize,
    /// In how many of them a copy was stopped at one of its calls.
    pub stops: usize,
    /// How many runs there were altogether. Both copies count.
    pub runs: usize,
}

/// For each seed: builds a `world`, lets two copies of `run` go on at once, repeats those that die or return an error until
/// both have returned `Ok`, and lets `check` examine the world. `recover` runs before each repetition, when neither copy runs,
/// for example to let a lease end.
///
/// If the variable `SEED` is set, only that seed is tried.
///
/// # Panics
/// If `check` panics, if a run does not complete within [`MAX_RUNS`], or if `SEED` is not a number. Standard error then
/// gives the seed, and shows the history as [lanes](crate::lanes).
pub async fn two_at_once<W, E: Debug>(
    seeds: Range<u64>,
    world: impl AsyncFn(Outside) -> W,
    run: impl AsyncFn(&W) -> Result<(), E>,
    recover: impl AsyncFn(&W),
    check: impl AsyncFn(&W),
) -> Report {
    let mut report = Report { seeds: 0, stops: 0, runs: 0 };
    let calls = calls_of_one(&world, &run, &recover, &mut report).await;
    for seed in the_seed().map_or(seeds, |seed| seed..seed.saturating_add(1)) {
        let mut random = fastrand::Rng::with_seed(seed);
        let outside = Outside::new();
        let world = world(outside.clone()).await;
        let mut witness = Witness { seed, outside: Some(outside.clone()) };
        let mut stops = draw_stops(&mut random, calls);
        report.seeds += 1;
        let mut acknowledged = [false; COPIES];
        let mut last = None;
        for round in 0..=MAX_RUNS {
            if round > 0 {
                outside.aside("not acknowledged: recover, and deliver it again");
                recover(&world).await;
            }
            outside.begin_together(&stops);
            stops = [None; COPIES];
            let runs: [Option<_>; COPIES] =
                std::array::from_fn(|copy| (!acknowledged[copy]).then(|| Box::pin(run(&world)) as Run<'_, E>));
            report.runs += runs.iter().flatten().count();
            for (copy, result) in together(&outside, runs, &mut random).await.into_iter().enumerate() {
                match result {
                    Some(Ok(())) => acknowledged[copy] = true,
                    Some(Err(error)) => last = Some(error),
                    None => {}
                }
            }
            if acknowledged == [true; COPIES] {
                break;
            }
            assert!(round < MAX_RUNS, "a run was not completed after {MAX_RUNS} repetitions; the last error: {last:?}");
        }
        report.stops += usize::from(outside.stopped().is_some());
        outside.aside("the test checks the world");
        check(&world).await;
        witness.outside = None;
    }
    report
}

/// How many calls one copy makes if it is alone and undisturbed: a copy is stopped at one of these.
async fn calls_of_one<W, E: Debug>(
    world: &impl AsyncFn(Outside) -> W,
    run: &impl AsyncFn(&W) -> Result<(), E>,
    recover: &impl AsyncFn(&W),
    report: &mut Report,
) -> usize {
    let outside = Outside::new();
    let world = world(outside.clone()).await;
    for round in 0..MAX_RUNS {
        if round > 0 {
            recover(&world).await;
        }
        outside.begin(None);
        report.runs += 1;
        if run(&world).await.is_ok() {
            break;
        }
    }
    outside.count()
}

/// In half of the seeds, one copy is stopped.
fn draw_stops(random: &mut fastrand::Rng, calls: usize) -> [Option<Stop>; COPIES] {
    let mut stops = [None; COPIES];
    if random.bool() && calls > 0 {
        let side = if random.bool() { Side::Before } else { Side::After };
        let way = if random.bool() { Way::Killed } else { Way::Cut };
        stops[random.usize(0..COPIES)] = Some(Stop { call: random.usize(1..=calls), side, way });
    }
    stops
}

/// Runs these until each has ended or died. `None`: it died, or there was nothing to run.
async fn together<E: Debug>(
    outside: &Outside,
    mut runs: [Option<Run<'_, E>>; COPIES],
    random: &mut fastrand::Rng,
) -> [Option<Result<(), E>>; COPIES] {
    let mut results = [const { None }; COPIES];
    let mut died = false;
    let mut turns = 0;
    poll_fn(|cx| {
        let (waiting, under_way) = outside.waiting();
        for (copy, slot) in runs.iter_mut().enumerate() {
            let Some(run) = slot else { continue };
            // While its call waits, a copy stands still. Otherwise a timeout of the call would take the wait for a slow service.
            if waiting.contains(&copy) && !under_way.contains(&copy) {
                outside.watch(cx, copy);
                continue;
            }
            if let Poll::Ready(result) = Outside::polling(copy, || run.as_mut().poll(cx)) {
                outside.did(copy, returns(&result));
                results[copy] = Some(result);
                *slot = None;
            } else if outside.watch(cx, copy) {
                Outside::polling(copy, || *slot = None);
                died = true;
            }
        }
        if runs.iter().all(Option::is_none) {
            return Poll::Ready(());
        }
        let (waiting, under_way) = outside.waiting();
        if waiting.is_empty() {
            // Something else wakes this: a call that ends, a clock, a task.
            return Poll::Pending;
        }
        let all_wait = runs.iter().enumerate().all(|(copy, run)| run.is_none() || waiting.contains(&copy));
        let patience = match (!under_way.is_empty(), all_wait) {
            (true, _) => PATIENCE_UNDER_WAY,
            (false, true) => 0,
            // Whoever makes no call now may sleep. The others go on meanwhile, or when it has slept, as the seed decides.
            (false, false) if turns == 0 && random.bool() => 0,
            (false, false) => PATIENCE,
        };
        if turns >= patience {
            turns = 0;
            outside.open(random.usize(0..waiting.len()));
        } else {
            turns += 1;
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    drop(runs);
    if died {
        after_death().await;
    }
    results
}

fn the_seed() -> Option<u64> {
    let text = std::env::var(SEED).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{SEED}={text:?} is not a seed: {error}")))
}

/// Prints the seed and the history if the test panics, because the assertion does not know them.
struct Witness {
    seed: u64,
    /// `None`: all is well.
    outside: Option<Outside>,
}

impl Drop for Witness {
    fn drop(&mut self) {
        if let Some(outside) = &self.outside
            && std::thread::panicking()
        {
            let Self { seed, .. } = self;
            let history = outside.history();
            let _ = writeln!(std::io::stderr(), "two at once have failed; run it again with {SEED}={seed}:\n{history}");
        }
    }
}
