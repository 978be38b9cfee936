//! What a layer is told, and what it decides before a request is worked on.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ::http::header::{self, HeaderName};
use ::http::{Method, Request, Response, StatusCode, request, response};
use bytes::Bytes;
use tower_layer::Layer;

use super::header::{HEADER, KeyError, parse_key};
use super::problem::{Case, Problem};
use super::service::IdempotencyService;
use crate::claim::Claim;
use crate::digest::{DigestKey, Digests, DigestsBuilder};
use crate::key::{self, Key, Namespace};
use crate::once::Once;
use crate::run::{OnDoubt, Probed, Undecided};

/// The largest body of a request that is read, unless the layer says otherwise. A body has to be in memory, because it is
/// compared with the body of the first request.
pub const MAX_BODY_BYTES: usize = 1024 * 1024;

/// The headers of a response that are kept for replays, unless the layer names more. `Set-Cookie` is never kept: a cookie
/// belongs to the request that it was made for.
pub const KEPT_HEADERS: [HeaderName; 10] = [
    header::ALLOW,
    header::CONTENT_DISPOSITION,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LOCATION,
    header::CONTENT_TYPE,
    header::ETAG,
    header::LAST_MODIFIED,
    header::LINK,
    header::LOCATION,
];

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Scope = dyn Fn(&request::Parts) -> Result<Vec<String>, StatusCode> + Send + Sync;
type Compare = dyn for<'k> Fn(&request::Parts, &[u8], DigestsBuilder<'k>) -> DigestsBuilder<'k> + Send + Sync;
type Read = dyn Fn(&response::Parts) -> Meaning + Send + Sync;
type Asking = Pin<Box<dyn Future<Output = Result<Probed<Response<Bytes>>, BoxError>> + Send>>;
type Ask = dyn Fn(Request<Bytes>, Claim) -> Asking + Send + Sync;

/// What a handler's response says about the effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// It is the outcome. It is recorded, and duplicates get it.
    Outcome,
    /// The effect did not happen. The claim is released, and the next request with the key is worked on.
    Retry,
    /// The effect may have happened. The claim is released, and the next request with the key asks the probe first.
    Uncertain,
    /// The effect did not happen and never will. Duplicates get a 422 without this response.
    Permanent,
}

impl Meaning {
    /// What a status means, unless the layer says otherwise:
    ///
    /// - 2xx, 3xx and 4xx are outcomes. The draft wants a retry to get "the result of the previously completed operation,
    ///   success or an error".
    /// - 401, 408, 425 and 429 ask for the same request again, so they mean [`Meaning::Retry`]. A recorded 429 would
    ///   refuse its client for as long as the record is kept.
    /// - 5xx means [`Meaning::Uncertain`]: only the handler knows whether it failed before the effect or after it. (Stripe's
    ///   first API records a 500 too. Then a client can never find out what became of its request.)
    pub fn of(status: StatusCode) -> Self {
        match status {
            StatusCode::UNAUTHORIZED
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_EARLY
            | StatusCode::TOO_MANY_REQUESTS => Self::Retry,
            status if status.is_server_error() => Self::Uncertain,
            _ => Self::Outcome,
        }
    }

    fn of_response(response: &response::Parts) -> Self {
        match response.status {
            StatusCode::CONFLICT if response.headers.contains_key(header::RETRY_AFTER) => Self::Retry,
            status => Self::of(status),
        }
    }
}

