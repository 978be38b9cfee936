//! Lets in only who knows the address. For a console that shows an environment with somebody's own credentials.
//!
//! Promise: a request is answered only if its `Host` and `Origin` are loopback ([`loopback`]) and its path begins with the token. Whoever
//! does not know the token learns nothing, not even which pages there are. No answer is kept by a cache.

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::header::CACHE_CONTROL;
use http::uri::PathAndQuery;
use http::{HeaderValue, StatusCode, Uri};
use serde_json::json;
use tower::ServiceExt;

/// `router`, mounted below `/TOKEN/`. `program` is named in refusals.
pub fn guarded(router: Router, token: &str, program: &'static str) -> Router {
    let prefix = format!("/{token}/");
    Router::new().fallback(move |request: Request| {
        let (router, prefix) = (router.clone(), prefix.clone());
        async move { admit(router, &prefix, program, request).await }
    })
}

async fn admit(router: Router, prefix: &str, program: &str, mut request: Request) -> Response {
    if let Err(why) = loopback::check(request.uri(), request.headers()) {
        let message =
            format!("refused: {why}; {program} answers only requests whose Host and Origin are loopback addresses");
        return said(StatusCode::FORBIDDEN, &message);
    }
    let Some(inside) = below(request.uri(), prefix) else {
        return said(StatusCode::NOT_FOUND, &format!("there is nothing here; open the address that {program} printed"));
    };
    *request.uri_mut() = inside;
    let mut response = match router.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The address without the prefix; `None` if it does not begin with it.
fn below(uri: &Uri, prefix: &str) -> Option<Uri> {
    let (given, rest) = uri.path().as_bytes().split_at_checked(prefix.len())?;
    // Every byte is looked at, so that the time tells nothing about the token.
    let differs = given.iter().zip(prefix.bytes()).fold(0, |differs, (given, wanted)| differs | (given ^ wanted));
    if differs != 0 {
        return None;
    }
    let path = std::str::from_utf8(rest).ok()?;
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let inside: PathAndQuery = format!("/{path}{query}").parse().ok()?;
    Some(Uri::from(inside))
}

fn said(status: StatusCode, message: &str) -> Response {
    (status, [(CACHE_CONTROL, "no-store")], axum::Json(json!({"message": message}))).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::get;

    use super::*;

    async fn ask(path: &str, host: &str, origin: Option<&str>) -> (u16, String) {
        let inner = Router::new()
            .route("/", get(|| async { "home" }))
            .route("/keys/{key}", get(|uri: Uri| async move { uri.to_string() }));
        let mut request = Request::get(path).header("host", host);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let request = request.body(Body::empty()).expect("a request");
        let response = guarded(inner, "t0ken", "the test").oneshot(request).await.expect("an answer");
        let status = response.status().as_u16();
        assert_eq!(response.headers().get(CACHE_CONTROL).expect("a header"), "no-store");
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("a body");
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    #[tokio::test]
    async fn only_who_knows_the_token_is_answered() {
        let here = "127.0.0.1:1";
        assert_eq!(ask("/t0ken/", here, None).await, (200, "home".to_owned()));
        assert_eq!(ask("/t0ken/keys/a%2Fb?c=1", here, None).await, (200, "/keys/a%2Fb?c=1".to_owned()));
        for path in ["/", "/t0ken", "/t0kex/", "/T0KEN/", "/keys/a", "/t0ke/n/", "/x/t0ken/"] {
            let (status, said) = ask(path, here, None).await;
            assert_eq!((status, said.contains("home")), (404, false), "{path}");
        }
    }

    #[tokio::test]
    async fn a_foreign_host_or_page_is_refused_even_with_the_token() {
        assert_eq!(ask("/t0ken/", "localhost:1", Some("http://localhost:1")).await.0, 200);
        assert_eq!(ask("/t0ken/", "rebound.example", None).await.0, 403);
        assert_eq!(ask("/t0ken/", "127.0.0.1:1", Some("https://evil.example")).await.0, 403);
        assert_eq!(ask("/t0ken/", "127.0.0.1:1", Some("null")).await.0, 403);
    }
}
