//! Reconciliation: writes to the store what happened while it did not answer.
//!
//! The keys wait in the journal of the local [memory](crate::memory). Each later call that the store answers writes a few of
//! them. A key stays in the journal until the store has it, also if the call that writes it is dropped half-way.
//!
//! | the store has | what happens |
//! |---|---|
//! | nothing, or a record that can be claimed | the outcome is written |
//! | the claim that this instance made, whose answer was lost | the claim is settled with the outcome |
//! | another instance's claim or release | the key waits: the other instance may still record its outcome |
//! | another instance's outcome | that one counts, and the conflict is reported: the key was admitted twice |
//! | whatever it has, it refuses this request for good | the key leaves the journal, and only this instance remembers it |

use crate::breaker::Gate;
use crate::key::Key;
use crate::memory::{Known, Unwritten};
use crate::observe::{Event, Operation};
use crate::once::{Inner, Timed};
use crate::record::{Owner, Record, State};
use crate::store::{self, Admit, Admitted, Settle, Settled, Transition};

impl Inner {
    /// Writes a few keys of the journal. The store has just answered another call.
    pub(crate) async fn reconcile(&self) {
        for _ in 0..self.reconciled_per_call {
            let next = self.memory().next_settled(self.clock.now());
            let Some(unwritten) = next else { return };
            if !self.write(unwritten).await {
                return;
            }
        }
    }

    /// Writes this key, if it is settled in the journal and the store may be asked.
    pub(crate) async fn reconcile_key(&self, key: &Key) {
        let settled = self.memory().take_settled(key);
        let Some(unwritten) = settled else { return };
        // The gate is asked only here: a call that has nothing to write must not use up the breaker's probe.
        if self.gate(key, self.clock.now()) == Gate::Pass {
            self.write(unwritten).await;
        } else {
            self.memory().not_written(&unwritten.key, &unwritten.owner, true);
        }
    }

    /// Writes one key of the journal. False if the store did not accept it now: the key is back in the line.
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
            Known::InFlight { .. } | Known::Uncertain | Known::Free => return true, // it has no end yet, so there is nothing to write
        };
        // From here on, the entry goes back into the line unless it is written, also if this future is dropped.
        let mut writing = Writing { inner: self, key: &key, owner: &unwritten.owner, written: false, next: true };
        let admit = Admit {
            key: &key,
            owner: unwritten.owner.clone(),
            now,
            state,
            expires_at: unwritten.remembered.expires_at,
            digests: unwritten.remembered.digests.as_ref(),
            attributes: &unwritten.attributes,
            refuses_doubt: false,
        };
        let mut answer = self.ask(&key, Operation::Reconcile, self.store.admit(&admit)).await.map(|timed| timed.answer);
        if let Ok(Admitted::Held(record)) = &answer
            && record.owner == unwritten.owner
            && matches!(record.state, State::Claimed { .. })
        {
            // The store had made the claim whose answer was lost: settle it.
            let settle = Settle {
                key: &key,
                owner: unwritten.owner.clone(),
                fence: record.fence,
                now,
                to: transition,
                expires_at: unwritten.remembered.expires_at,
            };
            answer = match self.ask(&key, Operation::Reconcile, self.store.settle(&settle)).await {
                Ok(Timed { answer: Settled::Lost(Some(record)), .. }) => Ok(Admitted::Held(record)),
                Ok(_) => Ok(Admitted::Won { fence: record.fence, previous: None }),
                Err(error) => Err(error),
            };
        }
        let conflict = match answer {
            // Another call holds, held or released the key. The effect happened here, so the store must get this outcome, unless
            // the other call records one first: try again later.
            Ok(Admitted::Held(Record { state: State::Claimed { .. } | State::Released { .. }, .. })) => {
                writing.next = false;
                return false;
            }
            Ok(Admitted::Held(record)) if record.owner != unwritten.owner => Some(record),
            Ok(_) => None,
            // The store will never accept this request, and `ask` has reported that. This instance at least remembers the key.
            Err(error) if error.kind() == store::Kind::Request => {
                writing.done();
                self.memory().write_through(&key, unwritten.remembered, now);
                return true;
            }
            Err(_) => return false,
        };
        writing.done();
        match &conflict {
            Some(record) => self.memory().note(&key, record, now),
            None => self.memory().write_through(&key, unwritten.remembered, now),
        }
        self.observe(Event::Reconciled { key: &key, conflict: conflict.is_some() });
        true
    }
}

/// An entry of the journal while it is being written.
struct Writing<'a> {
    inner: &'a Inner,
    key: &'a Key,
    owner: &'a Owner,
    written: bool,
    /// If it was not written: does it go to the front of the line, or to the end?
    next: bool,
}

impl Writing<'_> {
    fn done(&mut self) {
        self.written = true;
        self.inner.memory().written(self.key, self.owner);
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if !self.written {
            self.inner.memory().not_written(self.key, self.owner, self.next);
        }
    }
}
