//! Everything that answers at the main port, and the DynamoDB endpoint for tools.

mod aws;
mod cbor;
mod cloudwatch;
mod dynamodb;
mod lambda;
mod local;
mod logs;
mod scheduler;
mod sqs;
mod ssm;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use http::request::Parts;
use http::{Method, Request, StatusCode};

use crate::platform::Platform;
use crate::serve::Peer;
use crate::{console, door, now_ms, standin};

/// The largest request that is read at all: BigQuery takes 10 MB, and so does API Gateway.
const MAX_REQUEST: usize = 12 * 1024 * 1024;

/// The main port.
pub fn router(platform: &Platform) -> Router {
    let mut router = Router::new()
        .route("/", get(console::page).post(aws::root))
        .route("/console/{file}", get(console::file))
        .route("/console/panels/{file}", get(console::panel))
        .route("/healthz", get(local::health))
        .route("/_local/config", get(local::config))
        .route("/_local/outbox", get(local::outbox))
        .route("/_local/schedules", get(local::schedules))
        .route("/_local/schedules/{name}/{action}", post(local::schedule))
        .route("/_local/faults", get(local::faults).put(local::put_faults))
        .route("/_local/metrics", get(local::metrics))
        .route("/_local/alarms", get(local::alarms))
        .route("/_local/alarms/advance", post(local::advance_alarms))
        .route("/_local/events", get(local::events))
        .route("/_local/log", get(local::log))
        .route("/_local/functions", get(local::functions))
        .route("/_local/queues", get(local::queues))
        .route("/_local/console", get(local::console))
        .route("/2015-03-31/functions/{name}/invocations", post(lambda::invoke))
        .route("/2015-03-31/functions/{name}", get(lambda::function))
        .route("/2015-03-31/functions/{name}/configuration", get(lambda::configuration))
        .route("/2015-03-31/functions/{name}/versions", get(lambda::versions))
        .route("/2015-03-31/functions/{name}/aliases", get(lambda::aliases))
        .route("/2015-03-31/functions/{name}/aliases/{alias}", get(lambda::alias))
        .route("/2015-03-31/functions/{name}/invoke-async", put(lambda::refuse))
        .fallback(rest)
        .with_state(platform.clone());
    for tenant in platform.tenants() {
        if let Some(own) = tenant.router(platform) {
            router = router.merge(own);
        }
    }
    router
}

/// The DynamoDB endpoint for tools.
pub fn dynamodb_router(platform: &Platform) -> Router {
    Router::new().fallback(dynamodb::endpoint).with_state(platform.clone())
}

/// Whatever has no fixed path: AWS calls by their target, stand-ins, and the front door's routes.
async fn rest(State(platform): State<Platform>, Extension(peer): Extension<Peer>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    if let Some((module, below)) = platform.stand_ins().find(parts.uri.path()) {
        let body = match read(body, MAX_REQUEST).await {
            Ok(body) => body,
            Err(refusal) => return refusal,
        };
        let request = stand_in_request(&parts, below.to_owned(), body);
        return standin::serve(module, request, platform.faults(), platform.outbox(), platform.live()).await;
    }
    let body = match read(body, door::MAX_BODY).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    if parts.method == Method::POST && parts.headers.contains_key("x-amz-target") {
        return aws::call(&platform, &parts.headers, body).await;
    }
    if let Some(operation) = parts.uri.path().strip_prefix("/service/GraniteServiceVersion20100801/operation/") {
        return cloudwatch::call_cbor(&platform, operation, &body);
    }
    if let Some(service) = aws::rest_service(&parts.headers) {
        if service == "scheduler" {
            let query = parts.uri.query().unwrap_or_default();
            return scheduler::call(&platform, &parts.method, parts.uri.path(), query, &body);
        }
        return aws::refuse(&format!("{service}: {} {}", parts.method, parts.uri.path()));
    }
    door::serve(&platform, parts.method, &parts.uri, &parts.headers, &peer.0.ip().to_string(), body).await
}

fn stand_in_request(parts: &Parts, path: String, raw: Bytes) -> standin::Request {
    let query = parts.uri.query().unwrap_or_default();
    standin::Request {
        method: parts.method.clone(),
        path,
        query: url::form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
        headers: parts.headers.clone(),
        body: standin::read_body(&parts.headers, &raw),
        raw,
        now_ms: now_ms(),
    }
}

async fn read(body: Body, limit: usize) -> Result<Bytes, Response> {
    let too_large = |_| {
        let message = serde_json::json!({"message": "Request Entity Too Large"});
        (StatusCode::PAYLOAD_TOO_LARGE, axum::Json(message)).into_response()
    };
    axum::body::to_bytes(body, limit).await.map_err(too_large)
}
