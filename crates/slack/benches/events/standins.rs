//! What an instance talks to: a Lambda Runtime API, and one endpoint for DynamoDB, SSM and Lambda's Invoke API.

use std::collections::HashMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use emulator::dynamodb::Engine;
use function::http::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use slack::signature::{self, SIGNATURE_HEADER, TIMESTAMP_HEADER};
use tokio::net::TcpListener;
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};
use tokio_rustls::TlsAcceptor;

const SIGNING_SECRET: &str = "not-a-secret";
/// The store's table.
pub(crate) const TABLE: &str = "processed-events";
/// How long an invocation may take.
const TIMEOUT_MS: u64 = 20_000;

struct Delivery {
    payload: String,
    answered: oneshot::Sender<Value>,
}

/// A Lambda Runtime API for one instance.
struct Runtime {
    next: AsyncMutex<mpsc::UnboundedReceiver<Delivery>>,
    waiting: Mutex<HashMap<String, oneshot::Sender<Value>>>,
}

async fn runtime_api(State(runtime): State<Arc<Runtime>>, uri: Uri, body: Bytes) -> Response {
    let parts: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        [_, "runtime", "invocation", "next"] => {
            let Some(delivery) = runtime.next.lock().await.recv().await else {
                return StatusCode::GONE.into_response();
            };
            let id = format!("{:032x}", next_id());
            runtime.waiting.lock().expect("no panic").insert(id.clone(), delivery.answered);
            let header = |name: &'static str, value: String| (HeaderName::from_static(name), value);
            let headers = [
                header("lambda-runtime-aws-request-id", id),
                header("lambda-runtime-deadline-ms", (now_ms() + TIMEOUT_MS).to_string()),
                header("lambda-runtime-invoked-function-arn", "arn:aws:lambda:local:000000000000:function:f".into()),
                header("content-type", "application/json".into()),
            ];
            (headers, delivery.payload).into_response()
        }
        [_, "runtime", "invocation", id, kind] => {
            let answer = serde_json::from_slice(&body).unwrap_or_default();
            let answer = if *kind == "response" { answer } else { json!({"statusCode": 500, "error": answer}) };
            if let Some(waiting) = runtime.waiting.lock().expect("no panic").remove(*id) {
                let _ = waiting.send(answer);
            }
            StatusCode::ACCEPTED.into_response()
        }
        _ => {
            let _ = writeln!(std::io::stderr(), "{uri}: {}", String::from_utf8_lossy(&body));
            StatusCode::ACCEPTED.into_response()
        }
    }
}

/// A number that was not returned before.
fn next_id() -> u128 {
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    u128::from(COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
}

/// DynamoDB, SSM and Lambda's Invoke API.
async fn aws(State(engine): State<Engine>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    let kind = [("content-type", "application/x-amz-json-1.0")];
    match target.split_once('.') {
        Some((service, operation)) if service.starts_with("DynamoDB") => {
            let answer = engine.perform(operation, &body);
            (StatusCode::from_u16(answer.status).unwrap_or_default(), kind, answer.body).into_response()
        }
        Some(_) => {
            let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
            let answer = json!({"Parameters": [{"Name": asked["Names"][0], "Value": SIGNING_SECRET}]});
            (kind, answer.to_string()).into_response()
        }
        None if uri.path().ends_with("/invocations") => StatusCode::ACCEPTED.into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn serve(app: Router, tls: Option<TlsAcceptor>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let Some(tls) = tls else {
        tokio::spawn(async move { axum::serve(listener, app).await });
        return address;
    };
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (tls, service) = (tls.clone(), TowerToHyperService::new(app.clone()));
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                if let Ok(stream) = tls.accept(stream).await {
                    let _ =
                        auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
                }
            });
        }
    });
    address
}

/// The addresses of both, and the queue of deliveries to the instance.
pub(crate) struct Surroundings {
    pub(crate) runtime: SocketAddr,
    pub(crate) aws: SocketAddr,
    deliveries: mpsc::UnboundedSender<Delivery>,
}

impl Surroundings {
    pub(crate) async fn new(tls: Option<TlsAcceptor>) -> Self {
        let engine = Engine::new(dynoxide::Database::memory().expect("a database"));
        let table = json!({
            "TableName": TABLE, "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{"AttributeName": "event_key", "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": "event_key", "KeyType": "HASH"}],
        });
        assert_eq!(engine.perform("CreateTable", table.to_string().as_bytes()).status, 200);
        let aws = serve(Router::new().fallback(any(aws)).with_state(engine), tls).await;
        let (deliveries, next) = mpsc::unbounded_channel();
        let runtime = Arc::new(Runtime { next: AsyncMutex::new(next), waiting: Mutex::default() });
        let runtime = serve(Router::new().fallback(any(runtime_api)).with_state(runtime), None).await;
        Self { runtime, aws, deliveries }
    }

    pub(crate) fn deliver(&self, number: usize) -> oneshot::Receiver<Value> {
        let (answered, answer) = oneshot::channel();
        let _ = self.deliveries.send(Delivery { payload: delivery(number), answered });
        answer
    }
}

/// Every event is delivered twice in a row.
fn delivery(number: usize) -> String {
    let id = number / 2;
    let now = now_ms() / 1000;
    let body = json!({
        "token": "unused", "team_id": "T0TEAM", "api_app_id": "A0APP", "type": "event_callback",
        "event_id": format!("Ev{id:08}"), "event_time": now,
        "authorizations": [{"team_id": "T0TEAM", "user_id": "U0OURS", "is_bot": true}],
        "event": {
            "type": "message", "subtype": "file_share", "channel": "C0GENERAL", "channel_type": "channel", "user": "U0ALICE",
            "ts": format!("{now}.{:06}", id % 1_000_000), "text": "the quarterly numbers",
            "files": [{
                "id": format!("F{id:08}"), "name": "report.pdf", "title": "report.pdf", "mimetype": "application/pdf",
                "filetype": "pdf", "pretty_type": "PDF", "size": 1_250_000, "mode": "hosted", "is_external": false,
                "url_private": "https://files.slack.com/files-pri/T0TEAM-F/report.pdf", "user": "U0ALICE",
            }],
        },
    })
    .to_string()
    .into_bytes();
    let headers = [
        (TIMESTAMP_HEADER.to_owned(), now.to_string()),
        (SIGNATURE_HEADER.to_owned(), signature::sign(SIGNING_SECRET, now, &body)),
        ("content-type".to_owned(), "application/json".to_owned()),
    ];
    let (method, path) = ("POST".to_owned(), "/slack/events".to_owned());
    Request { method, path, headers: headers.into(), body, ..Request::default() }.to_event().to_string()
}

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}
