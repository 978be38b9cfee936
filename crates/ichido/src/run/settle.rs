//! Settling: how a held claim ends. It is completed, failed or released, and only by its holder.
//!
//! Every write here has the condition that the record is claimed by this call's owner token and fence. If it is not,
//! another call has taken over, the write changes nothing, and [`Event::Fenced`] reports it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Call, Done, Error, Held, How, Recorded, replay};
use crate::background;
use crate::clock::Timestamp;
use crate::digest;
use crate::memory::{Kept, Known, Remembered, Unwritten};
use crate::observe::{Event, Operation};
use crate::once::Timed;
use crate::record::{Outcome, State, StateKind};
use crate::store::{self, Settle, Settled, Transition};

/// Why a claim is released whose call was dropped, or whose work panicked.
pub(super) const DROPPED: &str = "the call was dropped before it ended";

/// A held claim, and the call that holds it. If it is dropped before the claim has ended, it [abandons](Self::abandon) it.
pub(super) struct Settling<'a> {
    pub(super) call: &'a Call<'a>,
    pub(super) held: &'a Held,
    /// If the call were dropped now, might the effect have happened?
    uncertain: AtomicBool,
    ended: AtomicBool,
}

impl<'a> Settling<'a> {
    pub(super) fn new(call: &'a Call<'a>, held: &'a Held) -> Self {
        Self {
            call,
            held,
            uncertain: AtomicBool::new(held.doubt || (call.doubtful && !call.refuses_doubt)),
            ended: AtomicBool::new(false),
        }
    }

    /// From here on, the effect may have happened.
    pub(super) fn begins_work(&self) {
        self.uncertain.store(true, Ordering::Relaxed);
    }

