//! `run`: one recorded outcome, though workers crash, time out and race.
//!
//! A call claims its key (one conditional write), does the work, and records what it returned (another one,
//! conditional on the claim). Between the two the claim protects the work by a **lease**; a call that finds the
//! lease over takes the key over, and the **fence** keeps the late worker from touching its successor's record.
//!
//! The work itself can be repeated only if its worker died, or outlived its lease, between the effect and
//! its completion. A **probe** closes that gap: it is asked whenever a former holder leaves that doubt, and
//! what it finds becomes the outcome.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::breaker::Gate;
use crate::claim::{Claim, Lease, Lost};
use crate::clock::Timestamp;
use crate::digest::Digests;
use crate::key::{Key, OutagePolicy};
use crate::memory::{self, Kept, Known, Remembered, Unwritten};
use crate::observe::{Decision, Event, Strength};
use crate::once::{Inner, MAX_CLOCK_SKEW, Timed};
use crate::record::{self, Outcome, Owner, Record, State};
use crate::store::{self, Admit, Admitted, Attributes, Settle, Settled, Store, Transition};

/// A duplicate that waits looks at the record after this long, then after twice that, …
const FIRST_POLL: Duration = Duration::from_millis(25);
/// … but at least this often.
const SLOWEST_POLL: Duration = Duration::from_secs(1);

/// Why a claim is given back that was answered too late.
const MEANWHILE: &str = "another call of the same instance was admitted without the store";

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done<T> {
    /// The outcome. `None` if an earlier call's outcome is recorded without its value: it was too large to keep.
    pub value: Option<T>,
    pub how: How,
    /// False if the store could not be told: it is in the journal, and a duplicate elsewhere may not know of it.
    pub recorded: bool,
}

/// Where an outcome comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The work was done by this call.
    Fresh,
    /// It is the recorded outcome of another call.
    Replayed,
    /// The probe found that a former holder had done it.
    Probed,
}

impl<T> Done<T> {
    pub fn is_fresh(&self) -> bool {
        self.how == How::Fresh
    }
}

/// How a work failed.
#[derive(Debug)]
pub enum Failure<E> {
    /// The effect did not happen. The claim is given back, and the next call tries again.
    Retry(E),
    /// The effect may have happened (a timeout, a lost answer). The claim is given back, and the next call asks
    /// its probe first.
    Uncertain(E),
    /// The effect did not happen and never will. That is recorded, and duplicates are told.
    Permanent(E),
}

impl<E> From<E> for Failure<E> {
    /// `?` in a work means "not done, try again".
    fn from(error: E) -> Self {
        Self::Retry(error)
    }
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probed<T> {
    /// The effect was performed, and this is its outcome.
    Done(T),
    NotDone,
}

/// Why a run has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum Error<E> {
    /// Another call is at it. Do not report success to somebody who would then forget the event.
    #[error("another call is performing it until {until} at the latest")]
    InFlight { until: Timestamp },
    /// An earlier call failed for good.
    #[error("it failed for good: {reason}")]
    Failed { reason: String },
    /// The key was used with another request before.
    #[error("the key was used with a different request before; these fields differ: {}", .fields.join(", "))]
    Mismatch { fields: Vec<String> },
    /// The work failed.
    #[error("{0}")]
    Work(E),
    /// The probe failed, so nothing was done. The next call will ask again.
    #[error("the probe failed: {0}")]
    Probe(E),
    /// The work was done, but its lease was over and another call has taken the key, whose outcome will count.
    #[error("the lease was over before the work, and another call took over")]
    Superseded,
    /// The work was done, but the store could not be told, and the namespace is closed: a duplicate may repeat it.
    #[error("it was performed, but that could not be recorded")]
    Unrecorded(#[source] store::Error),
    /// The store failed before anything was done.
    #[error(transparent)]
    Store(store::Error),
}

/// Asked whether an effect was performed. Closures `FnOnce(Claim) -> Future<Result<Probed<T>, E>>` are probes.
pub trait Probe<T, E>: Send {
    /// `None`: there is nobody to ask.
    fn ask(self, claim: Claim) -> impl Future<Output = Option<Result<Probed<T>, E>>> + Send;
}

/// The destination cannot be asked.
#[derive(Debug, Clone, Copy)]
pub struct NoProbe;

impl<T, E> Probe<T, E> for NoProbe {
    async fn ask(self, _: Claim) -> Option<Result<Probed<T>, E>> {
        None
    }
}

impl<T, E, F, Fut> Probe<T, E> for F
where
    F: FnOnce(Claim) -> Fut + Send,
    Fut: Future<Output = Result<Probed<T>, E>> + Send,
{
    async fn ask(self, claim: Claim) -> Option<Result<Probed<T>, E>> {
        Some(self(claim).await)
    }
}

/// A run about to be made. Say what it needs, then give it its [`work`](Run::work).
#[must_use = "a run does nothing until it is given its work"]
pub struct Run<'o, S, P = NoProbe> {
    inner: &'o Arc<Inner<S>>,
    key: Key,
    attributes: Attributes,
    digests: Option<Digests>,
    lease: Option<Duration>,
    lease_until: Option<Timestamp>,
    wait_until: Option<Timestamp>,
    doubtful: bool,
    probe: P,
}

