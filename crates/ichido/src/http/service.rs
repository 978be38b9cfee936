//! One request on its way through the layer.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::http::header::{
    CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION, CONTENT_TYPE, ETAG, HeaderName,
    HeaderValue, LAST_MODIFIED, RETRY_AFTER,
};
use ::http::{Request, Response, StatusCode, request};
use ::http_body::Body;
use bytes::{Buf as _, Bytes};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tower_service::Service;

use super::body::ReplayBody;
use super::header::{RECORDED, REPLAYED};
use super::kept;
use super::layer::{BoxError, Config, Doubt, Meaning, Refused};
use super::problem::{self, Case, PROBLEM_TYPE, Problem};
use crate::claim::Claim;
use crate::key::Key;
use crate::record::MAX_OUTCOME_BYTES;
use crate::run::{Done, Error, Failure, How, Probed};

/// A handler under an [`IdempotencyLayer`](super::IdempotencyLayer).
pub struct IdempotencyService<H> {
    config: Arc<Config>,
    handler: H,
}

impl<H> IdempotencyService<H> {
    pub(super) fn new(config: Arc<Config>, handler: H) -> Self {
        Self { config, handler }
    }
}

impl<H: Clone> Clone for IdempotencyService<H> {
    fn clone(&self) -> Self {
        Self { config: Arc::clone(&self.config), handler: self.handler.clone() }
    }
}

impl<H> fmt::Debug for IdempotencyService<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyService").field("namespace", &self.config.namespace).finish_non_exhaustive()
    }
}

impl<H, Q, B> Service<Request<Q>> for IdempotencyService<H>
where
    H: Service<Request<Q>, Response = Response<B>> + Clone + Send + 'static,
    H::Error: fmt::Display + Send + 'static,
    H::Future: Send,
    Q: Body + From<Vec<u8>> + Send + 'static,
    Q::Data: Send,
    Q::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ReplayBody<B>>;
    type Error = H::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, H::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), H::Error>> {
        self.handler.poll_ready(context)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let config = Arc::clone(&self.config);
        // tower requires that the service which was polled ready is the one that is called. A clone takes its place.
        let fresh = self.handler.clone();
        let mut handler = std::mem::replace(&mut self.handler, fresh);
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let key = match config.key(&parts) {
                Ok(Some(key)) => key,
                Ok(None) => {
                    let response = handler.call(Request::from_parts(parts, body)).await?;
                    return Ok(response.map(ReplayBody::untouched));
                }
                Err(Refused::Problem(problem)) => return Ok(told(&problem)),
                Err(Refused::Scope(status)) => {
                    let mut response = Response::new(ReplayBody::whole(problem::of_status(status.as_u16()).into()));
                    *response.status_mut() = status;
                    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_TYPE));
                    return Ok(response);
                }
            };
            let body = match read(body, config.max_body).await {
                Ok(body) => body,
                Err(problem) => return Ok(told(&problem)),
            };
            // On a task of its own: if the client disconnects, this future is dropped, and the work must go on.
            let work = async move { OneRequest { config, key, parts, body }.answer(handler).await };
            #[cfg(feature = "tracing")]
            let work = tracing::Instrument::in_current_span(work);
            let work = tokio::spawn(work);
            // The task ends without an answer if the handler panics, or with the runtime.
            work.await.unwrap_or_else(|_| Ok(told(&Problem::internal())))
        })
    }
}

/// Reads a request's body.
async fn read<Q>(body: Q, limit: usize) -> Result<Bytes, Problem>
where
    Q: Body,
{
    let too_large = || Problem::new(Case::BodyTooLarge, format!("the body may have at most {limit} bytes"));
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let mut body = Box::pin(body);
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::new(Case::BodyUnreadable, "the body ended before it was complete"))?;
        if let Ok(mut data) = frame.into_data() {
            if bytes.len() + data.remaining() > limit {
                return Err(too_large());
            }
            while data.has_remaining() {
                let chunk = data.chunk();
                bytes.extend_from_slice(chunk);
                let read = chunk.len();
                data.advance(read);
            }
        }
    }
    Ok(bytes.into())
}

/// A request with a key.
struct OneRequest {
    config: Arc<Config>,
    key: Key,
    parts: request::Parts,
    body: Bytes,
}

/// A response that is no outcome, or what came in its place.
enum NoOutcome<B, E> {
    Response(Response<ReplayBody<B>>),
    Handler(E),
    Body(BoxError),
    Probe(BoxError),
}

/// The reason in the record.
impl<B, E: fmt::Display> fmt::Display for NoOutcome<B, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Response(response) => write!(f, "the handler answered {}", response.status()),
            Self::Handler(error) => write!(f, "the handler failed: {error}"),
            Self::Body(error) => write!(f, "the body of the handler's response failed: {error}"),
            Self::Probe(error) => write!(f, "{error}"),
        }
    }
}

