//! A process dies at each of its calls to the outside, in turn, and is run again until it completes.
//!
//! The claim that an application makes ("nothing is lost, nothing is done twice") is checked after each of these
//! lives. A stopped run is dropped where it stands: nothing in it gets to clean up, as when a machine goes away.
//! What a run has spawned onto the runtime is not dropped with it, but cannot make another call through the same
//! [`Outside`] until the next run begins; a run should own its tasks (`JoinSet`, `join!`).
//!
//! ```
//! # use testkit::{Outside, interrupt};
//! # use std::cell::RefCell;
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! struct World { outside: Outside, sent: RefCell<Vec<&'static str>> }
//! let report = interrupt::at_every_call(
//!     async |outside| World { outside, sent: RefCell::default() },
//!     async |world| {
//!         let already = world.outside.call("look", async { world.sent.borrow().contains(&"hello") }).await;
//!         if !already {
//!             world.outside.call("send", async { world.sent.borrow_mut().push("hello") }).await;
//!         }
//!         Ok::<_, String>(())
//!     },
//!     async |_world| {},
//!     async |world| assert_eq!(*world.sent.borrow(), ["hello"]),
//! ).await;
//! assert_eq!(report.stops, 4);
//! # }
//! ```

use std::fmt::Debug;
use std::io::Write as _;
use std::pin::pin;

use futures::future::{Either, select};

use emulator::outside::{Outside, Side, Stop};

/// A run with more calls than this does not end.
pub const MAX_CALLS: usize = 10_000;

/// How often a stopped run is repeated before it counts as never completing.
pub const MAX_RUNS: usize = 20;

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// At how many places a run was stopped.
    pub stops: usize,
    /// How many runs that took altogether.
    pub runs: usize,
}

/// For each call that `run` makes to the outside, before it and after it: builds a `world`, lets `run` die there,
/// repeats it until it returns `Ok`, with `recover` before each repetition (time passes, a lease ends), and then
/// lets `check` look at the world. One undisturbed run is checked as well.
///
/// # Panics
/// When `check` does, or when a run does not complete within [`MAX_RUNS`]; where it was stopped is written to
/// standard error.
pub async fn at_every_call<W, E: Debug>(
    world: impl AsyncFn(Outside) -> W,
    run: impl AsyncFn(&W) -> Result<(), E>,
    recover: impl AsyncFn(&W),
    check: impl AsyncFn(&W),
) -> Report {
    let mut report = Report { stops: 0, runs: 0 };
    for call in 1..=MAX_CALLS {
        for side in [Side::Before, Side::After] {
            let stop = Stop { call, side };
            let mut witness = Witness { stop, outside: Outside::new() };
            let outside = witness.outside.clone();
            let world = world(outside.clone()).await;
            outside.begin(Some(stop));
            let died = one_run(&outside, run(&world)).await;
            report.runs += 1;
            match died {
                // The run was over before it came to this call: every call has been tried.
                Some(outcome) => {
                    if let Err(error) = outcome {
                        repeat(&world, &outside, &run, &recover, Some(error), &mut report).await;
                    }
                    check(&world).await;
                    witness.release();
                    return report;
                }
                None => {
                    report.stops += 1;
                    repeat(&world, &outside, &run, &recover, None, &mut report).await;
                    check(&world).await;
                    witness.release();
                }
            }
        }
    }
    panic!("a run made more than {MAX_CALLS} calls to the outside");
}

/// `None`: it died.
async fn one_run<E>(outside: &Outside, run: impl Future<Output = Result<(), E>>) -> Option<Result<(), E>> {
    match select(pin!(run), pin!(outside.death())).await {
        Either::Left((outcome, _)) => Some(outcome),
        Either::Right(((), _)) => None,
    }
}

async fn repeat<W, E: Debug>(
    world: &W,
    outside: &Outside,
    run: &impl AsyncFn(&W) -> Result<(), E>,
    recover: &impl AsyncFn(&W),
    mut last: Option<E>,
    report: &mut Report,
) {
    for _ in 0..MAX_RUNS {
        outside.begin(None);
        recover(world).await;
        report.runs += 1;
        match run(world).await {
            Ok(()) => return,
            Err(error) => last = Some(error),
        }
    }
    panic!("not completed after {MAX_RUNS} more runs; the last error: {last:?}");
}

/// Says where the run had been stopped if the test panics, because the assertion itself cannot know.
struct Witness {
    stop: Stop,
    outside: Outside,
}

impl Witness {
    fn release(&mut self) {
        self.outside = Outside::new();
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let calls = self.outside.calls();
            let _ = writeln!(std::io::stderr(), "interrupted {}; the calls of the last run: {calls:?}", self.stop);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    struct World {
        outside: Outside,
        effects: Cell<u32>,
        note: Cell<bool>,
    }

    async fn world(outside: Outside) -> World {
        World { outside, effects: Cell::new(0), note: Cell::new(false) }
    }

    /// Notes that it is done after doing it: repeats the effect if it dies in between.
    async fn forgetful(world: &World) -> Result<(), String> {
        if !world.outside.call("read", async { world.note.get() }).await {
            world.outside.call("effect", async { world.effects.set(world.effects.get() + 1) }).await;
            world.outside.call("note", async { world.note.set(true) }).await;
        }
        Ok(())
    }

    #[tokio::test]
    async fn a_run_dies_on_both_sides_of_each_of_its_calls() {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let report = at_every_call(
            world,
            forgetful,
            async |_| {},
            async |world| {
                seen.borrow_mut().push(world.effects.get());
            },
        )
        .await;
        assert_eq!(report, Report { stops: 6, runs: 13 });
        // Only a death after the effect and before the note repeats it.
        assert_eq!(*seen.borrow(), [1, 1, 1, 2, 2, 1, 1]);
    }

    #[tokio::test]
    async fn an_error_is_a_run_that_is_repeated() {
        let attempts = Cell::new(0);
        let flaky = async |world: &World| {
            attempts.set(attempts.get() + 1);
            world.outside.call("effect", async {}).await;
            if attempts.get() % 3 == 0 { Ok(()) } else { Err("not yet") }
        };
        let report = at_every_call(world, flaky, async |_| {}, async |_| {}).await;
        assert_eq!(report.stops, 2);
    }

    #[tokio::test]
    #[should_panic(expected = "not completed")]
    async fn a_run_that_never_completes_is_found() {
        at_every_call(world, async |_: &World| Err::<(), _>("no"), async |_| {}, async |_| {}).await;
    }
}
