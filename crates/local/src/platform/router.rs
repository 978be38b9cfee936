//! Who answers a request: at the main port, and at the DynamoDB port for tools.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{Request, StatusCode};

use super::Platform;
use super::clock::now_ms;
use super::listeners::Peer;
use crate::aws::gateway;
use crate::{arena, aws, console, standins};

/// The largest request that is read. BigQuery and API Gateway each take 10 MB.
pub(crate) const MAX_REQUEST: usize = 12 * 1024 * 1024;

/// Everything that answers at the main port.
pub(super) fn main(platform: &Platform) -> Router {
    let mut router = Router::new()
        .merge(aws::routes())
        .merge(arena::routes())
        .fallback(rest)
        .with_state(platform.clone())
        .merge(console::routes(platform));
    for tenant in platform.tenants() {
        if let Some(own) = tenant.router(platform) {
            router = router.merge(own);
        }
    }
    router
}

/// What answers at the DynamoDB port for tools.
pub(super) fn dynamodb(platform: &Platform) -> Router {
    Router::new().fallback(aws::dynamodb::endpoint).with_state(platform.clone())
}

/// Answers what has no fixed path: stand-ins, then AWS calls, then the routes of the templates.
async fn rest(State(platform): State<Platform>, Extension(peer): Extension<Peer>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    if let Some((module, below)) = platform.stand_ins().find(parts.uri.path()) {
        let body = match read(body, MAX_REQUEST).await {
            Ok(body) => body,
            Err(refusal) => return refusal,
        };
        let request = stand_in_request(&parts, below.to_owned(), body);
        return standins::serve(module, request, platform.faults(), platform.outbox(), platform.live()).await;
    }
    let body = match read(body, gateway::MAX_BODY).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    if let Some(response) = aws::rest(&platform, &parts, &body).await {
        return response;
    }
    gateway::serve(&platform, parts.method, &parts.uri, &parts.headers, &peer.0.ip().to_string(), body).await
}

fn stand_in_request(parts: &Parts, path: String, raw: Bytes) -> standins::Request {
    let query = parts.uri.query().unwrap_or_default();
    standins::Request {
        method: parts.method.clone(),
        path,
        query: url::form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
        headers: parts.headers.clone(),
        body: standins::read_body(&parts.headers, &raw),
        raw,
        now_ms: now_ms(),
    }
}

/// Reads a body of at most `limit` bytes; a larger one is refused.
pub(crate) async fn read(body: Body, limit: usize) -> Result<Bytes, Response> {
    let too_large = |_| {
        let message = serde_json::json!({"message": "Request Entity Too Large"});
        (StatusCode::PAYLOAD_TOO_LARGE, axum::Json(message)).into_response()
    };
    axum::body::to_bytes(body, limit).await.map_err(too_large)
}
