//! `run`: one recorded outcome, even if workers crash, time out and race. [`Run`] has the protocol.

mod enter;
mod keep_alive;
mod renew;
mod settle;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::enter::Entered;
use self::settle::Settling;
use crate::claim::{Claim, Lost};
use crate::clock::Timestamp;
use crate::digest::Digests;
use crate::key::Key;
use crate::observe::{Attempt, Event};
use crate::once::Inner;
use crate::record::{self, NoValue, Outcome, Owner};
use crate::store::{self, Attributes};
use crate::trace;

/// A call of `run` that has not started. Set its options, then give it its [`work`](Run::work).
///
/// 1. **Enter**: claim the key with one conditional write. A duplicate ends here: it gets the recorded outcome, or an
///    error that says why there is no outcome.
/// 2. **Ask**: if an earlier holder may have performed the effect, ask the [probe](Run::probe). If the probe finds it done,
///    that is the outcome.
/// 3. **Work**: perform the effect. The claim protects it until the lease ends; a long work renews its lease
///    ([`keep_alive`](Run::keep_alive)).
/// 4. **Settle**: record how it ended with one more write, on the condition that the claim still has this call's owner token
///    and fence. So a late worker cannot touch its successor's record.
///
/// # Failures
///
/// | what fails | what happens |
/// |---|---|
/// | the worker dies after the claim | the claim ends with its lease; the next call takes over and asks its probe first |
/// | its future is dropped, or the work panics | a task of its own releases the claim, in doubt if the work had begun or an earlier doubt was taken over; without a runtime, as above |
/// | the worker outlives its lease | another call may take over; the late settlement changes nothing |
/// | the answer to a write is lost | a repeated write finds the owner token of the first one and counts as the same write |
/// | the store fails before the claim | see [`OutagePolicy`](crate::key::OutagePolicy) |
/// | the store fails after the effect | the outcome is kept in the local journal, and a later call writes it |
#[must_use = "a run does nothing until it is given its work"]
pub struct Run<'o, P = Undecided> {
    call: Call<'o>,
    probe: P,
}

/// What the steps of one call share.
struct Call<'o> {
    inner: &'o Arc<Inner>,
    key: Key,
    attributes: Attributes,
    digests: Option<Digests>,
    lease: Option<Duration>,
    lease_until: Option<Timestamp>,
    wait_until: Option<Timestamp>,
    doubtful: bool,
    refuses_doubt: bool,
    keep_alive: bool,
}

/// A claim that this call holds.
#[derive(Clone)]
struct Held {
    owner: Owner,
    fence: u64,
    lease_end: Timestamp,
    /// An earlier holder may have performed the effect.
    doubt: bool,
    /// False if only the local memory knows of the claim.
    in_store: bool,
}

impl Held {
    fn attempt(&self) -> Attempt<'_> {
        Attempt { owner: &self.owner, fence: self.fence, lease_end: self.lease_end }
    }
}

impl<P> fmt::Debug for Run<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("key", &self.call.key).finish_non_exhaustive()
    }
}

impl<'o> Call<'o> {
    fn new(inner: &'o Arc<Inner>, key: Key) -> Self {
        Self {
            inner,
            key,
            attributes: Vec::new(),
            digests: None,
            lease: None,
            lease_until: None,
            wait_until: None,
            doubtful: false,
            refuses_doubt: false,
            keep_alive: false,
        }
    }
}

impl<'o> Run<'o> {
    pub(crate) fn new(inner: &'o Arc<Inner>, key: Key) -> Self {
        Self { call: Call::new(inner, key), probe: Undecided }
    }

    /// Asks the destination whenever an earlier holder may have performed the effect.
    pub fn probe<P>(self, probe: P) -> Run<'o, P> {
        Run { call: self.call, probe }
    }

    /// The destination cannot be asked. Says what happens if an earlier holder may have performed the effect.
    pub fn on_doubt(mut self, choice: OnDoubt) -> Run<'o, OnDoubt> {
        self.call.refuses_doubt = choice == OnDoubt::Refuse;
        Run { call: self.call, probe: choice }
    }
}

