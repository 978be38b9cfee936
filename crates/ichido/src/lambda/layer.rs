//! A tower layer that puts a whole handler under `run`.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lambda_runtime::{Diagnostic, LambdaEvent};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower_layer::Layer;
use tower_service::Service;

use super::{Asks, BoxError, Decides, Named, deadline};
use crate::claim::Claim;
use crate::once::Once;
use crate::run::{self, Done, Failure, OnDoubt, Probed, Run, Undecided};
use crate::text::causes;

/// What `errorType` says of a handler's error whose own type says nothing, as `Box<dyn Error>`.
const HANDLER_ERROR: &str = "HandlerError";

/// Puts handlers under `run`.
///
/// A closure makes the key of an event, and its digests and attributes if it has any. The handler's response is the
/// outcome, and duplicates get it as their response.
///
/// ```
/// use ichido::lambda::OnceLayer;
/// use ichido::{Failure, Namespace, OnDoubt, Once, OrFailure};
/// use lambda_runtime::tower::ServiceBuilder;
/// use lambda_runtime::{LambdaEvent, service_fn};
///
/// async fn charge(event: LambdaEvent<String>) -> Result<u64, Failure<lambda_runtime::Error>> {
///     let amount = event.payload.parse().or_permanent()?; // it will never be a number
///     Ok(amount)
/// }
///
/// # async fn example(once: Once) -> Result<(), lambda_runtime::Error> {
/// let orders = Namespace::new("order");
/// let layer = OnceLayer::new(once, move |event: &LambdaEvent<String>| orders.key([&event.payload]))
///     .on_doubt(OnDoubt::Refuse);
/// lambda_runtime::run(ServiceBuilder::new().layer(layer).service(service_fn(charge))).await
/// # }
/// ```
///
/// # What an event gets
///
/// | the event | what it gets |
/// |---|---|
/// | is the first one with its key | the handler's response |
/// | is a duplicate of one that is done | the recorded response |
/// | is a duplicate of one in flight | an error, so that Lambda retries it instead of forgetting it; or, with [`wait`](Self::wait), the response |
/// | comes after an attempt that died, timed out or failed `Uncertain` | what the probe finds, or what [`OnDoubt`] says |
/// | comes after a handler that failed `Permanent` | the error `ichido.Failed` with the recorded reason |
/// | is a duplicate of one that is done but whose response was not kept | the error `ichido.DoneWithoutValue` |
///
/// The last two will never succeed. Lambda retries an asynchronous event twice more all the same, and each retry costs one
/// call to the store. The error is still the honest answer: with a response, the event would never reach its dead-letter
/// queue or its failure destination.
///
/// # The handler's errors
///
/// An existing handler works unchanged if its response can also be deserialized. Its errors mean [`Failure::Uncertain`], because only the handler knows whether an
/// error came before the effect or after it. A handler that returns `Result<R, Failure<E>>` says so itself. See
/// [`IntoFailure`]. For what Lambda shows as `errorType`, see [`Error`].
///
/// # Without a choice
///
/// A handler under a layer that has neither [`probe`](Self::probe) nor [`on_doubt`](Self::on_doubt) is no service, and
/// `lambda_runtime` does not run it:
///
/// ```compile_fail,E0277
/// # use ichido::lambda::OnceLayer;
/// # use lambda_runtime::tower::Layer;
/// # use lambda_runtime::{LambdaEvent, service_fn};
/// # async fn example(once: ichido::Once, orders: ichido::Namespace) {
/// let layer = OnceLayer::new(once, move |event: &LambdaEvent<String>| orders.key([&event.payload]));
/// let handler = layer.layer(service_fn(async |_: LambdaEvent<String>| Ok::<_, lambda_runtime::Error>(())));
/// lambda_runtime::run(handler).await;
/// # }
/// ```
#[must_use = "a layer does nothing until it is put on a handler"]
pub struct OnceLayer<F, P = Undecided> {
    once: Once,
    name: Arc<F>,
    on_doubt: Arc<P>,
    wait: Option<Duration>,
}

impl<F> OnceLayer<F> {
    /// `name` makes the key of an event; its error fails the invocation. It may return a [`Key`](crate::Key) or a
    /// [`Named`].
    pub fn new<T, N, E>(once: Once, name: F) -> Self
    where
        F: Fn(&LambdaEvent<T>) -> Result<N, E>,
        N: Into<Named>,
        E: Into<BoxError>,
    {
        Self { once, name: Arc::new(name), on_doubt: Arc::new(Undecided), wait: None }
    }

    /// The destination cannot be asked. Says what happens when an event comes again whose handler died, timed out or failed:
    /// its effect may have happened.
    pub fn on_doubt(self, choice: OnDoubt) -> OnceLayer<F, OnDoubt> {
        self.decided(choice)
    }

