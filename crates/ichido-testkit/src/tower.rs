//! A tower layer around an HTTP client, or around any other service: each request is a call to an [`Outside`].
//!
//! ```
//! # use ichido_testkit::Outside;
//! # use ichido_testkit::tower::CallsLayer;
//! # use tower::{Service as _, ServiceBuilder, ServiceExt as _};
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! # let outside = Outside::new();
//! # struct Request { method: &'static str, path: &'static str }
//! # let bank = tower::service_fn(async |_: Request| Ok::<_, std::io::Error>("charged"));
//! let mut bank = ServiceBuilder::new()
//!     .layer(CallsLayer::new(&outside, |request: &Request| format!("{} {}", request.method, request.path)))
//!     .service(bank);
//! let answer = bank.ready().await.unwrap().call(Request { method: "POST", path: "/charges" }).await;
//! assert_eq!(answer.unwrap(), "charged");
//! assert_eq!(outside.calls(), ["POST /charges"]);
//! # }
//! ```
//!
//! `reqwest::Client` is such a service too. If a handler takes a plain `reqwest::Client`, use a `relay::Relay` (feature
//! `relay`) instead: nothing can be put around that client.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use crate::outside::{Kind, Outside};

/// The error of a [`Calls`] service: that of the service inside it, or a [`Cut`](crate::outside::Cut).
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

type Name<Request> = Arc<dyn Fn(&Request) -> String + Send + Sync>;

/// Makes each request of a service a call to an [`Outside`].
pub struct CallsLayer<Request> {
    outside: Outside,
    name: Name<Request>,
}

impl<Request> CallsLayer<Request> {
    /// `name` says what a request is called in the history.
    pub fn new(outside: &Outside, name: impl Fn(&Request) -> String + Send + Sync + 'static) -> Self {
        Self { outside: outside.clone(), name: Arc::new(name) }
    }
}

impl<Request> Clone for CallsLayer<Request> {
    fn clone(&self) -> Self {
        Self { outside: self.outside.clone(), name: Arc::clone(&self.name) }
    }
}

impl<Request> fmt::Debug for CallsLayer<Request> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallsLayer").field("outside", &self.outside).finish_non_exhaustive()
    }
}

impl<S, Request> Layer<S> for CallsLayer<Request> {
    type Service = Calls<S, Request>;

    fn layer(&self, inner: S) -> Self::Service {
        Calls { inner, layer: self.clone() }
    }
}

/// A service whose requests are calls to an [`Outside`]. [`CallsLayer`] makes it.
pub struct Calls<S, Request> {
    inner: S,
    layer: CallsLayer<Request>,
}

impl<S: Clone, Request> Clone for Calls<S, Request> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S: fmt::Debug, Request> fmt::Debug for Calls<S, Request> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("inner", &self.inner).field("layer", &self.layer).finish()
    }
}

impl<S, Request> Service<Request> for Calls<S, Request>
where
    S: Service<Request, Error: Into<BoxError>, Future: Send + 'static, Response: Send> + Clone + Send + 'static,
    Request: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // The service that was polled until it was ready is the one that must be called.
        let clone = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, clone);
        let CallsLayer { outside, name } = self.layer.clone();
        Box::pin(async move {
            let name = name(&request);
            // The request is handed on only when it is its turn: a service may send it as soon as it is called.
            let work = async { ready.call(request).await.map_err(Into::into) };
            outside.pass(&name, Kind::Request, work, outcome).await?
        })
    }
}

fn outcome<T>(answer: &Result<T, BoxError>) -> String {
    match answer {
        Ok(_) => "done".to_owned(),
        Err(error) => format!("failed: {error}"),
    }
}
