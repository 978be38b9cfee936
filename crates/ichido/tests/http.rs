//! The layer for HTTP: what a client gets, whatever happens to it, to the handler and to the store.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::{
    CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, SET_COOKIE,
};
use axum::http::{Method, Request, Response, StatusCode};
use axum::routing::post;
use axum::{Extension, Router};
use futures::FutureExt as _;
use ichido::http::{Decided, HEADER, IdempotencyLayer, MAX_BODY_BYTES, Meaning, RECORDED, REPLAYED};
use ichido::record::MAX_OUTCOME_BYTES;
use ichido::{Claim, DigestKey, MAX_CLOCK_SKEW, Namespace, OnDoubt, Once, Outage, Probed, State as RecordState};
use serde_json::{Value, json};
use testkit::faults::{Fault, Rule};
use testkit::{Dynamo, interrupt};
use tokio::sync::Notify;
use tower::util::BoxCloneSyncService;
use tower::{Layer as _, Service as _, ServiceExt as _};

mod support;
use support::{LEASE, Reported, dynamo, instance};

/// A body as hyper hands it over: frames that come one by one.
struct Frames(Vec<Result<&'static [u8], &'static str>>);

impl axum::body::HttpBody for Frames {
    type Data = Bytes;
    type Error = String;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, String>>> {
        if self.0.is_empty() {
            return Poll::Ready(None);
        }
        let frame = self.0.remove(0);
        Poll::Ready(Some(frame.map(|data| http_body::Frame::data(Bytes::from_static(data))).map_err(str::to_owned)))
    }
}

type Body = axum::body::Body;
type Served = BoxCloneSyncService<Request<Body>, Response<ichido::http::ReplayBody<Body>>, Infallible>;

/// What a client sees.
#[derive(Debug, Clone, PartialEq)]
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn header(&self, name: impl Into<String>) -> Option<&str> {
        self.headers.get(name.into().as_str()).map(|value| value.to_str().unwrap())
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    /// The end of the problem's type. Checks the form of a problem on the way.
    fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let body = self.json();
        assert_eq!(body["status"], self.status);
        assert!(body["title"].is_string() && body["detail"].is_string(), "{body}");
        body["type"].as_str().unwrap().strip_prefix("urn:ichido:http:").unwrap().to_owned()
    }

    fn is_replay(&self) -> bool {
        self.header(REPLAYED) == Some("true")
    }
}

async fn send(service: &Served, request: Request<Body>) -> Answer {
    let response = service.clone().oneshot(request).await.unwrap();
    answer(response).await
}

async fn answer<B>(response: Response<B>) -> Answer
where
    B: axum::body::HttpBody<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    use http_body_util::BodyExt as _;
    let (parts, body) = response.into_parts();
    Answer { status: parts.status.as_u16(), headers: parts.headers, body: body.collect().await.unwrap().to_bytes() }
}

/// A payment by Alice.
fn payment(key: &str, body: impl Into<Body>) -> Request<Body> {
    request("alice", key, body)
}

fn request(user: &str, key: &str, body: impl Into<Body>) -> Request<Body> {
    Request::post("/payments").header("x-user", user).header(HEADER, key).body(body.into()).unwrap()
}

fn payments() -> Namespace {
    Namespace::new("payments").lease(LEASE)
}

fn undecided(once: &Once) -> IdempotencyLayer {
    named(once, payments())
}

fn named(once: &Once, namespace: Namespace) -> IdempotencyLayer {
    IdempotencyLayer::new(once.clone(), namespace, DigestKey::new(b"secret"), |request| {
        let user = request.headers.get("x-user").ok_or(StatusCode::UNAUTHORIZED)?;
        Ok([user.to_str().map_err(|_| StatusCode::UNAUTHORIZED)?.to_owned()])
    })
}

fn layer(once: &Once) -> IdempotencyLayer<Decided> {
    undecided(once).on_doubt(OnDoubt::Refuse)
}

