//! The `Idempotency-Key` header: whose key it is, and which responses are kept.

use std::collections::HashMap;
use std::convert::Infallible;

use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use ichido::http::{Decided, HEADER, IdempotencyLayer};
use ichido::{DigestKey, Namespace, OnDoubt};
use tower::{Layer as _, Service, ServiceExt as _};

use crate::naive::Effects;
use crate::support::*;

/// The layer with the caller as its scope.
fn layer(db: &testkit::Dynamo) -> IdempotencyLayer<Decided> {
    let scope = |request: &axum::http::request::Parts| {
        let user = request.headers.get("x-user").ok_or(StatusCode::UNAUTHORIZED)?;
        Ok([user.to_str().map_err(|_| StatusCode::UNAUTHORIZED)?.to_owned()])
    };
    IdempotencyLayer::new(instance(db), Namespace::new("orders").lease(LEASE), DigestKey::new(b"secret"), scope)
        .on_doubt(OnDoubt::Repeat)
}

/// The status and the body that this user gets.
async fn send<S, B>(service: &S, user: &str, body: &'static str) -> (u16, String)
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone,
    B: axum::body::HttpBody<Data = axum::body::Bytes, Error: std::fmt::Debug>,
{
    use http_body_util::BodyExt as _;
    let request =
        Request::post("/orders").header("x-user", user).header(HEADER, "key-1").body(Body::from(body)).unwrap();
    let response = service.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    (status, String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().into()).unwrap())
}

/// Says to whom an order belongs, and takes this status from a list, one per call.
fn order(
    effects: &Effects,
    statuses: &'static [u16],
) -> impl Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone + Send + use<> {
    let effects = effects.clone();
    tower::service_fn(move |request: Request<Body>| {
        let status = statuses[effects.count("ordered") % statuses.len()];
        effects.happen("ordered");
        let text = format!("the order of {}", request.headers()["x-user"].to_str().unwrap());
        async move { Ok(Response::builder().status(status).body(Body::from(text)).unwrap()) }
    })
}

#[tokio::test]
async fn two_callers_with_the_same_key_do_not_get_each_others_response() {
    let mut responses = HashMap::new();
    let mut naive =
        |user: &str, key: &'static str| responses.entry(key).or_insert(format!("the order of {user}")).clone();
    naive("alice", "key-1");
    assert_eq!(naive("mallory", "key-1"), "the order of alice", "the naive form: the header is the key");

    let (db, effects) = (dynamo(), Effects::default());
    let service = layer(&db).layer(order(&effects, &[201]));
    assert_eq!(send(&service, "alice", "{}").await.1, "the order of alice");
    assert_eq!(send(&service, "mallory", "{}").await.1, "the order of mallory");
    assert_eq!(send(&service, "alice", "{}").await.1, "the order of alice");
    assert_eq!(effects.taken(), 2);
}

#[tokio::test]
async fn a_failure_of_the_server_is_not_replayed() {
    let statuses = [503, 201];
    let mut responses = HashMap::new();
    let naive = statuses.map(|status| *responses.entry("key-1").or_insert(status));
    assert_eq!(naive, [503, 503], "the naive form: whoever comes again gets the failure again");

    let (db, effects) = (dynamo(), Effects::default());
    let service = layer(&db).layer(order(&effects, &[503, 201]));
    let mut got = Vec::new();
    for _ in 0..3 {
        got.push(send(&service, "alice", "{}").await.0);
    }
    assert_eq!(got, [503, 201, 201]);
    assert_eq!(effects.taken(), 2);
}

#[tokio::test]
async fn a_body_in_another_order_is_refused_and_not_done_again() {
    let (db, effects) = (dynamo(), Effects::default());
    let service = layer(&db).layer(order(&effects, &[201]));
    assert_eq!(send(&service, "alice", r#"{"order": "A1", "amount": 100}"#).await.0, 201);
    // Bodies are compared as they are, unless the layer is told which fields count (`compare`).
    assert_eq!(send(&service, "alice", r#"{"amount": 100, "order": "A1"}"#).await.0, 422);
    assert_eq!(effects.taken(), 1);
}
