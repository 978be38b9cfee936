//! Reconciliation: the store learns what it missed.

use crate::breaker::Gate;
use crate::key::Key;
use crate::memory::{Known, Unwritten};
use crate::observe::Event;
use crate::once::{Inner, Timed};
use crate::record::{Owner, Record, State};
use crate::store::{self, Admit, Admitted, Settle, Settled, Store, Transition};

impl<S: Store> Inner<S> {
    /// Writes a few journalled keys to the store, which is known to answer just now.
    pub(crate) async fn reconcile(&self) {
        for _ in 0..self.reconciled_per_call {
            let next = self.memory().next_settled(self.clock.now());
            let Some(unwritten) = next else { return };
            if !self.write(unwritten).await {
                return;
            }
        }
    }

    /// Tries to write this key's journalled outcome, if it has one and the store may be asked.
    pub(crate) async fn reconcile_key(&self, key: &Key) {
        let settled = self.memory().take_settled(key);
        let Some(unwritten) = settled else { return };
        // Asked only now: a call that has nothing to write must not use up the breaker's probe.
        if self.gate(self.clock.now()) == Gate::Pass {
            self.write(unwritten).await;
        } else {
            self.memory().not_written(&unwritten.key, &unwritten.owner, true);
        }
    }

    /// Writes one journalled outcome. False if the store did not take it: it is the next in line again.
    async fn write(&self, unwritten: Unwritten) -> bool {
        let key = unwritten.key.clone();
        let now = self.clock.now();
        let (state, transition) = match &unwritten.remembered.state {
            Known::Completed { outcome } => {
                (State::Completed { outcome: outcome.clone() }, Transition::Complete { outcome: outcome.clone() })
            }
            Known::Failed { reason } => {
                (State::Failed { reason: reason.clone() }, Transition::Fail { reason: reason.clone() })
            }
            Known::InFlight { .. } | Known::Uncertain => return true, // not settled: there is nothing to write
        };
        // From here on the entry is back in line unless it is written, also if this future is dropped.
        let mut writing = Writing { inner: self, key: &key, owner: &unwritten.owner, written: false, next: true };
        let admit = Admit {
            key: &key,
            owner: unwritten.owner.clone(),
            now,
            state,
            expires_at: unwritten.remembered.expires_at,
            digests: unwritten.remembered.digests.as_ref(),
            attributes: &unwritten.attributes,
        };
        let mut answer = self.ask(&key, "reconcile", self.store.admit(&admit)).await.map(|timed| timed.answer);
        if let Ok(Admitted::Held(record)) = &answer
            && record.owner == unwritten.owner
            && matches!(record.state, State::Claimed { .. })
        {
            // The write that was never answered had landed: settle the claim that it made.
            let settle = Settle {
                key: &key,
                owner: unwritten.owner.clone(),
                fence: record.fence,
                now,
                to: transition,
                expires_at: unwritten.remembered.expires_at,
            };
            answer = match self.ask(&key, "reconcile", self.store.settle(&settle)).await {
                Ok(Timed { answer: Settled::Lost(Some(record)), .. }) => Ok(Admitted::Held(record)),
                Ok(_) => Ok(Admitted::Won { fence: record.fence, previous: None }),
                Err(error) => Err(error),
            };
        }
        let conflict = match answer {
            // Somebody else is at it, died at it or gave it back. It was done here, so the store has to learn of it unless
            // it learns of theirs: later.
            Ok(Admitted::Held(Record { state: State::Claimed { .. } | State::Released { .. }, .. })) => {
                writing.next = false;
                return false;
            }
            Ok(Admitted::Held(record)) if record.owner != unwritten.owner => Some(record),
            Ok(_) => None,
            // This request alone will never be taken (`ask` has reported it); this instance at least remembers.
            Err(error) if error.kind() == store::Kind::Request => {
                writing.done();
                self.memory().write_through(&key, unwritten.remembered);
                return true;
            }
            Err(_) => return false,
        };
        writing.done();
        match &conflict {
            Some(record) => self.memory().note(&key, record),
            None => self.memory().write_through(&key, unwritten.remembered),
        }
        self.observe(Event::Reconciled { key: &key, conflict: conflict.is_some() });
        true
    }
}

/// An entry of the journal that is being written.
struct Writing<'a, S: Store> {
    inner: &'a Inner<S>,
    key: &'a Key,
    owner: &'a Owner,
    written: bool,
    /// If it was not: is it the next in line again, or the last?
    next: bool,
}

impl<S: Store> Writing<'_, S> {
    fn done(&mut self) {
        self.written = true;
        self.inner.memory().written(self.key, self.owner);
    }
}

impl<S: Store> Drop for Writing<'_, S> {
    fn drop(&mut self) {
        if !self.written {
            self.inner.memory().not_written(self.key, self.owner, self.next);
        }
    }
}