impl<S, P> fmt::Debug for Run<'_, S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Why there is nothing to do, or nothing that can be done: [`Error`] before the work has a say in its type.
enum Refusal {
    InFlight { until: Timestamp },
    Failed { reason: String },
    Mismatch { fields: Vec<String> },
    Store(store::Error),
}

impl<E> From<Refusal> for Error<E> {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::InFlight { until } => Self::InFlight { until },
            Refusal::Failed { reason } => Self::Failed { reason },
            Refusal::Mismatch { fields } => Self::Mismatch { fields },
            Refusal::Store(error) => Self::Store(error),
        }
    }
}

/// A claim that this call holds.
struct Held {
    owner: Owner,
    fence: u64,
    lease_end: Timestamp,
    /// A former holder may have had its effect.
    doubt: bool,
    /// False if only the local memory knows of it.
    in_store: bool,
}

enum Entered {
    Mine(Held),
    /// An outcome of another call. `told`: the store knows of it.
    Recorded {
        outcome: Outcome,
        told: bool,
    },
}

impl<'o, S: Store> Run<'o, S> {
    pub(crate) fn new(inner: &'o Arc<Inner<S>>, key: Key) -> Self {
        Self {
            inner,
            key,
            attributes: Vec::new(),
            digests: None,
            lease: None,
            lease_until: None,
            wait_until: None,
            doubtful: false,
            probe: NoProbe,
        }
    }

    /// Asks this of the destination whenever a former holder may have had its effect.
    pub fn probe<P>(self, probe: P) -> Run<'o, S, P> {
        let Self { inner, key, attributes, digests, lease, lease_until, wait_until, doubtful, probe: NoProbe } = self;
        Run { inner, key, attributes, digests, lease, lease_until, wait_until, doubtful, probe }
    }
}

