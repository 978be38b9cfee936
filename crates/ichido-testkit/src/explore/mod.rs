//! Tries every interleaving within a bound, instead of drawing some at random.
//!
//! A [`Model`] starts tasks. Whatever a task does that another task could notice goes through a [gate](Path::gate): a call to a
//! store, the answer to it, an effect. A task stops at its gate, and the explorer decides which task goes on, and how: each
//! gate offers [options](Choice), of which the first is the normal one and the others go wrong. Time is a choice too. A thing
//! that goes wrong costs one *fault*, and a path has a limited number of them.
//!
//! The search is depth-first and stateless: futures cannot be copied, so every path is played from its start along a list of
//! choices, and continues with the first choice that has not been tried. Two things make it shorter, without leaving
//! anything out:
//!
//! - **Fingerprints.** If everything that the future depends on (the model's [fingerprint](Model::fingerprint), the time, what each
//!   task has been told so far) was the same on an earlier path, with at least as many faults left, then all that can follow
//!   has been explored from there. The path is cut.
//! - **Sleep sets.** If two steps touch nothing in common, their order makes no difference. After one order has been
//!   explored, the other one is left out. A step sleeps until a step that it depends on is taken. A known state cuts a path
//!   only if every step that slept there sleeps on this path too.
//!
//! A violation is [shrunk](search::shrink) and can be [replayed](replay) from its list of choices.
//!
//! ```
//! use std::hash::Hasher;
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU32, Ordering};
//! use ichido_testkit::explore::{self, Bound, Choice, Model, Path};
//!
//! const GO: &[Choice] = &[Choice::normal("done")];
//!
//! /// Two workers increment a number with a read and a write.
//! struct Lost;
//!
//! impl Model for Lost {
//!     type World = Arc<AtomicU32>;
//!     fn lanes(&self) -> Vec<String> {
//!         vec!["worker 1".into(), "worker 2".into()]
//!     }
//!     fn begin(&self, path: &Path) -> Self::World {
//!         let number = Arc::new(AtomicU32::new(0));
//!         for worker in 0..2 {
//!             let (path, number) = (path.clone(), Arc::clone(&number));
//!             path.clone().spawn(worker, worker as u32, async move {
//!                 path.gate(worker, "read", 1, GO).await;
//!                 let read = number.load(Ordering::SeqCst);
//!                 path.told(worker, &read);
//!                 path.gate(worker, "write", 1, GO).await;
//!                 number.store(read + 1, Ordering::SeqCst);
//!             });
//!         }
//!         number
//!     }
//!     fn fingerprint(&self, number: &Self::World, state: &mut dyn Hasher) {
//!         state.write_u32(number.load(Ordering::SeqCst));
//!     }
//!     fn end(&self, number: &Self::World, _: &Path) -> Result<(), String> {
//!         match number.load(Ordering::SeqCst) {
//!             2 => Ok(()),
//!             n => Err(format!("two increments made {n}")),
//!         }
//!     }
//! }
//!
//! let report = explore::explore(&Lost, &Bound::faults(0));
//! let violation = report.violation.expect("the lost update is found");
//! assert_eq!(violation.message, "two increments made 1");
//! println!("{}", explore::replay(&Lost, 0, &violation.choices).history);
//! ```

mod path;
pub mod search;

use std::hash::Hasher;

pub use path::{Choice, Gate, Group, Lane, Path};
pub use search::{Bound, Replayed, Report, Violation, explore, replay};

/// What is explored.
pub trait Model {
    /// What one path works on.
    type World;

    /// The names of the lanes, for the printed history.
    fn lanes(&self) -> Vec<String>;

    /// Makes a world and starts its tasks.
    fn begin(&self, path: &Path) -> Self::World;

    /// Adds everything that later steps depend on and that [`Path::told`] does not know. Two worlds with the same fingerprint
    /// must behave in the same way from here on.
    fn fingerprint(&self, world: &Self::World, state: &mut dyn Hasher);

    /// The next time, in unskewed milliseconds, at which something changes by itself: a lease that ends, a record that
    /// expires. The explorer offers to let the time pass until then.
    fn next_time(&self, _world: &Self::World, _now_ms: u64) -> Option<u64> {
        None
    }

    /// Whether the future of a task may be dropped while its machine lives on. Nobody does that to the handler of a Lambda function.
    fn drops(&self) -> bool {
        true
    }

    /// What must hold in every state.
    ///
    /// # Errors
    /// A sentence that says what does not hold.
    fn check(&self, _world: &Self::World) -> Result<(), String> {
        Ok(())
    }

    /// What is said of a path on which some task never ends.
    fn stuck(&self, text: String) -> String {
        text
    }

    /// What must hold at the end of a path, when no task is left. It may start tasks and let them [`settle`](Path::settle).
    ///
    /// # Errors
    /// A sentence that says what does not hold.
    fn end(&self, world: &Self::World, path: &Path) -> Result<(), String>;
}
