//! Reports what happens to one small trait.
//!
//! The library tells an [`Observer`], synchronously and when it happens, because the instance may be gone a moment later.
//! It writes no metrics. By default, `Traced` turns what happens into `tracing` events, if the feature `tracing` is on.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::key::Key;
use crate::record::{Owner, StateKind};
use crate::store;

#[cfg(feature = "tracing")]
pub use crate::trace::Traced;

/// Which strength was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strength {
    /// [`mark`](crate::Once::mark)
    Mark,
    /// [`run`](crate::Once::run)
    Run,
    /// `join`, the record as an item of the caller's own transaction
    Join,
}

impl Strength {
    /// The word for it in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mark => "mark",
            Self::Run => "run",
            Self::Join => "join",
        }
    }
}

/// How a call was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It may perform the effect.
    New,
    /// It may not.
    Duplicate,
}

impl Decision {
    /// The word for it in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Duplicate => "duplicate",
        }
    }
}

/// What the store was asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// To write a mark.
    Mark,
    /// To write a claim.
    Claim,
    /// To renew a lease.
    Renew,
    /// To record an outcome.
    Complete,
    /// To record a permanent failure.
    Fail,
    /// To give a claim back.
    Release,
    /// To read a record.
    Read,
    /// To write a key of the journal.
    Reconcile,
}

impl Operation {
    /// The word for it in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mark => "mark",
            Self::Claim => "claim",
            Self::Renew => "renew",
            Self::Complete => "complete",
            Self::Fail => "fail",
            Self::Release => "release",
            Self::Read => "read",
            Self::Reconcile => "reconcile",
        }
    }
}

/// Why a call was decided so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// New: no earlier attempt can have performed the effect.
    Absent,
    /// New: an earlier holder may have performed the effect.
    TakenOver,
    /// Duplicate: the effect was performed.
    Completed,
    /// Duplicate: another call holds the claim.
    InFlight,
    /// Duplicate: the work failed permanently.
    Failed,
    /// Duplicate: the key was used with another request.
    DifferentPayload,
    /// Duplicate: an earlier attempt may have had its effect, and this call refuses to repeat it.
    Doubtful,
    /// Duplicate: an earlier attempt was refused for good, and this one does not know it (`join` only).
    Tombstone,
}

impl Reason {
    /// The words for it in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::TakenOver => "taken over",
            Self::Completed => "completed",
            Self::InFlight => "in flight",
            Self::Failed => "failed",
            Self::DifferentPayload => "different payload",
            Self::Doubtful => "doubtful",
            Self::Tombstone => "tombstone",
        }
    }
}

/// A claim that a call holds: its owner, its number, and when its lease ends.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Attempt<'a> {
    /// The token of the call.
    pub owner: &'a Owner,
    /// The number of the claim. 0 if the local memory admitted the call.
    pub fence: u64,
    /// When its lease ends, for the call itself. Others wait for [`MAX_CLOCK_SKEW`](crate::MAX_CLOCK_SKEW) longer.
    pub lease_end: Timestamp,
}

/// Something that happened.
#[derive(Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum Event<'a> {
    /// A call learned whether it is the first one. Each call reports this once, however long it waited for another one.
    #[non_exhaustive]
    Decided {
        key: &'a Key,
        strength: Strength,
        decision: Decision,
        reason: Reason,
        /// How long the store took. `None` if it did not decide.
        store_latency: Option<Duration>,
        /// True if the local memory decided.
        fallback: bool,
        /// A duplicate of a completed key: the attributes in its record.
        first: &'a [(String, serde_json::Value)],
        /// The claim that the call holds now. `None` for a duplicate, and for `mark` and `join`, which need no claim.
        attempt: Option<Attempt<'a>>,
        /// A duplicate of a call in flight: when that one's lease ends.
        until: Option<Timestamp>,
    },
    /// An earlier holder may have performed the effect. The probe is asked, if there is one.
    #[non_exhaustive]
    Doubted { key: &'a Key, fence: u64 },
    /// The probe answered.
    #[non_exhaustive]
    Probed { key: &'a Key, fence: u64, done: bool },
    /// A holder renewed its lease.
    #[non_exhaustive]
    Renewed { key: &'a Key, attempt: Attempt<'a> },
    /// The work ended, after this long. `done`: it returned an outcome, so the effect happened in this time. Otherwise it
    /// returned an error, or was stopped because its claim was lost; the effect may have happened. A call that is dropped
    /// during its work does not report this.
    #[non_exhaustive]
    Worked { key: &'a Key, fence: u64, done: bool, took: Duration },
    /// A claim ended: it is completed, failed or released.
    #[non_exhaustive]
    Settled { key: &'a Key, fence: u64, state: StateKind, store_latency: Option<Duration> },
    /// A late worker tried to settle or renew a claim that it no longer holds. Nothing was changed.
    #[non_exhaustive]
    Fenced { key: &'a Key, fence: u64 },
    /// A call to the store failed.
    #[non_exhaustive]
    StoreFailed { key: &'a Key, operation: Operation, error: &'a store::Error },
    /// Too many transient failures in a row: the store is not asked for a while.
    BreakerOpened,
    /// The store answers again.
    BreakerClosed,
    /// The store does not answer and the policy is open: the local memory admitted this key.
    #[non_exhaustive]
    AdmittedWithoutStore { key: &'a Key },
    /// The effect happened, but the store does not have its outcome.
    #[non_exhaustive]
    Unrecorded { key: &'a Key },
    /// The journal is full: the call was refused, or its outcome could not be kept.
    #[non_exhaustive]
    JournalFull { key: &'a Key },
    /// A key of the journal is settled with the store. `conflict`: another instance had settled it before.
    #[non_exhaustive]
    Reconciled { key: &'a Key, conflict: bool },
}

/// Gets every event. It is called on the path of every request: be quick, and do not block.
pub trait Observer: Send + Sync + 'static {
    /// Something happened.
    fn observe(&self, event: &Event<'_>);
}

/// So that a caller can keep the observer that it hands over.
impl<O: Observer + ?Sized> Observer for std::sync::Arc<O> {
    fn observe(&self, event: &Event<'_>) {
        (**self).observe(event);
    }
}

/// Does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ignore;

impl Observer for Ignore {
    fn observe(&self, _: &Event<'_>) {}
}
