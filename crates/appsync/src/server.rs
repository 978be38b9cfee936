//! The API over HTTP: `POST /graphql`, and the realtime endpoint at `/graphql` (as AppSync has it) and at `/graphql/realtime` (as
//! custom domains have it).
//!
//! | request | status |
//! |---|---|
//! | executed, also if the answer has errors | 200 |
//! | the body is not a GraphQL request | 400 |
//! | the caller is refused | 401; with an unknown access key 403 |
//! | the body is too large | 413 |
//!
//! Resolvers get header names in lower case. As on AWS, two addresses are added at the end of `x-forwarded-for`: the
//! peer's, and that of the edge that the request came through. What stands before them is what the client claims.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{ConnectInfo, FromRequestParts, RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::api::Inner;
use crate::auth::Caller;
use crate::limits::{MAX_CLIENT_MESSAGE, MAX_REQUEST_BYTES, SOCKET_READ_BUFFER};
use crate::realtime;

const PROTOCOL: &str = "graphql-ws";
/// The edge that requests come through. In front of AppSync it is one of CloudFront.
const EDGE: &str = "127.0.0.1";

/// The body of a request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    query: Option<String>,
    variables: Option<Value>,
    operation_name: Option<String>,
}

pub(crate) fn router(api: Arc<Inner>) -> Router {
    Router::new()
        .route("/graphql", post(execute).get(upgrade).options(preflight))
        .route("/graphql/realtime", axum::routing::get(upgrade))
        .with_state(api)
}

/// AppSync allows every origin. The credential is what protects it.
fn allow_origin(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert("access-control-allow-origin", HeaderValue::from_static("*"));
    headers.insert("access-control-expose-headers", HeaderValue::from_static("x-amzn-requestid, x-amzn-errortype"));
    response
}

async fn preflight() -> Response {
    let mut response = StatusCode::OK.into_response();
    let headers = response.headers_mut();
    headers.insert("access-control-allow-methods", HeaderValue::from_static("POST, GET, OPTIONS"));
    headers.insert(
        "access-control-allow-headers",
        HeaderValue::from_static(
            "content-type, x-api-key, authorization, x-amz-date, x-amz-security-token, x-amz-user-agent",
        ),
    );
    headers.insert("access-control-max-age", HeaderValue::from_static("172800"));
    allow_origin(response)
}

fn refuse(status: StatusCode, error_type: &'static str, message: &str) -> Response {
    let body = json!({"errors": [{"errorType": error_type, "message": message}]}).to_string();
    let mut response = (status, [(http::header::CONTENT_TYPE, "application/json;charset=UTF-8")], body).into_response();
    response.headers_mut().insert("x-amzn-errortype", HeaderValue::from_static(error_type));
    allow_origin(response)
}

async fn execute(State(api): State<Arc<Inner>>, request: http::Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let caller = caller(&parts.headers, peer(&parts));
    // The caller is checked before its body is read.
    let accepted = match api.gate.accept(&caller, api.host.now_ms()) {
        Ok(accepted) => accepted,
        Err(error) => {
            let status = match error {
                crate::auth::Error::BadAccessKey => StatusCode::FORBIDDEN,
                _ => StatusCode::UNAUTHORIZED,
            };
            return refuse(status, error.error_type(), &error.to_string());
        }
    };
    let Ok(body) = to_bytes(body, MAX_REQUEST_BYTES).await else {
        return refuse(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLargeException",
            "The body of the request is too large.",
        );
    };
    let Ok(request) = serde_json::from_slice::<Request>(&body) else {
        return refuse(StatusCode::BAD_REQUEST, "MalformedHttpRequestException", "Unable to parse the request body.");
    };
    let Some(query) = request.query else {
        return refuse(StatusCode::BAD_REQUEST, "MalformedHttpRequestException", "Request body must contain a query.");
    };
    let variables = match request.variables {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(map)) => map,
        Some(_) => {
            return refuse(StatusCode::BAD_REQUEST, "MalformedHttpRequestException", "Variables must be an object.");
        }
    };
    let response = api.execute(&query, &variables, request.operation_name.as_deref(), &accepted, &caller).await;
    let body = serde_json::to_vec(&response).unwrap_or_default();
    allow_origin(
        (StatusCode::OK, [(http::header::CONTENT_TYPE, "application/json;charset=UTF-8")], body).into_response(),
    )
}

/// The address of the peer, if the server adds it (`into_make_service_with_connect_info`).
fn peer(parts: &Parts) -> Option<SocketAddr> {
    parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0)
}