    /// Asks the destination when an event comes again whose handler died, timed out or failed. The probe gets a copy of the
    /// event and returns what the handler would have responded, if the effect happened.
    ///
    /// ```
    /// # use ichido::lambda::OnceLayer;
    /// # use ichido::{Claim, Namespace, Probed};
    /// # use lambda_runtime::{Error, LambdaEvent};
    /// # fn example(once: ichido::Once, orders: Namespace) {
    /// async fn find(event: LambdaEvent<String>, _claim: Claim) -> Result<Probed<u64>, Error> {
    ///     // ask the destination for the charge of this order
    ///     Ok(if event.payload == "order-7" { Probed::Done(120) } else { Probed::NotDone })
    /// }
    /// let layer = OnceLayer::new(once, move |event: &LambdaEvent<String>| orders.key([&event.payload])).probe(find);
    /// # }
    /// ```
    pub fn probe<P, T, R, E, Fut>(self, probe: P) -> OnceLayer<F, Asks<P>>
    where
        P: Fn(LambdaEvent<T>, Claim) -> Fut,
        Fut: Future<Output = Result<Probed<R>, E>>,
        E: Into<Diagnostic>,
    {
        self.decided(Asks(probe))
    }

    fn decided<P>(self, on_doubt: P) -> OnceLayer<F, P> {
        OnceLayer { once: self.once, name: self.name, on_doubt: Arc::new(on_doubt), wait: self.wait }
    }
}

impl<F, P> OnceLayer<F, P> {
    /// A duplicate of an event in flight waits for its response, at most this long, and never so long that the invocation
    /// could not respond any more (see [`RESPONSE_MARGIN`](super::RESPONSE_MARGIN)). The default is not to wait: the
    /// duplicate gets an error at once.
    pub fn wait(mut self, longest: Duration) -> Self {
        self.wait = Some(longest);
        self
    }
}

impl<F, P> Clone for OnceLayer<F, P> {
    fn clone(&self) -> Self {
        Self {
            once: self.once.clone(),
            name: Arc::clone(&self.name),
            on_doubt: Arc::clone(&self.on_doubt),
            wait: self.wait,
        }
    }
}

impl<F, P> fmt::Debug for OnceLayer<F, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceLayer").field("wait", &self.wait).finish_non_exhaustive()
    }
}

impl<F, P, H> Layer<H> for OnceLayer<F, P> {
    type Service = OnceService<F, P, H>;

    fn layer(&self, handler: H) -> Self::Service {
        OnceService { layer: self.clone(), handler }
    }
}

/// A handler under `run`.
pub struct OnceService<F, P, H> {
    layer: OnceLayer<F, P>,
    handler: H,
}

impl<F, P, H: Clone> Clone for OnceService<F, P, H> {
    fn clone(&self) -> Self {
        Self { layer: self.layer.clone(), handler: self.handler.clone() }
    }
}

impl<F, P, H> fmt::Debug for OnceService<F, P, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceService").field("layer", &self.layer).finish_non_exhaustive()
    }
}

impl<F, N, E, P, H, T, R> Service<LambdaEvent<T>> for OnceService<F, P, H>
where
    F: Fn(&LambdaEvent<T>) -> Result<N, E> + Send + Sync + 'static,
    N: Into<Named>,
    E: Into<BoxError>,
    P: Decides<LambdaEvent<T>, R, HandlerError> + 'static,
    H: Service<LambdaEvent<T>, Response = R> + Clone + Send + 'static,
    H::Error: IntoFailure,
    H::Future: Send,
    T: Send + 'static,
    R: Serialize + DeserializeOwned + Send + 'static,
{
    type Response = R;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<R, Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.handler.poll_ready(context).map_err(|error| {
            let (Failure::Retry(error) | Failure::Uncertain(error) | Failure::Permanent(error)) = error.into_failure();
            Error::Run(run::Error::Work(HandlerError::new(error)))
        })
    }

    fn call(&mut self, event: LambdaEvent<T>) -> Self::Future {
        let named = (self.layer.name)(&event).map(Into::into).map_err(|error| Error::NoKey(error.into()));
        let layer = self.layer.clone();
        // tower requires that the service which was polled ready is the one that is called. A clone takes its place.
        let fresh = self.handler.clone();
        let mut handler = std::mem::replace(&mut self.handler, fresh);
        Box::pin(async move {
            let named: Named = named?;
            let run = named.run(&layer.once, deadline(&event.context), layer.wait);
            let handle = |event, _claim| {
                let response = handler.call(event);
                async { response.await.map_err(|error| in_words(error.into_failure())) }
            };
            Ok(layer.on_doubt.work(run, event, handle).await?.value)
        })
    }
}

fn in_words(failure: Failure<Diagnostic>) -> Failure<HandlerError> {
    match failure {
        Failure::Retry(error) => Failure::Retry(HandlerError::new(error)),
        Failure::Uncertain(error) => Failure::Uncertain(HandlerError::new(error)),
        Failure::Permanent(error) => Failure::Permanent(HandlerError::new(error)),
    }
}

