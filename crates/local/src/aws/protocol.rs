//! AWS's JSON protocol: how a call is read, answered and refused.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::{Value, json};

/// Refuses a call by name.
pub(super) fn refuse(what: &str) -> Response {
    error(StatusCode::NOT_IMPLEMENTED, "UnknownOperationException", &format!("ichido-local does not serve {what}"))
}

/// An error in the form of the JSON protocols.
pub(super) fn error(status: StatusCode, kind: &str, message: &str) -> Response {
    let body = json!({"__type": kind, "message": message, "Message": message});
    (status, [("content-type", "application/x-amz-json-1.1"), ("x-amzn-errortype", kind)], body.to_string())
        .into_response()
}

/// An answer in the form of the JSON protocols.
pub(super) fn answer(body: &Value) -> Response {
    let id = uuid::Uuid::new_v4().to_string();
    let headers = [("content-type", "application/x-amz-json-1.1"), ("x-amzn-requestid", &id)];
    (StatusCode::OK, headers, body.to_string()).into_response()
}

/// The JSON of the request.
#[expect(clippy::result_large_err, reason = "the refusal is the response itself")]
pub(super) fn request(body: &[u8]) -> Result<Value, Response> {
    serde_json::from_slice(body)
        .map_err(|_| error(StatusCode::BAD_REQUEST, "SerializationException", "the request is not JSON"))
}
