//! The class: nodes with a socket each, and what they publish over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use futures::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::server::KEY;
use super::{Result, Scenario};

const DOMAIN: &str = "bench";
/// Connections per group for so many publishes per second. A request waits only if all of them are under way.
const PUBLISHES_PER_CONNECTION: u32 = 10;
const MOST_CONNECTIONS: u32 = 64;
/// How long the last deliveries may take after the last publish.
const PATIENCE: Duration = Duration::from_secs(10);
/// Every tenth event batch or so has this many events; most have a few.
const EVENTS: usize = 3;
const SELECTION: &str = "groupId domain sequence timestamp nodeStatus { nodeId data { key value } timestamp } batchEvent { firedByNodeId events { name payload timestamp } }";

/// What a server speaks on a socket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    AppSync,
    /// `graphql-transport-ws`, of the npm package graphql-ws.
    GraphqlWs,
}

/// What was measured in one part.
pub(crate) struct Measured {
    /// Per second.
    pub(crate) published: f64,
    pub(crate) delivered: f64,
    /// Deliveries that never came.
    pub(crate) missing: u64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    /// Were publishes answered as fast as they were made?
    pub(crate) kept_up: bool,
}

/// What the sockets have heard.
#[derive(Default)]
struct Heard {
    count: AtomicU64,
    /// Microseconds, one list per socket.
    times: Vec<Mutex<Vec<u64>>>,
}

pub(crate) struct Class {
    address: SocketAddr,
    scenario: Scenario,
    groups: Vec<String>,
    heard: Arc<Heard>,
}

impl Class {
    /// Makes the groups, lets everybody join, and opens a socket for each.
    pub(crate) async fn enter(address: SocketAddr, protocol: Protocol, scenario: Scenario) -> Result<Self> {
        let Scenario { groups, nodes, .. } = scenario;
        let mut http = Http::open(address).await?;
        let mut heard = Heard::default();
        heard.times.resize_with(groups * nodes, Mutex::default);
        let heard = Arc::new(heard);
        let mut ids = Vec::new();
        for group in 0..groups {
            let create = "mutation ($hostId: ID!, $domain: String!) { createGroup(name: \"class\", hostId: $hostId, domain: $domain) { id } }";
            let made = http.ask(create, &json!({"hostId": format!("node-{group}-0"), "domain": DOMAIN})).await?;
            let id = made["data"]["createGroup"]["id"].as_str().ok_or_else(|| made.to_string())?.to_owned();
            for node in 0..nodes {
                if node > 0 {
                    let join = "mutation ($groupId: ID!, $domain: String!, $nodeId: ID!) { joinGroup(groupId: $groupId, domain: $domain, nodeId: $nodeId) { id } }";
                    let variables = json!({"groupId": id, "domain": DOMAIN, "nodeId": format!("node-{group}-{node}")});
                    let joined = http.ask(join, &variables).await?;
                    if joined.get("errors").is_some() {
                        return Err(joined.to_string().into());
                    }
                }
                let socket = subscribe(address, protocol, &id).await?;
                tokio::spawn(listen(socket, protocol, Arc::clone(&heard), group * nodes + node));
            }
            ids.push(id);
        }
        Ok(Self { address, scenario, groups: ids, heard })
    }

    /// Publishes at so many times the class's rate for so long.
    pub(crate) async fn run(&self, load: u32, lasting: Duration) -> Result<Measured> {
        for times in &self.heard.times {
            times.lock().await.clear();
        }
        self.heard.count.store(0, Ordering::SeqCst);
        let start = Instant::now() + Duration::from_millis(100);
        let mut groups = Vec::new();
        for (number, group) in self.groups.iter().enumerate() {
            let publish = publish(self.address, group.clone(), number, self.scenario, load, start, lasting);
            groups.push(tokio::spawn(publish));
        }
        let mut published = 0;
        for group in groups {
            published += group.await??;
        }
        let took = start.elapsed();
        let expected = published * self.scenario.nodes as u64;
        let waited = Instant::now();
        while self.heard.count.load(Ordering::SeqCst) < expected && waited.elapsed() < PATIENCE {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let delivered = self.heard.count.load(Ordering::SeqCst);
        let mut times = Vec::new();
        for each in &self.heard.times {
            times.append(&mut *each.lock().await);
        }
        times.sort_unstable();
        let at = |share: f64| {
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "an index"
            )]
            let index = ((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1));
            Duration::from_micros(times.get(index).copied().unwrap_or_default())
        };
        #[expect(clippy::cast_precision_loss, reason = "thousands")]
        Ok(Measured {
            published: published as f64 / took.as_secs_f64(),
            delivered: delivered as f64 / took.as_secs_f64(),
            missing: expected.saturating_sub(delivered),
            p50: at(0.5),
            p99: at(0.99),
            kept_up: took < lasting + Duration::from_secs(1),
        })
    }
}

