//! Calls to the outside, numbered, so that a run can be stopped at any one of them.
//!
//! Everything a run can do to the world goes through one [`Outside`]: the embedded DynamoDB reports its calls to it,
//! and a fake destination wraps what it does in [`Outside::call`]. [`crate::interrupt`] uses it to let a process die
//! right before or right after each call.

use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// On which side of a call the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The call is never made.
    Before,
    /// The call is performed and its answer is never seen.
    After,
}

/// Where a run is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The number of the call, from 1.
    pub call: usize,
    /// Before it or after it.
    pub side: Side,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Before => "before",
            Side::After => "after",
        };
        write!(f, "{side} call {}", self.call)
    }
}

/// The door through which a run reaches the outside. Clones are the same door.
#[derive(Clone, Debug, Default)]
pub struct Outside {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The calls of the present run, by name.
    calls: Vec<String>,
    stop: Option<Stop>,
    /// Once a process is dead, nothing that is left of it reaches the outside any more.
    dead: bool,
    mourner: Option<Waker>,
}

impl Outside {
    /// A door that nobody stops at yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes one call to the outside. If the run is to be stopped here, this never returns.
    pub async fn call<T>(&self, name: &str, work: impl Future<Output = T>) -> T {
        let number = {
            let mut state = self.lock();
            if !state.dead {
                state.calls.push(name.to_owned());
            }
            state.calls.len()
        };
        if self.dies(Stop { call: number, side: Side::Before }) {
            return pending().await;
        }
        let answer = work.await;
        if self.dies(Stop { call: number, side: Side::After }) {
            return pending().await;
        }
        answer
    }

    /// The names of the calls of the present run, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<String> {
        self.lock().calls.clone()
    }

    /// Begins a new run, which dies at `stop`, if any.
    pub fn begin(&self, stop: Option<Stop>) {
        *self.lock() = State { stop, ..State::default() };
    }

    /// Completes when the run has died.
    pub async fn death(&self) {
        poll_fn(|cx| {
            let mut state = self.lock();
            if state.dead {
                return Poll::Ready(());
            }
            state.mourner = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn dies(&self, here: Stop) -> bool {
        let mut state = self.lock();
        if state.stop == Some(here) && !state.dead {
            state.dead = true;
            if let Some(waker) = state.mourner.take() {
                waker.wake();
            }
        }
        state.dead
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