/// What a handler's error means.
///
/// Every error that `lambda_runtime` accepts means [`Failure::Uncertain`]. A [`Failure`] of such an error means what it
/// says.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a Lambda handler",
    note = "implement `From<{Self}> for lambda_runtime::Diagnostic`, or use `lambda_runtime::Error`"
)]
pub trait IntoFailure {
    /// The failure, as Lambda reports it.
    fn into_failure(self) -> Failure<Diagnostic>;
}

impl<E: Into<Diagnostic>> IntoFailure for E {
    fn into_failure(self) -> Failure<Diagnostic> {
        Failure::Uncertain(self.into())
    }
}

impl<E: Into<Diagnostic>> IntoFailure for Failure<E> {
    fn into_failure(self) -> Failure<Diagnostic> {
        match self {
            Self::Retry(error) => Failure::Retry(error.into()),
            Self::Uncertain(error) => Failure::Uncertain(error.into()),
            Self::Permanent(error) => Failure::Permanent(error.into()),
        }
    }
}

impl<T, R, P, E, Asking> Decides<LambdaEvent<T>, R, HandlerError> for Asks<P>
where
    P: Fn(LambdaEvent<T>, Claim) -> Asking + Send + Sync,
    Asking: Future<Output = Result<Probed<R>, E>> + Send,
    E: Into<Diagnostic>,
    T: Clone + Send,
    R: Serialize + DeserializeOwned + Send,
{
    async fn work<W, Fut>(
        &self,
        run: Run<'_>,
        event: LambdaEvent<T>,
        work: W,
    ) -> Result<Done<R>, run::Error<HandlerError>>
    where
        W: FnOnce(LambdaEvent<T>, Claim) -> Fut + Send,
        Fut: Future<Output = Result<R, Failure<HandlerError>>> + Send,
    {
        let asked = event.clone();
        run.probe(|claim| {
            let found = (self.0)(asked, claim);
            async { found.await.map_err(|error| HandlerError::new(error.into())) }
        })
        .work(|claim| work(event, claim))
        .await
    }
}

/// An error of the handler or of the probe, as Lambda reports it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.error_message)]
pub struct HandlerError(Diagnostic);

impl HandlerError {
    fn new(mut diagnostic: Diagnostic) -> Self {
        // `lambda_runtime` derives an `errorType` from a reference to the error, so it begins with `&`. What a handler has
        // chosen itself stays as it is.
        if let Some(derived) = diagnostic.error_type.strip_prefix('&') {
            let says_something = derived.contains("::") && !derived.contains("dyn ") && !derived.starts_with("alloc::");
            diagnostic.error_type = if says_something { derived.to_owned() } else { HANDLER_ERROR.to_owned() };
        }
        Self(diagnostic)
    }

    /// What Lambda shows as `errorType`: what the handler chose by its `Into<Diagnostic>`, or the name of the error's type,
    /// or `HandlerError` if that says nothing.
    pub fn error_type(&self) -> &str {
        &self.0.error_type
    }
}

/// Why an invocation has no response.
///
/// Lambda shows [`error_type`](Self::error_type) as `errorType`, and the text as `errorMessage`:
///
/// ```json
/// {"errorType": "ichido.InFlight", "errorMessage": "another call is working on it; its lease ends at 2026-11-16T17:42:35.000Z"}
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The closure that makes the key failed. Nothing was done.
    #[error("the event has no key: {0}")]
    NoKey(#[source] BoxError),
    /// The run has no outcome.
    #[error(transparent)]
    Run(#[from] run::Error<HandlerError>),
}

impl Error {
    /// What Lambda shows as `errorType`: the handler's own, or the name of the error with `ichido.` before it.
    pub fn error_type(&self) -> &str {
        match self {
            Self::NoKey(_) => "ichido.NoKey",
            Self::Run(error) => match error {
                run::Error::Work(error) => error.error_type(),
                run::Error::InFlight { .. } => "ichido.InFlight",
                run::Error::DeadlinePassed { .. } => "ichido.DeadlinePassed",
                run::Error::Doubtful => "ichido.Doubtful",
                run::Error::DoneWithoutValue(_) => "ichido.DoneWithoutValue",
                run::Error::Failed { .. } => "ichido.Failed",
                run::Error::Mismatch { .. } => "ichido.Mismatch",
                run::Error::Probe(_) => "ichido.Probe",
                run::Error::Cancelled(_) => "ichido.Cancelled",
                run::Error::Superseded => "ichido.Superseded",
                run::Error::Unrecorded(_) => "ichido.Unrecorded",
                run::Error::Store(_) => "ichido.Store",
            },
        }
    }
}

impl From<Error> for Diagnostic {
    fn from(error: Error) -> Self {
        // Lambda shows only this text, so it holds the causes too.
        Self { error_type: error.error_type().to_owned(), error_message: causes(&error) }
    }
}
