//! The AWS APIs that are answered: the calls that this project makes. Every other call is refused by name.
//!
//! A call is known by its path (Lambda, AppSync), by the `X-Amz-Target` header (DynamoDB, SQS, SSM, Secrets Manager, CloudWatch, Logs), by its protocol
//! (CloudWatch with CBOR), or by the service in its signature (Scheduler, STS). [`gateway`] plays API Gateway.
//!
//! Every table, function, queue, schedule, alarm and log group answers to its name and to the same name with the ending of the
//! environment `local` ([`plain`]), so that tools that were told either find it.

mod appsync;
mod cbor;
mod cloudwatch;
pub(crate) mod dynamodb;
pub mod gateway;
mod insights;
mod lambda;
mod logs;
mod protocol;
mod scheduler;
mod secretsmanager;
mod sqs;
mod ssm;
mod sts;

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

/// The largest call: DynamoDB takes 16 MB.
const MAX_CALL: usize = 16 * 1024 * 1024;

/// The AWS calls that have fixed paths.
pub(crate) fn routes() -> Router<Platform> {
    Router::new()
        .route("/", post(root))
        .route("/v1/dataplane-evaluatecode", post(appsync::evaluate_code))
        .route("/2015-03-31/functions/{name}/invocations", post(lambda::invoke))
        .route("/2015-03-31/functions/{name}", get(lambda::function))
        .route("/2015-03-31/functions/{name}/configuration", get(lambda::configuration))
        .route("/2015-03-31/functions/{name}/versions", get(lambda::versions))
        .route("/2015-03-31/functions/{name}/aliases", get(lambda::aliases))
        .route("/2015-03-31/functions/{name}/aliases/{alias}", get(lambda::alias))
        .route("/2015-03-31/functions/{name}/invoke-async", put(lambda::refuse))
        .route("/2017-10-31/functions/{name}/concurrency", put(lambda::reserve).delete(lambda::release))
        .route("/2019-09-30/functions/{name}/concurrency", get(lambda::concurrency))
}

/// Answers a call at another path; `None` if it is not an AWS call.
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

/// `POST /`: a call with its target in a header, or of the old Query protocol with its action in a form.
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
        (Some(service), Some(action)) if service == "sts" => {
            sts::call(&action, credential(&parts.headers).and_then(|scope| scope.split('/').next()).unwrap_or_default())
        }
        (Some(service), Some(action)) => refuse(&format!("{service}: {action}")),
        (None, Some(action)) => refuse(&action),
        (Some(service), None) => refuse(&service),
        (None, None) => (StatusCode::NOT_FOUND, axum::Json(json!({"message": "Not Found"}))).into_response(),
    }
}

/// Answers a call with its target in a header.
async fn call(platform: &Platform, headers: &HeaderMap, body: Bytes) -> Response {
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    let (service, operation) = target.rsplit_once('.').unwrap_or((target, ""));
    match service {
        "DynamoDB_20120810" => dynamodb::call(platform, operation, body).await,
        "AmazonSSM" => ssm::call(platform, operation, &body),
        "secretsmanager" => secretsmanager::call(operation),
        "AmazonSQS" => sqs::call(platform, operation, &body),
        "GraniteServiceVersion20100801" => cloudwatch::call_json(platform, operation, &body),
        "Logs_20140328" => logs::call(platform, operation, &body),
        _ => refuse(target),
    }
}

/// A name without the ending of the environment `local`.
fn plain(name: &str) -> &str {
    name.strip_suffix("-local").unwrap_or(name)
}

/// The service that a request is signed for.
fn rest_service(headers: &HeaderMap) -> Option<String> {
    credential(headers)?.rsplit('/').nth(1).map(str::to_owned)
}

/// Who signed a request, and for what: `local/20261117/ap-northeast-1/sts/aws4_request`.
fn credential(headers: &HeaderMap) -> Option<&str> {
    let authorization = headers.get("authorization")?.to_str().ok()?;
    authorization.strip_prefix("AWS4-HMAC-SHA256 Credential=")?.split(',').next()
}
