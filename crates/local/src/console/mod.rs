//! The console: a page in the browser, and the `/_local/*` API that it uses. Its files are compiled into the binary, so it
//! needs no build step and no network.

mod api;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::StatusCode;

use crate::platform::Platform;

const PAGE: &str = include_str!("web/index.html");
const STYLE: &str = include_str!("web/console.css");
const SCRIPT: &str = include_str!("web/console.js");
const OVERVIEW: &str = include_str!("web/overview.js");
const OPERATIONS: &str = include_str!("web/operations.js");
const KIT: &str = include_str!("web/kit.js");

/// The console neither loads nor runs anything from another host.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self' ws: wss:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The page, its files, and the API that they use.
pub(crate) fn routes() -> Router<Platform> {
    Router::new()
        .route("/", get(page))
        .route("/console/{file}", get(file))
        .route("/console/panels/{file}", get(panel))
        .route("/healthz", get(api::health))
        .route("/_local/config", get(api::config))
        .route("/_local/outbox", get(api::outbox))
        .route("/_local/schedules", get(api::schedules))
        .route("/_local/schedules/{name}/{action}", post(api::schedule))
        .route("/_local/faults", get(api::faults).put(api::put_faults))
        .route("/_local/metrics", get(api::metrics))
        .route("/_local/alarms", get(api::alarms))
        .route("/_local/alarms/advance", post(api::advance_alarms))
        .route("/_local/events", get(api::events))
        .route("/_local/log", get(api::log))
        .route("/_local/functions", get(api::functions))
        .route("/_local/queues", get(api::queues))
        .route("/_local/console", get(api::console))
}

/// `/`
async fn page() -> Response {
    let headers = [
        ("content-type", "text/html; charset=utf-8"),
        ("content-security-policy", POLICY),
        ("cache-control", "no-cache"),
    ];
    (headers, PAGE).into_response()
}

/// `/console/FILE`
async fn file(Path(name): Path<String>) -> Response {
    match name.as_str() {
        "console.css" => of("text/css; charset=utf-8", STYLE),
        "console.js" => of("text/javascript; charset=utf-8", SCRIPT),
        "overview.js" => of("text/javascript; charset=utf-8", OVERVIEW),
        "operations.js" => of("text/javascript; charset=utf-8", OPERATIONS),
        "kit.js" => of("text/javascript; charset=utf-8", KIT),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// `/console/panels/NAME.js`
async fn panel(State(platform): State<Platform>, Path(file): Path<String>) -> Response {
    let panels = platform.panels();
    let found = panels.iter().find(|(name, _)| file.strip_suffix(".js") == Some(name));
    match found {
        Some((_, panel)) => of("text/javascript; charset=utf-8", panel.script),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn of(kind: &'static str, text: &'static str) -> Response {
    ([("content-type", kind), ("cache-control", "no-cache")], text).into_response()
}
