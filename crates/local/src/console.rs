//! The console's files, built into the binary: no build step, no network.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;

use crate::platform::Platform;

const PAGE: &str = include_str!("../console/index.html");
const STYLE: &str = include_str!("../console/console.css");
const SCRIPT: &str = include_str!("../console/console.js");
const OVERVIEW: &str = include_str!("../console/overview.js");
const OPERATIONS: &str = include_str!("../console/operations.js");
const KIT: &str = include_str!("../console/kit.js");

/// Nothing from elsewhere runs or is loaded in the console.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self' ws: wss:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// `/`
pub(crate) async fn page() -> Response {
    let headers = [
        ("content-type", "text/html; charset=utf-8"),
        ("content-security-policy", POLICY),
        ("cache-control", "no-cache"),
    ];
    (headers, PAGE).into_response()
}

/// `/console/FILE`
pub(crate) async fn file(Path(name): Path<String>) -> Response {
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
pub(crate) async fn panel(State(platform): State<Platform>, Path(file): Path<String>) -> Response {
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