fn serve<F, Fut>(layer: &IdempotencyLayer<Decided>, handler: F) -> Served
where
    F: Fn(Request<Body>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Response<Body>> + Send + 'static,
{
    let handler = tower::service_fn(move |request| {
        let answering = handler(request);
        async move { Ok(answering.await) }
    });
    BoxCloneSyncService::new(layer.layer(handler))
}

/// What was charged, in order.
#[derive(Clone, Default)]
struct Charges(Arc<Mutex<Vec<String>>>);

impl Charges {
    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn add(&self, what: impl Into<String>) -> usize {
        let mut charges = self.0.lock().unwrap();
        charges.push(what.into());
        charges.len()
    }

    async fn charge(&self, request: Request<Body>) -> Response<Body> {
        let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
        let number = self.add(String::from_utf8_lossy(&body));
        created(number)
    }

    fn serve(&self, layer: &IdempotencyLayer<Decided>) -> Served {
        let charges = self.clone();
        serve(layer, move |request| {
            let charges = charges.clone();
            async move { charges.charge(request).await }
        })
    }
}

fn created(number: usize) -> Response<Body> {
    let response = Response::builder().status(201).header(CONTENT_TYPE, "application/json");
    response.header(LOCATION, format!("/payments/{number}")).body(format!("{{\"id\":{number}}}").into()).unwrap()
}

fn status(status: u16) -> Response<Body> {
    Response::builder().status(status).body(Body::from(format!("status {status}"))).unwrap()
}

/// Lets every task go on as far as it can.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

// Replays

#[tokio::test]
async fn a_duplicate_gets_the_same_status_headers_and_body_and_the_handler_runs_once() {
    let db = dynamo();
    let charges = Charges::default();
    let service = charges.serve(&layer(&instance(&db)));
    let first = send(&service, payment("k1", "100 yen")).await;
    assert_eq!((first.status, &*first.body), (201, &b"{\"id\":1}"[..]));
    assert_eq!((first.header("location"), first.header(REPLAYED)), (Some("/payments/1"), None));
    // On this instance and on another one.
    for service in [&service, &charges.serve(&layer(&instance(&db)))] {
        let mut again = send(service, payment("k1", "100 yen")).await;
        assert!(again.is_replay());
        again.headers.remove(REPLAYED);
        assert_eq!(again, first);
    }
    assert_eq!(charges.count(), 1);
    assert_eq!(send(&service, payment("k2", "100 yen")).await.json()["id"], 2, "another key is another payment");
}

#[tokio::test]
async fn binary_bodies_and_every_header_on_the_list_are_replayed_byte_for_byte_and_cookies_never() {
    let all: Vec<u8> = (0..=255).collect();
    for body in [Vec::new(), all.clone(), all.repeat(100), vec![0xff; 7], "あ\u{0}\"\\".into()] {
        let db = dynamo();
        let made = body.clone();
        let layer =
            layer(&instance(&db)).keep_headers([HeaderName::from_static("x-receipt"), SET_COOKIE, CONTENT_LENGTH]);
        let service = serve(&layer, move |_| {
            let response = Response::builder().status(202).header(CONTENT_TYPE, "application/x-binary");
            let response = response.header(ETAG, "\"v1\"").header("x-receipt", "r1").header("x-receipt", "r2");
            let odd = HeaderValue::from_bytes(b"/p/\xe9").unwrap();
            let response = response.header(LOCATION, odd).header(SET_COOKIE, "session=alice").header("x-trace", "t1");
            let response = response.body(Body::from(made.clone())).unwrap();
            async move { response }
        });
        let first = send(&service, payment("k", "x")).await;
        assert_eq!(first.header("set-cookie"), Some("session=alice"));
        assert_eq!(first.body, body);
        let mut again = send(&service, payment("k", "x")).await;
        assert!(again.is_replay());
        again.headers.remove(REPLAYED);
        let mut kept = first.clone();
        kept.headers.remove(SET_COOKIE);
        kept.headers.remove("x-trace");
        assert_eq!(again, kept);
    }
}

#[tokio::test]
async fn a_key_is_the_same_with_quotes_and_without() {
    let db = dynamo();
    let service = Charges::default().serve(&layer(&instance(&db)));
    let first = send(&service, payment("8e03978e-40d5", "x")).await;
    let again = send(&service, payment("\"8e03978e-40d5\"", "x")).await;
    assert_eq!((again.is_replay(), again.body), (true, first.body));
}

#[tokio::test]
async fn a_response_above_the_limit_reaches_its_client_whole_and_is_replayed_without_its_body() {
    let db = dynamo();
    let large = vec![b'x'; 3 * MAX_OUTCOME_BYTES];
    let made = large.clone();
    let service = serve(&layer(&instance(&db)), move |_| {
        let chunks: Vec<_> =
            made.chunks(1000).map(|chunk| Ok::<_, Infallible>(Bytes::copy_from_slice(chunk))).collect();
        let body = Body::from_stream(futures::stream::iter(chunks));
        let response =
            Response::builder().status(201).header(LOCATION, "/p/1").header(ETAG, "\"v1\"").body(body).unwrap();
        async move { response }
    });
    assert_eq!(send(&service, payment("k", "x")).await.body, large);
    let again = send(&service, payment("k", "x")).await;
    // A client that only looks at the status must not conclude that nothing was done.
    assert_eq!((again.status, again.is_replay(), again.problem().as_str()), (201, true, "body-not-kept"));
    assert_eq!((again.header("location"), again.header("etag")), (Some("/p/1"), None));
}

#[tokio::test]
async fn a_record_without_a_response_is_500_and_nothing_is_done() {
    let db = dynamo();
    let once = instance(&db);
    let charges = Charges::default();
    let service = charges.serve(&layer(&once));
    // A mark made this record, and a `run` of another kind made that one.
    once.mark(&payments().key(["alice", "marked"]).unwrap()).await.unwrap();
    let foreign = payments().key(["alice", "foreign"]).unwrap();
    support::run(&once, &foreign, "not a response").await.unwrap();
    for key in ["marked", "foreign"] {
        let answer = send(&service, payment(key, "x")).await;
        assert_eq!(
            (answer.status, answer.problem().as_str(), answer.header("retry-after")),
            (500, "no-response", None)
        );
    }
    assert_eq!(charges.count(), 0);
}

// The header

#[tokio::test]
async fn hostile_keys_are_400_and_reach_neither_handler_nor_store() {
    let db = dynamo();
    let charges = Charges::default();
    for layer in [layer(&instance(&db)), layer(&instance(&db)).optional()] {
        let service = charges.serve(&layer);
        let long = "k".repeat(10_240);
        let hostile: [&[u8]; 14] = [
            b"",
            b"   ",
            b"\"\"",
            b"\"abc",
            b"\"",
            b"\"a\" \"b\"",
            b"\"a\";x=1",
            b"\"a\\x\"",
            b"a b",
            b"a\tb",
            b"\x80\xff",
            "ключ".as_bytes(),
            long.as_bytes(),
            &long.as_bytes()[..256],
        ];
        for value in hostile {
            let mut request = payment("k", "x");
            request.headers_mut().insert(HEADER, HeaderValue::from_bytes(value).unwrap());
            let answer = send(&service, request).await;
            assert_eq!((answer.status, answer.problem().as_str()), (400, "key-invalid"), "{value:?}");
        }
        let mut twice = payment("k", "x");
        twice.headers_mut().append(HEADER, HeaderValue::from_static("k"));
        assert_eq!(send(&service, twice).await.problem(), "key-invalid", "even if both are the same");
        assert_eq!(send(&service, payment(&long[..255], "x")).await.status, 201, "the longest key is a key");
    }
    assert_eq!(charges.count(), 1, "only the longest key was worked on, and once");
    assert_eq!(db.calls().total(), 3);
}

#[tokio::test]
async fn a_missing_key_is_400_where_it_is_required_and_passes_where_it_is_optional() {
    let db = dynamo();
    let charges = Charges::default();
    let bare = || Request::post("/payments").header("x-user", "alice").body(Body::from("x")).unwrap();
    let required = charges.serve(&layer(&instance(&db)));
    let answer = send(&required, bare()).await;
    assert_eq!((answer.status, answer.problem().as_str(), charges.count()), (400, "key-missing", 0));
    let optional = charges.serve(&layer(&instance(&db)).optional());
    for number in 1..=2 {
        let answer = send(&optional, bare()).await;
        assert_eq!((answer.status, answer.json()["id"].clone()), (201, json!(number)));
    }
    assert_eq!(send(&charges.serve(&layer(&instance(&db)).optional().required()), bare()).await.status, 400);
    assert_eq!(db.calls().total(), 0);
}

#[tokio::test]
async fn safe_methods_pass_untouched_and_their_bodies_are_not_read() {
    let db = dynamo();
    let service = serve(&layer(&instance(&db)), |_| async {
        // It never ends, so nobody may wait for its end.
        let first = futures::stream::iter([Ok::<_, Infallible>("first")]);
        Response::new(Body::from_stream(futures::StreamExt::chain(first, futures::stream::pending())))
    });
    for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE] {
        let request = Request::builder().method(method).header(HEADER, "k").body(Body::empty()).unwrap();
        let response = service.clone().oneshot(request).await.unwrap();
        let frame = http_body_util::BodyExt::frame(&mut Box::pin(response.into_body())).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "first");
    }
    assert_eq!(db.calls().total(), 0);
}

