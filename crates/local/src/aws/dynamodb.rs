//! DynamoDB for tools: the store's own answers, without faults.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{Request, StatusCode};

use super::protocol;
use crate::platform::Platform;
use crate::platform::router::read;

/// The largest request that DynamoDB takes.
const MAX_CALL: usize = 16 * 1024 * 1024;

/// One operation.
pub(super) async fn call(platform: &Platform, operation: &str, body: Bytes) -> Response {
    let answer = platform.store().call(operation.to_owned(), body).await;
    let id = uuid::Uuid::new_v4().simple().to_string().to_uppercase();
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = [("content-type", "application/x-amz-json-1.0"), ("x-amzn-requestid", id.as_str())];
    (status, headers, answer.body).into_response()
}

/// Answers at the DynamoDB port.
pub(crate) async fn endpoint(State(platform): State<Platform>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let target = parts.headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    let body = match read(body, MAX_CALL).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    match target.strip_prefix("DynamoDB_20120810.") {
        Some(operation) => call(&platform, operation, body).await,
        None if target.is_empty() => {
            (StatusCode::OK, "healthy: this is the DynamoDB endpoint of ichido-local\n").into_response()
        }
        None => protocol::refuse(target),
    }
}
