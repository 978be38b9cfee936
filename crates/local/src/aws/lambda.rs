//! Lambda's Invoke API, the calls by which the operator's tool reads functions, and reserved concurrency. Each function has one
//! version, `1`, which the alias `live` points to.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::gateway;
use crate::platform::Platform;
use crate::platform::router::{MAX_REQUEST, read};
use crate::world::functions::{Function, MAX_ASYNC_PAYLOAD, MAX_SYNC_PAYLOAD};

/// The only version of each function.
const VERSION: &str = "1";
/// What a deployment has: the alias that everything calls, and the one that names what was deployed last.
const ALIASES: [&str; 2] = ["live", "deployed"];

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
                &format!("{kind} is not an invocation type; use RequestResponse, Event or DryRun"),
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
    let trace = gateway::incoming_trace(&parts.headers);
    match kind {
        "DryRun" => answered(StatusCode::NO_CONTENT, &uuid::Uuid::new_v4().to_string(), String::new()),
        "Event" => {
            let id = uuid::Uuid::new_v4().to_string();
            match platform.invocations().accept(&function, payload, id.clone(), &trace) {
                Ok(()) => answered(StatusCode::ACCEPTED, &id, String::new()),
                Err(failed) => error(StatusCode::INTERNAL_SERVER_ERROR, "ServiceException", &failed.to_string()),
            }
        }
        _ => {
            let invoked = platform.invoke(&function, payload, Some(trace)).await;
            match &invoked.outcome {
                Ok(answer) => answered(StatusCode::OK, &invoked.request_id, answer.to_string()),
                Err(failure) if failure.is_throttled() => {
                    error(StatusCode::TOO_MANY_REQUESTS, &failure.kind, &failure.message)
                }
                Err(failure) => {
                    let mut response = answered(StatusCode::OK, &invoked.request_id, failure.body().to_string());
                    response.headers_mut().insert("x-amz-function-error", HeaderValue::from_static("Unhandled"));
                    response
                }
            }
        }
    }
}

/// `GET /2015-03-31/functions/NAME`
pub(super) async fn function(
    State(platform): State<Platform>,
    Path(name): Path<String>,
    Query(query): Query<Qualified>,
) -> Response {
    shown(
        &platform,
        &name,
        query.qualifier.as_deref(),
        |function| json!({"Configuration": described(function, "$LATEST"), "Code": {"RepositoryType": "local"}, "Tags": {}}),
    )
}

/// `GET /2015-03-31/functions/NAME/configuration`
pub(super) async fn configuration(
    State(platform): State<Platform>,
    Path(name): Path<String>,
    Query(query): Query<Qualified>,
) -> Response {
    let version = if query.qualifier.is_some() { VERSION } else { "$LATEST" };
    shown(&platform, &name, query.qualifier.as_deref(), |function| described(function, version))
}

/// `GET /2015-03-31/functions/NAME/versions`
pub(super) async fn versions(State(platform): State<Platform>, Path(name): Path<String>) -> Response {
    shown(
        &platform,
        &name,
        None,
        |function| json!({ "Versions": [described(function, "$LATEST"), described(function, VERSION)] }),
    )
}

/// `GET /2015-03-31/functions/NAME/aliases`
pub(super) async fn aliases(State(platform): State<Platform>, Path(name): Path<String>) -> Response {
    shown(&platform, &name, None, |function| json!({ "Aliases": ALIASES.map(|name| alias_of(function, name)) }))
}

/// `GET /2015-03-31/functions/NAME/aliases/ALIAS`
pub(super) async fn alias(State(platform): State<Platform>, Path((name, alias)): Path<(String, String)>) -> Response {
    if !ALIASES.contains(&alias.as_str()) {
        let message =
            format!("Cannot find alias arn: {}", template::arn("lambda", &format!("function:{name}:{alias}")));
        return error(StatusCode::NOT_FOUND, "ResourceNotFoundException", &message);
    }
    shown(&platform, &name, None, |function| alias_of(function, &alias))
}

/// `GET /2019-09-30/functions/NAME/concurrency`
pub(super) async fn concurrency(State(platform): State<Platform>, Path(name): Path<String>) -> Response {
    shown(&platform, &name, None, reserved)
}

/// `PUT /2017-10-31/functions/NAME/concurrency`: how many invocations may run at once. 0 stops the function.
pub(super) async fn reserve(
    State(platform): State<Platform>,
    Path(name): Path<String>,
    axum::Json(wanted): axum::Json<Reservation>,
) -> Response {
    shown(&platform, &name, None, |function| {
        function.reserve(Some(wanted.reserved_concurrent_executions));
        reserved(function)
    })
}

/// `DELETE /2017-10-31/functions/NAME/concurrency`: any number again.
pub(super) async fn release(State(platform): State<Platform>, Path(name): Path<String>) -> Response {
    match find(&platform, &name, None) {
        Ok(function) => {
            function.reserve(None);
            StatusCode::NO_CONTENT.into_response()
        }
        Err(refusal) => refusal,
    }
}

/// What `PutFunctionConcurrency` asks for.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Reservation {
    reserved_concurrent_executions: u32,
}

fn reserved(function: &Function) -> Value {
    function.reserved().map_or_else(|| json!({}), |reserved| json!({ "ReservedConcurrentExecutions": reserved }))
}

fn shown(platform: &Platform, name: &str, qualifier: Option<&str>, show: impl FnOnce(&Function) -> Value) -> Response {
    match find(platform, name, qualifier) {
        Ok(function) => {
            let body = show(&function).to_string();
            (StatusCode::OK, [("content-type", "application/json")], body).into_response()
        }
        Err(refusal) => refusal,
    }
}

/// The configuration of a function, without its variables: some of them are private.
fn described(function: &Function, version: &str) -> Value {
    let declared = &function.declared;
    let arn = template::arn("lambda", &format!("function:{}", declared.name));
    let arn = if version == "$LATEST" { arn } else { format!("{arn}:{version}") };
    json!({
        "FunctionName": declared.name, "FunctionArn": arn, "Runtime": "provided.al2023", "Handler": "bootstrap",
        "Timeout": declared.timeout.as_secs(), "MemorySize": declared.memory_mb, "Version": version, "State": "Active",
        "LastUpdateStatus": "Successful", "PackageType": "Zip", "Architectures": ["arm64"],
    })
}

fn alias_of(function: &Function, alias: &str) -> Value {
    let arn = template::arn("lambda", &format!("function:{}:{alias}", function.declared.name));
    json!({"AliasArn": arn, "Name": alias, "FunctionVersion": VERSION, "Description": "", "RevisionId": VERSION})
}

/// `InvokeAsync`, the deprecated asynchronous API.
pub(super) async fn refuse() -> Response {
    super::protocol::refuse("lambda: InvokeAsync, which AWS has deprecated; use an invocation of type Event")
}

#[expect(clippy::result_large_err, reason = "the refusal is the response itself")]
fn find(platform: &Platform, name: &str, qualifier: Option<&str>) -> Result<Arc<Function>, Response> {
    let named = match name.split_once(":function:") {
        Some((_, rest)) => rest,
        None => name,
    };
    let qualifier = qualifier.or_else(|| named.split_once(':').map(|(_, qualifier)| qualifier));
    let known =
        qualifier.is_none_or(|qualifier| ALIASES.contains(&qualifier) || matches!(qualifier, "$LATEST" | VERSION));
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
