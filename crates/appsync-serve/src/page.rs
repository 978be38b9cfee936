//! The query page. It is part of the binary and asks nobody but this program.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;

const PAGE: &str = include_str!("../web/index.html");
const SCRIPT: &str = include_str!("../web/page.js");
const STYLE: &str = include_str!("../web/page.css");

/// What the page may do: run its own script and style, and talk to this program.
fn policy(port: u16) -> String {
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' ws://127.0.0.1:{port} ws://localhost:{port}; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

/// What the page needs to know.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) api_key: String,
    pub(crate) port: u16,
}

pub(crate) fn router(config: Config) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/page.js", get(|| async { file("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/page.css", get(|| async { file("text/css; charset=utf-8", STYLE) }))
        .route("/config.json", get(config_json))
        .with_state(config)
}

async fn page(State(config): State<Config>) -> Response {
    let headers = [
        ("content-type", "text/html; charset=utf-8".to_owned()),
        ("content-security-policy", policy(config.port)),
        ("referrer-policy", "no-referrer".to_owned()),
        ("x-content-type-options", "nosniff".to_owned()),
        ("cache-control", "no-cache".to_owned()),
    ];
    (headers, PAGE).into_response()
}

async fn config_json(State(config): State<Config>) -> Response {
    file("application/json", json!({"apiKey": config.api_key}).to_string())
}

fn file(kind: &'static str, text: impl IntoResponse) -> Response {
    ([("content-type", kind), ("x-content-type-options", "nosniff"), ("cache-control", "no-cache")], text)
        .into_response()
}