/// Puts HTTP handlers under `run`, with the key in the header `Idempotency-Key`. A tower layer for axum, `lambda_http` and
/// other services that are `Clone` and whose request body is `From<Vec<u8>>`. The [module](super) has the table of statuses.
///
/// ```
/// use axum::{Extension, Router, http::StatusCode, routing::post};
/// use ichido::http::IdempotencyLayer;
/// use ichido::{Claim, DigestKey, Namespace, OnDoubt, Once};
///
/// # fn example(once: Once) -> Router {
/// // Hand the key on to a destination that has idempotency keys of its own.
/// async fn pay(Extension(claim): Extension<Claim>, body: String) -> (StatusCode, String) {
///     (StatusCode::CREATED, format!("paid {body} as {}", claim.key()))
/// }
///
/// let once_per_key = IdempotencyLayer::new(
///     once,
///     Namespace::new("payments"),
///     DigestKey::new(b"from your secrets"),
///     // Who sent it: two callers never share a key.
///     |request| {
///         let user = request.headers.get("x-user").and_then(|user| user.to_str().ok());
///         Ok([user.ok_or(StatusCode::UNAUTHORIZED)?.to_owned()])
///     },
/// )
/// .on_doubt(OnDoubt::Refuse);
///
/// Router::new().route("/payments", post(pay).layer(once_per_key))
/// # }
/// ```
///
/// It is no layer until it knows what to do if an earlier request may have had its effect:
///
/// ```compile_fail
/// # use axum::{Router, http::StatusCode, routing::post};
/// # use ichido::{DigestKey, Namespace, Once, http::IdempotencyLayer};
/// # fn example(once: Once) -> Router {
/// # let (namespace, secret) = (Namespace::new("payments"), DigestKey::new(b"from your secrets"));
/// let layer = IdempotencyLayer::new(once, namespace, secret, |_| Ok(["alice"]));
/// Router::new().route("/payments", post(|| async {}).layer(layer))
/// # }
/// ```
///
/// # What happens to a request
///
/// - `GET`, `HEAD`, `OPTIONS` and `TRACE` pass through untouched. So does a request without a key, if the key is
///   [optional](Self::optional).
/// - Its body is read into memory, up to [`MAX_BODY_BYTES`]. Nothing is claimed before all of it is there.
/// - Method, path, query and body are compared with those of the first request with the key ([`compare`](Self::compare)
///   names other fields). The comparison is of bytes: the same JSON with other spaces differs. In a nested router the
///   path is what is left of it there, so give each nest a namespace of its own.
/// - The handler runs on a tokio task of its own. A client that disconnects does not stop it, and its response is recorded
///   although nobody waits for it. The span of the connection's task goes with it (feature `tracing`); task-local values
///   do not.
/// - The handler finds its [`Claim`] in the request's extensions.
/// - The response's body is read up to [`MAX_OUTCOME_BYTES`](crate::record::MAX_OUTCOME_BYTES). A larger one is passed on
///   as a stream, and a duplicate then gets the status and the kept headers without the body. Trailers of a body that is
///   kept are dropped.
/// - If the store cannot record the response, the client gets it all the same, with `Idempotency-Recorded: false`. The
///   effect happened, so any other answer would make the client repeat it.
pub struct IdempotencyLayer<D = Undecided> {
    config: Config,
    decided: PhantomData<fn() -> D>,
}

/// A layer that knows what to do if an earlier request may have had its effect.
#[derive(Debug, Clone, Copy)]
pub struct Decided;

/// Does the layer know what to do if an earlier request may have had its effect?
#[diagnostic::on_unimplemented(
    message = "this layer does not say what happens if an earlier request may have had its effect",
    label = "call `.probe(…)` or `.on_doubt(…)` on the `IdempotencyLayer`"
)]
pub trait Decides: sealed::Sealed {}
impl Decides for Decided {}

mod sealed {
    #[allow(unreachable_pub, reason = "it seals a public trait")]
    pub trait Sealed {}
    impl Sealed for super::Decided {}
}

#[derive(Clone)]
pub(super) struct Config {
    pub(super) once: Once,
    pub(super) namespace: Namespace,
    digest_key: DigestKey,
    scope: Arc<Scope>,
    compare: Arc<Compare>,
    pub(super) meaning: Arc<Read>,
    pub(super) doubt: Doubt,
    required: bool,
    pub(super) max_body: usize,
    pub(super) kept_headers: Arc<[HeaderName]>,
    pub(super) lease: Option<Duration>,
    pub(super) wait: Option<Duration>,
    pub(super) keep_alive: bool,
}

