//! The network between the workers and what they call: one store and one destination. All faults happen here, so that the handlers
//! contain none, and a handler in Rust meets them in the same way as one in Node.
//!
//! Every worker has an address of its own (`/w/ichido/7`) and handles one event at a time, so it is known to which delivery a call belongs.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use emulator::dynamodb::Engine;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::process::Child;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::column::Column;
use crate::storm::{Fault, HELD_BACK, Storm, TIME_LIMIT};
use crate::trace::{To, What};
use crate::{Phase, Progress, cpu, web};

/// The largest request of a worker.
const MAX_BODY: usize = 64 * 1024;

/// Where a worker sits: what it is doing, and how to kill it.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) worker: u32,
    pub(crate) column: Arc<Column>,
    current: Mutex<Option<Current>>,
    child: Mutex<Option<Child>>,
    /// The CPU that the worker had used when it was ready.
    start_up: Mutex<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    event: u32,
    delivery: u32,
    since: Instant,
    calls: u32,
}

impl Desk {
    pub(crate) fn new(worker: u32, column: &Arc<Column>, child: Child) -> Self {
        let column = Arc::clone(column);
        Self { worker, column, current: Mutex::default(), child: Mutex::new(Some(child)), start_up: Mutex::default() }
    }

    /// The worker is ready: from now on its CPU counts.
    pub(crate) fn ready(&self) {
        *telemetry::lock(&self.start_up) = self.total_cpu();
    }

    /// The worker gets an event.
    pub(crate) fn begin(&self, event: u32, delivery: u32) {
        *telemetry::lock(&self.current) = Some(Current { event, delivery, since: Instant::now(), calls: 0 });
        self.column.note(event, delivery, self.worker, What::Began);
    }

    pub(crate) fn note(&self, what: What) {
        let current = *telemetry::lock(&self.current);
        if let Some(Current { event, delivery, .. }) = current {
            self.column.note(event, delivery, self.worker, what);
        }
    }

    fn next_call(&self) -> Option<Current> {
        let mut current = telemetry::lock(&self.current);
        let current = current.as_mut()?;
        current.calls += 1;
        Some(*current)
    }

    /// Kills the worker. No line of its program runs after this.
    pub(crate) fn kill(&self) {
        self.column.used(self.cpu());
        if let Some(mut child) = telemetry::lock(&self.child).take() {
            let _ = child.start_kill();
            // Reaps it.
            tokio::spawn(async move { child.wait().await });
        }
    }

    /// The CPU that the worker has used since it was ready; nothing if it is dead.
    pub(crate) fn cpu(&self) -> Duration {
        self.total_cpu().saturating_sub(*telemetry::lock(&self.start_up))
    }

    fn total_cpu(&self) -> Duration {
        let child = telemetry::lock(&self.child);
        child.as_ref().and_then(Child::id).map_or(Duration::ZERO, cpu::of)
    }
}

/// Why a call got no answer: its connection is closed.
#[derive(Debug, thiserror::Error)]
#[error("the storm closed the connection")]
struct Closed;

/// The network. All clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    engine: Engine,
    storm: Storm,
    outage: Option<Range<Duration>>,
    /// When the storm began.
    start: OnceLock<Instant>,
    desks: Mutex<HashMap<String, Arc<Desk>>>,
    /// What the page shows.
    progress: watch::Receiver<Progress>,
    /// When a page last asked for it.
    asked: Mutex<Option<Instant>>,
}

impl Network {
    pub(crate) fn new(
        engine: Engine,
        storm: Storm,
        outage: Option<Range<Duration>>,
        progress: watch::Receiver<Progress>,
    ) -> Self {
        let (start, desks) = (OnceLock::new(), Mutex::default());
        Self { inner: Arc::new(Inner { engine, storm, outage, start, desks, progress, asked: Mutex::default() }) }
    }

    /// The storm begins now.
    pub(crate) fn start(&self) -> Instant {
        *self.inner.start.get_or_init(Instant::now)
    }

    /// Is the store down now?
    pub(crate) fn is_down(&self) -> bool {
        let Some(start) = self.inner.start.get() else { return false };
        self.inner.outage.as_ref().is_some_and(|outage| outage.contains(&start.elapsed()))
    }

    pub(crate) fn seat(&self, desk: Arc<Desk>) {
        telemetry::lock(&self.inner.desks).insert(place(&desk), desk);
    }

    pub(crate) fn leave(&self, desk: &Desk) {
        telemetry::lock(&self.inner.desks).remove(&place(desk));
    }

    /// The CPU that the living workers of a column have used.
    pub(crate) fn cpu(&self, column: &Arc<Column>) -> Duration {
        let desks: Vec<_> = telemetry::lock(&self.inner.desks).values().cloned().collect();
        desks.iter().filter(|desk| Arc::ptr_eq(&desk.column, column)).map(|desk| desk.cpu()).sum()
    }

    pub(crate) async fn bind() -> std::io::Result<TcpListener> {
        TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await
    }

