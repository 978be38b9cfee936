//! Numbers the calls of a run to the outside, so that a test can stop the run at each of them.
//!
//! All effects of a run go through one [`Outside`]: a store reports its calls to it
//! ([`Memory::with_outside`](crate::model::Memory::with_outside)), and a fake destination wraps its work in
//! [`Outside::call`]. [`interrupt`](crate::interrupt) uses it to let a process die right before or right after each call.

use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use crate::lock::lock;

/// On which side of a call the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The call is not made.
    Before,
    /// The call is performed, but its answer does not arrive.
    After,
}

/// Where a run is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The number of the call, from 1.
    pub call: usize,
    /// Before the call or after it.
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

/// The way of a run to the outside. All clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Outside {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The names of the calls of the present run.
    calls: Vec<String>,
    stop: Option<Stop>,
    /// After the process has died, no call of it reaches the outside.
    dead: bool,
    mourner: Option<Waker>,
}

impl Outside {
    /// An outside at which no run is stopped yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes one call to the outside. If the run is stopped here, this never returns.
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

    /// Begins a new run, which dies at `stop`, if there is one.
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
        lock(&self.state)
    }
}
