//! The call of Secrets Manager by which the operator's tool looks for a secret. This platform keeps every secret in SSM, so the
//! answer is always that the secret does not exist.

use axum::response::Response;
use http::StatusCode;

use super::protocol;

/// One operation.
pub(super) fn call(operation: &str) -> Response {
    match operation {
        "DescribeSecret" => protocol::error(
            StatusCode::BAD_REQUEST,
            "ResourceNotFoundException",
            "Secrets Manager can't find the specified secret.",
        ),
        _ => protocol::refuse(&format!("secretsmanager.{operation}")),
    }
}
