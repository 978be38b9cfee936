//! `run` for handlers of `lambda_runtime`.
//!
//! - [`OnceLayer`] is a tower layer that puts a whole handler under `run`: one event, one outcome.
//! - [`batch`] puts each record of an SQS, Kinesis or DynamoDB Streams event under a `run` of its own, and makes the
//!   response that names the records which Lambda shall deliver again.
//!
//! Both want to be told what happens if an earlier attempt may have had its effect: ask a probe, repeat, or refuse. In
//! both, a lease ends at the invocation's deadline; [`MAX_CLOCK_SKEW`](crate::MAX_CLOCK_SKEW) later another call may take
//! over.

pub mod batch;
mod layer;
mod record;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::layer::{Error, HandlerError, IntoFailure, OnceLayer, OnceService};
use crate::claim::Claim;
use crate::clock::Timestamp;
use crate::digest::Digests;
use crate::key::Key;
use crate::once::Once;
use crate::run::{self, Done, Failure, OnDoubt, Run};
use crate::store::Attributes;

/// How long before its deadline an invocation stops waiting for others, so that it can still respond. A batch also begins no
/// record after that. Lambda kills an invocation at its deadline, and its response is lost.
pub const RESPONSE_MARGIN: Duration = Duration::from_millis(500);

/// The error of `lambda_runtime`.
type BoxError = lambda_runtime::Error;

/// The key of an event or a record, and what else is recorded with it.
#[derive(Debug, Clone)]
pub struct Named {
    key: Key,
    digests: Option<Digests>,
    attributes: Attributes,
}

impl From<Key> for Named {
    fn from(key: Key) -> Self {
        Self { key, digests: None, attributes: Vec::new() }
    }
}

impl Named {
    /// Refuses a duplicate with a different payload. See [`Run::digests`].
    #[must_use]
    pub fn digests(mut self, digests: Digests) -> Self {
        self.digests = Some(digests);
        self
    }

    /// Stores an attribute of the caller beside the library's. See [`Run::attribute`].
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.attributes.push((name.into(), value.into()));
        self
    }

    /// The key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The run of this key. A duplicate in flight is waited for, but the invocation still responds in time.
    fn run(self, once: &Once, deadline: Timestamp, wait: Option<Duration>) -> Run<'_> {
        let mut run = once.run(&self.key).lease_until(deadline);
        if let Some(wait) = wait {
            run = run.wait_until((once.now() + wait).min(deadline.saturating_sub(RESPONSE_MARGIN)));
        }
        if let Some(digests) = self.digests {
            run = run.digests(digests);
        }
        for (name, value) in self.attributes {
            run = run.attribute(name, value);
        }
        run
    }
}

/// When the invocation ends. On Lambda, a lease lasts until then.
pub fn deadline(context: &lambda_runtime::Context) -> Timestamp {
    Timestamp::from_millis(context.deadline)
}

/// A choice of what happens if an earlier attempt at an `X` may have had its effect: [`OnDoubt`], or a probe that returns
/// what the work returns, a `T` or an `E`. The library implements it; you cannot.
#[diagnostic::on_unimplemented(
    message = "nobody has said what happens if an earlier attempt may have had its effect, or the probe does not fit the work",
    label = "this needs `.probe(…)` or `.on_doubt(…)` before it",
    note = "a probe is a closure whose future returns `Result<Probed<T>, E>`, where `T` is what the work returns"
)]
pub trait Decides<X, T, E>: sealed::Sealed + Send + Sync {
    /// Gives the run its probe and its work.
    #[doc(hidden)]
    fn work<W, Fut>(
        &self,
        run: Run<'_>,
        subject: X,
        work: W,
    ) -> impl Future<Output = Result<Done<T>, run::Error<E>>> + Send
    where
        W: FnOnce(X, Claim) -> Fut + Send,
        Fut: Future<Output = Result<T, Failure<E>>> + Send;
}

impl<X, T, E> Decides<X, T, E> for OnDoubt
where
    X: Send,
    T: Serialize + DeserializeOwned + Send,
    E: fmt::Display + Send,
{
    async fn work<W, Fut>(&self, run: Run<'_>, subject: X, work: W) -> Result<Done<T>, run::Error<E>>
    where
        W: FnOnce(X, Claim) -> Fut + Send,
        Fut: Future<Output = Result<T, Failure<E>>> + Send,
    {
        run.on_doubt(*self).work(|claim| work(subject, claim)).await
    }
}

/// A probe, given to [`OnceLayer::probe`] or [`Batch::probe`](batch::Batch::probe).
#[derive(Clone, Copy)]
pub struct Asks<P>(P);

impl<P> fmt::Debug for Asks<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asks").finish_non_exhaustive()
    }
}

mod sealed {
    /// Only this library decides.
    pub trait Sealed {}

    impl Sealed for crate::OnDoubt {}
    impl<P> Sealed for super::Asks<P> {}
}