// Callers

#[tokio::test]
async fn two_callers_with_the_same_key_do_not_meet() {
    let db = dynamo();
    let charges = Charges::default();
    let service = charges.serve(&layer(&instance(&db)));
    for (user, id) in [("alice", 1), ("bob", 2), ("alice", 1), ("bob", 2), ("alice#k", 3)] {
        assert_eq!(send(&service, request(user, "k", format!("by {user}"))).await.json()["id"], id);
    }
    // The separator of keys inside a name or a key does not make them meet either.
    assert_eq!(send(&service, request("alice", "k#k", "by alice#k")).await.json()["id"], 4);
    assert_eq!(charges.count(), 4);
}

#[tokio::test]
async fn a_request_whose_caller_is_not_known_is_refused() {
    let db = dynamo();
    let charges = Charges::default();
    let service = charges.serve(&layer(&instance(&db)));
    let anonymous = Request::post("/payments").header(HEADER, "k").body(Body::from("x")).unwrap();
    assert_eq!(send(&service, anonymous).await.status, 401);
    // A scope that names nobody, or an empty name, would make all callers one.
    assert_eq!(send(&service, request("", "k", "x")).await.problem(), "internal");
    let nobody = IdempotencyLayer::new(instance(&db), payments(), DigestKey::new(b"s"), |_| Ok(Vec::<String>::new()));
    let nobody = charges.serve(&nobody.on_doubt(OnDoubt::Repeat));
    assert_eq!(send(&nobody, payment("k", "x")).await.problem(), "internal");
    // A namespace whose keys have one part has no place for the caller.
    let unprefixed = named(&instance(&db), Namespace::unprefixed("payments")).on_doubt(OnDoubt::Repeat);
    assert_eq!(send(&charges.serve(&unprefixed), payment("k", "x")).await.problem(), "internal");
    let far_too_long = "a".repeat(1024);
    assert_eq!(send(&service, request(&far_too_long, "k", "x")).await.problem(), "key-invalid");
    assert_eq!((charges.count(), db.calls().total()), (0, 0));
}

// Payloads

