//! The HTTP API of API Gateway, as a handler and its caller see it.
//!
//! A request becomes an event of payload version 2.0, and the handler's answer becomes the response. API Gateway's own answers
//! have its words: 404 without a route, 413 for a body that is too large, 429 for a route with too many requests (`--throttle`), 500 when the handler fails, 503 when it takes too
//! long.

use std::collections::BTreeMap;
use std::time::Instant;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use function::http::{self as api, decode};
use http::{HeaderMap, Method, StatusCode, Uri};
use serde_json::json;
use telemetry::trace::{self, Trace};
use template::Route;

use crate::platform::Platform;
use crate::platform::clock::{now_ms, shown_ms};
use crate::world::functions::MAX_SYNC_PAYLOAD;

/// The largest body that API Gateway takes.
pub(crate) const MAX_BODY: usize = 10 * 1024 * 1024;
/// The id of the API in its metrics: its logical id in the template, as the alarm on it sees it.
pub const API_ID: &str = "HttpApi";

/// How loosely a route fits, and whether its method is `ANY`. The smallest rank wins.
type Rank = (u32, bool);

/// The best matching route, and the values of its `{…}` parts. Exact parts win over parameters, parameters over
/// `{proxy+}`, and a method over `ANY`.
fn find<'a>(routes: &'a [Route], method: &Method, path: &str) -> Option<(&'a Route, BTreeMap<String, String>)> {
    let mut best: Option<(Rank, &Route, BTreeMap<String, String>)> = None;
    for route in routes {
        if route.key == "$default" {
            if best.is_none() {
                best = Some(((u32::MAX, false), route, BTreeMap::new()));
            }
            continue;
        }
        let Some((wanted, pattern)) = route.key.split_once(' ') else { continue };
        if wanted != "ANY" && wanted != method.as_str() {
            continue;
        }
        if let Some((looseness, parameters)) = fits(pattern, path) {
            let rank = (looseness, wanted == "ANY");
            if best.as_ref().is_none_or(|(best, ..)| rank < *best) {
                best = Some((rank, route, parameters));
            }
        }
    }
    best.map(|(_, route, parameters)| (route, parameters))
}

fn fits(pattern: &str, path: &str) -> Option<(u32, BTreeMap<String, String>)> {
    let mut parameters = BTreeMap::new();
    let mut looseness = 0;
    let mut parts = path.trim_start_matches('/').split('/');
    for wanted in pattern.trim_start_matches('/').split('/') {
        if let Some(name) = wanted.strip_prefix('{').and_then(|name| name.strip_suffix("+}")) {
            let rest: Vec<&str> = parts.by_ref().collect();
            if rest.is_empty() || rest == [""] {
                return None;
            }
            parameters.insert(name.to_owned(), decode(&rest.join("/"), false));
            return Some((looseness + 1_000, parameters));
        }
        let part = parts.next()?;
        match wanted.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            Some(_) if part.is_empty() => return None,
            Some(name) => {
                parameters.insert(name.to_owned(), decode(part, false));
                looseness += 1;
            }
            None if wanted == part => {}
            None => return None,
        }
    }
    parts.next().is_none().then_some((looseness, parameters))
}

/// Answers a request through the function of its route.
pub(crate) async fn serve(
    platform: &Platform,
    method: Method,
    uri: &Uri,
    headers: &HeaderMap,
    peer: &str,
    body: Bytes,
) -> Response {
    let started = Instant::now();
    let Some((route, path_parameters)) = find(platform.routes(), &method, uri.path()) else {
        return said(StatusCode::NOT_FOUND, "Not Found");
    };
    if !platform.throttles().lets_through(&route.key) {
        platform.metrics().request(API_ID, StatusCode::TOO_MANY_REQUESTS.as_u16(), started.elapsed());
        return said(StatusCode::TOO_MANY_REQUESTS, "Too Many Requests");
    }
    let request_id = uuid::Uuid::new_v4().to_string();
    let trace = incoming_trace(headers);
    let mut flat: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        let known = flat.entry(name.as_str().to_owned()).or_default();
        if !known.is_empty() {
            known.push_str(if name == "cookie" { "; " } else { "," });
        }
        known.push_str(&value);
    }
    let forwarded = flat.entry("x-forwarded-for".to_owned()).or_default();
    if !forwarded.is_empty() {
        forwarded.push_str(", ");
    }
    forwarded.push_str(peer);
    flat.insert("x-forwarded-proto".to_owned(), "https".to_owned());
    flat.insert("x-forwarded-port".to_owned(), "443".to_owned());
    flat.insert(trace::HEADER.to_owned(), trace.header().to_owned());
    let request = api::Request {
        method: method.to_string(),
        path: uri.path().to_owned(),
        raw_query: uri.query().unwrap_or_default().to_owned(),
        headers: flat,
        path_parameters,
        body: body.to_vec(),
        source_ip: peer.to_owned(),
        request_id: request_id.clone(),
        time_epoch: now_ms(),
        route_key: route.key.clone(),
        stage: "$default".to_owned(),
    };
    let response = answer(platform, route, &request, &trace).await;
    let status = response.status().as_u16();
    platform.metrics().request(API_ID, status, started.elapsed());
    platform.live().tell(
        "request",
        json!({
            "method": method.as_str(), "path": uri.path(), "status": status, "function": route.function,
            "ms": shown_ms(started.elapsed()), "traceId": trace.id(),
        }),
    );
    response
}