impl<'o, S: Store, P> Run<'o, S, P> {
    /// Puts an attribute of the caller's own beside the library's.
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.attributes.push((name.into(), value.into()));
        self
    }

    /// Refuses a duplicate whose payload differs. Without digests the payload does not matter.
    pub fn digests(mut self, digests: Digests) -> Self {
        self.digests = Some(digests);
        self
    }

    /// How long the claim lasts, counted from the claim. Otherwise it is the namespace's.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Until when the claim lasts: on Lambda, the invocation's deadline.
    pub fn lease_until(mut self, end: Timestamp) -> Self {
        self.lease_until = Some(end);
        self
    }

    /// Waits for the outcome of a call that is in flight, until then. Otherwise [`Error::InFlight`] comes at once.
    pub fn wait_until(mut self, deadline: Timestamp) -> Self {
        self.wait_until = Some(deadline);
        self
    }

    /// Asks the probe even if the store knows nothing of the key: for what is sent again by hand after its record
    /// may have expired.
    pub fn doubtful(mut self, doubtful: bool) -> Self {
        self.doubtful = doubtful;
        self
    }

    /// Does the work, unless it is done, and returns its outcome.
    pub async fn work<T, E, W, Fut>(self, work: W) -> Result<Done<T>, Error<E>>
    where
        T: Serialize + DeserializeOwned + Send,
        E: fmt::Display + Send,
        W: FnOnce(Claim) -> Fut + Send,
        Fut: Future<Output = Result<T, Failure<E>>> + Send,
        P: Probe<T, E>,
    {
        let held = match self.enter().await? {
            Entered::Mine(held) => held,
            Entered::Recorded { outcome, told } => return replay(&outcome, told),
        };
        let Self { inner, key, attributes, digests, lease, probe, doubtful, .. } = self;
        let settling = Settling { inner, key: &key, attributes: &attributes, digests: digests.as_ref(), held: &held };
        let claim = settling.claim(lease.unwrap_or_else(|| key.namespace().default_lease()));

        let mut doubt = held.doubt || doubtful;
        if doubt {
            inner.observe(Event::Doubted { key: &key, fence: held.fence });
            match probe.ask(claim.clone()).await {
                Some(Ok(Probed::Done(value))) => {
                    inner.observe(Event::Probed { key: &key, done: true });
                    return settling.complete(value, How::Probed).await;
                }
                Some(Ok(Probed::NotDone)) => {
                    inner.observe(Event::Probed { key: &key, done: false });
                    doubt = false;
                }
                Some(Err(error)) => {
                    settling.release(record::reason(&error), true).await;
                    return Err(Error::Probe(error));
                }
                None => {}
            }
        }
        // The claim's answer, or the probe's, may have taken longer than the lease. Then the key may be another's.
        let deadline = claim.deadline();
        if inner.clock.now() >= deadline {
            return Err(Error::InFlight { until: deadline + MAX_CLOCK_SKEW });
        }
        match work(claim).await {
            Ok(value) => settling.complete(value, How::Fresh).await,
            Err(Failure::Retry(error)) => {
                // This attempt had no effect, but a former holder's may still be in doubt: nobody could be asked.
                settling.release(record::reason(&error), doubt).await;
                Err(Error::Work(error))
            }
            Err(Failure::Uncertain(error)) => {
                settling.release(record::reason(&error), true).await;
                Err(Error::Work(error))
            }
            Err(Failure::Permanent(error)) => {
                settling.fail(record::reason(&error)).await;
                Err(Error::Work(error))
            }
        }
    }

    /// Claims the key, waiting for another holder if the caller wants to.
    async fn enter(&self) -> Result<Entered, Refusal> {
        let owner = self.inner.new_owner();
        let mut poll = FIRST_POLL;
        loop {
            let until = match self.try_enter(&owner).await {
                Err(Refusal::InFlight { until }) => until,
                decided => return decided,
            };
            // Look until the record is free or settled: a read costs less than a refused write.
            loop {
                let now = self.inner.clock.now();
                let Some(deadline) = self.wait_until.filter(|deadline| now < *deadline) else {
                    return Err(Refusal::InFlight { until });
                };
                self.inner.clock.sleep(poll.min(deadline.since(now))).await;
                poll = (poll * 2).min(SLOWEST_POLL);
                let now = self.inner.clock.now();
                if self.inner.gate(now) != Gate::Pass {
                    break; // the local memory will say
                }
                match self.inner.ask(&self.key, "read", self.inner.store.read(&self.key)).await {
                    // Our own claim, whose answer was lost: there is nobody to wait for.
                    Ok(Timed { answer: Some(record), .. }) if record.owner == owner => break,
                    Ok(Timed { answer: Some(record), .. }) if !record.is_claimable(now) => match self.judge(&record) {
                        Err(Refusal::InFlight { .. }) => {}
                        decided => return decided,
                    },
                    Ok(_) | Err(_) => break,
                }
            }
        }
    }

    async fn try_enter(&self, owner: &Owner) -> Result<Entered, Refusal> {
        let now = self.inner.clock.now();
        let mut doubt = false;
        let unwritten = self.inner.memory().unwritten(&self.key, now);
        if let Some(unwritten) = unwritten {
            // Admitted during an outage, and the store may not know: it would admit the key again.
            match unwritten.remembered.state {
                Known::InFlight { until } if until <= now => doubt = true,
                Known::Uncertain => doubt = true,
                // That had no effect, so nothing is at risk: the store decides, if it can.
                Known::Failed { .. } => {}
                Known::InFlight { .. } | Known::Completed { .. } => {
                    self.inner.reconcile_key(&self.key).await;
                    // The store may have had another outcome by then, and that is the one which counts.
                    let known = self.inner.memory().recall(&self.key, now);
                    return self.judge_memory(&known.unwrap_or(unwritten.remembered));
                }
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
            Err(error) => return Err(Refusal::Store(error)),
        };
        let fence = match answer {
            Admitted::Won { fence, previous } => {
                doubt |= previous.is_some_and(|record| record.leaves_doubt(now));
                fence
            }
            // Our own claim, whose answer was lost on the way. What it replaced is unknown. It may be an earlier attempt's, and
            // lasts no longer than that one asked for.
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
                if !matches!(judged, Err(Refusal::InFlight { .. })) {
                    self.inner.reconcile().await;
                }
                return judged;
            }
        };
        // While the answer was on its way, the store failed another call of this instance, which was admitted without it.
        let meanwhile = self.inner.memory().unwritten(&self.key, self.inner.clock.now());
        if let Some(meanwhile) = meanwhile {
            match meanwhile.remembered.state {
                Known::InFlight { until } if until <= self.inner.clock.now() => doubt = true,
                Known::Uncertain => doubt = true,
                Known::Failed { .. } => {}
                Known::InFlight { .. } | Known::Completed { .. } => {
                    let give_back = Settle {
                        key: &self.key,
                        owner: owner.clone(),
                        fence,
                        now: self.inner.clock.now(),
                        to: Transition::Release { reason: MEANWHILE.to_owned(), uncertain: true },
                        expires_at: request.expires_at,
                    };
                    // If the store cannot be told, the claim lapses with its lease.
                    let _ = self.inner.ask(&self.key, "release", self.inner.store.settle(&give_back)).await;
                    self.inner.reconcile_key(&self.key).await;
                    let known = self.inner.memory().recall(&self.key, self.inner.clock.now());
                    return self.judge_memory(&known.unwrap_or(meanwhile.remembered));
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
        self.decided(Decision::New, if doubt { "taken over" } else { "absent" }, Some(latency), false);
        let lease_end = lease_until.saturating_sub(MAX_CLOCK_SKEW);
        Ok(Entered::Mine(Held { owner: owner.clone(), fence, lease_end, doubt, in_store: true }))
    }

    fn enter_without_store(&self, owner: &Owner, cause: Option<store::Error>) -> Result<Entered, Refusal> {
        self.inner.may_decide_alone(&self.key, cause).map_err(Refusal::Store)?;
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
        let decision = self.inner.memory().admit(unwritten, now);
        match decision {
            memory::Decision::New { doubt } => {
                self.inner.observe(Event::AdmittedWithoutStore { key: &self.key });
                self.decided(Decision::New, if doubt { "taken over" } else { "absent" }, None, true);
                Ok(Entered::Mine(Held { owner: owner.clone(), fence: 0, lease_end, doubt, in_store: false }))
            }
            memory::Decision::Known(remembered) => self.judge_memory(&remembered),
            memory::Decision::Full => Err(Refusal::Store(self.inner.journal_full(&self.key))),
        }
    }

    fn lease_end(&self, now: Timestamp) -> Timestamp {
        self.lease_until.unwrap_or_else(|| now + self.lease.unwrap_or_else(|| self.key.namespace().default_lease()))
    }

    /// What somebody else's record means for this call.
    fn judge(&self, record: &Record) -> Result<Entered, Refusal> {
        self.compare(record.digests.as_ref())?;
        match &record.state {
            State::Completed { outcome } => Ok(Entered::Recorded { outcome: outcome.clone(), told: true }),
            State::Failed { reason } => Err(Refusal::Failed { reason: reason.clone() }),
            State::Claimed { lease_until } => Err(Refusal::InFlight { until: *lease_until }),
            // It was free again a moment later: worth another try, not an answer.
            State::Released { .. } => Err(Refusal::InFlight { until: record.updated_at }),
        }
    }

    fn judge_memory(&self, remembered: &Remembered) -> Result<Entered, Refusal> {
        let told = self.inner.memory().unwritten(&self.key, self.inner.clock.now()).is_none();
        let judged = self.compare(remembered.digests.as_ref()).and_then(|()| match &remembered.state {
            Known::Completed { outcome } => Ok(Entered::Recorded { outcome: outcome.clone(), told }),
            Known::Failed { reason } => Err(Refusal::Failed { reason: reason.clone() }),
            Known::InFlight { until } => Err(Refusal::InFlight { until: *until }),
            Known::Uncertain => Err(Refusal::InFlight { until: self.inner.clock.now() }),
        });
        self.decided(Decision::Duplicate, reason_of(&judged), None, true);
        judged
    }

    fn compare(&self, stored: Option<&Digests>) -> Result<(), Refusal> {
        let fields = match (&self.digests, stored) {
            (Some(ours), Some(stored)) => ours.differences(stored),
            _ => Vec::new(),
        };
        if fields.is_empty() { Ok(()) } else { Err(Refusal::Mismatch { fields }) }
    }

    fn decided(&self, decision: Decision, reason: &'static str, store_latency: Option<Duration>, fallback: bool) {
        let strength = Strength::Run;
        self.inner.observe(Event::Decided { key: &self.key, strength, decision, reason, store_latency, fallback });
    }
}

fn reason_of(judged: &Result<Entered, Refusal>) -> &'static str {
    match judged {
        Ok(_) => "completed",
        Err(Refusal::InFlight { .. }) => "in flight",
        Err(Refusal::Failed { .. }) => "failed",
        Err(Refusal::Mismatch { .. }) => "different payload",
        Err(Refusal::Store(_)) => "store error",
    }
}

fn replay<T: DeserializeOwned, E>(outcome: &Outcome, recorded: bool) -> Result<Done<T>, Error<E>> {
    let value = outcome.value().map_err(|error| Error::Store(error.into()))?;
    Ok(Done { value, how: How::Replayed, recorded })
}

/// How a held claim ends.
struct Settling<'a, S> {
    inner: &'a Arc<Inner<S>>,
    key: &'a Key,
    attributes: &'a Attributes,
    digests: Option<&'a Digests>,
    held: &'a Held,
}