#[tokio::test]
async fn the_same_key_with_a_different_request_is_422_and_names_the_fields() {
    let db = dynamo();
    let charges = Charges::default();
    let service = charges.serve(&layer(&instance(&db)));
    let of = |method: Method, uri: &str, body: &'static str| {
        let request = Request::builder().method(method).uri(uri).header("x-user", "alice").header(HEADER, "k");
        request.body(Body::from(body)).unwrap()
    };
    let first = send(&service, of(Method::POST, "/payments?test=1", "100")).await;
    for (other, fields) in [
        (of(Method::POST, "/payments?test=1", "101"), json!(["body"])),
        (of(Method::PUT, "/payments?test=1", "100"), json!(["method"])),
        (of(Method::POST, "/refunds?test=1", "100"), json!(["path"])),
        (of(Method::POST, "/payments", "100"), json!(["query"])),
        (of(Method::PATCH, "/refunds", "7"), json!(["body", "method", "path", "query"])),
    ] {
        let answer = send(&service, other).await;
        assert_eq!((answer.status, answer.problem().as_str()), (422, "mismatch"));
        assert_eq!(answer.json()["fields"], fields);
    }
    assert_eq!(send(&service, of(Method::POST, "/payments?test=1", "100")).await.body, first.body);
    assert_eq!(charges.count(), 1);
}

