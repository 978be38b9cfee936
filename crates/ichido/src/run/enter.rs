//! Entering: claim the key, or find out what another call made of it.
//!
//! The store decides. Only if it does not answer and the namespace fails open does the local memory decide. What the
//! memory admitted and the store does not know yet (the journal) is looked at before the store is asked, and again after
//! its answer: otherwise the store would admit the key a second time.

use std::time::Duration;

use super::{Call, Error, Held};
use crate::breaker::Gate;
use crate::clock::Timestamp;
use crate::digest::Digests;
use crate::memory::{Admission, Known, Remembered, Standing, Unwritten};
use crate::observe::{Decision, Event, Reason, Strength};
use crate::once::{MAX_CLOCK_SKEW, Timed};
use crate::record::{Outcome, Owner, Record, State};
use crate::store::{self, Admit, Admitted, Settle, Store, Transition};

/// A duplicate that waits reads the record after this pause. Each next pause is twice as long …
const FIRST_POLL: Duration = Duration::from_millis(25);
/// … up to this one.
const SLOWEST_POLL: Duration = Duration::from_secs(1);

/// Why a claim is released that the store granted too late.
const ADMITTED_MEANWHILE: &str = "another call of the same instance was admitted without the store";

pub(super) enum Entered {
    Claimed(Held),
    /// The outcome of another call. `in_store`: the store has it.
    Recorded {
        outcome: Outcome,
        in_store: bool,
    },
}

/// Why this call may not work and has no outcome: [`Error`] before the work determines its type parameter.
pub(super) enum NotEntered {
    Taken(Taken),
    Store(store::Error),
}

/// Another call has, or had, the key, and there is no outcome to replay.
pub(super) enum Taken {
    InFlight { until: Timestamp },
    Failed { reason: String },
    Mismatch { fields: Vec<String> },
}

impl From<Taken> for NotEntered {
    fn from(taken: Taken) -> Self {
        Self::Taken(taken)
    }
}

impl<E> From<NotEntered> for Error<E> {
    fn from(why: NotEntered) -> Self {
        match why {
            NotEntered::Taken(Taken::InFlight { until }) => Self::InFlight { until },
            NotEntered::Taken(Taken::Failed { reason }) => Self::Failed { reason },
            NotEntered::Taken(Taken::Mismatch { fields }) => Self::Mismatch { fields },
            NotEntered::Store(error) => Self::Store(error),
        }
    }
}