impl<S: Store> Settling<'_, S> {
    fn claim(&self, lease: Duration) -> Claim {
        let Held { fence, lease_end, in_store, .. } = *self.held;
        let owner = self.held.owner.clone();
        let renewer = Renewer {
            inner: self.inner.clone(),
            key: self.key.clone(),
            owner,
            fence,
            in_store,
            digests: self.digests.cloned(),
        };
        Claim::new(self.key.clone(), fence, Lease::new(lease_end, lease, Box::new(renewer)))
    }

    async fn complete<T, E>(&self, value: T, how: How) -> Result<Done<T>, Error<E>>
    where
        T: Serialize + DeserializeOwned,
    {
        // A value that is no JSON cannot be replayed, but the effect happened: record it without.
        let outcome = Outcome::of(&value).unwrap_or(Outcome::NotKept);
        let done = |recorded| Ok(Done { value: Some(value), how, recorded });
        if !self.held.in_store {
            return match self.keep_unwritten(Known::Completed { outcome }) {
                Some(successor) => superseded(successor),
                None => done(false),
            };
        }
        match self.settle(Transition::Complete { outcome: outcome.clone() }).await {
            Ok(Settled::Done) => {
                self.remember(Known::Completed { outcome });
                self.inner.reconcile().await;
                done(true)
            }
            Ok(Settled::Lost(None)) => {
                // The record expired and was deleted while the work went on: nobody else holds it.
                self.inner.observe(Event::Unrecorded { key: self.key });
                done(false)
            }
            Ok(Settled::Lost(Some(record))) => {
                self.inner.observe(Event::Fenced { key: self.key, fence: self.held.fence });
                self.inner.memory().note(self.key, &record);
                match record.state {
                    State::Completed { outcome } => replay(&outcome, true),
                    State::Failed { reason } => Err(Error::Failed { reason }),
                    State::Claimed { .. } | State::Released { .. } => Err(Error::Superseded),
                }
            }
            Err(error) => {
                if error.is_transient()
                    && let Some(successor) = self.keep_unwritten(Known::Completed { outcome })
                {
                    return superseded(successor);
                }
                match self.key.namespace().outage_policy() {
                    OutagePolicy::Open if error.is_transient() => done(false),
                    _ => Err(Error::Unrecorded(error)),
                }
            }
        }
    }

    async fn fail(&self, reason: String) {
        if !self.held.in_store {
            self.keep_unwritten(Known::Failed { reason });
            return;
        }
        match self.settle(Transition::Fail { reason: reason.clone() }).await {
            Ok(Settled::Done) => self.remember(Known::Failed { reason }),
            Ok(Settled::Lost(_)) => self.inner.observe(Event::Fenced { key: self.key, fence: self.held.fence }),
            Err(error) if error.is_transient() => {
                self.keep_unwritten(Known::Failed { reason });
            }
            Err(_) => {} // reported; the lease will lapse
        }
    }

    /// Gives the claim back. If the store cannot be told, the claim lapses with its lease instead.
    async fn release(&self, reason: String, uncertain: bool) {
        if !self.held.in_store {
            if uncertain {
                self.keep_unwritten(Known::Uncertain);
            } else {
                self.inner.memory().give_back(self.key, &self.held.owner);
            }
            return;
        }
        match self.settle(Transition::Release { reason, uncertain }).await {
            Ok(Settled::Done) if uncertain => self.remember(Known::Uncertain),
            Ok(Settled::Done) => self.inner.memory().forget(self.key),
            Ok(Settled::Lost(_)) => self.inner.observe(Event::Fenced { key: self.key, fence: self.held.fence }),
            Err(_) => {}
        }
    }

    async fn settle(&self, to: Transition) -> Result<Settled, store::Error> {
        let now = self.inner.clock.now();
        let expires_at = match to {
            Transition::Complete { .. } => self.inner.expiry(self.key, now),
            _ => self.inner.unfinished_expiry(self.key, now, now),
        };
        let (state, operation) = match &to {
            Transition::Complete { .. } => ("completed", "complete"),
            Transition::Fail { .. } => ("failed", "fail"),
            _ => ("released", "release"),
        };
        let Held { owner, fence, .. } = self.held;
        let request = Settle { key: self.key, owner: owner.clone(), fence: *fence, now, to, expires_at };
        let Timed { answer, latency } = self.inner.ask(self.key, operation, self.inner.store.settle(&request)).await?;
        match answer {
            // Our own settlement, whose answer was lost on the way.
            Settled::Lost(Some(record))
                if record.owner == *owner && record.fence == *fence && record.state == request.to.into_state() =>
            {
                self.inner.observe(Event::Settled { key: self.key, state, store_latency: Some(latency) });
                Ok(Settled::Done)
            }
            Settled::Done => {
                self.inner.observe(Event::Settled { key: self.key, state, store_latency: Some(latency) });
                Ok(Settled::Done)
            }
            lost => Ok(lost),
        }
    }

    fn remember(&self, state: Known) {
        let now = self.inner.clock.now();
        let expires_at = match &state {
            Known::Completed { .. } => self.inner.expiry(self.key, now),
            _ => self.inner.unfinished_expiry(self.key, now, now),
        };
        self.inner.remember(self.key, state, self.digests.cloned(), expires_at);
    }

    /// Keeps what the store could not be told, for later. `Some`: the attempt was too late, and another one of this
    /// instance has taken over; inside, what became of that one.
    fn keep_unwritten(&self, state: Known) -> Option<Option<Remembered>> {
        let now = self.inner.clock.now();
        let completed = matches!(state, Known::Completed { .. });
        let expires_at = match &state {
            Known::Completed { .. } => self.inner.expiry(self.key, now),
            _ => self.inner.unfinished_expiry(self.key, now, now),
        };
        let unwritten = Unwritten {
            key: self.key.clone(),
            owner: self.held.owner.clone(),
            remembered: Remembered { state, digests: self.digests.cloned(), expires_at },
            attributes: self.attributes.clone(),
        };
        let kept = self.inner.memory().keep(unwritten, !self.held.in_store);
        match kept {
            Kept::TakenOver(successor) => {
                self.inner.observe(Event::Fenced { key: self.key, fence: self.held.fence });
                return Some(successor);
            }
            Kept::Full => self.inner.observe(Event::JournalFull { key: self.key }),
            Kept::Yes => {}
        }
        if completed {
            self.inner.observe(Event::Unrecorded { key: self.key });
        }
        None
    }
}