/// What happens if an earlier request may have had its effect.
#[derive(Clone)]
pub(super) enum Doubt {
    Choice(OnDoubt),
    Ask(Arc<Ask>),
}

impl IdempotencyLayer {
    /// A layer that requires a key.
    ///
    /// `namespace` must be a prefixed one ([`Namespace::new`]). It says how long responses are kept, and what happens while
    /// the store is down. `digest_key` is the secret under which requests are compared. `scope` names the caller, with one or
    /// more ids that the caller cannot choose, for example from the extensions that an authentication layer made. Two
    /// callers never share a key. A status in its place refuses the request.
    pub fn new<F, I, P>(once: Once, namespace: Namespace, digest_key: DigestKey, scope: F) -> Self
    where
        F: Fn(&request::Parts) -> Result<I, StatusCode> + Send + Sync + 'static,
        I: IntoIterator<Item = P>,
        P: Into<String>,
    {
        let scope = move |parts: &request::Parts| Ok(scope(parts)?.into_iter().map(Into::into).collect());
        let config = Config {
            once,
            namespace,
            digest_key,
            scope: Arc::new(scope),
            compare: Arc::new(query_and_body),
            meaning: Arc::new(Meaning::of_response),
            doubt: Doubt::Choice(OnDoubt::Refuse),
            required: true,
            max_body: MAX_BODY_BYTES,
            kept_headers: Arc::new(KEPT_HEADERS),
            lease: None,
            wait: None,
            keep_alive: false,
        };
        Self { config, decided: PhantomData }
    }

    /// Asks the destination whenever an earlier request may have had its effect. The probe gets a copy of the present
    /// request, which has the same method, path and compared fields as the earlier one. It returns the response that the
    /// earlier request should have got.
    pub fn probe<F, Fut, E>(self, probe: F) -> IdempotencyLayer<Decided>
    where
        F: Fn(Request<Bytes>, Claim) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Probed<Response<Bytes>>, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.decided(Doubt::Ask(Arc::new(move |request, claim| {
            let asking = probe(request, claim);
            Box::pin(async move { asking.await.map_err(Into::into) })
        })))
    }

    /// The destination cannot be asked. Says what happens if an earlier request may have had its effect.
    pub fn on_doubt(self, choice: OnDoubt) -> IdempotencyLayer<Decided> {
        self.decided(Doubt::Choice(choice))
    }

    fn decided(self, doubt: Doubt) -> IdempotencyLayer<Decided> {
        IdempotencyLayer { config: Config { doubt, ..self.config }, decided: PhantomData }
    }
}

impl<D> IdempotencyLayer<D> {
    /// A request without a key is refused. This is the default.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.config.required = true;
        self
    }

    /// A request without a key passes through untouched: it may have its effect twice.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.config.required = false;
        self
    }

    /// How long a claim lasts. The default is the namespace's lease. Make it longer than the handler takes, or
    /// [keep it alive](Self::keep_alive): after it, another request with the key may take over. On Lambda, use the
    /// function's timeout.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.config.lease = Some(lease);
        self
    }

    /// Renews the lease for as long as the handler works, and cancels the handler if the claim is lost. Its client then
    /// gets a 503. See [`Run::keep_alive`](crate::Run::keep_alive).
    #[must_use]
    pub fn keep_alive(mut self) -> Self {
        self.config.keep_alive = true;
        self
    }

    /// How long a duplicate waits for the response of a request in flight. The default is not to wait: it gets a 409 at
    /// once.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.config.wait = Some(wait);
        self
    }

    /// The largest body of a request, in bytes.
    #[must_use]
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.config.max_body = bytes;
        self
    }

    /// Keeps these headers of a response for replays, beside [`KEPT_HEADERS`].
    #[must_use]
    pub fn keep_headers(mut self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.config.kept_headers = self.config.kept_headers.iter().cloned().chain(names).collect();
        self
    }

    /// Names the fields by which a request is compared with the first one that had its key, in place of its query and its
    /// body. A problem names the fields that differ. Method and path are always compared.
    ///
    /// ```
    /// # use ichido::{DigestKey, Namespace, Once, http::IdempotencyLayer};
    /// # fn example(layer: IdempotencyLayer) -> IdempotencyLayer {
    /// layer.compare(|_request, body, digests| {
    ///     let payment: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    ///     digests.field("amount", payment["amount"].to_string()).field("to", payment["to"].to_string())
    /// })
    /// # }
    /// ```
    #[must_use]
    pub fn compare<F>(mut self, compare: F) -> Self
    where
        F: for<'k> Fn(&request::Parts, &[u8], DigestsBuilder<'k>) -> DigestsBuilder<'k> + Send + Sync + 'static,
    {
        self.config.compare = Arc::new(compare);
        self
    }

    /// Says what a handler's response means for the effect. The default is [`Meaning::of`] its status; a 409 with
    /// `Retry-After` means [`Meaning::Retry`], as a handler answers that uses `run` itself.
    #[must_use]
    pub fn meaning(mut self, meaning: impl Fn(&response::Parts) -> Meaning + Send + Sync + 'static) -> Self {
        self.config.meaning = Arc::new(meaning);
        self
    }
}