    /// Serves until it is dropped.
    pub(crate) async fn serve(self, listener: TcpListener) -> Infallible {
        let mut connections = JoinSet::new();
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // Most likely the process is out of file descriptors: let some connections end.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            while connections.try_join_next().is_some() {}
            let _ = stream.set_nodelay(true);
            let network = self.clone();
            let service = service_fn(move |request| {
                let network = network.clone();
                async move { network.answer(request).await }
            });
            connections.spawn(async move {
                let _ =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Closed> {
        // The page and the addresses of the workers are for this machine alone.
        if let Err(why) = loopback::check(request.uri(), request.headers()) {
            return Ok(respond(StatusCode::FORBIDDEN, "text/plain; charset=utf-8", format!("refused: {why}").into()));
        }
        let path = request.uri().path().to_owned();
        if request.method() == Method::GET && !path.starts_with("/w/") {
            return Ok(self.page(&path));
        }
        let (desk, rest) = match path.strip_prefix("/w/").and_then(|below| self.find(below)) {
            Some(found) => found,
            None => return Ok(text(StatusCode::NOT_FOUND, "there is no such worker")),
        };
        let operation = request.headers().get("x-amz-target").and_then(|target| target.to_str().ok());
        let operation = operation.and_then(|target| target.rsplit('.').next()).unwrap_or_default().to_owned();
        let to = match (request.method(), rest) {
            (&Method::POST, "posts") => To::Post,
            (&Method::GET, rest) if rest.starts_with("posts/") => To::Ask,
            _ => To::Store,
        };
        let body = http_body_util::Limited::new(request.into_body(), MAX_BODY);
        let body = body.collect().await.map_err(|_| Closed)?.to_bytes();
        let Some(current) = desk.next_call() else {
            return Ok(text(StatusCode::CONFLICT, "this worker has no event"));
        };
        let Current { event, delivery, calls, since } = current;
        let fault = match to {
            To::Store if self.is_down() => Some(Fault::StoreDown),
            _ => self.inner.storm.fault(event, delivery, calls),
        };
        let note = |performed| desk.note(What::Called { call: calls, to, fault, performed });
        match fault {
            Some(Fault::DieBefore) => {
                note(false);
                desk.kill();
                Err(Closed)
            }
            Some(Fault::StoreDown) => {
                note(false);
                Err(Closed)
            }
            Some(Fault::Throttle) => {
                note(false);
                Ok(throttled(to))
            }
            None => {
                note(true);
                Ok(self.perform(&desk, event, to, &operation, &body))
            }
            Some(fault) => {
                note(true);
                let response = self.perform(&desk, event, to, &operation, &body);
                match fault {
                    Fault::Outlive => {
                        tokio::time::sleep(HELD_BACK).await;
                        return Ok(response);
                    }
                    Fault::DieAfter => desk.kill(),
                    Fault::TimeLimit => {
                        tokio::time::sleep_until((since + TIME_LIMIT).into()).await;
                        desk.kill();
                    }
                    _ => {}
                }
                Err(Closed)
            }
        }
    }

    /// Has a page asked for the progress within this time?
    pub(crate) fn is_watched(&self, within: Duration) -> bool {
        telemetry::lock(&self.inner.asked).is_some_and(|asked| asked.elapsed() < within)
    }

    /// The page, for a person who watches. Here a duel cannot be started: it runs already.
    fn page(&self, path: &str) -> Response<Full<Bytes>> {
        if path == "/_local/duel" {
            *telemetry::lock(&self.inner.asked) = Some(Instant::now());
            let progress = self.inner.progress.borrow().clone();
            let state = web::state(Some(&progress), progress.phase != Phase::Done, false, None);
            return respond(StatusCode::OK, "application/json", state.to_string().into());
        }
        let Some((kind, text)) = web::file(path) else {
            return self::text(StatusCode::NOT_FOUND, "there is no such page; see /duel");
        };
        let mut response = respond(StatusCode::OK, kind, Bytes::from_static(text.as_bytes()));
        let policy = http::HeaderValue::from_static(web::POLICY);
        response.headers_mut().insert(http::header::CONTENT_SECURITY_POLICY, policy);
        response
    }

    fn find<'a>(&self, below: &'a str) -> Option<(Arc<Desk>, &'a str)> {
        let mut parts = below.splitn(3, '/');
        let place = format!("{}/{}", parts.next()?, parts.next()?);
        let desk = telemetry::lock(&self.inner.desks).get(&place).cloned()?;
        Some((desk, parts.next().unwrap_or_default()))
    }

    fn perform(&self, desk: &Desk, event: u32, to: To, operation: &str, body: &[u8]) -> Response<Full<Bytes>> {
        match to {
            To::Store => {
                let answer = self.inner.engine.perform(operation, body);
                let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                respond(status, "application/x-amz-json-1.0", answer.body)
            }
            To::Post => {
                desk.note(What::Posted);
                post(event)
            }
            To::Ask => {
                let posted = desk.column.posts(event) > 0;
                desk.note(What::Asked(posted));
                if posted { post(event) } else { text(StatusCode::NOT_FOUND, "there is no such post") }
            }
        }
    }
}

fn place(desk: &Desk) -> String {
    format!("{}/{}", desk.column.handler, desk.worker)
}

fn post(event: u32) -> Response<Full<Bytes>> {
    respond(StatusCode::OK, "application/json", json!({ "id": event }).to_string().into())
}

fn throttled(to: To) -> Response<Full<Bytes>> {
    if to != To::Store {
        return text(StatusCode::TOO_MANY_REQUESTS, "too many requests");
    }
    let body = json!({
        "__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
        "message": "The level of configured provisioned throughput for the table was exceeded.",
    });
    respond(StatusCode::BAD_REQUEST, "application/x-amz-json-1.0", body.to_string().into())
}

fn text(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    respond(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

fn respond(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}