/// One group's publishes, evenly spread: how many were accepted.
async fn publish(
    address: SocketAddr,
    group: String,
    number: usize,
    scenario: Scenario,
    load: u32,
    start: Instant,
    lasting: Duration,
) -> Result<u64> {
    let Scenario { nodes, reports, batches, .. } = scenario;
    let rate = (reports + batches) * load;
    let (sender, receiver) = mpsc::unbounded_channel::<u32>();
    let receiver = Arc::new(Mutex::new(receiver));
    let mut workers = Vec::new();
    for _ in 0..(rate / PUBLISHES_PER_CONNECTION).clamp(8, MOST_CONNECTIONS) {
        let receiver = Arc::clone(&receiver);
        let group = group.clone();
        let mut http = Http::open(address).await?;
        workers.push(tokio::spawn(async move {
            let mut accepted = 0;
            loop {
                let next = receiver.lock().await.recv().await;
                let Some(n) = next else { return Ok::<u64, Box<dyn std::error::Error + Send + Sync>>(accepted) };
                let is_batch = n % (reports + batches) < batches;
                let node = format!("node-{number}-{}", n as usize % nodes);
                let answer = http.publish(&group, &node, n, is_batch).await?;
                if answer.get("errors").is_some() {
                    return Err(answer.to_string().into());
                }
                accepted += 1;
            }
        }));
    }
    let total = u32::try_from(u64::from(rate) * lasting.as_millis() as u64 / 1000).unwrap_or(u32::MAX);
    // Groups do not all speak in the same moment.
    let offset = Duration::from_millis(number as u64 * 7 % 59);
    for n in 0..total {
        tokio::time::sleep_until(start + offset + lasting * n / total).await;
        let _ = sender.send(n);
    }
    drop(sender);
    let mut accepted = 0;
    for worker in workers {
        accepted += worker.await??;
    }
    Ok(accepted)
}

/// A connection for queries and mutations.
struct Http {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

impl Http {
    async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { sender, host: address.to_string() })
    }

    async fn ask(&mut self, query: &str, variables: &Value) -> Result<Value> {
        let body = json!({"query": query, "variables": variables}).to_string();
        let request = hyper::Request::post("/graphql")
            .header("host", &self.host)
            .header("content-type", "application/json")
            .header("x-api-key", KEY)
            .body(Full::new(Bytes::from(body)))?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        Ok(serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?)
    }

    /// The n-th publish of a group.
    async fn publish(&mut self, group: &str, node: &str, n: u32, is_batch: bool) -> Result<Value> {
        let mut variables = json!({"groupId": group, "domain": DOMAIN, "nodeId": node});
        let query = if is_batch {
            let event =
                json!({"eventName": "clicked", "payload": "{\"button\":\"A\"}", "firedAt": "2026-01-01T00:00:00.000Z"});
            variables["value"] = json!(vec![event; EVENTS]);
            format!(
                "mutation ($groupId: ID!, $domain: String!, $nodeId: ID!, $value: [EventInput!]!) {{ fireEventsByNode(groupId: $groupId, domain: $domain, nodeId: $nodeId, events: $value) {{ {SELECTION} }} }}"
            )
        } else {
            variables["value"] = json!([{"key": "x", "value": n.to_string()}, {"key": "y", "value": "20"}, {"key": "volume", "value": "0.5"}]);
            format!(
                "mutation ($groupId: ID!, $domain: String!, $nodeId: ID!, $value: [SensorDataInput!]!) {{ reportDataByNode(groupId: $groupId, domain: $domain, nodeId: $nodeId, data: $value) {{ {SELECTION} }} }}"
            )
        };
        self.ask(&query, &variables).await
    }
}