impl OneRequest {
    /// Does the work under `run`, and turns what became of it into a response.
    async fn answer<H, Q, B>(self, mut handler: H) -> Result<Response<ReplayBody<B>>, H::Error>
    where
        H: Service<Request<Q>, Response = Response<B>> + Send,
        H::Error: fmt::Display + Send,
        H::Future: Send,
        Q: From<Vec<u8>> + Send,
        B: Body<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let Self { config, key, parts, body } = self;
        let once = &config.once;
        let mut run = once.run(&key).digests(config.digests(&parts, &body));
        if let Some(lease) = config.lease {
            run = run.lease(lease);
        }
        if let Some(wait) = config.wait {
            run = run.wait(wait);
        }
        if config.keep_alive {
            run = run.keep_alive();
        }
        // The work takes the request away, so a probe gets a copy.
        let doubt = match &config.doubt {
            Doubt::Ask(ask) => Ok((ask, Request::from_parts(parts.clone(), body.clone()))),
            Doubt::Choice(choice) => Err(*choice),
        };
        // The response as the handler made it. The outcome has only what is kept of it.
        let mut fresh = None;
        // What the probe found.
        let mut found = None;
        let found_by_probe = &mut found;
        let (made, meaning, names) = (&mut fresh, &config.meaning, &config.kept_headers);
        let work = |claim: Claim| async move {
            let mut parts = parts;
            parts.extensions.insert(claim);
            let request = Request::from_parts(parts, Q::from(body.into()));
            let response =
                handler.call(request).await.map_err(|error| Failure::Uncertain(NoOutcome::Handler(error)))?;
            let (parts, body) = response.into_parts();
            let no_outcome = match meaning(&parts) {
                Meaning::Outcome => {
                    let read = ReplayBody::read(body, MAX_OUTCOME_BYTES).await;
                    let (body, all) = read.map_err(|error| Failure::Uncertain(NoOutcome::Body(error.into())))?;
                    let outcome = kept::outcome(&parts, all.as_ref(), names);
                    *made = Some(Response::from_parts(parts, body));
                    return Ok(outcome);
                }
                Meaning::Retry => Failure::Retry,
                Meaning::Uncertain => Failure::Uncertain,
                Meaning::Permanent => Failure::Permanent,
            };
            let response = Response::from_parts(parts, ReplayBody::untouched(body));
            Err(no_outcome(NoOutcome::Response(response)))
        };
        let done = match doubt {
            Err(choice) => run.on_doubt(choice).work(work).await,
            Ok((ask, asked)) => {
                let probe = |claim| async move {
                    match ask(asked, claim).await {
                        Ok(Probed::NotDone) => Ok(Probed::NotDone),
                        Ok(Probed::Done(response)) => {
                            let (parts, body) = response.into_parts();
                            let outcome = kept::outcome(&parts, Some(&body), names);
                            *found_by_probe = Some(outcome.clone());
                            Ok(Probed::Done(outcome))
                        }
                        Err(error) => Err(NoOutcome::Probe(error)),
                    }
                };
                run.probe(probe).work(work).await
            }
        };
        match (done, fresh) {
            (Ok(Done { how: How::Fresh, recorded, .. }), Some(response)) => Ok(marked(response, recorded)),
            (Ok(Done { value, recorded, .. }), _) => Ok(marked(replay(&value), recorded)),
            // The effect happened. If its client were told anything else, it would send the request again.
            (Err(Error::Unrecorded(_)), Some(response)) => Ok(marked(response, false)),
            (Err(Error::Unrecorded(error)), None) => match &found {
                Some(outcome) => Ok(marked(replay(outcome), false)),
                None => Ok(told(&Problem::of(&Error::<String>::Unrecorded(error), once.now()))),
            },
            (Err(Error::Work(NoOutcome::Response(response))), _) => Ok(response),
            (Err(Error::Work(NoOutcome::Handler(error))), _) => Err(error),
            (Err(error), _) => Ok(told(&Problem::of(&error, once.now()))),
        }
    }
}

/// The recorded response.
fn replay<B>(outcome: &Value) -> Response<ReplayBody<B>> {
    let Some(response) = kept::response(outcome) else {
        return told(&Problem::no_response());
    };
    let (mut parts, body) = response.into_parts();
    parts.headers.insert(HeaderName::from_static(REPLAYED), HeaderValue::from_static("true"));
    let body = body.unwrap_or_else(|| {
        for about_the_body in
            [CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION, ETAG, LAST_MODIFIED]
        {
            parts.headers.remove(about_the_body);
        }
        parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_TYPE));
        problem::body_not_kept(parts.status.as_u16()).into()
    });
    Response::from_parts(parts, ReplayBody::whole(body))
}

/// Says so if the store does not have the response.
fn marked<B>(mut response: Response<B>, recorded: bool) -> Response<B> {
    if !recorded {
        response.headers_mut().insert(HeaderName::from_static(RECORDED), HeaderValue::from_static("false"));
    }
    response
}

/// A problem as a response.
fn told<B>(problem: &Problem) -> Response<ReplayBody<B>> {
    let mut response = Response::new(ReplayBody::whole(problem.to_json().into()));
    *response.status_mut() = StatusCode::from_u16(problem.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_TYPE));
    if let Some(seconds) = problem.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}
