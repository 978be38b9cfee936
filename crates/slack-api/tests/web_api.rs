//! The Web API's client against a server on loopback that answers as Slack does.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use function::Secret;
use function::secret::Source;
use serde_json::{Value, json};
use slack_api::{Error, History, Look, Metadata, Post, Slack, WebApi};
use tokio::net::TcpListener;

const WITHIN: Duration = Duration::from_secs(20);

/// Method, path and query, authorization, body.
type Requests = Arc<Mutex<Vec<(String, String, String, Value)>>>;

async fn serve(answer: impl Fn() -> Response + Clone + Send + Sync + 'static) -> (WebApi, Requests, SocketAddr) {
    let seen = Requests::default();
    let note = seen.clone();
    let app = Router::new().fallback(move |request: Request| {
        let (answer, note) = (answer.clone(), note.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1 << 20).await.expect("a body");
            let authorization = parts.headers["authorization"].to_str().expect("text").to_owned();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            note.lock().expect("no panic").push((parts.method.to_string(), parts.uri.to_string(), authorization, body));
            answer()
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, app).await });
    let api =
        WebApi::new(format!("http://{address}/api"), Source::Fixed(Secret::new("not-a-token"))).expect("a client");
    (api, seen, address)
}

fn json_answer(value: Value) -> Response {
    ([("content-type", "application/json")], value.to_string()).into_response()
}

fn post() -> Post {
    let metadata = Metadata { event_type: "ichido_file_received".into(), event_payload: json!({"file": "F1"}) };
    Post::plain("C1", "1.2", "Received a <b>.", metadata)
}

fn look(cursor: Option<&str>) -> Look {
    let cursor = cursor.map(str::to_owned);
    Look { channel: "C1".into(), thread_ts: "1.2".into(), oldest: "1.3".into(), cursor }
}

#[tokio::test]
async fn a_reply_is_posted_as_json_with_its_metadata() {
    let (api, seen, _) = serve(|| json_answer(json!({"ok": true, "channel": "C1", "ts": "9.9"}))).await;
    assert_eq!(api.post(&post(), WITHIN).await, Ok("9.9".to_owned()));
    let seen = seen.lock().expect("no panic");
    let (method, uri, authorization, body) = &seen[0];
    assert_eq!(
        (method.as_str(), uri.as_str(), authorization.as_str()),
        ("POST", "/api/chat.postMessage", "Bearer not-a-token")
    );
    assert_eq!(
        *body,
        json!({
            "channel": "C1", "thread_ts": "1.2", "text": "Received a &lt;b&gt;.", "mrkdwn": false,
            "unfurl_links": false, "unfurl_media": false,
            "metadata": {"event_type": "ichido_file_received", "event_payload": {"file": "F1"}},
        })
    );
}

#[tokio::test]
async fn a_thread_is_read_with_its_metadata_page_by_page() {
    let answer = json!({
        "ok": true,
        "messages": [
            {"ts": "1.2", "text": "parent", "metadata": {}},
            {"ts": "1.4", "metadata": {"event_type": "t", "event_payload": {"file": "F1"}}},
            {"ts": "1.5", "metadata": "of another form"},
        ],
        "has_more": true,
        "response_metadata": {"next_cursor": "bmV4dA=="},
    });
    let (api, seen, _) = serve(move || json_answer(answer.clone())).await;
    let page = api.thread(&look(Some("Y3Vyc29y")), WITHIN).await.expect("a page");
    assert_eq!(page.next.as_deref(), Some("bmV4dA=="));
    assert_eq!(page.messages.iter().filter_map(|message| message.metadata.as_ref()).count(), 1);
    let (method, uri, ..) = seen.lock().expect("no panic")[0].clone();
    assert_eq!(method, "GET");
    for part in [
        "/api/conversations.replies?channel=C1",
        "ts=1.2",
        "oldest=1.3",
        "inclusive=true",
        "include_all_metadata=true",
        "cursor=Y3Vyc29y",
    ] {
        assert!(uri.contains(part), "{part} in {uri}");
    }
}

