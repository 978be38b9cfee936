//! Entering: claim the key, or find out what another call made of it.
//!
//! The store decides. Only if it does not answer and the namespace fails open does the local memory decide. What the
//! memory admitted and the store does not know yet (the journal) is looked at before the store is asked, and again after
//! its answer: otherwise the store would admit the key a second time.

use std::sync::Arc;
use std::time::Duration;

use super::settle::DROPPED;
use super::{Call, Error, Held, Recorded};
use crate::background;
use crate::breaker::Gate;
use crate::clock::Timestamp;
use crate::digest::{self, Digests};
use crate::memory::{Admission, Known, Remembered, Standing, Unwritten};
use crate::observe::{Decision, Event, Operation, Reason, Strength};
use crate::once::{MAX_CLOCK_SKEW, Timed};
use crate::record::{Owner, Record, State};
use crate::store::{self, Admit, Admitted, Settle, Settled, Transition};

/// A duplicate that waits reads the record after this pause. Each next pause is twice as long …
const FIRST_POLL: Duration = Duration::from_millis(25);
/// … up to this one.
const SLOWEST_POLL: Duration = Duration::from_secs(1);

/// Why a claim is released that the store granted too late.
const ADMITTED_MEANWHILE: &str = "another call of the same instance was admitted without the store";

pub(super) enum Entered {
    Claimed(Held),
    Recorded(Recorded),
}

/// Why this call may not work and has no outcome: [`Error`] before the work determines its type parameter.
pub(super) enum NotEntered {
    InFlight { until: Timestamp },
    DeadlinePassed { deadline: Timestamp },
    Doubtful,
    Failed { reason: String },
    Mismatch { fields: Vec<String> },
    Store(store::Error),
}

impl<E> From<NotEntered> for Error<E> {
    fn from(why: NotEntered) -> Self {
        match why {
            NotEntered::InFlight { until } => Self::InFlight { until },
            NotEntered::DeadlinePassed { deadline } => Self::DeadlinePassed { deadline },
            NotEntered::Doubtful => Self::Doubtful,
            NotEntered::Failed { reason } => Self::Failed { reason },
            NotEntered::Mismatch { fields } => Self::Mismatch { fields },
            NotEntered::Store(error) => Self::Store(error),
        }
    }
}

/// A claim that was sent and not answered yet. If the call is dropped now, the store may have made the claim, and nobody
/// knows of it.
struct Claiming<'a> {
    call: &'a Call<'a>,
    owner: &'a Owner,
    answered: bool,
}

impl Claiming<'_> {
    fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Claiming<'_> {
    fn drop(&mut self) {
        if !self.answered {
            let (inner, key, owner) = (Arc::clone(self.call.inner), self.call.key.clone(), self.owner.clone());
            let refused_doubt = self.call.refuses_doubt;
            background::spawn(async move { inner.release_unanswered(&key, &owner, refused_doubt).await });
        }
    }
}

impl crate::once::Inner {
    /// Releases a claim whose call was dropped before the claim was answered, if the store has made it by now. If it has
    /// not, and makes it later, the claim ends with its lease. Nothing was done under it.
    async fn release_unanswered(&self, key: &crate::Key, owner: &Owner, refused_doubt: bool) {
        let found = self.ask(key, Operation::Read, self.store.read(key)).await;
        if let Ok(Timed { answer: Some(record), .. }) = found
            && record.owner == *owner
            && matches!(record.state, State::Claimed { .. })
        {
            let now = self.clock.now();
            // The claim may have taken over a doubt, unless it refused to: what it replaced is unknown.
            let to = Transition::Release { reason: DROPPED.to_owned(), uncertain: record.fence > 1 && !refused_doubt };
            let expires_at = self.unfinished_expiry(key, now, now);
            let release = Settle { key, owner: owner.clone(), fence: record.fence, now, to, expires_at };
            // `ask` reports a failure. The claim then ends with its lease.
            let _ = self.ask(key, Operation::Release, self.store.settle(&release)).await;
        }
    }
}

