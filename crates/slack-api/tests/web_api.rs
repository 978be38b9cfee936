//! The Web API's client against a server on loopback that answers as Slack does.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use function::Secret;
use function::secret::Source;
use serde_json::{Value, json};
use slack_api::{Content, Error, History, Look, Metadata, Post, Slack, WebApi};
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

const SHA256_OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/// A Slack with the file F1, which `info` describes and `download` answers. `ADDRESS` in `info` is the address of the file.
async fn with_file(info: Value, download: impl Fn() -> Response + Clone + Send + Sync + 'static) -> (WebApi, Requests) {
    with_slow_file(info, Duration::ZERO, download).await
}

/// The same, and `files.info` takes this long.
async fn with_slow_file(
    info: Value,
    after: Duration,
    download: impl Fn() -> Response + Clone + Send + Sync + 'static,
) -> (WebApi, Requests) {
    let seen = Requests::default();
    let note = seen.clone();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let own = format!("http://{}", listener.local_addr().expect("an address"));
    let info = info.to_string().replace("ADDRESS", &format!("{own}/files-pri/T1-F1/download/a.pdf"));
    let app = Router::new().fallback(move |request: Request| {
        let (note, download, info) = (note.clone(), download.clone(), info.clone());
        async move {
            let uri = request.uri().to_string();
            let authorization = request.headers()["authorization"].to_str().expect("text").to_owned();
            note.lock().expect("no panic").push(("GET".into(), uri.clone(), authorization, Value::Null));
            if uri == "/api/files.info?file=F1" {
                tokio::time::sleep(after).await;
                return ([("content-type", "application/json")], format!(r#"{{"ok": true, "file": {info}}}"#))
                    .into_response();
            }
            download()
        }
    });
    tokio::spawn(async move { axum::serve(listener, app).await });
    (WebApi::new(format!("{own}/api"), Source::Fixed(Secret::new("not-a-token"))).expect("a client"), seen)
}

fn pdf(size: u64) -> Value {
    json!({"id": "F1", "mimetype": "application/pdf", "size": size, "url_private_download": "ADDRESS"})
}

fn sent(kind: &'static str, content: &'static str) -> Response {
    ([("content-type", kind)], content).into_response()
}

#[tokio::test]
async fn a_file_is_read_with_the_token_and_known_by_its_digest() {
    let (api, seen) = with_file(pdf(3), || sent("application/pdf", "abc")).await;
    assert_eq!(api.content("F1", 3, WITHIN).await, Ok(Content::Sha256(SHA256_OF_ABC.into())));
    let seen = seen.lock().expect("no panic").clone();
    assert!(
        seen.iter().all(|(_, _, authorization, _)| authorization == "Bearer not-a-token") && seen.len() == 2,
        "{seen:?}"
    );
    // In several pieces, and a page that a user has uploaded.
    let pieces = || {
        let pieces = futures::stream::iter(["a", "", "bc"].map(Ok::<_, std::io::Error>));
        ([("content-type", "text/html")], Body::from_stream(pieces)).into_response()
    };
    let page = json!({"mimetype": "text/html", "size": 3, "url_private": "ADDRESS"});
    let (api, _) = with_file(page, pieces).await;
    assert_eq!(api.content("F1", 3, WITHIN).await, Ok(Content::Sha256(SHA256_OF_ABC.into())));
}

#[tokio::test]
async fn no_more_is_read_of_a_file_than_the_caller_wants_and_slack_told() {
    let (api, seen) = with_file(pdf(4), || sent("application/pdf", "abcd")).await;
    assert_eq!(api.content("F1", 3, WITHIN).await, Ok(Content::NotRead), "too large");
    assert_eq!(seen.lock().expect("no panic").len(), 1, "it was not even asked for");
    for content in ["abcd", "ab"] {
        let (api, _) = with_file(pdf(3), move || sent("application/pdf", content)).await;
        assert_eq!(
            api.content("F1", 100, WITHIN).await,
            Ok(Content::NotRead),
            "{content}: not of the size that was told"
        );
    }
    // An endless one ends too.
    let endless = || Body::from_stream(futures::stream::repeat_with(|| Ok::<_, std::io::Error>("abc"))).into_response();
    let (api, _) = with_file(pdf(1_000), endless).await;
    assert_eq!(api.content("F1", 1_000, WITHIN).await, Ok(Content::NotRead));
}

#[tokio::test]
async fn without_the_right_to_read_a_file_it_is_forbidden_whatever_slack_answers() {
    let answers: [fn() -> Response; 4] = [
        || sent("text/html; charset=utf-8", "<!DOCTYPE html><html>Sign in</html>"),
        || (StatusCode::FOUND, [("location", "https://acme.slack.com/?redir=x")], "<a>Found</a>.").into_response(),
        || StatusCode::FORBIDDEN.into_response(),
        || StatusCode::NOT_FOUND.into_response(),
    ];
    for answer in answers {
        let (api, _) = with_file(pdf(3), answer).await;
        assert_eq!(api.content("F1", 1_000, WITHIN).await, Ok(Content::Forbidden));
    }
    let (api, ..) = serve(|| json_answer(json!({"ok": false, "error": "missing_scope", "needed": "files:read"}))).await;
    assert_eq!(api.content("F1", 1_000, WITHIN).await, Ok(Content::Forbidden));
}

#[tokio::test]
async fn a_file_is_forbidden_only_if_the_app_lacks_a_right() {
    let refused = |code: &str| Err(Error::Refused { code: code.into() });
    let cases = [
        ("access_denied", Ok(Content::Forbidden)),
        ("no_permission", Ok(Content::Forbidden)),
        ("not_allowed_token_type", Ok(Content::Forbidden)),
        ("file_deleted", Ok(Content::NotRead)),
        ("file_not_found", Ok(Content::NotRead)),
        ("invalid_auth", refused("invalid_auth")),
        ("token_revoked", refused("token_revoked")),
    ];
    for (code, expected) in cases {
        let (api, ..) = serve(move || json_answer(json!({"ok": false, "error": code}))).await;
        assert_eq!(api.content("F1", 1_000, WITHIN).await, expected, "{code}");
    }
}

/// Each of two answers takes more than half of the time.
#[tokio::test]
async fn a_file_is_given_up_when_its_description_and_its_download_together_take_too_long() {
    const SLOW: Duration = Duration::from_millis(1_200);
    let slow = || {
        let later = futures::stream::once(async {
            tokio::time::sleep(SLOW).await;
            Ok::<_, std::io::Error>("abc")
        });
        Body::from_stream(later).into_response()
    };
    let (api, _) = with_slow_file(pdf(3), SLOW, slow).await;
    assert_eq!(api.content("F1", 1_000, Duration::from_secs(2)).await, Ok(Content::NotRead));
}

#[tokio::test]
async fn a_download_that_takes_too_long_is_given_up_and_one_that_fails_is_an_error() {
    let silent = || {
        let pieces = futures::stream::once(async { Ok::<_, std::io::Error>("a") });
        Body::from_stream(futures::StreamExt::chain(pieces, futures::stream::pending())).into_response()
    };
    let (api, _) = with_file(pdf(3), silent).await;
    assert_eq!(api.content("F1", 1_000, Duration::from_millis(300)).await, Ok(Content::NotRead));
    let broken = || {
        let pieces = futures::stream::iter([Ok("a"), Err(std::io::Error::other("broken"))]);
        Body::from_stream(pieces).into_response()
    };
    let (api, _) = with_file(pdf(3), broken).await;
    let error = api.content("F1", 1_000, WITHIN).await.expect_err("broken");
    assert!(matches!(&error, Error::Unanswered(why) if !why.contains("files-pri")), "no address in errors: {error}");
    let (api, _) = with_file(pdf(3), || StatusCode::BAD_GATEWAY.into_response()).await;
    assert_eq!(api.content("F1", 1_000, WITHIN).await, Err(Error::Unanswered("HTTP 502".into())));
    let limited = || (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "7")]).into_response();
    let (api, _) = with_file(pdf(3), limited).await;
    assert_eq!(api.content("F1", 1_000, WITHIN).await, Err(Error::RateLimited { after: Duration::from_secs(7) }));
}

