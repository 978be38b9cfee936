//! Stops a run at each of its calls to the outside, in turn, and runs it again until it completes.
//!
//! After each of these, the test checks what its application promises, for example that nothing is lost and nothing is
//! done twice. There are four ways to stop a run at a call:
//!
//! | | before the call is made | after it was performed |
//! |---|---|---|
//! | **killed**: the process dies | nothing happened, nobody knows | it happened, nobody knows |
//! | **cut off**: the connection breaks, the run gets an error | nothing happened | it happened, the answer is lost |
//!
//! A killed run is dropped in the middle. Its destructors run, but cannot make another call. What the world holds
//! survives: make a new `Once` in each run if a dead process must lose its memory. Tasks that the run has spawned are not
//! dropped with it. They cannot make another call through the same [`Outside`] until the next run
//! begins, so a run should own its tasks (`JoinSet`, `join!`).
//!
//! A call can be cut off if it can fail: that of the AWS SDK (each attempt counts as a call, so what the SDK repeats by itself is
//! cut off too), that of an HTTP client, and [`Outside::request`]. [`Outside::call`] cannot. A [write](Outside::write) to a disk
//! can also be killed when half of it is done.
//!
//! ```
//! # use ichido_testkit::{Outside, effects, interrupt};
//! # use std::cell::RefCell;
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! struct World { outside: Outside, sent: RefCell<Vec<&'static str>> }
//! let report = interrupt::at_every_call(
//!     async |outside| World { outside, sent: RefCell::default() },
//!     async |world| {
//!         let already = world.outside.call("look", async { world.sent.borrow().contains(&"hello") }).await;
//!         if !already {
//!             world.outside.request("send", async { world.sent.borrow_mut().push("hello") }).await?;
//!         }
//!         Ok::<_, ichido_testkit::outside::Cut>(())
//!     },
//!     async |_world| {},
//!     async |world| effects(&*world.sent.borrow()).each_once(["hello"]),
//! ).await;
//! assert_eq!((report.stops, report.cuts), (4, 2));
//! # }
//! ```

use std::fmt::Debug;
use std::io::Write as _;

use crate::outside::{Kind, Outside, Side, Stop, Way};

/// A run with more calls than this counts as endless.
pub const MAX_CALLS: usize = 10_000;

/// Where a run that is not to be stopped is stopped all the same.
const ENDLESS: Stop = Stop { call: MAX_CALLS + 1, side: Side::Before, way: Way::Killed };

/// How often a stopped run is repeated before the test fails.
pub const MAX_RUNS: usize = 20;

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// At how many places the run was killed.
    pub stops: usize,
    /// At how many places the run was cut off.
    pub cuts: usize,
    /// How many runs there were altogether.
    pub runs: usize,
}

/// First runs `run` undisturbed and counts its calls to the outside. Then, for each of them, before it and after it: builds a
/// `world`, kills `run` there, repeats it until it returns `Ok` (as Lambda delivers an event again until it is acknowledged),
/// and lets `check` examine the world. Then the same once more, but the run is only cut off. `recover` runs before each
/// repetition, for example to let a lease end. The undisturbed run is checked too.
///
/// Calls that `recover` and `check` make are not part of a run: nothing stops them.
///
/// # Panics
/// If `check` panics, or if a run does not complete within [`MAX_RUNS`]. Standard error then says where the run was
/// stopped, and shows its history as [lanes](crate::lanes).
pub async fn at_every_call<W, E: Debug>(
    world: impl AsyncFn(Outside) -> W,
    run: impl AsyncFn(&W) -> Result<(), E>,
    recover: impl AsyncFn(&W),
    check: impl AsyncFn(&W),
) -> Report {
    let mut report = Report { stops: 0, cuts: 0, runs: 0 };
    let mut one = async |stop: Option<Stop>| {
        let outside = Outside::new();
        let world = world(outside.clone()).await;
        let mut witness = Witness { stop, outside: Some(outside.clone()) };
        outside.begin(Some(stop.unwrap_or(ENDLESS)));
        report.runs += 1;
        let ended = outside.until_death(run(&world)).await;
        let calls = outside.count();
        if let Some(result) = &ended {
            outside.did(0, returns(result));
        }
        let stopped_at = outside.stopped_at();
        assert!(
            stop.is_some() || stopped_at.is_none(),
            "the run made more than {MAX_CALLS} calls to the outside, so it counts as endless"
        );
        match (&stopped_at, stop) {
            (Some(_), Some(Stop { way: Way::Killed, .. })) => report.stops += 1,
            (Some(_), Some(Stop { way: Way::Cut, .. })) => report.cuts += 1,
            _ => {}
        }
        let last = match ended {
            Some(Ok(())) => None,
            Some(Err(error)) => Some(Some(error)),
            None => Some(None),
        };
        if let Some(error) = last {
            repeat(&world, &outside, &run, &recover, error, &mut report.runs).await;
        }
        outside.aside("the test checks the world");
        check(&world).await;
        witness.outside = None;
        (calls, stopped_at)
    };
    let (calls, _) = one(None).await;
    for call in 1..=calls {
        // A run that ends earlier this time cannot be stopped at this call.
        let (_, Some(here)) = one(Some(Stop { call, side: Side::Before, way: Way::Killed })).await else { continue };
        one(Some(Stop { call, side: Side::After, way: Way::Killed })).await;
        match here {
            Kind::Call => {}
            Kind::Request => {
                one(Some(Stop { call, side: Side::Before, way: Way::Cut })).await;
                one(Some(Stop { call, side: Side::After, way: Way::Cut })).await;
            }
            Kind::Write => {
                one(Some(Stop { call, side: Side::Within, way: Way::Killed })).await;
            }
        }
    }
    report
}