type Socket = WebSocketStream<TcpStream>;

async fn subscribe(address: SocketAddr, protocol: Protocol, group: &str) -> Result<Socket> {
    let authorization = json!({"host": "localhost", "x-api-key": KEY});
    let header = base64::engine::general_purpose::STANDARD.encode(authorization.to_string());
    let (path, name) = match protocol {
        Protocol::AppSync => (format!("/graphql/realtime?header={header}&payload=e30="), "graphql-ws"),
        Protocol::GraphqlWs => ("/graphql".to_owned(), "graphql-transport-ws"),
    };
    let mut request = format!("ws://{address}{path}").into_client_request()?;
    request.headers_mut().insert("sec-websocket-protocol", name.parse()?);
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let config = WebSocketConfig::default().read_buffer_size(4096).write_buffer_size(0);
    let (mut socket, _) = client_async_with_config(request, stream, Some(config)).await?;
    let query = format!(
        "subscription ($groupId: ID!, $domain: String!) {{ onMessageInGroup(groupId: $groupId, domain: $domain) {{ {SELECTION} }} }}"
    );
    let operation = json!({"query": query, "variables": {"groupId": group, "domain": DOMAIN}});
    tell(&mut socket, &json!({"type": "connection_init"})).await?;
    wait_for(&mut socket, "connection_ack").await?;
    match protocol {
        Protocol::AppSync => {
            let extensions = json!({ "authorization": authorization });
            let payload = json!({"data": operation.to_string(), "extensions": extensions});
            tell(&mut socket, &json!({"id": "1", "type": "start", "payload": payload})).await?;
            wait_for(&mut socket, "start_ack").await?;
        }
        Protocol::GraphqlWs => {
            tell(&mut socket, &json!({"id": "1", "type": "subscribe", "payload": operation})).await?;
            // The protocol has no acknowledgement. The answer to a later ping stands for it.
            tell(&mut socket, &json!({"type": "ping"})).await?;
            wait_for(&mut socket, "pong").await?;
        }
    }
    Ok(socket)
}

async fn tell(socket: &mut Socket, message: &Value) -> Result<()> {
    Ok(socket.send(Message::Text(message.to_string().into())).await?)
}

async fn wait_for(socket: &mut Socket, kind: &str) -> Result<()> {
    while let Some(message) = socket.next().await {
        if let Message::Text(text) = message? {
            let message: Value = serde_json::from_str(text.as_str())?;
            if message["type"] == kind {
                return Ok(());
            }
            if message["type"] != "ka" {
                return Err(message.to_string().into());
            }
        }
    }
    Err(format!("no {kind}").into())
}

/// Notes for every message how long it took.
async fn listen(mut socket: Socket, protocol: Protocol, heard: Arc<Heard>, number: usize) {
    const STAMP: &str = "\"timestamp\":\"";
    let kind = match protocol {
        Protocol::AppSync => "\"type\":\"data\"",
        Protocol::GraphqlWs => "\"type\":\"next\"",
    };
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else { continue };
        let text = text.as_str();
        // Reading the whole of it would measure this client's JSON reader.
        if !text.contains(kind) {
            continue;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let stamp = stamp(text, STAMP).unwrap_or(now);
        let took = u64::try_from(now.saturating_sub(stamp).as_micros()).unwrap_or(u64::MAX);
        heard.times[number].lock().await.push(took);
        heard.count.fetch_add(1, Ordering::SeqCst);
    }
}

/// The server's stamp of a message: the last one, which is not an event's.
fn stamp(text: &str, marker: &str) -> Option<Duration> {
    let at = text
        .match_indices(marker)
        .filter_map(|(at, _)| text.get(at + marker.len()..)?.split('"').next()?.parse::<jiff::Timestamp>().ok())
        .max()?;
    Some(Duration::from_millis(u64::try_from(at.as_millisecond()).ok()?))
}
