//! Lets a run die at each of its calls to the outside, in turn, and runs it again until it completes.
//!
//! After each of these, the test checks what its application promises, for example that nothing is lost and nothing is
//! done twice. A stopped run is dropped in the middle. Its destructors run, but cannot make another call. What the world holds
//! survives: make a new `Once` in each run if a dead process must lose its memory. Tasks that the run has spawned are not
//! dropped with it. They cannot make another call through the same [`Outside`] until the next run
//! begins, so a run should own its tasks (`JoinSet`, `join!`).
//!
//! ```
//! # use ichido_testkit::{Outside, interrupt};
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
use std::future::{Future, poll_fn};
use std::io::Write as _;
use std::pin::pin;
use std::task::Poll;

use crate::outside::{Outside, Side, Stop};
use crate::turn::Turn;

/// A run with more calls than this counts as endless.
pub const MAX_CALLS: usize = 10_000;

/// How often a stopped run is repeated before the test fails.
pub const MAX_RUNS: usize = 20;

/// How often the tasks of a dead run are polled, so that they come to their next call and stop there.
const TURNS_AFTER_DEATH: usize = 64;

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// How many stops were tried.
    pub stops: usize,
    /// How many runs there were altogether.
    pub runs: usize,
}

/// For each call that `run` makes to the outside, before it and after it: builds a `world`, lets `run` die there, repeats
/// it until it returns `Ok`, and lets `check` examine the world. `recover` runs before each repetition, for example to let a
/// lease end. One run without a stop is checked too.
///
/// # Panics
/// If `check` panics, or if a run does not complete within [`MAX_RUNS`]. Standard error then says where the run was
/// stopped.
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
            let mut witness = Witness { stop, at: None, outside: Outside::new() };
            let outside = witness.outside.clone();
            let world = world(outside.clone()).await;
            outside.begin(Some(stop));
            let ended = one_run(&outside, run(&world)).await;
            report.runs += 1;
            match ended {
                // The run ended before this call: every call has been tried.
                Some(result) => {
                    if let Err(error) = result {
                        repeat(&world, &outside, &run, &recover, Some(error), &mut report).await;
                    }
                    check(&world).await;
                    witness.release();
                    return report;
                }
                None => {
                    report.stops += 1;
                    witness.at = outside.calls().pop();
                    repeat(&world, &outside, &run, &recover, None, &mut report).await;
                    check(&world).await;
                    witness.release();
                }
            }
        }
    }
    panic!("a run made more than {MAX_CALLS} calls to the outside, so it counts as endless");
}

/// `None` if it died.
async fn one_run<E>(outside: &Outside, run: impl Future<Output = Result<(), E>>) -> Option<Result<(), E>> {
    let mut run = Box::pin(run);
    let mut death = pin!(outside.death());
    let ended = poll_fn(|cx| match run.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => death.as_mut().poll(cx).map(|()| None),
    })
    .await;
    if ended.is_none() {
        drop(run);
        // What the run spawned when it was dropped belongs to the dead process: it comes to its next call and no further.
        for _ in 0..TURNS_AFTER_DEATH {
            Turn::default().await;
        }
    }
    ended
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
    panic!("the run was not completed after {MAX_RUNS} repetitions; the last error: {last:?}");
}

/// Prints where the run was stopped if the test panics, because the assertion does not know it.
struct Witness {
    stop: Stop,
    /// The name of the call at which it died. `None`: it has not died yet.
    at: Option<String>,
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
            let Self { stop, at, outside } = self;
            let stopped = at.as_ref().map_or("the run had not been stopped".to_owned(), |name| {
                format!("the run had been stopped {stop} ({name})")
            });
            let _ = writeln!(std::io::stderr(), "{stopped}; the calls of the last run: {:?}", outside.calls());
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

    /// Performs the effect, then notes that. It repeats the effect if it dies in between.
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
        // It repeats the effect only if it dies after the effect and before the note.
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
