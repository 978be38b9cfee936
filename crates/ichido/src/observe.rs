//! What happened, told to one small trait.
//!
//! The library logs nothing and counts nothing itself: it tells an [`Observer`], synchronously and at the moment
//! it happens, because an instance may be gone a moment later.

use std::time::Duration;

use crate::key::Key;
use crate::record::StateKind;
use crate::store;

/// Which call it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strength {
    Mark,
    Run,
}

impl Strength {
    pub fn name(self) -> &'static str {
        match self {
            Self::Mark => "mark",
            Self::Run => "run",
        }
    }
}

/// How a call was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    New,
    Duplicate,
}

/// Something worth knowing.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A call learnt whether it is the first. Once per call that got that far.
    Decided {
        key: &'a Key,
        strength: Strength,
        decision: Decision,
        /// Why: `absent`, `taken over`, `completed`, `in flight`, `failed`, `different payload`.
        reason: &'static str,
        /// How long the store took; `None` if it was not asked.
        store_latency: Option<Duration>,
        /// True if the local memory decided.
        fallback: bool,
    },
    /// A former holder may have had its effect, and the probe, if there is one, is asked.
    Doubted {
        key: &'a Key,
        fence: u64,
    },
    /// The probe answered.
    Probed {
        key: &'a Key,
        done: bool,
    },
    /// A claim ended: `completed`, `failed` or `released`.
    Settled {
        key: &'a Key,
        state: StateKind,
        store_latency: Option<Duration>,
    },
    /// A late worker tried to settle a claim that is no longer its own. Nothing was changed.
    Fenced {
        key: &'a Key,
        fence: u64,
    },
    /// The store did not do what it was asked.
    StoreFailed {
        key: &'a Key,
        operation: &'static str,
        error: &'a store::Error,
    },
    BreakerOpened,
    BreakerClosed,
    /// The store is down and the policy is open: this key was admitted by the local memory.
    AdmittedWithoutStore {
        key: &'a Key,
    },
    /// The effect happened, but the store could not be told so; it is in the journal.
    Unrecorded {
        key: &'a Key,
    },
    /// There is no room in the journal: the call was refused, or the outcome could not be kept.
    JournalFull {
        key: &'a Key,
    },
    /// A key of the journal was written to the store. `conflict`: another instance had it too.
    Reconciled {
        key: &'a Key,
        conflict: bool,
    },
}

/// Is told what happens. Called on the path of every request: be quick, and do not block.
pub trait Observer: Send + Sync + 'static {
    fn observe(&self, event: &Event<'_>);
}

/// Looks away.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ignore;

impl Observer for Ignore {
    fn observe(&self, _: &Event<'_>) {}
}