#[tokio::test]
async fn a_closure_names_the_fields_that_are_compared_beside_method_and_path() {
    let db = dynamo();
    let charges = Charges::default();
    let service = charges.serve(&layer(&instance(&db)).compare(|_, body, digests| {
        let payment: Value = serde_json::from_slice(body).unwrap_or_default();
        digests.field("amount", payment["amount"].to_string()).field("to", payment["to"].to_string())
    }));
    send(&service, payment("k", r#"{"amount": 100, "to": "bob", "note": "a"}"#)).await;
    let same = send(&service, payment("k", r#"{"to":"bob","amount":100}"#)).await;
    assert!(same.is_replay(), "what is not compared may differ");
    let other = send(&service, payment("k", r#"{"amount": 101, "to": "eve"}"#)).await;
    assert_eq!((other.status, other.json()["fields"].clone()), (422, json!(["amount", "to"])));
    let mut refund = payment("k", r#"{"amount": 100, "to": "bob"}"#);
    *refund.uri_mut() = "/refunds".parse().unwrap();
    assert_eq!(send(&service, refund).await.json()["fields"], json!(["path"]));
    assert_eq!(charges.count(), 1);
}

#[tokio::test]
async fn a_body_may_have_exactly_as_many_bytes_as_the_limit() {
    let db = dynamo();
    let charges = Charges::default();
    let once = instance(&db);
    let service = charges.serve(&layer(&once));
    assert_eq!(send(&service, payment("at", vec![b'x'; MAX_BODY_BYTES])).await.status, 201);
    let above = send(&service, payment("above", vec![b'x'; MAX_BODY_BYTES + 1])).await;
    assert_eq!((above.status, above.problem().as_str()), (413, "body-too-large"));
    // A body that does not say how long it is.
    let service = charges.serve(&layer(&once).max_body(4));
    let frames = |frames: &[&'static [u8]]| Body::new(Frames(frames.iter().copied().map(Ok).collect()));
    assert_eq!(send(&service, payment("b1", frames(&[b"ab", b"cd"]))).await.status, 201);
    assert_eq!(send(&service, payment("b2", frames(&[b"ab", b"", b"cde"]))).await.status, 413);
    assert_eq!(*charges.0.lock().unwrap().last().unwrap(), "abcd", "the handler gets the whole body");
    assert_eq!(charges.count(), 2);
}

#[tokio::test]
async fn an_upload_that_breaks_off_claims_nothing() {
    let db = dynamo();
    let charges = Charges::default();
    let service = charges.serve(&layer(&instance(&db)));
    let broken = Body::new(Frames(vec![Ok(b"1"), Err("connection reset")]));
    let answer = send(&service, payment("k", broken)).await;
    assert_eq!((answer.status, answer.problem().as_str()), (400, "body-unreadable"));
    assert_eq!(db.calls().total(), 0);
    assert_eq!(send(&service, payment("k", "100")).await.status, 201, "the whole upload is no duplicate");
}

// Two at once

/// A handler that waits for a sign, and says when it has begun.
fn slow(layer: &IdempotencyLayer<Decided>, charges: &Charges) -> (Served, Arc<Notify>, Arc<Notify>) {
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (charges, has_begun, may_go_on) = (charges.clone(), begun.clone(), go_on.clone());
    let service = serve(layer, move |request| {
        let (charges, begun, go_on) = (charges.clone(), has_begun.clone(), may_go_on.clone());
        async move {
            begun.notify_one();
            go_on.notified().await;
            charges.charge(request).await
        }
    });
    (service, begun, go_on)
}

#[tokio::test]
async fn a_duplicate_of_a_request_in_flight_is_409_until_the_lease_ends() {
    let db = dynamo();
    let charges = Charges::default();
    let (service, begun, go_on) = slow(&layer(&instance(&db)), &charges);
    let other_instance = charges.serve(&layer(&instance(&db)));
    let first = tokio::spawn({
        let service = service.clone();
        async move { send(&service, payment("k", "x")).await }
    });
    begun.notified().await;
    for service in [&service, &other_instance] {
        let answer = send(service, payment("k", "x")).await;
        assert_eq!((answer.status, answer.problem().as_str()), (409, "in-flight"));
        assert_eq!(answer.header(RETRY_AFTER.as_str()), Some("32"), "the lease, and the clocks' difference");
    }
    db.clock().advance(LEASE + MAX_CLOCK_SKEW - Duration::from_millis(1));
    assert_eq!(send(&service, payment("k", "x")).await.header("retry-after"), Some("1"), "never less than a second");
    go_on.notify_one();
    let first = first.await.unwrap();
    assert_eq!(send(&other_instance, payment("k", "x")).await.body, first.body);
    assert_eq!(charges.count(), 1);
}

#[tokio::test]
async fn a_duplicate_that_waits_gets_the_response_of_the_first() {
    let db = dynamo();
    let charges = Charges::default();
    let (service, begun, go_on) = slow(&layer(&instance(&db)).wait(Duration::from_secs(5)), &charges);
    let spawn = || {
        let service = service.clone();
        tokio::spawn(async move { send(&service, payment("k", "x")).await })
    };
    let first = spawn();
    begun.notified().await;
    let second = spawn();
    while db.clock().sleepers() == 0 {
        tokio::task::yield_now().await;
    }
    go_on.notify_one();
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert_eq!((first.is_replay(), second.is_replay()), (false, true));
    assert_eq!((first.body, charges.count()), (second.body, 1));
}

#[tokio::test]
async fn of_a_hundred_at_once_one_works() {
    let db = dynamo();
    let charges = Charges::default();
    let instances = [instance(&db), instance(&db)].map(|once| charges.serve(&layer(&once)));
    let all = (0..100).map(|at| send(&instances[at % 2], payment("k", "x")));
    let answers = futures::future::join_all(all).await;
    for answer in &answers {
        assert!(answer.status == 201 || answer.status == 409, "{answer:?}");
    }
    assert_eq!(answers.iter().filter(|answer| answer.status == 201 && !answer.is_replay()).count(), 1);
    assert_eq!(charges.count(), 1);
}

// Whatever happens to the client and the handler

#[tokio::test]
async fn a_client_that_disconnects_does_not_stop_the_work_and_its_retry_gets_the_response() {
    let db = dynamo();
    let charges = Charges::default();
    let (service, begun, go_on) = slow(&layer(&instance(&db)), &charges);
    let mut request = Box::pin(service.clone().oneshot(payment("k", "x")));
    tokio::select! {
        _ = &mut request => panic!("the handler waits"),
        () = begun.notified() => drop(request),
    }
    assert_eq!(send(&service, payment("k", "x")).await.status, 409, "it is still being worked on");
    go_on.notify_one();
    settle().await;
    assert_eq!(charges.count(), 1);
    let again = send(&service, payment("k", "x")).await;
    assert_eq!((again.status, again.is_replay(), charges.count()), (201, true, 1));
}

#[tokio::test]
async fn a_client_that_disconnects_during_the_upload_leaves_nothing_behind() {
    let db = dynamo();
    let charges = Charges::default();
    let service = charges.serve(&layer(&instance(&db)));
    let endless = Body::from_stream(futures::stream::pending::<Result<Bytes, Infallible>>());
    assert!(service.clone().oneshot(payment("k", endless)).now_or_never().is_none());
    settle().await;
    assert_eq!((db.calls().total(), charges.count()), (0, 0));
    assert_eq!(send(&service, payment("k", "x")).await.status, 201);
}

#[tokio::test]
async fn a_handler_that_panics_is_500_and_leaves_a_doubt() {
    let db = dynamo();
    let charges = Charges::default();
    let once = instance(&db);
    let panics = {
        let charges = charges.clone();
        move |_: Request<Body>| {
            charges.add("charged, then panicked");
            async { panic!("a bug after the charge") }
        }
    };
    let panicking = serve(&layer(&once), panics);
    let answer = send(&panicking, payment("k", "x")).await;
    assert_eq!((answer.status, answer.problem().as_str(), answer.header("retry-after")), (500, "internal", None));
    settle().await;
    // Who cannot ask refuses; who accepts a repetition repeats; who can ask finds out.
    let refusing = send(&charges.serve(&layer(&once)), payment("k", "x")).await;
    assert_eq!((refusing.status, refusing.problem().as_str()), (500, "doubtful"));
    assert_eq!(charges.count(), 1);
    let asking = undecided(&once).probe(|request, claim| async move {
        assert_eq!((request.uri().path(), &**request.body()), ("/payments", &b"x"[..]));
        assert_eq!(claim.key().as_str(), "payments#alice#k");
        let found = Response::builder().status(201).header(LOCATION, "/payments/1").body(Bytes::from("found")).unwrap();
        Ok::<_, Infallible>(Probed::Done(found))
    });
    let found = send(&charges.serve(&asking), payment("k", "x")).await;
    assert_eq!((found.status, &*found.body, found.header("location")), (201, &b"found"[..], Some("/payments/1")));
    assert!(found.is_replay(), "an earlier request had the effect");
    assert_eq!(send(&panicking, payment("k", "x")).await.body, found.body);
    assert_eq!(charges.count(), 1);
}

#[tokio::test]
async fn a_doubt_is_repeated_where_the_layer_says_so_and_a_failing_probe_is_503() {
    let db = dynamo();
    let charges = Charges::default();
    let once = instance(&db);
    let failing = serve(&layer(&once), |_| async { status(502) });
    assert_eq!(send(&failing, payment("k", "x")).await.status, 502);
    let silent = undecided(&once).probe(|_, _| async { Err::<Probed<Response<Bytes>>, _>("the bank is silent") });
    let answer = send(&charges.serve(&silent), payment("k", "x")).await;
    assert_eq!(
        (answer.status, answer.problem().as_str(), answer.header("retry-after")),
        (503, "unavailable", Some("1"))
    );
    assert!(!String::from_utf8_lossy(&answer.body).contains("bank"), "our inside stays inside");
    assert_eq!(charges.count(), 0);
    let repeating = undecided(&once).on_doubt(OnDoubt::Repeat);
    assert_eq!(send(&charges.serve(&repeating), payment("k", "x")).await.status, 201);
    assert_eq!(charges.count(), 1);
}

#[tokio::test]
async fn an_error_of_the_handler_is_passed_on_and_leaves_a_doubt() {
    let db = dynamo();
    let layer = layer(&instance(&db));
    let failing = tower::service_fn(|_: Request<Body>| async { Err::<Response<Body>, _>("out of memory") });
    let failing = layer.layer(failing);
    assert_eq!(failing.oneshot(payment("k", "x")).await.unwrap_err(), "out of memory");
    let again = send(&Charges::default().serve(&layer), payment("k", "x")).await;
    assert_eq!(again.problem(), "doubtful");
}

#[tokio::test]
async fn a_response_whose_body_breaks_off_leaves_a_doubt() {
    let db = dynamo();
    let layer = layer(&instance(&db));
    let breaking = serve(&layer, |_| async { Response::new(Body::new(Frames(vec![Ok(b"{"), Err("lost")]))) });
    assert_eq!(send(&breaking, payment("k", "x")).await.problem(), "internal");
    assert_eq!(send(&Charges::default().serve(&layer), payment("k", "x")).await.problem(), "doubtful");
}

#[tokio::test]
async fn a_handler_that_outlives_its_lease_gives_the_outcome_that_counts() {
    let db = dynamo();
    let charges = Charges::default();
    let repeating = |once: &Once| undecided(once).on_doubt(OnDoubt::Repeat);
    let (late, begun, go_on) = slow(&repeating(&instance(&db)), &charges);
    let late = tokio::spawn(async move { send(&late, payment("k", "x")).await });
    begun.notified().await;
    db.clock().advance(LEASE + MAX_CLOCK_SKEW);
    let successor = send(&charges.serve(&repeating(&instance(&db))), payment("k", "x")).await;
    go_on.notify_one();
    let late = late.await.unwrap();
    assert_eq!((late.is_replay(), late.body), (true, successor.body));
    assert_eq!(charges.count(), 2, "without a probe, a lease that is too short repeats the effect");
}

#[tokio::test]
async fn a_claim_is_kept_alive_beyond_its_lease_and_a_handler_that_loses_it_is_cancelled() {
    let db = dynamo();
    let charges = Charges::default();
    // Each step of the handler takes half a lease, so the renewal has time to come in between.
    let steps = {
        let (charges, clock) = (charges.clone(), db.clock().clone());
        move |request| {
            let (charges, clock) = (charges.clone(), clock.clone());
            async move {
                for _ in 0..6 {
                    clock.wait(LEASE / 2).await;
                }
                charges.charge(request).await
            }
        }
    };
    let service = serve(&layer(&instance(&db)).keep_alive(), steps.clone());
    assert_eq!(send(&service, payment("k1", "x")).await.status, 201);
    assert_eq!(charges.count(), 1);

    db.faults().put(Rule::new(Fault::Down).calls(2..=u64::MAX));
    let lost = send(&service, payment("k2", "x")).await;
    assert_eq!((lost.status, lost.problem().as_str(), charges.count()), (503, "unavailable", 1));
}

#[tokio::test]
async fn a_lease_that_is_over_at_once_is_503_and_nothing_is_done() {
    let db = dynamo();
    let charges = Charges::default();
    let service = charges.serve(&layer(&instance(&db)).lease(Duration::ZERO));
    let answer = send(&service, payment("k", "x")).await;
    assert_eq!((answer.status, answer.problem().as_str(), charges.count()), (503, "unavailable", 0));
}

// What responses mean

#[tokio::test]
async fn responses_below_500_are_outcomes_unless_they_ask_to_come_again() {
    for (code, replayed) in [
        (200, true),
        (204, true),
        (303, true),
        (400, true),
        (404, true),
        (409, true),
        (422, true),
        (401, false),
        (408, false),
        (425, false),
        (429, false),
    ] {
        let db = dynamo();
        let layer = layer(&instance(&db));
        let first = send(&serve(&layer, move |_| async move { status(code) }), payment("k", "x")).await;
        assert_eq!(first.status, code);
        let again = send(&Charges::default().serve(&layer), payment("k", "x")).await;
        assert_eq!((again.status, again.is_replay()), if replayed { (code, true) } else { (201, false) });
    }
}

#[tokio::test]
async fn a_response_of_500_and_above_is_passed_on_and_leaves_a_doubt() {
    for code in [500, 502, 503, 504] {
        let db = dynamo();
        let layer = layer(&instance(&db));
        let first = send(&serve(&layer, move |_| async move { status(code) }), payment("k", "x")).await;
        assert_eq!((first.status, &*first.body), (code, format!("status {code}").as_bytes()));
        let again = send(&Charges::default().serve(&layer), payment("k", "x")).await;
        assert_eq!((again.status, again.problem().as_str()), (500, "doubtful"));
    }
}

#[tokio::test]
async fn a_closure_says_what_a_response_means() {
    let db = dynamo();
    let layer = layer(&instance(&db)).meaning(|response| match response.status.as_u16() {
        500 => Meaning::Outcome,
        503 => Meaning::Retry,
        404 => Meaning::Permanent,
        _ => Meaning::of(response.status),
    });
    let next = Arc::new(Mutex::new(Vec::new()));
    let script = next.clone();
    let service = serve(&layer, move |_| {
        let code = script.lock().unwrap().pop().unwrap();
        async move { status(code) }
    });
    let of = async |key: &str, code: u16| {
        next.lock().unwrap().push(code);
        send(&service, payment(key, "x")).await
    };
    assert_eq!(of("outcome", 500).await.status, 500);
    let again = send(&service, payment("outcome", "x")).await;
    assert_eq!((again.status, again.is_replay()), (500, true));
    assert_eq!(of("retry", 503).await.status, 503);
    assert_eq!(of("retry", 200).await.status, 200);
    assert_eq!(of("permanent", 404).await.status, 404);
    let again = send(&service, payment("permanent", "x")).await;
    assert_eq!((again.status, again.problem().as_str()), (422, "failed"));
}

// When the store fails

#[tokio::test]
async fn while_the_store_is_down_nothing_is_done_and_the_client_comes_again() {
    let db = dynamo();
    let charges = Charges::default();
    let service = charges.serve(&layer(&instance(&db)));
    for fault in [Fault::Down, Fault::Throttle, Fault::Error] {
        db.faults().only(Rule::new(fault));
        let answer = send(&service, payment("k", "x")).await;
        assert_eq!((answer.status, answer.problem().as_str()), (503, "unavailable"));
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    for fault in [Fault::Missing, Fault::Denied] {
        db.faults().only(Rule::new(fault));
        let answer = send(&service, payment("k", "x")).await;
        assert_eq!((answer.status, answer.problem().as_str(), answer.header("retry-after")), (500, "internal", None));
        assert!(!String::from_utf8_lossy(&answer.body).contains(support::TABLE), "our inside stays inside");
    }
    assert_eq!(charges.count(), 0);
    db.faults().heal();
    assert_eq!(send(&service, payment("k", "x")).await.status, 201);
}

#[tokio::test]
async fn a_response_that_could_not_be_recorded_is_given_all_the_same_and_says_so() {
    let db = dynamo();
    let charges = Charges::default();
    let service = charges.serve(&layer(&instance(&db)));
    db.faults().put(Rule::new(Fault::Down).calls(2..=u64::MAX));
    let first = send(&service, payment("k", "x")).await;
    assert_eq!((first.status, first.header(RECORDED), charges.count()), (201, Some("false"), 1));
    db.faults().heal();
    // This instance knows the outcome, and writes it now.
    let again = send(&service, payment("k", "x")).await;
    assert_eq!((&again.body, again.header(REPLAYED), charges.count()), (&first.body, Some("true"), 1));
    let elsewhere = send(&charges.serve(&layer(&instance(&db))), payment("k", "x")).await;
    assert_eq!((&elsewhere.body, elsewhere.header(RECORDED)), (&first.body, None));
    assert_eq!(charges.count(), 1);
}

#[tokio::test]
async fn a_namespace_that_fails_open_goes_on_without_the_store_and_says_so() {
    let db = dynamo();
    let charges = Charges::default();
    let service = charges.serve(&named(&instance(&db), payments().fail_open()).on_doubt(OnDoubt::Refuse));
    db.faults().down();
    for replayed in [None, Some("true")] {
        let answer = send(&service, payment("k", "x")).await;
        assert_eq!((answer.status, answer.header(REPLAYED), answer.header(RECORDED)), (201, replayed, Some("false")));
    }
    assert_eq!(charges.count(), 1);
}

// Killed at every call

/// A bank that can be asked, behind calls that a run can die at.
struct World {
    db: Dynamo,
    once: Once,
    outside: testkit::Outside,
    bank: Charges,
    answers: Mutex<Vec<Answer>>,
}

#[tokio::test]
async fn a_process_that_dies_at_any_call_charges_once_and_answers_the_same() {
    let world = async |outside: testkit::Outside| {
        let db = dynamo().with_outside(outside.clone());
        let once = instance(&db);
        World { db, once, outside, bank: Charges::default(), answers: Mutex::default() }
    };
    let run = async |world: &World| {
        // A new process has an empty memory.
        let once = support::instance_with(&world.db, world.db.clock().clone(), Reported::default(), Outage::default());
        let (bank, outside) = (world.bank.clone(), world.outside.clone());
        let asked = (bank.clone(), outside.clone());
        let layer = undecided(&once).probe(move |_, _| {
            let (bank, outside) = asked.clone();
            async move {
                let charged = outside.call("ask the bank", async { bank.count() }).await;
                let found = Response::builder().status(201).header(CONTENT_TYPE, "application/json");
                let found = found.header(LOCATION, "/payments/1").body(Bytes::from("{\"id\":1}"));
                Ok::<_, Infallible>(if charged == 0 { Probed::NotDone } else { Probed::Done(found.unwrap()) })
            }
        });
        let service = serve(&layer, move |request| {
            let (bank, outside) = (bank.clone(), outside.clone());
            async move { outside.call("charge", bank.charge(request)).await }
        });
        let mut answer = send(&service, payment("k", "x")).await;
        if answer.status != 201 {
            return Err(answer);
        }
        answer.headers.remove(REPLAYED);
        // It says so if the completion was cut off. The answer itself is the same.
        answer.headers.remove(RECORDED);
        world.answers.lock().unwrap().push(answer);
        Ok(())
    };
    let recover = async |world: &World| world.db.clock().advance(LEASE + MAX_CLOCK_SKEW);
    let check = async |world: &World| {
        // And one more retry after all of that, which nobody stops. If the outcome was not recorded, the key is in flight until
        // the lease ends.
        recover(world).await;
        run(world).await.unwrap();
        assert_eq!(world.bank.count(), 1);
        let answers = world.answers.lock().unwrap().clone();
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
        let key = payments().key(["alice", "k"]).unwrap();
        let record = world.once.look(&key).await.unwrap().unwrap();
        assert!(matches!(record.state, RecordState::Completed { .. }));
    };
    let report = interrupt::at_every_call(world, run, recover, check).await;
    // Claim, charge, completion; before and after each of them. The charge of this test cannot be cut off.
    assert_eq!((report.stops, report.cuts), (6, 4));
}

// axum

#[tokio::test]
async fn axum_handlers_get_their_claim_and_each_route_has_its_own_layer() {
    async fn pay(
        State(bank): State<Charges>,
        Extension(claim): Extension<Claim>,
        body: String,
    ) -> (StatusCode, String) {
        let number = bank.add(body);
        (StatusCode::CREATED, format!("{number} as {} under fence {}", claim.key(), claim.fence()))
    }
    let db = dynamo();
    let once = instance(&db);
    let bank = Charges::default();
    let required = named(&once, Namespace::new("payments")).on_doubt(OnDoubt::Refuse);
    let optional = named(&once, Namespace::new("notes")).on_doubt(OnDoubt::Repeat).optional();
    let app = Router::new()
        .route("/payments", post(pay).get(|| async { "all payments" }).layer(required))
        .route("/notes", post(async |body: String| body).layer(optional))
        .route("/health", post(async || "fine"))
        .with_state(bank.clone());
    let call = async |request: Request<Body>| answer(app.clone().oneshot(request).await.unwrap()).await;
    let bare = |method: Method, uri: &str| Request::builder().method(method).uri(uri).body(Body::from("x")).unwrap();

    let first = call(payment("k", "100")).await;
    assert_eq!((first.status, &*first.body), (201, &b"1 as payments#alice#k under fence 1"[..]));
    let again = call(payment("k", "100")).await;
    assert_eq!((again.status, again.header(REPLAYED), &again.body), (201, Some("true"), &first.body));
    assert_eq!(again.header("content-type"), first.header("content-type"));
    assert_eq!(call(bare(Method::GET, "/payments")).await.body, "all payments");
    assert_eq!(call(bare(Method::POST, "/payments")).await.status, 400);
    assert_eq!(call(bare(Method::POST, "/notes")).await.body, "x");
    assert_eq!(call(bare(Method::POST, "/health")).await.body, "fine");
    assert_eq!(bank.count(), 1);
}

#[tokio::test]
async fn the_handler_that_was_ready_is_the_one_that_is_called() {
    struct Counted {
        ready: bool,
    }
    impl Clone for Counted {
        fn clone(&self) -> Self {
            Self { ready: false }
        }
    }
    impl tower::Service<Request<Body>> for Counted {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = std::future::Ready<Result<Response<Body>, Infallible>>;
        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            self.ready = true;
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, _: Request<Body>) -> Self::Future {
            assert!(std::mem::take(&mut self.ready), "called without being ready");
            std::future::ready(Ok(status(200)))
        }
    }
    let db = dynamo();
    let mut service = layer(&instance(&db)).layer(Counted { ready: false });
    for key in ["k1", "k2"] {
        let response = service.ready().await.unwrap().call(payment(key, "x")).await.unwrap();
        assert_eq!(response.status(), 200);
    }
}

#[tokio::test]
async fn a_request_dropped_before_it_is_polled_does_nothing() {
    let db = dynamo();
    let charges = Charges::default();
    let service = charges.serve(&layer(&instance(&db)));
    drop(service.clone().oneshot(payment("k", "x")));
    settle().await;
    assert_eq!((db.calls().total(), charges.count()), (0, 0));
}