fn caller(headers: &HeaderMap, peer: Option<SocketAddr>) -> Caller {
    let mut map: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers {
        let Ok(value) = value.to_str() else { continue };
        map.entry(name.as_str().to_owned())
            .and_modify(|all| *all = format!("{all}, {value}"))
            .or_insert_with(|| value.to_owned());
    }
    let source_ip = peer.map(|peer| peer.ip().to_string());
    if let Some(address) = &source_ip {
        map.entry("x-forwarded-for".to_owned())
            .and_modify(|claimed| *claimed = format!("{claimed}, {address}, {EDGE}"))
            .or_insert_with(|| format!("{address}, {EDGE}"));
    }
    Caller { source_ip, ..Caller::from_headers(map) }
}

async fn upgrade(State(api): State<Arc<Inner>>, RawQuery(query): RawQuery, request: http::Request<Body>) -> Response {
    let (mut parts, _) = request.into_parts();
    let (headers, peer) = (parts.headers.clone(), peer(&parts));
    let upgrade = match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        Ok(upgrade) => upgrade,
        Err(_) => {
            return refuse(StatusCode::BAD_REQUEST, "BadRequestException", "Use POST, or upgrade to a WebSocket.");
        }
    };
    let protocols: Vec<String> =
        upgrade.requested_protocols().filter_map(|value| value.to_str().ok()).map(ToOwned::to_owned).collect();
    if !protocols.iter().any(|protocol| protocol == PROTOCOL) {
        return refuse(StatusCode::BAD_REQUEST, "NoProtocolError", "The subprotocol graphql-ws is missing.");
    }
    let given = match authorization(query.as_deref().unwrap_or_default(), &protocols) {
        Ok(given) => given,
        Err(message) => return refuse(StatusCode::BAD_REQUEST, "BadRequestException", message),
    };
    let mut all = caller(&headers, peer);
    all.headers.extend(given);
    let caller = Caller { source_ip: all.source_ip, ..Caller::from_headers(all.headers) };
    upgrade
        .protocols([PROTOCOL])
        .read_buffer_size(SOCKET_READ_BUFFER)
        .write_buffer_size(0)
        .max_message_size(MAX_CLIENT_MESSAGE)
        .max_frame_size(MAX_CLIENT_MESSAGE)
        .on_upgrade(move |socket| realtime::serve(api, socket, caller))
}

/// The authorisation of a connection: `?header=BASE64`, or the subprotocol `header-BASE64URL`.
fn authorization(query: &str, protocols: &[String]) -> Result<BTreeMap<String, String>, &'static str> {
    const WRONG: &str = "The authorization header is not base64 of a JSON object.";
    let in_query = query.split('&').find_map(|pair| pair.strip_prefix("header="));
    let in_protocol = protocols.iter().find_map(|protocol| protocol.strip_prefix("header-"));
    let Some(encoded) = in_query.or(in_protocol) else { return Ok(BTreeMap::new()) };
    let encoded = percent_decoded(encoded).ok_or(WRONG)?;
    let bytes = [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD]
        .into_iter()
        .find_map(|engine| engine.decode(&encoded).ok())
        .ok_or(WRONG)?;
    let map: Map<String, Value> = serde_json::from_slice(&bytes).map_err(|_| WRONG)?;
    Ok(map
        .into_iter()
        .filter(|(name, _)| HeaderName::try_from(name.as_str()).is_ok())
        .filter_map(|(name, value)| Some((name.to_ascii_lowercase(), value.as_str()?.to_owned())))
        .collect())
}

fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next()?, bytes.next()?];
            out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            out.push(byte);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_authorisation_are_read() {
        let header = r#"{"host":"localhost","x-api-key":"key"}"#;
        let expected =
            BTreeMap::from([("host".to_owned(), "localhost".to_owned()), ("x-api-key".to_owned(), "key".to_owned())]);
        let query = format!("header={}&payload=e30=", STANDARD.encode(header).replace('=', "%3D"));
        assert_eq!(authorization(&query, &[]), Ok(expected.clone()));
        let protocols = ["graphql-ws".to_owned(), format!("header-{}", URL_SAFE_NO_PAD.encode(header))];
        assert_eq!(authorization("", &protocols), Ok(expected));
        assert_eq!(authorization("", &[]), Ok(BTreeMap::new()));
        for wrong in ["header=%", "header=!", "header=e30x", "header=W10="] {
            assert!(authorization(wrong, &[]).is_err(), "{wrong}");
        }
    }
}
