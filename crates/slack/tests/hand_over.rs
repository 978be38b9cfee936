//! The hand-over against an Invoke API on loopback.

use std::sync::{Arc, Mutex};

use crate::support::{envelope, upload};
use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use function::Aws;
use serde_json::Value;
use slack::event::Upload;
use slack::outside::hand_over::{AsyncInvoke, Error, HandOver};
use tokio::net::TcpListener;

/// Path, invocation type and payload.
type Invocations = Arc<Mutex<Vec<(String, String, Value)>>>;

async fn invocation(answer: fn() -> Response) -> (AsyncInvoke, Invocations) {
    let seen = Invocations::default();
    let note = seen.clone();
    let app = Router::new().fallback(move |uri: Uri, headers: HeaderMap, body: Bytes| {
        let kind = headers["x-amz-invocation-type"].to_str().expect("text").to_owned();
        let payload = serde_json::from_slice(&body).unwrap_or_default();
        note.lock().expect("no panic").push((uri.path().to_owned(), kind, payload));
        async move { answer() }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, app).await });
    let invoker = Aws::at(&format!("http://{address}")).invoker();
    (AsyncInvoke::new(&invoker, "slack-files-dev:live".into()), seen)
}

fn event() -> Upload {
    upload(&envelope("Ev1", "1700000000.000100", &["F1", "F2"]))
}

#[tokio::test]
async fn an_upload_is_handed_over_by_asynchronous_invocation() {
    let (invocation, seen) = invocation(|| StatusCode::ACCEPTED.into_response()).await;
    invocation.hand_over(&event()).await.expect("accepted");
    let (path, kind, payload) = seen.lock().expect("no panic")[0].clone();
    assert!(path.starts_with("/2015-03-31/functions/slack-files-dev") && path.ends_with("/invocations"), "{path}");
    assert_eq!(kind, "Event");
    assert_eq!(serde_json::from_value::<Upload>(payload).expect("an upload"), event());
}

#[tokio::test]
async fn what_lambda_refuses_is_known_not_to_be_handed_over() {
    fn throttled() -> Response {
        let kind = [("x-amzn-errortype", "TooManyRequestsException")];
        (StatusCode::TOO_MANY_REQUESTS, kind, r#"{"Type":"User","message":"Rate Exceeded."}"#).into_response()
    }
    let (invocation, seen) = invocation(throttled).await;
    let refused = invocation.hand_over(&event()).await.expect_err("refused");
    assert!(matches!(refused, Error::Refused(_)), "{refused}");
    assert_eq!(seen.lock().expect("no panic").len(), 2, "tried twice");
}

#[tokio::test]
async fn nobody_there_is_unanswered() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let invoker = Aws::at(&format!("http://{address}")).invoker();
    let error = AsyncInvoke::new(&invoker, "slack-files".into()).hand_over(&event()).await.expect_err("nobody");
    assert!(matches!(error, Error::Unanswered(_)), "{error}");
}