async fn answer(platform: &Platform, route: &Route, request: &api::Request, trace: &Trace) -> Response {
    let event = request.to_event();
    if event.to_string().len() > MAX_SYNC_PAYLOAD {
        return said(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large");
    }
    let Some(function) = platform.functions().find(&route.function) else {
        tracing::error!(
            target: "local",
            route = route.key,
            function = route.function,
            "the route {} leads to the function {}, which does not exist", route.key, route.function
        );
        return said(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error");
    };
    let id = uuid::Uuid::new_v4().to_string();
    let work = platform.functions().invoke(&function, event, id, Some(trace.clone()));
    let Ok(invoked) = tokio::time::timeout(route.timeout, work).await else {
        return said(StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable");
    };
    let answer = match &invoked.outcome {
        Ok(value) => api::Response::from_value(value),
        Err(_) => return said(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"),
    };
    match answer {
        Ok(answer) => into_response(answer, &request.request_id),
        Err(error) => {
            tracing::error!(
                target: "local",
                function = route.function,
                request_id = request.request_id,
                error = %error,
                "API Gateway would not understand the answer of {} to request {}", route.function, request.request_id
            );
            said(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error")
        }
    }
}

fn into_response(answer: api::Response, request_id: &str) -> Response {
    let mut response = Response::builder().status(answer.status).header("apigw-requestid", request_id);
    let typed = answer.headers.contains_key("content-type");
    for (name, value) in &answer.headers {
        // The server sets these itself.
        if !matches!(name.as_str(), "content-length" | "transfer-encoding" | "connection") {
            response = response.header(name, value);
        }
    }
    if !typed {
        response = response.header("content-type", "text/plain;charset=UTF-8");
    }
    for cookie in &answer.cookies {
        response = response.header("set-cookie", cookie);
    }
    let made = response.body(axum::body::Body::from(answer.body));
    made.unwrap_or_else(|_| said(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"))
}

/// An answer of API Gateway itself.
fn said(status: StatusCode, message: &str) -> Response {
    (status, axum::Json(json!({"message": message}))).into_response()
}

/// The trace of the caller, or a new one in X-Ray's format.
pub(crate) fn incoming_trace(headers: &HeaderMap) -> Trace {
    let given = headers.get(trace::HEADER).and_then(|value| value.to_str().ok()).and_then(Trace::from_header);
    given.unwrap_or_else(|| {
        let root = format!("Root=1-{:08x}-{:024x}", now_ms() / 1_000, fastrand::u128(..) >> 32);
        Trace::from_header(&root).unwrap_or_else(|| Trace::of_request(&root))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn routes(keys: &[&str]) -> Vec<Route> {
        let route =
            |key: &&str| Route { key: (*key).to_owned(), function: (*key).to_owned(), timeout: Duration::from_secs(1) };
        keys.iter().map(route).collect()
    }

    #[test]
    fn the_most_exact_route_wins() {
        let routes = routes(&[
            "ANY /tokens/{proxy+}",
            "GET /tokens/transactions/{did}",
            "GET /tokens/transactions/received/{did}",
            "POST /tokens/transfer",
            "ANY /tokens/transfer",
        ]);
        for (method, path, expected) in [
            (Method::POST, "/tokens/transfer", Some("POST /tokens/transfer")),
            (Method::PUT, "/tokens/transfer", Some("ANY /tokens/transfer")),
            (Method::GET, "/tokens/transactions/did%3Aa", Some("GET /tokens/transactions/{did}")),
            (Method::GET, "/tokens/transactions/received/x", Some("GET /tokens/transactions/received/{did}")),
            (Method::GET, "/tokens/other/thing", Some("ANY /tokens/{proxy+}")),
            (Method::GET, "/tokens", None),
            (Method::GET, "/tokens/", None),
            (Method::GET, "/elsewhere", None),
        ] {
            assert_eq!(find(&routes, &method, path).map(|(route, _)| route.key.as_str()), expected, "{method} {path}");
        }
    }

    #[test]
    fn parameters_are_decoded() {
        let routes = routes(&["GET /tokens/balance/{did}", "ANY /files/{proxy+}"]);
        let (_, parameters) = find(&routes, &Method::GET, "/tokens/balance/did%3Aexample%3Aalice").expect("a route");
        assert_eq!(parameters["did"], "did:example:alice");
        let (_, parameters) = find(&routes, &Method::GET, "/files/a/b%20c").expect("a route");
        assert_eq!(parameters["proxy"], "a/b c");
    }

    #[test]
    fn the_default_route_takes_what_no_other_takes() {
        let routes = routes(&["$default", "GET /a"]);
        assert_eq!(find(&routes, &Method::GET, "/a").map(|(route, _)| route.key.as_str()), Some("GET /a"));
        assert_eq!(find(&routes, &Method::GET, "/b").map(|(route, _)| route.key.as_str()), Some("$default"));
    }

    #[test]
    fn a_request_without_a_trace_gets_one_that_x_ray_would_accept() {
        let trace = incoming_trace(&HeaderMap::new());
        let parts: Vec<&str> = trace.id().split('-').collect();
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [1, 8, 24]);
    }
}