/// For the history.
pub(crate) fn returns<E: Debug>(result: &Result<(), E>) -> String {
    match result {
        Ok(()) => "returns Ok".to_owned(),
        Err(error) => format!("returns Err: {error:?}"),
    }
}

async fn repeat<W, E: Debug>(
    world: &W,
    outside: &Outside,
    run: &impl AsyncFn(&W) -> Result<(), E>,
    recover: &impl AsyncFn(&W),
    mut last: Option<E>,
    runs: &mut usize,
) {
    for _ in 0..MAX_RUNS {
        outside.aside("it was not acknowledged: recover, and deliver it again");
        recover(world).await;
        outside.begin(None);
        *runs += 1;
        let result = run(world).await;
        outside.did(0, returns(&result));
        match result {
            Ok(()) => return,
            Err(error) => last = Some(error),
        }
    }
    panic!("the run was not completed after {MAX_RUNS} repetitions; the last error: {last:?}");
}

/// Prints where the run was stopped if the test panics, because the assertion does not know it.
struct Witness {
    stop: Option<Stop>,
    /// `None`: all is well.
    outside: Option<Outside>,
}

impl Drop for Witness {
    fn drop(&mut self) {
        if let Some(outside) = &self.outside
            && std::thread::panicking()
        {
            let stop = self.stop.map_or("it was not stopped".to_owned(), |stop| format!("it was to be {stop}"));
            let _ = writeln!(std::io::stderr(), "the run has failed; {stop}:\n{}", outside.history());
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
        assert_eq!(report, Report { stops: 6, cuts: 0, runs: 13 });
        // It repeats the effect only if it dies after the effect and before the note.
        assert_eq!(*seen.borrow(), [1, 1, 1, 1, 2, 2, 1]);
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
    #[should_panic(expected = "counts as endless")]
    async fn a_run_without_end_is_found() {
        let endless = async |world: &World| -> Result<(), ()> {
            loop {
                world.outside.call("again", async {}).await;
            }
        };
        at_every_call(world, endless, async |_| {}, async |_| {}).await;
    }

    #[tokio::test]
    async fn a_write_can_be_killed_when_half_of_it_is_done() {
        let files = RefCell::new(Vec::new());
        let write = async |world: &World| {
            let line = Cell::new("");
            let written = world.outside.write("append", || line.set("ha"), || line.set("half"));
            files.borrow_mut().push(line.get());
            written.map_err(|killed| std::io::Error::from(killed).to_string())
        };
        let report = at_every_call(world, write, async |_| {}, async |_| {}).await;
        assert_eq!((report.stops, report.cuts), (3, 0));
        // Undisturbed; then killed before, after and within it, each followed by a run that completes.
        assert_eq!(*files.borrow(), ["half", "", "half", "half", "half", "ha", "half"]);
    }

    #[tokio::test]
    async fn a_request_can_also_be_cut_off() {
        let seen = RefCell::new(Vec::new());
        let request = async |world: &World| {
            let effect = async { world.effects.set(world.effects.get() + 1) };
            world.outside.request("effect", effect).await
        };
        let check = async |world: &World| {
            seen.borrow_mut().push((world.outside.stopped().unwrap_or_default(), world.effects.get()));
        };
        at_every_call(world, request, async |_| {}, check).await;
        let expected = [
            ("", 1),
            ("killed before effect", 1),
            ("killed after effect", 2),
            ("cut off before effect", 1),
            ("cut off after effect", 2),
        ];
        assert_eq!(*seen.borrow(), expected.map(|(stopped, effects)| (stopped.to_owned(), effects)));
    }

    #[tokio::test]
    async fn calls_of_the_check_and_of_the_recovery_are_no_part_of_a_run() {
        let look = async |world: &World| {
            for _ in 0..3 {
                world.outside.call("look", async {}).await;
            }
        };
        let report = at_every_call(world, forgetful, look, look).await;
        assert_eq!(report.stops, 6);
    }

    #[tokio::test]
    #[should_panic(expected = "not completed")]
    async fn a_run_that_never_completes_is_found() {
        at_every_call(world, async |_: &World| Err::<(), _>("no"), async |_| {}, async |_| {}).await;
    }
}