impl<S: Store> Call<'_, S> {
    /// Claims the key. If another call holds it, waits for that one as long as the caller allows.
    pub(super) async fn enter(&self) -> Result<Entered, NotEntered> {
        let owner = self.inner.new_owner();
        let mut poll = FIRST_POLL;
        loop {
            let until = match self.try_enter(&owner).await {
                Err(NotEntered::Taken(Taken::InFlight { until })) => until,
                decided => return decided,
            };
            // Read until the key is free or settled: a read costs less than a refused write.
            loop {
                let now = self.inner.clock.now();
                let Some(deadline) = self.wait_until.filter(|deadline| now < *deadline) else {
                    return Err(Taken::InFlight { until }.into());
                };
                self.inner.clock.sleep(poll.min(deadline.since(now))).await;
                poll = (poll * 2).min(SLOWEST_POLL);
                let now = self.inner.clock.now();
                if self.inner.gate(now) != Gate::Pass {
                    break; // the local memory decides
                }
                match self.inner.ask(&self.key, "read", self.inner.store.read(&self.key)).await {
                    // This call's own claim, whose answer was lost: there is nobody to wait for.
                    Ok(Timed { answer: Some(record), .. }) if record.owner == owner => break,
                    Ok(Timed { answer: Some(record), .. }) if !record.is_claimable(now) => match self.judge(&record) {
                        Err(Taken::InFlight { .. }) => {}
                        decided => return Ok(decided?),
                    },
                    Ok(_) | Err(_) => break,
                }
            }
        }
    }

    async fn try_enter(&self, owner: &Owner) -> Result<Entered, NotEntered> {
        let now = self.inner.clock.now();
        let mut doubt = false;
        let unwritten = self.inner.memory().unwritten(&self.key, now);
        if let Some(unwritten) = unwritten {
            match unwritten.remembered.state.standing(now) {
                Standing::Open => {}
                Standing::Doubtful => doubt = true,
                Standing::Held => return Ok(self.recall(unwritten.remembered).await?),
            }
        }
        if let Gate::Blocked { .. } = self.inner.gate(now) {
            return self.enter_without_store(owner, None);
        }
        let mut lease_until = self.lease_end(now) + MAX_CLOCK_SKEW;
        let request = Admit {
            key: &self.key,
            owner: owner.clone(),
            now,
            state: State::Claimed { lease_until },
            expires_at: self.inner.unfinished_expiry(&self.key, now, lease_until),
            digests: self.digests.as_ref(),
            attributes: &self.attributes,
        };
        let Timed { answer, latency } = match self.inner.ask(&self.key, "claim", self.inner.store.admit(&request)).await
        {
            Ok(timed) => timed,
            Err(error) if error.is_transient() => return self.enter_without_store(owner, Some(error)),
            Err(error) => return Err(NotEntered::Store(error)),
        };
        let fence = match answer {
            Admitted::Won { fence, previous } => {
                doubt |= previous.is_some_and(|record| record.leaves_doubt(now));
                fence
            }
            // This call's own claim, whose answer was lost. What it replaced is unknown. An earlier attempt of this call may
            // have made it, so its lease is the one that was asked for then.
            Admitted::Held(Record {
                owner: holder, fence, state: State::Claimed { lease_until: made_for }, ..
            }) if holder == *owner => {
                doubt |= fence > 1;
                lease_until = made_for;
                fence
            }
            Admitted::Held(record) => {
                self.inner.memory().note(&self.key, &record);
                let judged = self.judge(&record);
                self.decided(Decision::Duplicate, reason_of(&judged), Some(latency), false);
                if !matches!(judged, Err(Taken::InFlight { .. })) {
                    self.inner.reconcile().await;
                }
                return Ok(judged?);
            }
        };
        // While the answer was under way, the store may have failed another call of this instance, which was then
        // admitted without it.
        let meanwhile = self.inner.memory().unwritten(&self.key, self.inner.clock.now());
        if let Some(meanwhile) = meanwhile {
            match meanwhile.remembered.state.standing(self.inner.clock.now()) {
                Standing::Open => {}
                Standing::Doubtful => doubt = true,
                Standing::Held => {
                    let release = Settle {
                        key: &self.key,
                        owner: owner.clone(),
                        fence,
                        now: self.inner.clock.now(),
                        to: Transition::Release { reason: ADMITTED_MEANWHILE.to_owned(), uncertain: true },
                        expires_at: request.expires_at,
                    };
                    // If the store does not answer, the claim ends with its lease.
                    let _ = self.inner.ask(&self.key, "release", self.inner.store.settle(&release)).await;
                    return Ok(self.recall(meanwhile.remembered).await?);
                }
            }
        }
        {
            let mut memory = self.inner.memory();
            memory.withdraw(&self.key);
            let state = Known::InFlight { until: lease_until };
            memory.write_through(
                &self.key,
                Remembered { state, digests: self.digests.clone(), expires_at: request.expires_at },
            );
        }
        self.decided(Decision::New, if doubt { Reason::TakenOver } else { Reason::Absent }, Some(latency), false);
        let lease_end = lease_until.saturating_sub(MAX_CLOCK_SKEW);
        Ok(Entered::Claimed(Held { owner: owner.clone(), fence, lease_end, doubt, in_store: true }))
    }

    /// The local memory decides, if the namespace fails open.
    fn enter_without_store(&self, owner: &Owner, cause: Option<store::Error>) -> Result<Entered, NotEntered> {
        self.inner.may_decide_alone(&self.key, cause).map_err(NotEntered::Store)?;
        let now = self.inner.clock.now();
        let lease_end = self.lease_end(now);
        let unwritten = Unwritten {
            key: self.key.clone(),
            owner: owner.clone(),
            remembered: Remembered {
                state: Known::InFlight { until: lease_end },
                digests: self.digests.clone(),
                expires_at: self.inner.unfinished_expiry(&self.key, now, lease_end),
            },
            attributes: self.attributes.clone(),
        };
        let admission = self.inner.memory().admit(unwritten, now);
        match admission {
            Admission::New { doubt } => {
                self.inner.observe(Event::AdmittedWithoutStore { key: &self.key });
                self.decided(Decision::New, if doubt { Reason::TakenOver } else { Reason::Absent }, None, true);
                Ok(Entered::Claimed(Held { owner: owner.clone(), fence: 0, lease_end, doubt, in_store: false }))
            }
            Admission::Known(remembered) => Ok(self.judge_memory(&remembered)?),
            Admission::Full => Err(NotEntered::Store(self.inner.journal_full(&self.key))),
        }
    }

    /// The journal holds the key: tries to write it to the store, then answers from memory.
    async fn recall(&self, unwritten: Remembered) -> Result<Entered, Taken> {
        self.inner.reconcile_key(&self.key).await;
        // The store may have had another outcome, and then that one counts.
        let known = self.inner.memory().recall(&self.key, self.inner.clock.now());
        self.judge_memory(&known.unwrap_or(unwritten))
    }

    fn lease_end(&self, now: Timestamp) -> Timestamp {
        self.lease_until.unwrap_or_else(|| now + self.lease())
    }

    /// How long a claim, or its renewal, lasts.
    pub(super) fn lease(&self) -> Duration {
        self.lease.unwrap_or_else(|| self.key.namespace().default_lease())
    }

    /// What another call's record means for this one.
    fn judge(&self, record: &Record) -> Result<Entered, Taken> {
        self.compare(record.digests.as_ref())?;
        match &record.state {
            State::Completed { outcome } => Ok(Entered::Recorded { outcome: outcome.clone(), in_store: true }),
            State::Failed { reason } => Err(Taken::Failed { reason: reason.clone() }),
            State::Claimed { lease_until } => Err(Taken::InFlight { until: *lease_until }),
            // It was released just after the claim was refused: the caller should try again.
            State::Released { .. } => Err(Taken::InFlight { until: record.updated_at }),
        }
    }

    /// What the local memory of a key means for this call.
    fn judge_memory(&self, remembered: &Remembered) -> Result<Entered, Taken> {
        let in_store = self.inner.memory().unwritten(&self.key, self.inner.clock.now()).is_none();
        let judged = self.compare(remembered.digests.as_ref()).and_then(|()| match &remembered.state {
            Known::Completed { outcome } => Ok(Entered::Recorded { outcome: outcome.clone(), in_store }),
            Known::Failed { reason } => Err(Taken::Failed { reason: reason.clone() }),
            Known::InFlight { until } => Err(Taken::InFlight { until: *until }),
            Known::Uncertain => Err(Taken::InFlight { until: self.inner.clock.now() }),
        });
        self.decided(Decision::Duplicate, reason_of(&judged), None, true);
        judged
    }

    fn compare(&self, stored: Option<&Digests>) -> Result<(), Taken> {
        let fields = match (&self.digests, stored) {
            (Some(ours), Some(stored)) => ours.differences(stored),
            _ => Vec::new(),
        };
        if fields.is_empty() { Ok(()) } else { Err(Taken::Mismatch { fields }) }
    }

    fn decided(&self, decision: Decision, reason: Reason, store_latency: Option<Duration>, fallback: bool) {
        let strength = Strength::Run;
        self.inner.observe(Event::Decided { key: &self.key, strength, decision, reason, store_latency, fallback });
    }
}

fn reason_of(judged: &Result<Entered, Taken>) -> Reason {
    match judged {
        Ok(_) => Reason::Completed,
        Err(Taken::InFlight { .. }) => Reason::InFlight,
        Err(Taken::Failed { .. }) => Reason::Failed,
        Err(Taken::Mismatch { .. }) => Reason::DifferentPayload,
    }
}