#[tokio::test]
async fn each_failure_says_whether_it_may_have_happened() {
    let limited = || (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "30")], "").into_response();
    let cases: Vec<(fn() -> Response, bool)> = vec![
        (|| json_answer(json!({"ok": false, "error": "not_in_channel"})), false),
        (|| json_answer(json!({"ok": false, "error": "invalid_auth"})), false),
        (|| json_answer(json!({"ok": false, "error": "fatal_error"})), true),
        (|| json_answer(json!({"ok": false, "error": "internal_error"})), true),
        (|| StatusCode::SERVICE_UNAVAILABLE.into_response(), true),
        (|| StatusCode::NOT_FOUND.into_response(), false),
        (|| "<html>a captive portal</html>".into_response(), true),
        (|| (StatusCode::FOUND, [("location", "https://example.invalid/")]).into_response(), false),
    ];
    for (answer, may_have_happened) in cases {
        let (api, ..) = serve(answer).await;
        let error = api.post(&post(), WITHIN).await.expect_err("a failure");
        assert_eq!(error.may_have_happened(), may_have_happened, "{error}");
        assert!(!error.to_string().contains("not-a-token"));
    }
    let (api, ..) = serve(limited).await;
    let error = api.post(&post(), WITHIN).await.expect_err("limited");
    assert_eq!(error, Error::RateLimited { after: Duration::from_secs(30) });
}

#[tokio::test]
async fn nobody_listening_is_known_not_to_have_happened_and_silence_is_not() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let api = |address: SocketAddr| {
        WebApi::new(format!("http://{address}"), Source::Fixed(Secret::new("not-a-token"))).expect("a client")
    };
    // Accepted by the kernel, never answered.
    let silent = api(address).post(&post(), Duration::from_millis(50)).await.expect_err("silence");
    assert!(matches!(silent, Error::Unanswered(_)), "{silent:?}");
    drop(listener);
    let nobody = api(address).post(&post(), WITHIN).await.expect_err("nobody");
    assert!(matches!(nobody, Error::Unreachable(_)), "{nobody:?}");
    assert!(!nobody.to_string().contains(&address.to_string()), "no address in errors: {nobody}");
}

#[tokio::test]
async fn a_channel_is_read_with_metadata_from_a_time_on() {
    let page = json!({"ok": true, "messages": [
        {"ts": "2.000000", "metadata": {"event_type": "t", "event_payload": {"key": "k"}}}, {"ts": "1.000000"},
    ], "response_metadata": {"next_cursor": "c2"}});
    let (api, seen, _) = serve(move || axum::Json(page.clone()).into_response()).await;
    let wanted = History { channel: "C1".into(), oldest: "1.000000".into(), cursor: Some("c1".into()) };
    let page = api.history(&wanted, WITHIN).await.expect("a page");
    assert_eq!((page.messages.len(), page.next.as_deref()), (2, Some("c2")));
    assert_eq!(page.messages[0].metadata.as_ref().expect("metadata").event_payload, json!({"key": "k"}));
    let (method, uri, ..) = seen.lock().expect("no panic").remove(0);
    assert_eq!(method, "GET");
    for part in
        ["/api/conversations.history?", "channel=C1", "oldest=1.000000", "include_all_metadata=true", "cursor=c1"]
    {
        assert!(uri.contains(part), "{part} is not in {uri}");
    }
}

#[tokio::test]
async fn a_message_in_a_channel_names_no_thread() {
    let (api, seen, _) = serve(|| axum::Json(json!({"ok": true, "ts": "1.000000"})).into_response()).await;
    let metadata = Metadata { event_type: "t".into(), event_payload: json!({}) };
    let posted = api.post(&Post::in_channel("C1", "a <b> & c", metadata), WITHIN).await.expect("posted");
    assert_eq!(posted, "1.000000");
    let body = seen.lock().expect("no panic").remove(0).3;
    assert_eq!((&body["text"], body.get("thread_ts")), (&json!("a &lt;b&gt; &amp; c"), None));
}
