//! The Lambda Invoke API.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{MAX_REQUEST, read};
use crate::door;
use crate::functions::{Function, MAX_ASYNC_PAYLOAD, MAX_SYNC_PAYLOAD};
use crate::platform::Platform;

/// `?Qualifier=live`
#[derive(Deserialize)]
pub(super) struct Qualified {
    #[serde(rename = "Qualifier")]
    qualifier: Option<String>,
}

/// `POST /2015-03-31/functions/NAME/invocations`
pub(super) async fn invoke(
    State(platform): State<Platform>,
    Path(name): Path<String>,
    Query(query): Query<Qualified>,
    request: Request<Body>,
) -> Response {
    let (parts, body) = request.into_parts();
    let function = match find(&platform, &name, query.qualifier.as_deref()) {
        Ok(function) => function,
        Err(refusal) => return refusal,
    };
    let body = match read(body, MAX_REQUEST).await {
        Ok(body) => body,
        Err(_) => return too_large(MAX_REQUEST, "RequestResponse", MAX_SYNC_PAYLOAD),
    };
    let kind = header(&parts.headers, "x-amz-invocation-type").unwrap_or("RequestResponse");
    let limit = match kind {
        "RequestResponse" | "DryRun" => MAX_SYNC_PAYLOAD,
        "Event" => MAX_ASYNC_PAYLOAD,
        _ => {
            return error(
                StatusCode::BAD_REQUEST,
                "InvalidParameterValueException",
                &format!("{kind} is not an invocation type"),
            );
        }
    };
    if body.len() > limit {
        return too_large(body.len(), kind, limit);
    }
    let payload: Value = if body.is_empty() {
        json!({})
    } else {
        match serde_json::from_slice(&body) {
            Ok(payload) => payload,
            Err(parse) => {
                let message = format!("Could not parse request body into json: {parse}");
                return error(StatusCode::BAD_REQUEST, "InvalidRequestContentException", &message);
            }
        }
    };
    let trace = door::incoming_trace(&parts.headers);
    match kind {
        "DryRun" => answered(StatusCode::NO_CONTENT, &uuid::Uuid::new_v4().to_string(), String::new()),
        "Event" => {
            let id = uuid::Uuid::new_v4().to_string();
            match platform.queue().accept(&function, payload, id.clone(), &trace) {
                Ok(()) => answered(StatusCode::ACCEPTED, &id, String::new()),
                Err(failed) => error(StatusCode::INTERNAL_SERVER_ERROR, "ServiceException", &failed.to_string()),
            }
        }
        _ => {
            let invoked = platform.invoke(&function, payload, Some(trace)).await;
            match &invoked.outcome {
                Ok(answer) => answered(StatusCode::OK, &invoked.request_id, answer.to_string()),
                Err(failure) => {
                    let mut response = answered(StatusCode::OK, &invoked.request_id, failure.body().to_string());
                    response.headers_mut().insert("x-amz-function-error", HeaderValue::from_static("Unhandled"));
                    response
                }
            }
        }
    }
}

/// The old asynchronous API, which nobody should use.
pub(super) async fn refuse() -> Response {
    super::aws::refuse("lambda: InvokeAsync, which AWS has deprecated; use an invocation of type Event")
}

#[expect(clippy::result_large_err, reason = "the refusal is the response itself")]
fn find(platform: &Platform, name: &str, qualifier: Option<&str>) -> Result<Arc<Function>, Response> {
    let named = match name.split_once(":function:") {
        Some((_, rest)) => rest,
        None => name,
    };
    let qualifier = qualifier.or_else(|| named.split_once(':').map(|(_, qualifier)| qualifier));
    let known = qualifier.is_none_or(|qualifier| matches!(qualifier, "live" | "$LATEST" | "1"));
    let function = platform.functions().find(name).filter(|_| known);
    function.ok_or_else(|| {
        let suffix = qualifier.map(|qualifier| format!(":{qualifier}")).unwrap_or_default();
        let arn = template::arn("lambda", &format!("function:{}{suffix}", named.split(':').next().unwrap_or_default()));
        error(StatusCode::NOT_FOUND, "ResourceNotFoundException", &format!("Function not found: {arn}"))
    })
}

fn answered(status: StatusCode, request_id: &str, body: String) -> Response {
    let headers =
        [("content-type", "application/json"), ("x-amz-executed-version", "1"), ("x-amzn-requestid", request_id)];
    (status, headers, body).into_response()
}

fn too_large(size: usize, kind: &str, limit: usize) -> Response {
    let message = format!("{size} byte payload is too large for the {kind} invocation type (limit {limit} bytes)");
    error(StatusCode::PAYLOAD_TOO_LARGE, "RequestTooLargeException", &message)
}

fn error(status: StatusCode, kind: &str, message: &str) -> Response {
    let body = json!({"Type": "User", "Message": message, "message": message});
    (status, [("content-type", "application/json"), ("x-amzn-errortype", kind)], body.to_string()).into_response()
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