/// Who decided, as [`Event::Decided`] reports it.
#[derive(Default)]
struct Decider {
    store_latency: Option<Duration>,
    /// True if the local memory decided.
    fallback: bool,
}

impl Call<'_> {
    /// Claims the key. If another call holds it, waits for that one as long as the caller allows. The decision is reported
    /// once, at the end, however often the store was asked.
    pub(super) async fn enter(&self) -> Result<Entered, NotEntered> {
        let mut decider = Decider::default();
        let entered = self.enter_or_wait(&mut decider).await;
        let (decision, reason) = match &entered {
            Ok(Entered::Claimed(Held { doubt: false, .. })) => (Decision::New, Reason::Absent),
            Ok(Entered::Claimed(Held { doubt: true, .. })) => (Decision::New, Reason::TakenOver),
            Ok(Entered::Recorded(_)) => (Decision::Duplicate, Reason::Completed),
            Err(NotEntered::InFlight { .. }) => (Decision::Duplicate, Reason::InFlight),
            Err(NotEntered::Failed { .. }) => (Decision::Duplicate, Reason::Failed),
            Err(NotEntered::Mismatch { .. }) => (Decision::Duplicate, Reason::DifferentPayload),
            Err(NotEntered::Doubtful) => (Decision::Duplicate, Reason::Doubtful),
            // Nothing was decided.
            Err(NotEntered::DeadlinePassed { .. } | NotEntered::Store(_)) => return entered,
        };
        let Decider { store_latency, fallback } = decider;
        let first: &[_] = match &entered {
            Ok(Entered::Recorded(recorded)) => &recorded.first,
            _ => &[],
        };
        let attempt = match &entered {
            Ok(Entered::Claimed(held)) => Some(held.attempt()),
            _ => None,
        };
        let until = match entered {
            Err(NotEntered::InFlight { until }) => Some(until),
            _ => None,
        };
        let (key, strength) = (&self.key, Strength::Run);
        let decided =
            Event::Decided { key, strength, decision, reason, store_latency, fallback, first, attempt, until };
        self.inner.observe(decided);
        entered
    }

    async fn enter_or_wait(&self, decider: &mut Decider) -> Result<Entered, NotEntered> {
        let owner = self.inner.new_owner();
        let mut poll = FIRST_POLL;
        loop {
            *decider = Decider::default();
            let until = match self.try_enter(&owner, decider).await {
                Err(NotEntered::InFlight { until }) => until,
                decided => return decided,
            };
            // Read until the key is free or settled: a read costs less than a refused write.
            loop {
                let now = self.inner.clock.now();
                let Some(deadline) = self.wait_until.filter(|deadline| now < *deadline) else {
                    return Err(NotEntered::InFlight { until });
                };
                self.inner.clock.sleep(poll.min(deadline.since(now))).await;
                poll = (poll * 2).min(SLOWEST_POLL);
                let now = self.inner.clock.now();
                if self.inner.gate(&self.key, now) != Gate::Pass {
                    break; // the local memory decides
                }
                match self.inner.ask(&self.key, Operation::Read, self.inner.store.read(&self.key)).await {
                    // This call's own claim, whose answer was lost: there is nobody to wait for.
                    Ok(Timed { answer: Some(record), .. }) if record.owner == owner => break,
                    Ok(Timed { answer: Some(record), latency }) if !record.is_claimable(now) => {
                        match self.judge(&record, now) {
                            Err(NotEntered::InFlight { .. }) => {}
                            decided => {
                                *decider = Decider { store_latency: Some(latency), fallback: false };
                                return decided;
                            }
                        }
                    }
                    Ok(_) | Err(_) => break,
                }
            }
        }
    }

    async fn try_enter(&self, owner: &Owner, decider: &mut Decider) -> Result<Entered, NotEntered> {
        let now = self.inner.clock.now();
        let mut doubt = false;
        let unwritten = self.inner.memory().unwritten(&self.key, now);
        if let Some(unwritten) = unwritten {
            match unwritten.remembered.state.standing(now) {
                Standing::Open => {}
                Standing::Doubtful if self.differs(&unwritten.remembered) => {
                    decider.fallback = true;
                    return self.judge_memory(&unwritten.remembered);
                }
                Standing::Doubtful => doubt = true,
                Standing::Held => {
                    decider.fallback = true;
                    return self.recall(unwritten.remembered).await;
                }
            }
        }
        // A claim that is over when it is made protects nothing.
        let deadline = self.lease_end(now);
        if deadline <= now {
            return Err(NotEntered::DeadlinePassed { deadline });
        }
        if let Gate::Blocked { .. } = self.inner.gate(&self.key, now) {
            return self.enter_without_store(owner, decider);
        }
        let mut lease_until = deadline + MAX_CLOCK_SKEW;
        let request = Admit {
            key: &self.key,
            owner: owner.clone(),
            now,
            state: State::Claimed { lease_until },
            expires_at: self.inner.unfinished_expiry(&self.key, now, lease_until),
            digests: self.digests.as_ref(),
            attributes: &self.attributes,
            refuses_doubt: self.refuses_doubt,
        };
        let claiming = Claiming { call: self, owner, answered: false };
        let claimed = self.inner.ask(&self.key, Operation::Claim, self.inner.store.admit(&request)).await;
        claiming.answered();
        let Timed { answer, latency } = match claimed {
            Ok(timed) => timed,
            Err(error) if error.is_transient() && self.key.namespace().fails_open() => {
                return self.enter_without_store(owner, decider);
            }
            Err(error) => return Err(NotEntered::Store(error)),
        };
        decider.store_latency = Some(latency);
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
                doubt |= fence > 1 && !self.refuses_doubt;
                lease_until = made_for;
                fence
            }
            Admitted::Held(record) => {
                self.inner.memory().note(&self.key, &record, self.inner.clock.now());
                let judged = self.judge(&record, now);
                // The store has a doubt of its own, or the key belongs to another payload there. Either way, the store decides.
                if matches!(judged, Err(NotEntered::Doubtful | NotEntered::Mismatch { .. })) {
                    self.inner.memory().withdraw_doubt(&self.key, now);
                }
                if !matches!(judged, Err(NotEntered::InFlight { .. })) {
                    self.inner.reconcile().await;
                }
                return judged;
            }
        };
        // While the answer was under way, the store may have failed another call of this instance, which was then
        // admitted without it.
        let meanwhile = self.inner.memory().unwritten(&self.key, self.inner.clock.now());
        if let Some(meanwhile) = meanwhile {
            let standing = meanwhile.remembered.state.standing(self.inner.clock.now());
            match standing {
                Standing::Open => {}
                Standing::Doubtful if !self.refuses_doubt && !self.differs(&meanwhile.remembered) => doubt = true,
                Standing::Doubtful | Standing::Held => {
                    *decider = Decider { store_latency: None, fallback: true };
                    let release = Settle {
                        key: &self.key,
                        owner: owner.clone(),
                        fence,
                        now: self.inner.clock.now(),
                        to: Transition::Release { reason: ADMITTED_MEANWHILE.to_owned(), uncertain: true },
                        expires_at: request.expires_at,
                    };
                    // If the store does not answer, the claim ends with its lease.
                    let released =
                        self.inner.ask(&self.key, Operation::Release, self.inner.store.settle(&release)).await;
                    if standing == Standing::Doubtful && matches!(released, Ok(Timed { answer: Settled::Done, .. })) {
                        // The store has the doubt now, and an operator can see it there and release the key.
                        self.inner.memory().withdraw_doubt(&self.key, self.inner.clock.now());
                    }
                    return self.recall(meanwhile.remembered).await;
                }
            }
        }
        {
            let mut memory = self.inner.memory();
            memory.withdraw(&self.key);
            let state = Known::InFlight { until: lease_until };
            let digests = self.digests.clone();
            let remembered = Remembered { state, fence, digests, expires_at: request.expires_at };
            memory.write_through(&self.key, remembered, self.inner.clock.now());
        }
        let lease_end = lease_until.saturating_sub(MAX_CLOCK_SKEW);
        Ok(Entered::Claimed(Held { owner: owner.clone(), fence, lease_end, doubt, in_store: true }))
    }

    /// The local memory decides, because the namespace fails open.
    fn enter_without_store(&self, owner: &Owner, decider: &mut Decider) -> Result<Entered, NotEntered> {
        *decider = Decider { store_latency: None, fallback: true };
        let now = self.inner.clock.now();
        let lease_end = self.lease_end(now);
        if lease_end <= now {
            return Err(NotEntered::DeadlinePassed { deadline: lease_end });
        }
        let unwritten = Unwritten {
            key: self.key.clone(),
            owner: owner.clone(),
            remembered: Remembered {
                state: Known::InFlight { until: lease_end },
                fence: 0,
                digests: self.digests.clone(),
                expires_at: self.inner.unfinished_expiry(&self.key, now, lease_end),
            },
            attributes: self.attributes.clone(),
        };
        let admission = self.inner.memory().admit(unwritten, self.refuses_doubt, now);
        match admission {
            Admission::New { doubt } => {
                self.inner.observe(Event::AdmittedWithoutStore { key: &self.key });
                Ok(Entered::Claimed(Held { owner: owner.clone(), fence: 0, lease_end, doubt, in_store: false }))
            }
            Admission::Known(remembered) => self.judge_memory(&remembered),
            Admission::Full => Err(NotEntered::Store(self.inner.journal_full(&self.key))),
        }
    }

    /// The journal holds the key: tries to write it to the store, then answers from memory.
    async fn recall(&self, unwritten: Remembered) -> Result<Entered, NotEntered> {
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
    fn judge(&self, record: &Record, now: Timestamp) -> Result<Entered, NotEntered> {
        self.compare(record.digests.as_ref())?;
        if self.refuses_doubt && record.is_claimable(now) && record.leaves_doubt(now) {
            return Err(NotEntered::Doubtful);
        }
        match &record.state {
            State::Completed { outcome } => {
                let (outcome, first) = (outcome.clone(), record.attributes.clone());
                Ok(Entered::Recorded(Recorded { outcome, in_store: true, first }))
            }
            State::Failed { reason } => Err(NotEntered::Failed { reason: reason.clone() }),
            State::Claimed { lease_until } => Err(NotEntered::InFlight { until: *lease_until }),
            // It was released just after the claim was refused: the caller should try again.
            State::Released { .. } => Err(NotEntered::InFlight { until: record.updated_at }),
        }
    }

    /// What the local memory of a key means for this call.
    fn judge_memory(&self, remembered: &Remembered) -> Result<Entered, NotEntered> {
        let now = self.inner.clock.now();
        let in_store = self.inner.memory().unwritten(&self.key, now).is_none();
        self.compare(remembered.digests.as_ref())?;
        match &remembered.state {
            state if self.refuses_doubt && state.standing(now) == Standing::Doubtful => Err(NotEntered::Doubtful),
            Known::Completed { outcome } => {
                Ok(Entered::Recorded(Recorded { outcome: outcome.clone(), in_store, first: Vec::new() }))
            }
            Known::Failed { reason } => Err(NotEntered::Failed { reason: reason.clone() }),
            Known::InFlight { until } => Err(NotEntered::InFlight { until: *until }),
            Known::Uncertain | Known::Free => Err(NotEntered::InFlight { until: now }),
        }
    }

    fn differs(&self, remembered: &Remembered) -> bool {
        digest::differ(self.digests.as_ref(), remembered.digests.as_ref())
    }

    fn compare(&self, stored: Option<&Digests>) -> Result<(), NotEntered> {
        let fields = digest::differences(self.digests.as_ref(), stored);
        if fields.is_empty() { Ok(()) } else { Err(NotEntered::Mismatch { fields }) }
    }
}