impl<'o, P> Run<'o, P> {
    /// Stores an attribute of the caller beside the library's.
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.call.attributes.push((name.into(), value.into()));
        self
    }

    /// Refuses a duplicate with a different payload. Without digests, payloads are not compared.
    pub fn digests(mut self, digests: Digests) -> Self {
        self.call.digests = Some(digests);
        self
    }

    /// How long the lease lasts from the claim on. The default is the namespace's lease.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.call.lease = Some(lease);
        self
    }

    /// When the lease ends. On Lambda, this is the invocation's deadline.
    pub fn lease_until(mut self, end: Timestamp) -> Self {
        self.call.lease_until = Some(end);
        self
    }

    /// If another call is in flight, waits for its outcome until `deadline`. The default is not to wait: the call returns
    /// [`Error::InFlight`] at once.
    pub fn wait_until(mut self, deadline: Timestamp) -> Self {
        self.call.wait_until = Some(deadline);
        self
    }

    /// If another call is in flight, waits for its outcome at most this long, counted from now. See
    /// [`wait_until`](Self::wait_until).
    pub fn wait(self, longest: Duration) -> Self {
        let deadline = self.call.inner.clock.now() + longest;
        self.wait_until(deadline)
    }

    /// Renews the lease in time for as long as the work goes on, and cancels the work if the claim is lost: its future is
    /// dropped, and the call returns [`Error::Cancelled`]. Each renewal is one write, when half of the lease is over.
    pub fn keep_alive(mut self) -> Self {
        self.call.keep_alive = true;
        self
    }

    /// Asks the probe even if the store knows nothing of the key. Use it to send something again by hand when its
    /// record may have expired. It changes nothing for a run that [refuses](OnDoubt::Refuse) doubt.
    pub fn doubtful(mut self, doubtful: bool) -> Self {
        self.call.doubtful = doubtful;
        self
    }

    /// Does the work, unless it is done already, and returns its outcome.
    pub async fn work<T, E, W, Fut>(self, work: W) -> Result<Done<T>, Error<E>>
    where
        T: Serialize + DeserializeOwned + Send,
        E: fmt::Display + Send,
        W: FnOnce(Claim) -> Fut + Send,
        Fut: Future<Output = Result<T, Failure<E>>> + Send,
        P: Probe<T, E>,
    {
        let Self { call, probe } = self;
        let Call { inner, key, .. } = &call;
        let held = match call.enter().await? {
            Entered::Claimed(held) => held,
            Entered::Recorded(recorded) => return replay(recorded),
        };
        let settling = Settling::new(&call, &held);
        let claim = settling.claim();

        let mut doubt = held.doubt || (call.doubtful && !call.refuses_doubt);
        if doubt {
            inner.observe(Event::Doubted { key, fence: held.fence });
            match trace::probe(key, held.fence, probe.ask(claim.clone())).await {
                Some(Ok(Probed::Done(value))) => {
                    inner.observe(Event::Probed { key, fence: held.fence, done: true });
                    return settling.complete(value, How::Probed).await;
                }
                Some(Ok(Probed::NotDone)) => {
                    inner.observe(Event::Probed { key, fence: held.fence, done: false });
                    doubt = false;
                }
                Some(Err(error)) => {
                    settling.release(record::reason(&error), true).await;
                    return Err(Error::Probe(error));
                }
                None if call.refuses_doubt => {
                    settling.release(REFUSED.to_owned(), true).await;
                    return Err(Error::Doubtful);
                }
                None => {}
            }
        }
        // The answer to the claim, or the probe, may have taken longer than the lease. Then another call may hold the key.
        let deadline = claim.deadline();
        if inner.clock.now() >= deadline {
            settling.release(TOO_LATE.to_owned(), doubt).await;
            return Err(Error::DeadlinePassed { deadline });
        }
        settling.begins_work();
        let began = inner.clock.now();
        let working = trace::work(key, held.fence, work(claim.clone()));
        let ended = if call.keep_alive {
            keep_alive::until_done(working, &claim, &*inner.clock).await
        } else {
            Ok(working.await)
        };
        let took = inner.clock.now().since(began);
        inner.observe(Event::Worked { key, fence: held.fence, done: matches!(ended, Ok(Ok(_))), took });
        let ended = match ended {
            Ok(ended) => ended,
            Err(lost) => {
                settling.release(record::reason(&lost), true).await;
                return Err(Error::Cancelled(lost));
            }
        };
        match ended {
            Ok(value) => settling.complete(value, How::Fresh).await,
            Err(Failure::Retry(error)) => {
                // This attempt had no effect. An earlier holder's attempt may have had one, if there was no probe to ask.
                settling.release(record::reason(&error), doubt).await;
                Err(Error::Work(error))
            }
            Err(Failure::Uncertain(error)) => {
                settling.release(record::reason(&error), true).await;
                Err(Error::Work(error))
            }
            // This attempt had no effect and never will have one. An earlier holder's attempt may have had one: that must not be
            // recorded as a failure.
            Err(Failure::Permanent(error)) if doubt => {
                settling.release(record::reason(&error), true).await;
                Err(Error::Work(error))
            }
            Err(Failure::Permanent(error)) => {
                settling.fail(record::reason(&error)).await;
                Err(Error::Work(error))
            }
        }
    }
}

