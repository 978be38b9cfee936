//! A tower layer for `lambda_runtime` that puts a whole handler under `run`.
//!
//! A closure makes the key of an event, and its digests and attributes if it has any. The handler's response is the
//! outcome, and duplicates get it as their response. A duplicate of an event in flight gets an error, so that Lambda retries
//! it instead of forgetting it. The lease ends at the invocation's deadline;
//! [`MAX_CLOCK_SKEW`](crate::MAX_CLOCK_SKEW) later another call may take over.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lambda_runtime::LambdaEvent;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower::{Layer, Service};

use crate::clock::Timestamp;
use crate::digest::Digests;
use crate::key::Key;
use crate::once::Once;
use crate::run::{Failure, OnDoubt};
use crate::store::Attributes;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The key of an event, and what else its record holds.
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
    /// Refuses a duplicate with a different payload.
    pub fn digests(mut self, digests: Digests) -> Self {
        self.digests = Some(digests);
        self
    }

    /// Stores an attribute of the caller beside the library's.
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.attributes.push((name.into(), value.into()));
        self
    }
}

/// When the invocation ends. On Lambda, a lease lasts until then.
pub fn deadline(context: &lambda_runtime::Context) -> Timestamp {
    Timestamp::from_millis(context.deadline)
}

/// Puts handlers under `run`.
pub struct OnceLayer<F> {
    once: Once,
    on_doubt: OnDoubt,
    name: Arc<F>,
}

impl<F> OnceLayer<F> {
    /// `name` makes the key of an event; its error fails the invocation. `on_doubt` says what happens when an event comes
    /// again whose handler died, timed out or failed: its effect may have happened.
    pub fn new<T, E>(once: Once, on_doubt: OnDoubt, name: F) -> Self
    where
        F: Fn(&LambdaEvent<T>) -> Result<Named, E>,
    {
        Self { once, on_doubt, name: Arc::new(name) }
    }
}

impl<F> Clone for OnceLayer<F> {
    fn clone(&self) -> Self {
        Self { once: self.once.clone(), on_doubt: self.on_doubt, name: self.name.clone() }
    }
}

impl<F> fmt::Debug for OnceLayer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceLayer").finish_non_exhaustive()
    }
}

impl<F, H> Layer<H> for OnceLayer<F> {
    type Service = OnceService<F, H>;

    fn layer(&self, handler: H) -> Self::Service {
        OnceService { layer: self.clone(), handler, response: PhantomData }
    }
}

/// A handler under `run`.
pub struct OnceService<F, H> {
    layer: OnceLayer<F>,
    handler: H,
    response: PhantomData<fn()>,
}

impl<F, H: Clone> Clone for OnceService<F, H> {
    fn clone(&self) -> Self {
        Self { layer: self.layer.clone(), handler: self.handler.clone(), response: PhantomData }
    }
}

impl<F, H> fmt::Debug for OnceService<F, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceService").finish_non_exhaustive()
    }
}

impl<F, E, H, T, R> Service<LambdaEvent<T>> for OnceService<F, H>
where
    F: Fn(&LambdaEvent<T>) -> Result<Named, E> + Send + Sync + 'static,
    E: Into<BoxError>,
    H: Service<LambdaEvent<T>, Response = R> + Clone + Send + 'static,
    H::Error: Into<BoxError>,
    H::Future: Send,
    T: Send + 'static,
    R: Serialize + DeserializeOwned + Send + 'static,
{
    type Response = R;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<R, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.handler.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, event: LambdaEvent<T>) -> Self::Future {
        let named = (self.layer.name)(&event).map_err(Into::into);
        let (once, on_doubt) = (self.layer.once.clone(), self.layer.on_doubt);
        // tower requires that the service which was polled ready is the one that is called. A clone takes its place.
        let fresh = self.handler.clone();
        let mut handler = std::mem::replace(&mut self.handler, fresh);
        Box::pin(async move {
            let Named { key, digests, attributes } = named?;
            let mut run = once.run(&key).lease_until(deadline(&event.context));
            if let Some(digests) = digests {
                run = run.digests(digests);
            }
            for (name, value) in attributes {
                run = run.attribute(name, value);
            }
            let done = run
                .on_doubt(on_doubt)
                // Only the handler knows whether its error came before the effect or after it.
                .work(|_claim| async move {
                    handler.call(event).await.map_err(|error| Failure::Uncertain(Handler(error.into())))
                })
                .await;
            match done {
                Ok(done) => Ok(done.value),
                Err(crate::Error::Work(Handler(error))) => Err(error),
                Err(error) => Err(error.into()),
            }
        })
    }
}

/// The handler's own error, as a type that `run` accepts.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Handler(BoxError);