impl<D> Clone for IdempotencyLayer<D> {
    fn clone(&self) -> Self {
        Self { config: self.config.clone(), decided: PhantomData }
    }
}

impl<D> fmt::Debug for IdempotencyLayer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer").field("namespace", &self.config.namespace).finish_non_exhaustive()
    }
}

impl<D: Decides, H> Layer<H> for IdempotencyLayer<D> {
    type Service = IdempotencyService<H>;

    fn layer(&self, handler: H) -> Self::Service {
        IdempotencyService::new(Arc::new(self.config.clone()), handler)
    }
}

/// What a client is told if the scope names nobody.
const NO_CALLER: &str = "the server could not name the caller; nothing was done";
/// What a client is told if the namespace cannot have keys of several parts.
const BAD_NAMESPACE: &str = "the server is not set up for idempotency keys; nothing was done";

/// Why a request is refused before it is worked on.
pub(super) enum Refused {
    Problem(Problem),
    /// The scope's own status.
    Scope(StatusCode),
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl Config {
    /// The key of a request. `None`: the request passes through untouched.
    pub(super) fn key(&self, request: &request::Parts) -> Result<Option<Key>, Refused> {
        if matches!(request.method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE) {
            return Ok(None);
        }
        let mut values = request.headers.get_all(HEADER).iter();
        let Some(value) = values.next() else {
            return if self.required { Err(Problem::key_missing().into()) } else { Ok(None) };
        };
        if values.next().is_some() {
            return Err(Problem::from(KeyError::Repeated).into());
        }
        let text = parse_key(value).map_err(Problem::from)?;
        let caller = (self.scope)(request).map_err(Refused::Scope)?;
        if caller.is_empty() {
            // Then two callers would share a key.
            return Err(Problem::new(Case::Internal, NO_CALLER).into());
        }
        let key = self.namespace.key(caller.iter().map(String::as_str).chain([&*text]));
        key.map(Some).map_err(|error| match error {
            key::Error::TooLong { .. } => Problem::new(Case::KeyInvalid, "the idempotency key is too long").into(),
            key::Error::EmptyPart { .. } => Problem::new(Case::Internal, NO_CALLER).into(),
            key::Error::Empty { .. } | key::Error::Unprefixed { .. } => {
                Problem::new(Case::Internal, BAD_NAMESPACE).into()
            }
        })
    }

    /// What this request is compared by.
    pub(super) fn digests(&self, request: &request::Parts, body: &[u8]) -> Digests {
        let digests = (self.compare)(request, body, self.digest_key.digests());
        digests.field("method", request.method.as_str()).field("path", request.uri.path()).build()
    }
}

fn query_and_body<'k>(request: &request::Parts, body: &[u8], digests: DigestsBuilder<'k>) -> DigestsBuilder<'k> {
    digests.field("query", request.uri.query().unwrap_or_default()).field("body", body)
}