    /// The call was dropped, because its caller went away or its work panicked. Other calls should not have to wait for the
    /// end of the lease: the local memory is told at once, and the store by a task of its own, if there is a runtime for
    /// it. If there is none, the claim ends with its lease.
    fn abandon(&self) {
        let Call { inner, key, digests, attributes, .. } = self.call;
        let uncertain = self.uncertain.load(Ordering::Relaxed);
        if !self.held.in_store {
            self.release_locally(uncertain);
            return;
        }
        if uncertain {
            let expires_at = self.expiry(false, inner.clock.now());
            inner.memory().doubt(key, self.held.fence, digests.clone(), expires_at, inner.clock.now());
        }
        let (inner, held) = (Arc::clone(inner), self.held.clone());
        let (key, digests, attributes) = (key.clone(), digests.clone(), attributes.clone());
        background::spawn(async move {
            let call = Call { digests, attributes, ..Call::new(&inner, key) };
            let settling = Settling::new(&call, &held);
            // If the runtime ends before the task does, there is nobody left to tell.
            settling.ended.store(true, Ordering::Relaxed);
            settling.release(DROPPED.to_owned(), uncertain).await;
        });
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    fn release_locally(&self, uncertain: bool) {
        if uncertain {
            self.keep_unwritten(Known::Uncertain);
        } else {
            let now = self.call.inner.clock.now();
            self.call.inner.memory().give_back(&self.call.key, &self.held.owner, now);
        }
    }

    /// Records the outcome and returns it.
    pub(super) async fn complete<T, E>(&self, value: T, how: How) -> Result<Done<T>, Error<E>>
    where
        T: Serialize + DeserializeOwned,
    {
        let Call { inner, key, .. } = self.call;
        // A value that cannot be written as JSON cannot be replayed. The effect happened, so record it without its value.
        let outcome = Outcome::of(&value).unwrap_or(Outcome::NotKept);
        let done = |recorded| Ok(Done { value, how, recorded, first: Vec::new() });
        self.begins_work(); // a probe may have found the effect
        if !self.held.in_store {
            self.end();
            return match self.keep_unwritten(Known::Completed { outcome }) {
                Some(successor) => self.superseded(successor),
                None => done(false),
            };
        }
        let completed = self.settle(Transition::Complete { outcome: outcome.clone() }).await;
        self.end();
        match completed {
            Ok(Settled::Done) => {
                self.remember(Known::Completed { outcome });
                inner.reconcile().await;
                done(true)
            }
            // The record expired and was deleted during the work. Nobody else holds the key, so a later call writes the outcome.
            Ok(Settled::Lost(None)) => match self.keep_unwritten(Known::Completed { outcome }) {
                Some(successor) => self.superseded(successor),
                None => done(false),
            },
            Ok(Settled::Lost(Some(record))) => {
                self.fenced();
                inner.memory().note(key, &record, inner.clock.now());
                match record.state {
                    // The outcome of another payload is not this call's.
                    _ if digest::differ(self.call.digests.as_ref(), record.digests.as_ref()) => Err(Error::Superseded),
                    State::Completed { outcome } => {
                        replay(Recorded { outcome, in_store: true, first: record.attributes })
                    }
                    State::Failed { reason } => Err(Error::Failed { reason }),
                    State::Claimed { .. } | State::Released { .. } => Err(Error::Superseded),
                }
            }
            Err(error) => {
                // Whatever else is wrong with the store may be mended. Only a request that it refuses for good is not kept.
                if error.kind() != store::Kind::Request
                    && let Some(successor) = self.keep_unwritten(Known::Completed { outcome })
                {
                    return self.superseded(successor);
                }
                if key.namespace().fails_open() && error.is_transient() {
                    done(false)
                } else {
                    Err(Error::Unrecorded(error))
                }
            }
        }
    }

    /// Records that the work failed permanently.
    pub(super) async fn fail(&self, reason: String) {
        if !self.held.in_store {
            self.end();
            self.keep_unwritten(Known::Failed { reason });
            return;
        }
        let failed = self.settle(Transition::Fail { reason: reason.clone() }).await;
        self.end();
        match failed {
            Ok(Settled::Done) => self.remember(Known::Failed { reason }),
            Ok(Settled::Lost(_)) => self.fenced(),
            Err(error) if error.kind() != store::Kind::Request => {
                self.keep_unwritten(Known::Failed { reason });
            }
            Err(_) => {} // `ask` has reported it; the claim ends with its lease
        }
    }

    /// Releases the claim. If the store cannot record that, the claim ends with its lease instead.
    pub(super) async fn release(&self, reason: String, uncertain: bool) {
        let Call { inner, key, .. } = self.call;
        self.uncertain.store(uncertain, Ordering::Relaxed);
        if !self.held.in_store {
            self.end();
            self.release_locally(uncertain);
            return;
        }
        let released = self.settle(Transition::Release { reason, uncertain }).await;
        self.end();
        match released {
            Ok(Settled::Done) if uncertain => self.remember(Known::Uncertain),
            Ok(Settled::Done) => {
                let now = inner.clock.now();
                let (expires_at, digests) = (self.expiry(false, now), self.call.digests.clone());
                inner.memory().release(key, self.held.fence, digests, expires_at, now);
            }
            Ok(Settled::Lost(record)) => {
                self.fenced();
                if let Some(record) = record {
                    inner.memory().note(key, &record, inner.clock.now());
                }
            }
            Err(_) => {}
        }
    }

    /// What a worker that was too late returns: its successor's outcome, if there is one for the same payload.
    fn superseded<T: DeserializeOwned, E>(&self, successor: Option<Remembered>) -> Result<Done<T>, Error<E>> {
        let ours = self.call.digests.as_ref();
        let same = successor.filter(|remembered| !digest::differ(ours, remembered.digests.as_ref()));
        match same.map(|remembered| remembered.state) {
            Some(Known::Completed { outcome }) => replay(Recorded { outcome, in_store: false, first: Vec::new() }),
            Some(Known::Failed { reason }) => Err(Error::Failed { reason }),
            Some(Known::InFlight { .. } | Known::Uncertain | Known::Free) | None => Err(Error::Superseded),
        }
    }

    async fn settle(&self, to: Transition) -> Result<Settled, store::Error> {
        let Call { inner, key, .. } = self.call;
        let now = inner.clock.now();
        let expires_at = self.expiry(matches!(to, Transition::Complete { .. }), now);
        let (state, operation) = match &to {
            Transition::Complete { .. } => (StateKind::Completed, Operation::Complete),
            Transition::Fail { .. } => (StateKind::Failed, Operation::Fail),
            _ => (StateKind::Released, Operation::Release),
        };
        let Held { owner, fence, .. } = self.held;
        let request = Settle { key, owner: owner.clone(), fence: *fence, now, to, expires_at };
        let Timed { answer, latency } = inner.ask(key, operation, inner.store.settle(&request)).await?;
        match answer {
            Settled::Done => {}
            // The store has what this call wrote: the answer to its first attempt was lost.
            Settled::Lost(Some(record))
                if record.owner == *owner && record.fence == *fence && record.state == request.to.into_state() => {}
            lost => return Ok(lost),
        }
        inner.observe(Event::Settled { key, fence: *fence, state, store_latency: Some(latency) });
        Ok(Settled::Done)
    }

    fn remember(&self, state: Known) {
        let Call { inner, key, digests, .. } = self.call;
        let expires_at = self.expiry(matches!(state, Known::Completed { .. }), inner.clock.now());
        inner.remember(key, state, self.held.fence, digests.clone(), expires_at);
    }

    /// Puts into the journal what the store could not record. `Some` if this attempt was too late because another one of
    /// this instance has taken over; inside, what is known of that one.
    fn keep_unwritten(&self, state: Known) -> Option<Option<Remembered>> {
        let Call { inner, key, digests, attributes, .. } = self.call;
        let completed = matches!(state, Known::Completed { .. });
        let expires_at = self.expiry(completed, inner.clock.now());
        let unwritten = Unwritten {
            key: key.clone(),
            owner: self.held.owner.clone(),
            remembered: Remembered { state, fence: self.held.fence, digests: digests.clone(), expires_at },
            attributes: attributes.clone(),
        };
        let kept = inner.memory().keep(unwritten, !self.held.in_store);
        match kept {
            Kept::TakenOver(successor) => {
                self.fenced();
                return Some(successor);
            }
            Kept::Full => inner.observe(Event::JournalFull { key }),
            Kept::Yes => {}
        }
        if completed {
            inner.observe(Event::Unrecorded { key });
        }
        None
    }

    fn expiry(&self, completed: bool, now: Timestamp) -> Option<Timestamp> {
        let Call { inner, key, .. } = self.call;
        if completed { inner.expiry(key, now) } else { inner.unfinished_expiry(key, now, now) }
    }

    fn fenced(&self) {
        self.call.inner.observe(Event::Fenced { key: &self.call.key, fence: self.held.fence });
    }
}

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        if !*self.ended.get_mut() {
            self.abandon();
        }
    }
}
