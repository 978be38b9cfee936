//! AWS calls: those that the project itself makes, by their target; everything else is refused by name.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Request, StatusCode};
use serde_json::{Value, json};

use super::{cloudwatch, dynamodb, logs, read, sqs, ssm};
use crate::platform::Platform;

/// The largest call: 16 MB is DynamoDB's.
const MAX_CALL: usize = 16 * 1024 * 1024;

/// `POST /`: a call with a target in its header, or of the old kind with its action in a form.
pub(super) async fn root(State(platform): State<Platform>, request: Request<Body>) -> Response {
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
pub(super) async fn call(platform: &Platform, headers: &HeaderMap, body: Bytes) -> Response {
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
pub(super) fn rest_service(headers: &HeaderMap) -> Option<String> {
    let authorization = headers.get("authorization")?.to_str().ok()?;
    let scope = authorization.strip_prefix("AWS4-HMAC-SHA256 Credential=")?.split(',').next()?;
    scope.rsplit('/').nth(1).map(str::to_owned)
}

/// Says that this is not served here, and what was asked for.
pub(super) fn refuse(what: &str) -> Response {
    error(StatusCode::NOT_IMPLEMENTED, "UnknownOperationException", &format!("ichido-local does not serve {what}"))
}

/// An error as the JSON protocols word it.
pub(super) fn error(status: StatusCode, kind: &str, message: &str) -> Response {
    let body = json!({"__type": kind, "message": message, "Message": message});
    (status, [("content-type", "application/x-amz-json-1.1"), ("x-amzn-errortype", kind)], body.to_string())
        .into_response()
}

/// An answer as the JSON protocols word it.
pub(super) fn answer(body: &Value) -> Response {
    let id = uuid::Uuid::new_v4().to_string();
    let headers = [("content-type", "application/x-amz-json-1.1"), ("x-amzn-requestid", &id)];
    (StatusCode::OK, headers, body.to_string()).into_response()
}

/// The request's JSON.
#[expect(clippy::result_large_err, reason = "the refusal is the response itself")]
pub(super) fn request(body: &[u8]) -> Result<Value, Response> {
    serde_json::from_slice(body)
        .map_err(|_| error(StatusCode::BAD_REQUEST, "SerializationException", "the request is not JSON"))
}