/// Why a claim is released whose lease ended before the work began.
const TOO_LATE: &str = "the lease ended before the work began";
/// Why a claim is released that was told to refuse a doubt.
const REFUSED: &str = "the effect may have happened, and the caller refuses to repeat it";

/// The outcome of another call.
struct Recorded {
    outcome: Outcome,
    /// False if only the local memory has it.
    in_store: bool,
    /// The attributes of the call that made the record.
    first: Attributes,
}

fn replay<T: DeserializeOwned, E>(recorded: Recorded) -> Result<Done<T>, Error<E>> {
    let Recorded { outcome, in_store, first } = recorded;
    let value = outcome.value().map_err(Error::DoneWithoutValue)?;
    Ok(Done { value, how: How::Replayed, recorded: in_store, first })
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Done<T> {
    /// What the work returned, or what the probe found.
    pub value: T,
    /// Where the value comes from.
    pub how: How,
    /// False if the store does not have the outcome. It is in this instance's journal, if there was room; other instances
    /// do not know of it.
    pub recorded: bool,
    /// On a replay: the [attributes](Run::attribute) in the record. They are those of the call that recorded the outcome,
    /// and of earlier attempts where that call set none. If one of them is the id of a trace, a duplicate can link to it.
    /// Empty if this call recorded the outcome, or if the local memory answered.
    pub first: Attributes,
}

/// Where an outcome comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// This call did the work.
    Fresh,
    /// It is the recorded outcome of another call.
    Replayed,
    /// The probe found that an earlier holder had performed the effect.
    Probed,
}

impl<T> Done<T> {
    /// Did this call do the work?
    pub fn is_fresh(&self) -> bool {
        self.how == How::Fresh
    }
}

/// How a work failed.
#[derive(Debug)]
pub enum Failure<E> {
    /// The effect did not happen. The claim is released, and the next call tries again.
    Retry(E),
    /// The effect may have happened (a timeout, a lost answer). The claim is released, and the next call asks its probe
    /// first.
    Uncertain(E),
    /// The effect did not happen, and trying again would not help. The failure is recorded, and duplicates get it.
    Permanent(E),
}

impl<E> From<E> for Failure<E> {
    /// `?` in a work means [`Failure::Uncertain`]: the error may have come after the effect. Where it certainly came
    /// before, say [`or_retry`](OrFailure::or_retry).
    fn from(error: E) -> Self {
        Self::Uncertain(error)
    }
}

/// Says of any `Result` in a work what its error means, and converts the error on the way.
///
/// ```
/// # use ichido::{Failure, OrFailure};
/// # type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// # async fn send(amount: u64) -> Result<String, std::io::Error> { Ok(amount.to_string()) }
/// async fn charge(amount: &str) -> Result<u64, Failure<BoxError>> {
///     let amount: u64 = amount.parse().or_permanent()?; // it will never be a number
///     let answer = send(amount).await.or_uncertain()?; // a lost answer
///     Ok(answer.parse().or_uncertain()?) // the charge was made, only its answer is not understood
/// }
/// ```
pub trait OrFailure<T, E>: Sized {
    /// The effect did not happen: [`Failure::Retry`].
    fn or_retry<F: From<E>>(self) -> Result<T, Failure<F>>;
    /// The effect may have happened: [`Failure::Uncertain`].
    fn or_uncertain<F: From<E>>(self) -> Result<T, Failure<F>>;
    /// The effect did not happen and never will: [`Failure::Permanent`].
    fn or_permanent<F: From<E>>(self) -> Result<T, Failure<F>>;
}

impl<T, E> OrFailure<T, E> for Result<T, E> {
    fn or_retry<F: From<E>>(self) -> Result<T, Failure<F>> {
        self.map_err(|error| Failure::Retry(error.into()))
    }

    fn or_uncertain<F: From<E>>(self) -> Result<T, Failure<F>> {
        self.map_err(|error| Failure::Uncertain(error.into()))
    }

    fn or_permanent<F: From<E>>(self) -> Result<T, Failure<F>> {
        self.map_err(|error| Failure::Permanent(error.into()))
    }
}

