//! The call of AppSync by which a resolver is tried without being deployed. The API itself is served by the mesh (`tenants::mesh`).

use appsync::evaluate::{self, Error};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{Request, StatusCode};

use super::protocol;
use crate::platform::router::read;

/// The largest call: a code and a context, each character as an escape.
const MAX_CALL: usize = 1024 * 1024;

/// `EvaluateCode`.
pub(super) async fn evaluate_code(request: Request<Body>) -> Response {
    let body = match read(request.into_body(), MAX_CALL).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let Ok(request) = serde_json::from_slice(&body) else {
        return protocol::error(StatusCode::BAD_REQUEST, "BadRequestException", "The request is not JSON.");
    };
    // A handler that loops holds its thread until its time is up.
    match tokio::task::spawn_blocking(move || evaluate::evaluate_code(&request)).await {
        Ok(Ok(answer)) => (StatusCode::OK, [("content-type", "application/json")], answer.to_string()).into_response(),
        Ok(Err(Error::BadRequest(message))) => {
            protocol::error(StatusCode::BAD_REQUEST, "BadRequestException", &message)
        }
        Ok(Err(Error::Internal(message))) => {
            protocol::error(StatusCode::INTERNAL_SERVER_ERROR, "InternalFailureException", &message)
        }
        Err(error) => {
            protocol::error(StatusCode::INTERNAL_SERVER_ERROR, "InternalFailureException", &error.to_string())
        }
    }
}
