//! Serves the API that was loaded last.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, RwLock};
use std::time::Instant;

use appsync::Api;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower::ServiceExt as _;

use crate::load::{self, Loaded, Loader};
use crate::log::{Log, shown, shown_whole, summary};
use crate::options::Serve;
use crate::page;
use crate::watch::{self, Seen};

/// The largest request that is read for the log. The API refuses larger ones.
const MAX_REQUEST: usize = 1024 * 1024;
/// The largest answer that is read for the log: twice the largest that the API gives.
const MAX_ANSWER: usize = 10 * 1024 * 1024;

/// Why the program ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Load(#[from] load::Error),
    #[error(
        "port {port} of 127.0.0.1 cannot be used: {source}; choose another one with --port, or a free one with --port 0"
    )]
    Port { port: u16, source: std::io::Error },
    #[error("could not serve: {0}")]
    Serve(std::io::Error),
}

/// The API that is served now.
#[derive(Clone)]
struct Current(Arc<RwLock<(Api, Router)>>);

impl Current {
    fn new(api: Api) -> Self {
        let router = api.router();
        Self(Arc::new(RwLock::new((api, router))))
    }

    fn router(&self) -> Router {
        // A thread that panicked while it held the lock has left a whole value.
        self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner).1.clone()
    }

    /// Replaces the API, and ends the WebSockets of the old one.
    fn replace(&self, api: Api) {
        let router = api.router();
        let mut current = self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (old, _) = std::mem::replace(&mut *current, (api, router));
        drop(current);
        old.close();
    }
}

/// Serves until a signal comes.
pub(crate) async fn serve(options: Serve) -> Result<(), Error> {
    let (log, port, api_key) = (Log::to_stdout(), options.port, options.api_key.clone());
    let loader = Loader::new(options, log.clone())?;
    let (loaded, seen) = loader.load();
    let loaded = loaded?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = TcpListener::bind(address).await.map_err(|source| Error::Port { port, source })?;
    let address = listener.local_addr().map_err(Error::Serve)?;
    let announcement = announcement(address, &loader, &loaded, seen.files());
    let current = Current::new(loaded.api);
    let config = page::Config { api_key, port: address.port() };
    let router = Router::new()
        .route("/graphql", any(forward))
        .route("/graphql/realtime", any(forward))
        .layer(from_fn_with_state(log.clone(), observe))
        .with_state(current.clone())
        .merge(page::router(config))
        .layer(from_fn(refuse_strangers));
    // From here on a signal ends the program cleanly.
    let stopped = loopback::stopped();
    log.say(&announcement);
    tokio::spawn(reload(Arc::new(loader), current, seen, log));
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    let serving = axum::serve(listener, service);
    tokio::select! {
        served = serving => served.map_err(Error::Serve),
        () = stopped => Ok(()),
    }
}

fn announcement(address: SocketAddr, loader: &Loader, loaded: &Loaded, files: usize) -> String {
    let options = loader.options();
    let store = match (&options.dynamodb, &options.data) {
        (Some(url), _) => format!("at {}", shown(url)),
        (None, Some(file)) => format!("embedded, in {}", shown_whole(&file.display().to_string())),
        (None, None) => "embedded, in memory".to_owned(),
    };
    let tables = if loaded.tables.is_empty() { "none".to_owned() } else { shown_whole(&loaded.tables.join(", ")) };
    let mut text = format!(
        "appsync serves http://{address}/graphql\n  \
           query page  http://{address}/\n  \
           realtime    ws://{address}/graphql/realtime\n  \
           API key     {} (header x-api-key)\n  \
           DynamoDB    {store}; tables of the template: {tables}\n  \
           watching    {files} files",
        shown(&options.api_key),
    );
    for name in &loaded.missing {
        text.push_str(&format!("\n  no function {}: fields that need it fail; see --lambda", shown(name)));
    }
    text
}

/// Loads the files again whenever one of them has changed. A change that does not work leaves the API as it was.
async fn reload(loader: Arc<Loader>, current: Current, mut seen: Seen, log: Log) {
    loop {
        tokio::time::sleep(watch::EVERY).await;
        let loader = Arc::clone(&loader);
        let looked = tokio::task::spawn_blocking(move || {
            let now = seen.again();
            if now == seen {
                return (seen, None);
            }
            match loader.load() {
                (Ok(loaded), read) => (read, Some(Ok(loaded))),
                // It may have failed before it came to the other files.
                (Err(error), read) => (now.and(read), Some(Err(error))),
            }
        });
        // Fails only if it panicked, which has said why.
        let Ok((now, loaded)) = looked.await else { return };
        seen = now;
        match loaded {
            None => {}
            Some(Ok(loaded)) => {
                current.replace(loaded.api);
                log.say("reloaded: a file has changed");
            }
            Some(Err(error)) => log.say(&shown_whole(&format!("not reloaded, the API is as it was: {error}"))),
        }
    }
}

async fn forward(State(current): State<Current>, request: Request) -> Response {
    match current.router().oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

async fn refuse_strangers(request: Request, next: Next) -> Response {
    if let Err(why) = loopback::check(request.uri(), request.headers()) {
        let message =
            format!("refused: {why}; appsync answers only requests whose Host and Origin are loopback addresses");
        let body = json!({"errors": [{"errorType": "Forbidden", "message": message}]});
        return (StatusCode::FORBIDDEN, axum::Json(body)).into_response();
    }
    next.run(request).await
}

/// Logs what was asked and what went wrong.
async fn observe(State(log): State<Log>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        if request.headers().contains_key(http::header::UPGRADE) {
            log.say("                     a WebSocket was opened");
        }
        return next.run(request).await;
    }
    let started = Instant::now();
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_REQUEST).await else {
        let message = format!("The body of the request is larger than {MAX_REQUEST} bytes, or was cut off.");
        let body = json!({"errors": [{"errorType": "RequestEntityTooLargeException", "message": message}]});
        log.of_request(started.elapsed(), "a request that is too large", &body);
        return (StatusCode::PAYLOAD_TOO_LARGE, axum::Json(body)).into_response();
    };
    let asked = serde_json::from_slice::<Value>(&body).ok();
    let asked = asked.as_ref().and_then(|asked| asked["query"].as_str()).map(summary);
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    let took = started.elapsed();
    let (parts, body) = response.into_parts();
    let Ok(body) = to_bytes(body, MAX_ANSWER).await else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
    let answer = serde_json::from_slice::<Value>(&body).unwrap_or_default();
    log.of_request(took, asked.as_deref().unwrap_or("not a GraphQL request"), &answer);
    Response::from_parts(parts, Body::from(body))
}