/// Why a run has no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error<E> {
    /// Another call holds the claim. The effect is not done yet: do not report success to a caller that would then
    /// forget the event.
    #[error("another call is working on it; its lease ends at {until}")]
    InFlight { until: Timestamp },
    /// The lease would have ended, or had ended, before the work could begin. Nothing was done.
    #[error("the deadline {deadline} passed before the work could begin; nothing was done")]
    DeadlinePassed { deadline: Timestamp },
    /// An earlier attempt may have had its effect, and this call [refuses](OnDoubt::Refuse) to repeat it. Nothing changes
    /// until an operator has looked at the destination and released the key, or the record expires.
    #[error(
        "an earlier attempt may have had its effect, and nobody could be asked; look whether it had, then release the key"
    )]
    Doubtful,
    /// The effect happened, but its value cannot be returned. Do not try again.
    #[error("it was done before, but {0}")]
    DoneWithoutValue(#[source] NoValue),
    /// An earlier call failed permanently.
    #[error("an earlier call failed permanently: {reason}")]
    Failed { reason: String },
    /// The key was used with another request before.
    #[error("the key was used before with a different request; these fields differ: {}", .fields.join(", "))]
    Mismatch { fields: Vec<String> },
    /// The work failed.
    #[error("{0}")]
    Work(E),
    /// The probe failed, so the work was not done. The next call asks again.
    #[error("could not ask the destination whether it was done: {0}")]
    Probe(E),
    /// The work was done, but its lease had ended and another call has taken over. That call's outcome counts.
    #[error("the lease ended before the work did, and another call took over")]
    Superseded,
    /// The claim was lost during the work, so [`keep_alive`](Run::keep_alive) cancelled the work. The effect may have
    /// happened.
    #[error("the work was cancelled: {0}")]
    Cancelled(#[source] Lost),
    /// The work was done, but the store could not record it and the namespace fails closed. A duplicate may repeat the
    /// work.
    #[error("the work was done, but its outcome could not be recorded")]
    Unrecorded(#[source] store::Error),
    /// The store failed before the work began.
    #[error(transparent)]
    Store(store::Error),
}

impl<E> Error<E> {
    /// May the same call succeed later? A call that failed [`Failure::Permanent`] says yes here, because only the record
    /// knows that; the next call then returns [`Error::Failed`], which says no.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::InFlight { .. } | Self::DeadlinePassed { .. } | Self::Superseded | Self::Cancelled(_) => true,
            Self::Work(_) | Self::Probe(_) => true,
            Self::Unrecorded(error) | Self::Store(error) => error.is_transient(),
            Self::Doubtful | Self::DoneWithoutValue(_) | Self::Failed { .. } | Self::Mismatch { .. } => false,
        }
    }

    /// How long to wait before the same call, if that is known: until the lease of the call in flight has ended.
    pub fn retry_after(&self, now: Timestamp) -> Option<Duration> {
        match self {
            Self::InFlight { until } => Some(until.since(now)),
            _ => None,
        }
    }
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probed<T> {
    /// The effect was performed, with this outcome.
    Done(T),
    /// The effect was not performed.
    NotDone,
}

/// Asks the destination whether an effect was performed. Closures `FnOnce(Claim) -> Future<Result<Probed<T>, E>>` are
/// probes.
#[diagnostic::on_unimplemented(
    message = "this run does not say what happens if an earlier attempt may have had its effect",
    label = "call `.probe(…)` or `.on_doubt(…)` before `.work(…)`",
    note = "a probe is a closure `FnOnce(Claim) -> Future<Output = Result<Probed<T>, E>>` with the types of the work"
)]
pub trait Probe<T, E>: Send {
    /// `None`: the destination cannot be asked.
    fn ask(self, claim: Claim) -> impl Future<Output = Option<Result<Probed<T>, E>>> + Send;
}

/// A run that does not know yet what to do if an earlier holder may have performed the effect.
#[derive(Debug, Clone, Copy)]
pub struct Undecided;

/// What a run does if an earlier holder may have performed the effect and nobody can be asked. A worker that died leaves
/// that doubt, and so does [`Failure::Uncertain`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDoubt {
    /// Does the work again: the effect may happen twice.
    Repeat,
    /// Returns [`Error::Doubtful`] and changes nothing, until an operator releases the key or its record expires: the effect
    /// may never happen. [`keep_unfinished`](crate::Namespace::keep_unfinished) says how long the doubt is kept.
    Refuse,
}

impl<T, E> Probe<T, E> for OnDoubt {
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
