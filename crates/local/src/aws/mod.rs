//! AWS calls: those that the project itself makes, by their target; everything else is refused by name.

mod cbor;
mod cloudwatch;
pub(crate) mod dynamodb;
pub mod gateway;
mod lambda;
mod logs;
mod protocol;
mod scheduler;
mod sqs;
mod ssm;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use http::request::Parts;
use http::{HeaderMap, Method, Request, StatusCode};
use serde_json::json;

use crate::platform::Platform;
use crate::platform::router::read;
use protocol::refuse;

/// The largest call: 16 MB is DynamoDB's.
const MAX_CALL: usize = 16 * 1024 * 1024;

/// The paths that AWS calls have of their own.
pub(crate) fn routes() -> Router<Platform> {
    Router::new()
        .route("/", post(root))
        .route("/2015-03-31/functions/{name}/invocations", post(lambda::invoke))
        .route("/2015-03-31/functions/{name}", get(lambda::function))
        .route("/2015-03-31/functions/{name}/configuration", get(lambda::configuration))
        .route("/2015-03-31/functions/{name}/versions", get(lambda::versions))
        .route("/2015-03-31/functions/{name}/aliases", get(lambda::aliases))
        .route("/2015-03-31/functions/{name}/aliases/{alias}", get(lambda::alias))
        .route("/2015-03-31/functions/{name}/invoke-async", put(lambda::refuse))
}

/// A call at any other path, known by its target, its protocol or its signature; `None` if it is no AWS call.
pub(crate) async fn rest(platform: &Platform, parts: &Parts, body: &Bytes) -> Option<Response> {
    if parts.method == Method::POST && parts.headers.contains_key("x-amz-target") {
        return Some(call(platform, &parts.headers, body.clone()).await);
    }
    if let Some(operation) = parts.uri.path().strip_prefix("/service/GraniteServiceVersion20100801/operation/") {
        return Some(cloudwatch::call_cbor(platform, operation, body));
    }
    let service = rest_service(&parts.headers)?;
    if service == "scheduler" {
        let query = parts.uri.query().unwrap_or_default();
        return Some(scheduler::call(platform, &parts.method, parts.uri.path(), query, body));
    }
    Some(refuse(&format!("{service}: {} {}", parts.method, parts.uri.path())))
}

/// `POST /`: a call with a target in its header, or of the old kind with its action in a form.
async fn root(State(platform): State<Platform>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let body = match read(body, MAX_CALL).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    if parts.headers.contains_key("x-amz-target") {
        return call(&platform, &parts.headers, body).await;
    }
    let action =
        url::form_urlencoded::parse(&body).find(|(name, _)| name == "Action").map(|(_, action)| action.into_owned());
    match (rest_service(&parts.headers), action) {
        (Some(service), Some(action)) => refuse(&format!("{service}: {action}")),
        (None, Some(action)) => refuse(&action),
        (Some(service), None) => refuse(&service),
        (None, None) => (StatusCode::NOT_FOUND, axum::Json(json!({"message": "Not Found"}))).into_response(),
    }
}

/// A call with a target.
async fn call(platform: &Platform, headers: &HeaderMap, body: Bytes) -> Response {
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    let (service, operation) = target.rsplit_once('.').unwrap_or((target, ""));
    match service {
        "DynamoDB_20120810" => dynamodb::call(platform, operation, body).await,
        "AmazonSSM" => ssm::call(platform, operation, &body),
        "AmazonSQS" => sqs::call(platform, operation, &body),
        "GraniteServiceVersion20100801" => cloudwatch::call_json(platform, operation, &body),
        "Logs_20140328" => logs::call(platform, operation, &body),
        _ => refuse(target),
    }
}

/// The service for which a request is signed.
fn rest_service(headers: &HeaderMap) -> Option<String> {
    let authorization = headers.get("authorization")?.to_str().ok()?;
    let scope = authorization.strip_prefix("AWS4-HMAC-SHA256 Credential=")?.split(',').next()?;
    scope.rsplit('/').nth(1).map(str::to_owned)
}