#[tokio::test]
async fn the_token_goes_to_slack_and_not_where_a_file_says_that_it_is() {
    for elsewhere in [
        "http://127.0.0.1:9/F1",
        "http://files.slack.com/F1",
        "https://files.slack.com.example.invalid/F1",
        "https://files.slack.com@example.invalid/F1",
        "https://docs.example.invalid/F1",
        "not an address",
    ] {
        let info = json!({"size": 3, "is_external": true, "url_private": elsewhere});
        let (api, seen) = with_file(info, || sent("text/plain", "abc")).await;
        assert_eq!(api.content("F1", 1_000, WITHIN).await, Ok(Content::NotRead), "{elsewhere}");
        assert_eq!(seen.lock().expect("no panic").len(), 1, "only files.info was asked");
    }
}

#[tokio::test]
async fn the_address_of_a_message_is_asked_for() {
    let link = "https://acme.slack.com/archives/C1/p1700000000000100";
    let (api, seen, _) = serve(move || json_answer(json!({"ok": true, "permalink": link}))).await;
    assert_eq!(api.permalink("C1", "1700000000.000100", WITHIN).await, Ok(Some(link.to_owned())));
    assert_eq!(seen.lock().expect("no panic")[0].1, "/api/chat.getPermalink?channel=C1&message_ts=1700000000.000100");
    for (code, answer) in [
        ("message_not_found", Ok(None)),
        ("channel_not_found", Ok(None)),
        ("invalid_auth", Err(Error::Refused { code: "invalid_auth".into() })),
    ] {
        let (api, ..) = serve(move || json_answer(json!({"ok": false, "error": code}))).await;
        assert_eq!(api.permalink("C1", "1.2", WITHIN).await, answer);
    }
}