/// What a worker that was too late returns: its successor's outcome, if there is one.
fn superseded<T: DeserializeOwned, E>(successor: Option<Remembered>) -> Result<Done<T>, Error<E>> {
    match successor.map(|remembered| remembered.state) {
        Some(Known::Completed { outcome }) => replay(&outcome, false),
        Some(Known::Failed { reason }) => Err(Error::Failed { reason }),
        Some(Known::InFlight { .. } | Known::Uncertain) | None => Err(Error::Superseded),
    }
}

/// Lengthens a lease, in the store or, without it, in the local memory.
struct Renewer<S> {
    inner: Arc<Inner<S>>,
    key: Key,
    owner: Owner,
    fence: u64,
    in_store: bool,
    digests: Option<Digests>,
}

impl<S: Store> crate::claim::Renew for Renewer<S> {
    fn renew(&self, lease: Duration) -> crate::claim::Renewing<'_> {
        Box::pin(async move {
            let now = self.inner.clock.now();
            let lease_end = now + lease;
            if !self.in_store {
                let lengthened = self.inner.memory().lengthen(&self.key, &self.owner, lease_end);
                return if lengthened { Ok(lease_end) } else { Err(Lost::TakenOver) };
            }
            let lease_until = lease_end + MAX_CLOCK_SKEW;
            let request = Settle {
                key: &self.key,
                owner: self.owner.clone(),
                fence: self.fence,
                now,
                to: Transition::Renew { lease_until },
                expires_at: self.inner.unfinished_expiry(&self.key, now, lease_until),
            };
            match self.inner.ask(&self.key, "renew", self.inner.store.settle(&request)).await {
                Ok(Timed { answer: Settled::Done, .. }) => {
                    let state = Known::InFlight { until: lease_until };
                    self.inner.remember(&self.key, state, self.digests.clone(), request.expires_at);
                    Ok(lease_end)
                }
                Ok(Timed { answer: Settled::Lost(_), .. }) => {
                    self.inner.observe(Event::Fenced { key: &self.key, fence: self.fence });
                    Err(Lost::TakenOver)
                }
                Err(error) => Err(Lost::Store(error)),
            }
        })
    }
}
